// You are here: text -> ids -> vectors -> norm -> attention -> [feed-forward] -> ... -> logits -> next token
//
// After the attention every token thinks by itself. In a wider space each of many detectors says how far it
// opens (gate) and what it would let through (up); the product is written back to the width of the stream.
//
// Breakpoints worth setting:
//   break glassbox::silu<float>                         `print x`: gate_proj; `finish`: activated
//   break glassbox::multiply_elementwise<float>         the gate and what it lets through
#include <algorithm>
#include <cmath>
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The detectors that a token opens most, with the numbers on their way.
void print_detectors(const Tensor<float>& gate, const Tensor<float>& up, const Tensor<float>& activated,
                     const Tensor<float>& gated, Index position) {
  std::vector<Index> detectors;
  for (Index i = 0; i < gated.dim(2); ++i) detectors.push_back(i);
  std::sort(detectors.begin(), detectors.end(), [&gated, position](Index a, Index b) {
    return std::fabs(gated(0, position, a)) > std::fabs(gated(0, position, b));
  });
  std::vector<std::vector<std::string>> rows{{"detector", "gate_proj", "activated", "up_proj", "gated"}};
  for (std::size_t i = 0; i < 5 && i < detectors.size(); ++i) {
    rows.push_back({std::to_string(detectors[i])});
    for (const Tensor<float>* tensor : {&gate, &activated, &up, &gated}) {
      const double number = static_cast<double>((*tensor)(0, position, detectors[i]));
      rows.back().push_back(examples::number_text(number, 3));
    }
  }
  std::cout << examples::table_text(rows);
}

void show(const examples::Lesson& lesson) {
  const DecoderLayer<float>& layer = lesson.causal_lm.model.layers[0];
  const examples::PrintOptions options = examples::with_tokens(lesson.pieces);
  const Tensor<float> attn_residual = examples::first_attn_residual(lesson);
  const Tensor<float> normed = layer.post_attention_layernorm.forward(attn_residual);
  const Tensor<float> gate_proj = layer.mlp.gate_proj.forward(normed);  // [batch, seq, intermediate]
  const Tensor<float> up_proj = layer.mlp.up_proj.forward(normed);
  const Tensor<float> activated = silu(gate_proj);
  const Tensor<float> gated = multiply_elementwise(activated, up_proj);
  const Tensor<float> down_proj = layer.mlp.down_proj.forward(gated);  // [batch, seq, hidden]
  examples::print_tensor("gate_proj", gate_proj, options);
  examples::print_tensor("activated", activated, options);
  examples::print_tensor("gated", gated, options);
  examples::print_tensor("down_proj", down_proj, options);
  examples::say("The detectors that " + examples::in_quotes(lesson.pieces.back()) + " opens most:");
  print_detectors(gate_proj, up_proj, activated, gated, gated.dim(1) - 1);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_lesson(argc, argv, "The feed-forward (SwiGLU).", show);
}
