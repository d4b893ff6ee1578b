// Faults that must turn this red: labels not shifted, shifted by two, or the other way; the mean over all
// positions, ignored ones included; the sum in place of the mean; the one-hot vector left out of the
// gradient; exp of large logits; the labels of one text used for another.
#include "glassbox/training/cross_entropy.hpp"

#include "glassbox/io/json.hpp"
#include "support/gradient_check.hpp"

namespace glassbox {
namespace cross_entropy_test {

using test_support::gradient_agrees;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;
using test_support::values_of;

static_assert(std::is_same_v<decltype(shift_labels(Tensor<TokenId>())), Tensor<TokenId>>);

template <typename Scalar>
class CrossEntropyTest : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyTest, Scalars, ScalarNames);

TEST(ShiftLabels, EachPositionPredictsTheNextToken) {
  const Tensor<TokenId> labels =
      make_tensor<TokenId>({{"batch", 2}, {"seq", 3}}, {1, 2, 3, 4, double(ignore_index), 6});
  const Tensor<TokenId> shifted = shift_labels(labels);
  EXPECT_EQ(shape_string(shifted), "[batch=2, seq=3]");
  EXPECT_TRUE(near_values(shifted, {2, 3, -100, -100, 6, -100}, 0));
  EXPECT_TRUE(near_values(shift_labels(make_tensor<TokenId>({{"batch", 1}, {"seq", 1}}, {5})), {-100}, 0));
  EXPECT_EQ(shift_labels(Tensor<TokenId>({{"batch", 2}, {"seq", 0}})).size(), 0);
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        shift_labels(Tensor<TokenId>({{"seq", 3}}));
      },
      "shift_labels: labels [seq=3] has 1 axes, expected 2"));
}

// Logits 0 and ln 3: probabilities 1/4 and 3/4. The labels 0 and 1 cost ln 4 and ln 4/3; the third position
// does not count, so that the mean is over two.
TYPED_TEST(CrossEntropyTest, WorkedExample) {
  const double ln3 = std::log(3.0);
  const Tensor<TypeParam> logits =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 3}, {"vocab", 2}}, {0, ln3, 0, ln3, 7, 9});
  const Tensor<TokenId> labels = make_tensor<TokenId>({{"batch", 1}, {"seq", 3}}, {0, 1, -100});
  const CrossEntropy<TypeParam> result = cross_entropy(logits, labels);
  EXPECT_EQ(shape_string(result.token_losses), "[batch=1, seq=3]");
  EXPECT_TRUE(near_values(result.token_losses, {std::log(4.0), std::log(4.0 / 3), 0}, rounding<TypeParam>()));
  EXPECT_EQ(result.counted, 2);
  EXPECT_NEAR(result.sum, std::log(16.0 / 3), rounding<TypeParam>());
  EXPECT_NEAR(result.loss, std::log(16.0 / 3) / 2, rounding<TypeParam>());
  const Tensor<TypeParam> d_logits = cross_entropy_backward(logits, labels, 2);
  EXPECT_EQ(shape_string(d_logits), "[batch=1, seq=3, vocab=2]");
  EXPECT_TRUE(near_values(d_logits, {-0.375, 0.375, 0.125, -0.125, 0, 0}, rounding<TypeParam>()));
  // A batch that is part of a larger one: the mean is over the labels of the whole.
  EXPECT_TRUE(near_values(cross_entropy_backward(logits, labels, 4), {-0.1875, 0.1875, 0.0625, -0.0625, 0, 0},
                          rounding<TypeParam>()));
}

// tests/reference/loss/cases.json: another implementation in double.
TYPED_TEST(CrossEntropyTest, EqualsTheReference) {
  std::ifstream file(std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/loss/cases.json");
  const Json cases = Json::parse(file)["cases"];
  EXPECT_EQ(cases.size(), 9u);
  for (const Json& entry : cases) {
    SCOPED_TRACE(entry["about"].get<std::string>());
    const std::vector<std::vector<double>> rows = entry["logits"];
    const Index seq = static_cast<Index>(rows.size()), vocab = static_cast<Index>(rows[0].size());
    Tensor<TypeParam> logits({{"batch", 1}, {"seq", seq}, {"vocab", vocab}});
    double largest = 1;
    for (Index s = 0; s < seq; ++s) {
      for (Index v = 0; v < vocab; ++v) {
        logits(0, s, v) = TypeParam(rows[std::size_t(s)][std::size_t(v)]);
        largest = (std::max)(largest, std::abs(rows[std::size_t(s)][std::size_t(v)]));
      }
    }
    Tensor<TokenId> labels = make_tensor<TokenId>({{"batch", 1}, {"seq", seq}}, entry["labels"]);
    if (entry["shifted"].get<bool>()) labels = shift_labels(labels);
    const double tolerance = largest * rounding<TypeParam>();
    std::vector<double> per_position = entry["per_position"];
    per_position.resize(std::size_t(seq), 0.0);
    const CrossEntropy<TypeParam> result = cross_entropy(logits, labels);
    EXPECT_EQ(result.counted, entry["counted"].get<Index>());
    EXPECT_TRUE(near_values(result.token_losses, per_position, tolerance));
    EXPECT_NEAR(result.sum, entry["sum"].get<double>(), 5 * tolerance);
    if (entry["mean"].is_null()) {
      EXPECT_EQ(result.loss, 0);
      continue;
    }
    EXPECT_NEAR(result.loss, entry["mean"].get<double>(), tolerance);
    std::vector<double> gradient;
    for (const Json& row : entry["gradient_of_mean"]) {
      const std::vector<double> values = row;
      gradient.insert(gradient.end(), values.begin(), values.end());
    }
    const Tensor<TypeParam> d_logits = cross_entropy_backward(logits, labels, result.counted);
    EXPECT_TRUE(near_values(d_logits, gradient, tolerance));
  }
}

TYPED_TEST(CrossEntropyTest, AllLabelsIgnored) {
  const Tensor<TypeParam> logits = random_tensor<TypeParam>({{"batch", 2}, {"seq", 2}, {"vocab", 3}}, 1);
  const Tensor<TokenId> labels =
      make_tensor<TokenId>({{"batch", 2}, {"seq", 2}}, std::vector<double>(4, -100.0));
  const CrossEntropy<TypeParam> result = cross_entropy(logits, labels);
  EXPECT_EQ(result.counted, 0);
  EXPECT_EQ(result.sum, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_TRUE(near_values(result.token_losses, {0, 0, 0, 0}, 0));
  EXPECT_TRUE(near_values(cross_entropy_backward(logits, labels, 0), std::vector<double>(12, 0.0), 0));
}

// log(1 + exp(-10)) = 4.54e-5 remains of two logits of which each alone is known to 1e-3 only.
TYPED_TEST(CrossEntropyTest, SmallLossOfLargeLogits) {
  const Tensor<TypeParam> logits =
      make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"vocab", 2}}, {10000, 9990});
  const Tensor<TokenId> labels = make_tensor<TokenId>({{"batch", 1}, {"seq", 1}}, {0});
  EXPECT_NEAR(cross_entropy(logits, labels).loss, std::log1p(std::exp(-10.0)), 1e-7);
}

