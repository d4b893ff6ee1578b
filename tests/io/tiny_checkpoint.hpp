// Checkpoints written by the tests themselves: the same random weights as a safetensors folder, as shards, as
// llama2.c files of both versions, and as numbers to compare with.
#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "glassbox/io/weight_list.hpp"
#include "glassbox/random.hpp"
#include "io/temporary_folder.hpp"

namespace glassbox::test_support {

template <typename T>
std::string bytes_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

struct StoredTensor {
  std::string dtype = "F32";
  std::vector<Index> shape;
  std::string bytes;
};

using StoredTensors = std::map<std::string, StoredTensor>;

inline StoredTensor f32_tensor(const std::vector<Index>& shape, const std::vector<float>& values) {
  StoredTensor tensor{"F32", shape, ""};
  for (const float value : values) tensor.bytes += bytes_of(value);
  return tensor;
}

inline std::string json_list(const std::vector<Index>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  return text + "]";
}

// Header and data as given; for files that are wrong on purpose.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return bytes_of(static_cast<std::uint64_t>(header.size())) + header + data;
}

// A correct file. `padding` is the number of spaces after the header.
inline std::string safetensors_bytes(const StoredTensors& tensors, std::size_t padding = 0) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const std::pair<const std::string, StoredTensor>& item : tensors) {
    const Index begin = static_cast<Index>(data.size());
    data += item.second.bytes;
    header += ",\"" + item.first + "\":{\"dtype\":\"" + item.second.dtype +
              "\",\"shape\":" + json_list(item.second.shape) +
              ",\"data_offsets\":" + json_list({begin, static_cast<Index>(data.size())}) + "}";
  }
  return safetensors_bytes(header + "}" + std::string(padding, ' '), data);
}

// 4 layers-worth of everything a Llama can have, small enough to be written thousands of times.
inline ModelConfig tiny_config() {
  ModelConfig config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 6;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 2;
  config.max_position_embeddings = 16;
  config.rms_norm_eps = 1e-5;
  config.bos_token_id = 1;
  config.eos_token_id = {2};
  return config;
}

inline std::string config_text(const ModelConfig& config) {
  const std::string tied = config.tie_word_embeddings ? "true" : "false";
  const std::string attention_bias = config.attention_bias ? "true" : "false";
  const std::string mlp_bias = config.mlp_bias ? "true" : "false";
  return "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": \"silu\",\n"
         " \"vocab_size\": " +
         std::to_string(config.vocab_size) + ", \"hidden_size\": " + std::to_string(config.hidden_size) +
         ", \"intermediate_size\": " + std::to_string(config.intermediate_size) +
         ", \"num_hidden_layers\": " + std::to_string(config.num_hidden_layers) +
         ",\n \"num_attention_heads\": " + std::to_string(config.num_attention_heads) +
         ", \"num_key_value_heads\": " + std::to_string(config.num_key_value_heads) +
         ", \"head_dim\": " + std::to_string(config.head_dim) +
         ", \"max_position_embeddings\": " + std::to_string(config.max_position_embeddings) +
         ",\n \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"tie_word_embeddings\": " + tied +
         ", \"attention_bias\": " + attention_bias + ", \"mlp_bias\": " + mlp_bias +
         ",\n \"bos_token_id\": 1, \"eos_token_id\": 2}\n";
}

inline std::vector<WeightSpec> all_weights(const ModelConfig& config) {
  std::vector<WeightSpec> specs = outer_weights(config);
  for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const WeightSpec& spec : layer_weights(config, layer)) specs.push_back(spec);
  }
  return specs;
}

// Random numbers for every weight of a model, the norms' around 1.
inline StoredTensors random_weights(const ModelConfig& config, std::uint64_t seed) {
  RandomGenerator random(seed);
  StoredTensors tensors;
  for (const WeightSpec& spec : all_weights(config)) {
    std::vector<float> values;
    for (std::uint64_t i = 0; i < spec.elements(); ++i) {
      const double centred = 2 * random.next_uniform() - 1;
      values.push_back(
          static_cast<float>(spec.name.find("norm") != std::string::npos ? 1 + centred / 2 : centred));
    }
    tensors[spec.name] = f32_tensor(spec.shape(), values);
  }
  return tensors;
}

