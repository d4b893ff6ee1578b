// Faults that must turn this red: the scaling of the scores forgotten in the backward; the heads of a group
// not all collected, or collected by another kv head; the rotation not turned back, or the values' gradient
// turned; one of the three ways of the input left out; a gradient for a masked key; a stage left out or
// renamed.
#include "glassbox/training/attention_backward.hpp"

#include "glassbox/attention_mask.hpp"
#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace attention_backward_test {

using test_support::gradient_agrees;
using test_support::gradients_agree;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_linear;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::weighted_sum;
using test_support::zero_like;

constexpr Index hidden = 5, heads = 4, kv_heads = 2, head_dim = 2, seq = 4;

template <typename Scalar>
Attention<Scalar> random_attention(bool bias) {
  RandomGenerator random(9);
  Attention<Scalar> attention;
  attention.num_attention_heads = heads;
  attention.num_key_value_heads = kv_heads;
  attention.layer = 3;
  attention.q_proj = random_linear<Scalar>({"q", heads * head_dim}, {"hidden", hidden}, bias, random);
  attention.k_proj = random_linear<Scalar>({"k", kv_heads * head_dim}, {"hidden", hidden}, bias, random);
  attention.v_proj = random_linear<Scalar>({"v", kv_heads * head_dim}, {"hidden", hidden}, bias, random);
  attention.o_proj = random_linear<Scalar>({"hidden", hidden}, {"merged", heads * head_dim}, bias, random);
  return attention;
}

// The first text ends in one position of padding, the second begins with one.
template <typename Scalar>
struct Inputs {
  Tensor<Scalar> hidden_states =
      random_tensor<Scalar>({{"batch", 2}, {"seq", seq}, {"hidden", hidden}}, 5, 2);
  Tensor<Scalar> d_output = random_tensor<Scalar>({{"batch", 2}, {"seq", seq}, {"hidden", hidden}}, 6);
  Tensor<std::int64_t> attention_mask =
      make_tensor<std::int64_t>({{"batch", 2}, {"seq", seq}}, {1, 1, 1, 0, 0, 1, 1, 1});
  RotaryTables<Scalar> rotary =
      RotaryEmbedding<Scalar>::from_theta(head_dim, 100).forward(position_ids_from_mask(attention_mask, seq));
  Tensor<Scalar> additive_mask =
      make_additive_mask<Scalar>(make_causal_mask(expand_mask(attention_mask), seq));
};

template <typename Scalar>
Tensor<Scalar> forward(const Attention<Scalar>& attention, const Inputs<Scalar>& inputs,
                       AttentionActivations<Scalar>& activations) {
  return attention_training_forward(attention, inputs.hidden_states, inputs.rotary.cos, inputs.rotary.sin,
                                    inputs.additive_mask, activations);
}

template <typename Scalar>
Tensor<Scalar> backward(const Attention<Scalar>& attention, Inputs<Scalar>& inputs,
                        Attention<Scalar>& gradients) {
  AttentionActivations<Scalar> activations;
  forward(attention, inputs, activations);
  return attention_backward(attention, inputs.hidden_states, inputs.rotary.cos, inputs.rotary.sin,
                            activations, inputs.d_output, gradients);
}

template <typename Scalar>
class AttentionBackwardTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionBackwardTest, Scalars, ScalarNames);

TYPED_TEST(AttentionBackwardTest, TheTrainingForwardIsTheForward) {
  for (const bool bias : {false, true}) {
    const Attention<TypeParam> attention = random_attention<TypeParam>(bias);
    const Inputs<TypeParam> inputs;
    AttentionActivations<TypeParam> activations;
    LayerKVCache<TypeParam> cache;
    const Tensor<TypeParam> expected = attention.forward(inputs.hidden_states, inputs.rotary.cos,
                                                         inputs.rotary.sin, inputs.additive_mask, cache);
    EXPECT_TRUE(near_tensors(forward(attention, inputs, activations), expected, 0));
    EXPECT_TRUE(near_tensors(activations.key_states, cache.keys, 0));
    EXPECT_TRUE(near_tensors(activations.value_states, cache.values, 0));
  }
}

