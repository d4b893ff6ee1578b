// You are here: text -> batch -> layers -> logits -> [loss] -> gradients -> step
//
// The text is its own answer: at each position the model has said how likely every token is, and the next
// one is there to be looked up. How surprised it was by that one is its loss.
//
// Breakpoints worth setting:
//   break glassbox::shift_labels                        `print labels`; `finish` for the shifted ones
//   break glassbox::cross_entropy<float>                step through: which positions count
#include <iostream>

#include "glassbox/training/cross_entropy.hpp"
#include "glassbox/training/training_batch.hpp"
#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// A label as it is printed: its piece, or "-" where none counts.
std::string label_of(const examples::Lesson& lesson, TokenId label) {
  return label == ignore_index ? "-" : examples::label_text(lesson.tokenizer->piece(label));
}

void show(const examples::Lesson& lesson) {
  BatchReport report;
  const TrainingBatch batch =
      batch_of({{lesson.ids, 0}}, 0, lesson.input_ids.dim(1), false, report);  // one text, no prompt
  const Tensor<float> logits = lesson.causal_lm.forward(batch.input_ids);      // [batch, seq, vocab]
  const Tensor<TokenId> shifted_labels = shift_labels(batch.labels);           // [batch, seq]
  const CrossEntropy<float> result = cross_entropy(logits, shifted_labels);
  const Tensor<float> probabilities = softmax(logits);

  examples::say(
      "Position by position: what was read last, what was to come (the label), and how likely the "
      "model thought that. The loss is -log of it: 0 for a token foreseen with certainty.");
  std::vector<std::vector<std::string>> rows{{"input", "label", "shifted", "probability", "loss"}};
  for (Index s = 0; s < logits.dim(1); ++s) {
    const TokenId label = shifted_labels(0, s);
    const double probability = label == ignore_index ? 0 : static_cast<double>(probabilities(0, s, label));
    const double loss = static_cast<double>(result.token_losses(0, s));
    const bool counts = label != ignore_index;
    rows.push_back({examples::label_text(lesson.pieces[static_cast<std::size_t>(s)]),
                    label_of(lesson, batch.labels(0, s)), label_of(lesson, label),
                    counts ? examples::number_text(probability, 4) : "-",
                    counts ? examples::number_text(loss, 4) : "-"});
  }
  std::cout << examples::table_text(rows) << "\n";
  examples::say(
      "The last position has read everything and nothing comes after it: it does not count. The loss of "
      "the text is the mean over the " +
      std::to_string(result.counted) + " that do: " + examples::number_text(result.loss, 4) +
      ", a perplexity of " + examples::number_text(std::exp(result.loss), 4) +
      ". Knowing nothing would be log " + std::to_string(logits.dim(2)) + " = " +
      examples::number_text(std::log(static_cast<double>(logits.dim(2))), 4) + ".");
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "The loss.", show); }
