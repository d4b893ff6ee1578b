// The loss: how surprised the model was by the tokens that really came.
#pragma once

#include <cmath>
#include <concepts>

#include "glassbox/check.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {

// A label that does not count: prompts, padding, and the last position of a text, which nothing follows.
inline constexpr TokenId ignore_index = -100;  // torch.nn.CrossEntropyLoss ignore_index

namespace loops {

// -log softmax(logits)[label] = log sum_j exp(logits_j - largest) + (largest - logits[label])
// The sum is a double: where the label is nearly certain it is 1 and a little, and the loss is that little.
template <std::floating_point Scalar>
Scalar negative_log_likelihood(ConstRowView<Scalar> logits, TokenId label) {
  const Scalar largest = logits.maxCoeff();
  double sum = 0;
  for (Index i = 0; i < logits.size(); ++i) sum += double(std::exp(logits[i] - largest));
  return Scalar(std::log(sum) + double(largest - logits[label]));
}

// d_logits = (softmax(logits) - one_hot(label)) * factor. At the label, softmax - 1 is minus the sum of all
// others, which keeps its digits where the label is nearly certain.
template <std::floating_point Scalar>
void cross_entropy_row_backward(ConstRowView<Scalar> logits, TokenId label, Scalar factor,
                                RowView<Scalar> d_logits) {
  const Scalar largest = logits.maxCoeff();
  double others = 0;
  for (Index i = 0; i < logits.size(); ++i) {
    d_logits[i] = std::exp(logits[i] - largest);
    if (i != label) others += double(d_logits[i]);
  }
  const double sum = others + double(d_logits[label]);
  d_logits *= Scalar(double(factor) / sum);
  d_logits[label] = Scalar(-double(factor) * others / sum);
}

inline void move_left(const Tensor<TokenId>& labels, Tensor<TokenId>& shifted_labels) {
  for (Index batch = 0; batch < labels.dim(0); ++batch) {
    for (Index s = 0; s + 1 < labels.dim(1); ++s) shifted_labels(batch, s) = labels(batch, s + 1);
    if (labels.dim(1) > 0) shifted_labels(batch, labels.dim(1) - 1) = ignore_index;
  }
}

inline Index count_labels(const Tensor<TokenId>& shifted_labels) {
  Index counted = 0;
  for (Index r = 0; r < shifted_labels.rows(); ++r) {
    for (Index s = 0; s < shifted_labels.cols(); ++s) counted += shifted_labels.row(r)[s] != ignore_index;
  }
  return counted;
}

}  // namespace loops

// shifted_labels[b, s] = labels[b, s + 1], and ignore_index at the end: position s has read the tokens up to
// s, so what it is to predict is token s + 1. Without the shift a model learns to repeat its input.
// [batch, seq]  ->  [batch, seq]      (transformers ForCausalLMLoss)
inline Tensor<TokenId> shift_labels(const Tensor<TokenId>& labels) {
  check_rank("shift_labels", "labels", labels, 2);
  Tensor<TokenId> shifted_labels = Tensor<TokenId>::like(labels);
  loops::move_left(labels, shifted_labels);
  return shifted_labels;
}

// Throws TokenError unless every label is a token or ignore_index. labels [batch, seq]
inline void check_label_ids(const char* where, const Tensor<TokenId>& labels, Index vocab_size) {
  for (Index batch = 0; batch < labels.dim(0); ++batch) {
    for (Index s = 0; s < labels.dim(1); ++s) {
      const TokenId label = labels(batch, s);
      if (label == ignore_index || (label >= 0 && label < vocab_size)) continue;
      throw_error<TokenError>(std::string(where) + ": label " + std::to_string(label) + " of batch " +
                              std::to_string(batch) + ", position " + std::to_string(s) + " is not in 0.." +
                              std::to_string(vocab_size - 1) + ", nor " + std::to_string(ignore_index) +
                              " (not counted)");
    }
  }
}

