// The filters between the logits and the draw, one function each: [vocab] in, [vocab] out, nothing changed in
// place. A token that is filtered out has the logit -infinity, exactly: any finite number, however small,
// would leave it a probability. In the order of transformers: repetition penalty, repeated n-grams,
// temperature, top-k, top-p, min-p.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "glassbox/check.hpp"
#include "glassbox/sampling_config.hpp"
#include "glassbox/softmax.hpp"
#include "glassbox/tensor.hpp"

namespace glassbox {

// Throws TokenError unless every id of the history is in the vocabulary.
inline void check_history(const char* where, const std::vector<TokenId>& history, Index vocab_size) {
  for (const TokenId id : history) {
    if (id >= 0 && id < vocab_size) continue;
    throw_error<TokenError>(std::string(where) + ": history contains id " + std::to_string(id) +
                            ", expected 0.." + std::to_string(vocab_size - 1) + " (vocab_size " +
                            std::to_string(vocab_size) + ")");
  }
}

// `changed` is what a filter made of `logit`: where a finite one overflowed, the largest number of its sign.
// Infinities have a meaning of their own: -infinity is a token that cannot come, +infinity an error.
template <std::floating_point Scalar>
Scalar without_overflow(Scalar logit, Scalar changed) {
  const bool overflowed = std::isinf(changed) && std::isfinite(logit);
  return overflowed ? std::copysign((std::numeric_limits<Scalar>::max)(), changed) : changed;
}

// Makes every token that occurs in the history (prompt and continuation) less likely, once each however often
// it occurs (Keskar 2019, arXiv:1909.05858, section 4.1; transformers RepetitionPenaltyLogitsProcessor, which
// added the case of negative logits):
//   output_id = logit_id / penalty   where logit_id > 0
//   output_id = logit_id * penalty   where logit_id < 0: dividing would make a negative logit larger
// logits [vocab]  ->  [vocab]; penalty 1 changes nothing, below 1 rewards repetition.
template <std::floating_point Scalar>
Tensor<Scalar> apply_repetition_penalty(const Tensor<Scalar>& logits, const std::vector<TokenId>& history,
                                        double penalty) {
  check_rank("apply_repetition_penalty", "logits", logits, 1);
  check_setting(repetition_penalty_range, penalty);
  check_history("apply_repetition_penalty", history, logits.cols());
  Tensor<Scalar> penalized = logits;
  for (const TokenId id : history) {
    const Scalar logit = logits(id);  // not penalized(id): the second occurrence must not count again
    const Scalar changed = logit < 0 ? logit * Scalar(penalty) : logit / Scalar(penalty);
    penalized(id) = without_overflow(logit, changed);
  }
  return penalized;
}

// Filters out each token that would complete a sequence of `ngram_size` tokens that the history already
// contains (Paulus 2017, arXiv:1705.04304, section 2.5; transformers NoRepeatNGramLogitsProcessor). With n =
// ngram_size and the history h of length L:
//   output_id = -inf   if some i has h[i .. i+n-2] == h[L-n+1 .. L-1] and h[i+n-1] == id
// logits [vocab]  ->  [vocab]; ngram_size 0 changes nothing, 1 forbids every token that has occurred.
template <std::floating_point Scalar>
Tensor<Scalar> block_repeated_ngrams(const Tensor<Scalar>& logits, const std::vector<TokenId>& history,
                                     Index ngram_size) {
  check_rank("block_repeated_ngrams", "logits", logits, 1);
  check_setting(no_repeat_ngram_size_range, static_cast<double>(ngram_size));
  check_history("block_repeated_ngrams", history, logits.cols());
  Tensor<Scalar> blocked = logits;
  const Index length = static_cast<Index>(history.size());
  if (ngram_size == 0 || length < ngram_size) return blocked;
  const Index prefix_length = ngram_size - 1;
  const std::vector<TokenId>::const_iterator suffix = history.end() - prefix_length;
  for (Index i = 0; i + prefix_length < length; ++i) {
    const std::vector<TokenId>::const_iterator candidate = history.begin() + i;
    const bool same_prefix = std::equal(suffix, history.end(), candidate);
    if (same_prefix) blocked(*(candidate + prefix_length)) = -std::numeric_limits<Scalar>::infinity();
  }
  return blocked;
}

// The id of the largest logit; of several equal ones the lowest.
template <std::floating_point Scalar>
TokenId argmax(const Tensor<Scalar>& logits) {
  check_rank("argmax", "logits", logits, 1);
  if (logits.cols() == 0) throw_error<ShapeError>("argmax: logits " + shape_string(logits) + " are empty");
  TokenId best = 0;
  for (Index id = 0; id < logits.cols(); ++id) {
    // A NaN is neither larger nor smaller than anything: it would hide what follows it.
    if (std::isnan(logits(id))) {
      throw_error<NumericError>("argmax: logits " + shape_string(logits) + ": id " + std::to_string(id) +
                                " is nan");
    }
    if (logits(id) > logits(best)) best = id;
  }
  return best;
}

// Divides by the temperature (Ackley, Hinton & Sejnowski 1985; transformers TemperatureLogitsWarper): below 1
// the likely tokens gain, above 1 the unlikely ones.
//   output_id = logit_id / temperature
// Temperature 0 is the limit of that, without a division: only the argmax is left. Transformers has no such
// case, its do_sample=False means the same.
// logits [vocab]  ->  [vocab]
template <std::floating_point Scalar>
Tensor<Scalar> apply_temperature(const Tensor<Scalar>& logits, double temperature) {
  check_rank("apply_temperature", "logits", logits, 1);
  check_setting(temperature_range, temperature);
  Tensor<Scalar> tempered = Tensor<Scalar>::like(logits);
  if (temperature == 0) {
    const TokenId best = argmax(logits);
    tempered.row(0).setConstant(-std::numeric_limits<Scalar>::infinity());
    tempered(best) = logits(best);
    return tempered;
  }
  for (Index id = 0; id < logits.cols(); ++id) {
    // In double, so that the temperature is not rounded to float first.
    const Scalar divided = static_cast<Scalar>(static_cast<double>(logits(id)) / temperature);
    tempered(id) = without_overflow(logits(id), divided);
  }
  return tempered;
}

// Keeps the k largest logits and all that equal the k-th (Fan 2018, arXiv:1805.04833, section 5.4;
// transformers TopKLogitsWarper).
//   output_id = logit_id   if logit_id >= (k-th largest logit), else -inf
// logits [vocab]  ->  [vocab]; k = 0 or k >= vocab changes nothing.
template <std::floating_point Scalar>
Tensor<Scalar> keep_top_k(const Tensor<Scalar>& logits, Index k) {
  check_rank("keep_top_k", "logits", logits, 1);
  check_setting(top_k_range, static_cast<double>(k));
  Tensor<Scalar> kept = logits;
  if (k == 0 || k >= logits.cols()) return kept;
  std::vector<Scalar> ordered(logits.data(), logits.data() + logits.cols());
  std::nth_element(ordered.begin(), ordered.begin() + (k - 1), ordered.end(), std::greater<Scalar>());
  const Scalar kth_largest = ordered[static_cast<std::size_t>(k - 1)];
  for (Index id = 0; id < logits.cols(); ++id) {
    if (logits(id) < kth_largest) kept(id) = -std::numeric_limits<Scalar>::infinity();
  }
  return kept;
}

// Keeps the smallest set of most likely tokens whose probabilities reach p (nucleus sampling: Holtzman 2019,
// arXiv:1904.09751, section 3.1; transformers TopPLogitsWarper). A token stays while the tokens before it,
// the likelier ones, have not reached p yet, so the one that crosses p stays, and so does the first whatever
// p is:
//   output_id = logit_id   if sum of the probabilities of all likelier tokens < p, else -inf
// Of equally likely tokens the lower id comes first; transformers leaves that to torch.sort.
// logits [vocab]  ->  [vocab]; p = 1 changes nothing.
template <std::floating_point Scalar>
Tensor<Scalar> keep_top_p(const Tensor<Scalar>& logits, double p) {
  check_rank("keep_top_p", "logits", logits, 1);
  check_setting(top_p_range, p);
  Tensor<Scalar> kept = logits;
  if (p == 1) return kept;
  const Tensor<Scalar> probabilities = softmax(logits);
  std::vector<TokenId> descending;
  for (Index id = 0; id < logits.cols(); ++id) descending.push_back(id);
  std::sort(descending.begin(), descending.end(), [&probabilities](TokenId a, TokenId b) {
    if (probabilities(a) != probabilities(b)) return probabilities(a) > probabilities(b);
    return a < b;
  });
  double mass_before = 0;
  for (const TokenId id : descending) {
    const bool first = id == descending.front();
    if (!first && mass_before >= p) kept(id) = -std::numeric_limits<Scalar>::infinity();
    mass_before += static_cast<double>(probabilities(id));
  }
  return kept;
}

// Keeps the tokens at least min_p times as likely as the likeliest one (Nguyen 2024, arXiv:2407.01082,
// section 3; transformers MinPLogitsWarper): few where the model is sure, many where it is not.
//   output_id = logit_id   if probability_id >= min_p * (largest probability), else -inf
// logits [vocab]  ->  [vocab]; min_p = 0 changes nothing.
template <std::floating_point Scalar>
Tensor<Scalar> keep_min_p(const Tensor<Scalar>& logits, double min_p) {
  check_rank("keep_min_p", "logits", logits, 1);
  check_setting(min_p_range, min_p);
  Tensor<Scalar> kept = logits;
  if (min_p == 0) return kept;
  const Tensor<Scalar> probabilities = softmax(logits);
  const Scalar threshold = Scalar(min_p) * probabilities.row(0).maxCoeff();
  for (Index id = 0; id < logits.cols(); ++id) {
    if (probabilities(id) < threshold) kept(id) = -std::numeric_limits<Scalar>::infinity();
  }
  return kept;
}

}  // namespace glassbox
