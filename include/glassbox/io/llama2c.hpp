// llama2.c files (.bin): a header, then all weights as 32-bit floats in a fixed order, without names.
// Version 0 (legacy) and version 1; source: https://github.com/karpathy/llama2.c (export.py, run.c).
#pragma once

#include <bit>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "glassbox/io/checkpoint_report.hpp"
#include "glassbox/io/safetensors.hpp"
#include "glassbox/io/weight_list.hpp"
#include "glassbox/rotary_embedding.hpp"

namespace glassbox {

static_assert(std::endian::native == std::endian::little, "files are little-endian and used as they lie");

// The header, under the file's own names.
struct Llama2cHeader {
  int version = 0;
  Index dim = 0, hidden_dim = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, vocab_size = 0, seq_len = 0;
  bool shared_classifier = false;
  std::uint64_t bytes = 0;  // of the header: the weights follow
};

inline std::int32_t read_int32(const MappedFile& file, std::uint64_t begin) {
  std::int32_t value = 0;
  std::memcpy(&value, file.data() + begin, 4);
  return value;
}

inline bool is_llama2c_with_magic(const MappedFile& file) { return file.text(0, 4) == "24ka"; }

inline void check_llama2c_header(const MappedFile& file, const Llama2cHeader& header) {
  const std::pair<const char*, Index> fields[] = {
      {"dim", header.dim},         {"hidden_dim", header.hidden_dim}, {"n_layers", header.n_layers},
      {"n_heads", header.n_heads}, {"n_kv_heads", header.n_kv_heads}, {"vocab_size", header.vocab_size},
      {"seq_len", header.seq_len}};
  const std::string no_header = file.name() + ": not a llama2.c file: ";
  for (const std::pair<const char*, Index>& field : fields) {
    if (field.second >= 1 && field.second <= 2147483647) continue;
    throw_error<FormatError>(no_header + field.first + " is " + std::to_string(field.second) +
                             ", expected a whole number from 1 to 2147483647");
  }
  if (header.dim % (2 * header.n_heads) != 0) {
    throw_error<FormatError>(no_header + "dim " + std::to_string(header.dim) + " is not a multiple of 2 * " +
                             "n_heads " + std::to_string(header.n_heads));
  }
  if (header.n_heads % header.n_kv_heads != 0) {
    throw_error<FormatError>(no_header + "n_heads " + std::to_string(header.n_heads) + " is not a multiple " +
                             "of n_kv_heads " + std::to_string(header.n_kv_heads));
  }
}

inline Llama2cHeader read_llama2c_header(const MappedFile& file) {
  Llama2cHeader header;
  const bool magic = is_llama2c_with_magic(file);
  header.bytes = magic ? 256 : 28;
  if (file.size() < header.bytes) throw_truncated(file, header.bytes, "the header of a llama2.c file");
  if (magic) header.version = read_int32(file, 4);
  if (magic && header.version == 2) {
    throw_error<FormatError>(file.name() + ": llama2.c version 2 (weights as 8-bit groups, Q8_0) is not " +
                             "read: export with --version 1");
  }
  if (magic && header.version != 1) {
    throw_error<FormatError>(file.name() + ": llama2.c version " + std::to_string(header.version) +
                             ", expected 1 (or a legacy file without a version)");
  }
  const std::uint64_t first = magic ? 8 : 0;
  header.dim = read_int32(file, first);
  header.hidden_dim = read_int32(file, first + 4);
  header.n_layers = read_int32(file, first + 8);
  header.n_heads = read_int32(file, first + 12);
  header.n_kv_heads = read_int32(file, first + 16);
  const Index vocab_size = read_int32(file, first + 20);
  header.seq_len = read_int32(file, first + 24);
  // The legacy header has no room for a flag: a negative vocab_size says that the classifier is not shared.
  header.vocab_size = magic || vocab_size > 0 ? vocab_size : -vocab_size;
  header.shared_classifier = magic ? file.text(36, 1) != std::string_view("\0", 1) : vocab_size > 0;
  check_llama2c_header(file, header);
  return header;
}

// The configuration of a file, and what run.c fixes instead of storing it.
inline ModelDescription describe_llama2c(const MappedFile& file, const Llama2cHeader& header) {
  ModelDescription description;
  ModelConfig& config = description.config;
  config.hidden_size = header.dim;
  config.intermediate_size = header.hidden_dim;
  config.num_hidden_layers = header.n_layers;
  config.num_attention_heads = header.n_heads;
  config.num_key_value_heads = header.n_kv_heads;
  config.head_dim = header.dim / header.n_heads;
  config.vocab_size = header.vocab_size;
  config.max_position_embeddings = header.seq_len;
  config.tie_word_embeddings = header.shared_classifier;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 10000.0;
  if (config.vocab_size > 2) {
    config.bos_token_id = 1;
    config.eos_token_id = {1,
                           2};  // these models were trained on texts that follow each other, each begun by 1
  }
  config.validate();
  description.generation_config.eos_token_id = config.eos_token_id;
  description.report.path = file.name();
  description.report.format = "llama2.c version " + std::to_string(header.version);
  description.report.files = {file.name()};
  description.report.assumptions = {
      "rms_norm_eps = 1e-05 (fixed in run.c, not stored)", "rope_theta = 10000 (fixed in run.c, not stored)",
      "hidden_act = \"silu\" (fixed in run.c, not stored)",
      config.vocab_size > 2 ? "bos_token_id = 1, eos_token_id = [1, 2] (1 as in run.c, 2 Llama's; not stored)"
                            : "no begin and no end token (run.c's ids 1 and 2 are not in this vocabulary)",
      "greedy (sampling settings are not stored)"};
  return description;
}

// Walks through the file in its fixed order and takes one weight after the other.
class Llama2cCollector {
 public:
  Llama2cCollector(std::shared_ptr<const MappedFile> file, Llama2cHeader header, StoredCheckpoint& checkpoint,
                   OpenFor purpose)
      : file_(std::move(file)),
        header_(header),
        position_(header.bytes),
        checkpoint_(checkpoint),
        purpose_(purpose) {}

