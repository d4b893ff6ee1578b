// You are here: text -> batch -> layers -> logits -> loss -> gradients -> [step] -> and again
//
// Every parameter takes a small step against its gradient, and the loss of the same text is smaller. Again
// and again, and the model knows it by heart: which shows that learning works, and what overfitting is.
//
// Breakpoints worth setting:
//   break glassbox::AdamW<float>::step                  `print step_size`; one parameter after the other
//   break glassbox::clip_gradients<float>               `finish` for the gradient's length
#include <iostream>

#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// The token that the model finds likeliest after the text.
std::string next_piece(const examples::Lesson& lesson, const CausalLM<float>& causal_lm) {
  const Tensor<float> logits = causal_lm.forward(lesson.input_ids);
  return lesson.tokenizer->piece(examples::largest(logits.row(logits.rows() - 1), 1)[0]);
}

void show(const examples::Lesson& lesson) {
  CausalLM<float> causal_lm = make_trainable(lesson.causal_lm);
  std::vector<TokenId> ids = lesson.ids;  // the text, and what it never heard: the text again
  ids.insert(ids.end(), lesson.ids.begin() + 1, lesson.ids.end());
  const Index longest = lesson.causal_lm.config.max_position_embeddings;
  BatchReport report;
  const TrainingBatch batch = batch_of({{ids, 0}}, 0, longest, false, report);

  std::vector<Parameter<float>> parameters = parameters_of(causal_lm);
  AdamWConfig config;
  config.learning_rate = 3e-4;
  AdamW<float> optimizer(config, parameters, parameter_rules(parameters));
  GradientWorkers<float> workers(causal_lm, 1);
  std::vector<std::vector<std::string>> rows{{"step", "loss", "gradient", "after the text"}};
  for (Index step = 1; step <= 40; ++step) {
    const std::string piece = next_piece(lesson, causal_lm);
    const StepResult result = training_step(causal_lm, {batch}, workers, optimizer, 1.0);
    if (step > 5 && step % 5 != 0) continue;
    rows.push_back({std::to_string(step), examples::number_text(result.loss, 3),
                    examples::number_text(result.gradient_norm, 3), examples::label_text(piece)});
  }
  examples::say("Learning \"" + lesson.tokenizer->decode(ids) +
                "\" by heart. Each line: the loss before the step, the "
                "length of the gradient (shortened to 1 where it is longer), and the likeliest next token:");
  std::cout << examples::table_text(rows);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Training steps.", show); }
