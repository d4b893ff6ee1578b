// io/tokenizer_config_json.hpp. Faults that must turn this file red:
//   defaults other than LlamaTokenizer's; null taken for the default; add_bos_token and add_eos_token
//   exchanged a token that is an object, or null, not understood; wrong types accepted; add_prefix_space
//   ignored
#include "glassbox/io/tokenizer_config_json.hpp"

#include <gtest/gtest.h>

#include "io/temporary_folder.hpp"

namespace glassbox {
namespace io_tokenizer_config_json_test {

TokenizerConfig read(const std::string& json) {
  const test_support::TemporaryFolder folder;
  return read_tokenizer_config(folder.write("tokenizer_config.json", json));
}

// What is wrong, without the folder.
std::string error_of(const std::string& json) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder.write("tokenizer_config.json", json);
  try {
    read_tokenizer_config(path);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.substr((std::min)(path.size() + 2, message.size()));
  }
  return "accepted";
}

TEST(TokenizerConfigJson, DefaultsAreLlamaTokenizers) {
  const TokenizerConfig config = read("{}");
  EXPECT_TRUE(config.add_bos_token);
  EXPECT_FALSE(config.add_eos_token);
  EXPECT_FALSE(config.bos_token.has_value());
  EXPECT_FALSE(config.eos_token.has_value());
}

TEST(TokenizerConfigJson, ReadsTheChoices) {
  const TokenizerConfig config = read(
      "{\"add_bos_token\": false, \"add_eos_token\": true, \"bos_token\": \"<a>\", \"eos_token\": "
      "{\"content\": "
      "\"<b>\", \"lstrip\": false}, \"chat_template\": \"{{ messages }}\", \"add_prefix_space\": true}");
  EXPECT_FALSE(config.add_bos_token);
  EXPECT_TRUE(config.add_eos_token);
  EXPECT_EQ(config.bos_token, "<a>");
  EXPECT_EQ(config.eos_token, "<b>");
}

TEST(TokenizerConfigJson, NullIsNone) {
  const TokenizerConfig config = read(
      "{\"add_bos_token\": null, \"add_eos_token\": null, \"bos_token\": null, \"eos_token\": null, "
      "\"add_prefix_space\": null}");
  EXPECT_FALSE(config.add_bos_token);
  EXPECT_FALSE(config.add_eos_token);
  EXPECT_EQ(config.bos_token, "");
  EXPECT_EQ(config.eos_token, "");
}

TEST(TokenizerConfigJson, RefusesWrongValues) {
  EXPECT_EQ(error_of("{\"add_bos_token\": 1}"), "\"add_bos_token\" is 1, expected true or false");
  EXPECT_EQ(error_of("{\"add_eos_token\": \"yes\"}"), "\"add_eos_token\" is \"yes\", expected true or false");
  EXPECT_EQ(error_of("{\"bos_token\": 1}"), "\"bos_token\" is 1, expected a string");
  EXPECT_EQ(error_of("{\"eos_token\": {\"text\": \"x\"}}"),
            "\"eos_token.content\" is missing, expected a string");
  EXPECT_EQ(error_of("{\"bos_token\": {\"content\": 3}}"), "\"bos_token.content\" is 3, expected a string");
  EXPECT_EQ(
      error_of("{\"add_prefix_space\": false}"),
      "\"add_prefix_space\" is false, expected true: whether a space is put in front is the model file's "
      "choice, not the configuration's");
  EXPECT_EQ(error_of("{\"bos_token\": \"<s>\\u0000\"}"),
            "\"bos_token\" is \"<s>\\u0000\", expected a token without a zero character");
  EXPECT_EQ(error_of("{\"eos_token\": {\"content\": \"\\u0000\"}}"),
            "\"eos_token\" is {\"content\":\"\\u0000\"}, expected a token without a zero character");
  EXPECT_EQ(error_of("[]"), "is [], expected a JSON object");
}

}  // namespace io_tokenizer_config_json_test
}  // namespace glassbox
