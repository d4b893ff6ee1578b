// continuation.hpp: the text that tokens make, and the reason why it stops.
//
// Faults that must turn this file red:
//   - the end token shown as text; only the first of several end tokens known; the wrong one reported
//   - max_new_tokens or context off by one; the prompt not counted for the context, or counted for
//   max_new_tokens
//   - stop strings or end tokens of the prompt stop the text; the stop string not cut off
//   - the prompt not decoded first (a lost space); what was held back not shown at the end
//   - a stop string in what comes out at the very end cut off, but not given as the reason
//   - tokens taken in after the end
#include "glassbox/continuation.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "support/expect_near.hpp"
#include "support/successor_model.hpp"

namespace glassbox {
namespace continuation_test {

using test_support::PieceTokenizer;
using test_support::throws;

using Ids = std::vector<TokenId>;

// 0 <s>  1 </s>  2 " Once"  3 " upon"  4 "."  5 "\n"  6 "User"  7 ":"  8, 9, 10: the bytes of U+4E2D
const PieceTokenizer& tokenizer() {
  static const PieceTokenizer instance(
      {"", "", " Once", " upon", ".", "\n", "User", ":", "<0xE4>", "<0xB8>", "<0xAD>"});
  return instance;
}

GenerationConfig config_with(Index max_new_tokens) {
  GenerationConfig config;
  config.max_new_tokens = max_new_tokens;
  config.eos_token_id = {1};
  return config;
}

TEST(Continuation, TextGoesOnAfterThePrompt) {
  Continuation text({0, 2}, config_with(3), 5, 100, &tokenizer());
  EXPECT_EQ(text.result().prompt_text, "Once");
  EXPECT_EQ(text.result().prompt_length, 2);
  EXPECT_EQ(text.result().seed, 5U);
  EXPECT_EQ(text.result().stop_reason, StopReason::none);
  text.accept(3);
  EXPECT_EQ(text.new_text(), " upon");
  EXPECT_FALSE(text.stopped());
  text.accept(4);
  EXPECT_EQ(text.new_text(), ".");
  EXPECT_FALSE(text.stopped());
  text.accept(4);
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.result().stop_reason, StopReason::max_new_tokens);
  EXPECT_EQ(text.result().ids, (Ids{3, 4, 4}));
  EXPECT_EQ(text.history(), (Ids{0, 2, 3, 4, 4}));
  EXPECT_EQ(text.result().text, " upon..");
  EXPECT_EQ(text.result().prompt_text + text.result().text, tokenizer().decode(text.history()));
}

TEST(Continuation, EndTokenStopsAndIsNoText) {
  GenerationConfig config = config_with(10);
  config.eos_token_id = {1, 4};
  Continuation text({0}, config, 0, 100, &tokenizer());
  text.accept(2);
  EXPECT_FALSE(text.stopped());
  text.accept(4);
  EXPECT_EQ(text.result().stop_reason, StopReason::eos);
  EXPECT_EQ(text.result().eos_id, 4);
  EXPECT_EQ(text.new_text(), "");
  EXPECT_EQ(text.result().text, "Once");
  EXPECT_EQ(text.result().ids, (Ids{2, 4}));
  Continuation other({0}, config, 0, 100, &tokenizer());
  other.accept(1);
  EXPECT_EQ(other.result().eos_id, 1);
}

// Case V24: no end token, no end.
TEST(Continuation, WithoutEndTokensOnlyTheLengthStops) {
  GenerationConfig config = config_with(2);
  config.eos_token_id.clear();
  Continuation text({0}, config, 0, 100, &tokenizer());
  text.accept(1);
  EXPECT_FALSE(text.stopped());
  text.accept(1);
  EXPECT_EQ(text.result().stop_reason, StopReason::max_new_tokens);
  EXPECT_EQ(text.result().eos_id, -1);
}

// Where both come together the text is complete: eos, not max_new_tokens.
TEST(Continuation, EndTokenAsTheLastOneAskedFor) {
  Continuation text({0}, config_with(1), 0, 1, &tokenizer());
  text.accept(1);
  EXPECT_EQ(text.result().stop_reason, StopReason::eos);
}

TEST(Continuation, ContextCountsThePrompt) {
  Continuation text({0, 2, 3}, config_with(100), 0, 5, &tokenizer());
  text.accept(4);  // stands at position 3
  EXPECT_FALSE(text.stopped());
  text.accept(4);  // at position 4, the last one
  EXPECT_FALSE(text.stopped());
  text.accept(4);  // chosen from the logits of position 4; there is no position to feed it at
  EXPECT_EQ(text.result().stop_reason, StopReason::context);
  EXPECT_EQ(text.result().ids.size(), 3U);
}

TEST(Continuation, PromptAsLongAsTheContext) {
  Continuation text({0, 2, 3}, config_with(100), 0, 3, nullptr);
  text.accept(4);
  EXPECT_EQ(text.result().stop_reason, StopReason::context);
  Continuation both({0, 2, 3}, config_with(1), 0, 3, nullptr);
  both.accept(4);
  EXPECT_EQ(both.result().stop_reason,
            StopReason::max_new_tokens);  // as many as asked for: nothing is missing
}

TEST(Continuation, StopStringAcrossTokens) {
  GenerationConfig config = config_with(10);
  config.stop_strings = {"\nUser:"};
  Continuation text({0, 5, 6, 7}, config, 0, 100, &tokenizer());  // in the prompt it does not count
  EXPECT_EQ(text.result().prompt_text, "\nUser:");
  std::string shown;
  for (const TokenId token : Ids{2, 5, 5, 6}) {
    text.accept(token);
    shown += text.new_text();
    EXPECT_FALSE(text.stopped());
  }
  EXPECT_EQ(shown, " Once\n");
  text.accept(7);
  shown += text.new_text();
  EXPECT_EQ(shown, " Once\n");
  EXPECT_EQ(text.result().text, " Once\n");
  EXPECT_EQ(text.result().stop_reason, StopReason::stop_string);
  EXPECT_EQ(text.result().stop_string, "\nUser:");
  EXPECT_EQ(text.result().ids, (Ids{2, 5, 5, 6, 7}));
}

TEST(Continuation, HeldBackTextComesAtTheEnd) {
  GenerationConfig config = config_with(2);
  config.stop_strings = {"\nUser:"};
  Continuation text({0}, config, 0, 100, &tokenizer());
  text.accept(5);
  EXPECT_EQ(text.new_text(), "");
  text.accept(6);
  EXPECT_EQ(text.new_text(), "\nUser");
  EXPECT_EQ(text.result().text, "\nUser");
  EXPECT_EQ(text.result().stop_reason, StopReason::max_new_tokens);
  EXPECT_EQ(text.result().stop_string, "");
}

TEST(Continuation, CharactersComeWhole) {
  Continuation text({0, 2}, config_with(4), 0, 100, &tokenizer());
  text.accept(8);
  EXPECT_EQ(text.new_text(), "");
  text.accept(9);
  EXPECT_EQ(text.new_text(), "");
  text.accept(10);
  EXPECT_EQ(text.new_text(), "\xE4\xB8\xAD");
  text.accept(8);  // and then the end: a byte without its others
  EXPECT_EQ(text.new_text(), "\xEF\xBF\xBD");
  EXPECT_EQ(text.result().prompt_text + text.result().text, tokenizer().decode(text.history()));
}

// Half a character becomes U+FFFD at the end, which may be a stop string.
TEST(Continuation, StopStringInWhatComesAtTheEnd) {
  GenerationConfig config = config_with(2);
  config.stop_strings = {"\xEF\xBF\xBD"};
  Continuation by_length({0}, config, 0, 100, &tokenizer());
  by_length.accept(2);
  by_length.accept(8);
  EXPECT_EQ(by_length.result().text, "Once");
  EXPECT_EQ(by_length.result().stop_reason, StopReason::stop_string);
  EXPECT_EQ(by_length.result().stop_string, "\xEF\xBF\xBD");
  Continuation by_end_token({0}, config, 0, 100, &tokenizer());
  by_end_token.accept(8);
  by_end_token.accept(1);
  EXPECT_EQ(by_end_token.result().text, "");
  EXPECT_EQ(by_end_token.result().stop_reason, StopReason::stop_string);
  EXPECT_EQ(by_end_token.result().eos_id, -1);
}

TEST(Continuation, WithoutTokenizerThereAreIdsOnly) {
  Continuation text({0}, config_with(2), 0, 100, nullptr);
  text.accept(2);
  text.accept(1);
  EXPECT_EQ(text.result().text, "");
  EXPECT_EQ(text.result().prompt_text, "");
  EXPECT_EQ(text.result().stop_reason, StopReason::eos);
}

TEST(Continuation, NothingAskedFor) {
  Continuation text({0}, config_with(0), 0, 100, nullptr);
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.result().stop_reason, StopReason::max_new_tokens);
  EXPECT_TRUE(text.result().ids.empty());
}

