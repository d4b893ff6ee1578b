// random_seed.hpp: seeds differ within one second.
//
// Faults that must turn this file red:
//   - random_seed from the time in seconds
#include "glassbox/random_seed.hpp"

#include <gtest/gtest.h>
#include <set>

namespace glassbox {
namespace random_seed_test {

// Case V21: many calls within a second.
TEST(RandomSeed, ManyWithinASecondDiffer) {
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 100; ++i) seeds.insert(random_seed());
  EXPECT_EQ(seeds.size(), 100U);
}

}  // namespace random_seed_test
}  // namespace glassbox
