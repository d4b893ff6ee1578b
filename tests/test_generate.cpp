// generate.hpp: prefill and decode with the KV cache, on a model whose behaviour is known and on random ones.
//
// Faults that must turn this file red:
//   - the prompt's last token fed twice, or the last new token fed although nobody needs its logits
//   - the logits of another position than the last; the cache not passed on, or not emptied for the next text
//   - the attention mask too short or with a zero; the step not counted, or counted in the prefill
//   - the draws not restarted for the next text; the seed not used or not reported
//   - a forward pass after the end; the context off by one
//   - going on after an exception
#include "glassbox/generate.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/expect_near.hpp"
#include "support/random_model.hpp"
#include "support/successor_model.hpp"

namespace glassbox {
namespace generate_test {

using test_support::ForwardCall;
using test_support::near_tensors;
using test_support::PieceTokenizer;
using test_support::random_model;
using test_support::small_config;
using test_support::SuccessorModel;
using test_support::throws;

using Ids = std::vector<TokenId>;

template <typename Scalar>
class Generate : public ::testing::Test {
 protected:
  static double tolerance() { return sizeof(Scalar) == 4 ? 1e-4 : 1e-10; }

  // The logits after `ids`, without a cache.
  static Tensor<Scalar> logits_after(const CausalLM<Scalar>& causal_lm, const Ids& ids) {
    Tensor<TokenId> input_ids({{"batch", 1}, {"seq", static_cast<Index>(ids.size())}});
    for (std::size_t i = 0; i < ids.size(); ++i) input_ids(0, static_cast<Index>(i)) = ids[i];
    return last_logits(causal_lm.forward(input_ids), 0);
  }
};
TYPED_TEST_SUITE(Generate, test_support::Scalars, test_support::ScalarNames);

// ---- what is fed ----

TYPED_TEST(Generate, FeedsThePromptOnceAndThenOneTokenAStep) {
  const SuccessorModel<TypeParam> model(20, 50);
  GenerationConfig config;
  config.max_new_tokens = 3;
  Generator generator(model, config);
  generator.prefill({3, 9, 4});
  ASSERT_EQ(model.calls.size(), 1U);
  EXPECT_EQ(model.calls[0].input_ids, (std::vector<Ids>{{3, 9, 4}}));
  EXPECT_EQ(model.calls[0].attention_mask, (std::vector<std::vector<std::int64_t>>{{1, 1, 1}}));
  EXPECT_EQ(model.calls[0].past, 0);
  EXPECT_EQ(model.calls[0].logits_to_keep, 1);
  EXPECT_TRUE(generator.next());
  EXPECT_EQ(model.calls.size(), 1U);  // the prefill's logits have it
  EXPECT_EQ(generator.token(), 5);
  EXPECT_TRUE(generator.next());
  ASSERT_EQ(model.calls.size(), 2U);
  EXPECT_EQ(model.calls[1].input_ids, (std::vector<Ids>{{5}}));
  EXPECT_EQ(model.calls[1].attention_mask, (std::vector<std::vector<std::int64_t>>{{1, 1, 1, 1}}));
  EXPECT_EQ(model.calls[1].past, 3);
  EXPECT_EQ(model.calls[1].logits_to_keep, 1);
  EXPECT_TRUE(generator.next());
  EXPECT_FALSE(generator.next());
  EXPECT_FALSE(generator.next());
  EXPECT_EQ(model.calls.size(), 3U);
  EXPECT_EQ(generator.result().ids, (Ids{5, 6, 7}));
  EXPECT_EQ(generator.history(), (Ids{3, 9, 4, 5, 6, 7}));
  EXPECT_EQ(generator.result().steps, 2);
}

// Case V14: P + n - 1 positions.
TYPED_TEST(Generate, CacheLength) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  GenerationConfig config;
  config.max_new_tokens = 6;
  Generator generator(causal_lm, config);
  generator.prefill({1, 5, 6, 7});
  EXPECT_EQ(generator.cache().length(), 4);
  for (Index n = 1; n <= 6; ++n) {
    EXPECT_TRUE(generator.next());
    EXPECT_EQ(generator.cache().length(), 4 + n - 1);
  }
  EXPECT_FALSE(generator.next());
  EXPECT_EQ(generator.cache().length(), 9);
}

// Case V14: each step has the logits of one pass over everything so far. Ids alone would not tell.
TYPED_TEST(Generate, EveryStepEqualsOnePassOverAll) {
  for (const bool tied : {false, true}) {
    ModelConfig model_config = small_config();
    model_config.tie_word_embeddings = tied;
    model_config.attention_bias = tied;
    const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(model_config, 2);
    GenerationConfig config;
    config.max_new_tokens = 12;
    config.sampling.temperature = 1.5;
    Generator generator(causal_lm, config);
    generator.prefill({1, 5, 6});
    Ids before = generator.history();
    while (generator.next()) {
      EXPECT_TRUE(near_tensors(generator.next_token_logits(), this->logits_after(causal_lm, before),
                               this->tolerance()));
      before = generator.history();
    }
    EXPECT_EQ(generator.result().ids.size(), 12U);
  }
}

TYPED_TEST(Generate, StepIsCounted) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  std::vector<std::string> passed;
  ScopedStageHook hook([&passed](StageRecord& record) {
    const std::string name = record.name;
    if (name == "logits" || name == "next_token") passed.push_back(name + std::to_string(record.step));
  });
  GenerationConfig config;
  config.max_new_tokens = 3;
  for (int round = 0; round < 2; ++round) {
    passed.clear();
    generate(causal_lm, {1, 2}, config);
    EXPECT_EQ(passed, (std::vector<std::string>{"logits0", "next_token0", "logits1", "next_token1", "logits2",
                                                "next_token2"}));
  }
}

