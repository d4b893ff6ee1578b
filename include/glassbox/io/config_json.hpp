// config.json: the configuration of a Hugging Face checkpoint, read so that nothing happens in silence. Each
// default that was assumed and each key that was not used is told; what the library does not do is refused.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "glassbox/config.hpp"
#include "glassbox/io/checkpoint_report.hpp"
#include "glassbox/io/json.hpp"

namespace glassbox {

// A configuration with what was understood on the way to it.
struct LoadedConfig {
  ModelConfig config;
  std::string path;
  std::vector<std::string> assumptions;  // a sentence for each default
  std::vector<IgnoredKey> ignored_keys;
};

struct KeyReason {
  const char* key;
  const char* reason;
};

// Keys that do not change what the model computes.
inline constexpr std::array<KeyReason, 38> harmless_config_keys{{
    {"_name_or_path", "where the checkpoint came from"},
    {"_attn_implementation", "how to compute, not what"},
    {"_attn_implementation_autoset", "how to compute, not what"},
    {"_commit_hash", "where the checkpoint came from"},
    {"attention_dropout", "only while training"},
    {"auto_map", "names Python code; this library computes LlamaForCausalLM"},
    {"chunk_size_feed_forward", "how to compute, not what"},
    {"dtype", "each tensor's type is read from its file"},
    {"embd_pdrop", "only while training"},
    {"finetuning_task", "where the checkpoint came from"},
    {"hidden_dropout", "only while training"},
    {"id2label", "only for classification"},
    {"initializer_range", "only while training"},
    {"is_decoder", "what LlamaForCausalLM is anyway"},
    {"keys_to_ignore_at_inference", "only for the Python trainer"},
    {"label2id", "only for classification"},
    {"max_length", "a default of old generation settings"},
    {"max_sequence_length", "max_position_embeddings says it"},
    {"max_window_layers", "only with use_sliding_window"},
    {"output_attentions", "what Python returns"},
    {"output_hidden_states", "what Python returns"},
    {"output_router_logits", "what Python returns"},
    {"pretraining_tp", "splits the same products among processes"},
    {"problem_type", "only for classification"},
    {"resid_pdrop", "only while training"},
    {"return_dict", "what Python returns"},
    {"return_dict_in_generate", "what Python returns"},
    {"task_specific_params", "only for other tasks"},
    {"tie_encoder_decoder", "there is no encoder"},
    {"tokenizer_class", "the tokenizer's files say it"},
    {"torch_dtype", "each tensor's type is read from its file"},
    {"torchscript", "how to compute, not what"},
    {"transformers_version", "where the checkpoint came from"},
    {"unsloth_fixed", "where the checkpoint came from"},
    {"unsloth_version", "where the checkpoint came from"},
    {"use_bfloat16", "each tensor's type is read from its file"},
    {"use_cache", "how to compute, not what"},
    {"use_mambapy", "how to compute, not what"},
}};

// Keys that change what the model computes, in ways this library does not compute. `neutral` is the value,
// besides null, that changes nothing.
struct RefusedKey {
  const char* key;
  const char* neutral;
  const char* meaning;
};

inline constexpr std::array<RefusedKey, 53> refused_config_keys{{
    {"add_cross_attention", "false", "attention to an encoder"},
    {"alibi", "false", "positions by a bias instead of rotation"},
    {"attention_multiplier", "null", "another scale of the scores"},
    {"attention_out_bias", "false", "a bias after attention"},
    {"attn_logit_softcapping", "null", "scores capped by tanh"},
    {"bias", "false", "biases in every projection"},
    {"clip_qkv", "null", "clipped projections"},
    {"compression_config", "null", "compressed weights"},
    {"cross_attention_hidden_size", "null", "attention to an encoder"},
    {"dim_model_base", "null", "scaled logits"},
    {"embedding_multiplier", "1", "scaled embeddings"},
    {"final_logit_softcapping", "null", "logits capped by tanh"},
    {"hidden_activation", "\"silu\"", "another activation"},
    {"is_encoder_decoder", "false", "an encoder"},
    {"layer_norm_eps", "null", "LayerNorm instead of RMSNorm"},
    {"layer_norm_epsilon", "null", "LayerNorm instead of RMSNorm"},
    {"logit_scale", "1", "scaled logits"},
    {"logit_softcap", "null", "logits capped by tanh"},
    {"logits_scaling", "1", "scaled logits"},
    {"mlp_only_layers", "[]", "a mixture of experts"},
    {"n_routed_experts", "null", "a mixture of experts"},
    {"no_rope_layers", "[]", "layers without rotary positions"},
    {"norm_epsilon", "null", "another name of rms_norm_eps"},
    {"num_experts", "null", "a mixture of experts"},
    {"num_local_experts", "null", "a mixture of experts"},
    {"parallel_attn", "false", "attention and feed-forward side by side"},
    {"partial_rotary_factor", "1", "rotation of a part of each head"},
    {"pruned_heads", "{}", "heads taken out"},
    {"qk_layernorm", "false", "normalised queries and keys"},
    {"qk_norm", "false", "normalised queries and keys"},
    {"qkv_bias", "false", "biases of query, key and value"},
    {"quantization", "null", "quantised weights"},
    {"quantization_config", "null", "quantised weights"},
    {"query_pre_attn_scalar", "null", "another scale of the scores"},
    {"residual_multiplier", "1", "a scaled residual stream"},
    {"rms_norm_epsilon", "null", "another name of rms_norm_eps"},
    {"rope_base", "null", "another name of rope_theta"},
    {"rope_interleave", "false", "rotation of neighbouring pairs"},
    {"rope_interleaved", "false", "rotation of neighbouring pairs"},
    {"rope_percent", "1", "rotation of a part of each head"},
    {"rotary_dim", "null", "rotation of a part of each head"},
    {"rotary_emb_base", "null", "another name of rope_theta"},
    {"rotary_pct", "1", "rotation of a part of each head"},
    {"scale_depth", "null", "a scaled residual stream"},
    {"scale_emb", "1", "scaled embeddings"},
    {"sliding_window", "null", "attention to a window of positions"},
    {"sparse_attention", "null", "attention to some positions"},
    {"use_alibi", "false", "positions by a bias instead of rotation"},
    {"use_bias", "false", "biases in every projection"},
    {"use_parallel_residual", "false", "attention and feed-forward side by side"},
    {"use_qk_norm", "false", "normalised queries and keys"},
    {"use_rope", "true", "a model without rotary positions"},
    {"use_sliding_window", "false", "attention to a window of positions"},
}};

// Reads the keys of one config.json; a class only because every step needs the same four things.
class ConfigReader {
 public:
  explicit ConfigReader(const std::filesystem::path& path) : object_(path.string(), read_json(path)) {
    result_.path = path.string();
  }

