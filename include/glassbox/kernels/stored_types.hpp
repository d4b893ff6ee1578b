// The 16-bit numbers of checkpoints, widened exactly.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace glassbox {

struct Half {  // IEEE 754 binary16: sign, 5 exponent bits, 10 fraction bits
  std::uint16_t bits = 0;
};

struct BFloat16 {  // the upper half of a float: sign, 8 exponent bits, 7 fraction bits
  std::uint16_t bits = 0;
};

inline float widen(float value) { return value; }
inline double widen(double value) { return value; }

inline float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Every pattern exactly, the subnormal ones (fraction * 2^-24), infinities and NaNs included.
inline float widen(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = value.bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

namespace loops {

// output[i] = stored[i], in the arithmetic's type. float from double rounds; all else is exact.
template <typename Stored, typename Scalar>
void widen_row(const Stored* stored, std::ptrdiff_t count, Scalar* output) {
  for (std::ptrdiff_t i = 0; i < count; ++i) output[i] = static_cast<Scalar>(widen(stored[i]));
}

}  // namespace loops
}  // namespace glassbox
