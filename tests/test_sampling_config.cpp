// sampling_config.hpp: defaults, ranges and messages of the settings.
//
// Faults that must turn this file red:
//   - a default that is not "off", or not greedy
//   - a range checked with > for >=, a NaN or an infinity accepted, 0 refused where it means off
//   - validate() that leaves one of the settings out
#include "glassbox/sampling_config.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>

#include "support/expect_near.hpp"

namespace glassbox {
namespace sampling_config_test {

using test_support::throws;

const double nan_value = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

TEST(SamplingConfig, DefaultIsGreedyAndAllElseOff) {
  const SamplingConfig config;
  EXPECT_EQ(config.temperature, 0);
  EXPECT_EQ(config.top_k, 0);
  EXPECT_EQ(config.top_p, 1);
  EXPECT_EQ(config.min_p, 0);
  EXPECT_EQ(config.repetition_penalty, 1);
  EXPECT_EQ(config.no_repeat_ngram_size, 0);
  EXPECT_NO_THROW(config.validate());
}

TEST(SamplingConfig, EdgesAreAllowed) {
  for (const double value : {0.0, 1e-5, 0.7, 1.0, 100.0, 1e5}) {
    SamplingConfig config;
    config.temperature = value;
    EXPECT_NO_THROW(config.validate()) << value;
  }
  for (const double value : {0.0, 0.5, 1.0}) {
    SamplingConfig config;
    config.top_p = value;
    config.min_p = value;
    EXPECT_NO_THROW(config.validate()) << value;
  }
  SamplingConfig config;
  config.top_k = 1;
  config.no_repeat_ngram_size = 1;
  for (const double value : {1e-3, 0.8, 1e3}) {
    config.repetition_penalty = value;
    EXPECT_NO_THROW(config.validate()) << value;
  }
}

TEST(SamplingConfig, TemperatureOutOfRange) {
  SamplingConfig config;
  const std::string expected = ", expected 0 (greedy) or a number from 1e-5 to 1e5";
  config.temperature = -0.5;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: temperature is -0.5" + expected));
  config.temperature = 9e-6;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: temperature is 9e-06" + expected));
  config.temperature = 100001;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: temperature is 100001" + expected));
  config.temperature = infinity;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: temperature is inf" + expected));
  config.temperature = nan_value;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: temperature is nan" + expected));
}

TEST(SamplingConfig, CountsOutOfRange) {
  SamplingConfig config;
  config.top_k = -1;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "sampling: top_k is -1, expected a whole number >= 1, or 0 (off)"));
  config = SamplingConfig();
  config.no_repeat_ngram_size = -2;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); },
                         "sampling: no_repeat_ngram_size is -2, expected a whole number >= 1, or 0 (off)"));
}

TEST(SamplingConfig, ProbabilitiesOutOfRange) {
  for (const double value : {-0.1, 1.5, infinity}) {
    SamplingConfig config;
    config.top_p = value;
    EXPECT_THROW(config.validate(), UsageError) << value;
    config = SamplingConfig();
    config.min_p = value;
    EXPECT_THROW(config.validate(), UsageError) << value;
  }
  SamplingConfig config;
  config.top_p = 1.5;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "sampling: top_p is 1.5, expected a number from 0 to 1 (off)"));
  config.top_p = nan_value;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "sampling: top_p is nan, expected a number from 0 to 1 (off)"));
  config = SamplingConfig();
  config.min_p = -0.25;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "sampling: min_p is -0.25, expected a number from 0 (off) to 1"));
  config.min_p = nan_value;
  EXPECT_THROW(config.validate(), UsageError);
}

TEST(SamplingConfig, PenaltyOutOfRange) {
  SamplingConfig config;
  const std::string expected = ", expected a number from 1e-3 to 1e3, 1 is off";
  config.repetition_penalty = 0;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "sampling: repetition_penalty is 0" + expected));
  config.repetition_penalty = 9e-4;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); }, "sampling: repetition_penalty is 0.0009" + expected));
  config.repetition_penalty = 1001;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); }, "sampling: repetition_penalty is 1001" + expected));
  config.repetition_penalty = -1.5;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); }, "sampling: repetition_penalty is -1.5" + expected));
  config.repetition_penalty = nan_value;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); }, "sampling: repetition_penalty is nan" + expected));
}

}  // namespace sampling_config_test
}  // namespace glassbox
