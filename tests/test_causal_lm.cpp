// Faults that must turn this red: logits_to_keep taking the first positions; the head used where embeddings
// are tied, or the embedding where they are not; past ignored by mask or positions; padding seen by other
// tokens or counted as positions; a cache that outlives reset(); hooks called after their scope; logits
// without a stage. That chunks equal one pass says nothing about the formulas: the naive loops do.
#include "glassbox/causal_lm.hpp"

#include "support/naive_model.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace causal_lm_test {

using test_support::make_tensor;
using test_support::naive_model;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_model;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::small_config;
using test_support::throws;

static_assert(std::is_same_v<decltype(last_positions(Tensor<float>(), 1)), Tensor<float>>);
static_assert(std::is_same_v<decltype(CausalLM<float>().forward(Tensor<TokenId>())), Tensor<float>>);

using Ids = std::vector<double>;

Tensor<TokenId> ids_of(Index batch, const Ids& ids) {
  return make_tensor<TokenId>({{"batch", batch}, {"seq", static_cast<Index>(ids.size()) / batch}}, ids);
}

Tensor<std::int64_t> ones(Index tokens) { return ids_of(1, Ids(std::size_t(tokens), 1)); }

// 16 ids, some of them repeated.
Ids prompt() { return {1, 5, 36, 0, 7, 7, 20, 31, 2, 2, 2, 14, 9, 30, 11, 6}; }

// Float against double, and double against double in another order.
template <typename Scalar>
constexpr double logit_tolerance() {
  return sizeof(Scalar) == 4 ? 1e-4 : 1e-12;
}

template <typename Scalar>
class CausalLMTest : public ::testing::Test {};
TYPED_TEST_SUITE(CausalLMTest, Scalars, ScalarNames);

template <typename Scalar>
void expect_equals_naive(const ModelConfig& config) {
  const CausalLM<Scalar> causal_lm = random_model<Scalar>(config, 7);
  std::vector<std::size_t> naive_ids;
  for (const double id : prompt()) naive_ids.push_back(static_cast<std::size_t>(id));
  const naive::Array expected = naive::logits(naive_model(causal_lm), naive_ids);
  const Tensor<Scalar> logits = causal_lm.forward(ids_of(1, prompt()));
  EXPECT_EQ(shape_string(logits), "[batch=1, seq=16, vocab=37]");
  EXPECT_TRUE(near_values(logits, expected.values, logit_tolerance<Scalar>()));
}

TYPED_TEST(CausalLMTest, EqualsNaiveLoop) {
  ModelConfig config = small_config();
  config.rms_norm_eps = 0.1;
  expect_equals_naive<TypeParam>(config);
  config.tie_word_embeddings = true;
  config.attention_bias = config.mlp_bias = true;
  expect_equals_naive<TypeParam>(config);
  config.num_key_value_heads = 0;  // as many as query heads
  config.head_dim = 0;             // hidden_size / num_attention_heads
  expect_equals_naive<TypeParam>(config);
}

// V25: tied, the logits are the dots of the normalised hidden states with the embedding's rows.
TYPED_TEST(CausalLMTest, TiedLogitsAreDotsWithTheEmbedding) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(config, 1);
  EXPECT_TRUE(causal_lm.lm_head.weight.empty());
  Tensor<TypeParam> norm_output;
  ScopedStageHook hook([&](StageRecord& record) {
    if (std::string(record.name) != "norm") return;
    if constexpr (std::is_same_v<TypeParam, float>) norm_output = *record.f32;
    if constexpr (std::is_same_v<TypeParam, double>) norm_output = *record.f64;
  });
  const Tensor<TypeParam> logits = causal_lm.forward(ids_of(1, {4}));
  const naive::Array embedding = test_support::naive_weight(causal_lm.model.embed_tokens.weight);
  const naive::Array expected = naive::linear(test_support::naive_array(norm_output), {embedding, {}});
  EXPECT_TRUE(near_values(logits, expected.values, logit_tolerance<TypeParam>()));
}

