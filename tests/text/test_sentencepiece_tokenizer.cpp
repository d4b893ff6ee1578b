// text/sentencepiece_tokenizer.hpp. Faults that must turn this file red:
//   a piece's U+2581 not turned into a space, or only its first one
//   decode() unlike libsentencepiece's own for any sequence of ids, with and without remove_extra_whitespaces
//   bos_id, eos_id, unk_id or pad_id exchanged; a special token of the configuration ignored
//   a vocabulary larger than the model's accepted; ids asked of libsentencepiece beyond its pieces
//   a wrong file that is not named, or called corrupt where it is something else
// The tokenizers of Llama 2 and of stories260k are not part of this repository: see GLASSBOX_REFERENCE.
#include "glassbox/text/sentencepiece_tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace glassbox {
namespace text_sentencepiece_tokenizer_test {

using Ids = std::vector<TokenId>;

const std::string folder = std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/tokenizer-small/";
const std::string llama_like = folder + "llama_like.model";
const std::string unigram = folder + "unigram.model";
const std::string mark = "\xE2\x96\x81";  // U+2581
const std::string replacement = "\xEF\xBF\xBD";
const std::string ni_hao = "\xE4\xBD\xA0\xE5\xA5\xBD";
const std::string llama_emoji = "\xF0\x9F\xA6\x99";

// The path of a file of the reference data; empty where that is absent.
std::string reference_file(const std::string& name) {
  const char* reference = std::getenv("GLASSBOX_REFERENCE");
  const std::string path = reference == nullptr ? "" : std::string(reference) + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

// A file in the tests' temporary folder, removed at the end.
struct TemporaryFile {
  std::string path;
  TemporaryFile(const std::string& name, const std::string& bytes) : path(::testing::TempDir() + name) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

template <typename ErrorType, typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing thrown";
}

std::string load_error(const std::string& path) {
  return message_of<FormatError>([&] { SentencePieceTokenizer tokenizer(path); });
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> result;
  for (const TokenId id : ids) result.push_back(tokenizer.piece(id));
  return result;
}

TEST(SentencePieceTokenizer, TheTableOfALlamaLikeModel) {
  const SentencePieceTokenizer tokenizer(llama_like);
  EXPECT_EQ(tokenizer.vocab_size(), 420);
  EXPECT_EQ(tokenizer.piece_count(), 420);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), -1);
  EXPECT_TRUE(tokenizer.add_bos_token()) << "LlamaTokenizer's default";
  EXPECT_FALSE(tokenizer.add_eos_token());
  EXPECT_EQ(tokenizer.piece_kind(0), PieceKind::unknown);
  EXPECT_EQ(tokenizer.piece_bytes(0), " \xE2\x81\x87 ");
  EXPECT_EQ(tokenizer.piece_kind(1), PieceKind::control);
  EXPECT_EQ(tokenizer.piece_bytes(1), "");
  EXPECT_EQ(tokenizer.piece(3 + 0xE4), "<0xE4>");
  EXPECT_EQ(tokenizer.piece_bytes(3 + 0xE4), "\xE4");
  EXPECT_EQ(tokenizer.piece_kind(3 + 0xE4), PieceKind::byte);
  const TokenId fox = tokenizer.find_piece(mark + "fox");
  ASSERT_GE(fox, 0);
  EXPECT_EQ(tokenizer.piece_bytes(fox), " fox");
  EXPECT_EQ(tokenizer.piece_kind(fox), PieceKind::normal);
}

// Each U+2581 of a piece is a space, not the first one only.
TEST(SentencePieceTokenizer, APieceOfTwoSpaces) {
  std::ostringstream whole;
  whole << std::ifstream(llama_like, std::ios::binary).rdbuf();
  const std::string piece =
      std::string("\x0A\x0F\x0A\x06") + mark + mark + std::string("\x15\0\0\0\0\x18\x01", 7);
  const SentencePieceTokenizer tokenizer(whole.str() + piece, "with two spaces", {}, 0);
  ASSERT_EQ(tokenizer.piece(420), mark + mark);
  EXPECT_EQ(tokenizer.piece_bytes(420), "  ");
  EXPECT_EQ(tokenizer.decode({261, 420, 261}), "the   the");
}

