// You are here: text -> ids -> [mask] -> attention -> ... -> next token
//
// Who may look at whom, in four forms: 0/1 for token or padding, the same ready to be shared, with "never
// ahead" added, and as 0 or -infinity to be added to the scores.
//
// Breakpoints worth setting:
//   break glassbox::position_ids_from_mask
//   break glassbox::make_causal_mask                    `next` to `print past`: the length of the cache
//   break glassbox::make_additive_mask<float>
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The last three forms, of one text of the batch.
void print_forms(const Tensor<std::int64_t>& attention_mask, Index seq, Index batch,
                 examples::PrintOptions options) {
  options.batch = batch;
  options.fed = seq;
  const Tensor<bool> expanded_mask = expand_mask(attention_mask);              // [batch, 1, 1, key]
  const Tensor<bool> causal_mask = make_causal_mask(expanded_mask, seq);       // [batch, 1, query, key]
  const Tensor<float> additive_mask = make_additive_mask<float>(causal_mask);  // [batch, 1, query, key]
  examples::print_tensor("expanded_mask", expanded_mask, options);
  examples::print_tensor("causal_mask", causal_mask, options);
  examples::print_tensor("additive_mask", additive_mask, options);
}

void show(const examples::Lesson& lesson) {
  const Index seq = static_cast<Index>(lesson.ids.size());
  const examples::PrintOptions first = examples::with_tokens(lesson.pieces);
  examples::PrintOptions second = examples::with_tokens({"(pad)", "(pad)"});
  second.tokens.insert(second.tokens.end(), lesson.pieces.begin(), lesson.pieces.end() - 2);

  examples::say("Two texts in a batch, the second one shorter by two tokens and padded at its left:");
  Tensor<std::int64_t> attention_mask({{"batch", 2}, {"seq", seq}});
  attention_mask.row(0).setOnes();
  attention_mask.row(1).tail(seq - 2).setOnes();
  examples::print_tensor("attention_mask", attention_mask, {});
  examples::print_tensor("position_ids", position_ids_from_mask(attention_mask, seq), {});

  examples::say("The first text: a triangle. Every token sees itself and those before it.");
  print_forms(attention_mask, seq, 0, first);
  examples::say(
      "The second: nobody sees the padding, the padding sees nothing. Softmax makes zeros of its rows.");
  print_forms(attention_mask, seq, 1, second);

  examples::say(
      "The first text in two portions: its last two tokens are fed, the others are in the cache. These "
      "are the last two rows of the triangle, and the positions go on:");
  examples::print_tensor("position_ids", position_ids_from_mask(examples::ones_mask(seq), 2), first);
  print_forms(examples::ones_mask(seq), 2, 0, first);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "The attention mask.", show); }
