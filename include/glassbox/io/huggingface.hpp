// Hugging Face folders: config.json, generation_config.json, model.safetensors or its shards.
// Every tensor of the files is accounted for: used, or listed with the reason why not; every weight of the
// model is there, in the right shape and type, or the folder is refused.
#pragma once

#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "glassbox/io/checkpoint_report.hpp"
#include "glassbox/io/generation_config_json.hpp"
#include "glassbox/io/safetensors.hpp"
#include "glassbox/io/weight_list.hpp"

namespace glassbox {

// The layer a tensor name belongs to; -1 where it belongs to none.
inline Index layer_number(const std::string& name) {
  const std::string prefix = "model.layers.";
  if (!name.starts_with(prefix)) return -1;
  Index number = -1;
  for (std::size_t i = prefix.size(); i < name.size() && name[i] != '.'; ++i) {
    if (name[i] < '0' || name[i] > '9' || number > 1'000'000'000'000) return -1;
    number = (number < 0 ? 0 : number * 10) + (name[i] - '0');
  }
  return number;
}

// Takes the weights of a folder's tensors, one after the other, and keeps the account.
class WeightCollector {
 public:
  WeightCollector(const std::filesystem::path& folder, SafetensorsFolder tensors,
                  StoredCheckpoint& checkpoint, OpenFor purpose)
      : tensors_(std::move(tensors)), checkpoint_(checkpoint), purpose_(purpose) {
    const std::filesystem::path single = folder / "model.safetensors";
    where_ = (path_exists(single) ? single : folder / "model.safetensors.index.json").string();
  }

  void collect() {
    const ModelConfig& config = checkpoint_.config;
    for (const WeightSpec& spec : outer_weights(config)) take(spec);
    // A wrong num_hidden_layers may be huge: stop when it is clear that the file does not have them.
    for (Index layer = 0; layer < config.num_hidden_layers && missing_.size() < 20; ++layer) {
      for (const WeightSpec& spec : layer_weights(config, layer)) take(spec);
    }
    if (!missing_.empty()) throw_missing();
    for (const std::pair<const std::string, SafetensorsFolder::Place>& item : tensors_.places) {
      if (checkpoint_.weights.count(item.first) == 0) list_unused(item.second, reason_unused(item.second));
    }
    for (const SafetensorsFolder::Place& place : tensors_.not_in_index) {
      list_unused(place, "model.safetensors.index.json does not name this file for it");
    }
  }

 private:
  SafetensorsFolder tensors_;
  StoredCheckpoint& checkpoint_;
  OpenFor purpose_;
  std::string where_;  // the file that a missing tensor is missing from
  std::vector<WeightSpec> missing_;

  const SafetensorsFile& file_of(SafetensorsFolder::Place place) const { return tensors_.files[place.file]; }
  const SafetensorsTensor& tensor_of(SafetensorsFolder::Place place) const {
    return file_of(place).tensors()[place.tensor];
  }

  [[noreturn]] static void throw_tensor(const SafetensorsFile& file, const std::string& name,
                                        const std::string& problem) {
    throw_error<FormatError>(file.name() + ": tensor " + name + " " + problem);
  }

  static StoredType stored_type(const SafetensorsFile& file, const SafetensorsTensor& tensor) {
    if (tensor.dtype == "F32") return StoredType::f32;
    if (tensor.dtype == "F64") return StoredType::f64;
    if (tensor.dtype == "F16") return StoredType::f16;
    if (tensor.dtype == "BF16") return StoredType::bf16;
    throw_tensor(file, tensor.name, "has dtype " + tensor.dtype + ", expected F32, F16, BF16 or F64");
  }

  ReportedTensor report_of(SafetensorsFolder::Place place) const {
    const SafetensorsTensor& tensor = tensor_of(place);
    return {tensor.name, tensor.dtype, tensor.shape, tensor.bytes, file_of(place).name(), "", "", false};
  }

