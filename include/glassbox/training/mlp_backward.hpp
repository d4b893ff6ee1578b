// The feed-forward in training: the forward that keeps what the backward needs, and the backward.
#pragma once

#include "glassbox/mlp.hpp"
#include "glassbox/training/activation_backward.hpp"
#include "glassbox/training/linear_backward.hpp"

namespace glassbox {

// What the backward of the feed-forward needs of its forward, [batch, seq, intermediate] each.
template <std::floating_point Scalar>
struct MLPActivations {
  Tensor<Scalar> gate_proj;
  Tensor<Scalar> up_proj;
  Tensor<Scalar> activated;
  Tensor<Scalar> gated;
};

// MLP::forward, line by line, with its intermediates kept. hidden_states [batch, seq, hidden]  ->  the same
template <std::floating_point Scalar>
Tensor<Scalar> mlp_training_forward(const MLP<Scalar>& mlp, const Tensor<Scalar>& hidden_states,
                                    MLPActivations<Scalar>& activations) {
  const Index layer = mlp.layer;
  activations.gate_proj = mlp.gate_proj.forward(hidden_states);  // [batch, seq, intermediate]
  stage("gate_proj", layer, activations.gate_proj);
  activations.up_proj = mlp.up_proj.forward(hidden_states);  // [batch, seq, intermediate]
  stage("up_proj", layer, activations.up_proj);
  activations.activated = silu(activations.gate_proj);  // [batch, seq, intermediate]
  stage("activated", layer, activations.activated);
  activations.gated = multiply_elementwise(activations.activated, activations.up_proj);
  stage("gated", layer, activations.gated);                                    // [batch, seq, intermediate]
  Tensor<Scalar> down_proj_output = mlp.down_proj.forward(activations.gated);  // [batch, seq, hidden]
  stage("down_proj", layer, down_proj_output);
  return down_proj_output;
}

// hidden_states: the input of the forward. d_down_proj [batch, seq, hidden]  ->  d_hidden_states, the same
// shape. The gradients of the weights are added to `gradients`.
template <std::floating_point Scalar>
Tensor<Scalar> mlp_backward(const MLP<Scalar>& mlp, const Tensor<Scalar>& hidden_states,
                            const MLPActivations<Scalar>& activations, Tensor<Scalar>& d_down_proj,
                            MLP<Scalar>& gradients) {
  const Index layer = mlp.layer;
  stage("d_down_proj", layer, d_down_proj);  // [batch, seq, hidden]

  // forward: down_proj_output = down_proj.forward(gated)
  Tensor<Scalar> d_gated =
      linear_backward(mlp.down_proj, activations.gated, d_down_proj, gradients.down_proj);
  stage("d_gated", layer, d_gated);  // [batch, seq, intermediate]

  // forward: gated = multiply_elementwise(activated, up_proj_output): each factor scales the other's gradient
  Tensor<Scalar> d_activated = multiply_elementwise(d_gated, activations.up_proj);
  stage("d_activated", layer, d_activated);  // [batch, seq, intermediate]
  Tensor<Scalar> d_up_proj = multiply_elementwise(d_gated, activations.activated);
  stage("d_up_proj", layer, d_up_proj);  // [batch, seq, intermediate]

  // forward: activated = silu(gate_proj_output)
  Tensor<Scalar> d_gate_proj = silu_backward(activations.gate_proj, d_activated);
  stage("d_gate_proj", layer, d_gate_proj);  // [batch, seq, intermediate]

  // forward: up_proj_output = up_proj.forward(hidden_states)
  Tensor<Scalar> d_hidden_by_up =
      linear_backward(mlp.up_proj, hidden_states, d_up_proj, gradients.up_proj);  // [batch, seq, hidden]
  // forward: gate_proj_output = gate_proj.forward(hidden_states)
  Tensor<Scalar> d_hidden_by_gate = linear_backward(mlp.gate_proj, hidden_states, d_gate_proj,
                                                    gradients.gate_proj);  // [batch, seq, hidden]
  // hidden_states went two ways: its gradient is the sum of both
  Tensor<Scalar> d_hidden_states = add(d_hidden_by_gate, d_hidden_by_up);  // [batch, seq, hidden]
  return d_hidden_states;
}

}  // namespace glassbox
