// sampler.hpp: the draw, the whole chain from logits to token, and the reference distributions.
//
// Faults that must turn this file red:
//   - draw: >= for > (a token of probability 0 is drawn by coin 0), ids in another order, coin not scaled by
//   the sum,
//     a zero at the end drawn where rounding leaves the sum short
//   - filters in another order, one left out, a filter that gets another filter's setting
//   - a stage left out, renamed, or its change by a hook ignored; more or fewer than one draw per token
//   - NaN or +infinity in the logits accepted; the position or step in the message wrong
#include "glassbox/sampler.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "support/expect_near.hpp"

#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#define HAS_JSON 1
#else
#define HAS_JSON 0
#endif

namespace glassbox {
namespace sampler_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::throws;

constexpr double inf = std::numeric_limits<double>::infinity();

template <typename Scalar>
class Sampler : public ::testing::Test {
 protected:
  static Tensor<Scalar> vocab(const std::vector<double>& values) {
    return make_tensor<Scalar>({{"vocab", static_cast<Index>(values.size())}}, values);
  }
};
TYPED_TEST_SUITE(Sampler, test_support::Scalars, test_support::ScalarNames);

// ---- the draw ----

TYPED_TEST(Sampler, DrawByHand) {
  const Tensor<TypeParam> probabilities = this->vocab({0.5, 0, 0.25, 0.25});
  EXPECT_EQ(draw_token(probabilities, 0.0), 0);
  EXPECT_EQ(draw_token(probabilities, 0.4999), 0);
  EXPECT_EQ(draw_token(probabilities, 0.5), 2);  // [0, 0.5) is 0's, then nothing is 1's
  EXPECT_EQ(draw_token(probabilities, 0.7499), 2);
  EXPECT_EQ(draw_token(probabilities, 0.75), 3);
  EXPECT_EQ(draw_token(probabilities, 1 - 0x1p-53), 3);
}

TYPED_TEST(Sampler, DrawNeverTakesProbabilityZero) {
  EXPECT_EQ(draw_token(this->vocab({0, 0, 1, 0}), 0.0), 2);
  EXPECT_EQ(draw_token(this->vocab({0, 0, 1, 0}), 1 - 0x1p-53), 2);
  EXPECT_EQ(draw_token(this->vocab({0, 0, 1, 0}), 1.0), 2);  // a coin that a hook has set too high
}

// The sum need not be 1: rounding, or a hook, and the coin is a share of what there is.
TYPED_TEST(Sampler, DrawScalesTheCoinByTheSum) {
  EXPECT_EQ(draw_token(this->vocab({1, 1, 2}), 0.2), 0);
  EXPECT_EQ(draw_token(this->vocab({1, 1, 2}), 0.3), 1);
  EXPECT_EQ(draw_token(this->vocab({1, 1, 2}), 0.9), 2);
  EXPECT_EQ(draw_token(this->vocab({0.25, 0.125, 0}), 0.9), 1);
}

TYPED_TEST(Sampler, DrawFromNothingIsAnError) {
  const std::string end = ", so no token can be drawn (no_repeat_ngram_size may have blocked all)";
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        draw_token(this->vocab({0, 0}), 0.5);
      },
      "draw_token: probabilities [vocab=2] sum to 0.000000" + end));
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        draw_token(this->vocab({1, inf}), 0.5);
      },
      "draw_token: probabilities [vocab=2] sum to inf" + end));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        draw_token(Tensor<TypeParam>({{"batch", 1}, {"vocab", 2}}), 0.5);
      },
      "draw_token: probabilities [batch=1, vocab=2] has 2 axes, expected 1"));
}

TYPED_TEST(Sampler, DrawsFollowTheProbabilities) {
  const std::vector<double> expected{0.5, 0.0, 0.3, 0.15, 0.05};
  const Tensor<TypeParam> probabilities = this->vocab(expected);
  RandomGenerator random(11);
  std::vector<int> count(5, 0);
  const int draws = 100000;
  for (int i = 0; i < draws; ++i)
    ++count[static_cast<std::size_t>(draw_token(probabilities, random.next_uniform()))];
  for (std::size_t id = 0; id < 5; ++id) {
    const double deviation = std::sqrt(expected[id] * (1 - expected[id]) / draws);
    EXPECT_NEAR(static_cast<double>(count[id]) / draws, expected[id], 5 * deviation) << id;
  }
}

