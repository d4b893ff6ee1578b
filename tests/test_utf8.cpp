// utf8.hpp. Faults that must turn this file red:
//   the lowest second byte after E0 or F0 left at 80 (overlong forms)
//   the highest second byte after ED or F4 left at BF (surrogates, beyond U+10FFFF)
//   first byte C0, C1, F5 or above taken as the beginning of a character
//   -1 and 0 exchanged; a length off by one; is_utf8 true for a character that is cut off
#include "glassbox/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace glassbox {
namespace utf8_test {

// The UTF-8 of a code point by the bit patterns, surrogates and values beyond 10FFFF included.
std::string encode_code_point(unsigned value) {
  const std::string tail1(1, static_cast<char>(0x80 | (value & 0x3F)));
  const std::string tail2(1, static_cast<char>(0x80 | (value >> 6 & 0x3F)));
  const std::string tail3(1, static_cast<char>(0x80 | (value >> 12 & 0x3F)));
  if (value < 0x80) return std::string(1, static_cast<char>(value));
  if (value < 0x800) return static_cast<char>(0xC0 | value >> 6) + tail1;
  if (value < 0x10000) return static_cast<char>(0xE0 | value >> 12) + tail2 + tail1;
  return static_cast<char>(0xF0 | value >> 18) + tail3 + tail2 + tail1;
}

TEST(Utf8, LengthOfWellKnownCharacters) {
  EXPECT_EQ(utf8_character_length("A"), 1);
  EXPECT_EQ(utf8_character_length("\xC3\xA9"), 2);          // U+00E9
  EXPECT_EQ(utf8_character_length("\xE4\xBD\xA0"), 3);      // U+4F60
  EXPECT_EQ(utf8_character_length("\xF0\x9F\xA6\x99"), 4);  // U+1F999
  EXPECT_EQ(utf8_character_length("\xC3\xA9 and more"), 2);
  EXPECT_EQ(utf8_character_length(std::string_view("\0", 1)), 1);
}

TEST(Utf8, EveryCodePoint) {
  for (unsigned value = 0; value < 0x1FFFFF; value += value < 0x20000 ? 1 : 61) {
    const std::string bytes = encode_code_point(value);
    const bool legal = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    const int expected = legal ? static_cast<int>(bytes.size()) : -1;
    ASSERT_EQ(utf8_character_length(bytes), expected) << "U+" << std::hex << value;
    ASSERT_EQ(is_utf8(bytes), legal) << "U+" << std::hex << value;
    if (!legal) continue;
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_EQ(utf8_character_length(bytes.substr(0, length)), 0) << "U+" << std::hex << value;
    }
  }
}

TEST(Utf8, BordersOfTheRanges) {
  for (const unsigned value : {0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu})
    EXPECT_TRUE(is_utf8(encode_code_point(value))) << std::hex << value;
  for (const unsigned value : {0xD800u, 0xDFFFu, 0x110000u})
    EXPECT_FALSE(is_utf8(encode_code_point(value))) << std::hex << value;
}

TEST(Utf8, WhatNoCharacterBeginsWith) {
  for (int first = 0x80; first <= 0xC1; ++first)
    EXPECT_EQ(utf8_character_length(std::string(1, static_cast<char>(first)) + "\x80"), -1) << first;
  for (int first = 0xF5; first <= 0xFF; ++first)
    EXPECT_EQ(utf8_character_length(std::string(1, static_cast<char>(first)) + "\x80\x80\x80"), -1) << first;
  EXPECT_EQ(utf8_character_length("\xE0\x9F\xBF"), -1);      // U+07FF in three bytes
  EXPECT_EQ(utf8_character_length("\xF0\x8F\xBF\xBF"), -1);  // U+FFFF in four
  EXPECT_EQ(utf8_character_length("\xE4"
                                  "A"),
            -1);
  EXPECT_EQ(utf8_character_length("\xE4\xBD"
                                  "A"),
            -1);
  EXPECT_EQ(utf8_character_length("\xF0\x9F\xA6"
                                  "A"),
            -1);
}

// A byte that cannot follow is known at once, not only when the character would be complete.
TEST(Utf8, SaysAsEarlyAsPossible) {
  EXPECT_EQ(utf8_character_length("\xED\xA0"), -1);
  EXPECT_EQ(utf8_character_length("\xF4\x90"), -1);
  EXPECT_EQ(utf8_character_length("\xE0\x80"), -1);
  EXPECT_EQ(utf8_character_length("\xF0\x9F"), 0);
}

TEST(Utf8, WholeTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a \xE4\xBD\xA0 \xF0\x9F\xA6\x99."));
  EXPECT_FALSE(is_utf8("a \xE4\xBD"));
  EXPECT_FALSE(is_utf8("a \xFF b"));
}

}  // namespace utf8_test
}  // namespace glassbox
