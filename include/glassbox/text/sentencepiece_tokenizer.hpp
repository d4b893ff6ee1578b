// SentencePieceTokenizer: the tokenizer.model of Llama, Mistral and many others, cut by libsentencepiece.
// Link with -lsentencepiece (Debian, Ubuntu: libsentencepiece-dev; Homebrew, vcpkg: sentencepiece).
//
//   SentencePieceTokenizer tokenizer("tokenizer.model");
//   tokenizer.encode_with_special_tokens("Hello");  // {1, 15043} with Llama 2's
//
// What happens to a text before it is cut is the model file's choice, and the ids are those of
// libsentencepiece whatever it is: a space is put in front (add_dummy_prefix), runs of spaces are merged and
// those at both ends dropped (remove_extra_whitespaces: Llama 2 says no, the small llama2.c models say yes),
// U+2581 counts as a space, each byte that is not UTF-8 becomes U+FFFD.
#pragma once

#include <sentencepiece_processor.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "glassbox/text/sentencepiece_model.hpp"
#include "glassbox/tokenizer.hpp"

namespace glassbox {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // Reads a model file. `vocab_size` is that of the model the ids are for; 0: as many as there are pieces.
  // Throws FormatError for a file that cannot be read or is something else, and ConfigError where the file
  // does not fit `config` or `vocab_size`.
  explicit SentencePieceTokenizer(const std::string& path, const TokenizerConfig& config = {},
                                  Index vocab_size = 0)
      : SentencePieceTokenizer(read_model_file(path), path, config, vocab_size) {}

  // The same from the bytes of a model file; `name` is what errors call it.
  SentencePieceTokenizer(const std::string& bytes, const std::string& name, const TokenizerConfig& config,
                         Index vocab_size) {
    const SentencePieceModel model = parse_model(bytes, name);
    load_processor(bytes, name);
    fill_entries(model);
    drops_every_leading_space_ = model.remove_extra_whitespaces;
    vocab_size_ = vocab_size == 0 ? piece_count() : vocab_size;
    if (vocab_size_ < piece_count()) {
      throw_error<ConfigError>(name + " has " + std::to_string(piece_count()) +
                               " pieces, but the model's vocab_size is " + std::to_string(vocab_size) +
                               ": they do not belong together");
    }
    unk_id_ = find_piece(model.unk_piece);
    pad_id_ = find_control_piece(model.pad_piece);
    bos_id_ = config.bos_token ? find_token("bos_token", *config.bos_token, name)
                               : find_control_piece(model.bos_piece);
    eos_id_ = config.eos_token ? find_token("eos_token", *config.eos_token, name)
                               : find_control_piece(model.eos_piece);
    add_bos_token_ = config.add_bos_token;
    add_eos_token_ = config.add_eos_token;
  }

  std::vector<TokenId> encode(const std::string& text) const override {
    if (text.size() > kLongestText) {
      throw_error<TokenError>("SentencePieceTokenizer::encode: a text of " + std::to_string(text.size()) +
                              " bytes, expected at most " + std::to_string(kLongestText));
    }
    std::vector<int> ids;
    const sentencepiece::util::Status status = processor_->Encode(text, &ids);
    if (!status.ok()) throw_error<TokenError>("SentencePieceTokenizer::encode: " + status.ToString());
    return std::vector<TokenId>(ids.begin(), ids.end());
  }

 private:
  // Shared: copies of a tokenizer use the same processor, which encoding does not change.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;

  static constexpr std::size_t kLongestText = 100'000'000;     // libsentencepiece counts in int
  static constexpr std::uintmax_t kLargestFile = 256'000'000;  // a wrong file need not be read to know it

