// Perplexity: how many equally likely tokens the model hesitates between, on average, on a given text.
#pragma once

#include <cmath>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/training/cross_entropy.hpp"

namespace glassbox {

// The text in windows, the parts a model can read at once.
// Each window holds at most context ids and begins with begin_token_id (-1: the model has none, and the
// window's first id is read but not predicted). Windows do not overlap: what came before is forgotten, so
// the first tokens of each are predicted from little.
inline std::vector<std::vector<TokenId>> perplexity_windows(const std::vector<TokenId>& ids,
                                                            TokenId begin_token_id, Index context) {
  const Index room = begin_token_id >= 0 ? context - 1 : context;  // ids of the text in one window
  if (context < 2) {
    throw_error<UsageError>("perplexity: a context of " + std::to_string(context) +
                            " tokens, expected 2 or more: one to read and one to predict");
  }
  std::vector<std::vector<TokenId>> windows;
  for (Index begin = 0; begin < static_cast<Index>(ids.size()); begin += room) {
    const Index end = (std::min)(begin + room, static_cast<Index>(ids.size()));
    std::vector<TokenId> window;
    if (begin_token_id >= 0) window.push_back(begin_token_id);
    window.insert(window.end(), ids.begin() + begin, ids.begin() + end);
    windows.push_back(std::move(window));
  }
  return windows;
}

// The sum of -log p(token | tokens before it in the window) over the tokens 1, 2, ... of one window.
template <std::floating_point Scalar>
CrossEntropy<Scalar> window_loss(const CausalLM<Scalar>& causal_lm, const std::vector<TokenId>& window) {
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", static_cast<Index>(window.size())}});
  for (Index s = 0; s < input_ids.dim(1); ++s) input_ids(0, s) = window[static_cast<std::size_t>(s)];
  Tensor<Scalar> logits = causal_lm.forward(input_ids);      // [batch, seq, vocab]
  Tensor<TokenId> shifted_labels = shift_labels(input_ids);  // [batch, seq]
  CrossEntropy<Scalar> result = cross_entropy(logits, shifted_labels);
  return result;
}

// perplexity = exp(sum of negative log likelihoods / number of predicted tokens)      (Jelinek 1977)
inline double perplexity_of(double sum, Index counted) {
  if (counted < 1) throw_error<UsageError>("perplexity: no token is predicted");
  return std::exp(sum / double(counted));
}

}  // namespace glassbox