// Two query heads on one kv head, two positions. d_context . value, d_context and weights by hand.
TYPED_TEST(AttentionBackwardTest, GroupsCollectTheGradientsOfTheirHeads) {
  const Tensor<TypeParam> d_context =
      make_tensor<TypeParam>({{"batch", 1}, {"head", 2}, {"query", 2}, {"head_dim", 1}}, {1, 2, 10, 20});
  const Tensor<TypeParam> values =
      make_tensor<TypeParam>({{"batch", 1}, {"kv_head", 1}, {"seq", 2}, {"head_dim", 1}}, {3, 5});
  const Tensor<TypeParam> d_weights = attn_weights_gradient(d_context, values);
  EXPECT_EQ(shape_string(d_weights), "[batch=1, head=2, query=2, key=2]");
  EXPECT_TRUE(near_values(d_weights, {3, 5, 6, 10, 30, 50, 60, 100}, 0));
  const Tensor<TypeParam> weights = make_tensor<TypeParam>(
      {{"batch", 1}, {"head", 2}, {"query", 2}, {"key", 2}}, {1, 0, 0.5, 0.5, 1, 0, 0.25, 0.75});
  // Key 0: 1*1 + 0.5*2 of head 0, 1*10 + 0.25*20 of head 1; key 1: 0.5*2 and 0.75*20.
  const Tensor<TypeParam> shared = shared_states_gradient(weights, d_context, 1);
  EXPECT_EQ(shape_string(shared), "[batch=1, kv_head=1, seq=2, head_dim=1]");
  EXPECT_TRUE(near_values(shared, {17, 16}, 0));
  EXPECT_TRUE(near_values(shared_states_gradient(weights, d_context, 2), {2, 1, 15, 15}, 0));
  // Each query: the keys 3 and 5 by the gradients of its scores.
  const Tensor<TypeParam> d_query = query_states_gradient(weights, values);
  EXPECT_EQ(shape_string(d_query), "[batch=1, head=2, seq=2, head_dim=1]");
  EXPECT_TRUE(near_values(d_query, {3, 4, 3, 4.5}, 0));
  EXPECT_TRUE(near_values(scale(values, TypeParam(0.5)), {1.5, 2.5}, 0));
}

// 8 heads on 4 kv heads are the groups 0 0 1 1 2 2 3 3, not 0 1 2 3 0 1 2 3.
TYPED_TEST(AttentionBackwardTest, NeighbouringHeadsAreAGroup) {
  Tensor<TypeParam> weights({{"batch", 1}, {"head", 8}, {"query", 1}, {"key", 1}});
  Tensor<TypeParam> d_output({{"batch", 1}, {"head", 8}, {"query", 1}, {"head_dim", 1}});
  Tensor<TypeParam> states({{"batch", 1}, {"kv_head", 4}, {"seq", 1}, {"head_dim", 1}});
  for (Index h = 0; h < 8; ++h) {
    weights(0, h, 0, 0) = TypeParam(1);
    d_output(0, h, 0, 0) = TypeParam(h);
  }
  for (Index g = 0; g < 4; ++g) states(0, g, 0, 0) = TypeParam(g);
  EXPECT_TRUE(near_values(shared_states_gradient(weights, d_output, 4), {1, 5, 9, 13}, 0));
  const std::vector<double> expected = {0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_TRUE(near_values(query_states_gradient(weights, states), expected, 0));
  EXPECT_TRUE(near_values(attn_weights_gradient(weights, states), expected, 0));
}

TEST(AttentionBackward, EqualsCentralDifferences) {
  for (const bool bias : {false, true}) {
    Attention<double> attention = random_attention<double>(bias);
    Inputs<double> inputs;
    Attention<double> gradients = zero_like(attention);
    const Tensor<double> d_hidden_states = backward(attention, inputs, gradients);
    EXPECT_EQ(shape_string(d_hidden_states), "[batch=2, seq=4, hidden=5]");
    const auto loss = [&] {
      AttentionActivations<double> unused;
      return weighted_sum(forward(attention, inputs, unused), inputs.d_output);
    };
    EXPECT_TRUE(gradient_agrees("hidden_states", inputs.hidden_states, d_hidden_states, loss));
    EXPECT_TRUE(gradients_agree("q_proj", attention.q_proj, gradients.q_proj, loss));
    EXPECT_TRUE(gradients_agree("k_proj", attention.k_proj, gradients.k_proj, loss));
    EXPECT_TRUE(gradients_agree("v_proj", attention.v_proj, gradients.v_proj, loss));
    EXPECT_TRUE(gradients_agree("o_proj", attention.o_proj, gradients.o_proj, loss));

    Inputs<float> narrow_inputs;
    const Attention<float> narrow = random_attention<float>(bias);
    Attention<float> narrow_gradients = zero_like(narrow);
    const Tensor<float> narrow_d = backward(narrow, narrow_inputs, narrow_gradients);
    EXPECT_TRUE(near_tensors(narrow_d, d_hidden_states, 2e-5));
    for (Index o = 0; o < heads * head_dim; ++o) {
      Tensor<double> row({{"in", hidden}}), wide_row({{"in", hidden}});
      narrow_gradients.q_proj.weight.read_row(o, row.row(0));
      gradients.q_proj.weight.read_row(o, wide_row.row(0));
      EXPECT_TRUE(near_tensors(row, wide_row, 2e-5));
    }
  }
}

// Where nothing looks at a key, its gradients are zero, not small: padding behind a text or before it, and
// tokens after the only position that is learned from.
TEST(AttentionBackward, MaskedKeysGetNoGradientAtAll) {
  const Attention<double> attention = random_attention<double>(true);
  Inputs<double> inputs;
  inputs.d_output.matrix(0).row(3).setZero();  // nothing is learned from padding
  for (const Index s : {0, 2, 3}) inputs.d_output.matrix(1).row(s).setZero();
  Attention<double> gradients = zero_like(attention);
  std::map<std::string, Tensor<double>> seen;
  ScopedStageHook hook([&](StageRecord& record) { seen[record.name] = *record.f64; });
  const Tensor<double> d_hidden_states = backward(attention, inputs, gradients);
  for (Index batch = 0; batch < 2; ++batch) {
    for (Index key = 0; key < seq; ++key) {
      const bool looked_at = batch == 0 ? key < 3 : key == 1;
      EXPECT_EQ(d_hidden_states.matrix(batch).row(key).isZero(0), !looked_at) << batch << ", " << key;
      for (Index head = 0; head < kv_heads; ++head) {
        EXPECT_EQ(seen.at("d_value_states").matrix(batch, head).row(key).isZero(0), !looked_at);
        // The first position of a text looks at itself only, whatever its score.
        const bool moves = batch == 0 && looked_at;
        EXPECT_EQ(seen.at("d_key_states").matrix(batch, head).row(key).isZero(1e-15), !moves);
      }
      for (Index query = 0; query < seq; ++query) {
        if (inputs.additive_mask(batch, 0, query, key) == 0) continue;
        for (Index head = 0; head < heads; ++head) EXPECT_EQ(seen.at("d_scores")(batch, head, query, key), 0);
      }
    }
  }
}

TEST(AttentionBackward, StagesInTheirOrder) {
  const Attention<double> attention = random_attention<double>(false);
  Inputs<double> inputs;
  Attention<double> gradients = zero_like(attention);
  std::string passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed += std::string(record.name) + " ";
    EXPECT_EQ(record.layer, 3);
  });
  backward(attention, inputs, gradients);
  EXPECT_EQ(
      passed,
      "q_proj k_proj v_proj query_heads key_heads value_states query_states key_states scores "
      "masked_scores attn_weights context merged_heads attn_output d_attn_output d_merged_heads d_context "
      "d_attn_weights d_value_states d_scores d_query_states d_key_states d_query_heads d_key_heads "
      "d_q_proj d_k_proj d_v_proj ");
}

