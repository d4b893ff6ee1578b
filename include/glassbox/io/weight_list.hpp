// The list of a Llama model's weights, as the configuration implies it: names, shapes, and the keys of
// config.json that each size follows from. Loaders check files against it, ledgers count with it.
#pragma once

#include <string>
#include <vector>

#include "glassbox/config.hpp"
#include "glassbox/io/mapped_file.hpp"

namespace glassbox {

// One weight under its name in a Hugging Face checkpoint (transformers LlamaForCausalLM.state_dict).
struct WeightSpec {
  std::string name;
  bool is_vector = false;  // [in]; else [out, in]
  Axis out;                // {"", 1} for a vector
  Axis in;
  std::string keys;  // the shape in keys of config.json: "[vocab_size, hidden_size]"

  std::vector<Index> shape() const {
    return is_vector ? std::vector<Index>{in.size} : std::vector<Index>{out.size, in.size};
  }
  // Elements, counted in 64 bits with an overflow check: each size may be near 2^31.
  // `where` comes before the name in the error's text.
  std::uint64_t elements(const std::string& where = "") const {
    return size_of(where + name, {out.size, in.size});
  }
};

// The axes of all weights, named as the values that flow through them.
struct WeightAxes {
  Axis vocab, hidden, intermediate, heads, kv_heads;

  explicit WeightAxes(const ModelConfig& config)
      : vocab("vocab", config.vocab_size),
        hidden("hidden", config.hidden_size),
        intermediate("intermediate", config.intermediate_size),
        heads("heads*head_dim", config.num_attention_heads * config.head_dim),
        kv_heads("kv_heads*head_dim", config.num_key_value_heads * config.head_dim) {}
};

inline WeightSpec vector_spec(const std::string& name, const Axis& axis, const std::string& key) {
  return {name, true, Axis("", 1), axis, "[" + key + "]"};
}

inline WeightSpec matrix_spec(const std::string& name, const Axis& out, const Axis& in,
                              const std::string& keys) {
  return {name, false, out, in, "[" + keys + "]"};
}

inline std::string layer_prefix(Index layer) { return "model.layers." + std::to_string(layer) + "."; }

inline constexpr const char* embed_tokens_name = "model.embed_tokens.weight";
inline constexpr const char* norm_name = "model.norm.weight";
inline constexpr const char* lm_head_name = "lm_head.weight";

// q_proj, k_proj, v_proj, o_proj of one layer, each with its bias where the model has biases there.
inline std::vector<WeightSpec> attention_weights(const ModelConfig& config, Index layer) {
  const WeightAxes axes(config);
  const std::string prefix = layer_prefix(layer) + "self_attn.";
  const std::string heads = "num_attention_heads * head_dim";
  const std::string kv_heads = "num_key_value_heads * head_dim";
  std::vector<WeightSpec> specs;
  specs.push_back(matrix_spec(prefix + "q_proj.weight", axes.heads, axes.hidden, heads + ", hidden_size"));
  specs.push_back(
      matrix_spec(prefix + "k_proj.weight", axes.kv_heads, axes.hidden, kv_heads + ", hidden_size"));
  specs.push_back(
      matrix_spec(prefix + "v_proj.weight", axes.kv_heads, axes.hidden, kv_heads + ", hidden_size"));
  specs.push_back(matrix_spec(prefix + "o_proj.weight", axes.hidden, axes.heads, "hidden_size, " + heads));
  if (!config.attention_bias) return specs;
  specs.push_back(vector_spec(prefix + "q_proj.bias", axes.heads, heads));
  specs.push_back(vector_spec(prefix + "k_proj.bias", axes.kv_heads, kv_heads));
  specs.push_back(vector_spec(prefix + "v_proj.bias", axes.kv_heads, kv_heads));
  specs.push_back(vector_spec(prefix + "o_proj.bias", axes.hidden, "hidden_size"));
  return specs;
}

// gate_proj, up_proj, down_proj of one layer, each with its bias where the model has biases there.
inline std::vector<WeightSpec> mlp_weights(const ModelConfig& config, Index layer) {
  const WeightAxes axes(config);
  const std::string prefix = layer_prefix(layer) + "mlp.";
  const std::string into = "intermediate_size, hidden_size";
  const std::string back = "hidden_size, intermediate_size";
  std::vector<WeightSpec> specs;
  specs.push_back(matrix_spec(prefix + "gate_proj.weight", axes.intermediate, axes.hidden, into));
  specs.push_back(matrix_spec(prefix + "up_proj.weight", axes.intermediate, axes.hidden, into));
  specs.push_back(matrix_spec(prefix + "down_proj.weight", axes.hidden, axes.intermediate, back));
  if (!config.mlp_bias) return specs;
  specs.push_back(vector_spec(prefix + "gate_proj.bias", axes.intermediate, "intermediate_size"));
  specs.push_back(vector_spec(prefix + "up_proj.bias", axes.intermediate, "intermediate_size"));
  specs.push_back(vector_spec(prefix + "down_proj.bias", axes.hidden, "hidden_size"));
  return specs;
}

// All weights of one layer, in the order data meets them.
inline std::vector<WeightSpec> layer_weights(const ModelConfig& config, Index layer) {
  const WeightAxes axes(config);
  std::vector<WeightSpec> specs;
  specs.push_back(vector_spec(layer_prefix(layer) + "input_layernorm.weight", axes.hidden, "hidden_size"));
  for (const WeightSpec& spec : attention_weights(config, layer)) specs.push_back(spec);
  specs.push_back(
      vector_spec(layer_prefix(layer) + "post_attention_layernorm.weight", axes.hidden, "hidden_size"));
  for (const WeightSpec& spec : mlp_weights(config, layer)) specs.push_back(spec);
  return specs;
}

// The weights outside the layers. A tied model has no lm_head of its own.
inline std::vector<WeightSpec> outer_weights(const ModelConfig& config) {
  const WeightAxes axes(config);
  std::vector<WeightSpec> specs;
  specs.push_back(matrix_spec(embed_tokens_name, axes.vocab, axes.hidden, "vocab_size, hidden_size"));
  specs.push_back(vector_spec(norm_name, axes.hidden, "hidden_size"));
  if (config.tie_word_embeddings) return specs;
  specs.push_back(matrix_spec(lm_head_name, axes.vocab, axes.hidden, "vocab_size, hidden_size"));
  return specs;
}

// The elements of all `specs` together; `where` and `part` begin the error's text.
inline std::uint64_t total_elements(const std::string& where, const std::string& part,
                                    const std::vector<WeightSpec>& specs) {
  std::uint64_t total = 0;
  for (const WeightSpec& spec : specs) {
    const std::uint64_t elements = spec.elements(where);
    if (elements > (std::uint64_t{1} << 62) - total) {
      throw_error<FormatError>(where + part + ": more parameters than 64 bits can count");
    }
    total += elements;
  }
  return total;
}

// All parameters of a model; a tied embedding counts once, since it is stored once. `where` (a file and a
// colon) begins the error's text.
inline std::uint64_t parameter_count(const ModelConfig& config, const std::string& where = "") {
  const std::uint64_t per_layer = total_elements(where, "model.layers.0", layer_weights(config, 0));
  const std::uint64_t outside = total_elements(where, "model", outer_weights(config));
  const std::uint64_t in_layers =
      size_of(where + "model.layers", {config.num_hidden_layers, static_cast<std::int64_t>(per_layer)});
  if (in_layers > (std::uint64_t{1} << 62)) {
    throw_error<FormatError>(where + "model: more parameters than 64 bits can count");
  }
  return outside + in_layers;
}

}  // namespace glassbox
