// Comparing tensors and errors in tests: a failure names the axes and the worst index.
#pragma once

#include <gtest/gtest.h>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <sstream>
#include <string>
#include <typeinfo>
#include <vector>

#include "glassbox/tensor.hpp"

namespace glassbox::test_support {

// TYPED_TEST_SUITE(Softmax, Scalars, ScalarNames) makes Softmax/f32 and Softmax/f64.
using Scalars = ::testing::Types<float, double>;
struct ScalarNames {
  template <typename Scalar>
  static std::string GetName(int) {
    return dtype_name<Scalar>();
  }
};

// How far a short chain of operations on numbers of about 1 may be off.
template <typename Scalar>
constexpr double rounding() {
  return sizeof(Scalar) == 4 ? 2e-6 : 1e-12;
}

template <typename T>
Tensor<T> make_tensor(std::initializer_list<Axis> axes, const std::vector<double>& values) {
  Tensor<T> tensor(axes);
  if (static_cast<Index>(values.size()) != tensor.size()) throw std::logic_error("make_tensor: wrong count");
  for (Index i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<T>(values[std::size_t(i)]);
  return tensor;
}

// Numbers in [-largest, largest] that float holds exactly: the float and the double tensor are equal.
template <typename T>
Tensor<T> random_tensor(std::initializer_list<Axis> axes, std::uint32_t seed, double largest = 1) {
  std::mt19937 random(seed);
  Tensor<T> tensor(axes);
  for (Index i = 0; i < tensor.size(); ++i) {
    const double unit = static_cast<double>(random()) / 2147483648.0 - 1;
    tensor.data()[i] = static_cast<T>(static_cast<float>(unit * largest));
  }
  return tensor;
}

// All elements, row after row.
template <typename T>
std::vector<double> values_of(const Tensor<T>& tensor) {
  std::vector<double> values;
  for (Index r = 0; r < tensor.rows(); ++r) {
    for (Index c = 0; c < tensor.cols(); ++c) values.push_back(static_cast<double>(tensor.row(r)[c]));
  }
  return values;
}

// "[batch=0, seq=2, hidden=3]" of the element that is number `flat` in memory order.
template <typename T>
std::string index_string(const Tensor<T>& tensor, Index flat) {
  Axis indices[4];
  for (int i = tensor.rank() - 1; i >= 0; --i) {
    indices[i] = tensor.axis(i);
    indices[i].size = flat % tensor.dim(i);
    flat /= tensor.dim(i);
  }
  return shape_string(indices, tensor.rank());
}

// 0 for equal numbers, infinities included, and for two NaNs; infinity where only one of them is NaN.
inline double distance(double found, double expected) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return 0;
  const double difference = std::abs(found - expected);
  return std::isnan(difference) ? HUGE_VAL : difference;
}

// Success if no element is further than `tolerance` from the expected one.
template <typename T>
::testing::AssertionResult near_values(const Tensor<T>& found, const std::vector<double>& expected,
                                       double tolerance) {
  const std::vector<double> values = values_of(found);
  if (values.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << shape_string(found) << " has " << values.size() << " elements, expected " << expected.size();
  }
  std::size_t worst = 0;
  std::size_t wrong = 0;
  double largest = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = distance(values[i], expected[i]);
    if (!(difference <= tolerance)) ++wrong;
    if (!(difference > largest)) continue;
    largest = difference;
    worst = i;
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  std::ostringstream text;
  text.precision(10);
  text << shape_string(found) << ": " << wrong << " of " << values.size() << " elements differ by more than "
       << tolerance << "; the worst at " << index_string(found, static_cast<Index>(worst)) << ": found "
       << values[worst] << ", expected " << expected[worst] << ", difference " << largest;
  return ::testing::AssertionFailure() << text.str();
}

// The same against another tensor, whose sizes must agree too; the axes' names may differ.
template <typename T, typename U>
::testing::AssertionResult near_tensors(const Tensor<T>& found, const Tensor<U>& expected, double tolerance) {
  bool same = found.rank() == expected.rank();
  for (int i = 0; same && i < found.rank(); ++i) same = found.dim(i) == expected.dim(i);
  if (!same) {
    return ::testing::AssertionFailure()
           << "found shape " << shape_string(found) << ", expected " << shape_string(expected);
  }
  return near_values(found, values_of(expected), tolerance);
}

// Success if the call throws exactly an ErrorType with exactly this text.
template <typename ErrorType, typename Callable>
::testing::AssertionResult throws(Callable callable, const std::string& text) {
  try {
    callable();
  } catch (const ErrorType& error) {
    if (typeid(error) == typeid(ErrorType) && text == error.what()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << typeid(error).name() << "\n   found: " << error.what() << "\nexpected: " << text;
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << "another type: " << typeid(error).name() << ": " << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown, expected: " << text;
}

}  // namespace glassbox::test_support
