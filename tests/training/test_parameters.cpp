// Faults that must turn this red: a parameter left out, twice or under another name; a tied head listed;
// 16-bit or borrowed weights changed in place; gradients that are not zero or of another shape.
#include "glassbox/training/parameters.hpp"

#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace parameters_test {

using test_support::make_tensor;
using test_support::numbers_of;
using test_support::random_model;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;

inline ModelConfig tiny_config(bool biases, bool tied) {
  ModelConfig config = test_support::small_config();
  config.num_hidden_layers = 1;
  config.attention_bias = config.mlp_bias = biases;
  config.tie_word_embeddings = tied;
  return config;
}

template <typename Scalar>
class ParametersTest : public ::testing::Test {};
TYPED_TEST_SUITE(ParametersTest, Scalars, ScalarNames);

TYPED_TEST(ParametersTest, AllOfThemUnderTheirNamesInTheOrderOfTheForward) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, false), 1);
  std::string names;
  Index numbers = 0;
  for (const Parameter<TypeParam>& parameter : parameters_of(causal_lm)) {
    names += parameter.name + " " + shape_string(parameter.axes.data(), int(parameter.axes.size())) + "\n";
    numbers += parameter.size;
    EXPECT_EQ(parameter.is_matrix(), parameter.axes.size() == 2);
  }
  EXPECT_EQ(names,
            "model.embed_tokens.weight [vocab=37, hidden=16]\n"
            "model.layers.0.input_layernorm.weight [hidden=16]\n"
            "model.layers.0.self_attn.q_proj.weight [heads*head_dim=24, hidden=16]\n"
            "model.layers.0.self_attn.q_proj.bias [heads*head_dim=24]\n"
            "model.layers.0.self_attn.k_proj.weight [kv_heads*head_dim=12, hidden=16]\n"
            "model.layers.0.self_attn.k_proj.bias [kv_heads*head_dim=12]\n"
            "model.layers.0.self_attn.v_proj.weight [kv_heads*head_dim=12, hidden=16]\n"
            "model.layers.0.self_attn.v_proj.bias [kv_heads*head_dim=12]\n"
            "model.layers.0.self_attn.o_proj.weight [hidden=16, heads*head_dim=24]\n"
            "model.layers.0.self_attn.o_proj.bias [hidden=16]\n"
            "model.layers.0.post_attention_layernorm.weight [hidden=16]\n"
            "model.layers.0.mlp.gate_proj.weight [intermediate=22, hidden=16]\n"
            "model.layers.0.mlp.gate_proj.bias [intermediate=22]\n"
            "model.layers.0.mlp.up_proj.weight [intermediate=22, hidden=16]\n"
            "model.layers.0.mlp.up_proj.bias [intermediate=22]\n"
            "model.layers.0.mlp.down_proj.weight [hidden=16, intermediate=22]\n"
            "model.layers.0.mlp.down_proj.bias [hidden=16]\n"
            "model.norm.weight [hidden=16]\n"
            "lm_head.weight [vocab=37, hidden=16]\n");
  EXPECT_EQ(numbers, 37 * 16 * 2 + 3 * 16 + 24 * 17 + 2 * 12 * 17 + 16 * 25 + 2 * 22 * 17 + 16 * 23);
}

TYPED_TEST(ParametersTest, ATiedHeadAndAbsentBiasesAreNotListed) {
  ModelConfig config = tiny_config(false, true);
  config.num_hidden_layers = 2;
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(config, 1);
  const std::vector<Parameter<TypeParam>> parameters = parameters_of(causal_lm);
  ASSERT_EQ(parameters.size(), 1u + 2 * 9 + 1);
  EXPECT_EQ(parameters[10].name, "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(parameters.back().name, "model.norm.weight");
}

// Through the list one changes the model itself, one number and no other.
TYPED_TEST(ParametersTest, PointIntoTheModel) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(false, false), 1);
  const std::vector<Parameter<TypeParam>> parameters = parameters_of(causal_lm);
  ASSERT_EQ(parameters[2].name, "model.layers.0.self_attn.q_proj.weight");
  parameters[2].values[16 + 3] = TypeParam(7);  // row 1, column 3
  Tensor<TypeParam> row({{"in", 16}});
  causal_lm.model.layers[0].self_attn.q_proj.weight.read_row(1, row.row(0));
  EXPECT_EQ(row(3), TypeParam(7));
  EXPECT_EQ(parameters[2].view().size(), 24 * 16);
}

TYPED_TEST(ParametersTest, GradientsAreZeroAndOfTheSameShape) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, false), 1);
  const std::vector<TypeParam> before = numbers_of(parameters_of(causal_lm));
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  const std::vector<Parameter<TypeParam>> parameters = parameters_of(causal_lm);
  const std::vector<Parameter<TypeParam>> zeros = parameters_of(gradients);
  ASSERT_EQ(zeros.size(), parameters.size());
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    EXPECT_EQ(zeros[i].name, parameters[i].name);
    EXPECT_EQ(zeros[i].size, parameters[i].size);
    EXPECT_NE(zeros[i].values, parameters[i].values);
    EXPECT_TRUE(zeros[i].view().isZero(0)) << zeros[i].name;
  }
  EXPECT_EQ(numbers_of(parameters), before);
  zeros[3].values[0] = 1;
  set_to_zero(gradients);
  EXPECT_TRUE(zeros[3].view().isZero(0));
}