TEST(SentencePieceTokenizer, TheTableOfAUnigramModel) {
  const SentencePieceTokenizer tokenizer(unigram);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.pad_id(), 3);
  EXPECT_EQ(tokenizer.piece_kind(tokenizer.find_piece("<sep>")), PieceKind::control);
  EXPECT_EQ(tokenizer.piece_kind(tokenizer.find_piece("<name>")), PieceKind::user_defined);
}

TEST(SentencePieceTokenizer, EncodesWithByteFallback) {
  const SentencePieceTokenizer tokenizer(llama_like);
  EXPECT_EQ(tokenizer.encode("the fox"), (Ids{261, 343}));
  EXPECT_EQ(tokenizer.encode_with_special_tokens("the fox"), (Ids{1, 261, 343}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode_with_special_tokens(""), (Ids{1}));
  EXPECT_EQ(tokenizer.encode(ni_hao), (Ids{356, 231, 192, 163, 232, 168, 192}));
  EXPECT_EQ(tokenizer.encode(llama_emoji), (Ids{356, 243, 162, 169, 156}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  two  spaces ")), "  two  spaces ") << "spaces kept";
  EXPECT_EQ(tokenizer.encode(mark + "the"), tokenizer.encode(" the")) << "U+2581 counts as a space";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(mark + "the")), " the");
  EXPECT_EQ(tokenizer.encode(std::string("\0", 1)), (Ids{356, 3})) << "a zero byte is a byte";
  EXPECT_EQ(tokenizer.decode({356, 3}), std::string("\0", 1));
}

// What is not UTF-8 becomes U+FFFD, byte by byte.
TEST(SentencePieceTokenizer, EncodesInvalidUtf8) {
  const SentencePieceTokenizer tokenizer(llama_like);
  EXPECT_EQ(tokenizer.encode("\xFF"), tokenizer.encode(replacement));
  EXPECT_EQ(tokenizer.encode("a\xE4\xBD"), tokenizer.encode("a" + replacement + replacement));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xE4\xBD")), "a" + replacement + replacement);
}

TEST(SentencePieceTokenizer, NormalisesAsTheModelSays) {
  const SentencePieceTokenizer tokenizer(unigram);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  two  spaces ")), "two spaces");
  EXPECT_EQ(tokenizer.encode("AB"), tokenizer.encode("ab"));
  EXPECT_EQ(tokenizer.encode("\xEF\xAC\x81\xE2\x80\xA6"), tokenizer.encode("fi..."));
  EXPECT_EQ(tokenizer.encode("x\xE3\x80\x80y"), tokenizer.encode("x y"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(llama_emoji)), " \xE2\x81\x87 ") << "unknown: no byte fallback";
}

// Control pieces cannot be typed. User-defined ones are made to be.
TEST(SentencePieceTokenizer, TypedControlPiecesAreText) {
  for (const std::string& path : {llama_like, unigram}) {
    const SentencePieceTokenizer tokenizer(path);
    for (TokenId id = 0; id < tokenizer.piece_count(); ++id) {
      const PieceKind kind = tokenizer.piece_kind(id);
      if (kind == PieceKind::normal || kind == PieceKind::user_defined) continue;
      const std::string piece = tokenizer.piece(id);
      for (const std::string& text :
           {piece, "the" + piece, piece + " " + piece, piece + ni_hao, mark + piece}) {
        for (const TokenId made : tokenizer.encode(text)) {
          ASSERT_NE(tokenizer.piece_kind(made), PieceKind::control) << text;
          if (tokenizer.piece_kind(made) == PieceKind::byte) {
            // The bytes of "<", "0", "x", ... may be pieces; the byte that the text names may not.
            ASSERT_NE(text.find(tokenizer.piece_bytes(made)), std::string::npos) << text;
          }
        }
      }
    }
  }
  const SentencePieceTokenizer tokenizer(llama_like);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<s>not special</s><unk><0x41>")),
            "<s>not special</s><unk><0x41>");
  const SentencePieceTokenizer with_symbols(unigram);
  EXPECT_EQ(pieces(with_symbols, with_symbols.encode("in<place>.")),
            (std::vector<std::string>{mark, "in", "<place>", "."}));
}

