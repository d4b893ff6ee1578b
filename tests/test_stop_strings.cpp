// stop_strings.hpp: stop strings across the borders of the pieces that a text comes in.
//
// Faults that must turn this file red:
//   - only the newest piece searched; the beginning of a stop string shown before it is decided
//   - more held back than necessary, or given up after a false start ("aab" in "aaab")
//   - the stop string or what follows it shown; what was held back lost at the end
//   - a stop string accepted that could cut a character in two
//   - the first listed instead of the first complete; of two that end together the shorter
#include "glassbox/stop_strings.hpp"

#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "support/expect_near.hpp"

namespace glassbox {
namespace stop_strings_test {

TEST(StopStrings, NoneLetsEverythingPass) {
  StopStrings stop({});
  EXPECT_EQ(stop.push("Once upon"), "Once upon");
  EXPECT_EQ(stop.push(" a time"), " a time");
  EXPECT_FALSE(stop.matched());
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, AcrossPieces) {
  StopStrings stop({"\nUser:"});
  EXPECT_EQ(stop.push("Yes.\nU"), "Yes.");
  EXPECT_EQ(stop.held(), "\nU");
  EXPECT_EQ(stop.push("se"), "");
  EXPECT_FALSE(stop.matched());
  EXPECT_EQ(stop.push("r: and more"), "");
  EXPECT_TRUE(stop.matched());
  EXPECT_EQ(stop.match(), "\nUser:");
  EXPECT_EQ(stop.push("even more"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, FalseStartsComeOut) {
  StopStrings stop({"\nUser:"});
  EXPECT_EQ(stop.push("a\nUs"), "a");
  EXPECT_EQ(stop.push("ing"), "\nUsing");
  EXPECT_EQ(stop.push("\n\nU"), "\n");
  EXPECT_EQ(stop.flush(), "\nU");
  EXPECT_FALSE(stop.matched());
  EXPECT_EQ(stop.flush(), "");
}

// After "aa" a further a is again the second of two.
TEST(StopStrings, StopStringThatRepeatsItself) {
  StopStrings stop({"aab"});
  EXPECT_EQ(stop.push("aa"), "");
  EXPECT_EQ(stop.push("a"), "a");
  EXPECT_EQ(stop.push("b"), "");
  EXPECT_TRUE(stop.matched());
}

TEST(StopStrings, FirstCompleteWinsAndOfThoseTheLonger) {
  StopStrings first({"abcd", "bc"});
  EXPECT_EQ(first.push("xabcd"), "xa");
  EXPECT_EQ(first.match(), "bc");
  StopStrings longer({"c", "abc", "bc"});
  EXPECT_EQ(longer.push("xabc"), "x");
  EXPECT_EQ(longer.match(), "abc");
}

TEST(StopStrings, WholeCharactersOnly) {
  const std::string question = "\xEF\xBC\x9F";     // U+FF1F
  const std::string exclamation = "\xEF\xBC\x81";  // U+FF01, the same first two bytes
  StopStrings stop({question});
  EXPECT_EQ(stop.push(exclamation), exclamation);
  EXPECT_EQ(stop.push("a" + question + "b"), "a");
  EXPECT_EQ(stop.match(), question);
}

// The last byte of one character would cut it in two.
TEST(StopStrings, RefusesWhatIsNoUtf8) {
  using test_support::throws;
  EXPECT_TRUE(throws<UsageError>(
      [] {
        StopStrings stop({"ok", "\x80"});
      },
      "generation: the stop string \"\\x80\" is not well-formed UTF-8"));
  EXPECT_TRUE(
      throws<UsageError>([] { StopStrings stop({"a\n\xEF\xBC"}); },
                         "generation: the stop string \"a\\x0A\\xEF\\xBC\" is not well-formed UTF-8"));
  EXPECT_NO_THROW(StopStrings({"\xEF\xBF\xBD", "", "\n"}));
}

// However a text is cut into pieces, what is shown is the text before the first complete stop string.
TEST(StopStrings, EqualsASearchInTheWholeText) {
  std::mt19937 random(7);
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto letters = [&random](std::size_t length) {
      std::string text;
      for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 2);
      return text;
    };
    const std::vector<std::string> stops{letters(2 + random() % 4), letters(2 + random() % 4)};
    const std::string text = letters(random() % 12);
    std::size_t end = text.size() + 1;  // where the first complete stop string ends
    std::size_t begin = text.size();
    for (const std::string& stop : stops) {
      const std::size_t found = text.find(stop);
      if (found == std::string::npos) continue;
      const bool earlier = found + stop.size() < end || (found + stop.size() == end && found < begin);
      if (earlier) begin = found;
      if (earlier) end = found + stop.size();
    }
    const bool expected_match = end <= text.size();
    StopStrings stop(stops);
    std::string shown;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = 1 + random() % 3;
      shown += stop.push(text.substr(i, length));
      i += length;
    }
    shown += stop.flush();
    EXPECT_EQ(stop.matched(), expected_match) << text << " | " << stops[0] << " | " << stops[1];
    EXPECT_EQ(shown, text.substr(0, begin)) << text << " | " << stops[0] << " | " << stops[1];
    matches += expected_match ? 1 : 0;
  }
  EXPECT_GT(matches, 500);
  EXPECT_LT(matches, 2500);
}

}  // namespace stop_strings_test
}  // namespace glassbox
