// The sampler: from the logits of the last position to the next token.
//
//   logits -> penalized -> blocked -> tempered -> top_k -> top_p -> min_p -> probabilities --coin-->
//   next_token
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <vector>

#include "glassbox/random.hpp"
#include "glassbox/sampling_config.hpp"
#include "glassbox/sampling_filters.hpp"
#include "glassbox/softmax.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {

// Throws NumericError if a logit is NaN or +infinity: something upstream went wrong, and an argmax would hide
// it. -infinity is fine: a token that cannot come next.
template <std::floating_point Scalar>
void check_logits(const char* where, const Tensor<Scalar>& logits, Index position) {
  for (Index id = 0; id < logits.cols(); ++id) {
    const bool usable = std::isfinite(logits(id)) || logits(id) < 0;
    if (usable) continue;
    throw_error<NumericError>(std::string(where) + ": logits " + shape_string(logits) + " of position " +
                              std::to_string(position) + ", step " + std::to_string(stage_state().step) +
                              ": id " + std::to_string(id) + " is " +
                              (std::isnan(logits(id)) ? "nan" : "inf") + ", expected a finite number");
  }
}

// Draws by inverting the cumulative distribution, ids in ascending order, in double, so that equal logits
// give equal ids everywhere:
//   next_token = the lowest id with   sum_{j <= id} probabilities_j > coin * sum_j probabilities_j
// A token of probability 0 never satisfies that first, not even with coin 0. The factor on the right takes
// up what rounding left the sum short of 1; should the product round up to the whole sum, then no id
// satisfies it and the last one with a probability is drawn. Transformers: torch.multinomial, whose draws
// differ. probabilities [vocab], coin in [0, 1)  ->  id
template <std::floating_point Scalar>
TokenId draw_token(const Tensor<Scalar>& probabilities, double coin) {
  check_rank("draw_token", "probabilities", probabilities, 1);
  double total = 0;
  for (Index id = 0; id < probabilities.cols(); ++id) total += static_cast<double>(probabilities(id));
  if (!(total > 0) || !std::isfinite(total)) {
    throw_error<NumericError>("draw_token: probabilities " + shape_string(probabilities) + " sum to " +
                              std::to_string(total) +
                              ", so no token can be drawn (no_repeat_ngram_size may have blocked all)");
  }
  const double target = coin * total;
  double cumulative = 0;
  TokenId last_possible = 0;
  for (Index id = 0; id < probabilities.cols(); ++id) {
    if (probabilities(id) > 0) last_possible = id;
    cumulative += static_cast<double>(probabilities(id));
    if (cumulative > target) return last_possible;
  }
  return last_possible;
}

// Chooses the token that follows `history`, all ids of prompt and continuation so far (transformers
// GenerationMixin._sample, LogitsProcessorList). A filter that is off passes its input on unchanged. With
// temperature 0 one probability is 1, so that the draw is the argmax whatever the coin.
// next_token_logits [vocab]  ->  id; takes one draw from `random`.
template <std::floating_point Scalar>
TokenId sample_next_token(const Tensor<Scalar>& next_token_logits, const std::vector<TokenId>& history,
                          const SamplingConfig& config, RandomGenerator& random) {
  check_rank("sample_next_token", "next_token_logits", next_token_logits, 1);
  check_logits("sample_next_token", next_token_logits, static_cast<Index>(history.size()) - 1);
  Tensor<Scalar> penalized = apply_repetition_penalty(next_token_logits, history, config.repetition_penalty);
  stage("penalized", -1, penalized);  // [vocab], like all that follow
  Tensor<Scalar> blocked = block_repeated_ngrams(penalized, history, config.no_repeat_ngram_size);
  stage("blocked", -1, blocked);
  Tensor<Scalar> tempered = apply_temperature(blocked, config.temperature);
  stage("tempered", -1, tempered);
  Tensor<Scalar> top_k = keep_top_k(tempered, config.top_k);
  stage("top_k", -1, top_k);
  Tensor<Scalar> top_p = keep_top_p(top_k, config.top_p);
  stage("top_p", -1, top_p);
  Tensor<Scalar> min_p = keep_min_p(top_p, config.min_p);
  stage("min_p", -1, min_p);
  Tensor<Scalar> probabilities = softmax(min_p);
  stage("probabilities", -1, probabilities);
  Tensor<double> coin({{"draw", 1}});
  coin(0) = random.next_uniform();
  stage("coin", -1, coin);
  Tensor<TokenId> next_token({{"draw", 1}});
  next_token(0) = draw_token(probabilities, coin(0));
  stage("next_token", -1, next_token);
  return next_token(0);
}

}  // namespace glassbox