// f16, bf16 and f32, lent by somebody, become numbers of one's own in either type; the lender's stay.
TYPED_TEST(ParametersTest, MakeTrainableWidensAndOwns) {
  const std::uint16_t halves[4] = {0x3c00, 0xc000, 0x3800, 0x0000};  // 1, -2, 0.5, 0
  const std::uint16_t brains[4] = {0x3f80, 0xc000, 0x3f00, 0x4040};  // 1, -2, 0.5, 3
  const float floats[4] = {1.5f, -2.5f, 0.1f, 4};
  const auto lend = [](StoredType type, const void* numbers) {
    WeightMatrix weight;
    weight.type = type;
    weight.out = Axis("out", 2);
    weight.in = Axis("in", 2);
    weight.borrowed = static_cast<const std::byte*>(numbers);
    return weight;
  };
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(false, false), 1);
  causal_lm.model.embed_tokens.weight = lend(StoredType::f16, halves);
  causal_lm.model.layers[0].self_attn.q_proj.weight = lend(StoredType::bf16, brains);
  causal_lm.lm_head.weight = lend(StoredType::f32, floats);
  CausalLM<TypeParam> trainable = make_trainable(causal_lm);
  const std::vector<Parameter<TypeParam>> parameters = parameters_of(trainable);
  const std::vector<double> half_values = {1, -2, 0.5, 0}, brain_values = {1, -2, 0.5, 3};
  const std::vector<double> float_values = {1.5, -2.5, double(0.1f), 4};
  EXPECT_EQ(values_of<TypeParam>(trainable.model.embed_tokens.weight), half_values);
  EXPECT_EQ(values_of<TypeParam>(trainable.model.layers[0].self_attn.q_proj.weight), brain_values);
  EXPECT_EQ(values_of<TypeParam>(trainable.lm_head.weight), float_values);
  EXPECT_EQ(shape_string(trainable.lm_head.weight), "[out=2, in=2]");
  parameters[0].values[0] = 9;
  EXPECT_EQ(halves[0], 0x3c00);
  EXPECT_TRUE(throws<UsageError>([&] { parameters_of(causal_lm); },
                                 std::string("parameters_of: model.embed_tokens.weight [out=2, in=2] is "
                                             "borrowed, f16, expected owned numbers in ") +
                                     dtype_name<TypeParam>() + ": make_trainable() makes such a copy"));
}

// All the seven matrices of a layer and the two outside are copied: none of a model lent as a whole stays
// lent.
TYPED_TEST(ParametersTest, MakeTrainableCopiesEveryMatrix) {
  CausalLM<TypeParam> owner = random_model<TypeParam>(tiny_config(true, false), 1);
  CausalLM<TypeParam> borrower = owner;
  const auto lend = [](WeightMatrix& lent, const WeightMatrix& owned) {
    lent.owned.clear();
    lent.borrowed = owned.data();
  };
  lend(borrower.model.embed_tokens.weight, owner.model.embed_tokens.weight);
  lend(borrower.lm_head.weight, owner.lm_head.weight);
  DecoderLayer<TypeParam>& layer = borrower.model.layers[0];
  const DecoderLayer<TypeParam>& own = owner.model.layers[0];
  lend(layer.self_attn.q_proj.weight, own.self_attn.q_proj.weight);
  lend(layer.self_attn.k_proj.weight, own.self_attn.k_proj.weight);
  lend(layer.self_attn.v_proj.weight, own.self_attn.v_proj.weight);
  lend(layer.self_attn.o_proj.weight, own.self_attn.o_proj.weight);
  lend(layer.mlp.gate_proj.weight, own.mlp.gate_proj.weight);
  lend(layer.mlp.up_proj.weight, own.mlp.up_proj.weight);
  lend(layer.mlp.down_proj.weight, own.mlp.down_proj.weight);
  CausalLM<TypeParam> trainable = make_trainable(borrower);
  EXPECT_TRUE(test_support::same_bits(parameters_of(trainable), parameters_of(owner)));
}

TEST(Parameters, Errors) {
  CausalLM<float> causal_lm = random_model<float>(tiny_config(false, false), 1);
  causal_lm.model.layers[0].mlp.up_proj.weight =
      WeightMatrix::from_tensor(Tensor<double>({{"out", 2}, {"in", 3}}));
  EXPECT_TRUE(
      throws<UsageError>([&] { parameters_of(causal_lm); },
                         "parameters_of: model.layers.0.mlp.up_proj.weight [out=2, in=3] is owned, f64, "
                         "expected owned numbers in f32: make_trainable() makes such a copy"));
  causal_lm.model.embed_tokens.weight = WeightMatrix();
  EXPECT_TRUE(throws<UsageError>([&] { parameters_of(causal_lm); },
                                 "parameters_of: model.embed_tokens.weight [=0, =0] is empty, expected owned "
                                 "numbers in f32: make_trainable() makes such a copy"));
}

}  // namespace parameters_test
}  // namespace glassbox
