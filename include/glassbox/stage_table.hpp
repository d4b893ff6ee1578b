// The stage table: what every value on the way from text to token is, where it comes from, and why it has the
// shape it has. Read by walk, the documentation, the debuggers' `why` and the viewer. The names are those of
// stage(). This header is a table, so it is longer than the others; nothing here is computed.
#pragma once

#include <string>
#include <string_view>

#include "glassbox/error.hpp"

namespace glassbox {

// Where on the way a stage lies.
enum class StageGroup {
  input,     // once per forward pass, before the layers
  layer,     // in every decoder layer
  head,      // once per forward pass, after the layers
  choosing,  // once per new token
  learning   // in training
};

struct StageRow {
  const char* name;  // of the stage, the variable, the viewer's label
  StageGroup group;
  const char* axes;          // in memory order; "1" is an axis of one element, shared by all along it
  const char* from;          // the stages (or weights) it is computed from
  const char* module;        // who computes it
  const char* formula;       // in the code's names
  const char* why;           // what it is for and why its shape is what it is
  const char* transformers;  // the name there (Llama), "-" where it has none
  const char* llama_cpp;     // likewise
  const char* when;          // "" every model and setting; else which ones compute it
};

inline constexpr StageRow stage_table[] = {
    // ---- before the layers ----
    {
        .name = "text",
        .group = StageGroup::input,
        .axes = "a string",
        .from = "the user",
        .module = "the program",
        .formula = "text = what was typed",
        .why = "A model knows no letters. The text is first cut into pieces that occur in its vocabulary.",
        .transformers = "text",
        .llama_cpp = "text",
        .when = "programs that begin with text; it is no tensor and passes no stage()",
    },
    {
        .name = "pieces",
        .group = StageGroup::input,
        .axes = "a list of strings",
        .from = "text",
        .module = "Tokenizer::encode",
        .formula = "pieces = the text, cut into entries of the vocabulary",
        .why = "Frequent words are one piece, rare ones several, a character without a piece is spelled in "
               "bytes: a vocabulary of a few thousand entries covers every text. Usually there are fewer "
               "pieces than letters, so the model takes fewer steps.",
        .transformers = "tokens (tokenizer.tokenize)",
        .llama_cpp = "token pieces",
        .when = "programs that begin with text; it is no tensor and passes no stage()",
    },
    {
        .name = "input_ids",
        .group = StageGroup::input,
        .axes = "[batch, seq]",
        .from = "pieces",
        .module = "Tokenizer, Generator",
        .formula = "input_ids[b, s] = number of piece s of text b in the vocabulary",
        .why = "The prefill feeds the whole prompt at once, so seq is its length, the begin token included; "
               "each decode step feeds one token, so seq is 1: all the earlier ones are in the cache.",
        .transformers = "input_ids",
        .llama_cpp = "tokens",
        .when = "",
    },
    {
        .name = "attention_mask",
        .group = StageGroup::input,
        .axes = "[batch, seq]",
        .from = "padding of the batch",
        .module = "Generator, left_pad",
        .formula = "attention_mask[b, s] = 1 for a token, 0 for padding",
        .why = "Texts of different length share one tensor, so the shorter ones are padded; nobody may look "
               "at the padding. It covers the tokens in the cache too, so that in a decode step it is longer "
               "than input_ids.",
        .transformers = "attention_mask",
        .llama_cpp = "-",
        .when = "",
    },
    {
        .name = "position_ids",
        .group = StageGroup::input,
        .axes = "[batch, seq]",
        .from = "attention_mask",
        .module = "position_ids_from_mask",
        .formula = "position_ids[b, s] = number of tokens, without padding, before token s",
        .why = "Attention itself does not see order, so each token is told its place. Counting goes on after "
               "the cache: the first decode step after a prompt of P tokens is position P.",
        .transformers = "position_ids",
        .llama_cpp = "inp_pos",
        .when = "",
    },
    {
        .name = "inputs_embeds",
        .group = StageGroup::input,
        .axes = "[batch, seq, hidden]",
        .from = "input_ids, model.embed_tokens.weight",
        .module = "Embedding::forward",
        .formula = "inputs_embeds[b, s, :] = embed_tokens.weight[input_ids[b, s], :]",
        .why = "Each id picks its row of a table, hidden numbers that training has placed near those of "
               "similar tokens. The new axis hidden is the width of everything that flows from layer to "
               "layer.",
        .transformers = "inputs_embeds",
        .llama_cpp = "inp_embd",
        .when = "",
    },
    {
        .name = "cos",
        .group = StageGroup::input,
        .axes = "[batch, seq, head_dim]",
        .from = "position_ids, inv_freq",
        .module = "RotaryEmbedding::forward",
        .formula = "cos[b, s, i] = cos(position_ids[b, s] * inv_freq[i % (head_dim / 2)])",
        .why = "Each pair of numbers in a head is a hand of a clock, with a speed of its own, that turns "
               "with the position. head_dim / 2 angles, each written twice since both numbers of a pair (i, "
               "i + head_dim / 2) turn by the same. No head axis: all heads and layers share them.",
        .transformers = "cos",
        .llama_cpp = "- (inside rope)",
        .when = "",
    },
    {
        .name = "sin",
        .group = StageGroup::input,
        .axes = "[batch, seq, head_dim]",
        .from = "position_ids, inv_freq",
        .module = "RotaryEmbedding::forward",
        .formula = "sin[b, s, i] = sin(position_ids[b, s] * inv_freq[i % (head_dim / 2)])",
        .why = "The other half of the rotation: turning a pair takes both its cosine and its sine.",
        .transformers = "sin",
        .llama_cpp = "- (inside rope)",
        .when = "",
    },
    {
        .name = "expanded_mask",
        .group = StageGroup::input,
        .axes = "[batch, 1, 1, key]",
        .from = "attention_mask",
        .module = "expand_mask",
        .formula = "expanded_mask[b, 0, 0, j] = (attention_mask[b, j] == 1)",
        .why = "The same mask as booleans, with two axes of one element: whether a key is padding is the "
               "same for every head and every query.",
        .transformers = "attention_mask[:, None, None, :]",
        .llama_cpp = "-",
        .when = "",
    },
    {
        .name = "causal_mask",
        .group = StageGroup::input,
        .axes = "[batch, 1, query, key]",
        .from = "expanded_mask",
        .module = "make_causal_mask",
        .formula = "causal_mask[b, 0, i, j] = expanded_mask[b, 0, 0, j] and j <= past + i, with past = key - "
                   "query",
        .why = "A token may look at itself and at what is before it, never ahead: it is to predict what "
               "follows. Now the answer depends on the query too, so that axis has its full length; a prompt "
               "of n tokens gives a triangle, a decode step a single row.",
        .transformers = "causal_mask (boolean form)",
        .llama_cpp = "-",
        .when = "",
    },
    {
        .name = "additive_mask",
        .group = StageGroup::input,
        .axes = "[batch, 1, query, key]",
        .from = "causal_mask",
        .module = "make_additive_mask",
        .formula = "additive_mask = 0 where causal_mask is true, -infinity where it is false",
        .why = "The scores are about to go through exp, and exp(-infinity) is exactly 0: adding this mask "
               "forbids a key without any special case. Transformers writes the most negative finite number "
               "instead of -infinity.",
        .transformers = "causal_mask (additive form)",
        .llama_cpp = "KQ_mask",
        .when = "",
    },

    // ---- in every layer ----
    {
        .name = "residual",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "inputs_embeds, or layer_output of the layer before",
        .module = "DecoderLayer::forward",
        .formula = "residual = hidden_states that enter the layer",
        .why = "The residual stream: one vector per token that goes through all layers. A layer does not "
               "replace it, it adds to it, so all layers work on the same [batch, seq, hidden].",
        .transformers = "residual (first)",
        .llama_cpp = "inpL",
        .when = "",
    },
    {
        .name = "input_layernorm",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "residual, input_layernorm.weight",
        .module = "RMSNorm::forward",
        .formula = "input_layernorm[b, s, i] = x_i / sqrt(mean(x^2) + eps) * weight_i, with x = residual[b, "
                   "s, :]",
        .why = "The residual stream grows from layer to layer; scaled to a root mean square of 1, each layer "
               "gets numbers of the same size. Every token by itself, so the shape stays.",
        .transformers = "output of input_layernorm",
        .llama_cpp = "attn_norm",
        .when = "",
    },
    {
        .name = "q_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, heads*head_dim]",
        .from = "input_layernorm, self_attn.q_proj.weight",
        .module = "Linear::forward",
        .formula = "q_proj[b, s, o] = sum_i input_layernorm[b, s, i] * q_proj.weight[o, i] (+ bias[o])",
        .why = "What each token asks of the others: its queries, for all heads side by side. heads*head_dim "
               "is often equal to hidden, but need not be.",
        .transformers = "output of q_proj",
        .llama_cpp = "Qcur",
        .when = "",
    },
    {
        .name = "k_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, kv_heads*head_dim]",
        .from = "input_layernorm, self_attn.k_proj.weight",
        .module = "Linear::forward",
        .formula = "k_proj[b, s, o] = sum_i input_layernorm[b, s, i] * k_proj.weight[o, i] (+ bias[o])",
        .why = "What each token offers to be found by: its keys. With grouped-query attention there are "
               "fewer key heads than query heads, so this is narrower than q_proj: keys are kept in the "
               "cache, and fewer of them need less memory.",
        .transformers = "output of k_proj",
        .llama_cpp = "Kcur",
        .when = "",
    },
    {
        .name = "v_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, kv_heads*head_dim]",
        .from = "input_layernorm, self_attn.v_proj.weight",
        .module = "Linear::forward",
        .formula = "v_proj[b, s, o] = sum_i input_layernorm[b, s, i] * v_proj.weight[o, i] (+ bias[o])",
        .why = "What each token hands over when it is looked at: its values, one for each key.",
        .transformers = "output of v_proj",
        .llama_cpp = "Vcur",
        .when = "",
    },
    {
        .name = "query_heads",
        .group = StageGroup::layer,
        .axes = "[batch, head, seq, head_dim]",
        .from = "q_proj",
        .module = "split_heads",
        .formula = "query_heads[b, h, s, d] = q_proj[b, s, h * head_dim + d]",
        .why = "The last axis is cut into heads, and head goes before seq, so that each head's [seq, "
               "head_dim] is a matrix of its own: heads work side by side without knowing of each other.",
        .transformers = "query_states before apply_rotary_pos_emb",
        .llama_cpp = "Qcur",
        .when = "",
    },
    {
        .name = "key_heads",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, seq, head_dim]",
        .from = "k_proj",
        .module = "split_heads",
        .formula = "key_heads[b, h, s, d] = k_proj[b, s, h * head_dim + d]",
        .why = "As query_heads, with as many heads as there are keys.",
        .transformers = "key_states before apply_rotary_pos_emb",
        .llama_cpp = "Kcur",
        .when = "",
    },
    {
        .name = "value_states",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, seq, head_dim]",
        .from = "v_proj",
        .module = "split_heads",
        .formula = "value_states[b, h, s, d] = v_proj[b, s, h * head_dim + d]",
        .why = "As key_heads. Values are not rotated: position decides whom a token looks at, not what it "
               "gets from there.",
        .transformers = "value_states",
        .llama_cpp = "Vcur",
        .when = "",
    },
    {
        .name = "q_norm",
        .group = StageGroup::layer,
        .axes = "[batch, head, seq, head_dim]",
        .from = "query_heads, self_attn.q_norm.weight",
        .module = "RMSNorm::forward",
        .formula = "q_norm[b, h, s, i] = x_i / sqrt(mean(x^2) + eps) * weight_i, with x = query_heads[b, h, "
                   "s, :]",
        .why = "Every query of every head is scaled by itself, so that no score grows out of bounds.",
        .transformers = "output of q_norm",
        .llama_cpp = "Qcur_normed",
        .when = "Qwen3 models, which this version does not load",
    },
    {
        .name = "k_norm",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, seq, head_dim]",
        .from = "key_heads, self_attn.k_norm.weight",
        .module = "RMSNorm::forward",
        .formula = "k_norm[b, h, s, i] = x_i / sqrt(mean(x^2) + eps) * weight_i, with x = key_heads[b, h, s, "
                   ":]",
        .why = "As q_norm, for the keys.",
        .transformers = "output of k_norm",
        .llama_cpp = "Kcur_normed",
        .when = "Qwen3 models, which this version does not load",
    },
    {
        .name = "query_states",
        .group = StageGroup::layer,
        .axes = "[batch, head, seq, head_dim]",
        .from = "query_heads, cos, sin",
        .module = "apply_rotary_pos_emb",
        .formula = "query_states = query_heads * cos + rotate_half(query_heads) * sin",
        .why = "Each pair of numbers is turned by its position's angle. The dot product of a turned query "
               "and a turned key depends on the difference of their positions only. Turning changes no "
               "length and no shape.",
        .transformers = "query_states after apply_rotary_pos_emb",
        .llama_cpp = "Qcur (after rope)",
        .when = "",
    },
    {
        .name = "key_states",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, seq, head_dim]",
        .from = "key_heads, cos, sin",
        .module = "apply_rotary_pos_emb",
        .formula = "key_states = key_heads * cos + rotate_half(key_heads) * sin",
        .why = "The keys of the new tokens, turned like the queries. In this form they go into the cache: a "
               "key's position never changes, so it is turned once.",
        .transformers = "key_states after apply_rotary_pos_emb",
        .llama_cpp = "Kcur (after rope)",
        .when = "",
    },
    {
        .name = "cached_keys",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, key, head_dim]",
        .from = "key_states, the cache",
        .module = "LayerKVCache::append",
        .formula = "cached_keys = keys of all earlier tokens, then key_states, along the key axis",
        .why = "The axis seq has become key: all tokens so far, the new ones last. Without the cache every "
               "step would compute all of them again.",
        .transformers = "past_key_values.update()",
        .llama_cpp = "k (view of the cache)",
        .when = "",
    },
    {
        .name = "cached_values",
        .group = StageGroup::layer,
        .axes = "[batch, kv_head, key, head_dim]",
        .from = "value_states, the cache",
        .module = "LayerKVCache::append",
        .formula = "cached_values = values of all earlier tokens, then value_states, along the key axis",
        .why = "One value for each key, in the same order.",
        .transformers = "past_key_values.update()",
        .llama_cpp = "v (view of the cache)",
        .when = "",
    },
    {
        .name = "scores",
        .group = StageGroup::layer,
        .axes = "[batch, head, query, key]",
        .from = "query_states, cached_keys",
        .module = "scaled_scores",
        .formula = "scores[b, h, i, j] = query_states[b, h, i, :] . cached_keys[b, h / groups, j, :] / "
                   "sqrt(head_dim)",
        .why = "How well each query fits each key: head_dim is summed away, and every pair of tokens has one "
               "number, in every head. groups = heads / kv_heads neighbouring query heads share a key head. "
               "A sum of head_dim products is about sqrt(head_dim) large, hence the divisor.",
        .transformers = "attn_weights before the mask",
        .llama_cpp = "kq",
        .when = "attn_implementation eager",
    },
    {
        .name = "masked_scores",
        .group = StageGroup::layer,
        .axes = "[batch, head, query, key]",
        .from = "scores, additive_mask",
        .module = "add_mask",
        .formula = "masked_scores[b, h, i, j] = scores[b, h, i, j] + additive_mask[b, 0, i, j]",
        .why = "What must not be looked at becomes -infinity, the rest stays: one mask for all heads.",
        .transformers = "attn_weights after the mask",
        .llama_cpp = "kq (masked)",
        .when = "attn_implementation eager",
    },
    {
        .name = "attn_weights",
        .group = StageGroup::layer,
        .axes = "[batch, head, query, key]",
        .from = "masked_scores",
        .module = "softmax",
        .formula = "attn_weights[b, h, i, j] = exp(masked_scores[b, h, i, j]) / sum_k exp(masked_scores[b, "
                   "h, i, k])",
        .why = "Scores become shares: no share is negative, each row sums to 1, forbidden keys get exactly "
               "0. This "
               "is the picture of who looks at whom.",
        .transformers = "attn_weights",
        .llama_cpp = "kq_soft_max",
        .when = "attn_implementation eager",
    },
    {
        .name = "context",
        .group = StageGroup::layer,
        .axes = "[batch, head, query, head_dim]",
        .from = "attn_weights, cached_values",
        .module = "weighted_values",
        .formula =
            "context[b, h, i, :] = sum_j attn_weights[b, h, i, j] * cached_values[b, h / groups, j, :]",
        .why = "Each query takes the mean of the values, weighted by its shares: key is summed away, and "
               "head_dim is back. What was gathered from the other tokens is now in this one.",
        .transformers = "attn_output before o_proj",
        .llama_cpp = "kqv",
        .when = "",
    },
    {
        .name = "merged_heads",
        .group = StageGroup::layer,
        .axes = "[batch, seq, heads*head_dim]",
        .from = "context",
        .module = "merge_heads",
        .formula = "merged_heads[b, s, h * head_dim + d] = context[b, h, s, d]",
        .why = "The heads of a token are put side by side again: the inverse of query_heads' splitting.",
        .transformers = "attn_output after reshape",
        .llama_cpp = "kqv_merged",
        .when = "",
    },
    {
        .name = "attn_output",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "merged_heads, self_attn.o_proj.weight",
        .module = "Linear::forward",
        .formula = "attn_output[b, s, o] = sum_i merged_heads[b, s, i] * o_proj.weight[o, i] (+ bias[o])",
        .why = "Mixes what the heads found and brings it back to the width of the residual stream.",
        .transformers = "attn_output after o_proj",
        .llama_cpp = "kqv_out",
        .when = "",
    },
    {
        .name = "attn_residual",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "residual, attn_output",
        .module = "add",
        .formula = "attn_residual = residual + attn_output",
        .why = "The attention's contribution is added to the stream, which keeps what it had. In training "
               "this sum lets the gradient through undiminished.",
        .transformers = "hidden_states (residual + attn_output)",
        .llama_cpp = "ffn_inp",
        .when = "",
    },
    {
        .name = "post_attention_layernorm",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "attn_residual, post_attention_layernorm.weight",
        .module = "RMSNorm::forward",
        .formula = "post_attention_layernorm[b, s, i] = x_i / sqrt(mean(x^2) + eps) * weight_i, with x = "
                   "attn_residual[b, s, :]",
        .why = "The norm before the feed-forward; its name only says that it comes after the attention.",
        .transformers = "output of post_attention_layernorm",
        .llama_cpp = "ffn_norm",
        .when = "",
    },
    {
        .name = "gate_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, intermediate]",
        .from = "post_attention_layernorm, mlp.gate_proj.weight",
        .module = "Linear::forward",
        .formula = "gate_proj[b, s, o] = sum_i post_attention_layernorm[b, s, i] * gate_proj.weight[o, i] (+ "
                   "bias[o])",
        .why = "The feed-forward looks at every token by itself, in a wider space: intermediate detectors, "
               "each of which decides how far its gate opens.",
        .transformers = "output of gate_proj",
        .llama_cpp = "ffn_gate",
        .when = "",
    },
    {
        .name = "up_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, intermediate]",
        .from = "post_attention_layernorm, mlp.up_proj.weight",
        .module = "Linear::forward",
        .formula = "up_proj[b, s, o] = sum_i post_attention_layernorm[b, s, i] * up_proj.weight[o, i] (+ "
                   "bias[o])",
        .why = "What passes through the gates: one number for each gate, hence the same shape.",
        .transformers = "output of up_proj",
        .llama_cpp = "ffn_up",
        .when = "",
    },
    {
        .name = "activated",
        .group = StageGroup::layer,
        .axes = "[batch, seq, intermediate]",
        .from = "gate_proj",
        .module = "silu",
        .formula = "activated = gate_proj / (1 + exp(-gate_proj))",
        .why = "The only curve in the feed-forward: without it all its matrices would amount to a single "
               "one. Large negative numbers become almost 0 (closed), large positive ones stay (open).",
        .transformers = "output of act_fn",
        .llama_cpp = "ffn_silu",
        .when = "",
    },
    {
        .name = "gated",
        .group = StageGroup::layer,
        .axes = "[batch, seq, intermediate]",
        .from = "activated, up_proj",
        .module = "multiply_elementwise",
        .formula = "gated = activated * up_proj, number by number",
        .why = "Each gate scales its number.",
        .transformers = "act_fn(gate_proj(x)) * up_proj(x)",
        .llama_cpp = "ffn_gate_par",
        .when = "",
    },
    {
        .name = "down_proj",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "gated, mlp.down_proj.weight",
        .module = "Linear::forward",
        .formula = "down_proj[b, s, o] = sum_i gated[b, s, i] * down_proj.weight[o, i] (+ bias[o])",
        .why = "Each detector that is open writes its column of knowledge; back to the width of the residual "
               "stream.",
        .transformers = "output of down_proj",
        .llama_cpp = "ffn_out",
        .when = "",
    },
    {
        .name = "layer_output",
        .group = StageGroup::layer,
        .axes = "[batch, seq, hidden]",
        .from = "attn_residual, down_proj",
        .module = "add",
        .formula = "layer_output = attn_residual + down_proj",
        .why = "The stream after this layer, and the residual of the next one.",
        .transformers = "hidden_states (output of the decoder layer)",
        .llama_cpp = "l_out",
        .when = "",
    },

    // ---- after the layers ----
    {
        .name = "norm",
        .group = StageGroup::head,
        .axes = "[batch, seq, hidden]",
        .from = "layer_output of the last layer, model.norm.weight",
        .module = "RMSNorm::forward",
        .formula = "norm[b, s, i] = x_i / sqrt(mean(x^2) + eps) * weight_i, with x = layer_output[b, s, :]",
        .why = "The last norm: the head gets vectors of one size, whatever the layers have added up.",
        .transformers = "output of model.norm",
        .llama_cpp = "result_norm",
        .when = "",
    },
    {
        .name = "logits",
        .group = StageGroup::head,
        .axes = "[batch, seq, vocab]",
        .from = "norm, lm_head.weight or model.embed_tokens.weight",
        .module = "LMHead::forward",
        .formula = "logits[b, s, t] = norm[b, s, :] . lm_head.weight[t, :]",
        .why = "One number for each token of the vocabulary: how well it would follow. hidden is summed "
               "away. A tied model uses the embedding table: the token whose vector points the same way fits "
               "best. While generating, only the last position is asked for, so seq is 1.",
        .transformers = "logits",
        .llama_cpp = "result_output",
        .when = "",
    },

    // ---- choosing the next token ----
    {
        .name = "penalized",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "logits of the last position, all ids so far",
        .module = "apply_repetition_penalty",
        .formula = "penalized[t] = logits[t] / penalty if positive, logits[t] * penalty if negative, for "
                   "each t that has occurred",
        .why = "batch and seq are gone: from here on one token of one text is chosen. What has occurred "
               "becomes less likely, whatever the sign of its logit.",
        .transformers = "RepetitionPenaltyLogitsProcessor",
        .llama_cpp = "penalties sampler",
        .when = "",
    },
    {
        .name = "blocked",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "penalized, all ids so far",
        .module = "block_repeated_ngrams",
        .formula = "blocked[t] = -infinity if t would complete a sequence of no_repeat_ngram_size tokens "
                   "that has occurred",
        .why = "Stops loops: the same sequence of n tokens does not come twice.",
        .transformers = "NoRepeatNGramLogitsProcessor",
        .llama_cpp = "-",
        .when = "",
    },
    {
        .name = "tempered",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "blocked",
        .module = "apply_temperature",
        .formula = "tempered = blocked / temperature; temperature 0: only the largest is left",
        .why = "Dividing by less than 1 pulls the logits apart (careful), by more than 1 together (daring). "
               "Their order stays.",
        .transformers = "TemperatureLogitsWarper",
        .llama_cpp = "temperature sampler",
        .when = "",
    },
    {
        .name = "top_k",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "tempered",
        .module = "keep_top_k",
        .formula = "top_k[t] = tempered[t] if it is at least the k-th largest, else -infinity",
        .why = "Only the k best stay, and those equal to the last of them. The shape stays: a token that is "
               "out has -infinity.",
        .transformers = "TopKLogitsWarper",
        .llama_cpp = "top-k sampler",
        .when = "",
    },
    {
        .name = "top_p",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "top_k",
        .module = "keep_top_p",
        .formula = "top_p[t] = top_k[t] if the probabilities of all likelier tokens sum to less than p, else "
                   "-infinity",
        .why = "Only the smallest set of the likeliest tokens that reaches the probability p stays: few "
               "where the model is sure, many where it is not.",
        .transformers = "TopPLogitsWarper",
        .llama_cpp = "top-p sampler",
        .when = "",
    },
    {
        .name = "min_p",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "top_p",
        .module = "keep_min_p",
        .formula = "min_p[t] = top_p[t] if its probability is at least min_p times the largest one, else "
                   "-infinity",
        .why = "Only what can compete with the favourite stays.",
        .transformers = "MinPLogitsWarper",
        .llama_cpp = "min-p sampler",
        .when = "",
    },
    {
        .name = "probabilities",
        .group = StageGroup::choosing,
        .axes = "[vocab]",
        .from = "min_p",
        .module = "softmax",
        .formula = "probabilities[t] = exp(min_p[t]) / sum_u exp(min_p[u])",
        .why = "What is left becomes probabilities that sum to 1; what was filtered out has exactly 0.",
        .transformers = "probs",
        .llama_cpp = "dist sampler",
        .when = "",
    },
    {
        .name = "coin",
        .group = StageGroup::choosing,
        .axes = "[draw]",
        .from = "the seed",
        .module = "RandomGenerator::next_uniform",
        .formula = "coin = a random number, 0 <= coin < 1",
        .why = "The only randomness in the whole model, one draw a token: the same seed gives the same text.",
        .transformers = "- (inside torch.multinomial)",
        .llama_cpp = "dist sampler",
        .when = "",
    },
    {
        .name = "next_token",
        .group = StageGroup::choosing,
        .axes = "[draw]",
        .from = "probabilities, coin",
        .module = "draw_token",
        .formula = "next_token = the lowest t with probabilities[0] + ... + probabilities[t] > coin * (sum "
                   "of all)",
        .why = "The probabilities laid end to end cover the line from 0 to 1; the coin points at one of "
               "them. The id found is the input of the next decode step.",
        .transformers = "next_tokens (torch.multinomial)",
        .llama_cpp = "llama_sampler_sample",
        .when = "",
    },

    // ---- GPT-2: instead of inputs_embeds; of q_proj, k_proj, v_proj; of gate_proj, up_proj ----
    {
        .name = "token_embeds",
        .group = StageGroup::input,
        .axes = "[batch, seq, hidden]",
        .from = "input_ids, wte.weight",
        .module = "Embedding::forward",
        .formula = "token_embeds[b, s, :] = wte.weight[input_ids[b, s], :]",
        .why = "As inputs_embeds of Llama; GPT-2 adds the positions here instead of rotating by them.",
        .transformers = "inputs_embeds (GPT-2)",
        .llama_cpp = "inp_embd",
        .when = "GPT-2 models, which this version does not load",
    },
    {
        .name = "position_embeds",
        .group = StageGroup::input,
        .axes = "[batch, seq, hidden]",
        .from = "position_ids, wpe.weight",
        .module = "Embedding::forward",
        .formula = "position_embeds[b, s, :] = wpe.weight[position_ids[b, s], :]",
        .why = "A learned vector for each position, added to the token's: the same width, or they could not "
               "be added.",
        .transformers = "position_embeds",
        .llama_cpp = "pos_embd",
        .when = "GPT-2 models, which this version does not load",
    },
    {
        .name = "c_attn",
        .group = StageGroup::layer,
        .axes = "[batch, seq, 3*hidden]",
        .from = "ln_1, attn.c_attn.weight",
        .module = "Linear::forward",
        .formula = "c_attn = ln_1 . weight + bias: queries, keys and values side by side",
        .why = "One product instead of three: the last axis holds all queries, then all keys, then all "
               "values.",
        .transformers = "output of c_attn",
        .llama_cpp = "wqkv",
        .when = "GPT-2 models, which this version does not load",
    },
    {
        .name = "c_fc",
        .group = StageGroup::layer,
        .axes = "[batch, seq, intermediate]",
        .from = "ln_2, mlp.c_fc.weight",
        .module = "Linear::forward",
        .formula = "c_fc = ln_2 . weight + bias",
        .why = "The way into the feed-forward, without a gate.",
        .transformers = "output of c_fc",
        .llama_cpp = "ffn_up",
        .when = "GPT-2 models, which this version does not load",
    },

    // ---- learning ----
    {
        .name = "labels",
        .group = StageGroup::learning,
        .axes = "[batch, seq]",
        .from = "input_ids",
        .module = "batch_of",
        .formula = "labels[b, s] = input_ids[b, s], or -100 where nothing is to be learned",
        .why = "The text itself is the answer. -100 marks padding and, where a model learns to answer, the "
               "prompt: these do not count.",
        .transformers = "labels",
        .llama_cpp = "-",
        .when = "training",
    },
    {
        .name = "shifted_labels",
        .group = StageGroup::learning,
        .axes = "[batch, seq]",
        .from = "labels",
        .module = "shift_labels",
        .formula = "shifted_labels[b, s] = labels[b, s + 1], -100 at the last position",
        .why = "Position s has read the tokens up to s and predicts token s + 1: that one is its label. The "
               "last position has no answer, the first token no question. Older code shifts the logits the "
               "other way, which copies the largest tensor of all.",
        .transformers = "shift_labels",
        .llama_cpp = "-",
        .when = "training",
    },
    {
        .name = "token_losses",
        .group = StageGroup::learning,
        .axes = "[batch, seq]",
        .from = "logits, shifted_labels",
        .module = "cross_entropy",
        .formula = "token_losses[b, s] = -log softmax(logits[b, s, :])[shifted_labels[b, s]], 0 at -100",
        .why =
            "How surprised the model was by each token that really came, in nats: vocab is gone, since only "
            "the probability of that one token is asked for.",
        .transformers = "cross_entropy(reduction=\"none\")",
        .llama_cpp = "-",
        .when = "training",
    },
    {
        .name = "loss",
        .group = StageGroup::learning,
        .axes = "[loss]",
        .from = "token_losses",
        .module = "cross_entropy",
        .formula = "loss = sum of token_losses / number of labels that are not -100",
        .why =
            "One number for how surprised the model was: what training makes smaller. The mean is over what "
            "counts, so that it does not depend on how much of the batch is padding.",
        .transformers = "loss",
        .llama_cpp = "-",
        .when = "training",
    },
    {
        .name = "d_NAME",
        .group = StageGroup::learning,
        .axes = "as NAME",
        .from = "the gradients of what is computed from NAME",
        .module = "the backward pass",
        .formula = "d_NAME[...] = d loss / d NAME[...]",
        .why = "How the loss changes with each number of the stage NAME: one answer per number, hence the "
               "same shape. They come in the opposite order, the last stage's first.",
        .transformers = "NAME.grad",
        .llama_cpp = "-",
        .when = "training",
    },
};

