// Faults that must turn this red: the first step with a rate of 0; the warm-up not reaching the peak; half
// the cosine, or a whole one; progress counted from step 0; below the lowest rate after the end.
#include "glassbox/training/learning_rate.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace learning_rate_test {

using test_support::throws;

// 4 steps up to 1, then from 1 down to 0.2 over 8: 1, 0.6 in the middle, and 0.2 from the end on.
TEST(LearningRateSchedule, WorkedExample) {
  const LearningRateSchedule schedule = {.peak = 1, .lowest = 0.2, .warmup_steps = 4, .total_steps = 12};
  schedule.validate();
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1);
  EXPECT_NEAR(schedule.at(6), 0.2 + 0.4 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(schedule.at(8), 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(10), 0.2 + 0.4 * (1 - std::sqrt(0.5)), 1e-15);
  EXPECT_EQ(schedule.at(12), 0.2);
  EXPECT_EQ(schedule.at(1000), 0.2);
  for (Index step = 5; step < 12; ++step) EXPECT_LT(schedule.at(step), schedule.at(step - 1)) << step;
}

TEST(LearningRateSchedule, WithoutWarmUpOrWithNothingElse) {
  const LearningRateSchedule falling = {.peak = 2, .lowest = 0, .warmup_steps = 0, .total_steps = 2};
  EXPECT_EQ(falling.at(0), 2);
  EXPECT_NEAR(falling.at(1), 1, 1e-15);
  EXPECT_EQ(falling.at(2), 0);
  const LearningRateSchedule rising = {.peak = 2, .lowest = 1, .warmup_steps = 2, .total_steps = 2};
  rising.validate();
  EXPECT_EQ(rising.at(1), 2);
  EXPECT_EQ(rising.at(2), 1);
  const LearningRateSchedule constant = {.peak = 3, .lowest = 3, .warmup_steps = 0, .total_steps = 5};
  for (Index step = 0; step < 8; ++step) EXPECT_EQ(constant.at(step), 3);
}

TEST(LearningRateSchedule, Errors) {
  const auto validate = [](LearningRateSchedule schedule) { return [schedule] { schedule.validate(); }; };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(throws<UsageError>(validate({.peak = 1, .lowest = 2, .warmup_steps = 0, .total_steps = 1}),
                                 "LearningRateSchedule: peak 1.000000, lowest 2.000000, warmup_steps 0, "
                                 "total_steps 1: expected 0 <= lowest <= peak and 0 <= warmup_steps <= "
                                 "total_steps"));
  EXPECT_TRUE(throws<UsageError>(validate({.peak = 1, .lowest = 0, .warmup_steps = 3, .total_steps = 2}),
                                 "LearningRateSchedule: peak 1.000000, lowest 0.000000, warmup_steps 3, "
                                 "total_steps 2: expected 0 <= lowest <= peak and 0 <= warmup_steps <= "
                                 "total_steps"));
  EXPECT_THROW(validate({.peak = nan, .lowest = 0, .warmup_steps = 0, .total_steps = 1})(), UsageError);
  EXPECT_THROW(validate({.peak = HUGE_VAL, .lowest = 0, .warmup_steps = 0, .total_steps = 1})(), UsageError);
  EXPECT_THROW(validate({.peak = 1, .lowest = nan, .warmup_steps = 0, .total_steps = 1})(), UsageError);
  EXPECT_THROW(validate({.peak = 1, .lowest = -1, .warmup_steps = 0, .total_steps = 1})(), UsageError);
  EXPECT_THROW(validate({.peak = 1, .lowest = 0, .warmup_steps = -1, .total_steps = 1})(), UsageError);
  EXPECT_NO_THROW(validate({})());
}

}  // namespace learning_rate_test
}  // namespace glassbox
