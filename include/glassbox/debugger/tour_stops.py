"""The stops of `glass tour`: what one must have seen in a language model, one after the other. docs/tour.md and docs/zh/tour.md
are made from this text (tests/debugger/tour_pages.py).

Blocks are separated by empty lines. `stage` and `layer` say where to run, `program` in which example (any that generates, if none
is said); `do` lines are commands that the tour types.
"""

# What stands before the texts of a stop
LABELS = {'en': ('Look', 'They ask', 'You say'), 'zh': ('看', '面试官问', '你回答')}

STOPS = """
title: The model in memory
title_zh: 内存里的模型
stage: input_ids
look: Loading made two things of the files: a configuration, a dozen numbers that decide every shape, and the weights, matrices [out, in]. One row of the embedding is one token; 525 is "_Once".
look_zh: 加载得到两样东西：配置（十几个数，决定所有形状）和权重（[out, in] 的矩阵）。嵌入矩阵的一行就是一个词元；525 是 “_Once”。
do: config
do: show embed_tokens.weight[525, 0:4]
question: Which numbers of the configuration decide how large the model is, and which how large its cache is?
question_zh: 配置里的哪些数决定模型的大小？哪些数决定缓存的大小？
answer: vocab_size, hidden_size, intermediate_size and num_hidden_layers the weights; num_hidden_layers, num_key_value_heads, head_dim and the length of the text the cache.
answer_zh: 权重由 vocab_size、hidden_size、intermediate_size、num_hidden_layers 决定；缓存由 num_hidden_layers、num_key_value_heads、head_dim 和文本长度决定。

title: The text has become numbers
title_zh: 文本变成了数字
stage: input_ids
look: A model knows no letters. Each piece of the prompt is the number of a row in its vocabulary; the begin token comes first.
look_zh: 模型不认识字母。提示词的每一片都是词表里的行号；最前面是起始词元。
do: tokens
do: why input_ids
question: What is the shape of a language model's input, and what are its axes?
question_zh: 语言模型的输入是什么形状？各轴是什么？
answer: [batch, seq]: texts side by side, and the tokens of each. In the prefill seq is the whole prompt, in a decode step 1.
answer_zh: [batch, seq]：并排的文本，以及每个文本的词元。预填充时 seq 是整个提示词，解码一步时是 1。

title: The mask in its four forms
title_zh: 掩码的四种形式
stage: additive_mask
look: attention_mask says which tokens are real, causal_mask also forbids the future, additive_mask is 0 or -inf for the softmax. Same rule, four shapes.
look_zh: attention_mask 说明哪些词元是真的，causal_mask 还禁止看未来，additive_mask 用 0 或 -inf 交给 softmax。同一条规则，四种形状。
do: show attention_mask
do: show expanded_mask
do: show causal_mask
do: show additive_mask
question: Why is the mask added to the scores instead of multiplied into the weights?
question_zh: 为什么掩码是加到 scores 上，而不是乘到权重上？
answer: exp(-inf) is exactly 0, so the forbidden keys get no share and the shares of the others still sum to 1.
answer_zh: exp(-inf) 恰好是 0，被禁止的键分不到份额，其余的份额之和仍然是 1。

title: From one vector to heads
title_zh: 从一个向量到多个头
stage: query_heads
layer: 0
look: q_proj gave [batch, seq, heads*head_dim]. Split and transposed, each head has a matrix of its own.
look_zh: q_proj 给出 [batch, seq, heads*head_dim]。拆分并转置之后，每个头都有自己的矩阵。
do: show q_proj_output[0, :, 0:4]
do: show query_heads[0, 0, :, 0:4]
do: why query_heads
question: Is splitting into heads a view or a copy?
question_zh: 拆成多个头是视图还是拷贝？
answer: The split is a view, the transposition that follows moves memory: neighbouring numbers of one head were heads*head_dim apart from token to token.
answer_zh: 拆分是视图，随后的转置要搬动内存：同一个头的数，相邻词元之间原来相隔 heads*head_dim。

title: The cache
title_zh: 缓存
stage: cached_keys
layer: 0
look: The keys of all tokens so far, after rotation. The next step appends one row to each head and computes nothing of these again.
look_zh: 到目前为止所有词元的键（旋转之后）。下一步只给每个头添一行，已有的都不再计算。
do: show cached_keys[0, 0, :, 0:4]
do: stats cached_keys
do: why cached_keys
question: How many bytes does the cache take?
question_zh: 缓存占多少字节？
answer: 2 (keys and values) * layers * batch * kv_heads * length * head_dim * bytes of a number.
answer_zh: 2（键和值）* 层数 * batch * kv_heads * 长度 * head_dim * 每个数的字节数。

title: Who looks at whom
title_zh: 谁在看谁
stage: attn_weights
layer: 0
look: Each row is one query: its shares over the keys sum to 1, and the upper triangle is exactly 0.
look_zh: 每一行是一个查询：它在各个键上的份额之和是 1，上三角恰好是 0。
do: show attn_weights[0, 0]
do: heat attn_weights[0, 0]
do: why attn_weights
question: What is the cost of attention in the length of the text?
question_zh: 注意力的代价怎样随文本长度增长？
answer: This matrix: seq times seq numbers for every head and layer, so it grows with the square of the length.
answer_zh: 就是这个矩阵：每层每个头有 seq 乘 seq 个数，所以随长度的平方增长。

title: What it would say here
title_zh: 在这里它会说什么
stage: layer_output
layer: 0
look: The residual stream after the first layer, read as if it were the last: the final norm and the LM head on it.
look_zh: 第一层之后的残差流，当作最后一层来读：经过最后的 norm 和 LM head。
do: show layer_output[0, :, 0:4]
do: lens
question: What does the residual stream carry?
question_zh: 残差流里装的是什么？
answer: One vector a token, to which every layer adds; the LM head reads the last one. Between the layers it already leans towards an answer.
answer_zh: 每个词元一个向量，每一层都往上加；LM head 读最后一个。在层与层之间它已经偏向某个答案。

title: The answer
title_zh: 答案
stage: logits
look: One number for every entry of the vocabulary; the sampler makes a choice of them. 748 is the comma.
look_zh: 词表的每一项一个数；采样器从中选择。748 是逗号。
do: show logits[0, 0, 746:750]
do: stats
do: why logits
question: Why are the logits of the last position enough to choose the next token?
question_zh: 为什么只要最后一个位置的 logits 就能选出下一个词元？
answer: Position i has seen the tokens up to i and predicts token i + 1; only the last position predicts what is not there yet.
answer_zh: 位置 i 看到了 i 为止的词元，预测第 i + 1 个；只有最后一个位置预测还不存在的那个。

title: The answer is the text itself
title_zh: 答案就是文本本身
program: 14_backward
stage: shifted_labels
look: Training asks at every position for the next token. The labels are the text; moved one to the left, each stands where it is to be predicted. -100 does not count: nothing follows the last position.
look_zh: 训练在每个位置都问下一个词元。标签就是文本本身；左移一位后，每个标签正好站在该预测它的位置上。-100 不计入损失：最后一个位置后面没有词元。
do: show labels
do: show shifted_labels
question: Why are labels shifted, and where does it happen?
question_zh: 标签为什么要移位？在哪里移？
answer: The logits of position s are about token s + 1. It happens once, in the loss; shifted twice or not at all, the model learns to skip or to repeat.
answer_zh: 位置 s 的 logits 说的是第 s + 1 个词元。移位只在损失里做一次；移两次模型学会跳词，不移则学会重复。

title: The loss
title_zh: 损失
program: 14_backward
stage: loss
look: token_losses is -log of the probability that each position gave to its label: 0 would be certainty. The loss is their mean over the positions that count, here four of five.
look_zh: token_losses 是每个位置给标签的概率取 -log：0 表示完全确定。损失是计入的位置上的平均，这里五个位置里有四个。
do: show result.token_losses
do: show loss
do: why loss
question: Over what is the mean of the loss taken, and what would go wrong otherwise?
question_zh: 损失对什么取平均？不这样会怎样？
answer: Over the labels that are not -100. Over all positions it would be smaller the more padding or masked prompt a batch has, and the step with it.
answer_zh: 对不是 -100 的标签。若对所有位置取平均，填充或被屏蔽的提示词越多损失就越小，步长也跟着变小。

title: The first gradient
title_zh: 第一个梯度
program: 14_backward
stage: d_logits
look: softmax minus one at the label, divided by the four positions that count. At position 0 the label is 525, "_Once": its logit is to grow, so its gradient is negative; all others are to shrink.
look_zh: softmax 在标签处减一，再除以计入的四个位置。位置 0 的标签是 525，“_Once”：它的 logit 应该变大，所以梯度为负；其余都应变小。
do: show d_logits[0, 0, 524:528]
do: why d_logits
question: What is the gradient of softmax and cross entropy together?
question_zh: softmax 加交叉熵合起来的梯度是什么？
answer: (softmax(logits) - one_hot(label)) / counted. Each row sums to zero, and no logarithm or division is left that could overflow.
answer_zh: (softmax(logits) - one_hot(label)) / 计入的位置数。每行之和为零，也不再有会溢出的对数或除法。

title: Back through a matrix
title_zh: 穿过一个矩阵往回走
program: 14_backward
stage: d_norm
look: The LM head was norm . weight^T, so its input's gradient is d_logits . weight: 1000 numbers a position become 128 again. The same line gave the weight's gradient, d_logits^T . norm.
look_zh: LM head 是 norm . weight^T，所以输入的梯度是 d_logits . weight：每个位置的 1000 个数又变回 128 个。同一行也给出了权重的梯度 d_logits^T . norm。
do: show d_norm[0, 0, 0:4]
do: why d_norm
question: Backward of y = x W^T: which two products, and of which shapes?
question_zh: y = x W^T 的反向：哪两个乘积？形状各是什么？
answer: d_x = d_y W, [rows, out] . [out, in]; d_W = d_y^T x, [out, rows] . [rows, in], summed over all positions. Hence backward costs twice the forward.
answer_zh: d_x = d_y W，即 [rows, out] . [out, in]；d_W = d_y^T x，即 [out, rows] . [rows, in]，对所有位置求和。所以反向的计算量是前向的两倍。
"""
