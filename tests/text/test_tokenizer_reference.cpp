// The SentencePiece tokenizer against ids, pieces and texts computed elsewhere: all that the reference data
// list for the tokenizers of Llama 2 and of stories260k. Faults that must turn this file red:
//   the spaces of a text merged or dropped before it is encoded; a text cut at a zero byte
//   the space of the first piece kept in a decoded text
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "glassbox/text/sentencepiece_tokenizer.hpp"

namespace glassbox {
namespace text_tokenizer_reference_test {

using Ids = std::vector<TokenId>;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

class TokenizerReference : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  std::string model_file, reference_file;
  void SetUp() override {
    const char* reference = std::getenv("GLASSBOX_REFERENCE");
    if (reference == nullptr) GTEST_SKIP() << "GLASSBOX_REFERENCE is not set";
    model_file = std::string(reference) + "/" + GetParam()[0];
    reference_file = std::string(reference) + "/" + GetParam()[1];
    if (!std::filesystem::exists(model_file)) GTEST_SKIP() << model_file << " is absent";
    if (!std::filesystem::exists(reference_file)) GTEST_SKIP() << reference_file << " is absent";
  }
};

TEST_P(TokenizerReference, EveryListedText) {
  const SentencePieceTokenizer tokenizer(model_file);
  const nlohmann::json reference = nlohmann::json::parse(std::ifstream(reference_file));
  EXPECT_EQ(tokenizer.vocab_size(), reference.at("vocab_size"));
  EXPECT_EQ(tokenizer.bos_id(), reference.at("bos_id"));
  EXPECT_EQ(tokenizer.eos_id(), reference.at("eos_id"));
  EXPECT_EQ(tokenizer.unk_id(), reference.at("unk_id"));
  EXPECT_EQ(tokenizer.pad_id(), reference.at("pad_id"));
  ASSERT_GE(reference.at("cases").size(), 30u);
  ASSERT_GE(reference.at("invalid_utf8").size(), 3u);
  ASSERT_GE(reference.at("some_pieces").size(), 10u);
  std::vector<nlohmann::json> cases = reference.at("cases");
  for (const nlohmann::json& invalid : reference.at("invalid_utf8")) cases.push_back(invalid);
  for (const nlohmann::json& item : cases) {
    const std::string text = from_hex(item.at(item.contains("utf8_hex") ? "utf8_hex" : "bytes_hex"));
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(ids, item.at("ids").get<Ids>()) << item;
    std::vector<std::string> pieces;
    for (const TokenId id : ids) pieces.push_back(tokenizer.piece(id));
    EXPECT_EQ(pieces, item.at("pieces").get<std::vector<std::string>>()) << item;
    if (item.contains("decoded")) {
      EXPECT_EQ(tokenizer.decode(ids), item.at("decoded").get<std::string>()) << item;
    }
  }
  for (const nlohmann::json& item : reference.at("some_pieces")) {
    const TokenId id = item.at("id");
    EXPECT_EQ(tokenizer.piece(id), item.at("piece")) << item;
    EXPECT_EQ(tokenizer.piece_kind(id) == PieceKind::byte, item.at("is_byte")) << item;
    EXPECT_EQ(tokenizer.piece_kind(id) == PieceKind::control, item.at("is_control")) << item;
    EXPECT_EQ(tokenizer.piece_kind(id) == PieceKind::unknown, item.at("is_unknown")) << item;
  }
}

INSTANTIATE_TEST_SUITE_P(Llama2, TokenizerReference,
                         ::testing::Values(std::vector<std::string>{"tokenizers/llama2/tokenizer.model",
                                                                    "tokenizers/llama2/reference.json"}));
INSTANTIATE_TEST_SUITE_P(Stories260k, TokenizerReference,
                         ::testing::Values(std::vector<std::string>{
                             "stories260k/tokenizer.model", "tokenizers/stories260k/reference.json"}));

}  // namespace text_tokenizer_reference_test
}  // namespace glassbox
