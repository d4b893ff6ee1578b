// Who may look at whom: the attention mask in its four forms, and the positions that follow from it.
//
//   attention_mask [batch, seq]                0/1   1: a real token, 0: padding
//   expanded_mask  [batch, 1, 1, key]          bool  the same, ready to be shared by all heads and queries
//   causal_mask    [batch, 1, query, key]      bool  and no key after the query
//   additive_mask  [batch, 1, query, key]      0 or -infinity, to be added to the scores
//
// Keys are counted from the first one in the cache. With `past` keys in the cache, attention_mask covers
// past + seq tokens and query i stands at key past + i.
#pragma once

#include <concepts>
#include <limits>

#include "glassbox/check.hpp"

namespace glassbox {
namespace loops {

inline void count_positions(const Tensor<std::int64_t>& attention_mask, Tensor<std::int64_t>& position_ids) {
  const Index past = attention_mask.cols() - position_ids.cols();
  for (Index batch = 0; batch < attention_mask.rows(); ++batch) {
    const std::int64_t* const mask_of_text = attention_mask.row_data(batch);                    // [key]
    std::int64_t* const positions_of_text = position_ids.data() + batch * position_ids.cols();  // [seq]
    std::int64_t position = 0;
    for (Index key = 0; key < attention_mask.cols(); ++key) {
      const bool real = mask_of_text[key] == 1;
      if (key >= past) positions_of_text[key - past] = real ? position : 0;
      if (real) ++position;
    }
  }
}

inline void mark_real_tokens(const Tensor<std::int64_t>& attention_mask, Tensor<bool>& expanded_mask) {
  for (Index batch = 0; batch < attention_mask.rows(); ++batch) {
    const std::int64_t* const mask_of_text = attention_mask.row_data(batch);             // [key]
    bool* const expanded_of_text = expanded_mask.data() + batch * expanded_mask.cols();  // [key]
    for (Index key = 0; key < attention_mask.cols(); ++key) expanded_of_text[key] = mask_of_text[key] == 1;
  }
}

inline void mask_row(const bool* expanded_mask, Index keys, Index query_position, bool* causal_mask) {
  for (Index key = 0; key < keys; ++key) {
    const bool not_after_query = key <= query_position;
    causal_mask[key] = expanded_mask[key] && not_after_query;
  }
}

inline void mask_rows(const Tensor<bool>& expanded_mask, Index past, Tensor<bool>& causal_mask) {
  const Index query_length = causal_mask.dim(2);
  for (Index batch = 0; batch < expanded_mask.dim(0); ++batch) {
    for (Index query = 0; query < query_length; ++query) {
      bool* const row = causal_mask.data() + (batch * query_length + query) * causal_mask.cols();
      mask_row(expanded_mask.row_data(batch), causal_mask.cols(), past + query, row);
    }
  }
}

template <std::floating_point Scalar>
void additive_rows(const Tensor<bool>& causal_mask, Tensor<Scalar>& additive_mask) {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  for (Index r = 0; r < causal_mask.rows(); ++r) {
    for (Index key = 0; key < causal_mask.cols(); ++key) {
      additive_mask.row(r)[key] = causal_mask.row(r)[key] ? Scalar(0) : -infinity;
    }
  }
}

}  // namespace loops

// Throws ShapeError unless attention_mask is [batch, past + seq] of zeros and ones.
inline void check_attention_mask(const char* where, const Tensor<std::int64_t>& attention_mask) {
  check_rank(where, "attention_mask", attention_mask, 2);
  for (Index batch = 0; batch < attention_mask.rows(); ++batch) {
    for (Index key = 0; key < attention_mask.cols(); ++key) {
      const std::int64_t value = attention_mask.row_data(batch)[key];
      if (value == 0 || value == 1) continue;
      throw_error<ShapeError>(std::string(where) + ": attention_mask " + shape_string(attention_mask) +
                              " holds " + std::to_string(value) + " at row " + std::to_string(batch) +
                              ", token " + std::to_string(key) + ", expected 0 (padding) or 1 (token)");
    }
  }
}

// position_ids[b, i] = number of real tokens before token past + i, counted in the whole row
// (transformers GenerationMixin.prepare_inputs_for_generation). Padding gets 0: nobody looks at it.
// attention_mask [batch, past + seq]  ->  [batch, seq]
inline Tensor<std::int64_t> position_ids_from_mask(const Tensor<std::int64_t>& attention_mask, Index seq) {
  check_attention_mask("position_ids_from_mask", attention_mask);
  if (seq > attention_mask.dim(1)) {
    throw_error<ShapeError>("position_ids_from_mask: attention_mask " + shape_string(attention_mask) +
                            " covers fewer tokens than the " + std::to_string(seq) + " of the input");
  }
  Tensor<std::int64_t> position_ids({{"batch", attention_mask.dim(0)}, {"seq", seq}});
  loops::count_positions(attention_mask, position_ids);
  return position_ids;
}

// expanded_mask[b, 0, 0, j] = attention_mask[b, j] == 1       [batch, seq]  ->  [batch, 1, 1, key]
inline Tensor<bool> expand_mask(const Tensor<std::int64_t>& attention_mask) {
  check_attention_mask("expand_mask", attention_mask);
  Tensor<bool> expanded_mask(
      {{"batch", attention_mask.dim(0)}, {"head", 1}, {"query", 1}, {"key", attention_mask.dim(1)}});
  loops::mark_real_tokens(attention_mask, expanded_mask);
  return expanded_mask;
}

// causal_mask[b, 0, i, j] = expanded_mask[b, 0, 0, j] and j <= past + i,   past = key - query
// [batch, 1, 1, key]  ->  [batch, 1, query, key]
inline Tensor<bool> make_causal_mask(const Tensor<bool>& expanded_mask, Index query_length) {
  check_rank("make_causal_mask", "expanded_mask", expanded_mask, 4);
  const Index past = expanded_mask.dim(3) - query_length;
  if (past < 0) {
    throw_error<ShapeError>("make_causal_mask: expanded_mask " + shape_string(expanded_mask) +
                            " covers fewer keys than there are queries (" + std::to_string(query_length) +
                            ")");
  }
  Tensor<bool> causal_mask(
      {expanded_mask.axis(0), {"head", 1}, {"query", query_length}, expanded_mask.axis(3)});
  loops::mask_rows(expanded_mask, past, causal_mask);
  return causal_mask;
}

// additive_mask = 0 where causal_mask is true, -infinity where it is false. Same shape.
template <std::floating_point Scalar>
Tensor<Scalar> make_additive_mask(const Tensor<bool>& causal_mask) {
  Tensor<Scalar> additive_mask = Tensor<Scalar>::like(causal_mask);
  loops::additive_rows(causal_mask, additive_mask);
  return additive_mask;
}

// masked_scores[b, h, i, j] = scores[b, h, i, j] + additive_mask[b, 0, i, j]: one mask for all heads.
template <std::floating_point Scalar>
Tensor<Scalar> add_mask(const Tensor<Scalar>& scores, const Tensor<Scalar>& additive_mask) {
  check_rank("add_mask", "scores", scores, 4);
  check_rank("add_mask", "additive_mask", additive_mask, 4);
  check_dim("add_mask", "additive_mask", additive_mask, 0, scores.dim(0), "batch of the scores");
  check_dim("add_mask", "additive_mask", additive_mask, 1, 1, "one mask for all heads");
  check_dim("add_mask", "additive_mask", additive_mask, 2, scores.dim(2), "queries of the scores");
  check_dim("add_mask", "additive_mask", additive_mask, 3, scores.dim(3), "keys of the scores");
  Tensor<Scalar> masked_scores = Tensor<Scalar>::like(scores);
  for (Index batch = 0; batch < scores.dim(0); ++batch) {
    for (Index head = 0; head < scores.dim(1); ++head) {
      masked_scores.matrix(batch, head) = scores.matrix(batch, head) + additive_mask.matrix(batch, 0);
    }
  }
  return masked_scores;
}

}  // namespace glassbox
