// ModelConfig: the shape of a model, under the keys of Hugging Face's config.json.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "glassbox/tensor.hpp"

namespace glassbox {

// Source: transformers LlamaConfig. Fields that config.json may leave out hold what follows from the others
// once fill_defaults() has run; io/config_json.hpp reads the file.
struct ModelConfig {
  std::string model_type = "llama";
  Index vocab_size = 0;
  Index hidden_size = 0;              // width of the residual stream
  Index intermediate_size = 0;        // width inside the feed-forward
  Index num_hidden_layers = 0;        // decoder layers
  Index num_attention_heads = 0;      // query heads
  Index num_key_value_heads = 0;      // key and value heads; 0: as many as query heads
  Index head_dim = 0;                 // width of one head; 0: hidden_size / num_attention_heads
  Index max_position_embeddings = 0;  // the context: no position at or beyond it
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;           // logits by the embedding matrix, no lm_head of its own
  bool attention_bias = false;                // biases in q_proj, k_proj, v_proj and o_proj
  bool mlp_bias = false;                      // biases in gate_proj, up_proj and down_proj
  std::string attn_implementation = "eager";  // every matrix of the attention exists and can be looked at
  TokenId bos_token_id = -1;                  // -1: none
  std::vector<TokenId> eos_token_id;          // any of these ends a text; empty: none does
  TokenId pad_token_id = -1;                  // -1: none

  // Query heads that share one key/value head: 1 is multi-head attention, more is grouped-query.
  Index num_key_value_groups() const { return num_attention_heads / num_key_value_heads; }

  // Puts what follows from the other fields into those that are 0. Returns a sentence for each.
  std::vector<std::string> fill_defaults();

  // Throws ConfigError naming the first key that contradicts the others or is out of range.
  void validate() const;
};

inline std::vector<std::string> ModelConfig::fill_defaults() {
  std::vector<std::string> assumed;
  if (num_key_value_heads == 0) {
    num_key_value_heads = num_attention_heads;
    assumed.push_back("num_key_value_heads = num_attention_heads = " + std::to_string(num_key_value_heads));
  }
  if (head_dim == 0 && num_attention_heads > 0) {
    head_dim = hidden_size / num_attention_heads;
    assumed.push_back("head_dim = hidden_size / num_attention_heads = " + std::to_string(head_dim));
  }
  return assumed;
}

// Throws ConfigError unless 1 <= value <= 2^31 - 1, so that products of a few sizes stay far from overflow.
inline void check_config_size(const char* key, Index value) {
  if (value >= 1 && value <= 2147483647) return;
  throw_error<ConfigError>("config: " + std::string(key) + " is " + std::to_string(value) +
                           ", expected a whole number from 1 to 2147483647");
}

// Throws ConfigError unless a special id is none (-1) or within the vocabulary.
inline void check_config_id(const char* key, TokenId id, Index vocab_size) {
  if (id >= -1 && id < vocab_size) return;
  throw_error<ConfigError>("config: " + std::string(key) + " " + std::to_string(id) + " is not in 0.." +
                           std::to_string(vocab_size - 1) + " (vocab_size " + std::to_string(vocab_size) +
                           "), nor -1 (none)");
}

inline void ModelConfig::validate() const {
  check_config_size("vocab_size", vocab_size);
  check_config_size("hidden_size", hidden_size);
  check_config_size("intermediate_size", intermediate_size);
  check_config_size("num_hidden_layers", num_hidden_layers);
  check_config_size("num_attention_heads", num_attention_heads);
  check_config_size("num_key_value_heads", num_key_value_heads);
  check_config_size("head_dim", head_dim);
  check_config_size("max_position_embeddings", max_position_embeddings);
  if (num_attention_heads % num_key_value_heads != 0) {
    throw_error<ConfigError>("config: num_attention_heads " + std::to_string(num_attention_heads) +
                             " is not a multiple of num_key_value_heads " +
                             std::to_string(num_key_value_heads));
  }
  if (head_dim % 2 != 0) {
    throw_error<ConfigError>("config: head_dim " + std::to_string(head_dim) +
                             " is odd, but rotary position embedding rotates pairs");
  }
  if (!(rms_norm_eps >= 0) || !std::isfinite(rms_norm_eps)) {
    throw_error<ConfigError>("config: rms_norm_eps is " + std::to_string(rms_norm_eps) +
                             ", expected a number >= 0");
  }
  if (!(rope_theta > 0) || !std::isfinite(rope_theta)) {
    throw_error<ConfigError>("config: rope_theta is " + std::to_string(rope_theta) +
                             ", expected a number > 0");
  }
  if (hidden_act != "silu") {
    throw_error<ConfigError>("config: hidden_act \"" + hidden_act + "\" is not supported, expected \"silu\"");
  }
  if (attn_implementation != "eager") {
    throw_error<ConfigError>("config: attn_implementation \"" + attn_implementation +
                             "\" is not supported, expected \"eager\"");
  }
  check_config_id("bos_token_id", bos_token_id, vocab_size);
  check_config_id("pad_token_id", pad_token_id, vocab_size);
  for (const TokenId id : eos_token_id) check_config_id("eos_token_id", id, vocab_size);
}

}  // namespace glassbox