TEST(AttentionBackward, Errors) {
  const Tensor<float> weights({{"batch", 1}, {"head", 4}, {"query", 2}, {"key", 2}});
  const Tensor<float> states({{"batch", 1}, {"kv_head", 3}, {"seq", 2}, {"head_dim", 2}});
  const Tensor<float> wide({{"batch", 1}, {"kv_head", 2}, {"seq", 2}, {"head_dim", 3}});
  EXPECT_TRUE(
      throws<ShapeError>([&] { attn_weights_gradient(weights, states); },
                         "attn_weights_gradient: d_context [batch=1, head=4, query=2, key=2] does not "
                         "fit cached [batch=1, kv_head=3, seq=2, head_dim=2]: equal batch, and heads a "
                         "multiple of kv heads, are needed"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { attn_weights_gradient(weights, wide); },
                         "attn_weights_gradient: d_context [batch=1, head=4, query=2, key=2] does not "
                         "fit value_states [batch=1, kv_head=2, seq=2, head_dim=3]: their last axes "
                         "must be equally long"));
  EXPECT_TRUE(throws<ShapeError>([&] { query_states_gradient(weights, states); },
                                 "query_states_gradient: scaled_d_scores [batch=1, head=4, query=2, key=2] "
                                 "does not fit cached [batch=1, kv_head=3, seq=2, head_dim=2]: equal batch, "
                                 "and heads a multiple of kv heads, are needed"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { shared_states_gradient(weights, weights, 3); },
                         "shared_states_gradient: weights [batch=1, head=4, query=2, key=2] and "
                         "d_output [batch=1, head=4, query=2, key=2] do not fit 3 kv heads: equal batch "
                         "and heads, a multiple of kv heads, are needed"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { shared_states_gradient(weights, states, 2); },
                         "shared_states_gradient: weights [batch=1, head=4, query=2, key=2] and "
                         "d_output [batch=1, kv_head=3, seq=2, head_dim=2] do not fit 2 kv heads: equal "
                         "batch and heads, a multiple of kv heads, are needed"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        shared_states_gradient(Tensor<float>({{"key", 2}}), weights, 2);
      },
      "shared_states_gradient: weights [key=2] has 1 axes, expected 4"));
}

}  // namespace attention_backward_test
}  // namespace glassbox
