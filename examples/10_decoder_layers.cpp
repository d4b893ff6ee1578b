// You are here: text -> ids -> vectors -> [all layers] -> logits -> next token
//
// A layer does not replace the vectors, it adds to them: attention and feed-forward each write into the
// residual stream, which runs through all layers. What a token has become at the end is the sum of all they
// wrote.
//
// Breakpoints worth setting:
//   break glassbox::DecoderLayer<float>::forward        `print layer`
//   break glassbox::stage if $_streq(name, "layer_output")
#include <cmath>
#include <iostream>

#include "glassbox/stage.hpp"
#include "support/lesson.hpp"

namespace {

using glassbox::Index;
using glassbox::Tensor;
using Row = std::vector<std::string>;

// Root mean square of the newest token's vector.
std::string size_text(const Tensor<float>& stream) {
  const double squares = static_cast<double>(stream.row(stream.rows() - 1).squaredNorm());
  return examples::number_text(std::sqrt(squares / static_cast<double>(stream.cols())), 3);
}

// How far the newest token's vector still points as it did in the beginning: 1 the same way, 0 at right
// angles.
std::string cosine_text(const Tensor<float>& stream, const Tensor<float>& beginning) {
  const Index newest = stream.rows() - 1;
  const double dot = static_cast<double>(stream.row(newest).dot(beginning.row(newest)));
  const float norms = stream.row(newest).norm() * beginning.row(newest).norm();
  return examples::number_text(dot / static_cast<double>(norms), 3);
}

void show(const examples::Lesson& lesson) {
  std::vector<Row> rows{
      {"layer", "residual", "+ attn_output", "+ down_proj", "layer_output", "cosine to inputs_embeds"}};
  Tensor<float> inputs_embeds;
  const auto note = [&rows, &inputs_embeds](glassbox::StageRecord& record) {
    const std::string name = record.name;
    if (name == "inputs_embeds") inputs_embeds = *record.f32;
    if (name == "residual") rows.push_back({std::to_string(record.layer)});
    const bool wanted =
        name == "residual" || name == "attn_output" || name == "down_proj" || name == "layer_output";
    if (wanted) rows.back().push_back(size_text(*record.f32));
    if (name == "layer_output") rows.back().push_back(cosine_text(*record.f32, inputs_embeds));
  };
  examples::say(
      "Every value passes glassbox::stage(). A hook there notes the size (root mean square) of what each "
      "layer finds in the residual stream of the newest token and of what it adds:");
  Tensor<float> hidden_states;
  {
    const glassbox::ScopedStageHook hook(note);
    glassbox::KVCache<float> cache(lesson.causal_lm.config.num_hidden_layers);
    const Tensor<std::int64_t> attention_mask = examples::ones_mask(lesson.input_ids.dim(1));
    hidden_states = lesson.causal_lm.model.forward(lesson.input_ids, attention_mask, cache);
  }
  std::cout << examples::table_text(rows) << "\n";
  examples::say("After the last layer comes one more norm, and the same shape that went in comes out:");
  examples::print_tensor("norm", hidden_states, examples::with_tokens(lesson.pieces));
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "All decoder layers.", show); }
