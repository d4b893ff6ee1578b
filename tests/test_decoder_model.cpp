// Faults that must turn this red: a layer skipped, done twice or with another layer's cache; the final norm
// left out; positions not going on behind the cache; max_position_embeddings off by one or not checked;
// positions that count padding; a mask that does not cover the cache accepted; a stage left out or under
// another name.
#include "glassbox/decoder_model.hpp"

#include "support/naive_model.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace decoder_model_test {

using test_support::make_tensor;
using test_support::naive_model;
using test_support::near_values;
using test_support::random_model;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::small_config;
using test_support::throws;

Tensor<TokenId> ids_of(const std::vector<double>& ids) {
  return make_tensor<TokenId>({{"batch", 1}, {"seq", static_cast<Index>(ids.size())}}, ids);
}

Tensor<std::int64_t> ones(Index tokens) { return ids_of(std::vector<double>(std::size_t(tokens), 1)); }

template <typename Scalar>
class DecoderModelTest : public ::testing::Test {};
TYPED_TEST_SUITE(DecoderModelTest, Scalars, ScalarNames);

TYPED_TEST(DecoderModelTest, EqualsNaiveLoop) {
  ModelConfig config = small_config();
  config.num_hidden_layers = 3;
  config.rms_norm_eps = 0.1;
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(config, 1);
  const naive::Array expected = naive::hidden_states(naive_model(causal_lm), {3, 36, 0, 7, 7});
  KVCache<TypeParam> cache(3);
  const Tensor<TypeParam> output = causal_lm.model.forward(ids_of({3, 36, 0, 7, 7}), ones(5), cache);
  EXPECT_EQ(shape_string(output), "[batch=1, seq=5, hidden=16]");
  EXPECT_TRUE(near_values(output, expected.values, 50 * rounding<TypeParam>()));
  EXPECT_EQ(cache.length(), 5);
  for (const LayerKVCache<TypeParam>& layer : cache.layers) {
    EXPECT_EQ(shape_string(layer.keys), "[batch=1, kv_head=2, key=5, head_dim=6]");
  }
}

// Without a decoder layer the model is the embedding and the norm: [3, 4] / sqrt(12.5 + 3.5) = [0.75, 1].
TYPED_TEST(DecoderModelTest, WorkedExampleWithoutLayers) {
  DecoderModel<TypeParam> model;
  model.embed_tokens.weight =
      WeightMatrix::from_tensor(make_tensor<TypeParam>({{"vocab", 2}, {"hidden", 2}}, {9, 9, 3, 4}));
  model.norm.weight = make_tensor<TypeParam>({{"hidden", 2}}, {1, 1});
  model.norm.eps = TypeParam(3.5);
  model.rotary_emb = RotaryEmbedding<TypeParam>::from_theta(2, 10000);
  model.max_position_embeddings = 4;
  KVCache<TypeParam> cache(0);
  EXPECT_TRUE(near_values(model.forward(ids_of({1}), ones(1), cache), {0.75, 1}, rounding<TypeParam>()));
}

TYPED_TEST(DecoderModelTest, StagesInTheirOrder) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  std::string passed;
  ScopedStageHook hook([&](StageRecord& record) {
    const std::string name = record.name;
    if (record.layer == -1) passed += name + " ";
    if (name == "residual" || name == "layer_output") passed += name + std::to_string(record.layer) + " ";
  });
  KVCache<TypeParam> cache(2);
  causal_lm.model.forward(ids_of({1, 2}), ones(2), cache);
  EXPECT_EQ(passed,
            "input_ids attention_mask position_ids inputs_embeds cos sin expanded_mask causal_mask "
            "additive_mask residual0 layer_output0 residual1 layer_output1 norm ");
}

// Hooks may exchange the ids and the positions: what follows is computed from what they left.
TYPED_TEST(DecoderModelTest, HookMayChangeTheIds) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  KVCache<TypeParam> cache(2), second_cache(2);
  const Tensor<TypeParam> expected = causal_lm.model.forward(ids_of({5, 2}), ones(2), cache);
  ScopedStageHook hook([](StageRecord& record) {
    if (std::string(record.name) == "input_ids") (*record.i64)(0, 0) = 5;
  });
  const Tensor<TypeParam> found = causal_lm.model.forward(ids_of({1, 2}), ones(2), second_cache);
  EXPECT_TRUE(test_support::near_tensors(found, expected, 0));
}