TEST(SentencePieceTokenizer, ConfigurationChoosesTheSpecialTokens) {
  TokenizerConfig config;
  config.add_bos_token = false;
  config.add_eos_token = true;
  EXPECT_EQ(SentencePieceTokenizer(llama_like, config).encode_with_special_tokens("the"), (Ids{261, 2}));
  config.add_bos_token = true;
  config.bos_token = "</s>";
  config.eos_token = "";
  const SentencePieceTokenizer tokenizer(llama_like, config);
  EXPECT_EQ(tokenizer.bos_id(), 2);
  EXPECT_EQ(tokenizer.eos_id(), -1);
  EXPECT_EQ(tokenizer.encode_with_special_tokens("the"), (Ids{2, 261}));
  config.eos_token = "<|im_end|>";
  EXPECT_EQ(message_of<ConfigError>([&] { SentencePieceTokenizer wrong(llama_like, config); }),
            llama_like + " has no piece \"<|im_end|>\", which the tokenizer configuration has as eos_token");
  config.eos_token.reset();
  config.bos_token = "<bos>";
  EXPECT_EQ(message_of<ConfigError>([&] { SentencePieceTokenizer wrong(llama_like, config); }),
            llama_like + " has no piece \"<bos>\", which the tokenizer configuration has as bos_token");
}

std::string replaced(std::string bytes, const std::string& from, const std::string& to) {
  EXPECT_NE(bytes.find(from), std::string::npos);
  return bytes.replace(bytes.find(from), from.size(), to);
}

std::string file_bytes(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// normalizer_spec: 18 01 is add_dummy_prefix = true. Without it encode() puts no space in front, and decode
// takes none away.
TEST(SentencePieceTokenizer, WithoutADummyPrefixEverySpaceIsTheTexts) {
  const std::string bytes = replaced(file_bytes(llama_like), std::string("identity\x12\0\x18\x01", 12),
                                     std::string("identity\x12\0\x18\0", 12));
  const SentencePieceTokenizer tokenizer(bytes, "changed", {}, 0);
  EXPECT_EQ(tokenizer.decode({tokenizer.find_piece(mark + "the")}), " the");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" the the")), " the the");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the")), "the");
}

// trainer_spec: f2 02 is bos_piece. A piece of that name which is text cannot begin a text.
TEST(SentencePieceTokenizer, ABeginPieceIsAControlPiece) {
  const SentencePieceTokenizer original(llama_like);
  ASSERT_EQ(original.bos_id(), 1);
  std::string text_piece;
  for (TokenId id = 3; id < original.piece_count() && text_piece.empty(); ++id) {
    if (original.piece_kind(id) == PieceKind::normal && original.piece(id).size() == 3) {
      text_piece = original.piece(id);
    }
  }
  ASSERT_EQ(text_piece.size(), 3u);
  const std::string bytes = replaced(file_bytes(llama_like), "\xf2\x02\x03<s>", "\xf2\x02\x03" + text_piece);
  EXPECT_EQ(SentencePieceTokenizer(bytes, "changed", {}, 0).bos_id(), -1);
}