// V12: 16 tokens at once, 7 + 9, and one by one through the cache.
TYPED_TEST(CausalLMTest, ChunksThroughTheCacheEqualOnePass) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 2);
  const Tensor<TypeParam> whole = causal_lm.forward(ids_of(1, prompt()));
  for (const std::vector<Index>& chunks : {std::vector<Index>{7, 9}, std::vector<Index>(16, 1)}) {
    KVCache<TypeParam> cache(2);
    Index begin = 0;
    const Ids all = prompt();
    for (const Index chunk : chunks) {
      const Ids ids(all.begin() + begin, all.begin() + begin + chunk);
      const Tensor<TypeParam> logits = causal_lm.forward(ids_of(1, ids), ones(begin + chunk), cache);
      for (Index s = 0; s < chunk; ++s) {
        for (Index v = 0; v < 37; ++v) {
          ASSERT_NEAR(static_cast<double>(logits(0, s, v)), static_cast<double>(whole(0, begin + s, v)),
                      logit_tolerance<TypeParam>())
              << "position " << begin + s << ", vocab " << v;
        }
      }
      begin += chunk;
      EXPECT_EQ(cache.length(), begin);
    }
  }
}

// Three prompts of 2, 4 and 3 tokens, padded on the left, then two more tokens each: every row gets the
// logits it gets alone, whatever id the padding has.
TYPED_TEST(CausalLMTest, LeftPaddedBatchEqualsEachRowAlone) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 3);
  const std::vector<Ids> rows = {{5, 9, 1, 2}, {30, 7, 7, 12, 3, 4}, {0, 36, 20, 5, 6}};
  KVCache<TypeParam> cache(2);
  std::vector<Tensor<TypeParam>> steps;
  steps.push_back(causal_lm.forward(ids_of(3, {33, 33, 5, 9, 30, 7, 7, 12, 33, 0, 36, 20}),
                                    ids_of(3, {0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}), cache));
  steps.push_back(causal_lm.forward(ids_of(3, {1, 3, 5}),
                                    ids_of(3, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1}), cache));
  steps.push_back(causal_lm.forward(
      ids_of(3, {2, 4, 6}), ids_of(3, {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1}), cache));
  for (Index b = 0; b < 3; ++b) {
    const Ids& ids = rows[static_cast<std::size_t>(b)];
    const Tensor<TypeParam> alone = causal_lm.forward(ids_of(1, ids));
    const Index tokens = static_cast<Index>(ids.size()) - 2;  // of the prompt
    for (Index s = 0; s < tokens + 2; ++s) {
      const Tensor<TypeParam>& logits =
          s < tokens ? steps[0] : steps[static_cast<std::size_t>(s - tokens + 1)];
      const Index place = s < tokens ? 4 - tokens + s : 0;
      for (Index v = 0; v < 37; ++v) {
        ASSERT_NEAR(static_cast<double>(logits(b, place, v)), static_cast<double>(alone(0, s, v)),
                    logit_tolerance<TypeParam>())
            << "row " << b << ", token " << s << ", vocab " << v;
      }
    }
  }
}

TYPED_TEST(CausalLMTest, LogitsToKeepAreTheLast) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 4);
  const Tensor<TokenId> input_ids = ids_of(2, {1, 2, 3, 4, 5, 6});
  const Tensor<std::int64_t> mask = ids_of(2, {1, 1, 1, 1, 1, 1});
  const Tensor<TypeParam> all = causal_lm.forward(input_ids);
  for (const Index kept : {0, 1, 2, 3}) {
    KVCache<TypeParam> cache(2);
    const Tensor<TypeParam> logits = causal_lm.forward(input_ids, mask, cache, kept);
    const Index positions = kept == 0 ? 3 : kept;
    ASSERT_EQ(shape_string(logits), "[batch=2, seq=" + std::to_string(positions) + ", vocab=37]");
    for (Index b = 0; b < 2; ++b) {
      for (Index s = 0; s < positions; ++s) {
        for (Index v = 0; v < 37; ++v) EXPECT_EQ(logits(b, s, v), all(b, 3 - positions + s, v));
      }
    }
    EXPECT_EQ(cache.length(), 3);
  }
}

TYPED_TEST(CausalLMTest, LastPositionsWorkedExample) {
  const Tensor<TypeParam> hidden_states =
      make_tensor<TypeParam>({{"batch", 2}, {"seq", 3}, {"hidden", 1}}, {1, 2, 3, 4, 5, 6});
  const Tensor<TypeParam> last = last_positions(hidden_states, 2);
  EXPECT_EQ(shape_string(last), "[batch=2, seq=2, hidden=1]");
  EXPECT_TRUE(near_values(last, {2, 3, 5, 6}, 0));
}