// A complete folder.
inline void write_folder(const TemporaryFolder& folder, const ModelConfig& config,
                         const StoredTensors& tensors) {
  folder.write("config.json", config_text(config));
  folder.write("model.safetensors", safetensors_bytes(tensors));
}

// Rows of q_proj or k_proj in the order of llama2.c: pairs side by side. Row `half_row` of a head, by
// definition of the half-rotated order, is member (half_row / half) of pair (half_row % half).
inline std::string interleaved_rows(const StoredTensor& tensor, Index head_dim) {
  const std::size_t row_bytes = static_cast<std::size_t>(tensor.shape[1]) * 4;
  std::string bytes(tensor.bytes.size(), '\0');
  for (Index row = 0; row < tensor.shape[0]; ++row) {
    const Index half = head_dim / 2;
    const Index in_head = row % head_dim;
    const Index file_row = row - in_head + 2 * (in_head % half) + in_head / half;
    std::memcpy(bytes.data() + static_cast<std::size_t>(file_row) * row_bytes,
                tensor.bytes.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
  }
  return bytes;
}

// Seven numbers of a llama2.c header.
inline std::string llama2c_numbers(const ModelConfig& config, bool negative_vocab) {
  std::string bytes;
  for (const Index number :
       {config.hidden_size, config.intermediate_size, config.num_hidden_layers, config.num_attention_heads,
        config.num_key_value_heads, negative_vocab ? -config.vocab_size : config.vocab_size,
        config.max_position_embeddings}) {
    bytes += bytes_of(static_cast<std::int32_t>(number));
  }
  return bytes;
}

// A file of version 0 or 1, in the order of llama2.c's export.py.
inline std::string llama2c_bytes(const ModelConfig& config, const StoredTensors& tensors, int version) {
  const bool tied = config.tie_word_embeddings;
  const std::function<std::string(const std::string&)> every_layer = [&](const std::string& name) {
    std::string bytes;
    for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
      const StoredTensor& tensor = tensors.at("model.layers." + std::to_string(layer) + "." + name);
      const bool rotated =
          name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
      bytes += rotated ? interleaved_rows(tensor, config.head_dim) : tensor.bytes;
    }
    return bytes;
  };
  const std::string embedding = tensors.at("model.embed_tokens.weight").bytes;
  const std::string norm = tensors.at("model.norm.weight").bytes;
  const std::string head = tied ? "" : tensors.at("lm_head.weight").bytes;
  const std::string attention_norms = every_layer("input_layernorm.weight");
  const std::string mlp_norms = every_layer("post_attention_layernorm.weight");
  const std::string attention =
      every_layer("self_attn.q_proj.weight") + every_layer("self_attn.k_proj.weight") +
      every_layer("self_attn.v_proj.weight") + every_layer("self_attn.o_proj.weight");
  const std::string mlp = every_layer("mlp.gate_proj.weight") + every_layer("mlp.down_proj.weight") +
                          every_layer("mlp.up_proj.weight");
  if (version == 0) {
    const Index table = config.max_position_embeddings * config.head_dim * 4;  // cos and sin
    return llama2c_numbers(config, !tied) + embedding + attention_norms + attention + mlp_norms + mlp + norm +
           std::string(static_cast<std::size_t>(table), '\x3f') + head;
  }
  std::string header = "24ka" + bytes_of(std::int32_t{version}) + llama2c_numbers(config, false);
  header += tied ? '\1' : '\0';
  header.resize(256, '\0');
  return header + attention_norms + mlp_norms + norm + embedding + attention + mlp + head;
}

}  // namespace glassbox::test_support
