// Faults that must turn this red: positions shifted by one; the exponent of inv_freq; the sign of sin; pairs
// of one convention with the tables of the other (cos and sin interleaved instead of repeated); rotate_half
// without its sign; the first row of the batch used for all; the permutation turned round.
#include "glassbox/rotary_embedding.hpp"

#include "support/naive_model.hpp"

namespace glassbox {
namespace rotary_embedding_test {

using test_support::make_tensor;
using test_support::naive_array;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

static_assert(std::is_same_v<decltype(rotate_half(Tensor<float>())), Tensor<float>>);
static_assert(
    std::is_same_v<decltype(apply_rotary_pos_emb(Tensor<float>(), Tensor<float>(), Tensor<float>())),
                   Tensor<float>>);
static_assert(
    std::is_same_v<decltype(apply_rotary_interleaved(Tensor<float>(), Tensor<float>(), Tensor<float>())),
                   Tensor<float>>);
static_assert(
    std::is_same_v<decltype(RotaryEmbedding<float>().forward(Tensor<std::int64_t>())), RotaryTables<float>>);

template <typename Scalar>
class RotaryTest : public ::testing::Test {
 protected:
  static Tensor<std::int64_t> positions(Index rows, const std::vector<double>& values) {
    return make_tensor<std::int64_t>({{"batch", rows}, {"seq", static_cast<Index>(values.size()) / rows}},
                                     values);
  }