  void take(const WeightSpec& spec) {
    const std::map<std::string, SafetensorsFolder::Place>::const_iterator found =
        tensors_.places.find(spec.name);
    if (found == tensors_.places.end()) {
      missing_.push_back(spec);
      return;
    }
    const SafetensorsFile& file = file_of(found->second);
    const SafetensorsTensor& tensor = tensor_of(found->second);
    if (tensor.shape != spec.shape()) {
      throw_tensor(file, spec.name,
                   "is " + sizes_string(tensor.shape) + ", expected " + sizes_string(spec.shape()) + " = " +
                       spec.keys + " of config.json");
    }
    const StoredType type = stored_type(file, tensor);
    checkpoint_.weights[spec.name] =
        borrow_weight(file.mapped(), file.data(tensor), type, spec.out, spec.in, purpose_);
    ReportedTensor reported = report_of(found->second);
    reported.copied = !is_aligned(file.data(tensor), type);
    const bool tied = spec.name == embed_tokens_name && checkpoint_.config.tie_word_embeddings;
    reported.used_as = member_path(spec.name) + (tied ? ", also in place of lm_head.weight (tied)" : "");
    checkpoint_.report.tensors.push_back(reported);
  }

  [[noreturn]] void throw_missing() const {
    const WeightSpec& first = missing_[0];
    std::string text = where_ + ": tensor " + first.name + " is missing, expected " +
                       sizes_string(first.shape()) + " = " + first.keys + " of config.json";
    if (first.name == lm_head_name) text += ", where tie_word_embeddings is not true";
    if (missing_.size() > 1) text += "; missing too:";
    for (std::size_t i = 1; i < missing_.size() && i < 20; ++i) {
      text += (i == 1 ? " " : ", ") + missing_[i].name;
    }
    if (missing_.size() >= 20) text += ", ...";
    throw_error<FormatError>(text);
  }

  // The same bytes under both names.
  bool equals_embedding(SafetensorsFolder::Place place) const {
    const SafetensorsTensor& tensor = tensor_of(place);
    const SafetensorsFolder::Place embed_place = tensors_.places.at(embed_tokens_name);
    const SafetensorsTensor& embedding = tensor_of(embed_place);
    return tensor.dtype == embedding.dtype && tensor.shape == embedding.shape &&
           std::memcmp(file_of(place).data(tensor), file_of(embed_place).data(embedding),
                       static_cast<std::size_t>(tensor.bytes)) == 0;
  }

  // Why no member takes a tensor. Throws where leaving it out would change what the model computes.
  std::string reason_unused(SafetensorsFolder::Place place) const {
    const std::string& name = tensor_of(place).name;
    const Index layer = layer_number(name);
    if (name == lm_head_name && equals_embedding(place)) {
      return "the same as model.embed_tokens.weight, which is used in its place (tie_word_embeddings)";
    }
    if (name == lm_head_name) {
      return "differs from model.embed_tokens.weight, but tie_word_embeddings is true: that one is used";
    }
    if (name.ends_with("rotary_emb.inv_freq")) return "a buffer: computed from rope_theta and head_dim";
    if (layer >= checkpoint_.config.num_hidden_layers) {
      return "layer " + std::to_string(layer) + " is not below num_hidden_layers " +
             std::to_string(checkpoint_.config.num_hidden_layers);
    }
    refuse_if_it_matters(place);
    return "no part of a Llama model has this name";
  }

  // A tensor below `model` or `lm_head` is part of what the model computes; whatever it does there, this
  // library does not do it.

  void refuse_if_it_matters(SafetensorsFolder::Place place) const {
    const std::string& name = tensor_of(place).name;
    const std::string suffix = ".bias";
    if (name.ends_with(suffix)) {
      const std::string module = name.substr(0, name.size() - suffix.size());
      if (checkpoint_.weights.count(module + ".weight") == 0 && module != "lm_head") return;
      const std::string key = name.find(".self_attn.") != std::string::npos ? "attention_bias is false"
                              : name.find(".mlp.") != std::string::npos     ? "mlp_bias is false"
                                                                            : "a Llama model has none there";
      throw_tensor(file_of(place), name, "is a bias, but " + key + ": without it the results would be wrong");
    }
    if (name.ends_with(".self_attn.q_norm.weight") || name.ends_with(".self_attn.k_norm.weight")) {
      throw_tensor(file_of(place), name,
                   "normalises queries or keys, which this library does not compute: without it the results "
                   "would be wrong");
    }
    if (name.starts_with("model.") || name.starts_with("lm_head.")) {
      throw_tensor(file_of(place), name,
                   "is part of the model, but of no part that this library computes: without it the results "
                   "would be wrong");
    }
  }

