// Faults that must turn this red: the scale dropped; h % kv_heads instead of h / groups; the cache filled
// before rotation; values rotated; keys not rotated; the mask left out; keys for values; a bias ignored; a
// stage left out or under another name; the query's heads counted as kv heads.
#include "glassbox/attention.hpp"

#include "support/naive_model.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace attention_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::naive_attention;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_linear;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(scaled_scores(Tensor<float>(), Tensor<float>())), Tensor<float>>);
static_assert(std::is_same_v<decltype(weighted_values(Tensor<float>(), Tensor<float>())), Tensor<float>>);

constexpr double theta = 100;

template <typename Scalar>
Attention<Scalar> random_attention(Index hidden, Index heads, Index kv_heads, Index head_dim, bool bias) {
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

// What Attention::forward is given for new tokens: the tables and the mask that follow from attention_mask.
template <typename Scalar>
Tensor<Scalar> forward(const Attention<Scalar>& attention, const Tensor<Scalar>& hidden_states,
                       const Tensor<std::int64_t>& attention_mask, LayerKVCache<Scalar>& cache) {
  const Index head_dim = attention.q_proj.weight.out.size / attention.num_attention_heads;
  const Index seq = hidden_states.dim(1);
  const RotaryTables<Scalar> tables = RotaryEmbedding<Scalar>::from_theta(head_dim, theta)
                                          .forward(position_ids_from_mask(attention_mask, seq));
  const Tensor<Scalar> additive =
      make_additive_mask<Scalar>(make_causal_mask(expand_mask(attention_mask), seq));
  return attention.forward(hidden_states, tables.cos, tables.sin, additive, cache);
}

Tensor<std::int64_t> ones(Index batch, Index tokens) {
  Tensor<std::int64_t> mask({{"batch", batch}, {"seq", tokens}});
  for (Index i = 0; i < mask.size(); ++i) mask.data()[i] = 1;
  return mask;
}

template <typename Scalar>
class AttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionTest, Scalars, ScalarNames);

// One head of 2, all projections the identity, no rotation. With x0 = [1, 0], x1 = [0, a], a^2 = sqrt(2) ln
// 3, the second token scores 0 and a^2 / sqrt(2) = ln 3: weights 1/4 and 3/4.
TYPED_TEST(AttentionTest, WorkedExample) {
  const double a = std::sqrt(std::sqrt(2.0) * std::log(3.0));
  const WeightMatrix identity =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"out", 2}, {"in", 2}}, {1, 0, 0, 1}));
  Attention<TypeParam> attention;
  attention.q_proj.weight = attention.k_proj.weight = attention.v_proj.weight = identity;
  attention.o_proj.weight = identity;
  attention.num_attention_heads = attention.num_key_value_heads = 1;
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 2}}, {1, 0, 0, a});
  const Tensor<TypeParam> cos =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"head_dim", 2}}, {1, 1, 1, 1});
  const Tensor<TypeParam> sin({{"batch", 1}, {"seq", 2}, {"head_dim", 2}});
  const Tensor<TypeParam> additive =
      make_additive_mask<TypeParam>(make_causal_mask(expand_mask(ones(1, 2)), 2));
  LayerKVCache<TypeParam> cache;
  EXPECT_TRUE(near_values(attention.forward(x, cos, sin, additive, cache), {1, 0, 0.25, 0.75 * a},
                          rounding<TypeParam>()));
}

TYPED_TEST(AttentionTest, ScaledScoresWorkedExample) {
  const Tensor<TypeParam> query =
      make_tensor<TypeParam>({{"batch", 1}, {"head", 1}, {"seq", 1}, {"head_dim", 4}}, {1, 2, 3, 4});
  const Tensor<TypeParam> keys = make_tensor<TypeParam>(
      {{"batch", 1}, {"kv_head", 1}, {"key", 2}, {"head_dim", 4}}, {1, 1, 1, 1, 0, 0, 0, -1});
  const Tensor<TypeParam> scores = scaled_scores(query, keys);
  EXPECT_EQ(shape_string(scores), "[batch=1, head=1, query=1, key=2]");
  EXPECT_TRUE(near_values(scores, {5, -2}, rounding<TypeParam>()));  // 10 / 2 and -4 / 2
}

