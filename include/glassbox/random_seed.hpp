// random_seed: a seed where the user gives none. A header of its own, since <random> and <chrono> are long.
#pragma once

#include <chrono>
#include <random>

#include "glassbox/random.hpp"

namespace glassbox {

// A seed that is another one at every call, also twice within one second. Say it to the user: with it the run
// can be repeated. The clock is mixed in since some libraries' random_device repeats itself.
inline std::uint64_t random_seed() {
  std::random_device device;
  const std::uint64_t high = device();
  const std::uint64_t low = device();
  const std::chrono::nanoseconds time = std::chrono::high_resolution_clock::now().time_since_epoch();
  return mix_bits((high << 32 | low) + mix_bits(static_cast<std::uint64_t>(time.count())));
}

}  // namespace glassbox
