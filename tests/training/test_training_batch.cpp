// Faults that must turn this red: the mask of the prompt or of the padding forgotten; a text cut without a
// word; labels of a text's own not used, or of another count; the rest of a long text lost without a word; a
// block used twice or with a gap before the next; an order that is no permutation, or not the seed's.
#include "glassbox/training/training_batch.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace training_batch_test {

using test_support::near_values;
using test_support::throws;

using Ids = std::vector<TokenId>;

TEST(TrainingExample, PromptAndResponse) {
  const TrainingExample example = prompt_and_response({1, 5, 6}, {7, 8, 2});
  EXPECT_EQ(example.ids, (Ids{1, 5, 6, 7, 8, 2}));
  EXPECT_EQ(example.prompt_length, 3);
  EXPECT_EQ(prompt_and_response({}, {7}).prompt_length, 0);
}

TEST(BlocksOf, OneAfterTheOther) {
  const TokenBlocks result = blocks_of({1, 2, 3, 4, 5, 6, 7, 8}, 3);
  ASSERT_EQ(result.blocks.size(), 2u);
  EXPECT_EQ(result.blocks[0].ids, (Ids{1, 2, 3}));
  EXPECT_EQ(result.blocks[1].ids, (Ids{4, 5, 6}));
  EXPECT_EQ(result.blocks[1].prompt_length, 0);
  EXPECT_EQ(result.left_over, 2);
  EXPECT_EQ(blocks_of({1, 2, 3, 4}, 2).left_over, 0);
  EXPECT_EQ(blocks_of({1, 2, 3, 4}, 2).blocks.size(), 2u);
  EXPECT_EQ(blocks_of({1}, 2).left_over, 1);
  EXPECT_TRUE(blocks_of({}, 2).blocks.empty());
  EXPECT_TRUE(throws<UsageError>(
      [] {
        blocks_of({1, 2}, 1);
      },
      "blocks_of: block_length is 1, expected 2 or more: one token to read and one "
      "to predict"));
}

// A prompt of two tokens and an answer of two; a text of three without prompt.
TEST(BatchOf, WorkedExample) {
  const std::vector<TrainingExample> examples = {prompt_and_response({1, 5}, {6, 2}), {{1, 7, 2}, 0}};
  BatchReport report;
  const TrainingBatch batch = batch_of(examples, 9, 8, true, report);
  EXPECT_EQ(shape_string(batch.input_ids), "[batch=2, seq=4]");
  EXPECT_TRUE(near_values(batch.input_ids, {1, 5, 6, 2, 1, 7, 2, 9}, 0));
  EXPECT_TRUE(near_values(batch.attention_mask, {1, 1, 1, 1, 1, 1, 1, 0}, 0));
  EXPECT_TRUE(near_values(batch.labels, {-100, -100, 6, 2, 1, 7, 2, -100}, 0));
  EXPECT_EQ(report.padding, 1);
  EXPECT_EQ(report.truncated, 0);
  EXPECT_EQ(report.cut_ids, 0);
  EXPECT_EQ(report.unlearned, 0);
  const TrainingBatch whole = batch_of(examples, 9, 8, false, report);
  EXPECT_TRUE(near_values(whole.labels, {1, 5, 6, 2, 1, 7, 2, -100}, 0));
  EXPECT_EQ(report.padding, 2);  // reports add up over batches
}

// The padding's id may well be one that texts contain: the mask and the labels go by the place, not by the
// id.
TEST(BatchOf, AnEndTokenAsPaddingIsLearnedOnlyInTheText) {
  BatchReport report;
  const TrainingBatch batch = batch_of({{{1, 2}, 0}, {{1, 3, 4, 2}, 0}}, 2, 8, true, report);
  EXPECT_TRUE(near_values(batch.input_ids, {1, 2, 2, 2, 1, 3, 4, 2}, 0));
  EXPECT_TRUE(near_values(batch.attention_mask, {1, 1, 0, 0, 1, 1, 1, 1}, 0));
  EXPECT_TRUE(near_values(batch.labels, {1, 2, -100, -100, 1, 3, 4, 2}, 0));
}