// A second text after reset() gives what it gives with a new cache.
TYPED_TEST(CausalLMTest, ResetForgetsEverything) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 5);
  KVCache<TypeParam> cache(2);
  causal_lm.forward(ids_of(1, {9, 8, 7}), ones(3), cache);
  cache.reset();
  const Tensor<TypeParam> again = causal_lm.forward(ids_of(1, {4, 5}), ones(2), cache);
  EXPECT_TRUE(near_tensors(again, causal_lm.forward(ids_of(1, {4, 5})), 0));
}

// Reading hooks change nothing, to the bit; logits are the last stage, and what a hook leaves there is
// returned.
TYPED_TEST(CausalLMTest, HooksReadAndChange) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 6);
  const Tensor<TokenId> input_ids = ids_of(1, {3, 1, 4, 1, 5});
  const Tensor<TypeParam> unwatched = causal_lm.forward(input_ids);
  Index passed = 0;
  std::string last;
  {
    ScopedStageHook reader([&](StageRecord& record) {
      ++passed;
      last = record.name;
    });
    EXPECT_TRUE(near_tensors(causal_lm.forward(input_ids), unwatched, 0));
  }
  EXPECT_EQ(passed, 9 + 2 * 26 + 2);
  EXPECT_EQ(last, "logits");
  {
    ScopedStageHook writer([&](StageRecord& record) {
      if (std::string(record.name) != "logits") return;
      if (record.f32 != nullptr) (*record.f32)(0, 4, 36) = 1234;
      if (record.f64 != nullptr) (*record.f64)(0, 4, 36) = 1234;
    });
    EXPECT_EQ(causal_lm.forward(input_ids)(0, 4, 36), TypeParam(1234));
  }
  EXPECT_TRUE(near_tensors(causal_lm.forward(input_ids), unwatched, 0));
}

// Taking one layer's feed-forward away: what its gate lets through becomes zero, and the logits change.
TYPED_TEST(CausalLMTest, AblationChangesTheLogits) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 6);
  CausalLM<TypeParam> without = causal_lm;
  WeightMatrix& down = without.model.layers[1].mlp.down_proj.weight;
  down = WeightMatrix::from_tensor(Tensor<TypeParam>({down.out, down.in}));
  const Tensor<TokenId> input_ids = ids_of(1, {3, 1, 4, 1, 5});
  Tensor<TypeParam> ablated;
  {
    ScopedStageHook hook([&](StageRecord& record) {
      if (std::string(record.name) != "gated" || record.layer != 1) return;
      if (record.f32 != nullptr) *record.f32 = Tensor<float>::like(*record.f32);
      if (record.f64 != nullptr) *record.f64 = Tensor<double>::like(*record.f64);
    });
    ablated = causal_lm.forward(input_ids);
  }
  EXPECT_TRUE(near_tensors(ablated, without.forward(input_ids), 0));
  EXPECT_FALSE(near_tensors(ablated, causal_lm.forward(input_ids), 0.01));
}

TEST(CausalLM, HookThatChangesTheShapeIsRefused) {
  const CausalLM<float> causal_lm = random_model<float>(small_config(), 6);
  ScopedStageHook hook([](StageRecord& record) {
    if (std::string(record.name) == "attn_weights") *record.f32 = Tensor<float>({{"key", 1}});
  });
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        causal_lm.forward(ids_of(1, {3, 1}));
      },
      "stage attn_weights: a hook changed the shape from [batch=1, head=4, "
      "query=2, key=2] to [key=1]"));
}

TEST(CausalLM, ExceptionsOfHooksPassThrough) {
  const CausalLM<float> causal_lm = random_model<float>(small_config(), 6);
  const Tensor<float> unwatched = causal_lm.forward(ids_of(1, {3, 1}));
  const std::string text = "seen enough";
  EXPECT_TRUE(throws<std::runtime_error>(
      [&] {
        ScopedStageHook hook([&](StageRecord& record) {
          if (std::string(record.name) == "scores" && record.layer == 1) throw std::runtime_error(text);
        });
        causal_lm.forward(ids_of(1, {3, 1}));
      },
      text));
  EXPECT_TRUE(near_tensors(causal_lm.forward(ids_of(1, {3, 1})), unwatched, 0));
}

