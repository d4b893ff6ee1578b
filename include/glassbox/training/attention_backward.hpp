// Attention in training: the forward that keeps what the backward needs, and the backward.
#pragma once

#include "glassbox/attention.hpp"
#include "glassbox/training/linear_backward.hpp"
#include "glassbox/training/rotary_embedding_backward.hpp"
#include "glassbox/training/softmax_backward.hpp"

namespace glassbox {

// What the backward of the attention needs of its forward. Not the scores: softmax_backward asks for the
// weights only. Not the heads before the rotation: a rotation's gradient does not depend on what is rotated.
template <std::floating_point Scalar>
struct AttentionActivations {
  Tensor<Scalar> query_states;  // [batch, head, seq, head_dim]
  Tensor<Scalar> key_states;    // [batch, kv_head, seq, head_dim]
  Tensor<Scalar> value_states;  // [batch, kv_head, seq, head_dim]
  Tensor<Scalar> attn_weights;  // [batch, head, query, key]
  Tensor<Scalar> merged_heads;  // [batch, seq, heads*head_dim]
};

// Attention::forward over whole texts, line by line, with its intermediates kept. Training needs no cache:
// the keys and values of all positions are there at once. hidden_states [batch, seq, hidden], cos and sin
// [batch, seq, head_dim], additive_mask [batch, 1, seq, seq]
//   ->  [batch, seq, hidden]
template <std::floating_point Scalar>
Tensor<Scalar> attention_training_forward(const Attention<Scalar>& attention,
                                          const Tensor<Scalar>& hidden_states, const Tensor<Scalar>& cos,
                                          const Tensor<Scalar>& sin, const Tensor<Scalar>& additive_mask,
                                          AttentionActivations<Scalar>& activations) {
  const Index layer = attention.layer;
  Tensor<Scalar> q_proj_output = attention.q_proj.forward(hidden_states);  // [batch, seq, heads*head_dim]
  stage("q_proj", layer, q_proj_output);
  Tensor<Scalar> k_proj_output = attention.k_proj.forward(hidden_states);  // [batch, seq, kv_heads*head_dim]
  stage("k_proj", layer, k_proj_output);
  Tensor<Scalar> v_proj_output = attention.v_proj.forward(hidden_states);  // [batch, seq, kv_heads*head_dim]
  stage("v_proj", layer, v_proj_output);

  Tensor<Scalar> query_heads = split_heads(q_proj_output, attention.num_attention_heads);
  stage("query_heads", layer, query_heads);  // [batch, head, seq, head_dim]
  Tensor<Scalar> key_heads = split_heads(k_proj_output, attention.num_key_value_heads, "kv_head");
  stage("key_heads", layer, key_heads);  // [batch, kv_head, seq, head_dim]
  activations.value_states = split_heads(v_proj_output, attention.num_key_value_heads, "kv_head");
  stage("value_states", layer, activations.value_states);  // [batch, kv_head, seq, head_dim]

  activations.query_states = apply_rotary_pos_emb(query_heads, cos, sin);
  stage("query_states", layer, activations.query_states);  // [batch, head, seq, head_dim]
  activations.key_states = apply_rotary_pos_emb(key_heads, cos, sin);
  stage("key_states", layer, activations.key_states);  // [batch, kv_head, seq, head_dim]

  Tensor<Scalar> scores = scaled_scores(activations.query_states, activations.key_states);
  stage("scores", layer, scores);                                  // [batch, head, query, key]
  Tensor<Scalar> masked_scores = add_mask(scores, additive_mask);  // [batch, head, query, key]
  stage("masked_scores", layer, masked_scores);
  activations.attn_weights = softmax(masked_scores);  // [batch, head, query, key]
  stage("attn_weights", layer, activations.attn_weights);
  Tensor<Scalar> context = weighted_values(activations.attn_weights, activations.value_states);
  stage("context", layer, context);                 // [batch, head, query, head_dim]
  activations.merged_heads = merge_heads(context);  // [batch, seq, heads*head_dim]
  stage("merged_heads", layer, activations.merged_heads);
  Tensor<Scalar> attn_output = attention.o_proj.forward(activations.merged_heads);  // [batch, seq, hidden]
  stage("attn_output", layer, attn_output);
  return attn_output;
}

// Forward:  context[b, h, i, :] = sum_j attn_weights[b, h, i, j] * value_states[b, h / groups, j, :]
// Backward: d_attn_weights[b, h, i, j] = d_context[b, h, i, :] . value_states[b, h / groups, j, :]
// d_context [batch, head, query, head_dim]  ->  [batch, head, query, key]
template <std::floating_point Scalar>
Tensor<Scalar> attn_weights_gradient(const Tensor<Scalar>& d_context, const Tensor<Scalar>& value_states) {
  check_grouped_heads("attn_weights_gradient", "d_context", d_context, value_states);
  check_last_axis("attn_weights_gradient", "d_context", d_context, "value_states", value_states);
  const Index num_key_value_groups = d_context.dim(1) / value_states.dim(1);
  Tensor<Scalar> d_attn_weights(
      {d_context.axis(0), d_context.axis(1), {"query", d_context.dim(2)}, {"key", value_states.dim(2)}});
  for (Index batch = 0; batch < d_context.dim(0); ++batch) {
    for (Index head = 0; head < d_context.dim(1); ++head) {
      const ConstMatrixView<Scalar> d_head = d_context.matrix(batch, head);  // [query, head_dim]
      const ConstMatrixView<Scalar> value =
          value_states.matrix(batch, head / num_key_value_groups);  // [key, head_dim]
      gradient_product_transposed<Scalar>(d_head, value, d_attn_weights.matrix(batch, head));
    }
  }
  return d_attn_weights;
}

// Forward:  output[b, h, i, :] = sum_j weights[b, h, i, j] * states[b, h / groups, j, :]
// Backward: d_states[b, k, j, :] = sum over the heads h of group k and over i of
//                                  weights[b, h, i, j] * d_output[b, h, i, :]
// The heads of a group share their keys and values, so these collect the gradients of all of them.
// weights [batch, head, query, key], d_output [batch, head, query, head_dim]
//   ->  [batch, kv_head, key, head_dim]
template <std::floating_point Scalar>
Tensor<Scalar> shared_states_gradient(const Tensor<Scalar>& weights, const Tensor<Scalar>& d_output,
                                      Index num_key_value_heads) {
  check_rank("shared_states_gradient", "weights", weights, 4);
  check_rank("shared_states_gradient", "d_output", d_output, 4);
  if (num_key_value_heads < 1 || weights.dim(1) % num_key_value_heads != 0 ||
      weights.dim(0) != d_output.dim(0) || weights.dim(1) != d_output.dim(1)) {
    throw_error<ShapeError>("shared_states_gradient: weights " + shape_string(weights) + " and d_output " +
                            shape_string(d_output) + " do not fit " + std::to_string(num_key_value_heads) +
                            " kv heads: equal batch and heads, a multiple of kv heads, are needed");
  }
  const Index num_key_value_groups = weights.dim(1) / num_key_value_heads;
  Tensor<Scalar> d_states({weights.axis(0),
                           {"kv_head", num_key_value_heads},
                           {"seq", weights.dim(3)},
                           {"head_dim", d_output.dim(3)}});
  for (Index batch = 0; batch < weights.dim(0); ++batch) {
    for (Index head = 0; head < weights.dim(1); ++head) {
      const Index kv_head = head / num_key_value_groups;
      const ConstMatrixView<Scalar> head_weights = weights.matrix(batch, head);           // [query, key]
      const ConstMatrixView<Scalar> d_head = d_output.matrix(batch, head);                // [query, head_dim]
      add_outer_products<Scalar>(head_weights, d_head, d_states.matrix(batch, kv_head));  // [key, head_dim]
    }
  }
  return d_states;
}

// Forward:  scores[b, h, i, j] = query_states[b, h, i, :] . key_states[b, h / groups, j, :] / sqrt(head_dim)
// Backward: d_query_states[b, h, i, :] = sum_j scaled_d_scores[b, h, i, j] * key_states[b, h / groups, j, :]
//           with scaled_d_scores = d_scores / sqrt(head_dim); the keys' gradient is shared_states_gradient
// scaled_d_scores [batch, head, query, key]  ->  [batch, head, seq, head_dim]
template <std::floating_point Scalar>
Tensor<Scalar> query_states_gradient(const Tensor<Scalar>& scaled_d_scores,
                                     const Tensor<Scalar>& key_states) {
  check_grouped_heads("query_states_gradient", "scaled_d_scores", scaled_d_scores, key_states);
  const Index num_key_value_groups = scaled_d_scores.dim(1) / key_states.dim(1);
  Tensor<Scalar> d_query_states({scaled_d_scores.axis(0),
                                 scaled_d_scores.axis(1),
                                 {"seq", scaled_d_scores.dim(2)},
                                 key_states.axis(3)});
  for (Index batch = 0; batch < scaled_d_scores.dim(0); ++batch) {
    for (Index head = 0; head < scaled_d_scores.dim(1); ++head) {
      const ConstMatrixView<Scalar> d_head = scaled_d_scores.matrix(batch, head);  // [query, key]
      const ConstMatrixView<Scalar> key =
          key_states.matrix(batch, head / num_key_value_groups);  // [key, head_dim]
      gradient_product<Scalar>(d_head, key, d_query_states.matrix(batch, head));
    }
  }
  return d_query_states;
}

// output = tensor * factor, as for the scaling of the scores.
template <std::floating_point Scalar>
Tensor<Scalar> scale(const Tensor<Scalar>& tensor, Scalar factor) {
  Tensor<Scalar> scaled = Tensor<Scalar>::like(tensor);
  for (Index r = 0; r < tensor.rows(); ++r) scaled.row(r) = tensor.row(r) * factor;
  return scaled;
}

// hidden_states: the input of the forward. d_attn_output [batch, seq, hidden]  ->  d_hidden_states, the same
// shape. The gradients of the weights are added to `gradients`.
template <std::floating_point Scalar>
Tensor<Scalar> attention_backward(const Attention<Scalar>& attention, const Tensor<Scalar>& hidden_states,
                                  const Tensor<Scalar>& cos, const Tensor<Scalar>& sin,
                                  const AttentionActivations<Scalar>& activations,
                                  Tensor<Scalar>& d_attn_output, Attention<Scalar>& gradients) {
  const Index layer = attention.layer;
  stage("d_attn_output", layer, d_attn_output);  // [batch, seq, hidden]

  // forward: attn_output = o_proj.forward(merged_heads)
  Tensor<Scalar> d_merged_heads =
      linear_backward(attention.o_proj, activations.merged_heads, d_attn_output, gradients.o_proj);
  stage("d_merged_heads", layer, d_merged_heads);  // [batch, seq, heads*head_dim]
  // forward: merged_heads = merge_heads(context)
  Tensor<Scalar> d_context = split_heads(d_merged_heads, attention.num_attention_heads);
  stage("d_context", layer, d_context);  // [batch, head, seq, head_dim]

  // forward: context = weighted_values(attn_weights, value_states)
  Tensor<Scalar> d_attn_weights = attn_weights_gradient(d_context, activations.value_states);
  stage("d_attn_weights", layer, d_attn_weights);  // [batch, head, query, key]
  Tensor<Scalar> d_value_states =
      shared_states_gradient(activations.attn_weights, d_context, attention.num_key_value_heads);
  stage("d_value_states", layer, d_value_states);  // [batch, kv_head, seq, head_dim]

  // forward: attn_weights = softmax(masked_scores), masked_scores = scores + additive_mask: the mask is a
  // constant, so that the gradients of both scores are one
  Tensor<Scalar> d_scores = softmax_backward(activations.attn_weights, d_attn_weights);
  stage("d_scores", layer, d_scores);  // [batch, head, query, key]

  // forward: scores = query_states . key_states / sqrt(head_dim)
  const Scalar scaling = Scalar(1) / std::sqrt(Scalar(activations.query_states.dim(3)));
  Tensor<Scalar> scaled_d_scores = scale(d_scores, scaling);  // [batch, head, query, key]
  Tensor<Scalar> d_query_states = query_states_gradient(scaled_d_scores, activations.key_states);
  stage("d_query_states", layer, d_query_states);  // [batch, head, seq, head_dim]
  Tensor<Scalar> d_key_states =
      shared_states_gradient(scaled_d_scores, activations.query_states, attention.num_key_value_heads);
  stage("d_key_states", layer, d_key_states);  // [batch, kv_head, seq, head_dim]

  // forward: query_states = apply_rotary_pos_emb(query_heads, cos, sin), and the same for the keys
  Tensor<Scalar> d_query_heads = rotary_backward(d_query_states, cos, sin);
  stage("d_query_heads", layer, d_query_heads);  // [batch, head, seq, head_dim]
  Tensor<Scalar> d_key_heads = rotary_backward(d_key_states, cos, sin);
  stage("d_key_heads", layer, d_key_heads);  // [batch, kv_head, seq, head_dim]

  // forward: query_heads = split_heads(q_proj_output, num_attention_heads), and so the keys and values
  Tensor<Scalar> d_q_proj = merge_heads(d_query_heads);  // [batch, seq, heads*head_dim]
  stage("d_q_proj", layer, d_q_proj);
  Tensor<Scalar> d_k_proj = merge_heads(d_key_heads);  // [batch, seq, kv_heads*head_dim]
  stage("d_k_proj", layer, d_k_proj);
  Tensor<Scalar> d_v_proj = merge_heads(d_value_states);  // [batch, seq, kv_heads*head_dim]
  stage("d_v_proj", layer, d_v_proj);

  // forward: q_proj_output = q_proj.forward(hidden_states), and so k_proj and v_proj
  Tensor<Scalar> d_hidden_by_q = linear_backward(attention.q_proj, hidden_states, d_q_proj, gradients.q_proj);
  Tensor<Scalar> d_hidden_by_k = linear_backward(attention.k_proj, hidden_states, d_k_proj, gradients.k_proj);
  Tensor<Scalar> d_hidden_by_v = linear_backward(attention.v_proj, hidden_states, d_v_proj, gradients.v_proj);
  // hidden_states went three ways: its gradient is the sum of all
  Tensor<Scalar> d_hidden_by_q_and_k = add(d_hidden_by_q, d_hidden_by_k);    // [batch, seq, hidden]
  Tensor<Scalar> d_hidden_states = add(d_hidden_by_q_and_k, d_hidden_by_v);  // [batch, seq, hidden]
  return d_hidden_states;
}

}  // namespace glassbox