// V11: 8 query heads on 4 kv heads use 0 0 1 1 2 2 3 3, not 0 1 2 3 0 1 2 3.
TYPED_TEST(AttentionTest, NeighbouringQueryHeadsShareAKeyValueHead) {
  Tensor<TypeParam> query({{"batch", 1}, {"head", 8}, {"seq", 1}, {"head_dim", 1}});
  Tensor<TypeParam> weights({{"batch", 1}, {"head", 8}, {"query", 1}, {"key", 1}});
  Tensor<TypeParam> cached({{"batch", 1}, {"kv_head", 4}, {"key", 1}, {"head_dim", 1}});
  for (Index h = 0; h < 8; ++h) query(0, h, 0, 0) = weights(0, h, 0, 0) = TypeParam(1);
  for (Index g = 0; g < 4; ++g) cached(0, g, 0, 0) = TypeParam(g);
  const std::vector<double> expected = {0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_TRUE(near_values(scaled_scores(query, cached), expected, 0));
  EXPECT_TRUE(near_values(weighted_values(weights, cached), expected, 0));
}

TYPED_TEST(AttentionTest, WeightedValuesWorkedExample) {
  const Tensor<TypeParam> weights =
      make_tensor<TypeParam>({{"batch", 1}, {"head", 1}, {"query", 2}, {"key", 2}}, {1, 0, 0.25, 0.75});
  const Tensor<TypeParam> values =
      make_tensor<TypeParam>({{"batch", 1}, {"kv_head", 1}, {"key", 2}, {"head_dim", 3}}, {1, 2, 3, 5, 6, 7});
  const Tensor<TypeParam> context = weighted_values(weights, values);
  EXPECT_EQ(shape_string(context), "[batch=1, head=1, query=2, head_dim=3]");
  EXPECT_TRUE(near_values(context, {1, 2, 3, 4, 5, 6}, 0));
}

// A batch of two in chunks of 4, 1 and 3 tokens; the second row begins with two tokens of padding. V23: the
// heads' widths need not add up to hidden_size.
template <typename Scalar>
void expect_equals_naive(const Attention<Scalar>& attention, Index hidden) {
  const Tensor<Scalar> x = random_tensor<Scalar>({{"batch", 2}, {"seq", 8}, {"hidden", hidden}}, 5, 2);
  Tensor<std::int64_t> mask = ones(2, 8);
  mask(1, 0) = mask(1, 1) = 0;
  LayerKVCache<Scalar> cache;
  naive::Cache naive_cache;
  Index begin = 0;
  for (const Index chunk : {4, 1, 3}) {
    Tensor<Scalar> chunk_x({{"batch", 2}, {"seq", chunk}, {"hidden", hidden}});
    Tensor<std::int64_t> chunk_mask({{"batch", 2}, {"seq", begin + chunk}});
    naive::Positions positions(2);
    naive::Visible visible(2);
    for (Index b = 0; b < 2; ++b) {
      chunk_x.matrix(b) = x.matrix(b).middleRows(begin, chunk);
      chunk_mask.row(b) = mask.row(b).head(begin + chunk);
      for (Index j = 0; j < begin + chunk; ++j) visible[std::size_t(b)].push_back(mask(b, j) == 1);
      for (Index s = begin; s < begin + chunk; ++s) {
        positions[std::size_t(b)].push_back(static_cast<double>(b == 1 ? (std::max)(s - 2, Index(0)) : s));
      }
    }
    const naive::Array expected = naive::attention(naive_array(chunk_x), naive_attention(attention, theta),
                                                   positions, visible, naive_cache);
    const Tensor<Scalar> output = forward(attention, chunk_x, chunk_mask, cache);
    EXPECT_TRUE(near_values(output, expected.values, 20 * rounding<Scalar>())) << "chunk at " << begin;
    begin += chunk;
    EXPECT_EQ(cache.keys.dim(2), begin);
  }
}

TYPED_TEST(AttentionTest, EqualsNaiveLoop) {
  expect_equals_naive(random_attention<TypeParam>(6, 2, 1, 4, false), 6);
  expect_equals_naive(random_attention<TypeParam>(10, 6, 3, 2, true), 10);
  expect_equals_naive(random_attention<TypeParam>(7, 3, 3, 6, false), 7);
}

// V10: a query that may look at no key gets a context of zeros; the others stay as they are.
TYPED_TEST(AttentionTest, FullyMaskedQueryGivesZeros) {
  const Attention<TypeParam> attention = random_attention<TypeParam>(6, 2, 1, 2, false);
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 1}, {"seq", 4}, {"hidden", 6}}, 6);
  const Tensor<TypeParam> cos = random_tensor<TypeParam>({{"batch", 1}, {"seq", 4}, {"head_dim", 2}}, 7);
  Tensor<bool> causal = make_causal_mask(expand_mask(ones(1, 4)), 4);
  LayerKVCache<TypeParam> cache;
  const Tensor<TypeParam> before =
      attention.forward(x, cos, cos, make_additive_mask<TypeParam>(causal), cache);
  causal(0, 0, 1, 0) = causal(0, 0, 1, 1) = false;
  LayerKVCache<TypeParam> second_cache;
  const Tensor<TypeParam> after =
      attention.forward(x, cos, cos, make_additive_mask<TypeParam>(causal), second_cache);
  for (Index s = 0; s < 4; ++s) {
    for (Index i = 0; i < 6; ++i) EXPECT_EQ(after(0, s, i), s == 1 ? TypeParam(0) : before(0, s, i));
  }
}