// Five texts at a max_length of three: two are cut, by one and by three; of the second only prompt is left,
// the third is a single token, the fifth nothing but prompt.
TEST(BatchOf, SaysWhatItDid) {
  BatchReport report;
  const TrainingBatch batch = batch_of(
      {{{1, 2, 3, 4}, 1}, {{1, 2, 3, 4, 5, 6}, 3}, {{1}, 0}, {{1, 2}, 1}, {{1, 2}, 2}}, 0, 3, true, report);
  EXPECT_EQ(shape_string(batch.input_ids), "[batch=5, seq=3]");
  EXPECT_TRUE(near_values(batch.input_ids, {1, 2, 3, 1, 2, 3, 1, 0, 0, 1, 2, 0, 1, 2, 0}, 0));
  EXPECT_TRUE(near_values(batch.labels,
                          {-100, 2, 3, -100, -100, -100, 1, -100, -100, -100, 2, -100, -100, -100, -100}, 0));
  EXPECT_EQ(report.truncated, 2);
  EXPECT_EQ(report.cut_ids, 4);
  EXPECT_EQ(report.padding, 4);
  EXPECT_EQ(report.unlearned, 3);
}

// A text with labels of its own: the first learns two of its four ids, the second none.
TEST(BatchOf, LabelsOfTheTextsOwn) {
  TrainingExample some = prompt_and_response({1, 5}, {6, 7, 2}), none{{1, 8, 2}, 0, {1, -100, -100}};
  some.labels = {-100, 5, -100, 7, 4};
  BatchReport report;
  const TrainingBatch batch = batch_of({some, none}, 9, 8, true, report);
  EXPECT_TRUE(near_values(batch.input_ids, {1, 5, 6, 7, 2, 1, 8, 2, 9, 9}, 0));
  EXPECT_TRUE(near_values(batch.labels, {-100, -100, -100, 7, 4, 1, -100, -100, -100, -100}, 0));
  EXPECT_EQ(report.unlearned, 1);
  const TrainingBatch beginnings = batch_of({some, none}, 9, 3, false, report);
  EXPECT_TRUE(near_values(beginnings.labels, {-100, 5, -100, 1, -100, -100}, 0));
}

TEST(BatchOf, Errors) {
  BatchReport report;
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        batch_of({{{1, 2, 3}, 0, {1, 2}}}, 0, 8, true, report);
      },
      "batch_of: text 0 has 2 labels, expected none or one per id, 3"));
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        batch_of({{{1, 2}, 0}}, 0, 1, true, report);
      },
      "batch_of: max_length is 1, expected 2 or more"));
  EXPECT_TRUE(throws<UsageError>([&] { batch_of({}, 0, 8, true, report); }, "batch_of: no text"));
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        batch_of({{{1, 2}, 0}, {{}, 0}}, 0, 8, true, report);
      },
      "batch_of: text 1 has no token"));
  EXPECT_TRUE(throws<UsageError>(
      [&] {
        batch_of({{{1, 2, 3}, 0}, {{1, 2}, 0}}, -1, 8, true, report);
      },
      "batch_of: text 1 is shorter than the longest, 3 ids, but pad_token_id is -1: expected an id to fill "
      "it up "
      "with"));
  EXPECT_EQ(batch_of({{{1, 2}, 0}, {{3, 4}, 0}}, -1, 8, true, report).input_ids(1, 1), 4);  // none is needed
}

TEST(ShuffledOrder, IsAPermutationAndTheSeeds) {
  for (const Index count : {0, 1, 2, 7, 100}) {
    std::vector<Index> order = shuffled_order(count, 5);
    EXPECT_EQ(order, shuffled_order(count, 5));
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order.size(), std::size_t(count));
    for (Index i = 0; i < count; ++i) EXPECT_EQ(order[std::size_t(i)], i);
  }
  EXPECT_NE(shuffled_order(100, 5), shuffled_order(100, 6));
  // The order is the same on every machine.
  EXPECT_EQ(shuffled_order(6, 1), (std::vector<Index>{2, 0, 1, 4, 5, 3}));
  EXPECT_TRUE(throws<UsageError>([] { shuffled_order(-1, 0); }, "shuffled_order: count is -1"));
}

// Each of three at each place a third of the time: 3000 seeds, where 1000 +- 26 is one deviation.
TEST(ShuffledOrder, EveryPlaceIsAsLikely) {
  int found[3][3] = {};
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::vector<Index> order = shuffled_order(3, seed);
    for (std::size_t place = 0; place < 3; ++place) found[place][order[place]] += 1;
  }
  for (const auto& places : found) {
    for (const int count : places) EXPECT_NEAR(count, 1000, 130);
  }
}

}  // namespace training_batch_test
}  // namespace glassbox
