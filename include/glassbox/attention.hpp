// Causal self-attention with grouped-query heads: every token gathers what it needs from the tokens before
// it.
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/attention_mask.hpp"
#include "glassbox/heads.hpp"
#include "glassbox/kv_cache.hpp"
#include "glassbox/linear.hpp"
#include "glassbox/rotary_embedding.hpp"
#include "glassbox/softmax.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {

// Throws ShapeError unless the query heads divide evenly among the key/value heads and the rest agrees.
template <std::floating_point Scalar>
void check_grouped_heads(const char* where, const char* name, const Tensor<Scalar>& states,
                         const Tensor<Scalar>& cached) {
  check_rank(where, name, states, 4);
  check_rank(where, "cached", cached, 4);
  if (states.dim(0) == cached.dim(0) && cached.dim(1) > 0 && states.dim(1) % cached.dim(1) == 0) return;
  throw_error<ShapeError>(std::string(where) + ": " + name + " " + shape_string(states) +
                          " does not fit cached " + shape_string(cached) +
                          ": equal batch, and heads a multiple of kv heads, are needed");
}

// scores[b, h, i, j] = query_states[b, h, i, :] . cached_keys[b, h / groups, j, :] / sqrt(head_dim)
// query_states [batch, head, query, head_dim], cached_keys [batch, kv_head, key, head_dim]
//   ->  [batch, head, query, key]
template <std::floating_point Scalar>
Tensor<Scalar> scaled_scores(const Tensor<Scalar>& query_states, const Tensor<Scalar>& cached_keys) {
  check_grouped_heads("scaled_scores", "query_states", query_states, cached_keys);
  check_last_axis("scaled_scores", "query_states", query_states, "cached_keys", cached_keys);
  const Index num_key_value_groups = query_states.dim(1) / cached_keys.dim(1);
  const Scalar scaling = Scalar(1) / std::sqrt(Scalar(query_states.dim(3)));
  Tensor<Scalar> scores({query_states.axis(0),
                         query_states.axis(1),
                         {"query", query_states.dim(2)},
                         {"key", cached_keys.dim(2)}});
  for (Index batch = 0; batch < query_states.dim(0); ++batch) {
    for (Index head = 0; head < query_states.dim(1); ++head) {
      const Index kv_head = head / num_key_value_groups;  // neighbouring query heads share a key head
      const ConstMatrixView<Scalar> query = query_states.matrix(batch, head);  // [query, head_dim]
      const ConstMatrixView<Scalar> key = cached_keys.matrix(batch, kv_head);  // [key, head_dim]
      multiply_transposed<Scalar>(query, key, scores.matrix(batch, head));     // [query, key]
      scores.matrix(batch, head) *= scaling;
    }
  }
  return scores;
}

// context[b, h, i, :] = sum_j attn_weights[b, h, i, j] * cached_values[b, h / groups, j, :]
// attn_weights [batch, head, query, key], cached_values [batch, kv_head, key, head_dim]
//   ->  [batch, head, query, head_dim]
template <std::floating_point Scalar>
Tensor<Scalar> weighted_values(const Tensor<Scalar>& attn_weights, const Tensor<Scalar>& cached_values) {
  check_grouped_heads("weighted_values", "attn_weights", attn_weights, cached_values);
  check_dim("weighted_values", "attn_weights", attn_weights, 3, cached_values.dim(2),
            "keys of the cached values");
  const Index num_key_value_groups = attn_weights.dim(1) / cached_values.dim(1);
  Tensor<Scalar> context(
      {attn_weights.axis(0), attn_weights.axis(1), attn_weights.axis(2), cached_values.axis(3)});
  for (Index batch = 0; batch < attn_weights.dim(0); ++batch) {
    for (Index head = 0; head < attn_weights.dim(1); ++head) {
      const Index kv_head = head / num_key_value_groups;
      const ConstMatrixView<Scalar> weights = attn_weights.matrix(batch, head);    // [query, key]
      const ConstMatrixView<Scalar> value = cached_values.matrix(batch, kv_head);  // [key, head_dim]
      multiply<Scalar>(weights, value, context.matrix(batch, head));               // [query, head_dim]
    }
  }
  return context;
}

