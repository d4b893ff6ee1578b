// generate_batch.hpp: several texts side by side get what each would get alone.
//
// Faults that must turn this file red:
//   - padding on the right; the padding's mask 1; positions counted from the padding
//   - a new column's mask left out, or 1 for a text that has stopped; texts mixed up
//   - one generator of draws for all texts; the same seed for all
//   - stopping when the first text stops; going on after the last one has
//   - padding counted for the context
#include "glassbox/generate_batch.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "support/expect_near.hpp"
#include "support/random_model.hpp"
#include "support/successor_model.hpp"

namespace glassbox {
namespace generate_batch_test {

using test_support::near_tensors;
using test_support::near_values;
using test_support::PieceTokenizer;
using test_support::random_model;
using test_support::small_config;
using test_support::SuccessorModel;
using test_support::throws;

using Ids = std::vector<TokenId>;
using Mask = std::vector<std::vector<std::int64_t>>;

template <typename Scalar>
class GenerateBatch : public ::testing::Test {
 protected:
  static double tolerance() { return sizeof(Scalar) == 4 ? 1e-4 : 1e-10; }
};
TYPED_TEST_SUITE(GenerateBatch, test_support::Scalars, test_support::ScalarNames);

TEST(LeftPad, ByHand) {
  const PaddedBatch padded = left_pad({{1, 7, 9, 4}, {1, 5}, {6, 2, 3}}, 8);
  EXPECT_EQ(shape_string(padded.input_ids), "[batch=3, seq=4]");
  EXPECT_TRUE(near_values(padded.input_ids, {1, 7, 9, 4, 8, 8, 1, 5, 8, 6, 2, 3}, 0));
  EXPECT_TRUE(near_values(padded.attention_mask, {1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1}, 0));
}

TEST(LeftPad, Errors) {
  EXPECT_TRUE(throws<UsageError>([] { left_pad({}, 0); }, "left_pad: there are no prompts"));
  EXPECT_TRUE(throws<UsageError>([] { left_pad({{1}, {}}, 0); }, "left_pad: prompt 1 has no tokens"));
}

// Every step's logits of every row are those of a pass over that row alone.
TYPED_TEST(GenerateBatch, LogitsAreThoseOfEachTextAlone) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 5);
  const std::vector<Ids> prompts{{1, 5, 6, 7, 8, 9}, {2}, {3, 30, 31}};
  GenerationConfig config;
  config.max_new_tokens = 8;
  std::vector<std::vector<Tensor<TypeParam>>> logits_of_row(3);
  std::vector<GenerationResult> together;
  {
    ScopedStageHook hook([&logits_of_row](StageRecord& record) {
      if (std::string(record.name) != "logits") return;
      for (std::size_t row = 0; row < 3; ++row) {
        if constexpr (sizeof(TypeParam) == 4)
          logits_of_row[row].push_back(last_logits(*record.f32, Index(row)));
        if constexpr (sizeof(TypeParam) == 8)
          logits_of_row[row].push_back(last_logits(*record.f64, Index(row)));
      }
    });
    together = generate_batch(causal_lm, prompts, config, 0);
  }
  for (std::size_t row = 0; row < 3; ++row) {
    Generator alone(causal_lm, config);
    alone.prefill(prompts[row]);
    std::size_t step = 0;
    while (alone.next()) {
      ASSERT_LT(step, logits_of_row[row].size());
      EXPECT_TRUE(near_tensors(logits_of_row[row][step], alone.next_token_logits(), this->tolerance()))
          << "row " << row << ", step " << step;
      ++step;
    }
    EXPECT_EQ(step, logits_of_row[row].size());
    EXPECT_EQ(together[row].ids, alone.result().ids) << row;
    EXPECT_EQ(together[row].stop_reason, StopReason::max_new_tokens);
    EXPECT_EQ(together[row].prompt_length, static_cast<Index>(prompts[row].size()));
    EXPECT_EQ(together[row].steps, 7);
  }
}

// What stands in the padding is of no importance.
TYPED_TEST(GenerateBatch, PaddingIdDoesNotMatter) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 6);
  const std::vector<Ids> prompts{{1, 5, 6, 7}, {2}};
  GenerationConfig config;
  config.max_new_tokens = 10;
  config.sampling.temperature = 1;
  const std::vector<GenerationResult> zeros = generate_batch(causal_lm, prompts, config, 0);
  const std::vector<GenerationResult> others = generate_batch(causal_lm, prompts, config, 36);
  for (std::size_t row = 0; row < 2; ++row) EXPECT_EQ(zeros[row].ids, others[row].ids);
}

// Text i draws as if it were alone with the seed config.seed + i.
TYPED_TEST(GenerateBatch, DrawsDoNotDependOnTheNeighbours) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 7);
  const std::vector<Ids> prompts{{1, 5}, {1, 5}, {4, 4, 4}};
  GenerationConfig config;
  config.max_new_tokens = 15;
  config.sampling.temperature = 1.2;
  config.seed = 100;
  const std::vector<GenerationResult> together = generate_batch(causal_lm, prompts, config, 0);
  EXPECT_NE(together[0].ids, together[1].ids);
  for (std::size_t row = 0; row < 3; ++row) {
    GenerationConfig alone = config;
    alone.seed = 100 + row;
    EXPECT_EQ(together[row].seed, 100 + row);
    EXPECT_EQ(together[row].ids, generate(causal_lm, prompts[row], alone).ids) << row;
  }
}

