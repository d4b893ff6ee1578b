// Splitting the projections into heads, and merging the heads again.
#pragma once

#include "glassbox/check.hpp"

namespace glassbox {
namespace loops {

template <typename Scalar>
void gather_heads(const Tensor<Scalar>& projection, Index head_dim, Tensor<Scalar>& heads) {
  for (Index batch = 0; batch < heads.dim(0); ++batch) {
    for (Index head = 0; head < heads.dim(1); ++head) {
      heads.matrix(batch, head) = projection.matrix(batch).middleCols(head * head_dim, head_dim);
    }
  }
}

template <typename Scalar>
void scatter_heads(const Tensor<Scalar>& heads, Index head_dim, Tensor<Scalar>& merged) {
  for (Index batch = 0; batch < heads.dim(0); ++batch) {
    for (Index head = 0; head < heads.dim(1); ++head) {
      merged.matrix(batch).middleCols(head * head_dim, head_dim) = heads.matrix(batch, head);
    }
  }
}

}  // namespace loops

// heads[b, h, s, d] = projection[b, s, h * head_dim + d]      (torch: x.view(b, s, h, d).transpose(1, 2))
// [batch, seq, heads*head_dim]  ->  [batch, head, seq, head_dim]
// The transposition is what makes each head's numbers a matrix of their own; viewing the memory as
// [batch, head, seq, head_dim] without it would mix positions with heads.
template <typename Scalar>
Tensor<Scalar> split_heads(const Tensor<Scalar>& projection, Index num_heads,
                           const char* head_axis = "head") {
  check_rank("split_heads", "projection", projection, 3);
  if (num_heads < 1 || projection.dim(2) % num_heads != 0) {
    throw_error<ShapeError>("split_heads: projection " + shape_string(projection) + " does not split into " +
                            std::to_string(num_heads) + " heads of equal width");
  }
  const Index head_dim = projection.dim(2) / num_heads;
  Tensor<Scalar> heads(
      {projection.axis(0), {head_axis, num_heads}, projection.axis(1), {"head_dim", head_dim}});
  loops::gather_heads(projection, head_dim, heads);
  return heads;
}

// merged[b, s, h * head_dim + d] = heads[b, h, s, d]      (torch: x.transpose(1, 2).reshape(b, s, h * d))
// [batch, head, seq, head_dim]  ->  [batch, seq, heads*head_dim]
template <typename Scalar>
Tensor<Scalar> merge_heads(const Tensor<Scalar>& heads) {
  check_rank("merge_heads", "heads", heads, 4);
  const Index head_dim = heads.dim(3);
  Tensor<Scalar> merged({heads.axis(0), {"seq", heads.dim(2)}, {"heads*head_dim", heads.dim(1) * head_dim}});
  loops::scatter_heads(heads, head_dim, merged);
  return merged;
}

}  // namespace glassbox