// ---- the chain ----

// Case V19: temperature 0 takes the first of the largest, whatever the seed.
TYPED_TEST(Sampler, GreedyIsTheArgmax) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomGenerator random(seed);
    EXPECT_EQ(sample_next_token(this->vocab({2.1, -0.3, 1.2, 0.1}), {0}, SamplingConfig(), random), 0);
    EXPECT_EQ(sample_next_token(this->vocab({1, 5, 5}), {0}, SamplingConfig(), random), 1);
    EXPECT_EQ(sample_next_token(this->vocab({-3, -inf, -1}), {0}, SamplingConfig(), random), 2);
  }
}

// Penalty and blocking work under greedy choice too, as in transformers.
TYPED_TEST(Sampler, GreedyAfterThePenalties) {
  RandomGenerator random(1);
  SamplingConfig config;
  config.repetition_penalty = 2;
  EXPECT_EQ(sample_next_token(this->vocab({3, 2, 1}), {0}, config, random), 1);
  config = SamplingConfig();
  config.no_repeat_ngram_size = 2;
  EXPECT_EQ(sample_next_token(this->vocab({3, 2, 1}), {1, 0, 1}, config, random), 1);
}

// Case V22: filtered tokens are never drawn.
TYPED_TEST(Sampler, FilteredTokensAreNeverDrawn) {
  RandomGenerator random(3);
  SamplingConfig config;
  config.temperature = 1;
  config.top_k = 1;
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(sample_next_token(this->vocab({-3, -2, -1}), {0}, config, random), 2);
  config.top_k = 0;
  config.top_p = 0.5;
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(sample_next_token(this->vocab({-3, -2, -1}), {0}, config, random), 2);
  config.top_p = 1;
  config.top_k = 2;
  bool both = false;
  for (int i = 0; i < 1000; ++i) {
    const TokenId id = sample_next_token(this->vocab({-1, -2, -1.5}), {0}, config, random);
    ASSERT_NE(id, 1);
    both = both || id == 2;
  }
  EXPECT_TRUE(both);
}

TYPED_TEST(Sampler, SameSeedSameTokens) {
  SamplingConfig config;
  config.temperature = 1;
  RandomGenerator first(0);
  RandomGenerator second(0);
  RandomGenerator third(1);
  std::vector<TokenId> a, b, c;
  const Tensor<TypeParam> logits = test_support::random_tensor<TypeParam>({{"vocab", 50}}, 1, 2);
  for (int i = 0; i < 40; ++i) {
    a.push_back(sample_next_token(logits, {0}, config, first));
    b.push_back(sample_next_token(logits, {0}, config, second));
    c.push_back(sample_next_token(logits, {0}, config, third));
  }
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  // Stored: float and double, every compiler and library give these.
  const std::vector<TokenId> stored(a.begin(), a.begin() + 12);
  EXPECT_EQ(stored, (std::vector<TokenId>{46, 22, 1, 49, 3, 17, 7, 41, 9, 48, 19, 41}));
}

// One draw a token, greedy or not: the settings do not shift the draws that follow.
TYPED_TEST(Sampler, OneDrawPerToken) {
  RandomGenerator random(9);
  RandomGenerator expected(9);
  sample_next_token(this->vocab({1, 2, 3}), {0}, SamplingConfig(), random);
  expected.next_uniform();
  EXPECT_EQ(random.next_bits(), expected.next_bits());
}

struct Passed {
  std::vector<std::string> names;
  std::vector<std::string> shapes;
  std::vector<std::vector<double>> values;
};

template <typename T>
void note(Passed& passed, const StageRecord& record, const Tensor<T>* tensor) {
  if (tensor == nullptr) return;
  passed.names.push_back(record.name);
  passed.shapes.push_back(shape_string(*tensor));
  passed.values.push_back(test_support::values_of(*tensor));
  EXPECT_EQ(record.layer, -1);
}

