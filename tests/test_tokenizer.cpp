// tokenizer.hpp. Faults that must turn this file red:
//   push() returns bytes that are not a whole character; flush() forgets them, or writes one U+FFFD for all
//   the space of the first piece kept, or the space of every piece dropped
//   a control piece shown, or the beginning and the end of a character joined across it
//   a padded id that breaks a character, or that throws; the id vocab_size() accepted
//   the begin token doubled, or missing; the end token added where the configuration says no
#include "glassbox/tokenizer.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace glassbox {
namespace tokenizer_test {

const std::string replacement = "\xEF\xBF\xBD";

// A vocabulary of 300 ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then a few words; 268 and above are
// padding. Text is cut into its bytes, which suffices here.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr TokenId a_hello = 259, world = 260, a_space = 261, comma = 262, ni = 263, name = 264,
                           unused = 265, partial = 266, rest = 267, padded = 268;

  explicit ByteTokenizer(bool drops_every_leading_space = false) {
    drops_every_leading_space_ = drops_every_leading_space;
    entries_ = {{"<unk>", " ? ", PieceKind::unknown, false},
                {"<s>", "", PieceKind::control, false},
                {"</s>", "", PieceKind::control, false}};
    for (int byte = 0; byte < 256; ++byte) {
      const std::string bytes(1, static_cast<char>(byte));
      entries_.push_back({"byte " + std::to_string(byte), bytes, PieceKind::byte, false});
    }
    entries_.push_back({"_hello", " hello", PieceKind::normal, true});
    entries_.push_back({"_world", " world", PieceKind::normal, true});
    entries_.push_back({"_", " ", PieceKind::normal, true});
    entries_.push_back({",", ",", PieceKind::normal, false});
    entries_.push_back({"ni", "\xE4\xBD\xA0", PieceKind::normal, false});
    entries_.push_back({"<name>", "<name>", PieceKind::user_defined, false});
    entries_.push_back({"_unused", " unused", PieceKind::unused, true});
    entries_.push_back({"partial", "x\xE4\xBD", PieceKind::normal, false});  // as byte-level BPE has them
    entries_.push_back({"rest", "\xA0y", PieceKind::normal, false});
    vocab_size_ = 300;
    unk_id_ = 0;
    bos_id_ = 1;
    eos_id_ = 2;
    add_bos_token_ = true;
  }

  std::vector<TokenId> encode(const std::string& text) const override {
    std::vector<TokenId> ids;
    for (const char byte : text) ids.push_back(3 + static_cast<unsigned char>(byte));
    return ids;
  }

  void configure(bool add_bos, bool add_eos, TokenId bos = 1, TokenId eos = 2) {
    add_bos_token_ = add_bos;
    add_eos_token_ = add_eos;
    bos_id_ = bos;
    eos_id_ = eos;
  }
};

using T = ByteTokenizer;
using Ids = std::vector<TokenId>;

TokenId byte_id(int byte) { return 3 + byte; }

std::string message_of(const ByteTokenizer& tokenizer, const Ids& ids) {
  try {
    tokenizer.decode(ids);
  } catch (const TokenError& error) {
    return error.what();
  }
  return "no TokenError";
}

TEST(Tokenizer, TheTable) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 300);
  EXPECT_EQ(tokenizer.piece_count(), 268);
  EXPECT_EQ(tokenizer.piece(T::a_hello), "_hello");
  EXPECT_EQ(tokenizer.piece_bytes(T::a_hello), " hello");
  EXPECT_EQ(tokenizer.piece_kind(T::a_hello), PieceKind::normal);
  EXPECT_EQ(tokenizer.piece_kind(byte_id(7)), PieceKind::byte);
  EXPECT_EQ(tokenizer.piece_kind(1), PieceKind::control);
  EXPECT_EQ(tokenizer.find_piece(","), T::comma);
  EXPECT_EQ(tokenizer.find_piece("no such piece"), -1);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_EQ(tokenizer.pad_id(), -1);
}

TEST(Tokenizer, DecodeDropsTheFirstSpaceOnly) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode({T::a_hello, T::a_hello}), "hello hello");
  EXPECT_EQ(tokenizer.decode({T::a_space, T::a_hello}), " hello");
  EXPECT_EQ(tokenizer.decode({T::comma, T::a_hello}), ", hello");
  EXPECT_EQ(tokenizer.decode({T::ni, T::a_hello}), "\xE4\xBD\xA0 hello");
  EXPECT_EQ(tokenizer.decode({byte_id('!'), T::a_hello}), "! hello");
  EXPECT_EQ(tokenizer.decode({byte_id(' '), T::a_hello}), "  hello");
  EXPECT_EQ(tokenizer.decode({1, T::a_hello}), "hello") << "the begin token is not text";
  EXPECT_EQ(tokenizer.decode({T::padded, T::a_hello}), "hello") << "nor is a padded id";
  EXPECT_EQ(tokenizer.decode({0, T::a_hello}), " ?  hello");
  EXPECT_EQ(tokenizer.decode({T::unused, T::name}), "unused<name>");
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(Tokenizer, DecodeDropsEveryLeadingSpaceWhereTheModelSays) {
  const ByteTokenizer tokenizer(true);
  EXPECT_EQ(tokenizer.decode({T::a_space, T::a_space, T::a_hello, T::a_space, T::a_hello}), "hello  hello");
  EXPECT_EQ(tokenizer.decode({T::a_space, 1, T::a_hello}), "hello");
  EXPECT_EQ(tokenizer.decode({byte_id(' '), T::a_hello}), "  hello") << "a byte is taken as it is";
}

