// GenerationConfig: what is asked of one generation, under the names of generation_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "glassbox/sampling_config.hpp"
#include "glassbox/utf8.hpp"

namespace glassbox {

// Source: transformers GenerationConfig.
struct GenerationConfig {
  SamplingConfig sampling;
  Index max_new_tokens = 256;             // at most so many tokens after the prompt
  std::vector<TokenId> eos_token_id;      // any of these ends the text; empty: none does
  std::vector<std::string> stop_strings;  // any of these in the continuation ends it, and is cut off
  std::uint64_t seed = 0;                 // the same seed, the same text; random_seed() for another one
  Index context = 0;                      // positions to use at most; 0: the model's max_position_embeddings

  // Throws UsageError naming the first setting that makes no sense.
  void validate() const;
};

inline void GenerationConfig::validate() const {
  sampling.validate();
  if (max_new_tokens < 0) {
    throw_error<UsageError>("generation: max_new_tokens is " + std::to_string(max_new_tokens) +
                            ", expected a whole number >= 0");
  }
  if (context < 0) {
    throw_error<UsageError>("generation: context is " + std::to_string(context) +
                            ", expected a whole number >= 1, or 0 (the model's own)");
  }
  for (const TokenId id : eos_token_id) {
    if (id >= 0) continue;
    throw_error<UsageError>("generation: eos_token_id contains " + std::to_string(id) +
                            ", expected ids >= 0");
  }
  for (const std::string& stop_string : stop_strings) {
    if (stop_string.empty()) throw_error<UsageError>("generation: a stop string is empty");
    if (!is_utf8(stop_string)) {
      throw_error<UsageError>("generation: the stop string \"" + escaped_bytes(stop_string) +
                              "\" is not well-formed UTF-8");
    }
  }
}

// The number of positions a text may have. Throws UsageError where more is asked than the model knows
// positions.
inline Index context_length(const GenerationConfig& config, Index max_position_embeddings) {
  if (config.context > max_position_embeddings) {
    throw_error<UsageError>("generation: context is " + std::to_string(config.context) +
                            ", more than the model's max_position_embeddings " +
                            std::to_string(max_position_embeddings));
  }
  return config.context == 0 ? max_position_embeddings : config.context;
}

}  // namespace glassbox
