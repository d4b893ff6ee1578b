// StopStrings: finds the end of a text that comes in pieces, also where the stop string lies across their
// borders.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "glassbox/error.hpp"
#include "glassbox/utf8.hpp"

namespace glassbox {

// Text goes in as it is decoded, and comes out once it is certain that no stop string begins in it. So what
// was shown never has to be taken back (transformers StopStringCriteria stops too, but leaves the stop string
// in):
//   stop string "\nUser:"    push "Yes.\nU" -> "Yes."    push "se" -> ""    push "r:" -> "", matched
// The text decides, not how it was cut into pieces: the stop string that is complete first wins, and of two
// that end together the longer one. Invariant: held_ is the longest end of the text so far that a stop string
// begins with.
class StopStrings {
 public:
  // Throws UsageError for a stop string that is not UTF-8: it could match within a character and cut it in
  // two.
  explicit StopStrings(std::vector<std::string> stop_strings) : stop_strings_(std::move(stop_strings)) {
    for (const std::string& stop_string : stop_strings_) {
      if (is_utf8(stop_string)) continue;
      throw_error<UsageError>("generation: the stop string \"" + escaped_bytes(stop_string) +
                              "\" is not well-formed UTF-8");
    }
  }

  // Takes more text, returns what may be shown. After a match it returns nothing any more.
  std::string push(std::string_view text) {
    std::string shown;
    for (const char byte : text) {
      if (matched()) break;
      held_ += byte;
      match_end_of_held();
      shown += take_safe_beginning();
    }
    return shown;
  }

  // The end of the text: what was held back was not the beginning of a stop string after all.
  std::string flush() {
    std::string shown = std::move(held_);
    held_.clear();
    return shown;
  }

  bool matched() const { return !match_.empty(); }
  // The stop string that was found; empty: none yet.
  const std::string& match() const { return match_; }
  // Text that may be the beginning of a stop string.
  const std::string& held() const { return held_; }

 private:
  std::vector<std::string> stop_strings_;
  std::string held_;
  std::string match_;

  // Sets match_ to the longest stop string that held_ ends with.
  void match_end_of_held() {
    for (const std::string& stop_string : stop_strings_) {
      if (held_.ends_with(stop_string) && stop_string.size() > match_.size()) match_ = stop_string;
    }
  }

  // Removes from held_ what cannot be part of a stop string, and after a match the stop string too.
  std::string take_safe_beginning() {
    std::size_t safe = matched() ? held_.size() - match_.size() : 0;
    while (!matched() && safe < held_.size() && !begins_stop_string(held_.substr(safe))) ++safe;
    const std::string shown = held_.substr(0, safe);
    held_ = matched() ? "" : held_.substr(safe);
    return shown;
  }

  bool begins_stop_string(const std::string& text) const {
    for (const std::string& stop_string : stop_strings_) {
      if (stop_string.starts_with(text)) return true;
    }
    return false;
  }
};

}  // namespace glassbox