TEST(Tokenizer, DecodeOfBytes) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode({byte_id(0xE4), byte_id(0xBD), byte_id(0xA0)}), "\xE4\xBD\xA0");
  EXPECT_EQ(tokenizer.decode({byte_id(0xE4), byte_id(0xBD)}), replacement + replacement);
  EXPECT_EQ(tokenizer.decode({byte_id(0xE4), byte_id(0xBD), T::comma}), replacement + replacement + ",");
  EXPECT_EQ(tokenizer.decode({byte_id(0xA0)}), replacement);
  EXPECT_EQ(tokenizer.decode({byte_id(0)}), std::string(1, '\0'));
  EXPECT_EQ(tokenizer.decode({byte_id(0xE4), 2, byte_id(0xBD), byte_id(0xA0)}),
            replacement + replacement + replacement)
      << "no character reaches across a control piece";
  EXPECT_EQ(tokenizer.decode({byte_id(0xE4), T::padded, byte_id(0xBD), byte_id(0xA0)}), "\xE4\xBD\xA0")
      << "a padded id is nothing at all";
  EXPECT_EQ(tokenizer.decode({T::partial, T::rest}), "x\xE4\xBD\xA0y");
}

TEST(Tokenizer, IdsAreCheckedBeforeUse) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode({T::a_hello, 268}), "hello");
  EXPECT_EQ(tokenizer.decode({T::a_hello, 299}), "hello");
  EXPECT_EQ(tokenizer.piece(299), "");
  EXPECT_EQ(tokenizer.piece_kind(299), PieceKind::padding);
  EXPECT_EQ(message_of(tokenizer, {300}), "Tokenizer: id 300 is not in 0..299 (vocab_size 300)");
  EXPECT_EQ(message_of(tokenizer, {-1}), "Tokenizer: id -1 is not in 0..299 (vocab_size 300)");
  EXPECT_THROW(tokenizer.piece(300), TokenError);
  EXPECT_THROW(tokenizer.piece_kind(TokenId{1} << 40), TokenError);
  StreamingDecoder decoder(tokenizer);
  EXPECT_THROW(decoder.push(300), TokenError);
}

TEST(Tokenizer, BeginAndEndTokens) {
  ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.encode_with_special_tokens("a"), (Ids{1, byte_id('a')}));
  EXPECT_EQ(tokenizer.encode_with_special_tokens(""), (Ids{1}));
  EXPECT_EQ(tokenizer.encode("a"), (Ids{byte_id('a')})) << "plain";
  EXPECT_EQ(tokenizer.add_special_tokens({1, 70}), (Ids{1, 70})) << "not doubled";
  EXPECT_EQ(tokenizer.add_special_tokens({70, 1}), (Ids{1, 70, 1}));
  tokenizer.configure(true, true);
  EXPECT_EQ(tokenizer.add_special_tokens({70}), (Ids{1, 70, 2}));
  EXPECT_EQ(tokenizer.add_special_tokens({1, 70, 2}), (Ids{1, 70, 2})) << "not doubled";
  EXPECT_EQ(tokenizer.add_special_tokens({}), (Ids{1, 2}));
  tokenizer.configure(false, true);
  EXPECT_EQ(tokenizer.add_special_tokens({70}), (Ids{70, 2}));
  tokenizer.configure(false, false);
  EXPECT_EQ(tokenizer.add_special_tokens({70}), (Ids{70}));
  tokenizer.configure(true, true, -1, -1);
  EXPECT_EQ(tokenizer.add_special_tokens({70}), (Ids{70})) << "a vocabulary without them";
}

// What push() returns for each id, then what flush() returns.
std::vector<std::string> stream(const Tokenizer& tokenizer, const Ids& ids) {
  StreamingDecoder decoder(tokenizer);
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.push_back(decoder.push(id));
  texts.push_back(decoder.flush());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(StreamingDecoder, HoldsBytesBackUntilACharacterIsWhole) {
  const ByteTokenizer tokenizer;
  const Ids emoji = {byte_id(0xF0), byte_id(0x9F), byte_id(0xA6), byte_id(0x99)};
  EXPECT_EQ(stream(tokenizer, emoji), (Texts{"", "", "", "\xF0\x9F\xA6\x99", ""}));
  const Ids ni_hao = {byte_id(0xE4), byte_id(0xBD), byte_id(0xA0),
                      byte_id(0xE5), byte_id(0xA5), byte_id(0xBD)};
  EXPECT_EQ(stream(tokenizer, ni_hao), (Texts{"", "", "\xE4\xBD\xA0", "", "", "\xE5\xA5\xBD", ""}));
  EXPECT_EQ(stream(tokenizer, {T::partial, T::rest}), (Texts{"x", "\xE4\xBD\xA0y", ""}));
}

TEST(StreamingDecoder, LosesNoSpace) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(stream(tokenizer, {T::a_hello, T::world, T::comma}), (Texts{"hello", " world", ",", ""}));
  EXPECT_EQ(stream(tokenizer, {1, T::a_hello, T::world}), (Texts{"", "hello", " world", ""}));
}

