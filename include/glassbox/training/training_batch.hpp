// From texts to batches: blocks of a long text, or pairs of prompt and response padded to one length; which
// positions count; in which order the texts come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "glassbox/random.hpp"
#include "glassbox/training/causal_lm_backward.hpp"

namespace glassbox {

// One text to learn from, and where its answer begins.
struct TrainingExample {
  std::vector<TokenId> ids;          // begin and end tokens included, where the model has them
  Index prompt_length = 0;           // so many ids at the beginning are given, not to be learned
  std::vector<TokenId> labels = {};  // what to learn at each id, ignore_index for nothing; empty: the ids
};

// prompt and response, one after the other. The response should end with the end token, or the model will
// not learn to stop.
inline TrainingExample prompt_and_response(const std::vector<TokenId>& prompt,
                                           const std::vector<TokenId>& response) {
  TrainingExample example;
  example.ids = prompt;
  example.ids.insert(example.ids.end(), response.begin(), response.end());
  example.prompt_length = static_cast<Index>(prompt.size());
  return example;
}

// A long text in pieces.
struct TokenBlocks {
  std::vector<TrainingExample> blocks;  // each of block_length ids
  Index left_over = 0;                  // ids at the end that fill no block, and are in none
};

// ids -> blocks of block_length, one after the other, without overlap.
inline TokenBlocks blocks_of(const std::vector<TokenId>& ids, Index block_length) {
  if (block_length < 2) {
    throw_error<UsageError>("blocks_of: block_length is " + std::to_string(block_length) +
                            ", expected 2 or more: one token to read and one to predict");
  }
  TokenBlocks result;
  const Index count = static_cast<Index>(ids.size()) / block_length;
  for (Index i = 0; i < count; ++i) {
    TrainingExample block;
    block.ids.assign(ids.begin() + i * block_length, ids.begin() + (i + 1) * block_length);
    result.blocks.push_back(std::move(block));
  }
  result.left_over = static_cast<Index>(ids.size()) - count * block_length;
  return result;
}

// What batch_of did to the texts: never silent.
struct BatchReport {
  Index padding = 0;    // positions that hold no token
  Index truncated = 0;  // texts that were cut
  Index cut_ids = 0;    // ids that were cut off them
  Index unlearned = 0;  // texts in which no label is left: nothing but prompt, or a single token
};

// Texts of different length side by side, each from the left, filled up with pad_token_id to the longest.
//   attention_mask[b, s] = 1 for a token, 0 for padding
//   labels[b, s] = input_ids[b, s], or the label that the text gives; ignore_index on padding and, if
//                  mask_prompts, on the prompt
// Texts longer than max_length lose their end; the report says how many did.
// Throws UsageError without a text, with an empty one, with one that has labels, but not one per id, or where
// padding is needed and pad_token_id is none (-1).
inline TrainingBatch batch_of(const std::vector<TrainingExample>& examples, TokenId pad_token_id,
                              Index max_length, bool mask_prompts, BatchReport& report) {
  if (max_length < 2)
    throw_error<UsageError>("batch_of: max_length is " + std::to_string(max_length) + ", expected 2 or more");
  if (examples.empty()) throw_error<UsageError>("batch_of: no text");
  Index longest = 0;
  for (std::size_t b = 0; b < examples.size(); ++b) {
    const Index length = static_cast<Index>(examples[b].ids.size());
    const Index labels = static_cast<Index>(examples[b].labels.size());
    if (length == 0) throw_error<UsageError>("batch_of: text " + std::to_string(b) + " has no token");
    if (labels != 0 && labels != length) {
      throw_error<UsageError>("batch_of: text " + std::to_string(b) + " has " + std::to_string(labels) +
                              " labels, expected none or one per id, " + std::to_string(length));
    }
    if (length > max_length) {
      report.truncated += 1;
      report.cut_ids += length - max_length;
    }
    longest = (std::max)(longest, (std::min)(length, max_length));
  }
  if (pad_token_id < 0) {
    for (std::size_t b = 0; b < examples.size(); ++b) {
      if (static_cast<Index>(examples[b].ids.size()) >= longest) continue;
      throw_error<UsageError>("batch_of: text " + std::to_string(b) + " is shorter than the longest, " +
                              std::to_string(longest) + " ids, but pad_token_id is " +
                              std::to_string(pad_token_id) + ": expected an id to fill it up with");
    }
  }
  TrainingBatch batch;
  batch.input_ids = Tensor<TokenId>({{"batch", static_cast<Index>(examples.size())}, {"seq", longest}});
  batch.attention_mask = Tensor<std::int64_t>::like(batch.input_ids);
  batch.labels = Tensor<TokenId>::like(batch.input_ids);
  for (Index b = 0; b < batch.input_ids.dim(0); ++b) {
    const TrainingExample& example = examples[static_cast<std::size_t>(b)];
    const Index length = (std::min)(static_cast<Index>(example.ids.size()), longest);
    const std::vector<TokenId>& labels = example.labels.empty() ? example.ids : example.labels;
    const Index first_counted = mask_prompts ? example.prompt_length : 0;
    bool learned = false;
    for (Index s = 0; s < longest; ++s) {
      const bool is_token = s < length;
      const TokenId id = is_token ? example.ids[static_cast<std::size_t>(s)] : pad_token_id;
      batch.input_ids(b, s) = id;
      batch.attention_mask(b, s) = is_token ? 1 : 0;
      const TokenId label = is_token ? labels[static_cast<std::size_t>(s)] : ignore_index;
      batch.labels(b, s) = s >= first_counted ? label : ignore_index;
      if (s > 0 && batch.labels(b, s) != ignore_index) learned = true;  // at 0 nothing is predicted
    }
    report.padding += longest - length;
    if (!learned) report.unlearned += 1;
  }
  return batch;
}

// The numbers 0..count-1 in random order, the same for the same seed on every machine (Fisher and Yates).
inline std::vector<Index> shuffled_order(Index count, std::uint64_t seed) {
  if (count < 0) throw_error<UsageError>("shuffled_order: count is " + std::to_string(count));
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index(0));
  RandomGenerator random(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::size_t other = static_cast<std::size_t>(random.next_uniform() * double(i));
    std::swap(order[i - 1], order[other]);
  }
  return order;
}

}  // namespace glassbox
