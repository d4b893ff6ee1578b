// Rotary position embedding (RoPE): pairs of numbers in each head are rotated by an angle that grows with the
// position, so that a query and a key only feel how far they are apart.
// Two conventions exist, each with its own weights (examples at the end of each function's comment):
//   half-rotated  pairs (i, i + head_dim/2)   Hugging Face checkpoints; the one the model uses
//   interleaved   pairs (2i, 2i + 1)          the paper, Meta's files, GGUF, llama2.c
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/check.hpp"

namespace glassbox {
namespace loops {

template <std::floating_point Scalar>
void rotary_row(std::int64_t position, ConstRowView<Scalar> inv_freq, RowView<Scalar> cos,
                RowView<Scalar> sin) {
  const Index half = inv_freq.size();
  for (Index i = 0; i < half; ++i) {
    const Scalar angle = Scalar(position) * inv_freq[i];
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
    cos[i + half] = cos[i];  // both members of a pair turn by the same angle
    sin[i + half] = sin[i];
  }
}

template <std::floating_point Scalar>
void rotary_rows(const Tensor<std::int64_t>& position_ids, const Tensor<Scalar>& inv_freq,
                 Tensor<Scalar>& cos, Tensor<Scalar>& sin) {
  for (Index batch = 0; batch < position_ids.dim(0); ++batch) {
    for (Index s = 0; s < position_ids.dim(1); ++s) {
      const Index row = batch * position_ids.dim(1) + s;
      rotary_row<Scalar>(position_ids(batch, s), inv_freq.row(0), cos.row(row), sin.row(row));
    }
  }
}

template <std::floating_point Scalar>
void rotate_heads(const Tensor<Scalar>& heads, const Tensor<Scalar>& rotated_half, const Tensor<Scalar>& cos,
                  const Tensor<Scalar>& sin, Tensor<Scalar>& output) {
  for (Index batch = 0; batch < heads.dim(0); ++batch) {
    for (Index head = 0; head < heads.dim(1); ++head) {
      output.matrix(batch, head) = heads.matrix(batch, head).cwiseProduct(cos.matrix(batch)) +
                                   rotated_half.matrix(batch, head).cwiseProduct(sin.matrix(batch));
    }
  }
}

template <std::floating_point Scalar>
void interleaved_row(ConstRowView<Scalar> x, ConstRowView<Scalar> cos, ConstRowView<Scalar> sin,
                     RowView<Scalar> output) {
  for (Index i = 0; i < x.size() / 2; ++i) {
    output[2 * i] = x[2 * i] * cos[i] - x[2 * i + 1] * sin[i];
    output[2 * i + 1] = x[2 * i] * sin[i] + x[2 * i + 1] * cos[i];
  }
}

}  // namespace loops

// cos and sin of every position's angles, each written twice: [batch, seq, head_dim].
template <std::floating_point Scalar>
struct RotaryTables {
  Tensor<Scalar> cos;
  Tensor<Scalar> sin;
};

// angle[b, s, i] = position_ids[b, s] * inv_freq[i],  inv_freq[i] = rope_theta^(-2i / head_dim)
// (Su 2021, arXiv:2104.09864, section 3.2.2; transformers LlamaRotaryEmbedding)
template <std::floating_point Scalar>
struct RotaryEmbedding {
  Tensor<Scalar> inv_freq;  // [pair], head_dim / 2 of them

  static RotaryEmbedding from_theta(Index head_dim, double rope_theta) {
    if (head_dim < 2 || head_dim % 2 != 0 || !(rope_theta > 0) || !std::isfinite(rope_theta)) {
      throw_error<ConfigError>("RotaryEmbedding::from_theta: head_dim " + std::to_string(head_dim) +
                               ", rope_theta " + std::to_string(rope_theta) +
                               ": expected an even head_dim of 2 or more and a finite theta above 0");
    }
    RotaryEmbedding rotary_emb;
    rotary_emb.inv_freq = Tensor<Scalar>({{"pair", head_dim / 2}});
    for (Index i = 0; i < head_dim / 2; ++i) {
      const Scalar exponent = Scalar(2 * i) / Scalar(head_dim);
      rotary_emb.inv_freq(i) = Scalar(1) / std::pow(Scalar(rope_theta), exponent);
    }
    return rotary_emb;
  }