TEST(SentencePieceTokenizer, KnowsTheModelsVocabSize) {
  const SentencePieceTokenizer tokenizer(llama_like, {}, 432);
  EXPECT_EQ(tokenizer.vocab_size(), 432);
  EXPECT_EQ(tokenizer.piece_count(), 420);
  EXPECT_EQ(tokenizer.decode({261, 420, 431}), "the") << "padded ids are nothing";
  EXPECT_EQ(message_of<TokenError>([&] {
              tokenizer.decode({261, 432});
            }),
            "Tokenizer: id 432 is not in 0..431 (vocab_size 432)");
  EXPECT_EQ(message_of<TokenError>([&] { SentencePieceTokenizer(llama_like).piece(420); }),
            "Tokenizer: id 420 is not in 0..419 (vocab_size 420)");
  EXPECT_EQ(message_of<ConfigError>([&] { SentencePieceTokenizer wrong(llama_like, {}, 419); }),
            llama_like + " has 420 pieces, but the model's vocab_size is 419: they do not belong together");
}

TEST(SentencePieceTokenizer, ACopyEncodesToo) {
  const SentencePieceTokenizer copy = [] { return SentencePieceTokenizer(llama_like); }();
  const SentencePieceTokenizer second(copy);
  EXPECT_EQ(second.encode("the fox"), (Ids{261, 343}));
}

TEST(SentencePieceTokenizer, RefusesWhatIsNoModelFile) {
  EXPECT_EQ(load_error(folder + "absent.model"), folder + "absent.model does not exist");
  EXPECT_EQ(load_error(folder), folder + " is a folder, expected a SentencePiece model file");
#ifndef _WIN32
  EXPECT_EQ(load_error("/dev/zero"), "/dev/zero is not a regular file, expected a SentencePiece model file");
#endif
  const TemporaryFile empty("glassbox_empty.model", "");
  EXPECT_EQ(load_error(empty.path), empty.path + " is empty, expected a SentencePiece model");
  const TemporaryFile tiktoken("glassbox_tiktoken.model", "IQ== 0\nIg== 1\n");
  EXPECT_EQ(load_error(tiktoken.path),
            tiktoken.path +
                " is not a SentencePiece model: it looks like a tiktoken rank file, "
                "as of Llama 3");
  const TemporaryFile json("glassbox_json.model", "{\"version\": \"1.0\"}\n");
  EXPECT_EQ(load_error(json.path), json.path +
                                       " is not a SentencePiece model: it looks like JSON, perhaps a "
                                       "tokenizer.json of Hugging Face tokenizers");
  const TemporaryFile pointer("glassbox_lfs.model",
                              "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_EQ(load_error(pointer.path), pointer.path +
                                          " is not a SentencePiece model: it looks like a Git-LFS pointer: "
                                          "fetch the real file with `git lfs pull`");
  const TemporaryFile noise("glassbox_noise.model", std::string(100, '\0'));
  EXPECT_EQ(
      load_error(noise.path),
      noise.path + " is not a SentencePiece model: field 0 at byte 0 has a number that protobuf forbids");
}

TEST(SentencePieceTokenizer, RefusesATruncatedFile) {
  std::ostringstream whole;
  whole << std::ifstream(llama_like, std::ios::binary).rdbuf();
  const TemporaryFile cut("glassbox_cut.model", whole.str().substr(0, 3000));
  EXPECT_EQ(load_error(cut.path), cut.path +
                                      " is not a SentencePiece model: field 1 at byte 2986 has 15 bytes, but "
                                      "only 12 are left: the file is cut off or damaged");
  for (std::size_t length = 1; length < whole.str().size(); length += 97) {
    const std::string part = whole.str().substr(0, length);
    EXPECT_THROW(SentencePieceTokenizer(part, "part", {}, 0), FormatError) << length;
  }
}

// libsentencepiece checks a model's own samples, and its refusal is passed on.
TEST(SentencePieceTokenizer, PassesOnWhatLibsentencepieceRefuses) {
  std::ostringstream whole;
  whole << std::ifstream(llama_like, std::ios::binary).rdbuf();
  const std::string sample = std::string("\x0A\x03the\x12\x01x", 8);          // input "the", expected "x"
  const std::string self_test = std::string("\x22\x0A\x0A\x08", 4) + sample;  // self_test_data { samples }
  const std::string message =
      message_of<FormatError>([&] { SentencePieceTokenizer wrong(whole.str() + self_test, "FILE", {}, 0); });
  // In between stands the kind of failure, which differs between versions.
  EXPECT_TRUE(message.starts_with("FILE is not accepted by libsentencepiece: ")) << message;
  EXPECT_TRUE(message.ends_with(": Self-test failures. See LOG(INFO).")) << message;
}

