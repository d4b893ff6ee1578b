// Continuation: what one text needs between two forward passes: choose a token, show its text, know when to
// stop.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "glassbox/generation_config.hpp"
#include "glassbox/sampler.hpp"
#include "glassbox/stop_strings.hpp"
#include "glassbox/tokenizer.hpp"

namespace glassbox {

enum class StopReason {
  none,            // not stopped yet
  eos,             // the model chose one of eos_token_id: it considers the text complete
  stop_string,     // one of stop_strings appeared
  max_new_tokens,  // as many tokens as asked for
  context          // no position left for one more token
};

inline const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "none";
    case StopReason::eos:
      return "eos";
    case StopReason::stop_string:
      return "stop_string";
    case StopReason::max_new_tokens:
      return "max_new_tokens";
    case StopReason::context:
      return "context";
  }
  return "unknown";
}

struct GenerationResult {
  std::vector<TokenId> ids;  // the new tokens, as transformers with the end token if there is one
  std::string prompt_text;   // prompt_text + text is Tokenizer::decode of all ids, but for what was cut off
  std::string text;          // the new text: no end token, no stop string; empty without a tokenizer
  StopReason stop_reason = StopReason::none;
  TokenId eos_id = -1;      // which one, with StopReason::eos
  std::string stop_string;  // which one, with StopReason::stop_string
  Index prompt_length = 0;  // tokens of the prompt
  Index steps = 0;          // decode steps: forward passes after the prefill
  std::uint64_t seed = 0;   // what was really used
};

// Invariant: result().ids are the last of history(); once stopped nothing is added.
class Continuation {
 public:
  // `context`: positions a text may have; no tokenizer: ids only. Stop strings need a tokenizer.
  Continuation(const std::vector<TokenId>& prompt_ids, const GenerationConfig& config, std::uint64_t seed,
               Index context, const Tokenizer* tokenizer)
      : config_(config),
        context_(context),
        history_(prompt_ids),
        random_(seed),
        stop_strings_(config.stop_strings) {
    check_prompt();
    if (tokenizer == nullptr && !config.stop_strings.empty()) {
      throw_error<UsageError>(
          "generation: stop_strings need a tokenizer, since they are looked for in the text");
    }
    result_.prompt_length = static_cast<Index>(prompt_ids.size());
    result_.seed = seed;
    if (tokenizer != nullptr) {
      decoder_.emplace(*tokenizer);
      result_.prompt_text = decoder_->push(prompt_ids);
    }
    if (config.max_new_tokens == 0) stop(StopReason::max_new_tokens);
  }

  // Chooses the next token and takes it in. next_token_logits [vocab], those of the last token of history().
  template <std::floating_point Scalar>
  TokenId choose(const Tensor<Scalar>& next_token_logits) {
    const TokenId token = sample_next_token(next_token_logits, history_, config_.sampling, random_);
    accept(token);
    return token;
  }

  // Takes in a token, whoever chose it: its text, and whether it is the last one. Throws UsageError after
  // that.
  void accept(TokenId token) {
    if (stopped()) {
      throw_error<UsageError>("Continuation::accept: the text has stopped: " +
                              std::string(stop_reason_name(result_.stop_reason)));
    }
    history_.push_back(token);
    result_.ids.push_back(token);
    new_text_.clear();
    const std::vector<TokenId>& eos = config_.eos_token_id;
    if (std::find(eos.begin(), eos.end(), token) != eos.end()) {
      stop(StopReason::eos);  // before decoding: the end token is no text
      if (result_.stop_reason == StopReason::eos) result_.eos_id = token;
      return;
    }
    if (decoder_) show(decoder_->push(token));
    const Index new_tokens = static_cast<Index>(result_.ids.size());
    const Index next_position = static_cast<Index>(history_.size()) - 1;  // where this token would be fed
    if (stop_strings_.matched()) {
      stop(StopReason::stop_string);
    } else if (new_tokens >= config_.max_new_tokens) {
      stop(StopReason::max_new_tokens);
    } else if (next_position >= context_) {
      stop(StopReason::context);
    }
  }

  bool stopped() const { return result_.stop_reason != StopReason::none; }
  const std::vector<TokenId>& history() const { return history_; }  // prompt and new tokens
  // The token chosen last. Throws UsageError before the first one.
  TokenId token() const {
    if (result_.ids.empty())
      throw_error<UsageError>("generation: no token has been chosen yet: call next first");
    return result_.ids.back();
  }
  // The text that the last token made certain: empty, or several characters at once.
  const std::string& new_text() const { return new_text_; }
  const GenerationResult& result() const { return result_; }
  GenerationResult& result() { return result_; }

 private:
  GenerationConfig config_;
  Index context_;
  std::vector<TokenId> history_;
  RandomGenerator random_;
  std::optional<StreamingDecoder> decoder_;
  StopStrings stop_strings_;
  GenerationResult result_;
  std::string new_text_;

  void check_prompt() const {
    const Index length = static_cast<Index>(history_.size());
    if (length == 0) {
      throw_error<UsageError>(
          "generation: the prompt has no tokens: put at least a begin token (bos_token_id) before the text, "
          "since the model continues from something");
    }
    if (length > context_) {
      throw_error<UsageError>("generation: the prompt of " + std::to_string(length) +
                              " tokens is longer than the context of " + std::to_string(context_));
    }
  }

  void show(const std::string& decoded) {
    const std::string shown = stop_strings_.push(decoded);
    new_text_ += shown;
    result_.text += shown;
  }

  // What was held back comes out: half a character as U+FFFD, the beginning of a stop string as it is. That
  // U+FFFD may complete a stop string; the text is cut off there, so that is the reason, whatever else was.
  void stop(StopReason reason) {
    if (decoder_) show(decoder_->flush());
    result_.stop_reason = stop_strings_.matched() ? StopReason::stop_string : reason;
    result_.stop_string = stop_strings_.match();
    const std::string held = stop_strings_.flush();
    new_text_ += held;
    result_.text += held;
  }
};

}  // namespace glassbox
