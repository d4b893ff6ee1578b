// UTF-8: which bytes make a character. Text is bytes everywhere in this library; only who must not cut a
// character in two asks.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace glassbox {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The length in bytes, 1 to 4, of the character that `bytes` begins with; 0: more bytes are needed to tell;
// -1: no character begins so.
//   00..7F   C2..DF 80..BF   E0..EF 80..BF 80..BF   F0..F4 80..BF 80..BF 80..BF
// less the overlong forms E0 80..9F and F0 80..8F, the surrogates ED A0..BF, and F4 90..BF beyond U+10FFFF.
// Source: The Unicode Standard, Table 3-7, Well-Formed UTF-8 Byte Sequences.
inline int utf8_character_length(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const unsigned char first = static_cast<unsigned char>(bytes[0]);
  if (first <= 0x7F) return 1;
  if (first < 0xC2 || first > 0xF4) return -1;
  const int length = first < 0xE0 ? 2 : (first < 0xF0 ? 3 : 4);
  const unsigned char lowest_second = first == 0xE0 ? 0xA0 : (first == 0xF0 ? 0x90 : 0x80);
  const unsigned char highest_second = first == 0xED ? 0x9F : (first == 0xF4 ? 0x8F : 0xBF);
  for (int i = 1; i < length; ++i) {
    if (i == static_cast<int>(bytes.size())) return 0;
    const unsigned char byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    const unsigned char lowest = i == 1 ? lowest_second : 0x80;
    const unsigned char highest = i == 1 ? highest_second : 0xBF;
    if (byte < lowest || byte > highest) return -1;
  }
  return length;
}

// Whether all of `bytes` is whole characters.
inline bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const int length = utf8_character_length(bytes);
    if (length <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(length));
  }
  return true;
}

// Bytes beyond ASCII as \x and two digits, since a message must be UTF-8 itself.
inline std::string escaped_bytes(std::string_view text) {
  std::string shown;
  for (const char byte : text) {
    char digits[8];
    std::snprintf(digits, sizeof digits, "\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    const bool printable = byte >= 0x20 && byte < 0x7F;
    shown += printable ? std::string(1, byte) : digits;
  }
  return shown;
}

}  // namespace glassbox
