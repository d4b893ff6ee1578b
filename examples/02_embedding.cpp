// You are here: text -> ids -> [vectors] -> layers -> logits -> next token
//
// Each id picks its row of a table. From here on a token is a vector of hidden numbers; tokens that are used
// alike have vectors that point the same way, and nobody but the training has put them there.
//
// Breakpoints worth setting:
//   break glassbox::Embedding<float>::forward
//   break glassbox::WeightMatrix::read_row<float>       (when stopped there) one row, widened
#include <algorithm>
#include <cmath>
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The cosine of the angle between two rows: 1 the same direction, 0 nothing in common.
double cosine(const Tensor<float>& table, Index a, Index b) {
  const double dot = static_cast<double>(table.row(a).dot(table.row(b)));
  return dot / static_cast<double>(table.row(a).norm() * table.row(b).norm());
}

void print_neighbours(const examples::Lesson& lesson, const Tensor<float>& table, TokenId id) {
  std::vector<TokenId> others;
  for (TokenId other = 0; other < table.rows(); ++other) {
    const bool text = lesson.tokenizer->piece_kind(other) == PieceKind::normal;
    if (text && other != id) others.push_back(other);
  }
  std::sort(others.begin(), others.end(),
            [&table, id](TokenId a, TokenId b) { return cosine(table, id, a) > cosine(table, id, b); });
  std::cout << "  " << examples::pad_right(examples::label_text(lesson.tokenizer->piece(id)), 8);
  for (std::size_t i = 0; i < 5 && i < others.size(); ++i) {
    std::cout << "  " << examples::label_text(lesson.tokenizer->piece(others[i])) << " "
              << examples::number_text(cosine(table, id, others[i]), 2);
  }
  std::cout << "\n";
}

void show(const examples::Lesson& lesson) {
  const Embedding<float>& embed_tokens = lesson.causal_lm.model.embed_tokens;
  const Tensor<float> inputs_embeds = embed_tokens.forward(lesson.input_ids);  // [batch, seq, hidden]
  examples::say("model.embed_tokens.weight " + shape_string(embed_tokens.weight) + ", a row for each id.");
  examples::print_tensor("input_ids", lesson.input_ids, examples::with_tokens(lesson.pieces));
  examples::print_tensor("inputs_embeds", inputs_embeds, examples::with_tokens(lesson.pieces));

  examples::say("The pieces whose vectors point most nearly the same way (cosine):");
  Tensor<TokenId> all_ids({{"batch", 1}, {"seq", embed_tokens.weight.out.size}});
  for (Index id = 0; id < all_ids.dim(1); ++id) all_ids(0, id) = id;
  const Tensor<float> table = embed_tokens.forward(all_ids);
  for (const char* word : {"he", "red", "cat", "found"}) {
    print_neighbours(lesson, table, lesson.tokenizer->encode(word).back());
  }
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Ids to vectors.", show); }
