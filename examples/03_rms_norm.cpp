// You are here: text -> ids -> vectors -> [norm] -> attention -> feed-forward -> ... -> logits -> next token
//
// Before anything looks at a vector, it is brought to a standard size: divided by its root mean square, then
// each feature is multiplied by a learned weight. The direction counts, the length does not.
//
// Breakpoints worth setting:
//   break glassbox::RMSNorm<float>::forward             then `next` to mean_square and inverse_rms
#include <cmath>
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

double root_mean_square(const Tensor<float>& vectors, Index position) {
  return std::sqrt(static_cast<double>(vectors.row(position).squaredNorm()) /
                   static_cast<double>(vectors.cols()));
}

void show(const examples::Lesson& lesson) {
  const DecoderModel<float>& model = lesson.causal_lm.model;
  const RMSNorm<float>& input_layernorm = model.layers[0].input_layernorm;
  const examples::PrintOptions options = examples::with_tokens(lesson.pieces);

  const Tensor<float> residual = model.embed_tokens.forward(lesson.input_ids);     // [batch, seq, hidden]
  const Tensor<float> input_layernorm_output = input_layernorm.forward(residual);  // [batch, seq, hidden]
  examples::print_tensor("residual", residual, options);
  examples::print_tensor("input_layernorm", input_layernorm_output, options);
  examples::print_tensor("model.layers[0].input_layernorm.weight", input_layernorm.weight, options);

  examples::say("With a weight of ones the same norm would leave every vector with a root mean square of 1:");
  RMSNorm<float> plain = input_layernorm;
  plain.weight.row(0).setOnes();
  const Tensor<float> plain_output = plain.forward(residual);
  std::vector<std::vector<std::string>> rows{{"token", "rms before", "weight of ones", "learned weight"}};
  for (Index position = 0; position < residual.rows(); ++position) {
    rows.push_back({lesson.pieces[static_cast<std::size_t>(position)],
                    examples::number_text(root_mean_square(residual, position), 3),
                    examples::number_text(root_mean_square(plain_output, position), 3),
                    examples::number_text(root_mean_square(input_layernorm_output, position), 3)});
  }
  std::cout << examples::table_text(rows) << "\n";

  examples::say("And a vector ten times as long comes out the same, but for eps inside the root:");
  Tensor<float> longer = residual;
  for (Index position = 0; position < longer.rows(); ++position) longer.row(position) *= 10.0f;
  examples::print_tensor("input_layernorm(10 * residual)", input_layernorm.forward(longer), options);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "RMSNorm.", show); }