// A label that is nearly certain: loss and gradient are exp(-20) = 2e-9, of which float's 1 - p keeps
// nothing.
TYPED_TEST(CrossEntropyTest, ANearlyCertainLabelKeepsItsDigits) {
  const Tensor<TypeParam> logits = make_tensor<TypeParam>({{"batch", 1}, {"seq", 1}, {"vocab", 2}}, {20, 0});
  const Tensor<TokenId> labels = make_tensor<TokenId>({{"batch", 1}, {"seq", 1}}, {0});
  const double rest = std::exp(-20.0);
  EXPECT_NEAR(cross_entropy(logits, labels).loss, rest, 1e-6 * rest);
  EXPECT_TRUE(near_values(cross_entropy_backward(logits, labels, 1), {-rest, rest}, 1e-6 * rest));
}

TEST(CrossEntropyBackward, EqualsCentralDifferences) {
  Tensor<double> logits = random_tensor<double>({{"batch", 2}, {"seq", 3}, {"vocab", 5}}, 3, 2);
  const Tensor<TokenId> labels = make_tensor<TokenId>({{"batch", 2}, {"seq", 3}}, {4, -100, 1, 0, 2, -100});
  const Tensor<double> d_logits = cross_entropy_backward(logits, labels, 4);
  EXPECT_TRUE(
      gradient_agrees("logits", logits, d_logits, [&] { return cross_entropy(logits, labels).loss; }));
  for (Index r = 0; r < d_logits.rows(); ++r) EXPECT_NEAR(d_logits.row(r).sum(), 0, 1e-15);
  const Tensor<float> narrow = random_tensor<float>({{"batch", 2}, {"seq", 3}, {"vocab", 5}}, 3, 2);
  EXPECT_TRUE(near_tensors(cross_entropy_backward(narrow, labels, 4), d_logits, 1e-6));
}

TEST(CrossEntropyErrors, SayWhatDoesNotFit) {
  const Tensor<float> logits({{"batch", 2}, {"seq", 3}, {"vocab", 4}});
  const auto labels = [](Index batch, Index seq, TokenId last) {
    Tensor<TokenId> tensor({{"batch", batch}, {"seq", seq}});
    tensor(batch - 1, seq - 1) = last;
    return tensor;
  };
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        cross_entropy(Tensor<float>({{"vocab", 4}}), labels(2, 3, 0));
      },
      "cross_entropy: logits [vocab=4] has 1 axes, expected 3"));
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        cross_entropy(logits, Tensor<TokenId>({{"seq", 3}}));
      },
      "cross_entropy: shifted_labels [seq=3] has 1 axes, expected 2"));
  EXPECT_TRUE(throws<ShapeError>([&] { cross_entropy(logits, labels(1, 3, 0)); },
                                 "cross_entropy: shifted_labels [batch=1, seq=3]: axis 0 must have 2 "
                                 "elements (batch of the logits)"));
  EXPECT_TRUE(throws<ShapeError>([&] { cross_entropy_backward(logits, labels(2, 2, 0), 4); },
                                 "cross_entropy_backward: shifted_labels [batch=2, seq=2]: axis 1 must have "
                                 "3 elements (positions of the logits)"));
  EXPECT_TRUE(throws<TokenError>([&] { cross_entropy(logits, labels(2, 3, 4)); },
                                 "cross_entropy: label 4 of batch 1, position 2 is not in 0..3, nor -100 "
                                 "(not counted)"));
  EXPECT_TRUE(
      throws<TokenError>([&] { cross_entropy_backward(logits, labels(2, 3, -1), 6); },
                         "cross_entropy_backward: label -1 of batch 1, position 2 is not in 0..3, nor "
                         "-100 (not counted)"));
  EXPECT_TRUE(throws<ShapeError>([&] { cross_entropy_backward(logits, labels(2, 3, -100), 4); },
                                 "cross_entropy_backward: the mean is over 4 positions, but 5 have a label"));
}

}  // namespace cross_entropy_test
}  // namespace glassbox