// V17: the cache holds keys after rotation, values as projected, and keeps both as they are.
TYPED_TEST(AttentionTest, CacheHoldsRotatedKeysAndPlainValues) {
  const Attention<TypeParam> attention = random_attention<TypeParam>(6, 2, 1, 4, true);
  const naive::Attention naive_layer = naive_attention(attention, theta);
  LayerKVCache<TypeParam> cache;
  std::vector<std::vector<double>> keys, values;
  for (Index position = 0; position < 12; ++position) {
    const Tensor<TypeParam> x =
        random_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"hidden", 6}}, 20 + std::uint32_t(position));
    forward(attention, x, ones(1, position + 1), cache);
    const naive::Array key = naive::linear(naive_array(x), naive_layer.k_proj);
    keys.push_back(naive::rotate(key.values, static_cast<double>(position), theta, false));
    values.push_back(naive::linear(naive_array(x), naive_layer.v_proj).values);
  }
  for (Index position = 0; position < 12; ++position) {
    for (Index d = 0; d < 4; ++d) {
      const std::size_t p = static_cast<std::size_t>(position), i = static_cast<std::size_t>(d);
      EXPECT_NEAR(static_cast<double>(cache.keys(0, 0, position, d)), keys[p][i], 5 * rounding<TypeParam>());
      EXPECT_NEAR(static_cast<double>(cache.values(0, 0, position, d)), values[p][i],
                  5 * rounding<TypeParam>());
    }
  }
}

TYPED_TEST(AttentionTest, StagesInTheirOrder) {
  const Attention<TypeParam> attention = random_attention<TypeParam>(6, 2, 1, 4, false);
  std::string passed;
  ScopedStageHook hook([&](StageRecord& record) {
    passed += std::string(record.name) + " ";
    EXPECT_EQ(record.layer, 3);
  });
  LayerKVCache<TypeParam> cache;
  forward(attention, random_tensor<TypeParam>({{"batch", 1}, {"seq", 2}, {"hidden", 6}}, 1), ones(1, 2),
          cache);
  EXPECT_EQ(passed,
            "q_proj k_proj v_proj query_heads key_heads value_states query_states key_states cached_keys "
            "cached_values scores masked_scores attn_weights context merged_heads attn_output ");
}