  void collect() {
    check_size();
    const std::vector<WeightSpec> outer = outer_weights(checkpoint_.config);  // embedding, norm, (lm_head)
    if (header_.version == 0) {
      take(outer[0]);
      for (const std::size_t kind : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 8u, 7u}) take_of_every_layer(kind);
      take(outer[1]);
      skip_rotary_table("freq_cis_real");
      skip_rotary_table("freq_cis_imag");
    } else {
      for (const std::size_t kind : {0u, 5u}) take_of_every_layer(kind);
      take(outer[1]);
      take(outer[0]);
      for (const std::size_t kind : {1u, 2u, 3u, 4u, 6u, 8u, 7u}) take_of_every_layer(kind);
    }
    if (!header_.shared_classifier) take(outer[2]);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  Llama2cHeader header_;
  std::uint64_t position_;  // of the next weight, in bytes
  StoredCheckpoint& checkpoint_;
  OpenFor purpose_;

  // Everything that follows relies on this: the file has exactly the bytes that its header implies.
  void check_size() const {
    const std::uint64_t parameters = parameter_count(checkpoint_.config, file_->name() + ": ");
    const std::uint64_t tables =
        header_.version == 0 ? size_of(file_->name(), {header_.seq_len, head_dim()}) : 0;
    const std::uint64_t numbers = parameters + tables;
    const std::uint64_t needed = header_.bytes + size_of(file_->name(), {4, static_cast<Index>(numbers)});
    if (file_->size() == needed) return;
    throw_error<FormatError>(
        file_->name() + ": " + std::to_string(file_->size()) + " bytes present, " + std::to_string(needed) +
        " needed by its llama2.c header (version " + std::to_string(header_.version) + ", dim " +
        std::to_string(header_.dim) + ", hidden_dim " + std::to_string(header_.hidden_dim) + ", n_layers " +
        std::to_string(header_.n_layers) + ", n_heads " + std::to_string(header_.n_heads) + ", n_kv_heads " +
        std::to_string(header_.n_kv_heads) + ", vocab_size " + std::to_string(header_.vocab_size) +
        ", seq_len " + std::to_string(header_.seq_len) + ")");
  }