  LoadedConfig read() {
    read_architecture();
    read_sizes();
    read_numbers();
    read_rope();
    read_flags();
    read_special_ids();
    refuse_others();
    list_ignored();
    for (const std::string& sentence : result_.config.fill_defaults()) assume(sentence);
    try {
      result_.config.validate();
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      throw_error<ConfigError>(object_.file() + ": " +
                               (text.starts_with("config: ") ? text.substr(8) : text));
    }
    return std::move(result_);
  }

 private:
  JsonObject object_;
  LoadedConfig result_;

  void assume(const std::string& sentence) { result_.assumptions.push_back(sentence); }
  void ignore(const std::string& key, const std::string& reason) {
    result_.ignored_keys.push_back({object_.file(), key, json_text(*object_.find(key)), reason});
  }

  // The text of an error about a value that is legal elsewhere: which key, which value, what would do.
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) {
    object_.throw_value(key, expected);
  }

  void read_architecture() {
    if (object_.is_absent_or_null("model_type")) {
      assume("model_type = \"llama\"");
    } else if (object_.string("model_type") != "llama") {
      refuse("model_type", "\"llama\": other families are not read");
    }
    if (object_.is_absent_or_null("architectures")) {
      assume("architectures = [\"LlamaForCausalLM\"]");
      return;
    }
    if (*object_.find("architectures") != Json::array({"LlamaForCausalLM"})) {
      refuse("architectures", "[\"LlamaForCausalLM\"]: other architectures are not read");
    }
  }