TEST(SentencePieceTokenizer, RefusesATextThatIsTooLong) {
  const SentencePieceTokenizer tokenizer(llama_like);
  EXPECT_EQ(message_of<TokenError>([&] { tokenizer.encode(std::string(100'000'001, 'a')); }),
            "SentencePieceTokenizer::encode: a text of 100000001 bytes, expected at most 100000000");
}

// decode() walks through our own table; libsentencepiece must say the same of any ids.
void expect_decode_equals_libsentencepiece(const std::string& path) {
  const SentencePieceTokenizer tokenizer(path);
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.Load(path).ok());
  std::mt19937 random(3);
  const TokenId space = (std::max)(TokenId{0}, tokenizer.find_piece(mark));
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> ids;
    const std::size_t length = 1 + random() % 9;
    for (std::size_t i = 0; i < length; ++i) {
      const unsigned kind = random() % 4;  // any piece, bytes and control pieces, control pieces, spaces
      const unsigned range =
          kind == 0 ? static_cast<unsigned>(tokenizer.piece_count()) : (kind == 1 ? 140u : 4u);
      ids.push_back(kind == 3 ? static_cast<int>(space) : static_cast<int>(random() % range));
    }
    std::string expected;
    ASSERT_TRUE(processor.Decode(ids, &expected).ok());
    ASSERT_EQ(tokenizer.decode(Ids(ids.begin(), ids.end())), expected)
        << path << ::testing::PrintToString(ids);
  }
}

TEST(SentencePieceTokenizer, DecodesAsLibsentencepieceDoes) {
  expect_decode_equals_libsentencepiece(llama_like);
  expect_decode_equals_libsentencepiece(unigram);
}

TEST(SentencePieceTokenizer, StreamsWhatItEncoded) {
  const std::string text = "The fox said: " + ni_hao + "! " + llama_emoji + "  The moon.\n\tEnd ";
  const SentencePieceTokenizer tokenizer(llama_like);
  StreamingDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId id : tokenizer.encode_with_special_tokens(text)) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(is_utf8(part));
    streamed += part;
  }
  EXPECT_EQ(streamed + decoder.flush(), text);
}

// ---- with the tokenizer of Llama 2 ----

class Llama2 : public ::testing::Test {
 protected:
  std::string path = reference_file("tokenizers/llama2/tokenizer.model");
  void SetUp() override {
    if (path.empty()) GTEST_SKIP() << "GLASSBOX_REFERENCE has no tokenizers/llama2/tokenizer.model";
  }
};

TEST_F(Llama2, StreamsAByteFallbackCharacterWhole) {
  const SentencePieceTokenizer tokenizer(path);
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(243), "");
  EXPECT_EQ(decoder.push(162), "");
  EXPECT_EQ(decoder.push(169), "");
  EXPECT_EQ(decoder.push(156), llama_emoji);
  EXPECT_EQ(decoder.push({243, 162}), "");
  EXPECT_EQ(decoder.pending(), "\xF0\x9F");
  EXPECT_EQ(decoder.flush(), replacement + replacement);
}

TEST_F(Llama2, KeepsTheSpacesBetweenWords) {
  const SentencePieceTokenizer tokenizer(path);
  EXPECT_EQ(tokenizer.decode({15043, 3186}), "Hello world");
  EXPECT_EQ(tokenizer.decode({3186}), "world");
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(15043), "Hello");
  EXPECT_EQ(decoder.push(3186), " world");
}