// Every step by hand. Penalty 2 for 0 and 3; "0 4" repeated; temperature 0.5; the rest cuts off one more
// each.
TYPED_TEST(Sampler, StagesByHand) {
  SamplingConfig config;
  config.repetition_penalty = 2;
  config.no_repeat_ngram_size = 2;
  config.temperature = 0.5;
  config.top_k = 4;
  config.top_p = 0.9;
  config.min_p = 0.3;
  const double third = 1.5 + std::log(0.5) / 2;  // half as likely as the logit 1.5 at temperature 0.5
  const double fourth = 1.5 + std::log(0.25) / 2;
  const double fifth = 1.5 + std::log(0.0625) / 2;
  const Tensor<TypeParam> logits = this->vocab({3.0, third, fourth, -4.0, 9.0, fifth, -5.0});
  Passed passed;
  RandomGenerator random(4);
  TokenId chosen = -1;
  {
    ScopedStageHook hook([&passed](StageRecord& record) {
      note(passed, record, record.f32);
      note(passed, record, record.f64);
      note(passed, record, record.i64);
    });
    chosen = sample_next_token(logits, {0, 4, 3, 0}, config, random);
  }
  EXPECT_EQ(passed.names, (std::vector<std::string>{"penalized", "blocked", "tempered", "top_k", "top_p",
                                                    "min_p", "probabilities", "coin", "next_token"}));
  EXPECT_EQ(passed.shapes,
            (std::vector<std::string>{"[vocab=7]", "[vocab=7]", "[vocab=7]", "[vocab=7]", "[vocab=7]",
                                      "[vocab=7]", "[vocab=7]", "[draw=1]", "[draw=1]"}));
  // 9 / 2 for id 4, which has occurred; then it is blocked. Left: 1, 0.5, 0.25, 0.0625 times the likeliest.
  const std::vector<std::vector<double>> expected{
      {1.5, third, fourth, -8, 4.5, fifth, -5},
      {1.5, third, fourth, -8, -inf, fifth, -5},
      {3, 2 * third, 2 * fourth, -16, -inf, 2 * fifth, -10},
      {3, 2 * third, 2 * fourth, -inf, -inf, 2 * fifth, -inf},
      {3, 2 * third, 2 * fourth, -inf, -inf, -inf, -inf},  // 1.5 / 1.8125 < 0.9 <= 1.75 / 1.8125
      {3, 2 * third, -inf, -inf, -inf, -inf, -inf},
      {2.0 / 3, 1.0 / 3, 0, 0, 0, 0, 0}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t id = 0; id < 7; ++id) {
      EXPECT_LE(test_support::distance(passed.values[i][id], expected[i][id]), 1e-5) << passed.names[i] << id;
    }
  }
  const double coin = RandomGenerator(4).next_uniform();
  EXPECT_EQ(passed.values[7][0], coin);
  EXPECT_EQ(chosen, coin < 2.0 / 3 ? 0 : 1);
  EXPECT_EQ(passed.values[8][0], static_cast<double>(chosen));
}

// A hook may change any value, and the choice follows it.
TYPED_TEST(Sampler, HooksDecide) {
  SamplingConfig config;
  config.temperature = 1;
  const std::vector<std::string> changed{"penalized", "blocked", "tempered", "top_k", "top_p", "min_p"};
  for (const std::string& name : changed) {
    ScopedStageHook hook([&name](StageRecord& record) {
      if (record.name != name) return;
      if (record.f32 != nullptr) record.f32->row(0)[1] = 100;
      if (record.f64 != nullptr) record.f64->row(0)[1] = 100;
    });
    RandomGenerator random(1);
    EXPECT_EQ(sample_next_token(this->vocab({9, 1, 2}), {0}, config, random), 1) << name;
  }
  ScopedStageHook coin_hook([](StageRecord& record) {
    if (std::string(record.name) == "coin") (*record.f64)(0) = 0.99;
  });
  RandomGenerator random(1);
  EXPECT_EQ(sample_next_token(this->vocab({1, 1, 1}), {0}, config, random), 2);
  ScopedStageHook token_hook([](StageRecord& record) {
    if (std::string(record.name) == "next_token") (*record.i64)(0) = 1;
  });
  EXPECT_EQ(sample_next_token(this->vocab({9, 1, 2}), {0}, config, random), 1);
}

// ---- errors ----

// Case V13: a NaN is reported with position and step, never passed over by an argmax.
TYPED_TEST(Sampler, NanAndInfinityAreReported) {
  RandomGenerator random(1);
  stage_state().step = 7;
  const std::string begin = "sample_next_token: logits [vocab=4] of position 2, step 7: id ";
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        sample_next_token(this->vocab({std::nan(""), 1, 3, 2}), {0, 1, 2}, SamplingConfig(), random);
      },
      begin + "0 is nan, expected a finite number"));
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        sample_next_token(this->vocab({1, 1, 3, inf}), {0, 1, 2}, SamplingConfig(), random);
      },
      begin + "3 is inf, expected a finite number"));
  stage_state().step = 0;
  EXPECT_EQ(sample_next_token(this->vocab({-inf, 1, 3, -inf}), {0}, SamplingConfig(), random), 2);
}

