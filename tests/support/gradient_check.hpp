// Central differences: what a gradient must be, found without any formula. The number is moved a little up
// and down, and the slope of the loss in between is (loss(x + step) - loss(x - step)) / (2 step), in double.
#pragma once

#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "glassbox/training/parameters.hpp"
#include "support/expect_near.hpp"

namespace glassbox::test_support {

struct GradientCheck {
  double step = 1e-5;       // wrong by about step^2 times the third derivative, and 1e-16 / step by rounding
  double tolerance = 1e-7;  // of |slope - gradient| / max(1, |gradient|)
  Index samples = 0;        // so many numbers of each tensor, spread evenly; 0: all
};

// The loss that turns any output into one number: sum of output * weights. Its gradient is `weights`.
template <typename Scalar>
double weighted_sum(const Tensor<Scalar>& output, const Tensor<Scalar>& weights) {
  double sum = 0;
  for (Index r = 0; r < output.rows(); ++r) sum += double(output.row(r).dot(weights.row(r)));
  return sum;
}

// Success if each of the `size` numbers' gradients is the slope of loss(). The numbers are as before
// afterwards.
inline ::testing::AssertionResult gradient_agrees(const std::string& name, double* values, Index size,
                                                  const double* gradient, const std::function<double()>& loss,
                                                  const GradientCheck& check = {}) {
  const Index samples = check.samples == 0 || check.samples > size ? size : check.samples;
  Index worst = -1, wrong = 0;
  double largest = -1, worst_slope = 0;
  for (Index sample = 0; sample < samples; ++sample) {
    const Index i = samples == 1 ? 0 : sample * (size - 1) / (samples - 1);
    const double before = values[i];
    values[i] = before + check.step;
    const double above = loss();
    values[i] = before - check.step;
    const double below = loss();
    values[i] = before;
    const double slope = (above - below) / (2 * check.step);
    double difference = std::abs(slope - gradient[i]) / (std::max)(1.0, std::abs(gradient[i]));
    if (std::isnan(difference)) difference = HUGE_VAL;
    if (difference > check.tolerance) ++wrong;
    if (!(difference > largest)) continue;
    largest = difference;
    worst = i;
    worst_slope = slope;
  }
  if (wrong == 0 && samples > 0) return ::testing::AssertionSuccess();
  std::ostringstream text;
  text.precision(10);
  if (samples == 0) {
    text << name << " is empty";
  } else {
    text << name << ": " << wrong << " of " << samples
         << " gradients are not the slope; the worst at element " << worst << ": gradient " << gradient[worst]
         << ", slope " << worst_slope << ", difference " << largest << " where " << check.tolerance
         << " is allowed";
  }
  return ::testing::AssertionFailure() << text.str();
}

inline ::testing::AssertionResult gradient_agrees(const std::string& name, Tensor<double>& tensor,
                                                  const Tensor<double>& gradient,
                                                  const std::function<double()>& loss,
                                                  const GradientCheck& check = {}) {
  if (gradient.size() != tensor.size()) {
    return ::testing::AssertionFailure()
           << name << " " << shape_string(tensor) << " has a gradient " << shape_string(gradient);
  }
  return gradient_agrees(name, tensor.data(), tensor.size(), gradient.data(), loss, check);
}

inline ::testing::AssertionResult gradient_agrees(const std::string& name, WeightMatrix& weight,
                                                  WeightMatrix& gradient, const std::function<double()>& loss,
                                                  const GradientCheck& check = {}) {
  return gradient_agrees(name, trainable_values<double>(name, weight), weight.out.size * weight.in.size,
                         trainable_values<double>(name, gradient), loss, check);
}

// Weight and, where there is one, bias.
inline ::testing::AssertionResult gradients_agree(const std::string& name, Linear<double>& linear,
                                                  Linear<double>& gradients,
                                                  const std::function<double()>& loss,
                                                  const GradientCheck& check = {}) {
  const ::testing::AssertionResult result =
      gradient_agrees(name + ".weight", linear.weight, gradients.weight, loss, check);
  if (!result || linear.bias.rank() == 0) return result;
  return gradient_agrees(name + ".bias", linear.bias, gradients.bias, loss, check);
}

// Every parameter of a list, for example of a whole model.
inline ::testing::AssertionResult gradients_agree(const std::vector<Parameter<double>>& parameters,
                                                  const std::vector<Parameter<double>>& gradients,
                                                  const std::function<double()>& loss,
                                                  const GradientCheck& check = {}) {
  if (parameters.size() != gradients.size() || parameters.empty()) {
    return ::testing::AssertionFailure()
           << parameters.size() << " parameters, but " << gradients.size() << " gradients";
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name != gradients[i].name || parameters[i].size != gradients[i].size) {
      return ::testing::AssertionFailure() << parameters[i].name << " has the gradient " << gradients[i].name;
    }
    const ::testing::AssertionResult result = gradient_agrees(
        parameters[i].name, parameters[i].values, parameters[i].size, gradients[i].values, loss, check);
    if (!result) return result;
  }
  return ::testing::AssertionSuccess();
}

