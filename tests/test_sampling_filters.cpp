// sampling_filters.hpp: each filter by hand, against a literal reading of its formula, and at its edges.
//
// Faults that must turn this file red:
//   - penalty: negative logits divided; applied once per occurrence; unseen tokens touched; > for <
//   - n-grams: compared one token too few or too many; the last n-gram left out; the prefix from the
//   beginning
//   - an overflow that makes a finite logit infinite, or an infinite one finite
//   - temperature: multiplied; 0 divides by a small number; the last instead of the lowest id on a tie
//   - top-k: the (k+1)-th largest as threshold; <= for <; ties dropped
//   - top-p: the token that crosses p dropped; > for >=; nothing left at p = 0; sorted upwards
//   - min-p: <= for <; threshold not relative to the largest
//   - a filtered logit that is a small number, not -infinity; a setting not checked; the input changed
#include "glassbox/sampling_filters.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <vector>

#include "support/expect_near.hpp"

namespace glassbox {
namespace sampling_filters_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::throws;

constexpr double inf = std::numeric_limits<double>::infinity();

template <typename Scalar>
class SamplingFilters : public ::testing::Test {
 protected:
  static Tensor<Scalar> logits(const std::vector<double>& values) {
    return make_tensor<Scalar>({{"vocab", static_cast<Index>(values.size())}}, values);
  }
  // Logits whose softmax is the given probabilities.
  static Tensor<Scalar> log_of(std::vector<double> probabilities) {
    for (double& value : probabilities) value = std::log(value);
    return logits(probabilities);
  }
  static std::vector<TokenId> kept_ids(const Tensor<Scalar>& filtered) {
    std::vector<TokenId> ids;
    for (Index id = 0; id < filtered.cols(); ++id) {
      if (filtered(id) != -std::numeric_limits<Scalar>::infinity()) ids.push_back(id);
    }
    return ids;
  }
};
TYPED_TEST_SUITE(SamplingFilters, test_support::Scalars, test_support::ScalarNames);

using Ids = std::vector<TokenId>;

// ---- repetition penalty: case V20 ----

TYPED_TEST(SamplingFilters, PenaltyDividesPositiveAndMultipliesNegative) {
  const Tensor<TypeParam> logits = this->logits({2.0, -2.0, 0.0, 5.0, -5.0});
  EXPECT_TRUE(near_values(apply_repetition_penalty(logits, {0, 1, 2}, 1.5), {2.0 / 1.5, -3.0, 0.0, 5.0, -5.0},
                          rounding<TypeParam>()));
  EXPECT_TRUE(near_values(apply_repetition_penalty(this->logits({3.0, -1.0}), {0, 1}, 1.2), {2.5, -1.2},
                          rounding<TypeParam>()));
  EXPECT_TRUE(near_values(logits, {2.0, -2.0, 0.0, 5.0, -5.0}, 0));
}

TYPED_TEST(SamplingFilters, PenaltyCountsEachTokenOnce) {
  const Tensor<TypeParam> logits = this->logits({4.0, -3.0, 1.0});
  EXPECT_TRUE(near_values(apply_repetition_penalty(logits, {0, 1, 0, 1, 0}, 2.0), {2.0, -6.0, 1.0}, 0));
}

TYPED_TEST(SamplingFilters, PenaltyOneChangesNothing) {
  const Tensor<TypeParam> logits = random_tensor<TypeParam>({{"vocab", 20}}, 3, 10);
  const std::vector<double> before = test_support::values_of(logits);
  EXPECT_TRUE(near_values(apply_repetition_penalty(logits, {0, 5, 19}, 1.0), before, 0));
}

// ---- repeated n-grams ----

TYPED_TEST(SamplingFilters, NgramsByHand) {
  const Tensor<TypeParam> logits = this->logits({0.5, -1, 2, 3, -4});
  // "1 2" was followed by 3
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {1, 2, 3, 1, 2}, 3), {0.5, -1, 2, -inf, -4}, 0));
  // "2" was followed by 3
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {1, 2, 3, 1, 2}, 2), {0.5, -1, 2, -inf, -4}, 0));
  // the last n-gram of the history counts too: 3 3 would be followed by 3
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {3, 3}, 2), {0.5, -1, 2, -inf, -4}, 0));
  // size 1: everything that has occurred
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {0, 4, 0}, 1), {-inf, -1, 2, 3, -inf}, 0));
  // too short a history, or off: nothing
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {1, 2}, 3), {0.5, -1, 2, 3, -4}, 0));
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {1, 2, 1, 2, 1}, 0), {0.5, -1, 2, 3, -4}, 0));
  EXPECT_TRUE(near_values(block_repeated_ngrams(logits, {}, 1), {0.5, -1, 2, 3, -4}, 0));
  EXPECT_TRUE(near_values(logits, {0.5, -1, 2, 3, -4}, 0));
}

