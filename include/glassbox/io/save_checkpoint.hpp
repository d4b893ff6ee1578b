// Saving a model as a Hugging Face folder, which io/checkpoint.hpp and Transformers read.
//
//   save_huggingface_folder("models/mine", causal_lm, generation_config);
//   copy_tokenizer_files("models/fables", "models/mine");
//   Python: LlamaForCausalLM.from_pretrained("models/mine")
#pragma once

#include <concepts>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/generation_config.hpp"
#include "glassbox/io/save_safetensors.hpp"
#include "glassbox/io/weight_list.hpp"

namespace glassbox {

// The weights of a model under the checkpoint's names, each as it will stand in the file: float as F32,
// double as F64. Those stored in another type are widened into a copy, exactly (an F64 weight in a model of
// floats is rounded, as its arithmetic does at each use); the others are not copied, so the model must stay.
// Throws ConfigError where the weights are not those that the configuration implies, since nobody could load
// them again.
template <std::floating_point Scalar>
class WeightsToSave {
 public:
  explicit WeightsToSave(const CausalLM<Scalar>& causal_lm) {
    const ModelConfig& config = causal_lm.config;
    for (const WeightSpec& spec : outer_weights(config)) expected_[spec.name] = spec;
    for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
      for (const WeightSpec& spec : layer_weights(config, layer)) expected_[spec.name] = spec;
    }
    add(embed_tokens_name, causal_lm.model.embed_tokens.weight);
    for (std::size_t i = 0; i < causal_lm.model.layers.size(); ++i) {
      add(layer_prefix(static_cast<Index>(i)), causal_lm.model.layers[i]);
    }
    add(norm_name, causal_lm.model.norm.weight);
    if (!causal_lm.lm_head.weight.empty()) add(lm_head_name, causal_lm.lm_head.weight);
    if (expected_.empty()) return;
    throw_weight(expected_.begin()->first, "is missing, but config has it");
  }
  WeightsToSave(const WeightsToSave&) = delete;
  WeightsToSave& operator=(const WeightsToSave&) = delete;

  const std::vector<TensorToSave>& tensors() const { return tensors_; }

 private:
  std::map<std::string, WeightSpec> expected_;  // those that have not been added yet
  std::vector<TensorToSave> tensors_;
  std::vector<Tensor<Scalar>> copies_;

  [[noreturn]] static void throw_weight(const std::string& name, const std::string& problem) {
    throw_error<ConfigError>("save_huggingface_folder: " + name + " " + problem);
  }

  void check(const std::string& name, const std::vector<Index>& shape) {
    const std::map<std::string, WeightSpec>::const_iterator found = expected_.find(name);
    if (found == expected_.end()) throw_weight(name, sizes_string(shape) + " is there, but config has none");
    const WeightSpec& spec = found->second;
    if (shape != spec.shape()) {
      throw_weight(name, "is " + sizes_string(shape) + ", expected " + sizes_string(spec.shape()) + " = " +
                             spec.keys + " of config");
    }
    expected_.erase(found);
  }

  void add(const std::string& name, const Tensor<Scalar>& vector) {
    std::vector<Index> shape;
    for (int i = 0; i < vector.rank(); ++i) shape.push_back(vector.dim(i));
    check(name, shape);
    tensors_.push_back(tensor_to_save(name, shape, vector.data(), vector.size()));
  }

  void add(const std::string& name, const WeightMatrix& weight) {
    if (weight.empty()) throw_weight(name, "is empty");
    const std::vector<Index> shape = {weight.out.size, weight.in.size};
    check(name, shape);
    const Index count = weight.out.size * weight.in.size;
    if (weight.type == WeightMatrix::stored_type_of<Scalar>()) {
      tensors_.push_back(tensor_to_save(name, shape, weight.values<Scalar>(), count));
      return;
    }
    Tensor<Scalar> copy({weight.out, weight.in});
    for (Index o = 0; o < weight.out.size; ++o) weight.read_row(o, copy.row(o));
    tensors_.push_back(tensor_to_save(name, shape, copy.data(), count));
    copies_.push_back(std::move(copy));  // its numbers stay where they are
  }

  void add(const std::string& name, const Linear<Scalar>& linear) {
    add(name + ".weight", linear.weight);
    if (linear.bias.rank() > 0) add(name + ".bias", linear.bias);
  }

  void add(const std::string& prefix, const DecoderLayer<Scalar>& layer) {
    add(prefix + "input_layernorm.weight", layer.input_layernorm.weight);
    add(prefix + "self_attn.q_proj", layer.self_attn.q_proj);
    add(prefix + "self_attn.k_proj", layer.self_attn.k_proj);
    add(prefix + "self_attn.v_proj", layer.self_attn.v_proj);
    add(prefix + "self_attn.o_proj", layer.self_attn.o_proj);
    add(prefix + "post_attention_layernorm.weight", layer.post_attention_layernorm.weight);
    add(prefix + "mlp.gate_proj", layer.mlp.gate_proj);
    add(prefix + "mlp.up_proj", layer.mlp.up_proj);
    add(prefix + "mlp.down_proj", layer.mlp.down_proj);
  }
};

// One id as a number, several as a list, none as null, which is not the same as leaving the key out.
inline nlohmann::ordered_json ids_json(const std::vector<TokenId>& ids) {
  if (ids.empty()) return nullptr;
  if (ids.size() == 1) return ids[0];
  return ids;
}

inline nlohmann::ordered_json id_json(TokenId id) {
  return ids_json(id < 0 ? std::vector<TokenId>{} : std::vector<TokenId>{id});
}

