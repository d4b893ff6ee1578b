// Tokenizer: text to token ids and back. StreamingDecoder: ids to text, one id at a time.
//
//   text         "Hello, Bo"
//   pieces       " Hello"  ","  " "  "B"  "o"       entries of the vocabulary, which spells the space U+2581
//   input_ids    1  346  432  410  ...              what the model sees: begin token and the pieces' numbers
//
// A tokenizer is a table of pieces and a rule that cuts a text into them. The rule is encode(), which each
// kind of tokenizer has its own of (text/sentencepiece_tokenizer.hpp). The way back needs only the table, so
// that it is the same for all and stands here.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "glassbox/axis.hpp"
#include "glassbox/utf8.hpp"

namespace glassbox {

enum class PieceKind {
  normal,        // text
  user_defined,  // text that is always kept in one piece
  byte,          // one byte of a character that has no piece of its own: byte fallback
  control,       // begin, end, ...: never made from a text, decodes to nothing
  unknown,       // stands for text that has no piece where there is no byte fallback
  unused,        // never made from a text, but decodes to one
  padding        // an id that the model has a row for and the vocabulary has no piece
};

// One row of the vocabulary; its number is the token id.
struct VocabularyEntry {
  std::string piece;  // as the vocabulary spells it: "<s>", "<0xE4>", U+2581 "Hello"
  std::string bytes;  // what it adds to a text:       "",    "\xE4",   " Hello"
  PieceKind kind = PieceKind::normal;
  bool leading_space = false;  // bytes begin with a space that is not shown where the text begins
};

// The keys of tokenizer_config.json that matter here; the defaults are LlamaTokenizer's.
struct TokenizerConfig {
  bool add_bos_token = true;
  bool add_eos_token = false;
  std::optional<std::string> bos_token;  // a piece; empty: none; not set: as the vocabulary file says
  std::optional<std::string> eos_token;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of the pieces of `text`, nothing added. Text never becomes a control piece: a "</s>" that someone
  // typed is four characters, not the end of the text.
  virtual std::vector<TokenId> encode(const std::string& text) const = 0;

  // encode() with the begin and end tokens that the model's configuration asks for: what to feed a model.
  std::vector<TokenId> encode_with_special_tokens(const std::string& text) const {
    return add_special_tokens(encode(text));
  }
  // The same for ids; a begin or end token that is there already is not doubled.
  std::vector<TokenId> add_special_tokens(std::vector<TokenId> ids) const;

  // The text of `ids`: the bytes of the pieces one after the other, except that the space before the first
  // word goes, that control pieces show nothing, and that each byte which is not part of a whole UTF-8
  // character becomes U+FFFD. Throws TokenError for an id that is not in 0..vocab_size()-1.
  std::string decode(const std::vector<TokenId>& ids) const;

  // The number of ids the model knows. The last ones may have no piece: PieceKind::padding, which decode to
  // nothing.
  Index vocab_size() const { return vocab_size_; }
  Index piece_count() const { return static_cast<Index>(entries_.size()); }
  const VocabularyEntry& entry(TokenId id) const;
  const std::string& piece(TokenId id) const { return entry(id).piece; }
  const std::string& piece_bytes(TokenId id) const { return entry(id).bytes; }
  PieceKind piece_kind(TokenId id) const { return entry(id).kind; }
  // The id of a piece as the vocabulary spells it; -1: there is none.
  TokenId find_piece(std::string_view piece) const;

  // Ids with a meaning of their own; -1: there is none.
  TokenId bos_id() const { return bos_id_; }
  TokenId eos_id() const { return eos_id_; }
  TokenId unk_id() const { return unk_id_; }
  TokenId pad_id() const { return pad_id_; }
  bool add_bos_token() const { return add_bos_token_; }
  bool add_eos_token() const { return add_eos_token_; }
  // Whether every space at the beginning of a text goes, or only the one that encode() put there.
  bool drops_every_leading_space() const { return drops_every_leading_space_; }

