// RandomGenerator: the same draws from the same seed on every machine.
#pragma once

#include <cstdint>

namespace glassbox {

// The output function of SplitMix64: an invertible mixing of 64 bits, in which every bit of the result
// depends on every bit of the argument (Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195, with the
// constants of Stafford's variant 13).
constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

// SplitMix64. The state walks through all 2^64 values in steps of an odd constant, and each draw is the
// state, mixed. So every seed is as good as any other: seed 0 too, where generators that only shift and xor
// their state stay at 0 for ever. Integer arithmetic alone, hence the same everywhere; the distributions of
// <random> are not: each library has its own.
class RandomGenerator {
 public:
  explicit RandomGenerator(std::uint64_t seed) : state_(seed) {}

  // 64 random bits.
  std::uint64_t next_bits() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix_bits(state_);
  }

  // A number in [0, 1): a multiple of 2^-53, each as likely as any other. The upper 53 bits fill the mantissa
  // of a double exactly, so that nothing rounds up to 1.
  double next_uniform() {
    const std::uint64_t upper_bits = next_bits() >> 11;
    return static_cast<double>(upper_bits) * 0x1.0p-53;
  }

 private:
  std::uint64_t state_;
};

}  // namespace glassbox
