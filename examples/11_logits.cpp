// You are here: text -> ids -> vectors -> layers -> [logits] -> next token
//
// The last vector of each token is compared with a vector for every token of the vocabulary: the logits.
// Every position predicts what follows it, all in one pass; while generating, only the last one is of use.
//
// Breakpoints worth setting:
//   break glassbox::CausalLM<float>::forward
//   break glassbox::LMHead<float>::forward              `print weight.empty()`: tied to the embedding?
#include <algorithm>
#include <iostream>

#include "support/lesson.hpp"

namespace {

using glassbox::Index;
using glassbox::Tensor;
using glassbox::TokenId;

// "the piece and its probability", for the likeliest ones after a position.
std::vector<std::string> likeliest(const examples::Lesson& lesson, const Tensor<float>& probabilities,
                                   Index position) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < probabilities.dim(2); ++id) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&probabilities, position](TokenId a, TokenId b) {
    return probabilities(0, position, a) > probabilities(0, position, b);
  });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 4; ++i) {
    const double probability = static_cast<double>(probabilities(0, position, ids[i]));
    texts.push_back(examples::label_text(lesson.tokenizer->piece(ids[i])) + " " +
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
