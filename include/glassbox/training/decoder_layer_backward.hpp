// One decoder layer in training: the forward that keeps what the backward needs, and the backward.
#pragma once

#include "glassbox/decoder_layer.hpp"
#include "glassbox/training/attention_backward.hpp"
#include "glassbox/training/mlp_backward.hpp"
#include "glassbox/training/rms_norm_backward.hpp"

namespace glassbox {

// What the backward of a layer needs of its forward, [batch, seq, hidden] where nothing else is said.
template <std::floating_point Scalar>
struct DecoderLayerActivations {
  Tensor<Scalar> residual;  // the layer's input
  Tensor<Scalar> input_layernorm;
  AttentionActivations<Scalar> self_attn;
  Tensor<Scalar> attn_residual;
  Tensor<Scalar> post_attention_layernorm;
  MLPActivations<Scalar> mlp;
};

// DecoderLayer::forward, line by line, with its intermediates kept.
template <std::floating_point Scalar>
Tensor<Scalar> decoder_layer_training_forward(const DecoderLayer<Scalar>& decoder_layer,
                                              const Tensor<Scalar>& hidden_states, const Tensor<Scalar>& cos,
                                              const Tensor<Scalar>& sin, const Tensor<Scalar>& additive_mask,
                                              DecoderLayerActivations<Scalar>& activations) {
  const Index layer = decoder_layer.layer;
  activations.residual = hidden_states;  // [batch, seq, hidden]
  stage("residual", layer, activations.residual);
  activations.input_layernorm = decoder_layer.input_layernorm.forward(activations.residual);
  stage("input_layernorm", layer, activations.input_layernorm);  // [batch, seq, hidden]
  Tensor<Scalar> attn_output =
      attention_training_forward(decoder_layer.self_attn, activations.input_layernorm, cos, sin,
                                 additive_mask, activations.self_attn);  // [batch, seq, hidden]
  activations.attn_residual = add(activations.residual, attn_output);    // [batch, seq, hidden]
  stage("attn_residual", layer, activations.attn_residual);
  activations.post_attention_layernorm =
      decoder_layer.post_attention_layernorm.forward(activations.attn_residual);
  stage("post_attention_layernorm", layer, activations.post_attention_layernorm);  // [batch, seq, hidden]
  Tensor<Scalar> mlp_output =
      mlp_training_forward(decoder_layer.mlp, activations.post_attention_layernorm, activations.mlp);
  Tensor<Scalar> layer_output = add(activations.attn_residual, mlp_output);  // [batch, seq, hidden]
  stage("layer_output", layer, layer_output);
  return layer_output;
}

// d_layer_output [batch, seq, hidden]  ->  d_residual, the gradient of the layer's input, the same shape.
// The gradients of the weights are added to `gradients`.
template <std::floating_point Scalar>
Tensor<Scalar> decoder_layer_backward(const DecoderLayer<Scalar>& decoder_layer, const Tensor<Scalar>& cos,
                                      const Tensor<Scalar>& sin,
                                      const DecoderLayerActivations<Scalar>& activations,
                                      Tensor<Scalar>& d_layer_output, DecoderLayer<Scalar>& gradients) {
  const Index layer = decoder_layer.layer;
  stage("d_layer_output", layer, d_layer_output);  // [batch, seq, hidden]

  // forward: layer_output = attn_residual + mlp_output: a sum hands its gradient to both, unchanged
  Tensor<Scalar> d_mlp_output = d_layer_output;  // [batch, seq, hidden]
  // forward: mlp_output = mlp.forward(post_attention_layernorm_output)
  Tensor<Scalar> d_post_attention_layernorm = mlp_backward(
      decoder_layer.mlp, activations.post_attention_layernorm, activations.mlp, d_mlp_output, gradients.mlp);
  stage("d_post_attention_layernorm", layer, d_post_attention_layernorm);  // [batch, seq, hidden]
  // forward: post_attention_layernorm_output = post_attention_layernorm.forward(attn_residual)
  Tensor<Scalar> d_attn_residual_by_mlp =
      rms_norm_backward(decoder_layer.post_attention_layernorm, activations.attn_residual,
                        d_post_attention_layernorm, gradients.post_attention_layernorm);
  // attn_residual went two ways, into the feed-forward and past it: its gradient is the sum of both
  Tensor<Scalar> d_attn_residual = add(d_layer_output, d_attn_residual_by_mlp);
  stage("d_attn_residual", layer, d_attn_residual);  // [batch, seq, hidden]

  // forward: attn_residual = residual + attn_output
  Tensor<Scalar> d_attn_output = d_attn_residual;  // [batch, seq, hidden]
  // forward: attn_output = self_attn.forward(input_layernorm_output, ...)
  Tensor<Scalar> d_input_layernorm =
      attention_backward(decoder_layer.self_attn, activations.input_layernorm, cos, sin,
                         activations.self_attn, d_attn_output, gradients.self_attn);
  stage("d_input_layernorm", layer, d_input_layernorm);  // [batch, seq, hidden]
  // forward: input_layernorm_output = input_layernorm.forward(residual)
  Tensor<Scalar> d_residual_by_attention = rms_norm_backward(
      decoder_layer.input_layernorm, activations.residual, d_input_layernorm, gradients.input_layernorm);
  // residual went two ways, into the attention and past it
  Tensor<Scalar> d_residual = add(d_attn_residual, d_residual_by_attention);  // [batch, seq, hidden]
  stage("d_residual", layer, d_residual);
  return d_residual;
}

}  // namespace glassbox
