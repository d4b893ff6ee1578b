// A model before its first step: random numbers, small and different, since equal ones would stay equal.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "glassbox/causal_lm.hpp"
#include "glassbox/random.hpp"

namespace glassbox {
namespace loops {

// Two draws from the normal distribution with mean 0 and standard deviation 1, of two uniform ones
// (Box & Muller 1958). 1 - u lies in (0, 1], whose logarithm is finite.
inline void normal_pair(RandomGenerator& random, double& first, double& second) {
  const double radius = std::sqrt(-2 * std::log(1 - random.next_uniform()));
  const double angle = 2 * 3.14159265358979323846 * random.next_uniform();
  first = radius * std::cos(angle);
  second = radius * std::sin(angle);
}

template <std::floating_point Scalar>
WeightMatrix normal_weight(const Axis& out, const Axis& in, double deviation, RandomGenerator& random) {
  Tensor<Scalar> weight({out, in});
  for (Index o = 0; o < out.size; ++o) {
    for (Index i = 0; i < in.size; i += 2) {
      double first = 0, second = 0;
      normal_pair(random, first, second);
      weight(o, i) = Scalar(deviation * first);
      if (i + 1 < in.size) weight(o, i + 1) = Scalar(deviation * second);
    }
  }
  return WeightMatrix::from_tensor(weight);
}

template <std::floating_point Scalar>
Linear<Scalar> normal_linear(const Axis& out, const Axis& in, bool has_bias, double deviation,
                             RandomGenerator& random) {
  Linear<Scalar> linear;
  linear.weight = normal_weight<Scalar>(out, in, deviation, random);
  if (has_bias) linear.bias = Tensor<Scalar>({out});
  return linear;
}

template <std::floating_point Scalar>
RMSNorm<Scalar> unit_norm(const ModelConfig& config) {
  RMSNorm<Scalar> norm;
  norm.weight = Tensor<Scalar>({{"hidden", config.hidden_size}});
  norm.weight.row(0).setOnes();
  norm.eps = Scalar(config.rms_norm_eps);
  return norm;
}

template <std::floating_point Scalar>
DecoderLayer<Scalar> normal_layer(const ModelConfig& config, Index layer, double deviation,
                                  double into_residual, RandomGenerator& random) {
  const Axis hidden("hidden", config.hidden_size);
  const Axis heads("heads*head_dim", config.num_attention_heads * config.head_dim);
  const Axis kv_heads("kv_heads*head_dim", config.num_key_value_heads * config.head_dim);
  const Axis intermediate("intermediate", config.intermediate_size);
  DecoderLayer<Scalar> result;
  result.layer = layer;
  result.input_layernorm = unit_norm<Scalar>(config);
  Attention<Scalar>& attention = result.self_attn;
  attention.q_proj = normal_linear<Scalar>(heads, hidden, config.attention_bias, deviation, random);
  attention.k_proj = normal_linear<Scalar>(kv_heads, hidden, config.attention_bias, deviation, random);
  attention.v_proj = normal_linear<Scalar>(kv_heads, hidden, config.attention_bias, deviation, random);
  attention.o_proj = normal_linear<Scalar>(hidden, heads, config.attention_bias, into_residual, random);
  attention.num_attention_heads = config.num_attention_heads;
  attention.num_key_value_heads = config.num_key_value_heads;
  attention.layer = layer;
  result.post_attention_layernorm = unit_norm<Scalar>(config);
  result.mlp.gate_proj = normal_linear<Scalar>(intermediate, hidden, config.mlp_bias, deviation, random);
  result.mlp.up_proj = normal_linear<Scalar>(intermediate, hidden, config.mlp_bias, deviation, random);
  result.mlp.down_proj = normal_linear<Scalar>(hidden, intermediate, config.mlp_bias, into_residual, random);
  result.mlp.layer = layer;
  return result;
}

}  // namespace loops

// The model that `config` describes, untrained: weights from a normal distribution with mean 0 and standard
// deviation `deviation`, norms 1, biases 0. o_proj and down_proj, which add to the residual stream twice a
// layer, have deviation / sqrt(2 * num_hidden_layers), so that the stream's size does not depend on the depth
// (Radford 2019, GPT-2, section 2.3). The same numbers for the same seed, but for the last digits of log, cos
// and sin in other C libraries. Throws ConfigError for a configuration that contradicts itself, UsageError
// for a negative deviation.
template <std::floating_point Scalar>
CausalLM<Scalar> initialize_model(ModelConfig config, std::uint64_t seed, double deviation) {
  config.fill_defaults();
  config.validate();
  if (!(deviation >= 0) || !std::isfinite(deviation)) {
    throw_error<UsageError>("initialize_model: deviation is " + std::to_string(deviation) +
                            ", expected a number >= 0");
  }
  RandomGenerator random(seed);
  const Axis vocab("vocab", config.vocab_size);
  const Axis hidden("hidden", config.hidden_size);
  const double into_residual = deviation / std::sqrt(2 * double(config.num_hidden_layers));
  CausalLM<Scalar> causal_lm;
  causal_lm.config = config;
  causal_lm.model.embed_tokens.weight = loops::normal_weight<Scalar>(vocab, hidden, deviation, random);
  for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
    causal_lm.model.layers.push_back(
        loops::normal_layer<Scalar>(config, layer, deviation, into_residual, random));
  }
  causal_lm.model.norm = loops::unit_norm<Scalar>(config);
  causal_lm.model.rotary_emb = RotaryEmbedding<Scalar>::from_theta(config.head_dim, config.rope_theta);
  causal_lm.model.max_position_embeddings = config.max_position_embeddings;
  if (!config.tie_word_embeddings)
    causal_lm.lm_head.weight = loops::normal_weight<Scalar>(vocab, hidden, deviation, random);
  return causal_lm;
}

// The same with deviation 1 / sqrt(hidden_size): a projection adds hidden_size products of a weight and a
// number of about 1, so what comes out is of about 1, too (LeCun 1998, Efficient BackProp, section 4.6).
// GPT-2's 0.02 is of this order for its 768 to 1,600 numbers. In a model of 128 it makes the scores so small
// that every head looks everywhere alike, for more than a thousand steps.
template <std::floating_point Scalar>
CausalLM<Scalar> initialize_model(const ModelConfig& config, std::uint64_t seed) {
  const double deviation = config.hidden_size > 0 ? 1 / std::sqrt(double(config.hidden_size)) : 0;
  return initialize_model<Scalar>(config, seed, deviation);
}

}  // namespace glassbox