// Room for the gradients of one part: the same shape, all zero.
template <typename Scalar>
Linear<Scalar> zero_like(const Linear<Scalar>& linear) {
  Linear<Scalar> zeros;
  zeros.weight = WeightMatrix::from_tensor(Tensor<Scalar>({linear.weight.out, linear.weight.in}));
  if (linear.bias.rank() > 0) zeros.bias = Tensor<Scalar>({linear.bias.axis(0)});
  return zeros;
}

template <typename Scalar>
RMSNorm<Scalar> zero_like(const RMSNorm<Scalar>& norm) {
  RMSNorm<Scalar> zeros;
  zeros.weight = Tensor<Scalar>::like(norm.weight);
  return zeros;
}

template <typename Scalar>
MLP<Scalar> zero_like(const MLP<Scalar>& mlp) {
  MLP<Scalar> zeros;
  zeros.gate_proj = zero_like(mlp.gate_proj);
  zeros.up_proj = zero_like(mlp.up_proj);
  zeros.down_proj = zero_like(mlp.down_proj);
  return zeros;
}

template <typename Scalar>
Attention<Scalar> zero_like(const Attention<Scalar>& attention) {
  Attention<Scalar> zeros;
  zeros.q_proj = zero_like(attention.q_proj);
  zeros.k_proj = zero_like(attention.k_proj);
  zeros.v_proj = zero_like(attention.v_proj);
  zeros.o_proj = zero_like(attention.o_proj);
  return zeros;
}

template <typename Scalar>
DecoderLayer<Scalar> zero_like(const DecoderLayer<Scalar>& layer) {
  DecoderLayer<Scalar> zeros;
  zeros.input_layernorm = zero_like(layer.input_layernorm);
  zeros.self_attn = zero_like(layer.self_attn);
  zeros.post_attention_layernorm = zero_like(layer.post_attention_layernorm);
  zeros.mlp = zero_like(layer.mlp);
  return zeros;
}

template <typename Scalar>
std::vector<double> values_of(const WeightMatrix& weight) {
  const Scalar* const values = weight.values<Scalar>();
  return std::vector<double>(values, values + weight.out.size * weight.in.size);
}

// Success if no number of the float gradient is further than `tolerance` from the double one.
inline ::testing::AssertionResult near_gradients(const std::vector<Parameter<float>>& found,
                                                 const std::vector<Parameter<double>>& expected,
                                                 double tolerance) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " and " << expected.size() << " parameters";
  }
  for (std::size_t p = 0; p < found.size(); ++p) {
    for (Index i = 0; i < found[p].size; ++i) {
      const double difference = distance(double(found[p].values[i]), expected[p].values[i]);
      if (difference <= tolerance * (std::max)(1.0, std::abs(expected[p].values[i]))) continue;
      return ::testing::AssertionFailure() << found[p].name << ", element " << i << ": f32 "
                                           << found[p].values[i] << ", f64 " << expected[p].values[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// The same bits, in every parameter.
template <typename Scalar>
::testing::AssertionResult same_bits(const std::vector<Parameter<Scalar>>& found,
                                     const std::vector<Parameter<Scalar>>& expected) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " and " << expected.size() << " parameters";
  }
  for (std::size_t p = 0; p < found.size(); ++p) {
    const std::size_t bytes = static_cast<std::size_t>(found[p].size) * sizeof(Scalar);
    if (found[p].size == expected[p].size && std::memcmp(found[p].values, expected[p].values, bytes) == 0) {
      continue;
    }
    return ::testing::AssertionFailure() << found[p].name << " is not the same to the last bit";
  }
  return ::testing::AssertionSuccess();
}

// All numbers of a list, to be compared later.
template <typename Scalar>
std::vector<Scalar> numbers_of(const std::vector<Parameter<Scalar>>& parameters) {
  std::vector<Scalar> numbers;
  for (const Parameter<Scalar>& parameter : parameters) {
    numbers.insert(numbers.end(), parameter.values, parameter.values + parameter.size);
  }
  return numbers;
}

// The largest difference of two such lists; infinity where their lengths differ.
template <typename Scalar>
double largest_difference(const std::vector<Scalar>& found, const std::vector<Scalar>& expected) {
  if (found.size() != expected.size()) return HUGE_VAL;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = (std::max)(largest, distance(double(found[i]), double(expected[i])));
  }
  return largest;
}

}  // namespace glassbox::test_support