TEST(StreamingDecoder, FlushWritesOneReplacementForEachByteHeldBack) {
  const ByteTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push({byte_id(0xF0), byte_id(0x9F)}), "");
  EXPECT_EQ(decoder.pending(), "\xF0\x9F");
  EXPECT_EQ(decoder.flush(), replacement + replacement);
  EXPECT_EQ(decoder.pending(), "");
  EXPECT_EQ(decoder.flush(), "");
  EXPECT_EQ(decoder.push(T::a_hello), " hello") << "the text goes on";
}

TEST(StreamingDecoder, GivesUpOnBytesThatCanNoLongerBecomeACharacter) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(stream(tokenizer, {byte_id(0xE4), T::comma}), (Texts{"", replacement + ",", ""}));
  EXPECT_EQ(stream(tokenizer, {byte_id(0xFF)}), (Texts{replacement, ""}));
  EXPECT_EQ(stream(tokenizer, {byte_id(0xED), byte_id(0xA0)}), (Texts{"", replacement + replacement, ""}));
  EXPECT_EQ(stream(tokenizer, {byte_id(0xF0), byte_id(0x9F), byte_id(0xE4), byte_id(0xBD), byte_id(0xA0)}),
            (Texts{"", "", replacement + replacement, "", "\xE4\xBD\xA0", ""}));
  EXPECT_EQ(stream(tokenizer, {byte_id(0xE4), 2, T::comma}), (Texts{"", replacement, ",", ""}));
}

// Only whole characters, never more than three bytes held back, and together exactly decode(): whatever the
// ids are, and wherever the prompt ends.
TEST(StreamingDecoder, RandomIdsEqualDecode) {
  std::mt19937 random(1);
  const Ids favourites = {byte_id(0xE4), byte_id(0xBD), byte_id(0xA0), byte_id(0xF0),
                          byte_id(0x9F), byte_id(0xC3), T::a_space,    T::a_hello,
                          T::partial,    T::rest,       T::padded,     1};
  for (int round = 0; round < 4000; ++round) {
    const ByteTokenizer tokenizer(round % 2 == 0);
    Ids ids;
    const std::size_t length = random() % 12;
    for (std::size_t i = 0; i < length; ++i) {
      const bool favourite = random() % 2 == 0;
      ids.push_back(favourite ? favourites[random() % favourites.size()]
                              : static_cast<TokenId>(random() % 300));
    }
    const std::string whole = tokenizer.decode(ids);
    StreamingDecoder decoder(tokenizer);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string text = decoder.push(id);
      ASSERT_TRUE(is_utf8(text));
      ASSERT_LE(decoder.pending().size(), 3u);
      streamed += text;
    }
    streamed += decoder.flush();
    ASSERT_EQ(streamed, whole);
    for (std::size_t split = 0; split <= ids.size(); ++split) {
      StreamingDecoder again(tokenizer);
      const Ids prompt(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(split));
      const Ids continuation(ids.begin() + static_cast<std::ptrdiff_t>(split), ids.end());
      const std::string prompt_text = again.push(prompt);
      const std::string continuation_text = again.push(continuation);
      ASSERT_EQ(prompt_text + continuation_text + again.flush(), whole) << "split at " << split;
    }
  }
}

// decode() is made of a StreamingDecoder; this is the same told in another way: join the bytes, then repair.
TEST(StreamingDecoder, RandomBytesEqualAPlainRepair) {
  const ByteTokenizer tokenizer;
  std::mt19937 random(2);
  for (int round = 0; round < 4000; ++round) {
    Ids ids;
    std::string bytes;
    const std::size_t length = random() % 10;
    for (std::size_t i = 0; i < length; ++i) {
      const unsigned choices[] = {0x41, 0xC3, 0xE4, 0xED, 0xF0, 0xF4, 0x80,
                                  0x8F, 0x9F, 0xA0, 0xBD, 0xBF, 0xFF};
      const unsigned byte = random() % 4 == 0 ? random() % 256 : choices[random() % 13];
      ids.push_back(byte_id(static_cast<int>(byte)));
      bytes += static_cast<char>(byte);
    }
    std::string expected;
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t longest = 0;
      for (std::size_t n = 1; n <= 4 && at + n <= bytes.size(); ++n) {
        if (utf8_character_length(bytes.substr(at, n)) == static_cast<int>(n)) longest = n;
      }
      expected += longest == 0 ? replacement : bytes.substr(at, longest);
      at += longest == 0 ? 1 : longest;
    }
    ASSERT_EQ(tokenizer.decode(ids), expected);
  }
}

}  // namespace tokenizer_test
}  // namespace glassbox
