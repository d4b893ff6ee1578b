// Faults that must turn this red: a residual forgotten, or taken after the norm; the norms exchanged, left
// out or put after attention and feed-forward; the feed-forward given the attention's input; eps outside the
// root; a stage left out or under another name.
#include "glassbox/decoder_layer.hpp"

#include "support/naive_model.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace decoder_layer_test {

using test_support::naive_array;
using test_support::naive_layer;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_layer;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::small_config;
using test_support::throws;

template <typename Scalar>
class DecoderLayerTest : public ::testing::Test {
 protected:
  static DecoderLayer<Scalar> make_layer() {
    ModelConfig config = small_config();
    config.rms_norm_eps = 0.1;  // where eps stands shows
    config.attention_bias = config.mlp_bias = true;
    RandomGenerator random(2);
    return random_layer<Scalar>(config, 5, random);
  }

  // Three tokens at positions 0, 1, 2 with an empty cache.
  static Tensor<Scalar> forward(const DecoderLayer<Scalar>& layer, const Tensor<Scalar>& x) {
    Tensor<std::int64_t> mask({{"batch", x.dim(0)}, {"seq", x.dim(1)}});
    for (Index i = 0; i < mask.size(); ++i) mask.data()[i] = 1;
    const RotaryTables<Scalar> tables =
        RotaryEmbedding<Scalar>::from_theta(6, 10000).forward(position_ids_from_mask(mask, x.dim(1)));
    const Tensor<Scalar> additive = make_additive_mask<Scalar>(make_causal_mask(expand_mask(mask), x.dim(1)));
    LayerKVCache<Scalar> cache;
    return layer.forward(x, tables.cos, tables.sin, additive, cache);
  }

  static void make_zero(Linear<Scalar>& linear) {
    linear.weight = WeightMatrix::from_tensor(Tensor<Scalar>({linear.weight.out, linear.weight.in}));
    linear.bias = Tensor<Scalar>();
  }
};
TYPED_TEST_SUITE(DecoderLayerTest, Scalars, ScalarNames);

// With attention and feed-forward that add nothing, the residual stream passes through untouched.
TYPED_TEST(DecoderLayerTest, ResidualStreamPassesThrough) {
  DecoderLayer<TypeParam> layer = this->make_layer();
  this->make_zero(layer.self_attn.o_proj);
  this->make_zero(layer.mlp.down_proj);
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 16}}, 1);
  EXPECT_TRUE(near_tensors(this->forward(layer, x), x, 0));
}

TYPED_TEST(DecoderLayerTest, EqualsNaiveLoop) {
  const DecoderLayer<TypeParam> layer = this->make_layer();
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 16}}, 3);
  naive::Cache cache;
  const naive::Positions positions(2, {0, 1, 2});
  const naive::Visible visible(2, {true, true, true});
  const naive::Array expected =
      naive::decoder_layer(naive_array(x), naive_layer(layer, 10000, 0.1), positions, visible, cache);
  const Tensor<TypeParam> output = this->forward(layer, x);
  EXPECT_EQ(shape_string(output), "[batch=2, seq=3, hidden=16]");
  EXPECT_TRUE(near_values(output, expected.values, 20 * rounding<TypeParam>()));
}

// The layer's own stages; those of its parts are theirs to test.
TYPED_TEST(DecoderLayerTest, StagesInTheirOrder) {
  const DecoderLayer<TypeParam> layer = this->make_layer();
  std::vector<std::string> passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed.push_back(record.name);
    EXPECT_EQ(record.layer, 5);
  });
  this->forward(layer, random_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 16}}, 3));
  ASSERT_EQ(passed.size(), 26u);
  EXPECT_EQ(passed[0], "residual");
  EXPECT_EQ(passed[1], "input_layernorm");
  EXPECT_EQ(passed[2], "q_proj");
  EXPECT_EQ(passed[17], "attn_output");
  EXPECT_EQ(passed[18], "attn_residual");
  EXPECT_EQ(passed[19], "post_attention_layernorm");
  EXPECT_EQ(passed[20], "gate_proj");
  EXPECT_EQ(passed[24], "down_proj");
  EXPECT_EQ(passed[25], "layer_output");
}

TEST(DecoderLayer, Errors) {
  DecoderLayer<float> layer;
  layer.input_layernorm.weight = Tensor<float>({{"hidden", 4}});
  LayerKVCache<float> cache;
  const Tensor<float> x({{"batch", 1}, {"seq", 1}, {"hidden", 3}});
  EXPECT_TRUE(throws<ShapeError>([&] { layer.forward(x, x, x, x, cache); },
                                 "RMSNorm::forward: hidden_states [batch=1, seq=1, hidden=3] does not fit "
                                 "weight [hidden=4]: their last axes must be equally long"));
}

}  // namespace decoder_layer_test
}  // namespace glassbox
