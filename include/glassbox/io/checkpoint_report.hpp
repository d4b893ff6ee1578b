// What opening a checkpoint gives: the model, and an account of every tensor with its use, every default
// assumed, every key not used. No JSON here, so that programs which only hold a checkpoint compile fast.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/generation_config.hpp"
#include "glassbox/io/mapped_file.hpp"
#include "glassbox/weight.hpp"

namespace glassbox {

// A key of a JSON file that changes nothing here, and why.
struct IgnoredKey {
  std::string file;
  std::string key;
  std::string value;
  std::string reason;
};

// Reasons that a program should tell, since what was left out may matter.
inline constexpr const char* unknown_key_reason = "unknown to this library";
inline constexpr const char* not_honoured = "NOT HONOURED";  // how such a reason begins

// One tensor of the files. Exactly one of used_as and unused_because is not empty.
struct ReportedTensor {
  std::string name;   // as in the file; llama2.c files have no names, so Hugging Face's stand here
  std::string dtype;  // as the file spells it
  std::vector<Index> shape;
  std::uint64_t bytes = 0;
  std::string file;
  std::string used_as;         // the member of CausalLM it became: model.layers[0].mlp.up_proj.weight
  std::string unused_because;  // why no member takes it
  bool copied = false;         // not used in place: the file has it in another order, or at an odd address
};

struct CheckpointReport {
  std::string path;
  std::string format;              // "Hugging Face safetensors", "llama2.c version 0", ...
  std::vector<std::string> files;  // every file that was read
  std::vector<ReportedTensor> tensors;
  std::vector<std::string> assumptions;  // a sentence for each default
  std::vector<IgnoredKey> ignored_keys;
};

// What a model is, without its weights.
struct ModelDescription {
  ModelConfig config;
  GenerationConfig generation_config;
  CheckpointReport report;
};

template <std::floating_point Scalar>
struct Checkpoint {
  CausalLM<Scalar> causal_lm;
  GenerationConfig generation_config;
  CheckpointReport report;
};

// The weights before a model is made of them, all checked against the configuration. A vector [in] is a
// matrix of one row.
struct StoredCheckpoint {
  ModelConfig config;
  GenerationConfig generation_config;
  CheckpointReport report;
  std::map<std::string, WeightMatrix> weights;  // by Hugging Face name
};

// "model.layers.0.mlp.up_proj.weight" -> "model.layers[0].mlp.up_proj.weight", as one types it in a debugger.
inline std::string member_path(const std::string& name) {
  const std::string prefix = "model.layers.";
  const std::size_t dot = name.find('.', prefix.size());
  if (!name.starts_with(prefix) || dot == std::string::npos) return name;
  return "model.layers[" + name.substr(prefix.size(), dot - prefix.size()) + "]" + name.substr(dot);
}

// What opening a checkpoint is for: to make a model of it, or only to look at names, shapes and types. Who
// only looks must not read a weight that would have been copied: it points to the bytes as they lie in the
// file.
enum class OpenFor : std::uint8_t { model, look };

// Whether numbers of this type can be read where they lie: at a multiple of their own size.
inline bool is_aligned(const std::byte* numbers, StoredType type) {
  return reinterpret_cast<std::uintptr_t>(numbers) % static_cast<std::uintptr_t>(stored_type_bytes(type)) ==
         0;
}

// A weight [out, in] whose numbers lie in a file. They stay there, and the file stays open; only numbers that
// are not aligned are copied, since the processor may not read them in place.
inline WeightMatrix borrow_weight(const std::shared_ptr<const MappedFile>& file, const std::byte* numbers,
                                  StoredType type, const Axis& out, const Axis& in,
                                  OpenFor purpose = OpenFor::model) {
  WeightMatrix weight;
  weight.type = type;
  weight.out = out;
  weight.in = in;
  if (purpose == OpenFor::look || is_aligned(numbers, type)) {
    weight.borrowed = numbers;
    weight.borrowed_from = file;
  } else {
    weight.owned.assign(numbers, numbers + weight.bytes());
  }
  return weight;
}

}  // namespace glassbox
