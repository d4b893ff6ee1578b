// You are here: text -> ids -> vectors -> norm -> query, key, value -> rotation -> [attention] -> next token
//
// The only place where tokens meet. Every query is compared with every key (scores), the future is forbidden
// (mask), scores become shares (softmax), and with these shares each token takes a mean of the values
// (context). In every head by itself.
//
// Breakpoints worth setting:
//   break glassbox::scaled_scores<float>                likewise add_mask, softmax, weighted_values
//   break glassbox::softmax<float>                      `print x` before, `finish` for the shares
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// What the newest token looks at, in each head: a row of shares.
void print_newest(const Tensor<float>& attn_weights, const std::vector<std::string>& pieces) {
  std::vector<std::vector<std::string>> rows{{""}};
  for (const std::string& piece : pieces) rows[0].push_back(examples::label_text(piece));
  for (Index head = 0; head < attn_weights.dim(1); ++head) {
    rows.push_back({"head " + std::to_string(head)});
    for (Index key = 0; key < attn_weights.dim(3); ++key) {
      const float share = attn_weights(0, head, attn_weights.dim(2) - 1, key);
      rows.back().push_back(examples::number_text(static_cast<double>(share), 3));
    }
  }
  std::cout << examples::table_text(rows);
}

void show(const examples::Lesson& lesson) {
  const DecoderModel<float>& model = lesson.causal_lm.model;
  const Attention<float>& self_attn = model.layers[0].self_attn;
  const examples::HeadStates heads = examples::first_layer_heads(lesson);
  const Tensor<float> additive_mask = examples::first_additive_mask(lesson);
  const examples::PrintOptions options = examples::with_tokens(lesson.pieces);

  const Tensor<float> scores =
      scaled_scores(heads.query_states, heads.key_states);  // [batch, head, query, key]
  const Tensor<float> masked_scores = add_mask(scores, additive_mask);
  const Tensor<float> attn_weights = softmax(masked_scores);
  const Tensor<float> context = weighted_values(attn_weights, heads.value_states);
  const Tensor<float> attn_output = self_attn.o_proj.forward(merge_heads(context));
  examples::print_tensor("scores", scores, options);
  examples::print_tensor("masked_scores", masked_scores, options);
  examples::print_tensor("attn_weights", attn_weights, options);
  examples::print_tensor("context", context, options);
  examples::print_tensor("attn_output", attn_output, options);

  examples::say("Heads look at different things. The newest token, " +
                examples::in_quotes(lesson.pieces.back()) + ", in each of them:");
  print_newest(attn_weights, lesson.pieces);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Causal self-attention.", show); }
