// What the programs learn from. Faults that must turn this red:
//   a label on a word that its reader could not know, or none on one that he could
//   a share of right answers that counts at the wrong position, or counts what has no label
#include "support/training_texts.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "glassbox/training/training_batch.hpp"
#include "support/fable_words.hpp"
#include "support/open_model.hpp"

namespace glassbox {
namespace training_texts_test {

using examples::Learned;

std::unique_ptr<Tokenizer> fables_tokenizer() {
  const examples::ModelArguments model;  // the embedded one
  return examples::open_tokenizer(model, examples::open_config(model).config);
}

// For a message: the labels as text, a dot where there is none.
std::string labelled_text(const Tokenizer& tokenizer, const TrainingExample& example) {
  std::string text;
  for (const TokenId label : example.labels)
    text += label == ignore_index ? "." : tokenizer.piece_bytes(label);
  return text;
}

TEST(FableExamples, LabelsOnRecalledWordsOnly) {
  const std::unique_ptr<Tokenizer> tokenizer = fables_tokenizer();
  const auto all = examples::fable_examples(*tokenizer, 20, 3, fables::Split::train);
  const auto recalled =
      examples::fable_examples(*tokenizer, 20, 3, fables::Split::train, Learned::recalled_words);
  RandomGenerator seeds(3);
  for (std::size_t i = 0; i < 20; ++i) {
    const fables::Language language = i % 2 == 0 ? fables::Language::english : fables::Language::chinese;
    const fables::Story story = fables::make_story(language, seeds.next_bits(), fables::Split::train);
    EXPECT_EQ(recalled[i].ids, all[i].ids);
    EXPECT_TRUE(all[i].labels.empty());
    ASSERT_EQ(recalled[i].labels.size(), recalled[i].ids.size());
    std::string expected, found;
    for (const fables::Word& word : story.words) {
      if (word.forced) expected += word.text;
    }
    for (std::size_t s = 0; s < recalled[i].labels.size(); ++s) {
      if (recalled[i].labels[s] == ignore_index) continue;
      EXPECT_EQ(recalled[i].labels[s], recalled[i].ids[s]);
      found += tokenizer->piece_bytes(recalled[i].labels[s]);
    }
    EXPECT_EQ(found, expected) << labelled_text(*tokenizer, recalled[i]);  // every one is a single piece
    EXPECT_GT(expected.size(), 20u);
  }
}

TEST(PercentRight, CountsLabelsOnly) {
  const examples::ModelArguments model;
  const Checkpoint<float> checkpoint = examples::open_model<float>(model);
  const std::unique_ptr<Tokenizer> tokenizer = fables_tokenizer();
  const auto recalled =
      examples::fable_examples(*tokenizer, 4, 2, fables::Split::held_out, Learned::recalled_words);
  // What the embedded model says after each token of the first story, as labels.
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", static_cast<Index>(recalled[0].ids.size())}});
  for (Index s = 0; s < input_ids.dim(1); ++s) input_ids(0, s) = recalled[0].ids[static_cast<std::size_t>(s)];
  const Tensor<float> logits = checkpoint.causal_lm.forward(input_ids);
  TrainingExample answered = recalled[0];
  answered.labels.assign(answered.ids.size(), ignore_index);
  for (const Index s : {Index(3), Index(10), Index(20), Index(30)}) {
    Index likeliest = 0;
    logits.row(s - 1).maxCoeff(&likeliest);
    answered.labels[static_cast<std::size_t>(s)] = static_cast<TokenId>(likeliest);
  }
  EXPECT_EQ(examples::percent_right(checkpoint.causal_lm, {answered}, 256), 100);
  answered.labels[10] = 0;  // <unk>, which no text has
  EXPECT_EQ(examples::percent_right(checkpoint.causal_lm, {answered}, 256), 75);
  EXPECT_EQ(examples::percent_right(checkpoint.causal_lm, {answered}, 21),
            100.0 * 2 / 3);  // the last is cut off
  answered.labels.assign(answered.ids.size(), ignore_index);
  EXPECT_EQ(examples::percent_right(checkpoint.causal_lm, {answered}, 256), 0);
}

}  // namespace training_texts_test
}  // namespace glassbox
