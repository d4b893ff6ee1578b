#include "support/open_model.hpp"

#include <charconv>
#include <filesystem>
#include <iostream>
#include <vector>

#include "glassbox/io/checkpoint.hpp"
#include "glassbox/io/tokenizer_config_json.hpp"
#include "glassbox/text/sentencepiece_tokenizer.hpp"

namespace examples {

std::string embedded_model() {
#ifdef GLASSBOX_MODELS_DIR
  const std::filesystem::path models = GLASSBOX_MODELS_DIR;
#else
  const std::filesystem::path models = std::filesystem::path(__FILE__).parent_path().parent_path() / "models";
#endif
  return (models / "fables").string();
}

void ModelArguments::add_to(CommandLine& command_line) {
  command_line.positional("MODEL", model,
                          "a Hugging Face folder or a llama2.c .bin file (default: the embedded model)");
  command_line.option("--tokenizer", tokenizer, "FILE",
                      "a SentencePiece model file (default: tokenizer.model beside the model)");
}

template <>
glassbox::Checkpoint<float> open_model(const ModelArguments& arguments) {
  return glassbox::load_checkpoint<float>(arguments.model);
}

template <>
glassbox::Checkpoint<double> open_model(const ModelArguments& arguments) {
  return glassbox::load_checkpoint<double>(arguments.model);
}

void print_notes(const glassbox::CheckpointReport& report) {
  std::vector<std::string> notes;
  for (const glassbox::IgnoredKey& key : report.ignored_keys) {
    const bool unknown = key.reason == glassbox::unknown_key_reason;
    if (!unknown && !key.reason.starts_with(glassbox::not_honoured)) continue;
    notes.push_back(std::filesystem::path(key.file).filename().string() + ": \"" + key.key + "\" " +
                    key.value +
                    (unknown ? " is unknown to this library and was not used" : ": " + key.reason));
  }
  for (const glassbox::ReportedTensor& tensor : report.tensors) {
    const std::string& reason = tensor.unused_because;
    if (reason.empty() || reason.starts_with("a buffer:") || reason.starts_with("a table:") ||
        reason.starts_with("the same as"))
      continue;
    notes.push_back(std::filesystem::path(tensor.file).filename().string() + ": tensor " + tensor.name +
                    " was not used: " + reason);
  }
  const std::size_t most = 8;
  for (std::size_t i = 0; i < notes.size() && i < most; ++i)
    std::cerr << "note: " << printable(notes[i]) << "\n";
  if (notes.size() > most) std::cerr << "note: " << notes.size() - most << " more; inspect lists them all\n";
}

// The tokens that tokenizer_config.json has beyond those of the tokenizer's file.
std::vector<std::string> added_tokens(const ModelArguments& arguments, std::int64_t piece_count) {
  const std::filesystem::path file =
      std::filesystem::path(tokenizer_file(arguments)).parent_path() / "tokenizer_config.json";
  std::vector<std::string> contents;
  if (!glassbox::path_exists(file)) return contents;
  const glassbox::Json config = glassbox::read_json(file);
  if (!config.contains("added_tokens_decoder") || !config["added_tokens_decoder"].is_object())
    return contents;
  const glassbox::Json& added = config["added_tokens_decoder"];
  for (glassbox::Json::const_iterator item = added.begin(); item != added.end(); ++item) {
    std::int64_t id = -1;
    std::from_chars(item.key().data(), item.key().data() + item.key().size(), id);
    const bool named = item.value().is_object() && item.value().contains("content");
    if (id >= piece_count)
      contents.push_back(named ? glassbox::json_text(item.value()["content"]) : item.key());
  }
  return contents;
}

void print_notes(const ModelArguments& arguments, const glassbox::CheckpointReport& report,
                 const glassbox::ModelConfig& config, const glassbox::Tokenizer& tokenizer) {
  print_notes(report);
  const std::vector<std::string> added = added_tokens(arguments, tokenizer.piece_count());
  if (!added.empty()) {
    std::cerr << "note: tokenizer_config.json adds " << added.size()
              << " tokens that the tokenizer's file does not have (" << printable(added.front())
              << (added.size() > 1 ? ", ..." : "") << "): in a text they are cut like any other characters\n";
  }
  if (tokenizer.bos_id() == config.bos_token_id) return;
  const std::string tokenizers = tokenizer.bos_id() < 0 ? "none" : std::to_string(tokenizer.bos_id());
  const std::string models = config.bos_token_id < 0 ? "none" : std::to_string(config.bos_token_id);
  std::cerr << "note: the begin token is " << tokenizers << " by the tokenizer, which is followed, and "
            << models << " by the model's configuration\n";
}

glassbox::ModelDescription open_config(const ModelArguments& arguments) {
  return glassbox::load_config(arguments.model);
}

std::unique_ptr<glassbox::StoredCheckpoint> open_weights(const ModelArguments& arguments,
                                                         std::string& reason) {
  const std::filesystem::path path = arguments.model;
  if (glassbox::is_folder(path) && !glassbox::has_safetensors(path)) {
    reason = glassbox::no_weights_text(path);
    return nullptr;
  }
  if (!glassbox::is_folder(path) && path.extension() == ".json") {
    reason.clear();
    return nullptr;
  }
  return std::make_unique<glassbox::StoredCheckpoint>(
      glassbox::open_checkpoint(path, glassbox::OpenFor::look));
}

std::string tokenizer_file(const ModelArguments& arguments) {
  if (!arguments.tokenizer.empty()) return arguments.tokenizer;
  const std::filesystem::path path = arguments.model;
  const std::filesystem::path folder = glassbox::is_folder(path) ? path : path.parent_path();
  return (folder / "tokenizer.model").string();
}

std::unique_ptr<glassbox::Tokenizer> open_tokenizer(const ModelArguments& arguments,
                                                    const glassbox::ModelConfig& config) {
  const std::filesystem::path file = tokenizer_file(arguments);
  if (!glassbox::path_exists(file)) {
    const bool fast_only = glassbox::path_exists(file.parent_path() / "tokenizer.json");
    glassbox::throw_error<glassbox::FormatError>(
        file.string() + ": no such tokenizer" +
        (fast_only && arguments.tokenizer.empty()
             ? " (tokenizer.json beside it is of a kind that is not read)"
             : "") +
        ": name a SentencePiece model file with --tokenizer FILE, or give ids to walk or forward "
        "with --ids");
  }
  const std::filesystem::path config_file = file.parent_path() / "tokenizer_config.json";
  glassbox::TokenizerConfig tokenizer_config;
  if (glassbox::path_exists(config_file)) tokenizer_config = glassbox::read_tokenizer_config(config_file);
  return std::make_unique<glassbox::SentencePieceTokenizer>(file.string(), tokenizer_config,
                                                            config.vocab_size);
}

}  // namespace examples
