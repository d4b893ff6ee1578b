// How long the gradient of the whole model is, and shortening it where it is too long.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "glassbox/training/parameters.hpp"

namespace glassbox {
namespace loops {

template <std::floating_point Scalar>
double sum_of_squares(const Scalar* values, Index size) {
  double sum = 0;
  for (Index i = 0; i < size; ++i) sum += double(values[i]) * double(values[i]);
  return sum;
}

template <std::floating_point Scalar>
Index first_not_finite(const Scalar* values, Index size) {
  for (Index i = 0; i < size; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

}  // namespace loops

// Throws NumericError naming the first parameter whose values are not all finite; `what` is "gradient" or
// "parameter". A training that goes on after a NaN only spreads it.
template <std::floating_point Scalar>
void check_finite(const char* what, const std::vector<Parameter<Scalar>>& parameters) {
  for (const Parameter<Scalar>& parameter : parameters) {
    const Index place = loops::first_not_finite(parameter.values, parameter.size);
    if (place < 0) continue;
    const std::string shape = shape_string(parameter.axes.data(), static_cast<int>(parameter.axes.size()));
    throw_error<NumericError>(std::string(what) + " of " + parameter.name + " " + shape + " holds " +
                              std::to_string(parameter.values[place]) + " at element " +
                              std::to_string(place) + ": training stops here");
  }
}

// sqrt of the sum over all parameters of their squared gradients, added up in double.
template <std::floating_point Scalar>
double global_norm(const std::vector<Parameter<Scalar>>& gradients) {
  double sum = 0;
  for (const Parameter<Scalar>& gradient : gradients) {
    sum += loops::sum_of_squares(gradient.values, gradient.size);
  }
  return std::sqrt(sum);
}

// gradient *= min(1, max_norm / (norm + 1e-6)) for all parameters alike, so that the direction stays
// (torch.nn.utils.clip_grad_norm_). Returns the norm before. max_norm 0: nothing is clipped.
template <std::floating_point Scalar>
double clip_gradients(std::vector<Parameter<Scalar>>& gradients, double max_norm) {
  if (!(max_norm >= 0)) {
    throw_error<UsageError>("clip_gradients: max_norm is " + std::to_string(max_norm) +
                            ", expected 0 (no clipping) or more");
  }
  const double norm = global_norm(gradients);
  const double factor = max_norm / (norm + 1e-6);
  if (max_norm == 0 || factor >= 1) return norm;
  for (Parameter<Scalar>& gradient : gradients) gradient.view() *= Scalar(factor);
  return norm;
}

}  // namespace glassbox