  // [1, 2, 3, 4] at one position, theta 10000.
  static Tensor<Scalar> rotated(double position, bool interleaved) {
    const RotaryTables<Scalar> tables =
        RotaryEmbedding<Scalar>::from_theta(4, 10000).forward(positions(1, {position}));
    const Tensor<Scalar> x =
        make_tensor<Scalar>({{"batch", 1}, {"head", 1}, {"seq", 1}, {"head_dim", 4}}, {1, 2, 3, 4});
    return interleaved ? apply_rotary_interleaved(x, tables.cos, tables.sin)
                       : apply_rotary_pos_emb(x, tables.cos, tables.sin);
  }
};
TYPED_TEST_SUITE(RotaryTest, Scalars, ScalarNames);

// head_dim 4, theta 10000: the angles are p * 1 and p * 0.01, each written twice.
TYPED_TEST(RotaryTest, TablesWorkedExample) {
  const RotaryEmbedding<TypeParam> rotary_emb = RotaryEmbedding<TypeParam>::from_theta(4, 10000);
  EXPECT_EQ(shape_string(rotary_emb.inv_freq), "[pair=2]");
  EXPECT_TRUE(near_values(rotary_emb.inv_freq, {1, 0.01}, rounding<TypeParam>()));
  const RotaryTables<TypeParam> tables = rotary_emb.forward(this->positions(1, {0, 3}));
  EXPECT_EQ(shape_string(tables.cos), "[batch=1, seq=2, head_dim=4]");
  EXPECT_EQ(shape_string(tables.sin), "[batch=1, seq=2, head_dim=4]");
  const double c = std::cos(3.0), d = std::cos(0.03), s = std::sin(3.0), t = std::sin(0.03);
  EXPECT_TRUE(near_values(tables.cos, {1, 1, 1, 1, c, d, c, d}, rounding<TypeParam>()));
  EXPECT_TRUE(near_values(tables.sin, {0, 0, 0, 0, s, t, s, t}, rounding<TypeParam>()));
}

TYPED_TEST(RotaryTest, InvFreqFollowsTheta) {
  const RotaryEmbedding<TypeParam> rotary_emb = RotaryEmbedding<TypeParam>::from_theta(6, 500000);
  std::vector<double> expected;
  for (std::size_t i = 0; i < 3; ++i) expected.push_back(naive::inv_freq(i, 6, 500000));
  EXPECT_TRUE(near_values(rotary_emb.inv_freq, expected, rounding<TypeParam>()));
}

// V07: the two conventions on the same numbers. At position 0 both leave everything as it is.
TYPED_TEST(RotaryTest, BothConventionsByHand) {
  EXPECT_TRUE(near_values(this->rotated(1, false), {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6));
  EXPECT_TRUE(near_values(this->rotated(1, true), {-1.142640, 1.922076, 2.959851, 4.029800}, 1e-6));
  EXPECT_TRUE(near_values(this->rotated(3, false), {-1.413353, 1.879118, -2.828857, 4.058191}, 1e-6));
  EXPECT_TRUE(near_values(this->rotated(3, true), {-1.272233, -1.838865, 2.878668, 4.088187}, 1e-6));
  EXPECT_TRUE(near_values(this->rotated(0, false), {1, 2, 3, 4}, 0));
  EXPECT_TRUE(near_values(this->rotated(0, true), {1, 2, 3, 4}, 0));
}

TYPED_TEST(RotaryTest, RotateHalf) {
  const Tensor<TypeParam> x = make_tensor<TypeParam>({{"seq", 2}, {"head_dim", 4}}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(near_values(rotate_half(x), {-3, -4, 1, 2, -7, -8, 5, 6}, 0));
}

TYPED_TEST(RotaryTest, EqualsNaiveLoop) {
  const Tensor<TypeParam> heads =
      random_tensor<TypeParam>({{"batch", 2}, {"head", 3}, {"seq", 5}, {"head_dim", 6}}, 1);
  const std::vector<double> places = {0, 1, 2, 3, 4, 0, 0, 7, 8, 31};
  const RotaryTables<TypeParam> tables =
      RotaryEmbedding<TypeParam>::from_theta(6, 100).forward(this->positions(2, places));
  for (const bool interleaved : {false, true}) {
    std::vector<double> expected;
    for (Index r = 0; r < heads.rows(); ++r) {
      std::vector<double> row;
      for (Index d = 0; d < 6; ++d) row.push_back(static_cast<double>(heads.row(r)[d]));
      const double position = places[static_cast<std::size_t>(r / 15 * 5 + r % 5)];
      for (const double value : naive::rotate(row, position, 100, interleaved)) expected.push_back(value);
    }
    const Tensor<TypeParam> output = interleaved ? apply_rotary_interleaved(heads, tables.cos, tables.sin)
                                                 : apply_rotary_pos_emb(heads, tables.cos, tables.sin);
    EXPECT_EQ(shape_string(output), shape_string(heads));
    EXPECT_TRUE(near_values(output, expected, 10 * rounding<TypeParam>())) << interleaved;
  }
}

// V08: a rotation keeps the length of each pair, here also of the whole: sqrt(1 + 4 + 9 + 16).
TYPED_TEST(RotaryTest, KeepsTheLength) {
  for (const bool interleaved : {false, true}) {
    for (const double position : {1.0, 3.0, 100.0}) {
      const Tensor<TypeParam> x = this->rotated(position, interleaved);
      EXPECT_NEAR(static_cast<double>(x.row(0).norm()), 5.477226, 1e-5);
      const Index second = interleaved ? 1 : 2;
      const double pair =
          static_cast<double>(x.row(0)[0] * x.row(0)[0] + x.row(0)[second] * x.row(0)[second]);
      EXPECT_NEAR(pair, interleaved ? 5 : 10, 1e-4);
    }
  }
}

// V08: the dot of a query at m with a key at n depends on m - n alone.
TYPED_TEST(RotaryTest, DotsDependOnTheDistanceAlone) {
  const Tensor<TypeParam> heads =
      random_tensor<TypeParam>({{"batch", 1}, {"head", 1}, {"seq", 2}, {"head_dim", 8}}, 5);
  const RotaryEmbedding<TypeParam> rotary_emb = RotaryEmbedding<TypeParam>::from_theta(8, 10000);
  double dots[3];
  const double pairs[3][2] = {{2, 5}, {12, 15}, {2, 6}};
  for (int i = 0; i < 3; ++i) {
    const RotaryTables<TypeParam> tables = rotary_emb.forward(this->positions(1, {pairs[i][0], pairs[i][1]}));
    const Tensor<TypeParam> turned = apply_rotary_pos_emb(heads, tables.cos, tables.sin);
    dots[i] = static_cast<double>(turned.row(0).dot(turned.row(1)));
  }
  EXPECT_NEAR(dots[0], dots[1], 20 * rounding<TypeParam>());
  EXPECT_GT(std::abs(dots[0] - dots[2]), 0.01);
}

// Permuting an interleaved head's rows and rotating by halves equals rotating and then permuting.
TYPED_TEST(RotaryTest, PermutationBetweenTheConventions) {
  const Index order[] = {0, 2, 1, 3};
  for (Index row = 0; row < 4; ++row) EXPECT_EQ(interleaved_row_of(row, 4), order[row]);
  const Tensor<TypeParam> interleaved =
      random_tensor<TypeParam>({{"batch", 1}, {"head", 1}, {"seq", 3}, {"head_dim", 10}}, 6);
  const RotaryTables<TypeParam> tables =
      RotaryEmbedding<TypeParam>::from_theta(10, 50).forward(this->positions(1, {1, 2, 9}));
  Tensor<TypeParam> halves = Tensor<TypeParam>::like(interleaved);
  for (Index s = 0; s < 3; ++s) {
    for (Index row = 0; row < 10; ++row)
      halves(0, 0, s, row) = interleaved(0, 0, s, interleaved_row_of(row, 10));
  }
  const Tensor<TypeParam> turned_halves = apply_rotary_pos_emb(halves, tables.cos, tables.sin);
  const Tensor<TypeParam> turned = apply_rotary_interleaved(interleaved, tables.cos, tables.sin);
  for (Index s = 0; s < 3; ++s) {
    for (Index row = 0; row < 10; ++row) {
      EXPECT_NEAR(static_cast<double>(turned_halves(0, 0, s, row)),
                  static_cast<double>(turned(0, 0, s, interleaved_row_of(row, 10))),
                  4 * rounding<TypeParam>());
    }
  }
}

TEST(Rotary, Errors) {
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        RotaryEmbedding<float>::from_theta(4, 10000).forward(Tensor<std::int64_t>({{"seq", 2}}));
      },
      "RotaryEmbedding::forward: position_ids [seq=2] has 1 axes, expected 2"));
  const Tensor<float> heads({{"batch", 2}, {"head", 1}, {"seq", 3}, {"head_dim", 4}});
  const Tensor<float> good({{"batch", 2}, {"seq", 3}, {"head_dim", 4}});
  const Tensor<float> batch({{"batch", 1}, {"seq", 3}, {"head_dim", 4}});
  const Tensor<float> seq({{"batch", 2}, {"seq", 4}, {"head_dim", 4}});
  const Tensor<float> width({{"batch", 2}, {"seq", 3}, {"head_dim", 6}});
  const std::string half = "apply_rotary_pos_emb: ";
  EXPECT_NO_THROW(apply_rotary_pos_emb(heads, good, good));
  EXPECT_TRUE(throws<ShapeError>([&] { apply_rotary_pos_emb(good, good, good); },
                                 half + "heads [batch=2, seq=3, head_dim=4] has 3 axes, expected 4"));
  EXPECT_TRUE(throws<ShapeError>([&] { apply_rotary_pos_emb(heads, heads, heads); },
                                 half + "cos [batch=2, head=1, seq=3, head_dim=4] has 4 axes, expected 3"));
  EXPECT_TRUE(throws<ShapeError>([&] { apply_rotary_pos_emb(heads, good, seq); },
                                 half + "cos [batch=2, seq=3, head_dim=4] and sin [batch=2, seq=4, "
                                        "head_dim=4] must have the same shape"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] { apply_rotary_pos_emb(heads, batch, batch); },
      half + "cos [batch=1, seq=3, head_dim=4]: axis 0 must have 2 elements (batch of the heads)"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] { apply_rotary_pos_emb(heads, seq, seq); },
      half + "cos [batch=2, seq=4, head_dim=4]: axis 1 must have 3 elements (positions of the heads)"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] { apply_rotary_interleaved(heads, width, width); },
      "apply_rotary_interleaved: cos [batch=2, seq=3, head_dim=6]: axis 2 must have 4 elements (head_dim of "
      "the heads)"));
  const Tensor<float> odd({{"batch", 1}, {"head", 1}, {"seq", 1}, {"head_dim", 3}});
  const Tensor<float> odd_tables({{"batch", 1}, {"seq", 1}, {"head_dim", 3}});
  EXPECT_TRUE(throws<ShapeError>([&] { apply_rotary_pos_emb(odd, odd_tables, odd_tables); },
                                 half + "heads [batch=1, head=1, seq=1, head_dim=3]: head_dim is odd"));
}

TEST(RotaryEmbedding, SettingsThatMakeNoSense) {
  EXPECT_THROW(RotaryEmbedding<float>::from_theta(7, 10000), ConfigError);
  EXPECT_THROW(RotaryEmbedding<float>::from_theta(0, 10000), ConfigError);
  EXPECT_THROW(RotaryEmbedding<float>::from_theta(8, -1), ConfigError);
}

}  // namespace rotary_embedding_test
}  // namespace glassbox
