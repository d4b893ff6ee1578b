// Several texts at once: prompts of different length side by side in one tensor, padded on the left.
//
//   prompts        [1 7 9 4]   [1 5]
//   input_ids      1 7 9 4          attention_mask   1 1 1 1
//                  0 0 1 5                           0 0 1 1
//
// Left, so that the last column holds each prompt's last token and the next column each one's next token. The
// mask keeps everyone from looking at padding and makes positions count from the first real token, so that
// each row gets the logits it would get alone.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "glassbox/generate.hpp"

namespace glassbox {

struct PaddedBatch {
  Tensor<TokenId> input_ids;            // [batch, seq]
  Tensor<std::int64_t> attention_mask;  // [batch, seq]: 0 padding, 1 token
};

// Any id of the vocabulary does for padding: nobody looks at it.
inline PaddedBatch left_pad(const std::vector<std::vector<TokenId>>& prompts, TokenId pad_token_id) {
  if (prompts.empty()) throw_error<UsageError>("left_pad: there are no prompts");
  std::size_t longest = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty())
      throw_error<UsageError>("left_pad: prompt " + std::to_string(i) + " has no tokens");
    longest = (std::max)(longest, prompts[i].size());
  }
  PaddedBatch padded;
  padded.input_ids =
      Tensor<TokenId>({{"batch", static_cast<Index>(prompts.size())}, {"seq", static_cast<Index>(longest)}});
  padded.attention_mask = Tensor<std::int64_t>::like(padded.input_ids);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Index row = static_cast<Index>(i);
    const Index padding = static_cast<Index>(longest - prompts[i].size());
    for (Index column = 0; column < padding; ++column) padded.input_ids(row, column) = pad_token_id;
    for (Index column = padding; column < static_cast<Index>(longest); ++column) {
      padded.input_ids(row, column) = prompts[i][static_cast<std::size_t>(column - padding)];
      padded.attention_mask(row, column) = 1;
    }
  }
  return padded;
}

// The next column: each text's last token, or padding that nobody looks at where a text has stopped.
// attention_mask grows to [batch, past + 1].
inline PaddedBatch next_column(const std::vector<Continuation>& texts,
                               const Tensor<std::int64_t>& attention_mask, TokenId pad_token_id) {
  const Index past = attention_mask.dim(1);
  PaddedBatch next;
  next.input_ids = Tensor<TokenId>({attention_mask.axis(0), {"seq", 1}});
  next.attention_mask = Tensor<std::int64_t>({attention_mask.axis(0), {"seq", past + 1}});
  for (Index row = 0; row < attention_mask.dim(0); ++row) {
    const Continuation& text = texts[static_cast<std::size_t>(row)];
    next.input_ids(row, 0) = text.stopped() ? pad_token_id : text.history().back();
    for (Index key = 0; key < past; ++key) next.attention_mask(row, key) = attention_mask(row, key);
    next.attention_mask(row, past) = text.stopped() ? 0 : 1;
  }
  return next;
}

// Whether all have stopped; the others choose their next token first. logits [batch, seq, vocab]
template <std::floating_point Scalar>
bool choose_for_all(std::vector<Continuation>& texts, const Tensor<Scalar>& logits) {
  bool all_stopped = true;
  for (std::size_t row = 0; row < texts.size(); ++row) {
    if (!texts[row].stopped()) texts[row].choose(last_logits(logits, static_cast<Index>(row)));
    all_stopped = all_stopped && texts[row].stopped();
  }
  return all_stopped;
}

// Continues every prompt until each has stopped. Text i draws from the seed config.seed + i: what it gets
// does not depend on its neighbours. The padding costs memory and time, no position of the context.
template <std::floating_point Scalar, template <std::floating_point> class Model>
std::vector<GenerationResult> generate_batch(const Model<Scalar>& causal_lm,
                                             const std::vector<std::vector<TokenId>>& prompts,
                                             const GenerationConfig& config, TokenId pad_token_id,
                                             const Tokenizer* tokenizer = nullptr) {
  config.validate();
  check_vocabularies(tokenizer, causal_lm.config.vocab_size);
  const Index context = context_length(config, causal_lm.config.max_position_embeddings);
  std::vector<Continuation> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    texts.emplace_back(prompts[i], config, config.seed + i, context, tokenizer);
  }
  PaddedBatch input = left_pad(prompts, pad_token_id);
  KVCache<Scalar> cache(causal_lm.config.num_hidden_layers);
  stage_state().step = 0;
  Tensor<Scalar> logits =
      causal_lm.forward(input.input_ids, input.attention_mask, cache, 1);  // [batch, 1, vocab]
  while (!choose_for_all(texts, logits)) {
    stage_state().step += 1;
    for (Continuation& text : texts) text.result().steps += text.stopped() ? 0 : 1;
    input = next_column(texts, input.attention_mask, pad_token_id);
    logits = causal_lm.forward(input.input_ids, input.attention_mask, cache, 1);
  }
  std::vector<GenerationResult> results;
  for (Continuation& text : texts) results.push_back(text.result());
  return results;
}

}  // namespace glassbox