TEST_F(Llama2, PutsASpaceInFront) {
  const SentencePieceTokenizer tokenizer(path);
  EXPECT_EQ(tokenizer.encode_with_special_tokens("This is " + llama_emoji + ".cpp"),
            (Ids{1, 910, 338, 29871, 243, 162, 169, 156, 29889, 8223}));
  EXPECT_EQ(tokenizer.encode_with_special_tokens("I believe the meaning of life is"),
            (Ids{1, 306, 4658, 278, 6593, 310, 2834, 338}));
  EXPECT_EQ(tokenizer.encode_with_special_tokens(""), (Ids{1}));
}

TEST_F(Llama2, TypedControlPiecesAreText) {
  const SentencePieceTokenizer tokenizer(path);
  EXPECT_EQ(tokenizer.encode("<s>"), (Ids{529, 29879, 29958}));
  EXPECT_EQ(tokenizer.encode("</s>"), (Ids{1533, 29879, 29958}));
}

TEST_F(Llama2, PaddedIdsAreNothing) {
  const SentencePieceTokenizer tokenizer(path, {}, 32016);
  EXPECT_EQ(tokenizer.decode({15043, 32005}), "Hello");
  EXPECT_EQ(tokenizer.decode({15043, 32015}), "Hello");
  EXPECT_THROW(tokenizer.decode({15043, 32016}), TokenError);
  EXPECT_EQ(message_of<TokenError>([&] { SentencePieceTokenizer(path).piece(32000); }),
            "Tokenizer: id 32000 is not in 0..31999 (vocab_size 32000)");
}

TEST_F(Llama2, EncodesChinese) {
  EXPECT_EQ(SentencePieceTokenizer(path).encode(ni_hao), (Ids{29871, 30919, 31076}));
}

TEST_F(Llama2, DecodesAsLibsentencepieceDoes) { expect_decode_equals_libsentencepiece(path); }

TEST_F(Llama2, RefusesATruncatedFile) {
  std::ostringstream whole;
  whole << std::ifstream(path, std::ios::binary).rdbuf();
  const TemporaryFile cut("glassbox_cut_llama2.model", whole.str().substr(0, 200000));
  const std::string message = load_error(cut.path);
  EXPECT_TRUE(message.starts_with(cut.path + " is not a SentencePiece model: field 1 at byte 1")) << message;
  EXPECT_TRUE(message.ends_with("are left: the file is cut off or damaged")) << message;
}

// ---- with the tokenizer of stories260k: extra spaces removed, Chinese by bytes only ----

class Stories260k : public ::testing::Test {
 protected:
  std::string path = reference_file("stories260k/tokenizer.model");
  void SetUp() override {
    if (path.empty()) GTEST_SKIP() << "GLASSBOX_REFERENCE has no stories260k/tokenizer.model";
  }
};

TEST_F(Stories260k, Encodes) {
  const SentencePieceTokenizer tokenizer(path);
  EXPECT_EQ(tokenizer.encode("This is " + llama_emoji + ".cpp"),
            (Ids{274, 415, 293, 410, 293, 410, 243, 162, 169, 156, 426, 429, 339}));
  EXPECT_EQ(tokenizer.encode(ni_hao), (Ids{410, 231, 192, 163, 232, 168, 192}));
}

TEST_F(Stories260k, StreamsChineseInWholeCharacters) {
  const SentencePieceTokenizer tokenizer(path);
  StreamingDecoder decoder(tokenizer);
  std::vector<std::string> parts;
  for (const TokenId id : tokenizer.encode(ni_hao)) {
    const std::string part = decoder.push(id);
    if (!part.empty()) parts.push_back(part);
  }
  EXPECT_EQ(parts, (std::vector<std::string>{"\xE4\xBD\xA0", "\xE5\xA5\xBD"}));
}

TEST_F(Stories260k, DecodesAsLibsentencepieceDoes) { expect_decode_equals_libsentencepiece(path); }

}  // namespace text_sentencepiece_tokenizer_test
}  // namespace glassbox
