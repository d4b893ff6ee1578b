// The weights of glassbox modules, handed to the naive second implementation.
#pragma once

#include <vector>

#include "glassbox/causal_lm.hpp"
#include "support/expect_near.hpp"
#include "support/naive_reference.hpp"

namespace glassbox::test_support {

template <typename T>
naive::Array naive_array(const Tensor<T>& tensor) {
  naive::Sizes shape;
  for (int i = 0; i < tensor.rank(); ++i) shape.push_back(static_cast<std::size_t>(tensor.dim(i)));
  return naive::Array(shape, values_of(tensor));
}

inline naive::Array naive_weight(const WeightMatrix& weight) {
  Tensor<double> tensor({weight.out, weight.in});
  for (Index o = 0; o < weight.out.size; ++o) weight.read_row(o, tensor.row(o));
  return naive_array(tensor);
}

template <typename Scalar>
naive::Linear naive_linear(const Linear<Scalar>& linear) {
  return {naive_weight(linear.weight), values_of(linear.bias)};
}

template <typename Scalar>
naive::Attention naive_attention(const Attention<Scalar>& attention, double rope_theta) {
  naive::Attention result;
  result.q_proj = naive_linear(attention.q_proj);
  result.k_proj = naive_linear(attention.k_proj);
  result.v_proj = naive_linear(attention.v_proj);
  result.o_proj = naive_linear(attention.o_proj);
  result.num_attention_heads = static_cast<std::size_t>(attention.num_attention_heads);
  result.num_key_value_heads = static_cast<std::size_t>(attention.num_key_value_heads);
  result.head_dim = result.q_proj.weight.shape[0] / result.num_attention_heads;
  result.rope_theta = rope_theta;
  return result;
}

template <typename Scalar>
naive::MLP naive_mlp(const MLP<Scalar>& mlp) {
  return {naive_linear(mlp.gate_proj), naive_linear(mlp.up_proj), naive_linear(mlp.down_proj)};
}

template <typename Scalar>
naive::DecoderLayer naive_layer(const DecoderLayer<Scalar>& layer, double rope_theta, double eps) {
  naive::DecoderLayer result;
  result.input_layernorm = values_of(layer.input_layernorm.weight);
  result.post_attention_layernorm = values_of(layer.post_attention_layernorm.weight);
  result.self_attn = naive_attention(layer.self_attn, rope_theta);
  result.mlp = naive_mlp(layer.mlp);
  result.eps = eps;
  return result;
}

template <typename Scalar>
naive::Model naive_model(const CausalLM<Scalar>& causal_lm) {
  const ModelConfig& config = causal_lm.config;
  naive::Model result;
  result.embed_tokens = naive_weight(causal_lm.model.embed_tokens.weight);
  for (const DecoderLayer<Scalar>& layer : causal_lm.model.layers) {
    result.layers.push_back(naive_layer(layer, config.rope_theta, config.rms_norm_eps));
  }
  result.norm = values_of(causal_lm.model.norm.weight);
  result.eps = config.rms_norm_eps;
  result.lm_head.weight =
      config.tie_word_embeddings ? result.embed_tokens : naive_weight(causal_lm.lm_head.weight);
  return result;
}

}  // namespace glassbox::test_support