// Literally: a token is blocked if the history and it together contain their last n tokens twice.
TYPED_TEST(SamplingFilters, NgramsEqualAsItIsMeant) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const Index size = 1 + round % 4;
    Ids history;
    for (int i = 0; i < round % 13; ++i) history.push_back(static_cast<TokenId>(random() % 3));
    const Tensor<TypeParam> blocked = block_repeated_ngrams(this->logits({1, 2, 3}), history, size);
    for (TokenId id = 0; id < 3; ++id) {
      Ids longer = history;
      longer.push_back(id);
      int times = 0;
      for (Index i = 0; i + size <= static_cast<Index>(longer.size()); ++i) {
        times += std::equal(longer.end() - size, longer.end(), longer.begin() + i) ? 1 : 0;
      }
      EXPECT_EQ(std::isinf(blocked(id)), times > 1) << "round " << round << ", id " << id;
    }
  }
}

// ---- argmax and temperature: case V19 ----

TYPED_TEST(SamplingFilters, ArgmaxTakesTheLowestIdOfEquals) {
  EXPECT_EQ(argmax(this->logits({5, 5, 1})), 0);
  EXPECT_EQ(argmax(this->logits({-3, -2, -2})), 1);
  EXPECT_EQ(argmax(this->logits({-inf, -inf, -7})), 2);
  EXPECT_EQ(argmax(this->logits({-inf, -inf})), 0);
}

TYPED_TEST(SamplingFilters, ArgmaxRefusesNan) {
  const Tensor<TypeParam> logits = this->logits({std::nan(""), 1, 3, 2});
  EXPECT_TRUE(throws<NumericError>([&] { argmax(logits); }, "argmax: logits [vocab=4]: id 0 is nan"));
  EXPECT_TRUE(throws<NumericError>(
      [&] {
        argmax(this->logits({1, 2, std::nan("")}));
      },
      "argmax: logits [vocab=3]: id 2 is nan"));
  const Tensor<TypeParam> empty({{"vocab", 0}});
  EXPECT_TRUE(throws<ShapeError>([&] { argmax(empty); }, "argmax: logits [vocab=0] are empty"));
}

TYPED_TEST(SamplingFilters, TemperatureDivides) {
  const Tensor<TypeParam> logits = this->logits({2, -1, -inf, 0.5});
  EXPECT_TRUE(near_values(apply_temperature(logits, 0.5), {4, -2, -inf, 1}, 0));
  EXPECT_TRUE(near_values(apply_temperature(logits, 4), {0.5, -0.25, -inf, 0.125}, 0));
  EXPECT_TRUE(near_values(apply_temperature(logits, 1), {2, -1, -inf, 0.5}, 0));
  EXPECT_TRUE(near_values(logits, {2, -1, -inf, 0.5}, 0));
}

TYPED_TEST(SamplingFilters, TemperatureZeroLeavesTheArgmax) {
  EXPECT_TRUE(
      near_values(apply_temperature(this->logits({2.1, -0.3, 1.2, 0.1}), 0), {2.1, -inf, -inf, -inf}, 1e-6));
  EXPECT_TRUE(near_values(apply_temperature(this->logits({5, 5, 1}), 0), {5, -inf, -inf}, 0));
}

// The extremes that are allowed make no NaN and no infinity, also in float.
TYPED_TEST(SamplingFilters, TemperatureAtTheEndsOfItsRange) {
  const Tensor<TypeParam> hot = apply_temperature(this->logits({30, -inf, -30}), 1e5);
  EXPECT_TRUE(near_values(hot, {3e-4, -inf, -3e-4}, 1e-10));
  const Tensor<TypeParam> cold = apply_temperature(this->logits({30, -inf, 29}), 1e-5);
  EXPECT_TRUE(near_values(cold, {3e6, -inf, 2.9e6}, 1));
}

