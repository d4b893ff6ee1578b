// Faults that must turn this red: new tokens put before the old ones; keys and values exchanged; length
// counting layers or bytes; bytes without the values or with the reserved rows; reset keeping something.
#include "glassbox/kv_cache.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace kv_cache_test {

using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

template <typename Scalar>
class KVCacheTest : public ::testing::Test {};
TYPED_TEST_SUITE(KVCacheTest, Scalars, ScalarNames);

// One token, then two more, of two kv heads with head_dim 1.
TYPED_TEST(KVCacheTest, WorkedExample) {
  const Tensor<TypeParam> first =
      make_tensor<TypeParam>({{"batch", 1}, {"kv_head", 2}, {"seq", 1}, {"head_dim", 1}}, {1, 2});
  const Tensor<TypeParam> more =
      make_tensor<TypeParam>({{"batch", 1}, {"kv_head", 2}, {"seq", 2}, {"head_dim", 1}}, {3, 4, 5, 6});
  LayerKVCache<TypeParam> cache;
  cache.append(first, first);
  EXPECT_EQ(shape_string(cache.keys), "[batch=1, kv_head=2, key=1, head_dim=1]");
  cache.append(more, more);
  EXPECT_EQ(shape_string(cache.keys), "[batch=1, kv_head=2, key=3, head_dim=1]");
  EXPECT_EQ(shape_string(cache.values), "[batch=1, kv_head=2, key=3, head_dim=1]");
  EXPECT_TRUE(near_values(cache.keys, {1, 3, 4, 2, 5, 6}, 0));
}

// 40 tokens in chunks of 1, 2, 3, ...: element by element what torch.cat gives, whatever the reserve.
TYPED_TEST(KVCacheTest, EqualsConcatenation) {
  const Tensor<TypeParam> keys =
      random_tensor<TypeParam>({{"batch", 2}, {"kv_head", 3}, {"seq", 45}, {"head_dim", 4}}, 1);
  const Tensor<TypeParam> values =
      random_tensor<TypeParam>({{"batch", 2}, {"kv_head", 3}, {"seq", 45}, {"head_dim", 4}}, 2);
  LayerKVCache<TypeParam> cache;
  Index begin = 0;
  for (Index chunk = 1; chunk <= 9; ++chunk) {
    Tensor<TypeParam> key_states({{"batch", 2}, {"kv_head", 3}, {"seq", chunk}, {"head_dim", 4}});
    Tensor<TypeParam> value_states = Tensor<TypeParam>::like(key_states);
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < 3; ++h) {
        key_states.matrix(b, h) = keys.matrix(b, h).middleRows(begin, chunk);
        value_states.matrix(b, h) = values.matrix(b, h).middleRows(begin, chunk);
      }
    }
    cache.append(key_states, value_states);
    begin += chunk;
    ASSERT_EQ(cache.keys.dim(2), begin);
    EXPECT_EQ(cache.keys(1, 2, begin - 1, 3), keys(1, 2, begin - 1, 3));
    EXPECT_EQ(cache.values(0, 1, 0, 0), values(0, 1, 0, 0));
  }
  EXPECT_TRUE(near_tensors(cache.keys, keys, 0));
  EXPECT_TRUE(near_tensors(cache.values, values, 0));
}

TYPED_TEST(KVCacheTest, LengthBytesAndReset) {
  KVCache<TypeParam> cache(3);
  EXPECT_EQ(cache.layers.size(), 3u);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.bytes(), 0);
  const Tensor<TypeParam> states =
      random_tensor<TypeParam>({{"batch", 2}, {"kv_head", 1}, {"seq", 5}, {"head_dim", 4}}, 1);
  for (int round = 0; round < 3; ++round) {
    for (LayerKVCache<TypeParam>& layer : cache.layers) layer.append(states, states);
  }
  EXPECT_EQ(cache.length(), 15);
  EXPECT_EQ(cache.bytes(), Index(2 * 3 * 2 * 1 * 15 * 4 * sizeof(TypeParam)));
  cache.reset();
  EXPECT_EQ(cache.layers.size(), 3u);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.bytes(), 0);
  const Tensor<TypeParam> other =
      random_tensor<TypeParam>({{"batch", 1}, {"kv_head", 2}, {"seq", 1}, {"head_dim", 6}}, 1);
  EXPECT_NO_THROW(cache.layers[0].append(other, other));  // a new text may have another batch
  EXPECT_EQ(KVCache<TypeParam>(0).length(), 0);
}

TEST(KVCache, Errors) {
  const Tensor<float> states({{"batch", 1}, {"kv_head", 2}, {"seq", 1}, {"head_dim", 4}});
  const Tensor<float> longer({{"batch", 1}, {"kv_head", 2}, {"seq", 2}, {"head_dim", 4}});
  const Tensor<float> batch({{"batch", 2}, {"kv_head", 2}, {"seq", 1}, {"head_dim", 4}});
  LayerKVCache<float> cache;
  EXPECT_TRUE(throws<ShapeError>([&] { cache.append(states, longer); },
                                 "LayerKVCache::append: key_states [batch=1, kv_head=2, seq=1, head_dim=4] "
                                 "and value_states [batch=1, kv_head=2, seq=2, head_dim=4] must have the "
                                 "same shape"));
  EXPECT_TRUE(throws<ShapeError>([&] { cache.append(Tensor<float>(), Tensor<float>()); },
                                 "LayerKVCache::append: key_states [] has 0 axes, expected 4"));
  cache.append(states, states);
  EXPECT_TRUE(throws<ShapeError>([&] { cache.append(batch, batch); },
                                 "Tensor::append_rows: [batch=1, kv_head=2, key=1, head_dim=4] cannot take "
                                 "[batch=2, kv_head=2, seq=1, head_dim=4]: all axes but the second last "
                                 "must agree"));
  EXPECT_EQ(cache.keys.dim(2), 1);
  EXPECT_EQ(cache.values.dim(2), 1);
}

TEST(KVCache, ANegativeNumberOfLayers) {
  EXPECT_TRUE(throws<ShapeError>([] { KVCache<float> cache(-1); }, "KVCache: -1 layers, expected 0 or more"));
}

}  // namespace kv_cache_test
}  // namespace glassbox
