// A small model with random weights, for tests that need a model but no training.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/random.hpp"

namespace glassbox::test_support {

// Grouped-query heads whose widths add up to something else than hidden_size, so that mixing them up shows.
inline ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 37;
  config.hidden_size = 16;
  config.intermediate_size = 22;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.max_position_embeddings = 48;
  config.rms_norm_eps = 1e-5;
  return config;
}

// Numbers in [-largest, largest] that float holds exactly, so that the float and the double model of one seed
// have the same weights.
template <std::floating_point Scalar>
void fill_random(Tensor<Scalar>& tensor, double largest, RandomGenerator& random) {
  for (Index r = 0; r < tensor.rows(); ++r) {
    for (Index i = 0; i < tensor.cols(); ++i) {
      const double value = (2 * random.next_uniform() - 1) * largest;
      tensor.row(r)[i] = static_cast<Scalar>(static_cast<float>(value));
    }
  }
}

// [out, in], scaled so that the output is about as large as the input.
template <std::floating_point Scalar>
WeightMatrix random_weight(const Axis& out, const Axis& in, RandomGenerator& random) {
  Tensor<Scalar> tensor({out, in});
  fill_random(tensor, 2.0 / std::sqrt(static_cast<double>(in.size)), random);
  return WeightMatrix::from_tensor(tensor);
}

template <std::floating_point Scalar>
Linear<Scalar> random_linear(const Axis& out, const Axis& in, bool bias, RandomGenerator& random) {
  Linear<Scalar> linear;
  linear.weight = random_weight<Scalar>(out, in, random);
  if (bias) {
    linear.bias = Tensor<Scalar>({out});
    fill_random(linear.bias, 0.5, random);
  }
  return linear;
}

template <std::floating_point Scalar>
RMSNorm<Scalar> random_norm(const ModelConfig& config, RandomGenerator& random) {
  RMSNorm<Scalar> norm;
  norm.weight = Tensor<Scalar>({{"hidden", config.hidden_size}});
  fill_random(norm.weight, 0.5, random);
  norm.weight.row(0).array() += Scalar(1);
  norm.eps = static_cast<Scalar>(config.rms_norm_eps);
  return norm;
}

template <std::floating_point Scalar>
DecoderLayer<Scalar> random_layer(const ModelConfig& config, Index layer, RandomGenerator& random) {
  const Axis hidden("hidden", config.hidden_size);
  const Axis heads("heads*head_dim", config.num_attention_heads * config.head_dim);
  const Axis kv_heads("kv_heads*head_dim", config.num_key_value_heads * config.head_dim);
  const Axis intermediate("intermediate", config.intermediate_size);
  const bool attention_bias = config.attention_bias;
  DecoderLayer<Scalar> result;
  result.layer = layer;
  result.input_layernorm = random_norm<Scalar>(config, random);
  result.self_attn.q_proj = random_linear<Scalar>(heads, hidden, attention_bias, random);
  result.self_attn.k_proj = random_linear<Scalar>(kv_heads, hidden, attention_bias, random);
  result.self_attn.v_proj = random_linear<Scalar>(kv_heads, hidden, attention_bias, random);
  result.self_attn.o_proj = random_linear<Scalar>(hidden, heads, attention_bias, random);
  result.self_attn.num_attention_heads = config.num_attention_heads;
  result.self_attn.num_key_value_heads = config.num_key_value_heads;
  result.self_attn.layer = layer;
  result.post_attention_layernorm = random_norm<Scalar>(config, random);
  result.mlp.gate_proj = random_linear<Scalar>(intermediate, hidden, config.mlp_bias, random);
  result.mlp.up_proj = random_linear<Scalar>(intermediate, hidden, config.mlp_bias, random);
  result.mlp.down_proj = random_linear<Scalar>(hidden, intermediate, config.mlp_bias, random);
  result.mlp.layer = layer;
  return result;
}

// The model that `config` describes (grouped heads, tied or not, with biases or not); the same for the same
// seed.
template <std::floating_point Scalar>
CausalLM<Scalar> random_model(ModelConfig config, std::uint64_t seed) {
  config.fill_defaults();
  config.validate();
  RandomGenerator random(seed);
  const Axis vocab("vocab", config.vocab_size);
  const Axis hidden("hidden", config.hidden_size);
  CausalLM<Scalar> causal_lm;
  causal_lm.config = config;
  causal_lm.model.embed_tokens.weight = random_weight<Scalar>(vocab, hidden, random);
  for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
    causal_lm.model.layers.push_back(random_layer<Scalar>(config, layer, random));
  }
  causal_lm.model.norm = random_norm<Scalar>(config, random);
  causal_lm.model.rotary_emb = RotaryEmbedding<Scalar>::from_theta(config.head_dim, config.rope_theta);
  causal_lm.model.max_position_embeddings = config.max_position_embeddings;
  if (!config.tie_word_embeddings) causal_lm.lm_head.weight = random_weight<Scalar>(vocab, hidden, random);
  return causal_lm;
}

}  // namespace glassbox::test_support