// V13: a NaN in the weights is reported where it first meets a softmax, never turned into a token. The first
// row already holds it: NaN - infinity, of the key that is masked, is NaN.
TEST(CausalLM, NaNIsReported) {
  CausalLM<float> causal_lm = random_model<float>(small_config(), 6);
  Tensor<float> table({{"vocab", 37}, {"hidden", 16}});
  table(3, 2) = std::numeric_limits<float>::quiet_NaN();
  causal_lm.model.embed_tokens.weight = WeightMatrix::from_tensor(table);
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        causal_lm.forward(ids_of(1, {1, 3}));
      },
      "softmax: x [batch=1, head=4, query=2, key=2]: row 0 holds a NaN or +infinity "
      "(after stage masked_scores of layer 0, step 0)"));
}

TEST(CausalLM, Errors) {
  const CausalLM<float> causal_lm = random_model<float>(small_config(), 6);
  const std::string end = ", expected 0 (all) to 2, as input_ids [batch=1, seq=2] has positions";
  for (const Index kept : {-1, 3}) {
    KVCache<float> cache(2);
    EXPECT_TRUE(throws<ShapeError>(
        [&] {
          causal_lm.forward(ids_of(1, {1, 2}), ones(2), cache, kept);
        },
        "CausalLM::forward: logits_to_keep is " + std::to_string(kept) + end));
    EXPECT_EQ(cache.length(), 0);  // refused before anything was computed
  }
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        last_positions(Tensor<float>({{"batch", 1}, {"seq", 2}, {"hidden", 16}}), 3);
      },
      "last_positions: the last 3 positions of hidden_states [batch=1, seq=2, hidden=16] do not exist"));
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        last_positions(Tensor<float>({{"hidden", 1}}), 1);
      },
      "last_positions: hidden_states [hidden=1] has 1 axes, expected 3"));
}

// A pass that throws, wherever, leaves the cache as it was: the next one gives what it would have given.
TEST(CausalLM, AThrowLeavesTheCacheAsItWas) {
  const CausalLM<double> causal_lm = random_model<double>(small_config(), 6);
  for (const char* place : {"scores", "layer_output", "norm", "logits"}) {
    KVCache<double> cache(2);
    causal_lm.forward(ids_of(1, {5, 6}), ones(2), cache);
    KVCache<double> expected_cache = cache;
    {
      ScopedStageHook hook([place](StageRecord& record) {
        if (std::string(record.name) == place && record.layer != 0) throw std::runtime_error("stop");
      });
      EXPECT_THROW(causal_lm.forward(ids_of(1, {7, 8}), ones(4), cache), std::runtime_error) << place;
    }
    EXPECT_EQ(cache.length(), 2) << place;
    const Tensor<double> found = causal_lm.forward(ids_of(1, {7, 8}), ones(4), cache);
    const Tensor<double> expected = causal_lm.forward(ids_of(1, {7, 8}), ones(4), expected_cache);
    EXPECT_EQ((found.matrix(0) - expected.matrix(0)).cwiseAbs().maxCoeff(), 0) << place;
  }
  KVCache<double> empty(2);
  {
    ScopedStageHook hook([](StageRecord& record) {
      if (std::string(record.name) == "norm") throw std::runtime_error("stop");
    });
    EXPECT_THROW(causal_lm.forward(ids_of(1, {7, 8}), ones(2), empty), std::runtime_error);
  }
  EXPECT_EQ(empty.length(), 0);
}

TEST(CausalLM, LayersKnowTheirPlace) {
  CausalLM<double> causal_lm = random_model<double>(small_config(), 6);
  causal_lm.model.layers[1].layer = 7;
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        causal_lm.forward(ids_of(1, {1, 2}));
      },
      "DecoderModel::forward: layers[1].layer is 7, expected 1"));
}

TEST(CausalLM, PositionsThatAHookMadeImpossible) {
  const CausalLM<double> causal_lm = random_model<double>(small_config(), 6);
  for (const std::int64_t position : {std::int64_t{-5}, std::numeric_limits<std::int64_t>::max()}) {
    ScopedStageHook hook([position](StageRecord& record) {
      if (std::string(record.name) == "position_ids") record.i64->row(0)[0] = position;
    });
    EXPECT_TRUE(throws<ShapeError>(
        [&] {
          causal_lm.forward(ids_of(1, {1, 2}));
        },
        "DecoderModel::forward: position_ids hold " + std::to_string(position) +
            ", expected positions from 0"));
  }
}

}  // namespace causal_lm_test
}  // namespace glassbox
