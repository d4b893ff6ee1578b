// Opens any checkpoint this library reads, and says what to do about those it does not.
//
//   Checkpoint<float> checkpoint = load_checkpoint<float>("models/fables");
//   Tensor<float> logits = checkpoint.causal_lm.forward(input_ids);
//
// A Hugging Face folder (LlamaForCausalLM with safetensors) or a llama2.c .bin file. The weights stay in the
// file, in the type they are stored in; the model borrows them and keeps the file open.
#pragma once

#include <concepts>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "glassbox/causal_lm.hpp"
#include "glassbox/io/huggingface.hpp"
#include "glassbox/io/llama2c.hpp"

namespace glassbox {

// A file that can only be a llama2.c file. Throws FormatError with advice where it is something else.
inline std::shared_ptr<const MappedFile> map_model_file(const std::filesystem::path& path) {
  std::shared_ptr<const MappedFile> file = std::make_shared<const MappedFile>(path);
  const std::string name = path.filename().string();
  std::string advice = recognise_file(*file);
  if (name == "ckpt.pt") {
    advice = "a nanoGPT checkpoint (a GPT-2 model in Python pickles) is not read: take a Llama model";
  } else if (path.extension() == ".safetensors" || path.extension() == ".json") {
    advice = "name the folder it lies in, which has config.json too";
  } else if (name == "tokenizer.model") {
    advice = "this is a tokenizer, not a model: name the folder it lies in";
  } else if (advice.empty() && path.extension() != ".bin" && !is_llama2c_with_magic(*file)) {
    advice = "not a checkpoint: expected a Hugging Face folder or a llama2.c .bin file";
  }
  if (!advice.empty()) throw_error<FormatError>(file->name() + ": " + advice);
  return file;
}

// Throws FormatError unless something is at `path`.
inline void check_path_exists(const std::filesystem::path& path) {
  if (path_exists(path)) return;
  throw_error<FormatError>(path.string() + ": no such file or folder");
}

// What a model is, from its configuration alone: no weights are needed. `path` is a Hugging Face folder, its
// config.json, or a llama2.c file.
inline ModelDescription load_config(const std::filesystem::path& path) {
  check_path_exists(path);
  if (path.extension() == ".json" && !is_folder(path)) return describe_config_json(path);
  if (is_folder(path)) return describe_config_json(config_json_of(path));
  const std::shared_ptr<const MappedFile> file = map_model_file(path);
  return describe_llama2c(*file, read_llama2c_header(*file));
}

// Configuration and weights, all checked, nothing computed yet.
inline StoredCheckpoint open_checkpoint(const std::filesystem::path& path, OpenFor purpose = OpenFor::model) {
  check_path_exists(path);
  if (is_folder(path)) return open_huggingface_folder(path, purpose);
  return open_llama2c(map_model_file(path), purpose);
}

// Moves the weights of a stored checkpoint to the members that bear their names.
template <std::floating_point Scalar>
class ModelBuilder {
 public:
  explicit ModelBuilder(StoredCheckpoint& stored) : stored_(stored) {}

  CausalLM<Scalar> build() {
    const ModelConfig& config = stored_.config;
    CausalLM<Scalar> causal_lm;
    causal_lm.config = config;
    causal_lm.model.embed_tokens.weight = matrix("model.embed_tokens.weight");
    for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
      causal_lm.model.layers.push_back(build_layer(layer));
    }
    causal_lm.model.norm = build_norm("model.norm");
    causal_lm.model.rotary_emb = RotaryEmbedding<Scalar>::from_theta(config.head_dim, config.rope_theta);
    causal_lm.model.max_position_embeddings = config.max_position_embeddings;
    if (!config.tie_word_embeddings) causal_lm.lm_head.weight = matrix("lm_head.weight");
    return causal_lm;
  }

 private:
  StoredCheckpoint& stored_;

  WeightMatrix matrix(const std::string& name) { return std::move(stored_.weights.at(name)); }

  // Norm weights and biases are few numbers: widened once, here.
  Tensor<Scalar> vector(const std::string& name) {
    const WeightMatrix& weight = stored_.weights.at(name);
    Tensor<Scalar> result({weight.in});
    weight.read_row(0, result.row(0));
    return result;
  }

  Linear<Scalar> build_linear(const std::string& name, bool has_bias) {
    Linear<Scalar> linear;
    linear.weight = matrix(name + ".weight");
    if (has_bias) linear.bias = vector(name + ".bias");
    return linear;
  }

  RMSNorm<Scalar> build_norm(const std::string& name) {
    RMSNorm<Scalar> norm;
    norm.weight = vector(name + ".weight");
    norm.eps = static_cast<Scalar>(stored_.config.rms_norm_eps);
    return norm;
  }

  DecoderLayer<Scalar> build_layer(Index layer) {
    const ModelConfig& config = stored_.config;
    const std::string prefix = layer_prefix(layer);
    DecoderLayer<Scalar> result;
    result.layer = layer;
    result.input_layernorm = build_norm(prefix + "input_layernorm");
    result.self_attn.q_proj = build_linear(prefix + "self_attn.q_proj", config.attention_bias);
    result.self_attn.k_proj = build_linear(prefix + "self_attn.k_proj", config.attention_bias);
    result.self_attn.v_proj = build_linear(prefix + "self_attn.v_proj", config.attention_bias);
    result.self_attn.o_proj = build_linear(prefix + "self_attn.o_proj", config.attention_bias);
    result.self_attn.num_attention_heads = config.num_attention_heads;
    result.self_attn.num_key_value_heads = config.num_key_value_heads;
    result.self_attn.layer = layer;
    result.post_attention_layernorm = build_norm(prefix + "post_attention_layernorm");
    result.mlp.gate_proj = build_linear(prefix + "mlp.gate_proj", config.mlp_bias);
    result.mlp.up_proj = build_linear(prefix + "mlp.up_proj", config.mlp_bias);
    result.mlp.down_proj = build_linear(prefix + "mlp.down_proj", config.mlp_bias);
    result.mlp.layer = layer;
    return result;
  }
};

template <std::floating_point Scalar>
Checkpoint<Scalar> load_checkpoint(const std::filesystem::path& path) {
  StoredCheckpoint stored = open_checkpoint(path);
  Checkpoint<Scalar> checkpoint;
  checkpoint.causal_lm = ModelBuilder<Scalar>(stored).build();
  checkpoint.generation_config = stored.generation_config;
  checkpoint.report = stored.report;
  return checkpoint;
}

}  // namespace glassbox