TYPED_TEST(Generate, PiecesOfTheTextSoFarAreKnownToHooks) {
  const SuccessorModel<TypeParam> model(4, 50);
  const PieceTokenizer tokenizer({"", "a", "b", "c"});
  GenerationConfig config;
  config.max_new_tokens = 2;
  Generator generator(model, config, &tokenizer);
  generator.prefill({0, 1});
  EXPECT_EQ(stage_state().pieces, (std::vector<std::string>{"", "a"}));
  generator.next();
  generator.next();
  EXPECT_EQ(stage_state().pieces, (std::vector<std::string>{"", "a", "b"}));
  generator.prefill({3});
  EXPECT_EQ(stage_state().pieces, (std::vector<std::string>{"c"}));
}

// ---- one text after the other: case V15 ----

TYPED_TEST(Generate, SecondTextStartsClean) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 3);
  GenerationConfig config;
  config.max_new_tokens = 10;
  config.sampling.temperature = 1;
  config.seed = 42;
  Generator used(causal_lm, config);
  used.prefill({1, 9, 9, 9, 3});
  while (used.next()) {
  }
  used.prefill({1, 4});
  EXPECT_EQ(used.cache().length(), 2);
  EXPECT_TRUE(used.result().ids.empty());
  while (used.next()) {
  }
  const GenerationResult fresh = generate(causal_lm, {1, 4}, config);
  EXPECT_EQ(used.result().ids, fresh.ids);
  const Index bytes = used.cache().bytes();
  for (int i = 0; i < 100; ++i) {
    used.prefill({1, 4});
    while (used.next()) {
    }
  }
  EXPECT_EQ(used.cache().bytes(), bytes);
  EXPECT_EQ(used.result().ids, fresh.ids);
}

TYPED_TEST(Generate, SeedDecidesAndIsReported) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 3);
  GenerationConfig config;
  config.max_new_tokens = 20;
  config.sampling.temperature = 1.5;
  config.seed = 5;
  const GenerationResult first = generate(causal_lm, {1}, config);
  EXPECT_EQ(first.seed, 5U);
  EXPECT_EQ(generate(causal_lm, {1}, config).ids, first.ids);
  config.seed = 6;
  EXPECT_NE(generate(causal_lm, {1}, config).ids, first.ids);
}

// ---- where it stops ----

// Case V16: 11 positions are left, so 12 tokens.
TYPED_TEST(Generate, StopsAtTheEndOfTheContext) {
  ModelConfig model_config = small_config();
  model_config.max_position_embeddings = 512;
  model_config.num_hidden_layers = 1;
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(model_config, 4);
  GenerationConfig config;
  config.max_new_tokens = 20;
  const Ids prompt(501, 7);
  Generator generator(causal_lm, config);
  generator.prefill(prompt);
  while (generator.next()) {
  }
  EXPECT_EQ(generator.result().ids.size(), 12U);
  EXPECT_EQ(generator.result().stop_reason, StopReason::context);
  EXPECT_EQ(generator.cache().length(), 512);
}

TYPED_TEST(Generate, ContextMayBeSmaller) {
  const SuccessorModel<TypeParam> model(20, 50);
  GenerationConfig config;
  config.context = 6;
  const GenerationResult result = generate(model, {1, 2, 3, 4}, config);
  EXPECT_EQ(result.ids, (Ids{5, 6, 7}));
  EXPECT_EQ(result.stop_reason, StopReason::context);
  const GenerationResult full = generate(model, Ids(6, 1), config);
  EXPECT_EQ(full.ids, (Ids{2}));
  EXPECT_EQ(full.stop_reason, StopReason::context);
}

TYPED_TEST(Generate, StopsAtAnEndToken) {
  const SuccessorModel<TypeParam> model(20, 50);
  GenerationConfig config;
  config.eos_token_id = {15, 8};
  const GenerationResult result = generate(model, {8, 5}, config);  // 8 in the prompt is no end
  EXPECT_EQ(result.ids, (Ids{6, 7, 8}));
  EXPECT_EQ(result.stop_reason, StopReason::eos);
  EXPECT_EQ(result.eos_id, 8);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(model.calls.size(), 3U);
}

