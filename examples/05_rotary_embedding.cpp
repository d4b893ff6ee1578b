// You are here: text -> ids -> vectors -> query, key, value -> [rotation] -> attention -> ... -> next token
//
// Attention has no order of its own, so each query and key is turned by an angle that grows with its
// position. What two tokens then feel of each other's place is only how far they are apart.
//
// Breakpoints worth setting:
//   break glassbox::RotaryEmbedding<float>::forward     the angles of every position
//   break glassbox::apply_rotary_pos_emb<float>         half-rotated pairs (i, i + head_dim / 2)
//   break glassbox::apply_rotary_interleaved<float>     interleaved pairs (2i, 2i + 1)
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The same vector at each of five positions, so that only the rotation makes them differ.
Tensor<float> repeated(const std::vector<float>& vector) {
  Tensor<float> heads({{"batch", 1}, {"head", 1}, {"seq", 5}, {"head_dim", 4}});
  for (Index s = 0; s < 5; ++s) {
    for (Index i = 0; i < 4; ++i) heads(0, 0, s, i) = vector[static_cast<std::size_t>(i)];
  }
  return heads;
}

void show(const examples::Lesson& lesson) {
  const Tensor<std::int64_t> position_ids = examples::counted_positions(5);  // 0, 1, 2, 3, 4
  const RotaryEmbedding<float> small = RotaryEmbedding<float>::from_theta(4, 10000.0);
  const RotaryTables<float> tables = small.forward(position_ids);
  examples::say("A head of 4 numbers has 2 pairs, so 2 angles for each position (down):");
  examples::print_tensor("cos", tables.cos, {});

  const Tensor<float> x = repeated({1, 2, 3, 4});
  examples::say("x = [1, 2, 3, 4] everywhere. Half-rotated, as Hugging Face has it: pairs (0, 2) (1, 3).");
  examples::print_tensor("apply_rotary_pos_emb(x)", apply_rotary_pos_emb(x, tables.cos, tables.sin), {});
  examples::say("Interleaved, as in the paper, Meta's files and llama2.c: pairs (0, 1) (2, 3).");
  examples::print_tensor("apply_rotary_interleaved(x)", apply_rotary_interleaved(x, tables.cos, tables.sin),
                         {});

  examples::say(
      "A turned query (down) times a turned key (across): the same wherever the distance is the same.");
  const Tensor<float> query_states = apply_rotary_pos_emb(repeated({1, 0, 2, 1}), tables.cos, tables.sin);
  const Tensor<float> key_states = apply_rotary_pos_emb(x, tables.cos, tables.sin);
  Tensor<float> products({{"from", 5}, {"to", 5}});
  products.matrix() = query_states.matrix() * key_states.matrix().transpose();
  examples::print_tensor("query_states . key_states", products, {});

  examples::say(
      "The model's own angles. The first pairs turn fast and tell neighbours apart, the last slowly:");
  const Tensor<float> cos = lesson.causal_lm.model.rotary_emb.forward(position_ids).cos;
  examples::print_tensor("cos", cos, examples::with_tokens(lesson.pieces));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_lesson(argc, argv, "Rotary position embedding.", show);
}