  void list_unused(SafetensorsFolder::Place place, const std::string& reason) {
    ReportedTensor reported = report_of(place);
    reported.unused_because = reason;
    checkpoint_.report.tensors.push_back(reported);
  }
};

// What a folder without a readable checkpoint seems to hold: advice, or nothing.
inline std::string folder_advice(const std::filesystem::path& folder) {
  const std::string save =
      "; with Python: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder) writes "
      "safetensors";
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (path_exists(folder / name)) {
      return std::string(name) + " holds Python pickles, which are not read" + save;
    }
  }
  if (path_exists(folder / "ckpt.pt")) {
    return "ckpt.pt is a nanoGPT checkpoint (a GPT-2 model in Python pickles), which is not read: take a "
           "Llama model";
  }
  if (path_exists(folder / "params.json")) {
    return "params.json belongs to Meta's own format, which is not read: convert it with transformers' "
           "convert_llama_weights_to_hf.py";
  }
  std::error_code no_throw;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(folder, no_throw)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf")) {
      return name + " is a GGUF file, which is not read: take the Hugging Face folder it was made from";
    }
  }
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(folder, no_throw)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".bin")) return "for a llama2.c model name the file itself: " + entry.path().string();
  }
  return "";
}

// Whether a folder has weights of the kind that is read.
inline bool has_safetensors(const std::filesystem::path& folder) {
  return path_exists(folder / "model.safetensors") || path_exists(folder / "model.safetensors.index.json");
}

// What is wrong with a folder that has no weights of that kind, with advice where there is some.
inline std::string no_weights_text(const std::filesystem::path& folder) {
  const std::string advice = folder_advice(folder);
  return folder.string() + ": has neither model.safetensors nor model.safetensors.index.json" +
         (advice.empty() ? "" : ": " + advice);
}

// config.json and, beside it, generation_config.json where there is one. No weights are needed.
inline ModelDescription describe_config_json(const std::filesystem::path& config_path) {
  LoadedConfig loaded = read_config_json(config_path);
  ModelDescription description;
  description.config = loaded.config;
  description.report.path = config_path.string();
  description.report.format = "Hugging Face config.json";
  description.report.files.push_back(config_path.string());
  description.report.assumptions = loaded.assumptions;
  description.report.ignored_keys = loaded.ignored_keys;
  const std::filesystem::path generation_path = config_path.parent_path() / "generation_config.json";
  if (!path_exists(generation_path)) {
    description.generation_config.eos_token_id = loaded.config.eos_token_id;
    description.report.assumptions.push_back(
        "no generation_config.json: greedy, eos_token_id of config.json");
    return description;
  }
  LoadedGenerationConfig generation = read_generation_config_json(generation_path, loaded.config);
  description.generation_config = generation.generation_config;
  description.report.files.push_back(generation_path.string());
  for (const std::string& sentence : generation.assumptions) {
    description.report.assumptions.push_back("generation_config.json: " + sentence);
  }
  for (const IgnoredKey& key : generation.ignored_keys) description.report.ignored_keys.push_back(key);
  return description;
}

inline std::filesystem::path config_json_of(const std::filesystem::path& folder) {
  const std::filesystem::path config_path = folder / "config.json";
  if (path_exists(config_path)) return config_path;
  const std::string advice = folder_advice(folder);
  throw_error<FormatError>(folder.string() + ": has no config.json, which a Hugging Face folder needs" +
                           (advice.empty() ? "" : ": " + advice));
}

// A folder with its weights checked and borrowed from its files.
inline StoredCheckpoint open_huggingface_folder(const std::filesystem::path& folder,
                                                OpenFor purpose = OpenFor::model) {
  ModelDescription description = describe_config_json(config_json_of(folder));
  if (!has_safetensors(folder)) throw_error<FormatError>(no_weights_text(folder));
  StoredCheckpoint checkpoint;
  checkpoint.config = description.config;
  checkpoint.generation_config = description.generation_config;
  checkpoint.report = description.report;
  checkpoint.report.path = folder.string();
  checkpoint.report.format = "Hugging Face safetensors";
  const std::string index = "model.safetensors.index.json";
  if (path_exists(folder / index)) {
    if (path_exists(folder / "model.safetensors")) {
      checkpoint.report.assumptions.push_back("model.safetensors is read, " + index + " beside it is not");
    } else {
      checkpoint.report.files.push_back((folder / index).string());
    }
  }
  SafetensorsFolder tensors = open_safetensors_folder(folder);
  for (const SafetensorsFile& file : tensors.files) checkpoint.report.files.push_back(file.name());
  WeightCollector(folder, std::move(tensors), checkpoint, purpose).collect();
  return checkpoint;
}

}  // namespace glassbox