// The row of a stage; nullptr: no stage has that name. d_NAME is found under any name that begins with d_ and
// goes on with the name of a stage.
inline const StageRow* find_stage(std::string_view name) {
  for (const StageRow& row : stage_table) {
    if (name == row.name) return &row;
  }
  const bool is_gradient = name.starts_with("d_") && find_stage(name.substr(2)) != nullptr;
  return is_gradient ? find_stage("d_NAME") : nullptr;
}

// The row of a stage, for programs to which a user names one. Throws UsageError with the names that look
// alike.
inline const StageRow& stage_row(std::string_view name) {
  const StageRow* row = find_stage(name);
  if (row != nullptr) return *row;
  std::string alike;
  std::string all;
  for (const StageRow& candidate : stage_table) {
    const std::string_view known = candidate.name;
    const bool looks_alike =
        known.find(name) != std::string_view::npos || name.find(known) != std::string_view::npos;
    if (looks_alike) alike += (alike.empty() ? "" : ", ") + std::string(known);
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  throw_error<UsageError>("no stage is called \"" + std::string(name) + "\"" +
                          (alike.empty() ? "; the stages are " + all : ", did you mean " + alike + "?"));
}

inline const char* stage_group_name(StageGroup group) {
  switch (group) {
    case StageGroup::input:
      return "before the layers";
    case StageGroup::layer:
      return "in every layer";
    case StageGroup::head:
      return "after the layers";
    case StageGroup::choosing:
      return "choosing the next token";
    case StageGroup::learning:
      return "learning";
  }
  return "unknown";
}

}  // namespace glassbox