TYPED_TEST(Sampler, NothingLeftIsAnError) {
  RandomGenerator random(1);
  SamplingConfig config;
  config.no_repeat_ngram_size = 1;
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        sample_next_token(this->vocab({1, 2}), {0, 1}, config, random);
      },
      "draw_token: probabilities [vocab=2] sum to 0.000000, so no token can be drawn "
      "(no_repeat_ngram_size may have blocked all)"));
}

TYPED_TEST(Sampler, ShapeAndSettingsAreChecked) {
  RandomGenerator random(1);
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        sample_next_token(Tensor<TypeParam>({{"seq", 1}, {"vocab", 2}}), {0}, SamplingConfig(), random);
      },
      "sample_next_token: next_token_logits [seq=1, vocab=2] has 2 axes, expected 1"));
  SamplingConfig config;
  config.min_p = 2;
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        sample_next_token(this->vocab({1, 2}), {0}, config, random);
      },
      "sampling: min_p is 2, expected a number from 0 (off) to 1"));
}

// ---- reference distributions ----

// 100 distributions after the filters, computed in float64 and confirmed by transformers' own processors.
TYPED_TEST(Sampler, ReferenceDistributions) {
#if HAS_JSON
  std::ifstream file(std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/sampling/cases.json");
  const nlohmann::json reference = nlohmann::json::parse(file);
  ASSERT_EQ(reference["cases"].size(), 100U);
  for (const nlohmann::json& test : reference["cases"]) {
    const std::string name = test["name"];
    const std::vector<double> values = reference["logits"][test["logits"].get<std::string>()];
    const std::vector<TokenId> history = test["history"];
    const nlohmann::json& settings = test["settings"];
    SamplingConfig config;
    config.temperature = settings.value("temperature", 1.0);
    config.top_k = settings.value("top_k", Index(0));
    config.top_p = settings.value("top_p", 1.0);
    config.min_p = settings.value("min_p", 0.0);
    config.repetition_penalty = settings.value("repetition_penalty", 1.0);
    config.no_repeat_ngram_size = settings.value("no_repeat_ngram_size", Index(0));
    std::vector<double> probabilities;
    {
      ScopedStageHook hook([&probabilities](StageRecord& record) {
        if (std::string(record.name) != "probabilities") return;
        if (record.f32 != nullptr) probabilities = test_support::values_of(*record.f32);
        if (record.f64 != nullptr) probabilities = test_support::values_of(*record.f64);
      });
      RandomGenerator random(0);
      sample_next_token(this->vocab(values), history, config, random);
    }
    std::vector<TokenId> kept;
    for (std::size_t id = 0; id < probabilities.size(); ++id) {
      if (probabilities[id] > 0) kept.push_back(static_cast<TokenId>(id));
    }
    // exp(-2000) is 0 in any precision: those of huge8 are kept, but have no probability.
    std::vector<TokenId> expected_kept;
    const std::vector<double> expected = test["probabilities"];
    for (const TokenId id : test["kept"].get<std::vector<TokenId>>()) {
      const double smallest = sizeof(TypeParam) == 4 ? 1e-40 : 0;
      if (expected[static_cast<std::size_t>(id)] > smallest) expected_kept.push_back(id);
    }
    EXPECT_EQ(kept, expected_kept) << name;
    ASSERT_EQ(probabilities.size(), expected.size()) << name;
    // A float of 1000 is exact to 3e-5, and so are the probabilities that it gives.
    const double float_tolerance = test["logits"] == "huge8" ? 1e-4 : 2e-6;
    const double tolerance = sizeof(TypeParam) == 4 ? float_tolerance : 1e-12;
    for (std::size_t id = 0; id < expected.size(); ++id) {
      EXPECT_NEAR(probabilities[id], expected[id], tolerance) << name << " id " << id;
    }
  }
#else
  GTEST_SKIP()
      << "the reference distributions are JSON: install nlohmann-json (apt install nlohmann-json3-dev)";
#endif
}

}  // namespace sampler_test
}  // namespace glassbox
