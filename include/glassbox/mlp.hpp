// The feed-forward of a decoder layer, with a gate (SwiGLU): every position by itself.
#pragma once

#include "glassbox/activation.hpp"
#include "glassbox/elementwise.hpp"
#include "glassbox/linear.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {

// output = down_proj( silu(gate_proj(x)) * up_proj(x) )
// (Shazeer 2020, arXiv:2002.05202, section 2; transformers LlamaMLP.forward)
template <std::floating_point Scalar>
struct MLP {
  Linear<Scalar> gate_proj;  // weight [intermediate, hidden]
  Linear<Scalar> up_proj;    // weight [intermediate, hidden]
  Linear<Scalar> down_proj;  // weight [hidden, intermediate]
  Index layer = 0;

  // hidden_states [batch, seq, hidden]  ->  [batch, seq, hidden]
  Tensor<Scalar> forward(const Tensor<Scalar>& hidden_states) const {
    Tensor<Scalar> gate_proj_output = gate_proj.forward(hidden_states);  // [batch, seq, intermediate]
    stage("gate_proj", layer, gate_proj_output);
    Tensor<Scalar> up_proj_output = up_proj.forward(hidden_states);  // [batch, seq, intermediate]
    stage("up_proj", layer, up_proj_output);
    Tensor<Scalar> activated = silu(gate_proj_output);  // [batch, seq, intermediate]
    stage("activated", layer, activated);
    Tensor<Scalar> gated = multiply_elementwise(activated, up_proj_output);  // [batch, seq, intermediate]
    stage("gated", layer, gated);
    Tensor<Scalar> down_proj_output = down_proj.forward(gated);  // [batch, seq, hidden]
    stage("down_proj", layer, down_proj_output);
    return down_proj_output;
  }
};

}  // namespace glassbox