// Throws TokenError unless every label is a token or ignore_index, ShapeError unless each has its logits.
template <std::floating_point Scalar>
void check_labels(const char* where, const Tensor<Scalar>& logits, const Tensor<TokenId>& shifted_labels) {
  check_rank(where, "logits", logits, 3);
  check_rank(where, "shifted_labels", shifted_labels, 2);
  check_dim(where, "shifted_labels", shifted_labels, 0, logits.dim(0), "batch of the logits");
  check_dim(where, "shifted_labels", shifted_labels, 1, logits.dim(1), "positions of the logits");
  check_label_ids(where, shifted_labels, logits.dim(2));
}

// The loss of a batch. Losses are in nats: exp(loss) is the number of equally likely tokens that would be as
// surprising (perplexity).
template <std::floating_point Scalar>
struct CrossEntropy {
  Tensor<Scalar> token_losses;  // [batch, seq], 0 where nothing counts
  double sum = 0;               // of the positions that count
  Index counted = 0;            // how many those are
  double loss = 0;              // sum / counted; 0 where nothing counts (torch: NaN)
};

// token_losses[b, s] = -log softmax(logits[b, s, :])[shifted_labels[b, s]]
// loss = sum of token_losses over the positions whose label is not ignore_index / number of those
// (torch.nn.functional.cross_entropy). Dividing by all positions instead would make the loss of a batch
// depend on how much of it is padding.
// logits [batch, seq, vocab], shifted_labels [batch, seq]
template <std::floating_point Scalar>
CrossEntropy<Scalar> cross_entropy(const Tensor<Scalar>& logits, const Tensor<TokenId>& shifted_labels) {
  check_labels("cross_entropy", logits, shifted_labels);
  CrossEntropy<Scalar> result;
  result.token_losses = Tensor<Scalar>({logits.axis(0), logits.axis(1)});
  result.counted = loops::count_labels(shifted_labels);
  for (Index batch = 0; batch < logits.dim(0); ++batch) {
    for (Index s = 0; s < logits.dim(1); ++s) {
      const TokenId label = shifted_labels(batch, s);
      if (label == ignore_index) continue;
      const ConstRowView<Scalar> position_logits = logits.row(batch * logits.dim(1) + s);  // [vocab]
      const Scalar token_loss = loops::negative_log_likelihood<Scalar>(position_logits, label);
      result.token_losses(batch, s) = token_loss;
      result.sum += double(token_loss);
    }
  }
  if (result.counted > 0) result.loss = result.sum / double(result.counted);
  return result;
}

// Forward:  loss = sum over counted positions of -log softmax(logits[b, s, :])[label] / counted
// Backward: d_logits[b, s, v] = (softmax(logits[b, s, :])[v] - (v == label)) / counted, 0 where nothing
// counts `counted`: the positions that the mean is over, those of the whole batch where this is a part of it.
// logits [batch, seq, vocab], shifted_labels [batch, seq]  ->  [batch, seq, vocab]
template <std::floating_point Scalar>
Tensor<Scalar> cross_entropy_backward(const Tensor<Scalar>& logits, const Tensor<TokenId>& shifted_labels,
                                      Index counted) {
  check_labels("cross_entropy_backward", logits, shifted_labels);
  if (counted < loops::count_labels(shifted_labels)) {
    throw_error<ShapeError>("cross_entropy_backward: the mean is over " + std::to_string(counted) +
                            " positions, but " + std::to_string(loops::count_labels(shifted_labels)) +
                            " have a label");
  }
  Tensor<Scalar> d_logits = Tensor<Scalar>::like(logits);  // [batch, seq, vocab]
  for (Index batch = 0; batch < logits.dim(0); ++batch) {
    for (Index s = 0; s < logits.dim(1); ++s) {
      const TokenId label = shifted_labels(batch, s);
      if (label == ignore_index) continue;
      const Index row = batch * logits.dim(1) + s;
      const Scalar factor = Scalar(1) / Scalar(counted);
      loops::cross_entropy_row_backward<Scalar>(logits.row(row), label, factor, d_logits.row(row));
    }
  }
  return d_logits;
}

}  // namespace glassbox
