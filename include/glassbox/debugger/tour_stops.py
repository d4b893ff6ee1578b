"""The stops of `glass tour`: what one must have seen in a language model, one after the other.

Blocks are separated by empty lines. `stage` and `layer` say where to run; `do` lines are commands that the tour types.
"""

STOPS = """
title: The text has become numbers
stage: input_ids
look: A model knows no letters. Each piece of the prompt is the number of a row in its vocabulary; the begin token comes first.
do: tokens
do: why input_ids
question: What is the shape of a language model's input, and what are its axes?
answer: [batch, seq]: texts side by side, and the tokens of each. In the prefill seq is the whole prompt, in a decode step 1.

title: The mask in its four forms
stage: additive_mask
look: attention_mask says which tokens are real, causal_mask also forbids the future, additive_mask is 0 or -inf for the softmax. Same rule, four shapes.
do: show attention_mask
do: show expanded_mask
do: show causal_mask
do: show additive_mask
question: Why is the mask added to the scores instead of multiplied into the weights?
answer: exp(-inf) is exactly 0, so the forbidden keys get no share and the shares of the others still sum to 1.

title: From one vector to heads
stage: query_heads
layer: 0
look: q_proj gave [batch, seq, heads*head_dim]. Split and transposed, each head has a matrix of its own.
do: show q_proj_output[0, :, 0:4]
do: show query_heads[0, 0, :, 0:4]
do: why query_heads
question: Is splitting into heads a view or a copy?
answer: The split is a view, the transposition that follows moves memory: neighbouring numbers of one head were heads*head_dim apart from token to token.

title: The cache
stage: cached_keys
layer: 0
look: The keys of all tokens so far, after rotation. The next step appends one row to each head and computes nothing of these again.
do: why cached_keys
do: stats cached_keys
question: How many bytes does the cache take?
answer: 2 (keys and values) * layers * batch * kv_heads * length * head_dim * bytes of a number.

title: Who looks at whom
stage: attn_weights
layer: 0
look: Each row is one query: its shares over the keys sum to 1, and the upper triangle is exactly 0.
do: heat attn_weights[0, 0]
do: show attn_weights[0, 0]
do: why attn_weights
question: What is the cost of attention in the length of the text?
answer: This matrix: seq times seq numbers for every head and layer, so it grows with the square of the length.

title: What it would say here
stage: layer_output
layer: 0
look: The residual stream after the first layer, read as if it were the last: the final norm and the LM head on it.
do: lens
question: What does the residual stream carry?
answer: One vector a token, to which every layer adds; the LM head reads the last one. Between the layers it already leans towards an answer.

title: The answer
stage: logits
look: One number for every entry of the vocabulary; the sampler makes a choice of them.
do: why logits
do: stats
question: Why are the logits of the last position enough to choose the next token?
answer: Position i has seen the tokens up to i and predicts token i + 1; only the last position predicts what is not there yet.
"""
