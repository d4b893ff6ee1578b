// Faults that must turn this red: a long message filling `message` to its last byte (no end); a message of
// another type; what() cut like `message`.
#include "glassbox/error.hpp"

#include <gtest/gtest.h>
#include <string>
#include <type_traits>

namespace glassbox {
namespace error_test {

template <typename ErrorType>
void expect_thrown_as_itself() {
  static_assert(std::is_base_of_v<Error, ErrorType>);
  static_assert(std::is_base_of_v<std::runtime_error, ErrorType>);
  try {
    throw_error<ErrorType>("what was found, what was expected");
  } catch (const std::exception& error) {
    EXPECT_EQ(typeid(error), typeid(ErrorType));
    EXPECT_STREQ(error.what(), "what was found, what was expected");
  }
}

TEST(Error, EveryKindIsThrownAsItself) {
  expect_thrown_as_itself<Error>();
  expect_thrown_as_itself<ShapeError>();
  expect_thrown_as_itself<ConfigError>();
  expect_thrown_as_itself<FormatError>();
  expect_thrown_as_itself<TokenError>();
  expect_thrown_as_itself<NumericError>();
  expect_thrown_as_itself<UsageError>();
}

TEST(Error, MessageIsInsideTheObject) {
  const ShapeError error("short");
  EXPECT_STREQ(error.message, "short");
  const char* begin = reinterpret_cast<const char*>(&error);
  EXPECT_GT(static_cast<const char*>(error.message), begin);
  EXPECT_LT(static_cast<const char*>(error.message), begin + sizeof error);
}

TEST(Error, LongMessageIsCutInsideAndWholeInWhat) {
  const std::string text = std::string(511, 'a') + std::string(300, 'b');
  const FormatError error(text);
  EXPECT_EQ(error.what(), text);
  EXPECT_EQ(error.message[510], 'a');
  EXPECT_EQ(error.message[511], '\0');
  EXPECT_EQ(std::string(error.message), std::string(511, 'a'));
}

TEST(Error, MessageThatJustFits) {
  const std::string text(511, 'x');
  EXPECT_EQ(std::string(Error(text).message), text);
  EXPECT_EQ(std::string(Error("").message), "");
}

}  // namespace error_test
}  // namespace glassbox