  Index head_dim() const { return checkpoint_.config.head_dim; }

  // `kind` counts layer_weights(): 0 input_layernorm, 1 to 4 q, k, v, o, 5 post_attention_layernorm, 6 gate,
  // 7 up, 8 down. The file has up last.
  void take_of_every_layer(std::size_t kind) {
    for (Index layer = 0; layer < header_.n_layers; ++layer) {
      take(layer_weights(checkpoint_.config, layer)[kind]);
    }
  }

  void take(const WeightSpec& spec) {
    const std::byte* const numbers = file_->data() + position_;
    WeightMatrix weight = borrow_weight(file_, numbers, StoredType::f32, spec.out, spec.in, purpose_);
    const std::uint64_t bytes = static_cast<std::uint64_t>(weight.bytes());
    ReportedTensor reported{spec.name,
                            "F32",
                            spec.shape(),
                            bytes,
                            file_->name(),
                            member_path(spec.name),
                            "",
                            !is_aligned(numbers, StoredType::f32)};
    if (spec.name == embed_tokens_name && header_.shared_classifier) {
      reported.used_as += ", also in place of lm_head.weight (tied)";
    }
    const bool rotated = spec.name.ends_with("q_proj.weight") || spec.name.ends_with("k_proj.weight");
    if (rotated) {
      if (purpose_ == OpenFor::model) weight = half_rotated(weight);
      reported.copied = true;
      reported.used_as += " (a copy: rows reordered from interleaved to half-rotated pairs)";
    }
    checkpoint_.weights[spec.name] = std::move(weight);
    checkpoint_.report.tensors.push_back(reported);
    position_ += bytes;
  }

  // Row `row` of a head in half-rotated order is row interleaved_row_of(row) of the file's.
  WeightMatrix half_rotated(const WeightMatrix& interleaved) const {
    WeightMatrix result;
    result.type = interleaved.type;
    result.out = interleaved.out;
    result.in = interleaved.in;
    result.owned.resize(static_cast<std::size_t>(interleaved.bytes()));
    const std::size_t row_bytes = static_cast<std::size_t>(interleaved.in.size) * 4;
    for (Index row = 0; row < interleaved.out.size; ++row) {
      const Index head_begin = row - row % head_dim();
      const Index file_row = head_begin + interleaved_row_of(row % head_dim(), head_dim());
      std::memcpy(result.owned.data() + static_cast<std::size_t>(row) * row_bytes,
                  interleaved.data() + static_cast<std::size_t>(file_row) * row_bytes, row_bytes);
    }
    return result;
  }

  void skip_rotary_table(const std::string& name) {
    const std::vector<Index> shape = {header_.seq_len, head_dim() / 2};
    const std::uint64_t bytes = size_of(name, {shape[0], shape[1], 4});
    checkpoint_.report.tensors.push_back({name, "F32", shape, bytes, file_->name(), "",
                                          "a table: computed from rope_theta and head_dim", false});
    position_ += bytes;
  }
};

inline StoredCheckpoint open_llama2c(const std::shared_ptr<const MappedFile>& file,
                                     OpenFor purpose = OpenFor::model) {
  const Llama2cHeader header = read_llama2c_header(*file);
  ModelDescription description = describe_llama2c(*file, header);
  StoredCheckpoint checkpoint;
  checkpoint.config = description.config;
  checkpoint.generation_config = description.generation_config;
  checkpoint.report = description.report;
  Llama2cCollector(file, header, checkpoint, purpose).collect();
  return checkpoint;
}

}  // namespace glassbox
