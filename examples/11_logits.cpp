// You are here: text -> ids -> vectors -> layers -> [logits] -> next token
//
// The last vector of each token is compared with a vector for every token of the vocabulary: the logits.
// Every position predicts what follows it, all in one pass; while generating, only the last one is of use.
//
// Breakpoints worth setting:
//   break glassbox::CausalLM<float>::forward
//   break glassbox::LMHead<float>::forward              `print weight.empty()`: tied to the embedding?
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// "piece probability" of the likeliest tokens after a position.
std::vector<std::string> likeliest(const examples::Lesson& lesson, const Tensor<float>& probabilities,
                                   Index position) {
  std::vector<std::string> texts;
  for (const TokenId id : examples::largest(probabilities.row(position), 4)) {
    const double probability = static_cast<double>(probabilities(0, position, id));
    texts.push_back(examples::label_text(lesson.tokenizer->piece(id)) + " " +
                    examples::number_text(probability, 3));
  }
  return texts;
}

void show(const examples::Lesson& lesson) {
  const Tensor<float> logits = lesson.causal_lm.forward(lesson.input_ids);  // [batch, seq, vocab]
  const bool tied = lesson.causal_lm.lm_head.weight.empty();
  examples::print_tensor("logits", logits, examples::with_tokens(lesson.pieces));
  examples::say(
      tied ? "This model is tied: the head uses model.embed_tokens.weight, so a token is likely whose "
             "embedding points the same way as the last vector."
           : "This model has a head of its own: lm_head.weight.");

  examples::say("Softmax makes probabilities of the logits. What each position holds likely to come next:");
  const Tensor<float> probabilities = softmax(logits);
  std::vector<std::vector<std::string>> rows{{"after", "1st", "2nd", "3rd", "4th"}};
  for (Index position = 0; position < logits.dim(1); ++position) {
    rows.push_back({examples::label_text(lesson.pieces[static_cast<std::size_t>(position)])});
    for (const std::string& text : likeliest(lesson, probabilities, position)) rows.back().push_back(text);
  }
  std::cout << examples::table_text(rows);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Logits.", show); }