// The last place of the context may be used, the next may not, in one pass or behind the cache.
TEST(DecoderModel, ContextIsMaxPositionEmbeddings) {
  ModelConfig config = small_config();
  config.max_position_embeddings = 4;
  const CausalLM<float> causal_lm = random_model<float>(config, 1);
  KVCache<float> cache(2);
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        causal_lm.model.forward(ids_of({1, 2, 3, 4, 5, 6}), ones(6), cache);
      },
      "DecoderModel::forward: 6 tokens do not fit the context of 4 (max_position_embeddings)"));
  EXPECT_EQ(cache.length(), 0);
  EXPECT_NO_THROW(causal_lm.model.forward(ids_of({1, 2, 3}), ones(3), cache));
  EXPECT_NO_THROW(causal_lm.model.forward(ids_of({4}), ones(4), cache));
  EXPECT_TRUE(throws<UsageError>(
      [&] { causal_lm.model.forward(ids_of({5}), ones(5), cache); },
      "DecoderModel::forward: 5 tokens do not fit the context of 4 (max_position_embeddings)"));
  EXPECT_EQ(cache.length(), 4);
}

// Padding takes no position: four tokens behind three of padding fit a context of four.
TEST(DecoderModel, PaddingTakesNoPosition) {
  ModelConfig config = small_config();
  config.max_position_embeddings = 4;
  const CausalLM<float> causal_lm = random_model<float>(config, 1);
  KVCache<float> cache(2);
  const Tensor<std::int64_t> mask = ids_of({0, 0, 0, 1, 1, 1, 1});
  EXPECT_NO_THROW(causal_lm.model.forward(ids_of({0, 0, 0, 1, 2, 3, 4}), mask, cache));
}

TEST(DecoderModel, Errors) {
  const CausalLM<float> causal_lm = random_model<float>(small_config(), 1);
  const DecoderModel<float>& model = causal_lm.model;
  KVCache<float> cache(2);
  KVCache<float> other(3);
  const std::string start = "DecoderModel::forward: ";
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        model.forward(Tensor<TokenId>({{"seq", 1}}), ones(1), cache);
      },
      start + "input_ids [seq=1] has 1 axes, expected 2"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        model.forward(ids_of({1}), Tensor<TokenId>({{"seq", 1}}), cache);
      },
      start + "attention_mask [seq=1] has 1 axes, expected 2"));
  EXPECT_TRUE(throws<ShapeError>([&] { model.forward(ids_of({}), ones(0), cache); },
                                 start + "input_ids [batch=1, seq=0] holds no token"));
  EXPECT_TRUE(throws<ShapeError>([&] { model.forward(ids_of({1}), ones(1), other); },
                                 start + "the cache has 3 layers, the model 2"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        model.forward(ids_of({1}), Tensor<TokenId>({{"batch", 2}, {"seq", 1}}), cache);
      },
      start + "attention_mask [batch=2, seq=1]: axis 0 must have 1 elements (batch of input_ids)"));
  model.forward(ids_of({1, 2}), ones(2), cache);
  EXPECT_TRUE(throws<ShapeError>([&] { model.forward(ids_of({3}), ones(1), cache); },
                                 start + "attention_mask [batch=1, seq=1]: axis 1 must have 3 elements "
                                         "(tokens in the cache and in input_ids together)"));
  EXPECT_TRUE(throws<TokenError>([&] { model.forward(ids_of({37}), ones(3), cache); },
                                 "Embedding::forward: input_ids [batch=1, seq=1]: id 37 at row 0, position 0 "
                                 "is not in 0..36 (vocab_size 37)"));
  EXPECT_EQ(cache.length(), 2);  // none of the refused calls left anything behind
}

}  // namespace decoder_model_test
}  // namespace glassbox
