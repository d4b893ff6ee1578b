// split_text.hpp. Faults that must turn these tests red:
//   - empty parts left out, or the last part lost
#include "glassbox/split_text.hpp"

#include <gtest/gtest.h>

namespace split_text_test {

using Parts = std::vector<std::string>;

TEST(SplitText, GivesThePartsBetweenTheSeparators) {
  EXPECT_EQ(glassbox::split_text("scores:layer=3:hit=2", ':'), (Parts{"scores", "layer=3", "hit=2"}));
  EXPECT_EQ(glassbox::split_text("scores", ':'), Parts{"scores"});
}

TEST(SplitText, KeepsEmptyParts) {
  EXPECT_EQ(glassbox::split_text("", ','), Parts{""});
  EXPECT_EQ(glassbox::split_text(",a,,b,", ','), (Parts{"", "a", "", "b", ""}));
}

}  // namespace split_text_test
