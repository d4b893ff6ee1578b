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
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skipped = star; skipped <= name.size(); ++skipped) {
    if (name_matches(name.substr(skipped), rest)) return true;
  }
  return false;
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
