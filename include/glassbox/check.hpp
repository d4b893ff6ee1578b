// Shape checks that every public function runs first, in every build. The message is made only on failure
// and names both tensors with their shapes:
//   RMSNorm::forward: hidden_states [batch=1, seq=3, hidden=6] does not fit weight [hidden=20]: ...
#pragma once

#include "glassbox/tensor.hpp"

namespace glassbox {

// Throws ShapeError unless `tensor` has `rank` axes.
template <typename T>
void check_rank(const char* where, const char* name, const Tensor<T>& tensor, int rank) {
  if (tensor.rank() == rank) return;
  throw_error<ShapeError>(std::string(where) + ": " + name + " " + shape_string(tensor) + " has " +
                          std::to_string(tensor.rank()) + " axes, expected " + std::to_string(rank));
}

// Throws ShapeError unless axis `axis` of `tensor` has `expected` elements; `reason` says where that comes
// from.
template <typename T>
void check_dim(const char* where, const char* name, const Tensor<T>& tensor, int axis, Index expected,
               const char* reason) {
  if (axis < tensor.rank() && tensor.dim(axis) == expected) return;
  throw_error<ShapeError>(std::string(where) + ": " + name + " " + shape_string(tensor) + ": axis " +
                          std::to_string(axis) + " must have " + std::to_string(expected) + " elements (" +
                          reason + ")");
}

// Throws ShapeError unless the last axis of `tensor` is as long as the last axis of `other`.
template <typename T, typename U>
void check_last_axis(const char* where, const char* name, const Tensor<T>& tensor, const char* other_name,
                     const Tensor<U>& other) {
  if (tensor.rank() >= 1 && other.rank() >= 1 && tensor.cols() == other.cols()) return;
  throw_error<ShapeError>(std::string(where) + ": " + name + " " + shape_string(tensor) + " does not fit " +
                          other_name + " " + shape_string(other) + ": their last axes must be equally long");
}

// Throws ShapeError unless both tensors have the same number of axes of the same sizes. Names may differ: the
// sum of a [batch, query, hidden] and a [batch, seq, hidden] is meant.
template <typename T, typename U>
void check_same_shape(const char* where, const char* name, const Tensor<T>& tensor, const char* other_name,
                      const Tensor<U>& other) {
  bool same = tensor.rank() == other.rank();
  for (int i = 0; same && i < tensor.rank(); ++i) same = tensor.dim(i) == other.dim(i);
  if (same) return;
  throw_error<ShapeError>(std::string(where) + ": " + name + " " + shape_string(tensor) + " and " +
                          other_name + " " + shape_string(other) + " must have the same shape");
}

// Throws TokenError unless every id is in 0..vocab_size-1.
inline void check_token_ids(const char* where, const Tensor<TokenId>& input_ids, Index vocab_size) {
  for (Index r = 0; r < input_ids.rows(); ++r) {
    for (Index i = 0; i < input_ids.cols(); ++i) {
      const TokenId id = input_ids.row_data(r)[i];
      if (id >= 0 && id < vocab_size) continue;
      throw_error<TokenError>(std::string(where) + ": input_ids " + shape_string(input_ids) + ": id " +
                              std::to_string(id) + " at row " + std::to_string(r) + ", position " +
                              std::to_string(i) + " is not in 0.." + std::to_string(vocab_size - 1) +
                              " (vocab_size " + std::to_string(vocab_size) + ")");
    }
  }
}

}  // namespace glassbox