// Whatever finite logits come, the settings at the ends of their ranges leave probabilities.
TYPED_TEST(SamplingFilters, FiniteLogitsStayFinite) {
  const double largest = static_cast<double>((std::numeric_limits<TypeParam>::max)());
  const Ids history{0, 1, 2, 3};
  for (const double scale : {1.0, largest / 2, largest}) {
    const Tensor<TypeParam> logits = this->logits({scale, -scale, -inf, scale / 4});
    for (const double penalty : {1e-3, 1e3}) {
      const Tensor<TypeParam> penalized = apply_repetition_penalty(logits, history, penalty);
      for (const double temperature : {1e-5, 1e5}) {
        const Tensor<TypeParam> tempered = apply_temperature(penalized, temperature);
        EXPECT_EQ(this->kept_ids(tempered), (Ids{0, 1, 3})) << scale << ' ' << penalty << ' ' << temperature;
        EXPECT_NEAR(static_cast<double>(softmax(tempered).row(0).sum()), 1, 1e-6);
      }
    }
  }
  EXPECT_TRUE(near_values(apply_temperature(this->logits({largest, -largest, 1}), 1e-5),
                          {largest, -largest, 1e5}, 0.01));
  EXPECT_TRUE(near_values(apply_repetition_penalty(this->logits({-largest, 1, inf}), {0, 2}, 1e3),
                          {-largest, 1, inf}, 0));
}

// ---- top-k ----

TYPED_TEST(SamplingFilters, TopKKeepsTheLargestAndTheirEquals) {
  const Tensor<TypeParam> logits = this->logits({2, 1, 2, 0.5, 1, 1, -1, 0});
  EXPECT_EQ(this->kept_ids(keep_top_k(logits, 1)), (Ids{0, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_k(logits, 2)), (Ids{0, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_k(logits, 3)), (Ids{0, 1, 2, 4, 5}));
  EXPECT_EQ(this->kept_ids(keep_top_k(logits, 6)), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(this->kept_ids(keep_top_k(logits, 7)), (Ids{0, 1, 2, 3, 4, 5, 7}));
  EXPECT_TRUE(near_values(keep_top_k(logits, 3), {2, 1, 2, -inf, 1, 1, -inf, -inf}, 0));
  for (const Index off : {0, 8, 9, 1000})
    EXPECT_EQ(this->kept_ids(keep_top_k(logits, off)).size(), 8U) << off;
  EXPECT_TRUE(near_values(logits, {2, 1, 2, 0.5, 1, 1, -1, 0}, 0));
}

// Case V22: filtered means impossible, also where every logit is negative.
TYPED_TEST(SamplingFilters, FilteredIsMinusInfinity) {
  EXPECT_TRUE(near_values(keep_top_k(this->logits({-3, -2, -1}), 1), {-inf, -inf, -1}, 0));
  EXPECT_TRUE(near_values(keep_top_p(this->logits({-3, -2, -1}), 0.5), {-inf, -inf, -1}, 0));
  EXPECT_TRUE(near_values(keep_min_p(this->logits({-3, -2, -1}), 0.5), {-inf, -inf, -1}, 0));
}

// ---- top-p: case V18 ----

TYPED_TEST(SamplingFilters, TopPKeepsTheTokenThatCrosses) {
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .3, .15, .05}), .6)), (Ids{0, 1}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .3, .15, .05}), .85)), (Ids{0, 1, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .41, .09}), .9)), (Ids{0, 1}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.4, .3, .2, .1}), .8)), (Ids{0, 1, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .35, .1, .05}), .9)), (Ids{0, 1, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.05, .15, .3, .5}), .6)), (Ids{2, 3}));
}

// 0.5 and 0.25 are exact, so p = 0.75 is reached exactly by two.
TYPED_TEST(SamplingFilters, TopPStopsWhereItIsReachedExactly) {
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .25, .125, .125}), .75)), (Ids{0, 1}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->log_of({.5, .25, .125, .125}), .7500001)), (Ids{0, 1, 2}));
}

TYPED_TEST(SamplingFilters, TopPKeepsAtLeastOneAndAtMostAll) {
  const Tensor<TypeParam> logits = this->log_of({.2, .5, .3});
  EXPECT_EQ(this->kept_ids(keep_top_p(logits, 0)), (Ids{1}));
  EXPECT_EQ(this->kept_ids(keep_top_p(logits, 1e-9)), (Ids{1}));
  EXPECT_EQ(this->kept_ids(keep_top_p(logits, 1)), (Ids{0, 1, 2}));
  EXPECT_EQ(this->kept_ids(keep_top_p(this->logits({1, 1, 1, 1}), .5)),
            (Ids{0, 1}));  // of equals the lower ids
}

// Literally: a token stays if those before it, by probability and then by id, sum to less than p.
TYPED_TEST(SamplingFilters, TopPEqualsItsFormula) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Tensor<TypeParam> logits = random_tensor<TypeParam>({{"vocab", 60}}, seed, 4);
    const Tensor<TypeParam> probabilities = softmax(logits);
    const double p = 0.05 + 0.045 * seed;
    const Tensor<TypeParam> kept = keep_top_p(logits, p);
    for (Index id = 0; id < 60; ++id) {
      double before = 0;
      for (Index other = 0; other < 60; ++other) {
        if (probabilities(other) > probabilities(id)) before += static_cast<double>(probabilities(other));
      }
      const double expected = before < p ? static_cast<double>(logits(id)) : -inf;
      EXPECT_EQ(static_cast<double>(kept(id)), expected) << "seed " << seed << ", id " << id;
    }
  }
}

