// tokenizer_config.json: which tokens a model wants at the beginning and the end of a text.
#pragma once

#include "glassbox/io/json.hpp"
#include "glassbox/tokenizer.hpp"

namespace glassbox {

// A key that is true, false or null, which counts as false (as in Python).
inline bool flag_or_default(JsonObject& object, const std::string& key, bool default_value) {
  if (object.is_absent(key)) return default_value;
  return object.is_null(key) ? false : object.boolean(key);
}

// A token is its text or, as older files have it, an object whose "content" is its text; null: none.
inline std::optional<std::string> optional_token(JsonObject& object, const std::string& key) {
  if (object.is_absent(key)) return std::nullopt;
  if (object.is_null(key)) return "";
  const Json* value = object.find(key);
  std::string token;
  if (value->is_object()) {
    JsonObject inner(object.file(), *value, key);
    token = inner.string("content");
  } else {
    token = object.string(key);
  }
  if (token.find('\0') != std::string::npos) object.throw_value(key, "a token without a zero character");
  return token;
}

// Reads the keys that TokenizerConfig has; all others concern chat templates and Python. Throws ConfigError
// for values of the wrong type, and for add_prefix_space = false, which no SentencePiece model file can
// follow. Source: transformers LlamaTokenizer.
inline TokenizerConfig read_tokenizer_config(const std::filesystem::path& path) {
  const Json json = read_json(path);
  JsonObject object(path.string(), json);
  TokenizerConfig config;
  config.add_bos_token = flag_or_default(object, "add_bos_token", config.add_bos_token);
  config.add_eos_token = flag_or_default(object, "add_eos_token", config.add_eos_token);
  config.bos_token = optional_token(object, "bos_token");
  config.eos_token = optional_token(object, "eos_token");
  if (!object.is_absent_or_null("add_prefix_space") && !object.boolean("add_prefix_space")) {
    object.throw_value(
        "add_prefix_space",
        "true: whether a space is put in front is the model file's choice, not the configuration's");
  }
  return config;
}

}  // namespace glassbox
