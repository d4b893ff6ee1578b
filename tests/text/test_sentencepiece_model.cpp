// text/sentencepiece_model.hpp. Faults that must turn this file red:
//   a field that reaches beyond its message accepted; a varint read in the wrong order; wire types not
//   checked one of the checks on pieces left out: empty, twice, score, type, unknown, bytes, user-defined the
//   character map followed out of its trie, out of its replacements, in a circle, past 32 rules defaults of
//   sentencepiece_model.proto exchanged (add_dummy_prefix, remove_extra_whitespaces: true) a format taken for
//   another in likely_tokenizer_format
#include "glassbox/text/sentencepiece_model.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace glassbox {
namespace text_sentencepiece_model_test {

std::string read_file(const std::string& name) {
  std::ifstream stream(std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/tokenizer-small/" + name,
                       std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  EXPECT_GT(bytes.str().size(), 0u) << name;
  return bytes.str();
}

// Writing protobuf, as far as the tests need it.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7F));
  return bytes + static_cast<char>(value);
}
std::string number_field(std::uint64_t number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string bytes_field(std::uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string float_field(std::uint64_t number, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = varint(number << 3 | 5);
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
  return bytes;
}
std::string piece_field(const std::string& piece, std::uint64_t type, float score = -1.0F) {
  return bytes_field(1, bytes_field(1, piece) + float_field(2, score) + number_field(3, type));
}
const std::string unk = piece_field("<unk>", SentencePieceModel::unknown);
const std::string text = piece_field("a", SentencePieceModel::normal);

std::string reason(const std::string& file) {
  try {
    parse_sentencepiece_model(file);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SentencePieceModel, ReadsTheFields) {
  const std::string trainer = number_field(3, 2) + number_field(24, 1) + bytes_field(44, "?") +
                              bytes_field(45, "[UNK]") + bytes_field(46, "[BOS]") + bytes_field(47, "[EOS]") +
                              bytes_field(48, "[PAD]") + number_field(4, 8000) + float_field(10, 0.5F);
  const std::string normalizer = number_field(3, 0) + number_field(4, 0) + number_field(5, 0);
  const std::string file = unk + piece_field("ab", SentencePieceModel::normal, -2.5F) +
                           piece_field("<s>", SentencePieceModel::control) +
                           piece_field("<x>", SentencePieceModel::user_defined) +
                           piece_field("old", SentencePieceModel::unused) + bytes_field(2, trainer) +
                           bytes_field(3, normalizer) + bytes_field(300, "an extension");
  const SentencePieceModel model = parse_sentencepiece_model(file);
  ASSERT_EQ(model.pieces.size(), 5u);
  EXPECT_EQ(model.pieces[1].piece, "ab");
  EXPECT_EQ(model.pieces[1].score, -2.5F);
  EXPECT_EQ(model.pieces[2].type, SentencePieceModel::control);
  EXPECT_EQ(model.pieces[3].type, SentencePieceModel::user_defined);
  EXPECT_EQ(model.model_type, 2u);
  EXPECT_TRUE(model.treat_whitespace_as_suffix);
  EXPECT_FALSE(model.byte_fallback);
  EXPECT_EQ(model.unk_surface, "?");
  EXPECT_EQ(model.unk_piece, "[UNK]");
  EXPECT_EQ(model.bos_piece, "[BOS]");
  EXPECT_EQ(model.eos_piece, "[EOS]");
  EXPECT_EQ(model.pad_piece, "[PAD]");
  EXPECT_FALSE(model.add_dummy_prefix);
  EXPECT_FALSE(model.remove_extra_whitespaces);
  EXPECT_FALSE(model.escape_whitespaces);
}

TEST(SentencePieceModel, DefaultsOfTheProtoFile) {
  const SentencePieceModel model = parse_sentencepiece_model(unk + bytes_field(1, bytes_field(1, "a")));
  EXPECT_EQ(model.pieces[1].type, SentencePieceModel::normal);
  EXPECT_EQ(model.pieces[1].score, 0.0F);
  EXPECT_EQ(model.model_type, 1u);
  EXPECT_FALSE(model.treat_whitespace_as_suffix);
  EXPECT_FALSE(model.byte_fallback);
  EXPECT_EQ(model.unk_surface, " \xE2\x81\x87 ");
  EXPECT_EQ(model.unk_piece, "<unk>");
  EXPECT_EQ(model.bos_piece, "<s>");
  EXPECT_EQ(model.eos_piece, "</s>");
  EXPECT_EQ(model.pad_piece, "<pad>");
  EXPECT_TRUE(model.add_dummy_prefix);
  EXPECT_TRUE(model.remove_extra_whitespaces);
  EXPECT_TRUE(model.escape_whitespaces);
}

TEST(SentencePieceModel, ReadsWhatSpmTrainWrites) {
  const SentencePieceModel llama_like = parse_sentencepiece_model(read_file("llama_like.model"));
  EXPECT_EQ(llama_like.pieces.size(), 420u);
  EXPECT_EQ(llama_like.pieces[1].piece, "<s>");
  EXPECT_EQ(llama_like.pieces[3].piece, "<0x00>");
  EXPECT_EQ(llama_like.model_type, 2u);
  EXPECT_TRUE(llama_like.byte_fallback);
  EXPECT_TRUE(llama_like.add_dummy_prefix);
  EXPECT_FALSE(llama_like.remove_extra_whitespaces);
  EXPECT_EQ(llama_like.precompiled_charsmap, "");
  const SentencePieceModel unigram = parse_sentencepiece_model(read_file("unigram.model"));
  EXPECT_EQ(unigram.model_type, 1u);
  EXPECT_FALSE(unigram.byte_fallback);
  EXPECT_TRUE(unigram.remove_extra_whitespaces);
  EXPECT_GT(unigram.precompiled_charsmap.size(), 1024u);
}

TEST(SentencePieceModel, RefusesWhatIsNoProtobuf) {
  EXPECT_EQ(reason(unk.substr(0, unk.size() - 1)),
            "field 1 at byte 0 has 14 bytes, but only 13 are left: the file is cut off or damaged");
  EXPECT_EQ(reason(unk + bytes_field(2, bytes_field(44, "abc").substr(0, 5))),
            "field 44 at byte 18 has 3 bytes, but only 2 are left: the file is cut off or damaged");
  EXPECT_EQ(reason(unk + text + varint(4 << 3)),
            "it ends within a field that begins before byte 29: the file is cut off");
  EXPECT_EQ(reason(unk + text + varint(4 << 3 | 5) + "123"),
            "it ends within a field that begins before byte 29: the file is cut off");
  EXPECT_EQ(reason(unk + varint(4 << 3) + std::string(10, '\xFF')),
            "the number that ends at byte 27 has more than ten bytes");
  EXPECT_EQ(reason(std::string(2, '\0')), "field 0 at byte 0 has a number that protobuf forbids");
  EXPECT_EQ(reason(varint(std::uint64_t{1} << 32) + "x"),
            "field 536870912 at byte 0 has a number that protobuf forbids");
  EXPECT_EQ(reason(varint(4 << 3 | 3)), "field 4 at byte 0 has the unknown wire type 3");
}

TEST(SentencePieceModel, RefusesWrongWireTypes) {
  EXPECT_EQ(reason(number_field(1, 7)), "pieces at byte 0 has wire type 0, expected 2");
  EXPECT_EQ(reason(bytes_field(1, number_field(1, 7))), "piece at byte 2 has wire type 0, expected 2");
  EXPECT_EQ(reason(bytes_field(1, number_field(2, 7))), "score at byte 2 has wire type 0, expected 5");
  EXPECT_EQ(reason(bytes_field(1, bytes_field(3, "x"))), "type at byte 2 has wire type 2, expected 0");
  EXPECT_EQ(reason(bytes_field(2, bytes_field(3, "x"))), "model_type at byte 2 has wire type 2, expected 0");
  EXPECT_EQ(reason(bytes_field(2, bytes_field(35, "x"))),
            "byte_fallback at byte 2 has wire type 2, expected 0");
  EXPECT_EQ(reason(bytes_field(3, number_field(2, 1))),
            "precompiled_charsmap at byte 2 has wire type 0, expected 2");
  EXPECT_EQ(reason(bytes_field(5, number_field(2, 1))),
            "precompiled_charsmap at byte 2 has wire type 0, expected 2");
  EXPECT_EQ(reason(number_field(2, 1)), "trainer_spec at byte 0 has wire type 0, expected 2");
  EXPECT_EQ(reason(number_field(3, 1)), "normalizer_spec at byte 0 has wire type 0, expected 2");
  EXPECT_EQ(reason(number_field(5, 1)), "denormalizer_spec at byte 0 has wire type 0, expected 2");
}

TEST(SentencePieceModel, RefusesWrongPieces) {
  EXPECT_EQ(reason(unk), "it has no pieces of text");
  EXPECT_EQ(reason(text), "it has 0 unknown pieces, expected one");
  EXPECT_EQ(reason(unk + text + piece_field("?", 2)), "it has 2 unknown pieces, expected one");
  EXPECT_EQ(reason(unk + text + piece_field("", 1)), "piece 2 is empty");
  EXPECT_EQ(reason(unk + text + text), "piece 2 \"a\" is there twice");
  EXPECT_EQ(reason(unk + text + piece_field("a", 3)), "piece 2 \"a\" is there twice");
  EXPECT_EQ(reason(unk + piece_field("b", 1, std::nanf(""))),
            "piece 1 \"b\" has a score that is no finite number");
  EXPECT_EQ(reason(unk + piece_field("b", 1, 2e30F)), "piece 1 \"b\" has a score that is no finite number");
  EXPECT_EQ(reason(unk + piece_field("b", 1, -1e30F)), "accepted");
  EXPECT_EQ(reason(unk + piece_field("b", 0)), "piece 1 \"b\" has the unknown type 0");
  EXPECT_EQ(reason(unk + piece_field("b", 7)), "piece 1 \"b\" has the unknown type 7");
  EXPECT_EQ(reason(unk + piece_field("b\xFF", 1)), "piece at byte 18 is not text in UTF-8");
  EXPECT_EQ(reason(unk + piece_field(std::string("b\0", 2), 1)), "piece at byte 18 is not text in UTF-8");
  EXPECT_EQ(reason(unk + text + bytes_field(2, bytes_field(44, "\xE4"))),
            "unk_surface at byte 30 is not text in UTF-8");
  EXPECT_EQ(reason(unk + text + bytes_field(2, number_field(3, 5))), "it has the unknown model_type 5");
}

TEST(SentencePieceModel, RefusesWrongBytePieces) {
  const std::string with_fallback = unk + text + bytes_field(2, number_field(35, 1));
  EXPECT_EQ(reason(with_fallback), "it has 0 byte pieces, expected 256");
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    if (byte == 255) {
      EXPECT_EQ(reason(with_fallback + all_bytes), "it has 255 byte pieces, expected 256");
    }
    all_bytes += piece_field(name, 6);
  }
  EXPECT_EQ(reason(with_fallback + all_bytes), "accepted");
  EXPECT_EQ(reason(unk + text + all_bytes),
            "it has 256 byte pieces, expected none, since byte_fallback is off");
  for (const std::string name : {"<0x4g>", "<0xaB>", "<0xA>", "<0xABC>", "0xAB", "(0xAB>", "<0xAB)"}) {
    EXPECT_EQ(reason(with_fallback + piece_field(name, 6)),
              "piece 2 \"" + name + "\" is a byte, but not named <0x00> to <0xFF>");
  }
}

TEST(SentencePieceModel, RefusesTooManyUserDefinedPiecesThatBeginAlike) {
  std::string file = unk + text;
  for (int length = 1; length <= 64; ++length) {
    file += piece_field(std::string(static_cast<std::size_t>(length), 'x'), 4);
    file += piece_field("y" + std::to_string(length), 4);
  }
  EXPECT_EQ(reason(file), "accepted");
  EXPECT_EQ(reason(file + piece_field(std::string(65, 'x'), 4)),
            "more than 64 user-defined pieces begin with each other");
}

// ---- the character map ----

// One rule, "A" becomes "a", in a trie of 256 units: the root counts its children from 0, "A" its own from 2.
struct Charsmap {
  static constexpr std::uint32_t unused = 0x80000000u;  // has no label
  std::vector<std::uint32_t> units = std::vector<std::uint32_t>(256, unused);
  std::string replacements = std::string("a\0", 2);

  static std::uint32_t unit(std::uint32_t label, std::uint32_t offset, bool rule_ends) {
    return offset << 10 | (rule_ends ? 0x100u : 0u) | label;
  }
  // A node in the trie: the child `label` of the children counted from `base`, its own counted from `next`.
  void node(std::uint32_t base, char character, std::uint32_t next, bool rule_ends) {
    const std::uint32_t label = static_cast<unsigned char>(character);
    units[base ^ label] = unit(label, (base ^ label) ^ next, rule_ends);
  }
  void value(std::uint32_t base, std::uint32_t replacement) { units[base] = 0x80000000u | replacement; }

  std::string bytes() const {
    const std::uint32_t size = static_cast<std::uint32_t>(units.size() * 4);
    std::string blob(4 + size, '\0');
    std::memcpy(blob.data(), &size, 4);
    std::memcpy(blob.data() + 4, units.data(), size);
    return blob + replacements;
  }
  std::string verdict() const { return verdict_of(bytes()); }
  static std::string verdict_of(const std::string& blob) {
    const std::string with_map = unk + text + bytes_field(3, bytes_field(2, blob));
    const std::string with_both = unk + text + bytes_field(5, bytes_field(2, blob));
    EXPECT_EQ(reason(with_map), reason(with_both)) << "the denormalizer's is checked alike";
    return reason(with_map);
  }
};

Charsmap one_rule() {
  Charsmap map;
  map.units[0] = Charsmap::unit(0, 0x100, false);  // children are counted from 0x100
  map.units.resize(512, Charsmap::unused);
  map.node(0x100, 'A', 2, true);
  map.value(2, 0);
  return map;
}

const std::string prefix = "the character map of the normalizer ";

TEST(SentencePieceCharsmap, AcceptsARule) {
  EXPECT_EQ(one_rule().verdict(), "accepted");
  const std::string unigram = read_file("unigram.model");
  EXPECT_EQ(reason(unigram), "accepted");
}

TEST(SentencePieceCharsmap, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(Charsmap::verdict_of("1234567"), prefix + "is too short");
  std::string blob = one_rule().bytes();
  EXPECT_EQ(Charsmap::verdict_of(blob.substr(0, blob.size() - 2)),
            prefix + "has a trie that does not fit into it");
  EXPECT_EQ(Charsmap::verdict_of(std::string(8, '\0')), prefix + "has a trie that does not fit into it");
  blob[0] = 1;
  EXPECT_EQ(Charsmap::verdict_of(blob), prefix + "has a trie that does not fit into it");
  blob[0] = 0;
  blob[3] = 1;
  EXPECT_EQ(Charsmap::verdict_of(blob), prefix + "has a trie that does not fit into it");
  Charsmap map = one_rule();
  map.replacements = "a";
  EXPECT_EQ(map.verdict(), prefix + "does not end with a zero byte");
}

TEST(SentencePieceCharsmap, RefusesToLeaveTheTrie) {
  Charsmap map = one_rule();
  map.units[0] = Charsmap::unit(0, 0x200, false);
  EXPECT_EQ(map.verdict(), prefix + "points out of its trie");
  map = one_rule();
  map.units.resize(511);
  EXPECT_EQ(map.verdict(), prefix + "points out of its trie");
  map = one_rule();
  map.node(0x100, 'A', 0x200, false);
  EXPECT_EQ(map.verdict(), prefix + "points out of its trie");
  map = one_rule();
  map.units[0] |= 0x200;  // the offset counts in units of 256
  EXPECT_EQ(map.verdict(), prefix + "points out of its trie");
}

TEST(SentencePieceCharsmap, RefusesToLeaveTheReplacements) {
  Charsmap map = one_rule();
  map.value(2, 1);
  EXPECT_EQ(map.verdict(), "accepted");
  map.value(2, 2);
  EXPECT_EQ(map.verdict(), prefix + "points out of its replacements");
}

TEST(SentencePieceCharsmap, RefusesCirclesAndLongChains) {
  Charsmap map = one_rule();
  map.node(0x100, 'B', 0x100, false);
  EXPECT_EQ(map.verdict(), prefix + "has a trie that runs in a circle");
  // "A", "AA", "AAA", ...: 32 rules are accepted, 33 are not.
  for (std::uint32_t rules = 31; rules <= 33; ++rules) {
    Charsmap chain;
    chain.units.resize(256 * (rules + 2), Charsmap::unused);
    chain.units[0] = Charsmap::unit(0, 0x100, false);
    for (std::uint32_t i = 1; i <= rules; ++i) {
      chain.node(0x100 * i, 'A', 0x100 * (i + 1), true);
      chain.value(0x100 * (i + 1), 0);
    }
    EXPECT_EQ(chain.verdict(), rules <= 32 ? "accepted" : prefix + "has too many rules that begin alike");
  }
}

// ---- what a wrong file probably is ----

TEST(SentencePieceModel, LikelyFormats) {
  EXPECT_EQ(likely_tokenizer_format("IQ== 0\nIg== 1\n"), "a tiktoken rank file, as of Llama 3");
  EXPECT_EQ(likely_tokenizer_format("IQ== 0\r\n"), "a tiktoken rank file, as of Llama 3");
  EXPECT_EQ(likely_tokenizer_format("IQ==\n"), "");
  EXPECT_EQ(likely_tokenizer_format("two words\n"), "");
  EXPECT_EQ(likely_tokenizer_format(" 0\n"), "");
  EXPECT_EQ(likely_tokenizer_format("{\"model\": 1}"),
            "JSON, perhaps a tokenizer.json of Hugging Face tokenizers");
  EXPECT_EQ(likely_tokenizer_format(" \n[1]"), "JSON, perhaps a tokenizer.json of Hugging Face tokenizers");
  EXPECT_EQ(likely_tokenizer_format("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"),
            "a Git-LFS pointer: fetch the real file with `git lfs pull`");
  EXPECT_EQ(likely_tokenizer_format("GGUF\3"), "a GGUF model");
  EXPECT_EQ(likely_tokenizer_format("PK\3\4..."), "a zip file or a PyTorch checkpoint");
  EXPECT_EQ(likely_tokenizer_format("<!DOCTYPE html>"), "a web page");
  EXPECT_EQ(likely_tokenizer_format(std::string("\7\0\0\0\0\0\0\0\5\0\0\0<unk>rest", 21)),
            "a tokenizer.bin of llama2.c: give the tokenizer.model it was made from");
  EXPECT_EQ(likely_tokenizer_format(""), "");
  EXPECT_EQ(likely_tokenizer_format("\x0A\x0E"), "");
}

}  // namespace text_sentencepiece_model_test
}  // namespace glassbox
