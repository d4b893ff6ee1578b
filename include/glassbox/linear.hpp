// Linear: a weight matrix, and a bias where the model has one.
#pragma once

#include "glassbox/matmul.hpp"

namespace glassbox {

// output[..., o] = sum_i input[..., i] * weight[o, i] + bias[o]      (torch.nn.Linear)
template <std::floating_point Scalar>
struct Linear {
  WeightMatrix weight;  // [out, in]
  Tensor<Scalar> bias;  // [out]; rank 0: none

  // input [..., in]  ->  [..., out]
  Tensor<Scalar> forward(const Tensor<Scalar>& input) const {
    Tensor<Scalar> output = matmul(input, weight);
    if (bias.rank() == 0) return output;
    check_last_axis("Linear::forward", "output", output, "bias", bias);
    Tensor<Scalar> biased_output = Tensor<Scalar>::like(output);
    for (Index r = 0; r < output.rows(); ++r) biased_output.row(r) = output.row(r) + bias.row(0);
    return biased_output;
  }
};

}  // namespace glassbox