// config.json. Every key that io/config_json.hpp has a default for is written out; doubles have as many
// digits as it takes to read the same number again. `torch_dtype`: float32 or float64, what Python computes
// in. Throws ConfigError for a configuration that contradicts itself or is not a Llama's.
inline std::string config_json_text(const ModelConfig& config, const std::string& torch_dtype) {
  config.validate();
  if (config.model_type != "llama") {
    throw_error<ConfigError>("config_json_text: model_type is \"" + config.model_type +
                             "\", expected \"llama\": other families are not saved");
  }
  nlohmann::ordered_json json;
  json["architectures"] = std::vector<std::string>{"LlamaForCausalLM"};
  json["model_type"] = config.model_type;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_key_value_heads"] = config.num_key_value_heads;
  json["head_dim"] = config.head_dim;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["rope_theta"] = config.rope_theta;
  json["hidden_act"] = config.hidden_act;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["attention_bias"] = config.attention_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["bos_token_id"] = id_json(config.bos_token_id);
  json["eos_token_id"] = ids_json(config.eos_token_id);
  json["pad_token_id"] = id_json(config.pad_token_id);
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

// Throws UsageError for settings that could not be read again.
inline void check_generation_to_save(const GenerationConfig& generation_config, Index vocab_size) {
  generation_config.validate();
  const Index max_new_tokens = generation_config.max_new_tokens;
  if (max_new_tokens < 1 || max_new_tokens > 2147483647) {
    throw_error<UsageError>("generation_config_json_text: max_new_tokens is " +
                            std::to_string(max_new_tokens) +
                            ", expected a whole number from 1 to 2147483647");
  }
  for (const TokenId id : generation_config.eos_token_id) {
    if (id < vocab_size) continue;
    throw_error<UsageError>("generation_config_json_text: eos_token_id " + std::to_string(id) +
                            " is not below vocab_size " + std::to_string(vocab_size));
  }
}

// generation_config.json. temperature 0 is do_sample false, without the settings that have no meaning then.
// seed and context are of one generation, not of the model, and are not written.
inline std::string generation_config_json_text(const GenerationConfig& generation_config,
                                               const ModelConfig& config) {
  check_generation_to_save(generation_config, config.vocab_size);
  const SamplingConfig& sampling = generation_config.sampling;
  nlohmann::ordered_json json;
  json["bos_token_id"] = id_json(config.bos_token_id);
  json["eos_token_id"] = ids_json(generation_config.eos_token_id);
  json["pad_token_id"] = id_json(config.pad_token_id);
  json["do_sample"] = sampling.temperature > 0;
  if (sampling.temperature > 0) {
    json["temperature"] = sampling.temperature;
    json["top_k"] = sampling.top_k;  // always: without it, Transformers takes 50
    json["top_p"] = sampling.top_p;
    if (sampling.min_p > 0) json["min_p"] = sampling.min_p;
  }
  if (sampling.repetition_penalty != 1) json["repetition_penalty"] = sampling.repetition_penalty;
  if (sampling.no_repeat_ngram_size > 0) json["no_repeat_ngram_size"] = sampling.no_repeat_ngram_size;
  json["max_new_tokens"] = generation_config.max_new_tokens;
  if (!generation_config.stop_strings.empty()) json["stop_strings"] = generation_config.stop_strings;
  return json.dump(2) + "\n";
}

// Makes a folder, and those it lies in, unless it is there.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && is_folder(folder)) return;
  throw_error<FormatError>(folder.string() + ": the folder cannot be made: " +
                           (error ? error.message() : std::string("a file is in its place")));
}

// Writes config.json, generation_config.json and model.safetensors into a folder, which is made if need be.
// All three are complete on the disk before the first takes the place of an old one, so that a full disk
// leaves the old model whole; only a crash between the three last steps could leave a mixture. Throws
// ConfigError or UsageError, before anything is written, for a model that could not be loaded again;
// FormatError naming file and reason where the system refuses.
template <std::floating_point Scalar>
void save_huggingface_folder(const std::filesystem::path& folder, const CausalLM<Scalar>& causal_lm,
                             const GenerationConfig& generation_config) {
  const std::string config_text =
      config_json_text(causal_lm.config, sizeof(Scalar) == 4 ? "float32" : "float64");
  const std::string generation_text = generation_config_json_text(generation_config, causal_lm.config);
  const WeightsToSave<Scalar> weights(causal_lm);
  const std::string header = safetensors_header("save_huggingface_folder: " + folder.string(),
                                                weights.tensors(), {{"format", "pt"}});
  make_folder(folder);
  ReplacementFile weights_file(folder / "model.safetensors");
  ReplacementFile generation_file(folder / "generation_config.json");
  ReplacementFile config_file(folder / "config.json");
  write_safetensors(weights_file, header, weights.tensors());
  generation_file.write(generation_text);
  config_file.write(config_text);
  weights_file.finish();
  generation_file.finish();
  config_file.finish();
  weights_file.replace();
  generation_file.replace();
  config_file.replace();  // the last: a new folder without it is not taken for a checkpoint
}

// Copies what a tokenizer consists of from a model's folder to another, which is made if need be.
// Returns the names of the files that were there. Throws FormatError naming the file that cannot be read or
// written.
inline std::vector<std::string> copy_tokenizer_files(const std::filesystem::path& from,
                                                     const std::filesystem::path& to) {
  if (!is_folder(from)) throw_error<FormatError>(from.string() + ": no such folder");
  make_folder(to);
  std::vector<std::string> copied;
  for (const char* name :
       {"tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja"}) {
    if (!path_exists(from / name)) continue;
    const MappedFile original(from / name);
    ReplacementFile copy(to / name);
    copy.write(original.text(0, original.size()));
    copy.replace();
    copied.push_back(name);
  }
  return copied;
}

}  // namespace glassbox
