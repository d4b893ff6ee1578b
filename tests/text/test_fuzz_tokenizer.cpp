// Damaged tokenizer.model files: either an Error of this library, or a tokenizer that works. libsentencepiece
// would end the program or read out of bounds for many of them.
// GLASSBOX_MUTATIONS says how many per model (default 200). Faults that must turn this file red (some of them
// as a crash): one of the checks in sentencepiece_model.hpp left out; an exception of libsentencepiece let
// through.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "glassbox/text/sentencepiece_tokenizer.hpp"

namespace glassbox {
namespace text_fuzz_tokenizer_test {

using Ids = std::vector<TokenId>;

std::string read_file(const std::string& name) {
  std::ifstream stream(std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/tokenizer-small/" + name,
                       std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

int mutations() {
  const char* count = std::getenv("GLASSBOX_MUTATIONS");
  return count == nullptr ? 200 : (std::max)(1, std::atoi(count));
}

// One change of one of the kinds that files suffer, or that a mean person would make.
std::string mutate(std::string bytes, std::mt19937& random) {
  const std::size_t at = random() % bytes.size();
  const std::size_t length = 1 + random() % 40;
  const std::size_t from = random() % bytes.size();
  switch (random() % 9) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes[at] = static_cast<char>(random() % 2 == 0 ? 0xFF : 0x00);
      break;
    case 3:
      bytes.resize(at);
      break;
    case 4:
      bytes.erase(at, length);
      break;
    case 5:
      bytes.insert(at, bytes.substr(from, length));
      break;
    case 6:
      bytes.replace(at, length, bytes.substr(from, length));
      break;
    case 7:
      bytes.insert(at, std::string(length, static_cast<char>(random())));
      break;
    default:
      bytes += bytes.substr(from, length);
      break;
  }
  return bytes;
}

// A type, score or name of a piece, or a flag, changed in place, so that the file still parses: random bytes
// seldom get that far.
std::string mutate_within_the_format(std::string bytes, std::mt19937& random) {
  ProtobufReader reader(bytes);
  ProtobufField field;
  std::vector<ProtobufField> fields;
  while (reader.next(field)) {
    if (field.wire_type != 2) continue;
    ProtobufReader inner(field.bytes);
    ProtobufField inner_field;
    while (inner.next(inner_field)) {
      inner_field.position += static_cast<std::size_t>(field.bytes.data() - bytes.data());
      // Most fields belong to pieces; the specifications at the end deserve as much attention.
      const int copies = field.number == 1 ? 1 : 20;
      fields.insert(fields.end(), static_cast<std::size_t>(copies), inner_field);
    }
  }
  const ProtobufField chosen = fields[random() % fields.size()];
  if (chosen.wire_type == 2 && !chosen.bytes.empty()) {
    const std::size_t first = static_cast<std::size_t>(chosen.bytes.data() - bytes.data());
    bytes[first + random() % chosen.bytes.size()] = static_cast<char>(random());
  } else {
    bytes[chosen.position + 1 + random() % (chosen.wire_type == 5 ? 4 : 1)] = static_cast<char>(random() % 9);
  }
  return bytes;
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = {"The fox and the bear saw 10 stars.",
                                               "",
                                               " ",
                                               "  two  spaces ",
                                               "\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\xA6\x99",
                                               "ABC \xEF\xAC\x81\xE2\x80\xA6 a\xCC\x81 x\xE3\x80\x80y",
                                               "<s></s><unk><pad><sep>Q<name><place><0x41>",
                                               std::string("zero\0byte", 9),
                                               "broken \xE4\xBD \xFF",
                                               "\xE5\xB0\x8F\xE7\x86\x8A\xE6\x9D\xA5\xE4\xBA\x86",
                                               "\xE2\x96\x81\xE2\x96\x81the"};
  return all;
}

// A tokenizer that loaded must keep its word.
void expect_works(const Tokenizer& tokenizer, std::mt19937& random) {
  ASSERT_GE(tokenizer.piece_count(), 1);
  for (const std::string& text : texts()) {
    Ids ids;
    try {
      ids = tokenizer.encode_with_special_tokens(text);
      ids = tokenizer.encode(text);
    } catch (const Error&) {
      continue;  // libsentencepiece may refuse a text where a control piece is a single letter
    }
    for (const TokenId id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer.piece_count());
      ASSERT_NE(tokenizer.piece_kind(id), PieceKind::control) << text;
    }
    ASSERT_TRUE(is_utf8(tokenizer.decode(ids)));
  }
  Ids ids;
  for (int i = 0; i < 30; ++i)
    ids.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer.piece_count())));
  ASSERT_TRUE(is_utf8(tokenizer.decode(ids)));
}

// As decode() does, libsentencepiece must say the same of any ids.
void expect_decodes_alike(const Tokenizer& tokenizer, const std::string& bytes, std::mt19937& random) {
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(bytes).ok());
  for (int round = 0; round < 5; ++round) {
    std::vector<int> ids;
    for (int i = 0; i < 12; ++i)
      ids.push_back(static_cast<int>(random() % static_cast<unsigned>(tokenizer.piece_count())));
    std::string expected;
    ASSERT_TRUE(processor.Decode(ids, &expected).ok());
    ASSERT_EQ(tokenizer.decode(Ids(ids.begin(), ids.end())), expected);
  }
}

class FuzzTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(FuzzTokenizer, ErrorOrRightResult) {
  const std::string original = read_file(GetParam());
  ASSERT_FALSE(original.empty());
  int refused = 0, accepted = 0;
  for (int i = 0; i < mutations(); ++i) {
    SCOPED_TRACE(std::string(GetParam()) + ", mutation " + std::to_string(i));
    std::mt19937 random(static_cast<unsigned>(i));
    std::string bytes = original;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int change = 0; change < changes; ++change) {
      try {
        bytes = i % 2 == 0 ? mutate(bytes, random) : mutate_within_the_format(bytes, random);
      } catch (const FormatError&) {
        break;  // the change before broke the format
      }
      if (bytes.empty()) break;
    }
    try {
      const SentencePieceTokenizer tokenizer(bytes, "mutated.model", {}, 0);
      ++accepted;
      expect_works(tokenizer, random);
      expect_decodes_alike(tokenizer, bytes, random);
    } catch (const Error& error) {
      ++refused;
      ASSERT_TRUE(std::string(error.what()).find("mutated.model") == 0) << error.what();
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(refused, mutations() / 20) << "hardly any mutation was seen";
  EXPECT_GT(accepted, mutations() / 20) << "nearly every mutation was refused: they do not reach far enough";
}

INSTANTIATE_TEST_SUITE_P(Models, FuzzTokenizer, ::testing::Values("llama_like.model", "unigram.model"));

}  // namespace text_fuzz_tokenizer_test
}  // namespace glassbox
