// random.hpp: the generator's draws, known from its publication.
//
// Faults that must turn this file red:
//   - another constant or shift in mix_bits, another step of the state
//   - next_uniform from the lower 53 bits, from 52 bits, or divided by 2^53 - 1
//   - the seed ignored, or seed 0 replaced by another one
#include "glassbox/random.hpp"

#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace glassbox {
namespace random_test {

// The first outputs of SplitMix64, as the reference implementation (Vigna's splitmix64.c) gives them.
TEST(Random, PublishedDraws) {
  RandomGenerator zero(0);
  EXPECT_EQ(zero.next_bits(), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(zero.next_bits(), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(zero.next_bits(), 0x06c45d188009454fULL);
  EXPECT_EQ(zero.next_bits(), 0xf88bb8a8724c81ecULL);
  RandomGenerator other(1234567);
  EXPECT_EQ(other.next_bits(), 6457827717110365317ULL);
  EXPECT_EQ(other.next_bits(), 3203168211198807973ULL);
  EXPECT_EQ(other.next_bits(), 9817491932198370423ULL);
  EXPECT_EQ(other.next_bits(), 4593380528125082431ULL);
}

// 0xe220a8397b1dcdaf >> 11 and 0x6e789e6aa1b965f4 >> 11, as multiples of 2^-53.
TEST(Random, UniformIsTheUpper53Bits) {
  RandomGenerator random(0);
  EXPECT_EQ(random.next_uniform(), 0x1c4415072f63b9p-53);
  EXPECT_EQ(random.next_uniform(), 0x0dcf13cd54372cp-53);
}

TEST(Random, UniformStaysBelowOne) {
  RandomGenerator random(7);
  double sum = 0;
  double smallest = 1;
  double largest = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = random.next_uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    smallest = value < smallest ? value : smallest;
    largest = value > largest ? value : largest;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);  // 5 standard errors
  EXPECT_LT(smallest, 1e-3);
  EXPECT_GT(largest, 1 - 1e-3);
}

// Case V21: seed 0 is a seed like any other.
TEST(Random, SeedZeroIsASeed) {
  RandomGenerator first(0);
  RandomGenerator second(0);
  std::set<double> draws;
  for (int i = 0; i < 16; ++i) {
    const double draw = first.next_uniform();
    EXPECT_EQ(draw, second.next_uniform());
    draws.insert(draw);
  }
  EXPECT_EQ(draws.size(), 16U);
}

TEST(Random, SeedsDiffer) {
  std::set<std::uint64_t> first_draws;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) first_draws.insert(RandomGenerator(seed).next_bits());
  EXPECT_EQ(first_draws.size(), 1000U);
}

}  // namespace random_test
}  // namespace glassbox