// ---- min-p ----

TYPED_TEST(SamplingFilters, MinPIsRelativeToTheLikeliest) {
  const Tensor<TypeParam> logits = this->log_of({.4, .3, .2, .06, .04});
  EXPECT_EQ(this->kept_ids(keep_min_p(logits, .3)), (Ids{0, 1, 2}));
  EXPECT_EQ(this->kept_ids(keep_min_p(logits, .8)), (Ids{0}));
  EXPECT_EQ(this->kept_ids(keep_min_p(logits, .12)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(this->kept_ids(keep_min_p(logits, 0)), (Ids{0, 1, 2, 3, 4}));
}

// Exactly at the threshold a token stays: 0.25 is half of 0.5.
TYPED_TEST(SamplingFilters, MinPKeepsWhatIsExactlyAtTheThreshold) {
  EXPECT_EQ(this->kept_ids(keep_min_p(this->log_of({.5, .25, .125, .125}), .5)), (Ids{0, 1}));
  EXPECT_EQ(this->kept_ids(keep_min_p(this->logits({1, 3, 3, 2}), 1)), (Ids{1, 2}));
}

// ---- errors ----

TYPED_TEST(SamplingFilters, SettingsAreChecked) {
  const Tensor<TypeParam> logits = this->logits({1, 2});
  EXPECT_TRUE(
      throws<UsageError>([&] { apply_temperature(logits, -1); },
                         "sampling: temperature is -1, expected 0 (greedy) or a number from 1e-5 to 1e5"));
  EXPECT_TRUE(throws<UsageError>([&] { keep_top_k(logits, -1); },
                                 "sampling: top_k is -1, expected a whole number >= 1, or 0 (off)"));
  EXPECT_TRUE(throws<UsageError>([&] { keep_top_p(logits, 1.01); },
                                 "sampling: top_p is 1.01, expected a number from 0 to 1 (off)"));
  EXPECT_TRUE(throws<UsageError>([&] { keep_min_p(logits, -0.01); },
                                 "sampling: min_p is -0.01, expected a number from 0 (off) to 1"));
  EXPECT_TRUE(
      throws<UsageError>([&] { apply_repetition_penalty(logits, {}, 0); },
                         "sampling: repetition_penalty is 0, expected a number from 1e-3 to 1e3, 1 is off"));
  EXPECT_TRUE(
      throws<UsageError>([&] { block_repeated_ngrams(logits, {}, -1); },
                         "sampling: no_repeat_ngram_size is -1, expected a whole number >= 1, or 0 (off)"));
}

TYPED_TEST(SamplingFilters, HistoryIsChecked) {
  const Tensor<TypeParam> logits = this->logits({1, 2});
  EXPECT_TRUE(throws<TokenError>(
      [&] {
        apply_repetition_penalty(logits, {0, 2}, 1.5);
      },
      "apply_repetition_penalty: history contains id 2, expected 0..1 (vocab_size 2)"));
  EXPECT_TRUE(
      throws<TokenError>([&] { block_repeated_ngrams(logits, {-1}, 1); },
                         "block_repeated_ngrams: history contains id -1, expected 0..1 (vocab_size 2)"));
}

TYPED_TEST(SamplingFilters, ShapesAreChecked) {
  const Tensor<TypeParam> batch({{"batch", 1}, {"vocab", 2}});
  const std::string text = ": logits [batch=1, vocab=2] has 2 axes, expected 1";
  EXPECT_TRUE(
      throws<ShapeError>([&] { apply_repetition_penalty(batch, {}, 1); }, "apply_repetition_penalty" + text));
  EXPECT_TRUE(
      throws<ShapeError>([&] { block_repeated_ngrams(batch, {}, 0); }, "block_repeated_ngrams" + text));
  EXPECT_TRUE(throws<ShapeError>([&] { argmax(batch); }, "argmax" + text));
  EXPECT_TRUE(throws<ShapeError>([&] { apply_temperature(batch, 1); }, "apply_temperature" + text));
  EXPECT_TRUE(throws<ShapeError>([&] { keep_top_k(batch, 0); }, "keep_top_k" + text));
  EXPECT_TRUE(throws<ShapeError>([&] { keep_top_p(batch, 1); }, "keep_top_p" + text));
  EXPECT_TRUE(throws<ShapeError>([&] { keep_min_p(batch, 0); }, "keep_min_p" + text));
}

}  // namespace sampling_filters_test
}  // namespace glassbox
