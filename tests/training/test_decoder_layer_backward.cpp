// Faults that must turn this red: a residual's gradient left out, or added twice; the two norms exchanged;
// the gradient of the feed-forward's part not handed to the attention; a stage left out or renamed.
#include "glassbox/training/decoder_layer_backward.hpp"

#include "glassbox/attention_mask.hpp"
#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace decoder_layer_backward_test {

using test_support::gradient_agrees;
using test_support::gradients_agree;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::random_layer;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::weighted_sum;
using test_support::zero_like;

constexpr Index seq = 3;

inline ModelConfig layer_config(bool biases) {
  ModelConfig config = test_support::small_config();
  config.hidden_size = 4;
  config.intermediate_size = 5;
  config.head_dim = 2;
  config.attention_bias = config.mlp_bias = biases;
  return config;
}

template <typename Scalar>
DecoderLayer<Scalar> make_layer(bool biases) {
  RandomGenerator random(8);
  return random_layer<Scalar>(layer_config(biases), 5, random);
}

template <typename Scalar>
struct Inputs {
  Tensor<Scalar> hidden_states = random_tensor<Scalar>({{"batch", 2}, {"seq", seq}, {"hidden", 4}}, 5, 2);
  Tensor<Scalar> d_output = random_tensor<Scalar>({{"batch", 2}, {"seq", seq}, {"hidden", 4}}, 6);
  Tensor<std::int64_t> attention_mask =
      make_tensor<std::int64_t>({{"batch", 2}, {"seq", seq}}, {1, 1, 0, 1, 1, 1});
  RotaryTables<Scalar> rotary =
      RotaryEmbedding<Scalar>::from_theta(2, 100).forward(position_ids_from_mask(attention_mask, seq));
  Tensor<Scalar> additive_mask =
      make_additive_mask<Scalar>(make_causal_mask(expand_mask(attention_mask), seq));
};

template <typename Scalar>
Tensor<Scalar> forward(const DecoderLayer<Scalar>& layer, const Inputs<Scalar>& inputs,
                       DecoderLayerActivations<Scalar>& activations) {
  return decoder_layer_training_forward(layer, inputs.hidden_states, inputs.rotary.cos, inputs.rotary.sin,
                                        inputs.additive_mask, activations);
}

template <typename Scalar>
Tensor<Scalar> backward(const DecoderLayer<Scalar>& layer, Inputs<Scalar>& inputs,
                        DecoderLayer<Scalar>& gradients) {
  DecoderLayerActivations<Scalar> activations;
  forward(layer, inputs, activations);
  return decoder_layer_backward(layer, inputs.rotary.cos, inputs.rotary.sin, activations, inputs.d_output,
                                gradients);
}

template <typename Scalar>
std::vector<Parameter<Scalar>> parameters_of_layer(DecoderLayer<Scalar>& layer) {
  loops::ParameterList<Scalar> list;
  list.add("layer", layer);
  return list.parameters;
}

template <typename Scalar>
class DecoderLayerBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(DecoderLayerBackwardTest, Scalars, ScalarNames);

TYPED_TEST(DecoderLayerBackwardTest, TheTrainingForwardIsTheForward) {
  const DecoderLayer<TypeParam> layer = make_layer<TypeParam>(true);
  const Inputs<TypeParam> inputs;
  DecoderLayerActivations<TypeParam> activations;
  LayerKVCache<TypeParam> cache;
  EXPECT_TRUE(near_tensors(
      forward(layer, inputs, activations),
      layer.forward(inputs.hidden_states, inputs.rotary.cos, inputs.rotary.sin, inputs.additive_mask, cache),
      0));
}

// With all matrices 0 the layer hands its input on, and so its gradient, unchanged.
TYPED_TEST(DecoderLayerBackwardTest, WorkedExampleTheResidualStream) {
  DecoderLayer<TypeParam> layer = make_layer<TypeParam>(false);
  for (Parameter<TypeParam>& parameter : parameters_of_layer(layer)) {
    if (parameter.is_matrix()) parameter.view().setZero();
  }
  Inputs<TypeParam> inputs;
  DecoderLayer<TypeParam> gradients = zero_like(layer);
  EXPECT_TRUE(near_tensors(backward(layer, inputs, gradients), inputs.d_output, 0));
}

TEST(DecoderLayerBackward, EqualsCentralDifferences) {
  for (const bool biases : {false, true}) {
    DecoderLayer<double> layer = make_layer<double>(biases);
    Inputs<double> inputs;
    DecoderLayer<double> gradients = zero_like(layer);
    const Tensor<double> d_residual = backward(layer, inputs, gradients);
    EXPECT_EQ(shape_string(d_residual), "[batch=2, seq=3, hidden=4]");
    const auto loss = [&] {
      DecoderLayerActivations<double> unused;
      return weighted_sum(forward(layer, inputs, unused), inputs.d_output);
    };
    EXPECT_TRUE(gradient_agrees("hidden_states", inputs.hidden_states, d_residual, loss));
    EXPECT_TRUE(gradients_agree(parameters_of_layer(layer), parameters_of_layer(gradients), loss));

    DecoderLayer<float> narrow = make_layer<float>(biases);
    Inputs<float> narrow_inputs;
    DecoderLayer<float> narrow_gradients = zero_like(narrow);
    EXPECT_TRUE(near_tensors(backward(narrow, narrow_inputs, narrow_gradients), d_residual, 5e-5));
    EXPECT_TRUE(test_support::near_gradients(parameters_of_layer(narrow_gradients),
                                             parameters_of_layer(gradients), 5e-5));
  }
}

// The layer's own stages; those of its parts are theirs to test.
TEST(DecoderLayerBackward, StagesInTheirOrder) {
  const DecoderLayer<double> layer = make_layer<double>(false);
  Inputs<double> inputs;
  DecoderLayer<double> gradients = zero_like(layer);
  std::vector<std::string> passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed.push_back(record.name);
    EXPECT_EQ(record.layer, 5);
  });
  backward(layer, inputs, gradients);
  const std::vector<std::string> own = {"residual",
                                        "input_layernorm",
                                        "attn_residual",
                                        "post_attention_layernorm",
                                        "layer_output",
                                        "d_layer_output",
                                        "d_post_attention_layernorm",
                                        "d_attn_residual",
                                        "d_input_layernorm",
                                        "d_residual"};
  std::size_t next = 0;
  for (const std::string& name : passed) {
    if (next < own.size() && name == own[next]) ++next;
  }
  EXPECT_EQ(next, own.size());
  EXPECT_EQ(passed.size(), own.size() + 27 + 10);  // and those of attention and feed-forward
}

TEST(DecoderLayerBackward, Errors) {
  const DecoderLayer<float> layer = make_layer<float>(false);
  Inputs<float> inputs;
  inputs.d_output = Tensor<float>({{"batch", 2}, {"seq", 1}, {"hidden", 4}});
  DecoderLayer<float> gradients = zero_like(layer);
  EXPECT_TRUE(throws<ShapeError>(
      [&] { backward(layer, inputs, gradients); },
      "matmul_backward: d_output [batch=2, seq=1, hidden=4], input [batch=2, seq=3, intermediate=5] and "
      "d_weight [hidden=4, intermediate=5] do not fit weight [hidden=4, intermediate=5]"));
}

}  // namespace decoder_layer_backward_test
}  // namespace glassbox
