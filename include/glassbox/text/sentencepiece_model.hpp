// The content of a SentencePiece model file (tokenizer.model), read without libsentencepiece.
//
// The file is one protobuf message; sentencepiece_model.proto of the SentencePiece sources gives the field
// numbers below. libsentencepiece trusts what it loads: an id it does not expect ends the program, and a
// broken character map is read out of bounds. So everything it relies on is checked here first.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "glassbox/error.hpp"
#include "glassbox/utf8.hpp"

namespace glassbox {

// One field of a protobuf message. Which member counts follows from the wire type.
struct ProtobufField {
  std::uint64_t number = 0;
  int wire_type = 0;         // 0: varint, 1: 64 bits, 2: length and bytes, 5: 32 bits
  std::uint64_t value = 0;   // wire types 0, 1 and 5
  std::string_view bytes;    // wire type 2: text, or a message in the message
  std::size_t position = 0;  // of the field's first byte in the file
};

// Walks through the fields of one message. Source: protobuf.dev, Encoding.
class ProtobufReader {
 public:
  // `position` is where `message` begins in the file; errors tell it.
  explicit ProtobufReader(std::string_view message, std::size_t position = 0)
      : rest_(message), position_(position) {}

  // Reads the next field; false: the message is over. Throws FormatError where the bytes make no field.
  bool next(ProtobufField& field) {
    if (rest_.empty()) return false;
    field = ProtobufField();
    field.position = position_;
    const std::uint64_t tag = take_varint();
    field.number = tag >> 3;
    field.wire_type = static_cast<int>(tag & 7);
    if (field.number == 0 || field.number > 536870911) fail(field, "has a number that protobuf forbids");
    if (field.wire_type == 0) {
      field.value = take_varint();
    } else if (field.wire_type == 1) {
      field.value = take_fixed(8);
    } else if (field.wire_type == 5) {
      field.value = take_fixed(4);
    } else if (field.wire_type == 2) {
      const std::uint64_t length = take_varint();
      if (length > rest_.size()) {
        fail(field, "has " + std::to_string(length) + " bytes, but only " + std::to_string(rest_.size()) +
                        " are left: the file is cut off or damaged");
      }
      field.bytes = take(static_cast<std::size_t>(length));
    } else {
      fail(field, "has the unknown wire type " + std::to_string(field.wire_type));
    }
    return true;
  }

 private:
  std::string_view rest_;
  std::size_t position_;