// A hook that takes one head's context away leaves the output that the other head alone gives.
TYPED_TEST(AttentionTest, HookMayTakeAHeadAway) {
  Attention<TypeParam> attention = random_attention<TypeParam>(6, 2, 1, 4, false);
  const Tensor<TypeParam> x = random_tensor<TypeParam>({{"batch", 1}, {"seq", 3}, {"hidden", 6}}, 1);
  LayerKVCache<TypeParam> cache, second_cache;
  Tensor<TypeParam> ablated;
  {
    ScopedStageHook hook([&](StageRecord& record) {
      if (std::string(record.name) != "context") return;
      if (record.f32 != nullptr) record.f32->matrix(0, 1).setZero();
      if (record.f64 != nullptr) record.f64->matrix(0, 1).setZero();
    });
    ablated = forward(attention, x, ones(1, 3), cache);
  }
  Tensor<TypeParam> o_weight({{"hidden", 6}, {"merged", 8}});
  for (Index o = 0; o < 6; ++o) attention.o_proj.weight.read_row(o, o_weight.row(o));
  o_weight.matrix().rightCols(4).setZero();
  attention.o_proj.weight = WeightMatrix::from_tensor(o_weight);
  const Tensor<TypeParam> one_head = forward(attention, x, ones(1, 3), second_cache);
  EXPECT_TRUE(near_tensors(ablated, one_head, rounding<TypeParam>()));
}

TEST(Attention, Errors) {
  const Tensor<float> query({{"batch", 1}, {"head", 3}, {"seq", 1}, {"head_dim", 4}});
  const Tensor<float> keys({{"batch", 1}, {"kv_head", 2}, {"key", 5}, {"head_dim", 4}});
  const Tensor<float> narrow({{"batch", 1}, {"kv_head", 3}, {"key", 5}, {"head_dim", 2}});
  const Tensor<float> batch({{"batch", 2}, {"kv_head", 3}, {"key", 5}, {"head_dim", 4}});
  const std::string start = "query_states [batch=1, head=3, seq=1, head_dim=4] does not fit cached";
  const std::string end = ": equal batch, and heads a multiple of kv heads, are needed";
  EXPECT_TRUE(
      throws<ShapeError>([&] { scaled_scores(query, keys); },
                         "scaled_scores: " + start + " [batch=1, kv_head=2, key=5, head_dim=4]" + end));
  EXPECT_TRUE(
      throws<ShapeError>([&] { scaled_scores(query, batch); },
                         "scaled_scores: " + start + " [batch=2, kv_head=3, key=5, head_dim=4]" + end));
  EXPECT_TRUE(throws<ShapeError>([&] { scaled_scores(query, narrow); },
                                 "scaled_scores: " + start +
                                     "_keys [batch=1, kv_head=3, key=5, head_dim=2]: "
                                     "their last axes must be equally long"));
  EXPECT_TRUE(throws<ShapeError>([&] { scaled_scores(Tensor<float>(), keys); },
                                 "scaled_scores: query_states [] has 0 axes, expected 4"));
  EXPECT_TRUE(throws<ShapeError>([&] { weighted_values(query, Tensor<float>()); },
                                 "weighted_values: cached [] has 0 axes, expected 4"));
  const Tensor<float> values({{"batch", 1}, {"kv_head", 3}, {"key", 5}, {"head_dim", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { weighted_values(query, values); },
                                 "weighted_values: attn_weights [batch=1, head=3, seq=1, head_dim=4]: axis 3 "
                                 "must have 5 elements (keys of the cached values)"));
}

TEST(Attention, ErrorsOfForward) {
  const Attention<float> attention = random_attention<float>(6, 2, 1, 4, false);
  LayerKVCache<float> cache;
  const Tensor<float> x({{"batch", 1}, {"seq", 2}, {"hidden", 6}});
  const Tensor<float> tables({{"batch", 1}, {"seq", 2}, {"head_dim", 4}});
  const Tensor<float> additive({{"batch", 1}, {"head", 1}, {"query", 2}, {"key", 3}});
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        attention.forward(Tensor<float>({{"hidden", 6}}), tables, tables, additive, cache);
      },
      "Attention::forward: hidden_states [hidden=6] has 1 axes, expected 3"));
  EXPECT_TRUE(throws<ShapeError>([&] { attention.forward(x, tables, tables, additive, cache); },
                                 "add_mask: additive_mask [batch=1, head=1, query=2, key=3]: axis 3 must "
                                 "have 2 elements (keys of the scores)"));
}

}  // namespace attention_test
}  // namespace glassbox
