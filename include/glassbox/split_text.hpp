// "scores:layer=3:hit=2" -> "scores", "layer=3", "hit=2".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glassbox {

// The parts of a text between the separators, empty ones too: always one more than there are separators.
inline std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

}  // namespace glassbox