 protected:
  // Filled by the constructors of the derived classes.
  std::vector<VocabularyEntry> entries_;
  Index vocab_size_ = 0;  // >= entries_.size()
  TokenId bos_id_ = -1, eos_id_ = -1, unk_id_ = -1, pad_id_ = -1;
  bool add_bos_token_ = false, add_eos_token_ = false;
  bool drops_every_leading_space_ = false;
};

// Ids to text while they come. push() returns the text that has become certain: whole characters only, since
// a character may be spread over several byte pieces. All that push() returned and flush() at the end
// together are exactly Tokenizer::decode of all ids: give it the prompt's ids first, then those the model
// chose.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  std::string push(TokenId id);
  std::string push(const std::vector<TokenId>& ids);

  // The end of the text: each byte of a character that was not finished becomes one U+FFFD.
  std::string flush();

  // The bytes held back: the beginning of one UTF-8 character, at most three.
  const std::string& pending() const { return pending_; }

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool at_beginning_ = true;  // no text yet: the space of the first piece goes

  std::string take_characters();
};

inline std::vector<TokenId> Tokenizer::add_special_tokens(std::vector<TokenId> ids) const {
  const bool begun = !ids.empty() && ids.front() == bos_id_;
  if (add_bos_token_ && bos_id_ >= 0 && !begun) ids.insert(ids.begin(), bos_id_);
  const bool ended = !ids.empty() && ids.back() == eos_id_;
  if (add_eos_token_ && eos_id_ >= 0 && !ended) ids.push_back(eos_id_);
  return ids;
}

inline const VocabularyEntry& Tokenizer::entry(TokenId id) const {
  static const VocabularyEntry padding{"", "", PieceKind::padding, false};
  if (id < 0 || id >= vocab_size_) {
    throw_error<TokenError>("Tokenizer: id " + std::to_string(id) + " is not in 0.." +
                            std::to_string(vocab_size_ - 1) + " (vocab_size " + std::to_string(vocab_size_) +
                            ")");
  }
  return id < piece_count() ? entries_[static_cast<std::size_t>(id)] : padding;
}

inline TokenId Tokenizer::find_piece(std::string_view piece) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].piece == piece) return static_cast<TokenId>(i);
  }
  return -1;
}

inline std::string Tokenizer::decode(const std::vector<TokenId>& ids) const {
  StreamingDecoder decoder(*this);
  const std::string text = decoder.push(ids);
  return text + decoder.flush();
}

inline std::string StreamingDecoder::push(TokenId id) {
  const VocabularyEntry& entry = tokenizer_->entry(id);
  if (entry.kind == PieceKind::padding) return "";
  if (entry.kind == PieceKind::control) return flush();  // no character reaches across it
  std::string bytes = entry.bytes;
  if (at_beginning_ && entry.leading_space) {
    bytes.erase(0, 1);
    at_beginning_ = tokenizer_->drops_every_leading_space();
  }
  if (!bytes.empty()) at_beginning_ = false;
  pending_ += bytes;
  return take_characters();
}

inline std::string StreamingDecoder::push(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += push(id);
  return text;
}

inline std::string StreamingDecoder::flush() {
  std::string text;
  for (std::size_t i = 0; i < pending_.size(); ++i) text += kReplacementCharacter;
  pending_.clear();
  return text;
}

// Moves whole characters from pending_ to the result, and U+FFFD for each byte that cannot be part of one.
inline std::string StreamingDecoder::take_characters() {
  std::string text;
  std::size_t taken = 0;
  while (taken < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(taken);
    const int length = utf8_character_length(rest);
    if (length == 0) break;
    if (length > 0) text += rest.substr(0, static_cast<std::size_t>(length));
    if (length < 0) text += kReplacementCharacter;
    taken += length > 0 ? static_cast<std::size_t>(length) : 1;
  }
  pending_.erase(0, taken);
  return text;
}

}  // namespace glassbox