  Index size(const std::string& key) { return object_.whole_number(key, 1, 2147483647); }

  void read_sizes() {
    ModelConfig& config = result_.config;
    config.vocab_size = size("vocab_size");
    config.hidden_size = size("hidden_size");
    config.intermediate_size = size("intermediate_size");
    config.num_hidden_layers = size("num_hidden_layers");
    config.num_attention_heads = size("num_attention_heads");
    // Absent and null mean the same: what follows from the others (ModelConfig::fill_defaults says it).
    if (!object_.is_absent_or_null("num_key_value_heads")) {
      config.num_key_value_heads = size("num_key_value_heads");
    }
    if (!object_.is_absent_or_null("head_dim")) config.head_dim = size("head_dim");
    if (object_.is_absent("max_position_embeddings")) {
      config.max_position_embeddings = 2048;
      assume("max_position_embeddings = 2048");
    } else {
      config.max_position_embeddings = size("max_position_embeddings");
    }
  }

  double eps() {
    const std::string expected = "a number from 0 to 1";
    const double value = object_.number("rms_norm_eps", 0, expected);
    if (value > 1) object_.throw_value("rms_norm_eps", expected);
    return value;
  }

  void read_numbers() {
    ModelConfig& config = result_.config;
    if (object_.is_absent("rms_norm_eps")) {
      assume("rms_norm_eps = 1e-06");
    } else {
      config.rms_norm_eps = eps();
    }
    if (object_.is_absent("hidden_act")) {
      assume("hidden_act = \"silu\"");
    } else if (object_.string("hidden_act") == "swish") {
      assume("hidden_act \"swish\" is another name of \"silu\"");
    } else if (object_.string("hidden_act") != "silu") {
      refuse("hidden_act", "\"silu\": other activations are not computed");
    }
  }

  double theta(JsonObject& object) {
    const double value = object.number("rope_theta", 0, "a number > 0");
    if (!(value > 0)) object.throw_value("rope_theta", "a number > 0");
    return value;
  }

  // "rope_type" and its older name "type" inside rope_scaling or rope_parameters.
  void require_default_rope(JsonObject& rope) {
    for (const char* key : {"rope_type", "type"}) {
      if (rope.is_absent_or_null(key)) continue;
      if (rope.string(key) != "default") {
        rope.throw_value(key, "\"default\": scaled rotary positions are not computed");
      }
    }
  }

  void list_unread(const JsonObject& inner, const std::string& key) {
    for (const std::string& unread : inner.unread_keys()) {
      result_.ignored_keys.push_back({object_.file(), key + "." + unread, json_text(inner.value()[unread]),
                                      "has no meaning for rope_type \"default\""});
    }
  }

