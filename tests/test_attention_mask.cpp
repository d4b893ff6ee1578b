// Faults that must turn this red: the mask off by one (j < past + i, j <= past + i + 1); past ignored;
// padding ignored; position ids that count padding, restart with each chunk or are shifted by one; one row's
// mask used for another; additive 0 and -infinity exchanged; a mask per head expected.
#include "glassbox/attention_mask.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace attention_mask_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

using Ids = Tensor<std::int64_t>;

static_assert(std::is_same_v<decltype(position_ids_from_mask(Ids(), 1)), Tensor<std::int64_t>>);
static_assert(std::is_same_v<decltype(expand_mask(Ids())), Tensor<bool>>);
static_assert(std::is_same_v<decltype(make_causal_mask(Tensor<bool>(), 1)), Tensor<bool>>);
static_assert(std::is_same_v<decltype(make_additive_mask<float>(Tensor<bool>())), Tensor<float>>);
static_assert(std::is_same_v<decltype(add_mask(Tensor<float>(), Tensor<float>())), Tensor<float>>);

// [rows, tokens] of zeros and ones.
Ids mask_of(Index rows, const std::vector<double>& values) {
  return make_tensor<std::int64_t>({{"batch", rows}, {"seq", static_cast<Index>(values.size()) / rows}},
                                   values);
}

Ids ones(Index tokens) { return mask_of(1, std::vector<double>(static_cast<std::size_t>(tokens), 1)); }

