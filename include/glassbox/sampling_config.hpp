// SamplingConfig: how the next token is chosen from the logits, under the names of generation_config.json.
#pragma once

#include <cstdio>
#include <string>

#include "glassbox/axis.hpp"

namespace glassbox {

// What a setting may be. Filters check what they are given, SamplingConfig::validate() checks all at once.
struct SettingRange {
  const char* name;
  double smallest, largest;
  bool or_zero;  // 0 is allowed too, and has a meaning of its own
  const char* expected;
};

inline constexpr SettingRange temperature_range{"temperature", 1e-5, 1e5, true,
                                                "0 (greedy) or a number from 1e-5 to 1e5"};
inline constexpr SettingRange top_k_range{"top_k", 1, 1e18, true, "a whole number >= 1, or 0 (off)"};
inline constexpr SettingRange top_p_range{"top_p", 0, 1, false, "a number from 0 to 1 (off)"};
inline constexpr SettingRange min_p_range{"min_p", 0, 1, false, "a number from 0 (off) to 1"};
inline constexpr SettingRange repetition_penalty_range{"repetition_penalty", 1e-3, 1e3, false,
                                                       "a number from 1e-3 to 1e3, 1 is off"};
inline constexpr SettingRange no_repeat_ngram_size_range{"no_repeat_ngram_size", 1, 1e18, true,
                                                         "a whole number >= 1, or 0 (off)"};

// Throws UsageError naming the setting. NaN fails every comparison, so it never passes.
inline void check_setting(const SettingRange& range, double value) {
  if (value >= range.smallest && value <= range.largest) return;
  if (range.or_zero && value == 0) return;
  char number[32];
  std::snprintf(number, sizeof number, "%g", value);
  throw_error<UsageError>("sampling: " + std::string(range.name) + " is " + number + ", expected " +
                          range.expected);
}

// Source: transformers GenerationConfig. The default is greedy: always the likeliest token.
struct SamplingConfig {
  double temperature = 0;          // 0: greedy; 1: the model's own probabilities
  Index top_k = 0;                 // only the k likeliest tokens; 0: off
  double top_p = 1;                // only the smallest set of likely tokens that reaches p; 1: off
  double min_p = 0;                // only tokens at least this times as likely as the likeliest; 0: off
  double repetition_penalty = 1;   // > 1: tokens that have occurred are less likely; 1: off
  Index no_repeat_ngram_size = 0;  // no sequence of so many tokens occurs twice; 0: off

  // Throws UsageError naming the first setting that is out of range.
  void validate() const;
};

inline void SamplingConfig::validate() const {
  check_setting(temperature_range, temperature);
  check_setting(top_k_range, static_cast<double>(top_k));
  check_setting(top_p_range, top_p);
  check_setting(min_p_range, min_p);
  check_setting(repetition_penalty_range, repetition_penalty);
  check_setting(no_repeat_ngram_size_range, static_cast<double>(no_repeat_ngram_size));
}

}  // namespace glassbox