TYPED_TEST(Generate, StopsAtAStringAndStreamsTheText) {
  const SuccessorModel<TypeParam> model(8, 50);
  const PieceTokenizer tokenizer({"", " a", " b", " c", "d", "e", "f", "g"});
  GenerationConfig config;
  config.stop_strings = {"ef"};
  Generator generator(model, config, &tokenizer);
  generator.prefill({0, 1});
  std::string shown = generator.result().prompt_text;
  while (generator.next()) shown += generator.new_text();
  EXPECT_EQ(shown, "a b cd");
  EXPECT_EQ(generator.result().text, " b cd");
  EXPECT_EQ(generator.result().stop_reason, StopReason::stop_string);
  EXPECT_EQ(generator.result().stop_string, "ef");
  EXPECT_EQ(generator.result().ids, (Ids{2, 3, 4, 5, 6}));
}

TYPED_TEST(Generate, NothingAskedForIsAPrefill) {
  const SuccessorModel<TypeParam> model(8, 50);
  GenerationConfig config;
  config.max_new_tokens = 0;
  Generator generator(model, config);
  generator.prefill({0, 1});
  EXPECT_FALSE(generator.next());
  EXPECT_EQ(generator.result().stop_reason, StopReason::max_new_tokens);
  EXPECT_EQ(generator.next_token_logits()(2), TypeParam(4));
  EXPECT_EQ(model.calls.size(), 1U);
}

// ---- errors ----

TYPED_TEST(Generate, PromptsThatCannotBeContinued) {
  const SuccessorModel<TypeParam> model(8, 5);
  Generator generator(model, GenerationConfig());
  EXPECT_TRUE(
      throws<UsageError>([&] { generator.next(); }, "Generator::next: call prefill with a prompt first"));
  EXPECT_TRUE(throws<UsageError>([&] { generator.result(); }, "Generator: call prefill with a prompt first"));
  EXPECT_TRUE(throws<UsageError>([&] { generator.prefill(Ids(6, 1)); },
                                 "generation: the prompt of 6 tokens is longer than the context of 5"));
  EXPECT_THROW(generator.prefill({}), UsageError);
  EXPECT_TRUE(model.calls.empty());
  EXPECT_THROW(generator.next(), UsageError);
  generator.prefill(Ids(5, 1));
  EXPECT_TRUE(generator.next());
}

TYPED_TEST(Generate, IdsOutsideTheVocabulary) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  Generator generator(causal_lm, GenerationConfig());
  EXPECT_THROW(generator.prefill({1, 37}), TokenError);
  EXPECT_THROW(generator.next(), UsageError);
  generator.prefill({1, 36});
  EXPECT_TRUE(generator.next());
}

TYPED_TEST(Generate, SettingsAreCheckedAtOnce) {
  const SuccessorModel<TypeParam> model(8, 5);
  GenerationConfig config;
  config.sampling.temperature = -1;
  EXPECT_THROW(Generator(model, config), UsageError);
  config = GenerationConfig();
  config.context = 6;
  EXPECT_TRUE(
      throws<UsageError>([&] { Generator(model, config); },
                         "generation: context is 6, more than the model's max_position_embeddings 5"));
  const PieceTokenizer tokenizer({"", "a"});
  EXPECT_TRUE(throws<UsageError>(
      [&] { Generator(model, GenerationConfig(), &tokenizer); },
      "generation: the model has 8 ids, the tokenizer knows only 2: open it with the model's vocab_size"));
}

// Case V13: NaN is reported with position and step, and the text does not go on.
TYPED_TEST(Generate, NanIsReportedWithItsStep) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  ScopedStageHook hook([](StageRecord& record) {
    if (std::string(record.name) != "logits" || record.step != 2) return;
    if (record.f32 != nullptr) record.f32->row(0)[5] = std::numeric_limits<float>::quiet_NaN();
    if (record.f64 != nullptr) record.f64->row(0)[5] = std::numeric_limits<double>::quiet_NaN();
  });
  Generator generator(causal_lm, GenerationConfig());
  generator.prefill({1, 2, 3});
  EXPECT_TRUE(generator.next());
  EXPECT_TRUE(generator.next());
  EXPECT_TRUE(throws<NumericError>([&] { generator.next(); },
                                   "sample_next_token: logits [vocab=37] of position 4, step 2: id 5 is nan, "
                                   "expected a finite number"));
  EXPECT_TRUE(
      throws<UsageError>([&] { generator.next(); }, "Generator::next: call prefill with a prompt first"));
}

TYPED_TEST(Generate, LastLogits) {
  const Tensor<TypeParam> logits = test_support::make_tensor<TypeParam>(
      {{"batch", 2}, {"seq", 2}, {"vocab", 2}}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(test_support::near_values(last_logits(logits, 0), {3, 4}, 0));
  EXPECT_TRUE(test_support::near_values(last_logits(logits, 1), {7, 8}, 0));
  EXPECT_EQ(shape_string(last_logits(logits, 1)), "[vocab=2]");
  EXPECT_TRUE(throws<ShapeError>(
      [] {
        last_logits(Tensor<TypeParam>({{"vocab", 2}}), 0);
      },
      "last_logits: logits [vocab=2] has 1 axes, expected 3"));
}

}  // namespace generate_test
}  // namespace glassbox
