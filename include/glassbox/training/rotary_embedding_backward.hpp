// Backward of the rotary position embedding: the rotation the other way.
#pragma once

#include "glassbox/rotary_embedding.hpp"

namespace glassbox {

// Forward:  output = heads * cos + rotate_half(heads) * sin: each pair (x, y) is turned by an angle a,
//           x' = x cos a - y sin a,  y' = y cos a + x sin a
// Backward: a rotation's gradient is the rotation by -a, for its matrix is orthogonal:
//           d_x = d_x' cos a + d_y' sin a,  d_y = d_y' cos a - d_x' sin a
// d_output [batch, head, seq, head_dim], cos and sin [batch, seq, head_dim]  ->  d_heads, shape of d_output
template <std::floating_point Scalar>
Tensor<Scalar> rotary_backward(const Tensor<Scalar>& d_output, const Tensor<Scalar>& cos,
                               const Tensor<Scalar>& sin) {
  Tensor<Scalar> opposite_sin = Tensor<Scalar>::like(sin);  // sin(-a) = -sin(a), cos(-a) = cos(a)
  for (Index r = 0; r < sin.rows(); ++r) opposite_sin.row(r) = -sin.row(r);
  Tensor<Scalar> d_heads = apply_rotary_pos_emb(d_output, cos, opposite_sin);
  return d_heads;
}

}  // namespace glassbox
