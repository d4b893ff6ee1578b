// Which parameters learn, and which are decayed: by their names, and as a table to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "glassbox/training/adamw.hpp"

namespace glassbox {

// Whether a name fits a pattern, in which * stands for any letters, none included:
// "model.layers.*.mlp.*", "lm_head.weight".
inline bool name_matches(std::string_view name, std::string_view pattern) {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t in_name = 0, in_pattern = 0;
  std::size_t last_star = none;  // in the pattern; what it stands for ends at star_end in the name
  std::size_t star_end = 0;
  while (in_name < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      last_star = in_pattern;
      star_end = in_name;
      in_pattern += 1;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[in_name]) {
      in_name += 1;
      in_pattern += 1;
    } else if (last_star != none) {  // the last star stands for one letter more; earlier ones need not change
      star_end += 1;
      in_name = star_end;
      in_pattern = last_star + 1;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == none;
}

// The usual groups: matrices are decayed, norms and biases are not, for pulling them towards zero would
// silence whole features. `frozen`: patterns of names that stay as they are.
// Throws UsageError for a pattern that no parameter fits.
template <std::floating_point Scalar>
std::vector<ParameterRule> parameter_rules(const std::vector<Parameter<Scalar>>& parameters,
                                           const std::vector<std::string>& frozen = {}) {
  std::vector<ParameterRule> rules(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) rules[i].decayed = parameters[i].is_matrix();
  for (const std::string& pattern : frozen) {
    bool used = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!name_matches(parameters[i].name, pattern)) continue;
      rules[i].frozen = true;
      used = true;
    }
    if (used) continue;
    throw_error<UsageError>("parameter_rules: no parameter fits \"" + pattern + "\"; the first is called " +
                            (parameters.empty() ? "nothing: there are none" : parameters[0].name));
  }
  return rules;
}

// A text with spaces after it, so that it is at least `width` long.
inline std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

// A line per parameter (name, shape, what happens to it) and a sum.
template <std::floating_point Scalar>
std::string parameter_table(const std::vector<Parameter<Scalar>>& parameters,
                            const std::vector<ParameterRule>& rules) {
  std::string text;
  Index learning = 0, all = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter<Scalar>& parameter = parameters[i];
    const std::string shape = shape_string(parameter.axes.data(), static_cast<int>(parameter.axes.size()));
    const char* what = rules[i].frozen    ? "frozen"
                       : rules[i].decayed ? "learns, decayed"
                                          : "learns, not decayed";
    text += padded(parameter.name, 48) + " " + padded(shape, 40) + " " + what + "\n";
    all += parameter.size;
    if (!rules[i].frozen) learning += parameter.size;
  }
  return text + std::to_string(learning) + " of " + std::to_string(all) + " numbers learn\n";
}

}  // namespace glassbox
