// Faults that must turn this red: a product of the wrong operand, one not transposed, the outer products
// written instead of added; a shape that does not fit taken.
#include "glassbox/training/gradient_products.hpp"

#include "glassbox/tensor.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace gradient_products_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::random_tensor;
using test_support::rounding;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

template <typename Scalar>
class GradientProductsTest : public ::testing::Test {};
TYPED_TEST_SUITE(GradientProductsTest, Scalars, ScalarNames);

// a = (1 2; 3 4), b = (5 6; 7 8): a b, a^T b and a b^T.
TYPED_TEST(GradientProductsTest, WorkedExample) {
  const Tensor<TypeParam> a = make_tensor<TypeParam>({{"r", 2}, {"c", 2}}, {1, 2, 3, 4});
  const Tensor<TypeParam> b = make_tensor<TypeParam>({{"r", 2}, {"c", 2}}, {5, 6, 7, 8});
  Tensor<TypeParam> output = make_tensor<TypeParam>({{"r", 2}, {"c", 2}}, {100, 100, 100, 100});
  gradient_product<TypeParam>(a.matrix(), b.matrix(), output.matrix());
  EXPECT_TRUE(near_values(output, {19, 22, 43, 50}, 0));
  gradient_product_transposed<TypeParam>(a.matrix(), b.matrix(), output.matrix());
  EXPECT_TRUE(near_values(output, {17, 23, 39, 53}, 0));
  add_outer_products<TypeParam>(a.matrix(), b.matrix(), output.matrix());
  EXPECT_TRUE(near_values(output, {17 + 26, 23 + 30, 39 + 38, 53 + 44}, 0));
}

TYPED_TEST(GradientProductsTest, EqualNaiveLoops) {
  const Tensor<TypeParam> a = random_tensor<TypeParam>({{"i", 3}, {"j", 5}}, 1);
  const Tensor<TypeParam> b = random_tensor<TypeParam>({{"j", 5}, {"k", 4}}, 2);
  const Tensor<TypeParam> b_transposed = random_tensor<TypeParam>({{"k", 4}, {"j", 5}}, 3);
  const Tensor<TypeParam> c = random_tensor<TypeParam>({{"i", 3}, {"k", 4}}, 4);
  std::vector<double> product(12, 0.0), transposed(12, 0.0), outer(20, 1.0);
  for (Index i = 0; i < 3; ++i) {
    for (Index k = 0; k < 4; ++k) {
      for (Index j = 0; j < 5; ++j) {
        product[std::size_t(i * 4 + k)] += double(a(i, j)) * double(b(j, k));
        transposed[std::size_t(i * 4 + k)] += double(a(i, j)) * double(b_transposed(k, j));
        outer[std::size_t(j * 4 + k)] += double(a(i, j)) * double(c(i, k));
      }
    }
  }
  Tensor<TypeParam> output({{"i", 3}, {"k", 4}});
  gradient_product<TypeParam>(a.matrix(), b.matrix(), output.matrix());
  EXPECT_TRUE(near_values(output, product, 2 * rounding<TypeParam>()));
  gradient_product_transposed<TypeParam>(a.matrix(), b_transposed.matrix(), output.matrix());
  EXPECT_TRUE(near_values(output, transposed, 2 * rounding<TypeParam>()));
  Tensor<TypeParam> sum({{"j", 5}, {"k", 4}});
  sum.matrix().setOnes();
  add_outer_products<TypeParam>(a.matrix(), c.matrix(), sum.matrix());
  EXPECT_TRUE(near_values(sum, outer, 2 * rounding<TypeParam>()));
}

TEST(GradientProducts, Errors) {
  const Tensor<float> a({{"i", 2}, {"j", 3}});
  const Tensor<float> b({{"i", 2}, {"k", 4}});
  const Tensor<float> fits({{"j", 3}, {"k", 4}});
  Tensor<float> output({{"i", 2}, {"k", 4}});
  Tensor<float> square({{"i", 2}, {"j", 2}});
  EXPECT_TRUE(throws<ShapeError>([&] { gradient_product<float>(a.matrix(), b.matrix(), output.matrix()); },
                                 "gradient_product: [2, 3] . [2, 4] does not give [2, 4]"));
  EXPECT_TRUE(throws<ShapeError>([&] { gradient_product<float>(a.matrix(), fits.matrix(), square.matrix()); },
                                 "gradient_product: [2, 3] . [3, 4] does not give [2, 2]"));
  EXPECT_TRUE(throws<ShapeError>([&] { add_outer_products<float>(a.matrix(), b.matrix(), output.matrix()); },
                                 "add_outer_products: [2, 3]^T . [2, 4] does not give [2, 4]"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { add_outer_products<float>(fits.matrix(), b.matrix(), output.matrix()); },
                         "add_outer_products: [3, 4]^T . [2, 4] does not give [2, 4]"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { gradient_product_transposed<float>(a.matrix(), b.matrix(), output.matrix()); },
                         "gradient_product_transposed: [2, 3] . [2, 4]^T does not give [2, 4]"));
  EXPECT_TRUE(
      throws<ShapeError>([&] { gradient_product_transposed<float>(b.matrix(), b.matrix(), output.matrix()); },
                         "gradient_product_transposed: [2, 4] . [2, 4]^T does not give [2, 4]"));
}

}  // namespace gradient_products_test
}  // namespace glassbox
