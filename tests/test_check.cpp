// Faults that must turn this red: a check that lets the wrong through (rank, one axis, the last axis, the
// shape, an id equal to vocab_size, a negative id) or stops the right; a wrong number in a text.
#include "glassbox/check.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace check_test {

using test_support::make_tensor;
using test_support::throws;

TEST(Check, Rank) {
  const Tensor<float> x({{"batch", 1}, {"seq", 3}});
  EXPECT_NO_THROW(check_rank("here", "x", x, 2));
  EXPECT_TRUE(throws<ShapeError>([&] { check_rank("here", "x", x, 3); },
                                 "here: x [batch=1, seq=3] has 2 axes, expected 3"));
  EXPECT_TRUE(throws<ShapeError>([] { check_rank("here", "x", Tensor<bool>(), 4); },
                                 "here: x [] has 0 axes, expected 4"));
}

TEST(Check, Dim) {
  const Tensor<float> x({{"batch", 1}, {"seq", 3}});
  EXPECT_NO_THROW(check_dim("here", "x", x, 1, 3, "tokens"));
  EXPECT_TRUE(throws<ShapeError>([&] { check_dim("here", "x", x, 1, 4, "tokens"); },
                                 "here: x [batch=1, seq=3]: axis 1 must have 4 elements (tokens)"));
  EXPECT_TRUE(throws<ShapeError>([&] { check_dim("here", "x", x, 2, 3, "tokens"); },
                                 "here: x [batch=1, seq=3]: axis 2 must have 3 elements (tokens)"));
}

TEST(Check, LastAxis) {
  const Tensor<float> x({{"batch", 1}, {"seq", 3}, {"hidden", 6}});
  const Tensor<double> fits({{"hidden", 6}});
  const Tensor<double> weight({{"hidden", 20}});
  EXPECT_NO_THROW(check_last_axis("here", "x", x, "weight", fits));
  EXPECT_TRUE(throws<ShapeError>([&] { check_last_axis("here", "x", x, "weight", weight); },
                                 "here: x [batch=1, seq=3, hidden=6] does not fit weight [hidden=20]: their "
                                 "last axes must be equally long"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { check_last_axis("here", "x", Tensor<float>(), "weight", Tensor<float>()); },
                         "here: x [] does not fit weight []: their last axes must be equally long"));
}

TEST(Check, SameShape) {
  const Tensor<float> a({{"batch", 1}, {"seq", 3}});
  const Tensor<double> renamed({{"batch", 1}, {"query", 3}});
  const Tensor<float> longer({{"batch", 1}, {"seq", 4}});
  const Tensor<float> deeper({{"batch", 1}, {"seq", 3}, {"hidden", 1}});
  EXPECT_NO_THROW(check_same_shape("here", "a", a, "b", renamed));
  EXPECT_TRUE(throws<ShapeError>([&] { check_same_shape("here", "a", a, "b", longer); },
                                 "here: a [batch=1, seq=3] and b [batch=1, seq=4] must have the same shape"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] { check_same_shape("here", "a", a, "b", deeper); },
      "here: a [batch=1, seq=3] and b [batch=1, seq=3, hidden=1] must have the same shape"));
}

TEST(Check, TokenIds) {
  const Tensor<TokenId> ids = make_tensor<TokenId>({{"batch", 2}, {"seq", 2}}, {0, 511, 3, 4});
  EXPECT_NO_THROW(check_token_ids("here", ids, 512));
  EXPECT_TRUE(throws<TokenError>([&] { check_token_ids("here", ids, 511); },
                                 "here: input_ids [batch=2, seq=2]: id 511 at row 0, position 1 is not in "
                                 "0..510 (vocab_size 511)"));
  const Tensor<TokenId> negative = make_tensor<TokenId>({{"batch", 2}, {"seq", 2}}, {0, 1, -1, 4});
  EXPECT_TRUE(throws<TokenError>([&] { check_token_ids("here", negative, 511); },
                                 "here: input_ids [batch=2, seq=2]: id -1 at row 1, position 0 is not in "
                                 "0..510 (vocab_size 511)"));
}

}  // namespace check_test
}  // namespace glassbox
