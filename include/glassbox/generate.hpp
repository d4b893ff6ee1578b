// Generation: one pass over the prompt, then one token at a time with the KV cache.
//
//   Generator generator(causal_lm, config, &tokenizer);
//   generator.prefill(tokenizer.encode_with_special_tokens("Once upon a time"));
//   while (generator.next()) std::cout << generator.new_text();
//
// The first new token comes from the logits of the prompt's last token; each further step feeds the token
// chosen last. So n new tokens take P + n - 1 positions of the cache: the last one need not be fed.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "glassbox/continuation.hpp"
#include "glassbox/kv_cache.hpp"
#include "glassbox/stage.hpp"

namespace glassbox {

// The logits of the last position of one text: logits [batch, seq, vocab]  ->  [vocab]
template <std::floating_point Scalar>
Tensor<Scalar> last_logits(const Tensor<Scalar>& logits, Index batch) {
  check_rank("last_logits", "logits", logits, 3);
  Tensor<Scalar> next_token_logits({logits.axis(2)});
  next_token_logits.row(0) = logits.matrix(batch).bottomRows(1);
  return next_token_logits;
}

// Throws UsageError where the model could choose an id that the tokenizer does not know.
inline void check_vocabularies(const Tokenizer* tokenizer, Index vocab_size) {
  if (tokenizer == nullptr || tokenizer->vocab_size() >= vocab_size) return;
  throw_error<UsageError>("generation: the model has " + std::to_string(vocab_size) +
                          " ids, the tokenizer knows only " + std::to_string(tokenizer->vocab_size()) +
                          ": open it with the model's vocab_size");
}

// Generates one text after the other. Model is CausalLM or another struct with `config` and the same
// `forward` (transformers GenerationMixin.generate, GenerationMixin._sample). It refers to the model and the
// tokenizer, which must outlive it. Invariant: between calls the cache holds every token of history() but the
// one chosen last.
template <std::floating_point Scalar, template <std::floating_point> class Model>
class Generator {
 public:
  Generator(const Model<Scalar>& causal_lm, const GenerationConfig& config,
            const Tokenizer* tokenizer = nullptr)
      : causal_lm_(&causal_lm),
        config_(config),
        tokenizer_(tokenizer),
        cache_(causal_lm.config.num_hidden_layers) {
    config_.validate();
    context_ = context_length(config_, causal_lm.config.max_position_embeddings);
    check_vocabularies(tokenizer, causal_lm.config.vocab_size);
  }

  // Begins a new text: forgets the one before, restarts the random draws, feeds the whole prompt in one pass.
  void prefill(const std::vector<TokenId>& prompt_ids) {
    continuation_.reset();
    cache_.reset();
    Continuation continuation(prompt_ids, config_, config_.seed, context_, tokenizer_);
    stage_state().step = 0;
    tell_pieces(prompt_ids);
    next_token_logits_ = feed(prompt_ids);
    continuation_.emplace(std::move(continuation));
  }

  // One more token, by one forward pass, but for the first one, whose logits prefill() left. Returns false,
  // and does nothing, once the text has stopped; result().stop_reason says why.
  bool next() {
    if (!continuation_) throw_error<UsageError>("Generator::next: call prefill with a prompt first");
    if (continuation_->stopped()) return false;
    Continuation continuation = std::move(*continuation_);
    continuation_.reset();  // should something throw, this text cannot go on
    if (!continuation.result().ids.empty()) {
      continuation.result().steps += 1;
      stage_state().step = continuation.result().steps;
      tell_pieces(continuation.history());
      next_token_logits_ = feed({continuation.result().ids.back()});
    }
    continuation.choose(next_token_logits_);
    continuation_.emplace(std::move(continuation));
    return true;
  }

  TokenId token() const { return current().token(); }                             // the one chosen last
  const std::string& new_text() const { return current().new_text(); }            // what it added to the text
  const GenerationResult& result() const { return current().result(); }           // all of it so far
  const std::vector<TokenId>& history() const { return current().history(); }     // prompt and new tokens
  const Tensor<Scalar>& next_token_logits() const { return next_token_logits_; }  // [vocab], of the last pass
  const KVCache<Scalar>& cache() const { return cache_; }

 private:
  const Model<Scalar>* causal_lm_;
  GenerationConfig config_;
  const Tokenizer* tokenizer_;
  KVCache<Scalar> cache_;
  Index context_ = 0;
  std::optional<Continuation> continuation_;  // empty: no prompt yet
  Tensor<Scalar> next_token_logits_;

  const Continuation& current() const {
    if (!continuation_) throw_error<UsageError>("Generator: call prefill with a prompt first");
    return *continuation_;
  }

  // What debuggers show beside the rows of a tensor: the text so far, the tokens fed next included.
  void tell_pieces(const std::vector<TokenId>& history) const {
    if (tokenizer_ == nullptr) return;
    stage_state().pieces.clear();
    for (const TokenId id : history) stage_state().pieces.push_back(tokenizer_->piece(id));
  }

  // Feeds tokens after those in the cache. ids [seq]  ->  logits of the last one, [vocab]
  Tensor<Scalar> feed(const std::vector<TokenId>& ids) {
    const Index seq = static_cast<Index>(ids.size());
    Tensor<TokenId> input_ids({{"batch", 1}, {"seq", seq}});
    for (Index i = 0; i < seq; ++i) input_ids(0, i) = ids[static_cast<std::size_t>(i)];
    Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", cache_.length() + seq}});
    attention_mask.row(0).setOnes();  // no padding: every token is real
    const Tensor<Scalar> logits =
        causal_lm_->forward(input_ids, attention_mask, cache_, 1);  // [batch, 1, vocab]
    return last_logits(logits, 0);
  }
};

// The whole generation in one call.
template <std::floating_point Scalar, template <std::floating_point> class Model>
GenerationResult generate(const Model<Scalar>& causal_lm, const std::vector<TokenId>& prompt_ids,
                          const GenerationConfig& config, const Tokenizer* tokenizer = nullptr) {
  Generator generator(causal_lm, config, tokenizer);
  generator.prefill(prompt_ids);
  while (generator.next()) {
  }
  return generator.result();
}

}  // namespace glassbox