TEST(AttentionMask, PositionsCountRealTokensOnly) {
  EXPECT_TRUE(near_values(position_ids_from_mask(ones(4), 4), {0, 1, 2, 3}, 0));
  // Left padding: the first real token stands at 0.
  const Ids padded = mask_of(2, {0, 0, 1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(near_values(position_ids_from_mask(padded, 4), {0, 0, 0, 1, 0, 1, 2, 3}, 0));
  // Padding behind and in between gets 0 and is not counted.
  EXPECT_TRUE(near_values(position_ids_from_mask(mask_of(1, {1, 0, 1, 0}), 4), {0, 0, 1, 0}, 0));
}

// With tokens in the cache only the new ones get positions, and they go on counting.
TEST(AttentionMask, PositionsGoOnBehindTheCache) {
  EXPECT_TRUE(near_values(position_ids_from_mask(ones(5), 2), {3, 4}, 0));
  EXPECT_TRUE(near_values(position_ids_from_mask(ones(5), 1), {4}, 0));
  const Ids padded = mask_of(2, {0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  const Ids position_ids = position_ids_from_mask(padded, 2);
  EXPECT_EQ(shape_string(position_ids), "[batch=2, seq=2]");
  EXPECT_TRUE(near_values(position_ids, {1, 2, 2, 3}, 0));
}

TEST(AttentionMask, ExpandedForAllHeadsAndQueries) {
  const Tensor<bool> expanded = expand_mask(mask_of(2, {0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(shape_string(expanded), "[batch=2, head=1, query=1, key=3]");
  EXPECT_TRUE(near_values(expanded, {0, 1, 1, 1, 1, 0}, 0));
}

// V12: two queries behind three cached keys, one query behind four, and a square without a cache.
TEST(AttentionMask, CausalWithAndWithoutACache) {
  const Tensor<bool> five = expand_mask(ones(5));
  const Tensor<bool> two_queries = make_causal_mask(five, 2);
  EXPECT_EQ(shape_string(two_queries), "[batch=1, head=1, query=2, key=5]");
  EXPECT_TRUE(near_values(two_queries, {1, 1, 1, 1, 0, 1, 1, 1, 1, 1}, 0));
  EXPECT_TRUE(near_values(make_causal_mask(five, 1), {1, 1, 1, 1, 1}, 0));
  EXPECT_TRUE(near_values(make_causal_mask(expand_mask(ones(3)), 3), {1, 0, 0, 1, 1, 0, 1, 1, 1}, 0));
}

TEST(AttentionMask, CausalAndPadding) {
  const Tensor<bool> mask = make_causal_mask(expand_mask(mask_of(2, {0, 1, 1, 1, 1, 1})), 3);
  EXPECT_TRUE(near_values(mask,
                          {0, 0, 0, 0, 1, 0, 0, 1, 1,  // the row with padding: its first query sees nothing
                           1, 0, 0, 1, 1, 0, 1, 1, 1},
                          0));
}

// The rule once more, by loops, over sizes and paddings.
TEST(AttentionMask, EqualsNaiveLoop) {
  for (const Index keys : {1, 2, 7}) {
    for (Index queries = 1; queries <= keys; ++queries) {
      Ids attention_mask({{"batch", 3}, {"seq", keys}});
      for (Index b = 0; b < 3; ++b) {
        for (Index j = 0; j < keys; ++j) attention_mask(b, j) = j >= b ? 1 : 0;
      }
      const Tensor<bool> causal = make_causal_mask(expand_mask(attention_mask), queries);
      for (Index b = 0; b < 3; ++b) {
        for (Index i = 0; i < queries; ++i) {
          for (Index j = 0; j < keys; ++j) {
            EXPECT_EQ(causal(b, 0, i, j), j >= b && j + queries <= keys + i) << keys << b << i << j;
          }
        }
      }
    }
  }
}

template <typename Scalar>
class AttentionMaskTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionMaskTest, Scalars, ScalarNames);

TYPED_TEST(AttentionMaskTest, AdditiveIsZeroOrMinusInfinity) {
  const double minus = -std::numeric_limits<double>::infinity();
  const Tensor<TypeParam> additive = make_additive_mask<TypeParam>(make_causal_mask(expand_mask(ones(2)), 2));
  EXPECT_EQ(shape_string(additive), "[batch=1, head=1, query=2, key=2]");
  EXPECT_TRUE(near_values(additive, {0, minus, 0, 0}, 0));
}

// One mask a row of the batch, the same for all heads.
TYPED_TEST(AttentionMaskTest, AddMask) {
  const TypeParam minus = -std::numeric_limits<TypeParam>::infinity();
  const Tensor<TypeParam> scores =
      random_tensor<TypeParam>({{"batch", 2}, {"head", 3}, {"query", 2}, {"key", 5}}, 1);
  Tensor<TypeParam> additive({{"batch", 2}, {"head", 1}, {"query", 2}, {"key", 5}});
  additive(1, 0, 0, 4) = minus;
  additive(0, 0, 1, 2) = minus;
  const Tensor<TypeParam> masked = add_mask(scores, additive);
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 3; ++h) {
      for (Index i = 0; i < 2; ++i) {
        for (Index j = 0; j < 5; ++j) {
          EXPECT_EQ(masked(b, h, i, j), scores(b, h, i, j) + additive(b, 0, i, j));
        }
      }
    }
  }
}

TEST(AttentionMask, ErrorsOfTheMaskItself) {
  const Ids two = mask_of(2, {0, 1, 1, 1, 2, 1});
  const std::string end =
      ": attention_mask [batch=2, seq=3] holds 2 at row 1, token 1, expected 0 (padding) or 1 (token)";
  EXPECT_TRUE(throws<ShapeError>([&] { expand_mask(two); }, "expand_mask" + end));
  EXPECT_TRUE(throws<ShapeError>([&] { position_ids_from_mask(two, 1); }, "position_ids_from_mask" + end));
  EXPECT_TRUE(throws<ShapeError>(
      [] { expand_mask(mask_of(1, {-1})); },
      "expand_mask: attention_mask [batch=1, seq=1] holds -1 at row 0, token 0, expected 0 (padding) or 1 "
      "(token)"));
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        expand_mask(Ids({{"seq", 3}}));
      },
      "expand_mask: attention_mask [seq=3] has 1 axes, expected 2"));
  EXPECT_TRUE(throws<ShapeError>([] { position_ids_from_mask(ones(3), 4); },
                                 "position_ids_from_mask: attention_mask [batch=1, seq=3] covers fewer "
                                 "tokens than the 4 of the input"));
}

TEST(AttentionMask, ErrorsOfShapes) {
  EXPECT_TRUE(throws<ShapeError>([] { make_causal_mask(expand_mask(ones(3)), 4); },
                                 "make_causal_mask: expanded_mask [batch=1, head=1, query=1, key=3] covers "
                                 "fewer keys than there are queries (4)"));
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        make_causal_mask(Tensor<bool>({{"key", 3}}), 1);
      },
      "make_causal_mask: expanded_mask [key=3] has 1 axes, expected 4"));
  const Tensor<float> scores({{"batch", 2}, {"head", 3}, {"query", 4}, {"key", 5}});
  const Tensor<float> batch({{"batch", 1}, {"head", 1}, {"query", 4}, {"key", 5}});
  const Tensor<float> heads({{"batch", 2}, {"head", 3}, {"query", 4}, {"key", 5}});
  const Tensor<float> query({{"batch", 2}, {"head", 1}, {"query", 1}, {"key", 5}});
  const Tensor<float> key({{"batch", 2}, {"head", 1}, {"query", 4}, {"key", 4}});
  EXPECT_TRUE(throws<ShapeError>([&] { add_mask(scores, batch); },
                                 "add_mask: additive_mask [batch=1, head=1, query=4, key=5]: axis 0 must "
                                 "have 2 elements (batch of the scores)"));
  EXPECT_TRUE(throws<ShapeError>([&] { add_mask(scores, heads); },
                                 "add_mask: additive_mask [batch=2, head=3, query=4, key=5]: axis 1 must "
                                 "have 1 elements (one mask for all heads)"));
  EXPECT_TRUE(throws<ShapeError>([&] { add_mask(scores, query); },
                                 "add_mask: additive_mask [batch=2, head=1, query=1, key=5]: axis 2 must "
                                 "have 4 elements (queries of the scores)"));
  EXPECT_TRUE(throws<ShapeError>([&] { add_mask(scores, key); },
                                 "add_mask: additive_mask [batch=2, head=1, query=4, key=4]: axis 3 must "
                                 "have 5 elements (keys of the scores)"));
  EXPECT_TRUE(throws<ShapeError>([&] { add_mask(Tensor<float>(), key); },
                                 "add_mask: scores [] has 0 axes, expected 4"));
}

}  // namespace attention_mask_test
}  // namespace glassbox