// The first stops after one token, the second after three; a stopped text is fed padding that is masked.
TYPED_TEST(GenerateBatch, GoesOnUntilTheLastHasStopped) {
  const SuccessorModel<TypeParam> model(20, 50);
  GenerationConfig config;
  config.eos_token_id = {9};
  const std::vector<GenerationResult> results = generate_batch(model, {{7, 8}, {6}}, config, 17);
  EXPECT_EQ(results[0].ids, (Ids{9}));
  EXPECT_EQ(results[1].ids, (Ids{7, 8, 9}));
  EXPECT_EQ(results[0].steps, 0);
  EXPECT_EQ(results[1].steps, 2);
  for (const GenerationResult& result : results) EXPECT_EQ(result.eos_id, 9);
  ASSERT_EQ(model.calls.size(), 3U);
  EXPECT_EQ(model.calls[0].input_ids, (std::vector<Ids>{{7, 8}, {17, 6}}));
  EXPECT_EQ(model.calls[0].attention_mask, (Mask{{1, 1}, {0, 1}}));
  EXPECT_EQ(model.calls[1].input_ids, (std::vector<Ids>{{17}, {7}}));
  EXPECT_EQ(model.calls[1].attention_mask, (Mask{{1, 1, 0}, {0, 1, 1}}));
  EXPECT_EQ(model.calls[2].input_ids, (std::vector<Ids>{{17}, {8}}));
  EXPECT_EQ(model.calls[2].attention_mask, (Mask{{1, 1, 0, 0}, {0, 1, 1, 1}}));
  for (const test_support::ForwardCall& call : model.calls) EXPECT_EQ(call.logits_to_keep, 1);
}

// Also where the last row is the first to stop.
TYPED_TEST(GenerateBatch, RowsMayStopInAnyOrder) {
  const SuccessorModel<TypeParam> model(20, 50);
  GenerationConfig config;
  config.eos_token_id = {9};
  const std::vector<GenerationResult> results = generate_batch(model, {{6}, {5}, {7, 8}}, config, 0);
  EXPECT_EQ(results[0].ids, (Ids{7, 8, 9}));
  EXPECT_EQ(results[1].ids, (Ids{6, 7, 8, 9}));
  EXPECT_EQ(results[2].ids, (Ids{9}));
  EXPECT_EQ(model.calls.size(), 4U);
}

// Each text has the whole context for itself: padding takes no position of it.
TYPED_TEST(GenerateBatch, ContextIsCountedForEachText) {
  ModelConfig model_config = small_config();
  model_config.max_position_embeddings = 10;
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(model_config, 8);
  GenerationConfig config;
  config.max_new_tokens = 100;
  const std::vector<Ids> prompts{{1, 2, 3, 4, 5, 6, 7, 8}, {9}};
  const std::vector<GenerationResult> results = generate_batch(causal_lm, prompts, config, 0);
  EXPECT_EQ(results[0].ids.size(), 3U);
  EXPECT_EQ(results[1].ids.size(), 10U);
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(results[row].stop_reason, StopReason::context);
    EXPECT_EQ(results[row].ids, generate(causal_lm, prompts[row], config).ids);
  }
}

TYPED_TEST(GenerateBatch, TextsAndStopStrings) {
  const SuccessorModel<TypeParam> model(7, 50);
  const PieceTokenizer tokenizer({"", " a", " b", " c", "d", "e", "f"});
  GenerationConfig config;
  config.stop_strings = {"de"};
  config.max_new_tokens = 3;
  const std::vector<GenerationResult> results = generate_batch(model, {{0, 1}, {2}}, config, 0, &tokenizer);
  EXPECT_EQ(results[0].prompt_text, "a");
  EXPECT_EQ(results[0].text, " b cd");
  EXPECT_EQ(results[0].stop_reason, StopReason::max_new_tokens);
  EXPECT_EQ(results[1].prompt_text, "b");
  EXPECT_EQ(results[1].text, " c");
  EXPECT_EQ(results[1].stop_reason, StopReason::stop_string);
}

TYPED_TEST(GenerateBatch, StepIsCountedFromTheStart) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(small_config(), 1);
  std::vector<Index> steps;
  ScopedStageHook hook([&steps](StageRecord& record) {
    if (std::string(record.name) == "logits") steps.push_back(record.step);
  });
  GenerationConfig config;
  config.max_new_tokens = 3;
  for (int round = 0; round < 2; ++round) {
    steps.clear();
    generate_batch(causal_lm, {{1, 2}, {3}}, config, 0);
    EXPECT_EQ(steps, (std::vector<Index>{0, 1, 2}));
  }
}

TYPED_TEST(GenerateBatch, Errors) {
  const SuccessorModel<TypeParam> model(8, 5);
  GenerationConfig config;
  EXPECT_TRUE(
      throws<UsageError>([&] { generate_batch(model, {}, config, 0); }, "left_pad: there are no prompts"));
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        generate_batch(model, {{1}, Ids(6, 1)}, config, 0);
      },
      "generation: the prompt of 6 tokens is longer than the context of 5"));
  config.max_new_tokens = -1;
  EXPECT_TRUE(throws<UsageError>([&] { generate_batch(model, {{1}}, config, 0); },
                                 "generation: max_new_tokens is -1, expected a whole number >= 0"));
  const PieceTokenizer tokenizer({"", "a"});
  EXPECT_TRUE(throws<UsageError>(
      [&] { generate_batch(model, {{1}}, GenerationConfig(), 0, &tokenizer); },
      "generation: the model has 8 ids, the tokenizer knows only 2: open it with the model's vocab_size"));
}

}  // namespace generate_batch_test
}  // namespace glassbox
