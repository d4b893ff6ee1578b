// You are here: text -> ids -> vectors -> [all layers] -> logits -> next token
//
// A layer does not replace the vectors, it adds to them: attention and feed-forward each write into the
// residual stream, which runs through all layers. What a token has become at the end is their sum.
//
// Breakpoints worth setting:
//   break glassbox::DecoderLayer<float>::forward        `print layer`
//   break glassbox::stage if $_streq(name, "layer_output")
#include <cmath>
#include <iostream>

#include "glassbox/stage.hpp"
#include "support/lesson.hpp"

using namespace glassbox;

namespace {

using Row = std::vector<std::string>;

// Root mean square of the newest token's vector.
std::string size_text(const Tensor<float>& stream) {
  const double squares = static_cast<double>(stream.row(stream.rows() - 1).squaredNorm());
  return examples::number_text(std::sqrt(squares / static_cast<double>(stream.cols())), 3);
}

// 1: the newest token's vector points as in the beginning; 0: at right angles to that.
std::string cosine_text(const Tensor<float>& stream, const Tensor<float>& beginning) {
  const Index newest = stream.rows() - 1;
  const double dot = static_cast<double>(stream.row(newest).dot(beginning.row(newest)));
  const float norms = stream.row(newest).norm() * beginning.row(newest).norm();
  return examples::number_text(dot / static_cast<double>(norms), 3);
}

void show(const examples::Lesson& lesson) {
  std::vector<Row> rows{{"layer", "residual", "+ attn_output", "+ down_proj", "layer_output", "cosine"}};
  Tensor<float> inputs_embeds;
  const auto note = [&rows, &inputs_embeds](StageRecord& record) {
    const std::string name = record.name;
    if (name == "inputs_embeds") inputs_embeds = *record.f32;
    if (name == "residual") rows.push_back({std::to_string(record.layer)});
    const bool added = name == "attn_output" || name == "down_proj";
    if (added || name == "residual" || name == "layer_output") rows.back().push_back(size_text(*record.f32));
    if (name == "layer_output") rows.back().push_back(cosine_text(*record.f32, inputs_embeds));
  };
  examples::say(
      "A hook at glassbox::stage() notes the size (root mean square) of what each layer finds in the newest "
      "token's stream and of what it adds, and how far the stream still points as inputs_embeds did:");
  const ScopedStageHook hook(note);
  KVCache<float> cache(lesson.causal_lm.config.num_hidden_layers);
  const Tensor<std::int64_t> attention_mask = examples::ones_mask(lesson.input_ids.dim(1));
  const Tensor<float> norm = lesson.causal_lm.model.forward(lesson.input_ids, attention_mask, cache);
  std::cout << examples::table_text(rows) << "\n";
  examples::say("After the last layer comes one more norm, and the shape that went in comes out:");
  examples::print_tensor("norm", norm, examples::with_tokens(lesson.pieces));
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "All decoder layers.", show); }