  // rope_theta stands at the top, or (Transformers 5) inside rope_parameters.
  void read_rope() {
    bool found = !object_.is_absent_or_null("rope_theta");
    if (found) result_.config.rope_theta = theta(object_);
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      if (object_.is_absent_or_null(key)) continue;
      JsonObject parameters(object_.file(), *object_.find(key), key);
      const bool untyped = parameters.is_absent_or_null("rope_type") && parameters.is_absent_or_null("type");
      if (untyped && key == std::string("rope_scaling")) parameters.throw_value("rope_type", "\"default\"");
      require_default_rope(parameters);
      if (!parameters.is_absent_or_null("partial_rotary_factor") &&
          *parameters.find("partial_rotary_factor") != Json(1)) {
        parameters.throw_value("partial_rotary_factor", "1: rotation of a part of each head is not computed");
      }
      if (!parameters.is_absent_or_null("rope_theta")) {
        const double inner_theta = theta(parameters);
        if (found && inner_theta != result_.config.rope_theta) {
          parameters.throw_value("rope_theta", "the same as the other rope_theta of this file");
        }
        result_.config.rope_theta = inner_theta;
        found = true;
      }
      list_unread(parameters, key);
    }
    if (!found) assume("rope_theta = 10000");
  }

  bool flag(const std::string& key) {
    if (!object_.is_absent_or_null(key)) return object_.boolean(key);
    assume(key + " = false");
    return false;
  }

  void read_flags() {
    result_.config.tie_word_embeddings = flag("tie_word_embeddings");
    result_.config.attention_bias = flag("attention_bias");
    result_.config.mlp_bias = flag("mlp_bias");
  }

  // Null and -1 both say that there is none; absent is transformers' default, where the vocabulary has it.
  TokenId special_id(const std::string& key, TokenId absent) {
    if (object_.is_absent(key) && (absent < 0 || absent >= result_.config.vocab_size)) return -1;
    if (object_.is_absent(key)) {
      assume(key + " = " + std::to_string(absent));
      return absent;
    }
    return object_.is_null(key) ? -1 : object_.whole_number(key, -1, result_.config.vocab_size - 1);
  }

  void read_special_ids();

  void refuse_others() {
    for (const RefusedKey& refused : refused_config_keys) {
      if (object_.is_absent_or_null(refused.key)) continue;
      const std::string neutral = refused.neutral;
      if (*object_.find(refused.key) == Json::parse(neutral)) continue;
      const std::string alternative = neutral == "null" ? "null" : "null or " + neutral;
      refuse(refused.key, alternative + " (not computed here: " + refused.meaning + ")");
    }
    if (object_.is_absent_or_null("layer_types")) return;
    const Json& layer_types = *object_.find("layer_types");
    bool all_full = layer_types.is_array();
    for (const Json& type : layer_types) all_full = all_full && type == "full_attention";
    if (!all_full) refuse("layer_types", "\"full_attention\" in every layer");
  }

  void list_ignored() {
    for (const RefusedKey& refused : refused_config_keys) {
      if (!object_.is_absent(refused.key)) ignore(refused.key, "has the value that changes nothing");
    }
    if (!object_.is_absent("layer_types")) ignore("layer_types", "has the value that changes nothing");
    for (const KeyReason& harmless : harmless_config_keys) {
      if (!object_.is_absent(harmless.key)) ignore(harmless.key, harmless.reason);
    }
    for (const std::string& key : object_.unread_keys()) ignore(key, unknown_key_reason);
  }
};

// One id, a list of ids, or null for none: eos_token_id in config.json and generation_config.json.
inline std::vector<TokenId> read_id_list(JsonObject& object, const std::string& key, Index vocab_size) {
  const Json& value = *object.find(key);
  std::vector<TokenId> ids;
  if (value.is_null()) return ids;
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& item : list) {
    const bool whole = item.is_number_integer();
    const bool fits = whole && (item.is_number_unsigned()
                                    ? item.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size)
                                    : item.get<std::int64_t>() == -1);
    if (!fits) {
      object.throw_value(key, "an id from 0 to " + std::to_string(vocab_size - 1) +
                                  " (below vocab_size), a list of such ids, or null");
    }
    if (item.get<std::int64_t>() >= 0) ids.push_back(item.get<std::int64_t>());
  }
  return ids;
}

inline void ConfigReader::read_special_ids() {
  ModelConfig& config = result_.config;
  config.bos_token_id = special_id("bos_token_id", 1);
  config.pad_token_id = special_id("pad_token_id", -1);
  if (!object_.is_absent("eos_token_id")) {
    config.eos_token_id = read_id_list(object_, "eos_token_id", config.vocab_size);
  } else if (special_id("eos_token_id", 2) == 2) {
    config.eos_token_id = {2};
  }
}

inline LoadedConfig read_config_json(const std::filesystem::path& path) { return ConfigReader(path).read(); }

}  // namespace glassbox