// choose() draws by the seed from the given logits and the whole history.
TEST(Continuation, ChooseUsesHistoryAndSeed) {
  Tensor<double> logits = test_support::make_tensor<double>({{"vocab", 3}}, {3, 2, 1});
  GenerationConfig config;
  config.sampling.no_repeat_ngram_size = 1;
  Continuation text({0}, config, 0, 100, nullptr);
  EXPECT_EQ(text.choose(logits), 1);  // 0 is in the prompt
  EXPECT_EQ(text.choose(logits), 2);  // 1 was chosen
  config = GenerationConfig();
  config.sampling.temperature = 2;
  Continuation sampled({0}, config, 77, 100, nullptr);
  RandomGenerator random(77);
  Ids history{0};
  for (int i = 0; i < 20; ++i) {
    const TokenId expected = sample_next_token(logits, history, config.sampling, random);
    history.push_back(expected);
    EXPECT_EQ(sampled.choose(logits), expected);
  }
}

TEST(Continuation, Errors) {
  GenerationConfig config = config_with(1);
  EXPECT_TRUE(throws<UsageError>([&] { Continuation text({}, config, 0, 5, nullptr); },
                                 "generation: the prompt has no tokens: put at least a begin token "
                                 "(bos_token_id) before the text, since the "
                                 "model continues from something"));
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        Continuation text({0, 2, 3, 2, 3, 4}, config, 0, 5, nullptr);
      },
      "generation: the prompt of 6 tokens is longer than the context of 5"));
  Continuation text({0}, config, 0, 5, nullptr);
  text.accept(2);
  EXPECT_TRUE(throws<UsageError>([&] { text.accept(2); },
                                 "Continuation::accept: the text has stopped: max_new_tokens"));
  config.stop_strings = {"\xFF"};
  EXPECT_TRUE(throws<UsageError>([&] { Continuation other({0}, config, 0, 5, &tokenizer()); },
                                 "generation: the stop string \"\\xFF\" is not well-formed UTF-8"));
  config.stop_strings = {"x"};
  EXPECT_TRUE(
      throws<UsageError>([&] { Continuation other({0}, config, 0, 5, nullptr); },
                         "generation: stop_strings need a tokenizer, since they are looked for in the text"));
}

TEST(Continuation, NamesOfTheReasons) {
  EXPECT_STREQ(stop_reason_name(StopReason::none), "none");
  EXPECT_STREQ(stop_reason_name(StopReason::eos), "eos");
  EXPECT_STREQ(stop_reason_name(StopReason::stop_string), "stop_string");
  EXPECT_STREQ(stop_reason_name(StopReason::max_new_tokens), "max_new_tokens");
  EXPECT_STREQ(stop_reason_name(StopReason::context), "context");
}

}  // namespace continuation_test
}  // namespace glassbox