// Causal grouped-query self-attention (Vaswani 2017, arXiv:1706.03762, eq. 1; Ainslie 2023,
// arXiv:2305.13245; transformers LlamaAttention.forward and eager_attention_forward).
template <std::floating_point Scalar>
struct Attention {
  Linear<Scalar> q_proj;  // weight [num_attention_heads * head_dim, hidden]
  Linear<Scalar> k_proj;  // weight [num_key_value_heads * head_dim, hidden]
  Linear<Scalar> v_proj;  // weight [num_key_value_heads * head_dim, hidden]
  Linear<Scalar> o_proj;  // weight [hidden, num_attention_heads * head_dim]
  Index num_attention_heads = 0;
  Index num_key_value_heads = 0;
  Index layer = 0;

  // hidden_states [batch, query, hidden]  ->  [batch, query, hidden]; the cache grows by query.
  // cos and sin [batch, query, head_dim], additive_mask [batch, 1, query, key] with key = cached + query
  Tensor<Scalar> forward(const Tensor<Scalar>& hidden_states, const Tensor<Scalar>& cos,
                         const Tensor<Scalar>& sin, const Tensor<Scalar>& additive_mask,
                         LayerKVCache<Scalar>& cache) const {
    check_rank("Attention::forward", "hidden_states", hidden_states, 3);
    Tensor<Scalar> q_proj_output = q_proj.forward(hidden_states);  // [batch, seq, heads*head_dim]
    stage("q_proj", layer, q_proj_output);
    Tensor<Scalar> k_proj_output = k_proj.forward(hidden_states);  // [batch, seq, kv_heads*head_dim]
    stage("k_proj", layer, k_proj_output);
    Tensor<Scalar> v_proj_output = v_proj.forward(hidden_states);  // [batch, seq, kv_heads*head_dim]
    stage("v_proj", layer, v_proj_output);

    Tensor<Scalar> query_heads =
        split_heads(q_proj_output, num_attention_heads);  // [batch, head, seq, head_dim]
    stage("query_heads", layer, query_heads);
    Tensor<Scalar> key_heads =
        split_heads(k_proj_output, num_key_value_heads, "kv_head");  // [batch, kv_head, seq, head_dim]
    stage("key_heads", layer, key_heads);
    Tensor<Scalar> value_states =
        split_heads(v_proj_output, num_key_value_heads, "kv_head");  // [batch, kv_head, seq, head_dim]
    stage("value_states", layer, value_states);

    Tensor<Scalar> query_states =
        apply_rotary_pos_emb(query_heads, cos, sin);  // [batch, head, seq, head_dim]
    stage("query_states", layer, query_states);
    Tensor<Scalar> key_states = apply_rotary_pos_emb(key_heads, cos, sin);  // [batch, kv_head, seq, head_dim]
    stage("key_states", layer, key_states);

    cache.append(key_states, value_states);
    stage("cached_keys", layer, cache.keys);      // [batch, kv_head, key, head_dim]
    stage("cached_values", layer, cache.values);  // [batch, kv_head, key, head_dim]

    Tensor<Scalar> scores = scaled_scores(query_states, cache.keys);  // [batch, head, query, key]
    stage("scores", layer, scores);
    Tensor<Scalar> masked_scores = add_mask(scores, additive_mask);  // [batch, head, query, key]
    stage("masked_scores", layer, masked_scores);
    Tensor<Scalar> attn_weights = softmax(masked_scores);  // [batch, head, query, key]
    stage("attn_weights", layer, attn_weights);
    Tensor<Scalar> context = weighted_values(attn_weights, cache.values);  // [batch, head, query, head_dim]
    stage("context", layer, context);
    Tensor<Scalar> merged_heads = merge_heads(context);  // [batch, seq, heads*head_dim]
    stage("merged_heads", layer, merged_heads);
    Tensor<Scalar> attn_output = o_proj.forward(merged_heads);  // [batch, seq, hidden]
    stage("attn_output", layer, attn_output);
    return attn_output;
  }
};

}  // namespace glassbox
