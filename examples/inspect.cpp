// inspect: a doctor for checkpoint folders. What a model is, what its files leave open, what it will cost,
// told from the configuration and the headers of the files, before any number is loaded.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "glassbox/io/weight_list.hpp"
#include "support/open_model.hpp"

namespace {

using glassbox::Axis;
using glassbox::Index;
using glassbox::WeightSpec;

struct InspectArguments {
  examples::ModelArguments model;
  std::int64_t context = 0;
  std::int64_t batch = 1;
  std::string scalar = "float";
  bool full = false;
};

// 1234567 -> "1,234,567"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

// "1,044,992 bytes (1.0 MiB)"
std::string bytes_text(std::uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return grouped(bytes) + " bytes";
  char short_text[32];
  std::snprintf(short_text, sizeof short_text, " bytes (%.1f %s)", value, units[unit]);
  return grouped(bytes) + short_text;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string padded_left(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

void print_line(const std::string& key, const std::string& value) {
  std::cout << "  " << padded(examples::printable(key), 25) << " " << examples::printable(value) << "\n";
}

std::string id_text(glassbox::TokenId id) { return id < 0 ? "none" : std::to_string(id); }

std::string ids_text(const std::vector<glassbox::TokenId>& ids) {
  std::string text;
  for (const glassbox::TokenId id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text.empty() ? "none" : text;
}

void print_configuration(const glassbox::ModelConfig& config, const glassbox::GenerationConfig& generation) {
  std::cout << "\nConfiguration as understood\n";
  print_line("model_type", config.model_type);
  print_line("vocab_size", std::to_string(config.vocab_size));
  print_line("hidden_size", std::to_string(config.hidden_size));
  print_line("intermediate_size", std::to_string(config.intermediate_size));
  print_line("num_hidden_layers", std::to_string(config.num_hidden_layers));
  const Index groups = config.num_key_value_groups();
  print_line("num_attention_heads", std::to_string(config.num_attention_heads));
  print_line("num_key_value_heads",
             std::to_string(config.num_key_value_heads) +
                 (groups == 1
                      ? "  (one for each query head: multi-head attention)"
                      : "  (" + std::to_string(groups) + " query heads share one: grouped-query attention)"));
  print_line("head_dim", std::to_string(config.head_dim));
  print_line("max_position_embeddings", std::to_string(config.max_position_embeddings) + "  (the context)");
  print_line("rms_norm_eps", number_text(config.rms_norm_eps));
  print_line("rope_theta", number_text(config.rope_theta));
  print_line("hidden_act", config.hidden_act);
  print_line("tie_word_embeddings", config.tie_word_embeddings
                                        ? "true  (logits by the embedding matrix, stored once)"
                                        : "false  (lm_head is a matrix of its own)");
  print_line("attention_bias", config.attention_bias ? "true" : "false");
  print_line("mlp_bias", config.mlp_bias ? "true" : "false");
  print_line("bos_token_id", id_text(config.bos_token_id));
  print_line("eos_token_id", ids_text(generation.eos_token_id) + "  (any of these ends a text)");
  print_line("pad_token_id", id_text(config.pad_token_id));
  const glassbox::SamplingConfig& sampling = generation.sampling;
  if (sampling.temperature == 0) {
    print_line("sampling", "greedy: always the likeliest token");
  } else {
    print_line("sampling", "temperature " + number_text(sampling.temperature) + ", top_k " +
                               std::to_string(sampling.top_k) + ", top_p " + number_text(sampling.top_p) +
                               ", min_p " + number_text(sampling.min_p));
  }
}

void print_account(const glassbox::CheckpointReport& report) {
  std::cout << "\nAssumed, since the files do not say it\n";
  for (const std::string& sentence : report.assumptions) std::cout << "  " << sentence << "\n";
  if (report.assumptions.empty()) std::cout << "  nothing\n";
  std::cout << "\nKeys that change nothing here\n";
  std::string file;
  for (const glassbox::IgnoredKey& key : report.ignored_keys) {
    if (key.file != file) std::cout << "  " << std::filesystem::path(key.file).filename().string() << ":\n";
    file = key.file;
    const bool notable =
        key.reason == glassbox::unknown_key_reason || key.reason.starts_with(glassbox::not_honoured);
    print_line((notable ? "! " : "  ") + key.key, key.value + "  " + key.reason);
  }
  if (report.ignored_keys.empty()) std::cout << "  none\n";
}

// One module with the weights of its own, under its name in the checkpoint.
struct ModuleRow {
  std::string name;
  std::string output;  // shape of what it returns
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;  // as stored; 0 where there are no weights
  std::string note;
};

// Rows for weights, each module once (weight and bias together).
std::vector<ModuleRow> module_rows(const std::vector<WeightSpec>& specs, Index batch, Index seq,
                                   const std::map<std::string, std::uint64_t>& stored_bytes) {
  std::vector<ModuleRow> rows;
  for (const WeightSpec& spec : specs) {
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    if (rows.empty() || rows.back().name != module) {
      const bool keeps_width = spec.is_vector || spec.name == glassbox::embed_tokens_name;
      const Axis axes[3] = {Axis("batch", batch), Axis("seq", seq), keeps_width ? spec.in : spec.out};
      rows.push_back({module, glassbox::shape_string(axes, 3), 0, 0, ""});
    }
    rows.back().parameters += spec.elements();
    const std::map<std::string, std::uint64_t>::const_iterator found = stored_bytes.find(spec.name);
    if (found != stored_bytes.end()) rows.back().bytes += found->second;
  }
  // Biases come after all weights of their kind in the list: put them to their module.
  std::vector<ModuleRow> merged;
  for (const ModuleRow& row : rows) {
    const std::vector<ModuleRow>::iterator same = std::find_if(
        merged.begin(), merged.end(), [&row](const ModuleRow& other) { return other.name == row.name; });
    if (same == merged.end()) {
      merged.push_back(row);
    } else {
      same->parameters += row.parameters;
      same->bytes += row.bytes;
    }
  }
  return merged;
}

void print_row(const ModuleRow& row, bool with_bytes) {
  std::cout << "  " << padded(row.name, 40) << " " << padded(row.output, 50) << " "
            << padded_left(grouped(row.parameters), 15);
  if (with_bytes) std::cout << " " << padded_left(grouped(row.bytes), 17);
  std::cout << (row.note.empty() ? "" : "  " + row.note) << "\n";
}

ModuleRow sum_of(const std::string& name, const std::vector<ModuleRow>& rows) {
  ModuleRow sum;
  sum.name = name;
  for (const ModuleRow& row : rows) {
    sum.parameters += row.parameters;
    sum.bytes += row.bytes;
  }
  return sum;
}

// The table of all modules. Layers are alike, so that only the first is written out unless `full`.
// Returns the total.
ModuleRow print_modules(const glassbox::ModelConfig& config, const InspectArguments& arguments, Index seq,
                        const std::map<std::string, std::uint64_t>& stored_bytes) {
  const bool with_bytes = !stored_bytes.empty();
  std::cout << "\nLayers, in the order data meets them\n  " << padded("module", 40) << " "
            << padded("output", 50) << " " << padded_left("parameters", 15)
            << (with_bytes ? padded_left("bytes as stored", 18) : "") << "\n";
  const std::vector<ModuleRow> outer =
      module_rows(glassbox::outer_weights(config), arguments.batch, seq, stored_bytes);
  print_row(outer[0], with_bytes);
  ModuleRow total = sum_of("total", outer);
  const Index listed = stored_bytes.empty() ? 1 : config.num_hidden_layers;  // without files all are alike
  for (Index layer = 0; layer < listed; ++layer) {
    const std::vector<ModuleRow> rows =
        module_rows(glassbox::layer_weights(config, layer), arguments.batch, seq, stored_bytes);
    if (layer == 0 || arguments.full) {
      for (const ModuleRow& row : rows) print_row(row, with_bytes);
    }
    ModuleRow sum = sum_of("model.layers." + std::to_string(layer), rows);
    const Axis axes[3] = {Axis("batch", arguments.batch), Axis("seq", seq),
                          Axis("hidden", config.hidden_size)};
    sum.output = glassbox::shape_string(axes, 3);
    sum.note = "all of this layer";
    print_row(sum, with_bytes);
    total.parameters += sum.parameters;
    total.bytes += sum.bytes;
  }
  if (listed < config.num_hidden_layers) {
    const Index last = config.num_hidden_layers - 1;
    std::cout << "  model.layers.1"
              << (last == 1 ? ": the same\n"
                            : " to model.layers." + std::to_string(last) + ": each the same\n");
  }
  total.parameters = glassbox::parameter_count(config);
  print_row(outer[1], with_bytes);
  if (outer.size() > 2) {
    print_row(outer[2], with_bytes);
  } else {
    const Axis axes[3] = {Axis("batch", arguments.batch), Axis("seq", seq), Axis("vocab", config.vocab_size)};
    print_row({"lm_head", glassbox::shape_string(axes, 3), 0, 0, "tied: the matrix of model.embed_tokens"},
              with_bytes);
  }
  print_row(total, with_bytes);
  return total;
}

void print_unused(const glassbox::CheckpointReport& report) {
  std::cout << "\nTensors in the files that nothing uses\n";
  bool any = false;
  for (const glassbox::ReportedTensor& tensor : report.tensors) {
    if (!tensor.used_as.empty()) continue;
    any = true;
    std::cout << "  " << examples::printable(tensor.name) << "  " << tensor.dtype << "  "
              << grouped(tensor.bytes) << " bytes: " << tensor.unused_because << "\n";
  }
  if (!any) std::cout << "  none\n";
}

void print_weights_memory(const ModuleRow& total, const glassbox::StoredCheckpoint* checkpoint) {
  if (checkpoint == nullptr) {
    print_line("weights as f32", bytes_text(glassbox::size_of("weights", {Index(total.parameters), 4})));
    print_line("weights as bf16 or f16",
               bytes_text(glassbox::size_of("weights", {Index(total.parameters), 2})));
    return;
  }
  std::map<std::string, std::uint64_t> by_type;
  std::uint64_t copied = 0;
  for (const glassbox::ReportedTensor& tensor : checkpoint->report.tensors) {
    if (!tensor.used_as.empty()) by_type[tensor.dtype] += tensor.bytes;
    if (tensor.copied) copied += tensor.bytes;
  }
  for (const std::pair<const std::string, std::uint64_t>& type : by_type) {
    print_line("weights stored as " + type.first,
               bytes_text(type.second) + ", used in place in the mapped files");
  }
  if (copied > 0)
    print_line("of these copied", bytes_text(copied) + ", since the file has them in another order or place");
}

// Bytes of what a run allocates.
struct MemorySizes {
  std::uint64_t kv_cache = 0, kv_cache_token = 0, scores = 0, other_attention = 0, mlp = 0, logits = 0;
};

// Every size is a product of sizes, which print_memory writes out beside it. Throws FormatError where one is
// beyond counting.
MemorySizes memory_sizes(const glassbox::ModelConfig& config, const InspectArguments& arguments, Index seq) {
  const Index scalar_bytes = arguments.scalar == "double" ? 8 : 4;
  const Index batch = arguments.batch;
  const Index layers = config.num_hidden_layers;
  const Index heads = config.num_attention_heads;
  const Index kv_heads = config.num_key_value_heads;
  const Index head_dim = config.head_dim;
  MemorySizes sizes;
  sizes.kv_cache_token = glassbox::size_of("KV cache", {2, layers, batch, kv_heads, head_dim, scalar_bytes});
  sizes.kv_cache = glassbox::size_of("KV cache", {2, layers, batch, kv_heads, seq, head_dim, scalar_bytes});
  sizes.scores = glassbox::size_of("scores", {3, batch, heads, seq, seq, scalar_bytes});
  sizes.other_attention =
      glassbox::size_of("query heads", {5, batch, seq, heads * head_dim, scalar_bytes}) +
      glassbox::size_of("key and value heads", {5, batch, seq, kv_heads * head_dim, scalar_bytes}) +
      glassbox::size_of("attn_output", {batch, seq, config.hidden_size, scalar_bytes});
  sizes.mlp = glassbox::size_of("mlp", {4, batch, seq, config.intermediate_size, scalar_bytes});
  sizes.logits = glassbox::size_of("logits", {batch, seq, config.vocab_size, scalar_bytes});
  return sizes;
}

// Throws where print_memory could not count, so that no report breaks off in the middle.
void check_countable(const glassbox::ModelConfig& config, const InspectArguments& arguments, Index seq) {
  const std::uint64_t parameters = glassbox::parameter_count(config, arguments.model.model + ": ");
  glassbox::size_of(arguments.model.model + ": weights", {Index(parameters), 4});
  try {
    memory_sizes(config, arguments, seq);
  } catch (const glassbox::FormatError& error) {
    glassbox::throw_error<glassbox::UsageError>(
        "the memory for batch " + std::to_string(arguments.batch) + " and context " + std::to_string(seq) +
        " cannot be counted: " + error.what() + "; give a smaller --batch or --context");
  }
}

void print_memory(const glassbox::ModelConfig& config, const InspectArguments& arguments, Index seq,
                  const ModuleRow& total, const glassbox::StoredCheckpoint* checkpoint) {
  const std::string scalar_bytes = arguments.scalar == "double" ? "8" : "4";
  const MemorySizes sizes = memory_sizes(config, arguments, seq);
  std::cout << "\nMemory (batch " << arguments.batch << ", context " << seq << ", arithmetic in "
            << arguments.scalar << ")\n";
  print_weights_memory(total, checkpoint);
  print_line("KV cache, full", bytes_text(sizes.kv_cache) +
                                   " = 2 * layers * batch * kv_heads * context * head_dim * " + scalar_bytes);
  print_line("KV cache, each token", bytes_text(sizes.kv_cache_token));
  std::cout << "  One pass over the whole context at once, eager attention:\n";
  print_line("  scores of one layer",
             bytes_text(sizes.scores) +
                 " = 3 (scores, masked_scores, attn_weights) * batch * heads * seq * seq * " + scalar_bytes);
  print_line("  other attention values",
             bytes_text(sizes.other_attention) + ", the named values of Attention::forward");
  print_line("  feed-forward of a layer",
             bytes_text(sizes.mlp) +
                 " = 4 (gate_proj, up_proj, activated, gated) * batch * seq * intermediate * " +
                 scalar_bytes);
  print_line("  logits, all positions", bytes_text(sizes.logits));
}

// How text becomes ids for this model, if it does. Returns what is wrong with the tokenizer's files; nothing
// where there are none, since a model can do with ids.
std::string print_tokenizer(const examples::ModelArguments& arguments, const glassbox::ModelConfig& config) {
  std::cout << "\nTokenizer\n";
  const std::filesystem::path file = examples::tokenizer_file(arguments);
  const std::filesystem::path config_file = file.parent_path() / "tokenizer_config.json";
  if (arguments.tokenizer.empty() && !glassbox::path_exists(file)) {
    print_line("tokenizer.model", "none: ids only (walk and forward with --ids), or --tokenizer FILE");
    if (glassbox::path_exists(file.parent_path() / "tokenizer.json"))
      print_line("tokenizer.json", "of a kind that is not read");
    return "";
  }
  print_line("tokenizer.model", file.string());
  print_line("tokenizer_config.json",
             glassbox::path_exists(config_file)
                 ? config_file.string()
                 : "none: the tokenizer's own begin token is put in front, no end token behind");
  std::unique_ptr<glassbox::Tokenizer> tokenizer;
  try {
    tokenizer = examples::open_tokenizer(arguments, config);
  } catch (const glassbox::Error& error) {
    print_line("! vocabulary", error.what());
    return error.what();
  }
  const Index without_piece = config.vocab_size - tokenizer->piece_count();
  print_line("vocabulary",
             std::to_string(tokenizer->piece_count()) + " pieces" +
                 (without_piece == 0 ? ", one for each id of vocab_size"
                                     : "; the last " + std::to_string(without_piece) + " of vocab_size " +
                                           std::to_string(config.vocab_size) + " ids have none"));
  if (tokenizer->bos_id() != config.bos_token_id) {
    print_line("! begin token",
               id_text(tokenizer->bos_id()) + ", but bos_token_id is " + id_text(config.bos_token_id));
  }
  return "";
}

int inspect(int argc, char** argv) {
  InspectArguments arguments;
  examples::CommandLine command_line(
      "inspect",
      "Tells what a model is and what it needs, from its configuration and the headers of its files.");
  command_line.positional("MODEL", arguments.model.model,
                          "a Hugging Face folder, a config.json alone, or a llama2.c .bin file (default: the "
                          "embedded model)");
  command_line.option("--tokenizer", arguments.model.tokenizer, "FILE",
                      "a SentencePiece model file (default: tokenizer.model beside the model)");
  command_line.option("--context", arguments.context, "N",
                      "count memory for N positions (default: max_position_embeddings)");
  command_line.option("--batch", arguments.batch, "N", "count memory for N texts at once");
  command_line.choice("--scalar", arguments.scalar, {"float", "double"}, "the arithmetic to count for");
  command_line.flag("--full", arguments.full, "write out every layer, not only the first");
  command_line.footer(
      "Nothing is loaded: a model of any size can be looked at, also one whose weights are not here.\n"
      "  inspect path/to/folder --context 4096 --batch 8\n"
      "  inspect path/to/config.json\n"
      "Exit code 1 says that the model cannot be used as it is; the message says why. A configuration\n"
      "that was named alone, and a model without a tokenizer, which takes ids, are no failures.");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (command_line.given("--context") && arguments.context < 1) {
    return command_line.wrong_use("--context must be at least 1");
  }
  if (arguments.batch < 1) return command_line.wrong_use("--batch must be at least 1");

  const glassbox::ModelDescription description = examples::open_config(arguments.model);
  const glassbox::ModelConfig& config = description.config;
  const Index seq = arguments.context == 0 ? config.max_position_embeddings : arguments.context;
  check_countable(config, arguments, seq);
  std::cout << examples::printable(arguments.model.model) << "\n";
  print_configuration(config, description.generation_config);
  std::cout << std::flush;  // what is known stands there, should the files be damaged
  std::string no_weights, problem;
  const std::unique_ptr<glassbox::StoredCheckpoint> checkpoint =
      examples::open_weights(arguments.model, no_weights);
  print_account(checkpoint != nullptr ? checkpoint->report : description.report);
  std::cout << "\nFiles\n";
  const glassbox::CheckpointReport& report = checkpoint != nullptr ? checkpoint->report : description.report;
  print_line("format", report.format);
  for (const std::string& file : report.files) print_line("read", file);
  if (checkpoint == nullptr) print_line("weights", no_weights.empty() ? "configuration only" : "! none here");
  problem = print_tokenizer(arguments.model, config);
  if (!no_weights.empty()) problem = no_weights;  // the worse of two

  std::map<std::string, std::uint64_t> stored_bytes;
  for (const glassbox::ReportedTensor& tensor : report.tensors) {
    if (!tensor.used_as.empty()) stored_bytes[tensor.name] = tensor.bytes;
  }
  const ModuleRow total = print_modules(config, arguments, seq, stored_bytes);
  if (checkpoint != nullptr) print_unused(report);
  print_memory(config, arguments, seq, total, checkpoint.get());
  if (seq > config.max_position_embeddings) {
    std::cout << "\nNote: the model knows only " << config.max_position_embeddings
              << " positions (max_position_embeddings): longer texts are refused.\n";
  }
  std::cout << std::flush;
  if (!problem.empty()) glassbox::throw_error<glassbox::FormatError>(problem);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, inspect); }
