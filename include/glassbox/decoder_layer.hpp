// One decoder layer: attention and feed-forward, each normalised before and added to the residual stream
// after.
#pragma once

#include "glassbox/attention.hpp"
#include "glassbox/mlp.hpp"
#include "glassbox/rms_norm.hpp"

namespace glassbox {

// attn_residual = residual + self_attn(input_layernorm(residual))
// layer_output = attn_residual + mlp(post_attention_layernorm(attn_residual))
// (Touvron 2023, arXiv:2302.13971, section 2.2; transformers LlamaDecoderLayer.forward)
template <std::floating_point Scalar>
struct DecoderLayer {
  RMSNorm<Scalar> input_layernorm;  // before the attention
  Attention<Scalar> self_attn;
  RMSNorm<Scalar> post_attention_layernorm;  // before the feed-forward, whatever its name suggests
  MLP<Scalar> mlp;
  Index layer = 0;

  // hidden_states [batch, seq, hidden]  ->  [batch, seq, hidden]; the other arguments as in
  // Attention::forward
  Tensor<Scalar> forward(const Tensor<Scalar>& hidden_states, const Tensor<Scalar>& cos,
                         const Tensor<Scalar>& sin, const Tensor<Scalar>& additive_mask,
                         LayerKVCache<Scalar>& cache) const {
    Tensor<Scalar> residual = hidden_states;  // [batch, seq, hidden]
    stage("residual", layer, residual);
    Tensor<Scalar> input_layernorm_output = input_layernorm.forward(residual);  // [batch, seq, hidden]
    stage("input_layernorm", layer, input_layernorm_output);
    Tensor<Scalar> attn_output = self_attn.forward(input_layernorm_output, cos, sin, additive_mask, cache);
    Tensor<Scalar> attn_residual = add(residual, attn_output);  // [batch, seq, hidden]
    stage("attn_residual", layer, attn_residual);
    Tensor<Scalar> post_attention_layernorm_output = post_attention_layernorm.forward(attn_residual);
    stage("post_attention_layernorm", layer, post_attention_layernorm_output);
    Tensor<Scalar> mlp_output = mlp.forward(post_attention_layernorm_output);  // [batch, seq, hidden]
    Tensor<Scalar> layer_output = add(attn_residual, mlp_output);              // [batch, seq, hidden]
    stage("layer_output", layer, layer_output);
    return layer_output;
  }
};

}  // namespace glassbox