  std::string_view take(std::size_t count) {
    if (count > rest_.size()) {
      throw_error<FormatError>("it ends within a field that begins before byte " + std::to_string(position_) +
                               ": the file is cut off");
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    position_ += count;
    return taken;
  }

  // Seven bits a byte, the lowest first; the highest bit says that more follow.
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = static_cast<unsigned char>(take(1)[0]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw_error<FormatError>("the number that ends at byte " + std::to_string(position_) +
                             " has more than ten bytes");
  }

  // Little-endian.
  std::uint64_t take_fixed(std::size_t count) {
    const std::string_view bytes = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  [[noreturn]] static void fail(const ProtobufField& field, const std::string& what) {
    throw_error<FormatError>("field " + std::to_string(field.number) + " at byte " +
                             std::to_string(field.position) + " " + what);
  }
};

// What a model file says, with the defaults of sentencepiece_model.proto.
struct SentencePieceModel {
  enum Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Entry {
    std::string piece;
    float score = 0;
    std::uint64_t type = normal;
  };

  std::vector<Entry> pieces;
  // trainer_spec
  std::uint64_t model_type = 1;  // 1 unigram, 2 bpe, 3 word, 4 char
  bool treat_whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string unk_surface = " \xE2\x81\x87 ";  // U+2047 between spaces
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  // normalizer_spec and denormalizer_spec
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::string precompiled_charsmap;
  std::string denormalizer_charsmap;
};

// Throws FormatError unless `field` has the wire type that its meaning asks for.
inline void check_wire_type(const ProtobufField& field, int wire_type, const char* name) {
  if (field.wire_type == wire_type) return;
  throw_error<FormatError>(std::string(name) + " at byte " + std::to_string(field.position) +
                           " has wire type " + std::to_string(field.wire_type) + ", expected " +
                           std::to_string(wire_type));
}

inline bool read_bool(const ProtobufField& field, const char* name) {
  check_wire_type(field, 0, name);
  return field.value != 0;
}

inline std::string read_text(const ProtobufField& field, const char* name) {
  check_wire_type(field, 2, name);
  if (!is_utf8(field.bytes) || field.bytes.find('\0') != std::string_view::npos) {
    throw_error<FormatError>(std::string(name) + " at byte " + std::to_string(field.position) +
                             " is not text in UTF-8");
  }
  return std::string(field.bytes);
}

// A reader for the message inside `field`.
inline ProtobufReader read_message(const ProtobufField& field, const char* name, std::string_view file) {
  check_wire_type(field, 2, name);
  return ProtobufReader(field.bytes, static_cast<std::size_t>(field.bytes.data() - file.data()));
}

inline SentencePieceModel::Entry read_piece(ProtobufReader reader) {
  SentencePieceModel::Entry entry;
  ProtobufField field;
  while (reader.next(field)) {
    if (field.number == 1) entry.piece = read_text(field, "piece");
    if (field.number == 2) {
      check_wire_type(field, 5, "score");
      entry.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    }
    if (field.number == 3) {
      check_wire_type(field, 0, "type");
      entry.type = field.value;
    }
  }
  return entry;
}

inline void read_trainer_spec(ProtobufReader reader, SentencePieceModel& model) {
  ProtobufField field;
  while (reader.next(field)) {
    if (field.number == 3) {
      check_wire_type(field, 0, "model_type");
      model.model_type = field.value;
    }
    if (field.number == 24) {
      model.treat_whitespace_as_suffix = read_bool(field, "treat_whitespace_as_suffix");
    }
    if (field.number == 35) model.byte_fallback = read_bool(field, "byte_fallback");
    if (field.number == 44) model.unk_surface = read_text(field, "unk_surface");
    if (field.number == 45) model.unk_piece = read_text(field, "unk_piece");
    if (field.number == 46) model.bos_piece = read_text(field, "bos_piece");
    if (field.number == 47) model.eos_piece = read_text(field, "eos_piece");
    if (field.number == 48) model.pad_piece = read_text(field, "pad_piece");
  }
}

inline void read_normalizer_spec(ProtobufReader reader, SentencePieceModel& model) {
  ProtobufField field;
  while (reader.next(field)) {
    if (field.number == 2) {
      check_wire_type(field, 2, "precompiled_charsmap");
      model.precompiled_charsmap = std::string(field.bytes);
    }
    if (field.number == 3) model.add_dummy_prefix = read_bool(field, "add_dummy_prefix");
    if (field.number == 4) model.remove_extra_whitespaces = read_bool(field, "remove_extra_whitespaces");
    if (field.number == 5) model.escape_whitespaces = read_bool(field, "escape_whitespaces");
  }
}

inline void read_denormalizer_spec(ProtobufReader reader, SentencePieceModel& model) {
  ProtobufField field;
  while (reader.next(field)) {
    if (field.number != 2) continue;
    check_wire_type(field, 2, "precompiled_charsmap");
    model.denormalizer_charsmap = std::string(field.bytes);
  }
}

// The character map of a normalizer: four bytes with the trie's size, the trie, the replacements, each ended
// by a zero byte. The trie is a double array of 32-bit units (darts-clone): the children of unit i are the
// units i ^ offset ^ label whose own label agrees; where bit 8 says that a rule ends, i ^ offset holds the
// rule's replacement. libsentencepiece follows it without looking, and has room for 32 rules that begin
// alike.
class CharsmapCheck {
 public:
  // Throws FormatError where following the map would leave it.
  static void run(std::string_view charsmap) {
    if (charsmap.empty()) return;
    CharsmapCheck check;
    if (charsmap.size() < 8) fail("is too short");
    std::uint32_t trie_bytes = 0;
    std::memcpy(&trie_bytes, charsmap.data(), 4);  // little-endian, as the trie itself
    if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > charsmap.size() - 5)
      fail("has a trie that does not fit into it");
    check.replacement_bytes_ = charsmap.size() - 4 - trie_bytes;
    if (charsmap.back() != '\0') fail("does not end with a zero byte");
    check.units_.resize(trie_bytes / 4);
    std::memcpy(check.units_.data(), charsmap.data() + 4, trie_bytes);
    check.rules_below_.assign(check.units_.size(), unknown);
    if (check.count_rules(offset(check.units_[0]), 0) > 32) fail("has too many rules that begin alike");
  }

 private:
  static constexpr int unknown = -1, being_counted = -2;
  std::vector<std::uint32_t> units_;
  std::vector<int> rules_below_;  // by the position that children are counted from
  std::size_t replacement_bytes_ = 0;

  // The largest number of rules on one way down from the children at `base`.
  int count_rules(std::size_t base, int depth) {
    if (base >= units_.size() || (base | 0xFF) >= units_.size()) fail("points out of its trie");
    if (rules_below_[base] == being_counted || depth > 1000) fail("has a trie that runs in a circle");
    if (rules_below_[base] != unknown) return rules_below_[base];
    rules_below_[base] = being_counted;
    int most = 0;
    for (std::size_t label = 0; label < 256; ++label) {
      const std::size_t child = base ^ label;
      const std::uint32_t unit = units_[child];
      if ((unit & 0x800000FF) != label) continue;
      const std::size_t child_base = child ^ offset(unit);
      int rules = count_rules(child_base, depth + 1);
      if ((unit & 0x100) != 0) {
        rules += 1;
        if ((units_[child_base] & 0x7FFFFFFF) >= replacement_bytes_) fail("points out of its replacements");
      }
      most = (std::max)(most, rules);
    }
    rules_below_[base] = most;
    return most;
  }

  static std::size_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

  [[noreturn]] static void fail(const std::string& what) {
    throw_error<FormatError>("the character map of the normalizer " + what);
  }
};

// Throws FormatError unless each piece is what libsentencepiece expects.
inline void check_pieces(const SentencePieceModel& model) {
  std::set<std::string_view> seen;
  int unknown_pieces = 0, text_pieces = 0, byte_pieces = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Entry& entry = model.pieces[id];
    const std::string where = "piece " + std::to_string(id) + " \"" + entry.piece + "\" ";
    if (entry.piece.empty()) throw_error<FormatError>("piece " + std::to_string(id) + " is empty");
    if (!seen.insert(entry.piece).second) throw_error<FormatError>(where + "is there twice");
    if (!std::isfinite(entry.score) || std::abs(entry.score) > 1e30F)
      throw_error<FormatError>(where + "has a score that is no finite number");
    if (entry.type < SentencePieceModel::normal || entry.type > SentencePieceModel::byte)
      throw_error<FormatError>(where + "has the unknown type " + std::to_string(entry.type));
    if (entry.type == SentencePieceModel::unknown) ++unknown_pieces;
    if (entry.type == SentencePieceModel::normal) ++text_pieces;
    if (entry.type == SentencePieceModel::byte) {
      ++byte_pieces;
      const std::string_view digits = "0123456789ABCDEF";
      const bool named_as_byte = entry.piece.size() == 6 && entry.piece.starts_with("<0x") &&
                                 digits.find(entry.piece[3]) != std::string_view::npos &&
                                 digits.find(entry.piece[4]) != std::string_view::npos &&
                                 entry.piece.ends_with(">");
      if (!named_as_byte) throw_error<FormatError>(where + "is a byte, but not named <0x00> to <0xFF>");
    }
  }
  if (text_pieces == 0) throw_error<FormatError>("it has no pieces of text");
  if (unknown_pieces != 1)
    throw_error<FormatError>("it has " + std::to_string(unknown_pieces) + " unknown pieces, expected one");
  if (byte_pieces != (model.byte_fallback ? 256 : 0)) {
    throw_error<FormatError>("it has " + std::to_string(byte_pieces) + " byte pieces, expected " +
                             (model.byte_fallback ? "256" : "none, since byte_fallback is off"));
  }
}

// Throws FormatError where more than 64 user-defined pieces begin with each other ("a", "aa", ...): so many
// results libsentencepiece has room for.
inline void check_user_defined_pieces(const SentencePieceModel& model) {
  std::vector<std::string_view> sorted;
  for (const SentencePieceModel::Entry& entry : model.pieces) {
    if (entry.type == SentencePieceModel::user_defined) sorted.push_back(entry.piece);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string_view> chain;  // each the beginning of the next
  for (const std::string_view piece : sorted) {
    while (!chain.empty() && !piece.starts_with(chain.back())) chain.pop_back();
    chain.push_back(piece);
    if (chain.size() > 64) throw_error<FormatError>("more than 64 user-defined pieces begin with each other");
  }
}

// Reads and checks the bytes of a model file. Throws FormatError with the reason, without the file's name.
inline SentencePieceModel parse_sentencepiece_model(std::string_view file) {
  SentencePieceModel model;
  ProtobufReader reader(file);
  ProtobufField field;
  while (reader.next(field)) {
    if (field.number == 1) model.pieces.push_back(read_piece(read_message(field, "pieces", file)));
    if (field.number == 2) read_trainer_spec(read_message(field, "trainer_spec", file), model);
    if (field.number == 3) read_normalizer_spec(read_message(field, "normalizer_spec", file), model);
    if (field.number == 5) read_denormalizer_spec(read_message(field, "denormalizer_spec", file), model);
  }
  if (model.model_type < 1 || model.model_type > 4)
    throw_error<FormatError>("it has the unknown model_type " + std::to_string(model.model_type));
  check_pieces(model);
  check_user_defined_pieces(model);
  CharsmapCheck::run(model.precompiled_charsmap);
  CharsmapCheck::run(model.denormalizer_charsmap);
  return model;
}

// What a file that is no SentencePiece model probably is, for the error message; empty: no idea.
inline std::string likely_tokenizer_format(std::string_view file) {
  if (file.starts_with("version https://git-lfs"))
    return "a Git-LFS pointer: fetch the real file with `git lfs pull`";
  if (file.starts_with("GGUF")) return "a GGUF model";
  if (file.starts_with("PK\x03\x04")) return "a zip file or a PyTorch checkpoint";
  const std::size_t first = file.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (file[first] == '{' || file[first] == '['))
    return "JSON, perhaps a tokenizer.json of Hugging Face tokenizers";
  if (first != std::string_view::npos && file[first] == '<') return "a web page";
  // llama2.c: longest piece, then score, length and bytes of each piece
  if (file.size() > 17 && file.substr(8, 9) == std::string_view("\5\0\0\0<unk>", 9))
    return "a tokenizer.bin of llama2.c: give the tokenizer.model it was made from";
  // tiktoken: a line a piece, base64, a space, the rank
  const std::string_view line = file.substr(0, (std::min)(file.find('\n'), file.size()));
  const std::size_t space = line.find(' ');
  const bool two_words = space != std::string_view::npos && space > 0 && space + 1 < line.size();
  if (two_words && line.find_first_not_of("0123456789\r", space + 1) == std::string_view::npos &&
      line.substr(0, space).find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == std::string_view::npos) {
    return "a tiktoken rank file, as of Llama 3";
  }
  return "";
}

}  // namespace glassbox
