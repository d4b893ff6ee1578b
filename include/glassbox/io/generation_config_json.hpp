// generation_config.json: how the authors of a model want it to be sampled.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "glassbox/generation_config.hpp"
#include "glassbox/io/config_json.hpp"

namespace glassbox {

// The settings with what was understood on the way to them.
struct LoadedGenerationConfig {
  GenerationConfig generation_config;
  std::vector<std::string> assumptions;
  std::vector<IgnoredKey> ignored_keys;
};

// Settings of transformers that choose tokens in ways this library does not have. `neutral` is the value,
// besides null, that changes nothing.
inline constexpr std::array<KeyReason, 22> other_generation_keys{{
    {"bad_words_ids", "null"},
    {"begin_suppress_tokens", "null"},
    {"constraints", "null"},
    {"diversity_penalty", "0"},
    {"dola_layers", "null"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"encoder_repetition_penalty", "1"},
    {"epsilon_cutoff", "0"},
    {"eta_cutoff", "0"},
    {"exponential_decay_length_penalty", "null"},
    {"force_words_ids", "null"},
    {"forced_bos_token_id", "null"},
    {"forced_eos_token_id", "null"},
    {"guidance_scale", "1"},
    {"min_length", "0"},
    {"min_new_tokens", "null"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"penalty_alpha", "null"},
    {"sequence_bias", "null"},
    {"suppress_tokens", "null"},
    {"typical_p", "1"},
}};

inline constexpr std::array<KeyReason, 8> harmless_generation_keys{{
    {"_from_model_config", "where the file came from"},
    {"early_stopping", "only for beam search"},
    {"length_penalty", "only for beam search"},
    {"max_length", "counts the prompt too; the context of the model is the limit here"},
    {"pad_token_id", "config.json says it"},
    {"return_dict_in_generate", "what Python returns"},
    {"transformers_version", "where the checkpoint came from"},
    {"use_cache", "how to compute, not what"},
}};

class GenerationConfigReader {
 public:
  GenerationConfigReader(const std::filesystem::path& path, const ModelConfig& config)
      : object_(path.string(), read_json(path)), config_(config) {}

  LoadedGenerationConfig read() {
    read_sampling();
    read_limits();
    read_eos();
    compare_bos();
    list_ignored();
    return std::move(result_);
  }

 private:
  JsonObject object_;
  const ModelConfig& config_;
  LoadedGenerationConfig result_;

  void assume(const std::string& sentence) { result_.assumptions.push_back(sentence); }
  void ignore(const std::string& key, const std::string& reason) {
    result_.ignored_keys.push_back({object_.file(), key, json_text(*object_.find(key)), reason});
  }

  // The value of a setting, within the range that sampling_config.hpp gives it; `otherwise` where the file
  // does not set it.
  double setting(const SettingRange& range, double otherwise) {
    if (object_.is_absent_or_null(range.name)) return otherwise;
    const double value = object_.number(range.name, std::numeric_limits<double>::lowest(), range.expected);
    const bool fits = (value >= range.smallest && value <= range.largest) || (range.or_zero && value == 0);
    if (!fits) object_.throw_value(range.name, range.expected);
    return value;
  }

  Index whole_setting(const SettingRange& range, Index otherwise) {
    if (object_.is_absent_or_null(range.name)) return otherwise;
    return object_.whole_number(range.name, 0, static_cast<Index>(range.largest));
  }

  void read_sampling() {
    SamplingConfig& sampling = result_.generation_config.sampling;
    sampling.repetition_penalty = setting(repetition_penalty_range, 1);
    sampling.no_repeat_ngram_size = whole_setting(no_repeat_ngram_size_range, 0);
    // Read in any case, so that a wrong value is an error even where it is not used.
    const double temperature = setting(temperature_range, 1);
    const Index top_k = whole_setting(top_k_range, 50);  // transformers' default
    const double top_p = setting(top_p_range, 1);
    const double min_p = setting(min_p_range, 0);
    const bool do_sample = !object_.is_absent_or_null("do_sample") && object_.boolean("do_sample");
    if (!do_sample) {
      assume_greedy();
      return;
    }
    sampling.temperature = temperature;
    sampling.top_k = top_k;
    sampling.top_p = top_p;
    sampling.min_p = min_p;
    if (temperature == 0) assume("has do_sample true and temperature 0, which is greedy");
    if (object_.is_absent_or_null("temperature")) assume("has no temperature, so 1 (do_sample is true)");
    if (object_.is_absent_or_null("top_k")) assume("has no top_k, so 50 (do_sample is true)");
  }

  void assume_greedy() {
    if (object_.is_absent_or_null("do_sample")) assume("has no do_sample, so greedy");
    for (const char* key : {"temperature", "top_k", "top_p", "min_p"}) {
      if (!object_.is_absent_or_null(key)) ignore(key, "only with do_sample true");
    }
  }

  void read_limits() {
    if (!object_.is_absent_or_null("max_new_tokens")) {
      result_.generation_config.max_new_tokens = object_.whole_number("max_new_tokens", 1, 2147483647);
    }
    if (object_.is_absent_or_null("stop_strings")) return;
    const Json& stops = *object_.find("stop_strings");
    const Json list = stops.is_array() ? stops : Json::array({stops});
    for (const Json& stop : list) {
      if (!stop.is_string() || stop.get<std::string>().empty()) {
        object_.throw_value("stop_strings", "a text or a list of texts, none empty");
      }
      result_.generation_config.stop_strings.push_back(stop.get<std::string>());
    }
  }

  // This file wins over config.json, which speaks only where this one does not have the key.
  void read_eos() {
    if (object_.is_absent("eos_token_id")) {
      result_.generation_config.eos_token_id = config_.eos_token_id;
      assume("has no eos_token_id, so that of config.json");
      return;
    }
    result_.generation_config.eos_token_id = read_id_list(object_, "eos_token_id", config_.vocab_size);
  }

  // What begins a text is the tokenizer's choice. The same id as in config.json confirms it; another one is
  // told.
  void compare_bos() {
    if (object_.is_absent_or_null("bos_token_id")) return;
    if (*object_.find("bos_token_id") == Json(config_.bos_token_id)) return;
    const std::string id = config_.bos_token_id < 0 ? "none" : std::to_string(config_.bos_token_id);
    ignore("bos_token_id", std::string(not_honoured) + ": it is " + id +
                               " by config.json, and the tokenizer says what begins a text");
  }

  void list_ignored() {
    for (const KeyReason& other : other_generation_keys) {
      if (object_.is_absent(other.key)) continue;
      const bool neutral =
          object_.is_null(other.key) || *object_.find(other.key) == Json::parse(other.reason);
      ignore(other.key,
             neutral ? std::string("has the value that changes nothing")
                     : std::string(not_honoured) + ": this library does not choose tokens in this way");
    }
    for (const KeyReason& harmless : harmless_generation_keys) {
      if (!object_.is_absent(harmless.key)) ignore(harmless.key, harmless.reason);
    }
    for (const std::string& key : object_.unread_keys()) ignore(key, unknown_key_reason);
  }
};

// Throws ConfigError for a value that is out of range, FormatError for a file that is not JSON.
inline LoadedGenerationConfig read_generation_config_json(const std::filesystem::path& path,
                                                          const ModelConfig& config) {
  return GenerationConfigReader(path, config).read();
}

}  // namespace glassbox