  static std::string read_model_file(const std::string& path) {
    std::error_code no_throw;
    if (!std::filesystem::exists(path, no_throw)) throw_error<FormatError>(path + " does not exist");
    if (std::filesystem::is_directory(path, no_throw))
      throw_error<FormatError>(path + " is a folder, expected a SentencePiece model file");
    if (!std::filesystem::is_regular_file(path, no_throw)) {  // a device never ends, a pipe may never begin
      throw_error<FormatError>(path + " is not a regular file, expected a SentencePiece model file");
    }
    const std::uintmax_t size = std::filesystem::file_size(path, no_throw);
    if (!no_throw && size > kLargestFile) {
      throw_error<FormatError>(path + " has " + std::to_string(size) +
                               " bytes, too many for a SentencePiece model");
    }
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream bytes;
    if (stream.peek() != std::ifstream::traits_type::eof()) bytes << stream.rdbuf();
    if (!stream.is_open() || stream.bad() || bytes.bad()) throw_error<FormatError>(path + " cannot be read");
    return bytes.str();
  }

  static SentencePieceModel parse_model(const std::string& bytes, const std::string& name) {
    if (bytes.empty()) throw_error<FormatError>(name + " is empty, expected a SentencePiece model");
    try {
      return parse_sentencepiece_model(bytes);
    } catch (const FormatError& error) {
      const std::string likely = likely_tokenizer_format(bytes);
      if (!likely.empty())
        throw_error<FormatError>(name + " is not a SentencePiece model: it looks like " + likely);
      throw_error<FormatError>(name + " is not a SentencePiece model: " + error.what());
    }
  }

  void load_processor(const std::string& bytes, const std::string& name) {
    std::string failure;
    try {
      std::shared_ptr<sentencepiece::SentencePieceProcessor> processor =
          std::make_shared<sentencepiece::SentencePieceProcessor>();
      const sentencepiece::util::Status status = processor->LoadFromSerializedProto(bytes);
      if (!status.ok()) failure = status.ToString();
      processor_ = processor;
    } catch (const std::exception& exception) {
      failure = exception.what();
    }
    if (!failure.empty()) throw_error<FormatError>(name + " is not accepted by libsentencepiece: " + failure);
  }

  void fill_entries(const SentencePieceModel& model) {
    const std::string space_mark = "\xE2\x96\x81";  // U+2581
    const bool drops_space = model.add_dummy_prefix || model.remove_extra_whitespaces;
    for (const SentencePieceModel::Entry& model_entry : model.pieces) {
      VocabularyEntry entry;
      entry.piece = model_entry.piece;
      entry.kind = kind_of(model_entry.type);
      if (entry.kind == PieceKind::byte) {
        entry.bytes = static_cast<char>(std::stoi(entry.piece.substr(3, 2), nullptr, 16));
      } else if (entry.kind == PieceKind::unknown) {
        entry.bytes = model.unk_surface;
      } else if (entry.kind != PieceKind::control) {
        entry.leading_space = drops_space && entry.piece.starts_with(space_mark);
        entry.bytes = entry.piece;
        for (std::size_t at = 0; (at = entry.bytes.find(space_mark, at)) != std::string::npos;)
          entry.bytes.replace(at, space_mark.size(), " ");
      }
      entries_.push_back(entry);
    }
  }

  static PieceKind kind_of(std::uint64_t type) {
    if (type == SentencePieceModel::unknown) return PieceKind::unknown;
    if (type == SentencePieceModel::control) return PieceKind::control;
    if (type == SentencePieceModel::user_defined) return PieceKind::user_defined;
    if (type == SentencePieceModel::unused) return PieceKind::unused;
    if (type == SentencePieceModel::byte) return PieceKind::byte;
    return PieceKind::normal;
  }

  TokenId find_control_piece(const std::string& piece) const {
    const TokenId id = find_piece(piece);
    return id >= 0 && piece_kind(id) == PieceKind::control ? id : -1;
  }

  // The id of a token that the configuration names; -1 for the empty name.
  TokenId find_token(const std::string& key, const std::string& token, const std::string& name) const {
    if (token.empty()) return -1;
    const TokenId id = find_piece(token);
    if (id < 0) {
      throw_error<ConfigError>(name + " has no piece \"" + token +
                               "\", which the tokenizer configuration has as " + key);
    }
    return id;
  }
};

}  // namespace glassbox
