// You are here: text -> batch -> layers -> logits -> loss -> [gradients] -> step
//
// The way back: how the loss would change with each number on the way, from the logits to the embedding. The
// same stages in the opposite order, each gradient of the shape of what it belongs to.
//
// Breakpoints worth setting:
//   break glassbox::attention_backward<float>           each forward line stands above its backward line
//   break glassbox::stage if $_streq(name, "d_scores")
#include <cstdio>
#include <iostream>

#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The square root of the sum of squares, in two digits.
std::string length_of(const float* values, Index size) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", std::sqrt(loops::sum_of_squares(values, size)));
  return text;
}

void show(const examples::Lesson& lesson) {
  const CausalLM<float> causal_lm = make_trainable(lesson.causal_lm);
  CausalLM<float> gradients = zero_gradients(causal_lm);
  BatchReport report;
  const TrainingBatch batch = batch_of({{lesson.ids, 0}}, 0, lesson.input_ids.dim(1), false, report);

  std::vector<std::vector<std::string>> rows{{"stage", "layer", "shape", "length"}};
  ScopedStageHook hook([&rows](StageRecord& record) {
    const bool shown = record.layer <= 0 && std::string(record.name).starts_with("d_");
    if (!shown || record.f32 == nullptr) return;
    rows.push_back({record.name, record.layer < 0 ? "-" : "0", shape_string(*record.f32),
                    length_of(record.f32->data(), record.f32->size())});
  });
  const CrossEntropy<float> result = loss_and_gradients(causal_lm, batch, gradients);
  examples::say("The loss is " + examples::number_text(result.loss, 4) +
                ". Its gradients, in the order they are "
                "computed; of the layers only layer 0, which comes last:");
  std::cout << examples::table_text(rows) << "\n";

  std::vector<std::vector<std::string>> weights{{"parameter", "shape", "gradient"}};
  for (const Parameter<float>& parameter : parameters_of(gradients)) {
    const bool outside = parameter.name.find(".layers.") == std::string::npos;
    if (!outside && !parameter.name.starts_with("model.layers.0.")) continue;
    weights.push_back({parameter.name, shape_string(parameter.axes.data(), int(parameter.axes.size())),
                       length_of(parameter.values, parameter.size)});
  }
  examples::say(
      "What they are for: the gradient of every parameter, here those outside the layers and of layer 0.");
  std::cout << examples::table_text(weights);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "The backward pass.", show); }