  // position_ids [batch, seq]  ->  cos and sin [batch, seq, head_dim]
  RotaryTables<Scalar> forward(const Tensor<std::int64_t>& position_ids) const {
    check_rank("RotaryEmbedding::forward", "position_ids", position_ids, 2);
    RotaryTables<Scalar> tables;
    tables.cos =
        Tensor<Scalar>({position_ids.axis(0), position_ids.axis(1), {"head_dim", 2 * inv_freq.dim(0)}});
    tables.sin = Tensor<Scalar>::like(tables.cos);
    loops::rotary_rows(position_ids, inv_freq, tables.cos, tables.sin);
    return tables;
  }
};

// rotate_half(x) = (-x[half:], x[:half]) in every row      (transformers rotate_half)
template <std::floating_point Scalar>
Tensor<Scalar> rotate_half(const Tensor<Scalar>& x) {
  const Index half = x.cols() / 2;
  Tensor<Scalar> rotated = Tensor<Scalar>::like(x);
  for (Index r = 0; r < x.rows(); ++r) {
    rotated.row(r).head(half) = -x.row(r).tail(half);
    rotated.row(r).tail(half) = x.row(r).head(half);
  }
  return rotated;
}

// Throws ShapeError unless cos is [batch, seq, head_dim] for heads [batch, head, seq, head_dim], with even
// head_dim.
template <std::floating_point Scalar>
void check_rotary(const char* where, const Tensor<Scalar>& heads, const Tensor<Scalar>& cos,
                  const Tensor<Scalar>& sin) {
  check_rank(where, "heads", heads, 4);
  check_rank(where, "cos", cos, 3);
  check_same_shape(where, "cos", cos, "sin", sin);
  check_dim(where, "cos", cos, 0, heads.dim(0), "batch of the heads");
  check_dim(where, "cos", cos, 1, heads.dim(2), "positions of the heads");
  check_dim(where, "cos", cos, 2, heads.dim(3), "head_dim of the heads");
  if (heads.dim(3) % 2 != 0)
    throw_error<ShapeError>(std::string(where) + ": heads " + shape_string(heads) + ": head_dim is odd");
}

// output = heads * cos + rotate_half(heads) * sin, cos and sin shared by all heads
// (transformers apply_rotary_pos_emb). heads [batch, head, seq, head_dim]  ->  the same shape
// x = [1, 2, 3, 4] at position 1, theta 10000: [-1.984111, 1.959901, 2.462378, 4.019800]
template <std::floating_point Scalar>
Tensor<Scalar> apply_rotary_pos_emb(const Tensor<Scalar>& heads, const Tensor<Scalar>& cos,
                                    const Tensor<Scalar>& sin) {
  check_rotary("apply_rotary_pos_emb", heads, cos, sin);
  Tensor<Scalar> rotated_half = rotate_half(heads);
  Tensor<Scalar> output = Tensor<Scalar>::like(heads);
  loops::rotate_heads(heads, rotated_half, cos, sin, output);
  return output;
}

// The same rotation of the pairs (2i, 2i + 1), for weights in that order.
// x = [1, 2, 3, 4] at position 1, theta 10000: [-1.142640, 1.922076, 2.959851, 4.029800]
template <std::floating_point Scalar>
Tensor<Scalar> apply_rotary_interleaved(const Tensor<Scalar>& heads, const Tensor<Scalar>& cos,
                                        const Tensor<Scalar>& sin) {
  check_rotary("apply_rotary_interleaved", heads, cos, sin);
  Tensor<Scalar> output = Tensor<Scalar>::like(heads);
  for (Index r = 0; r < heads.rows(); ++r) {
    const Index batch = r / (heads.dim(1) * heads.dim(2));
    const Index table_row = batch * heads.dim(2) + r % heads.dim(2);
    loops::interleaved_row<Scalar>(heads.row(r), cos.row(table_row), sin.row(table_row), output.row(r));
  }
  return output;
}

// The permutation between the two: row `row` of a head in half-rotated order is this row of the interleaved
// head (transformers convert_llama_weights_to_hf.py, permute). Both members of a pair stay together:
// head_dim 4: 0, 1, 2, 3  <-  0, 2, 1, 3
inline Index interleaved_row_of(Index row, Index head_dim) {
  const Index half = head_dim / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

}  // namespace glassbox
