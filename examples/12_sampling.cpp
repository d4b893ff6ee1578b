// You are here: text -> ids -> vectors -> layers -> logits -> [next token] -> and again
//
// Logits say what is likely; choosing is another matter. Filters forbid or favour tokens, a coin decides.
// Then the token is fed, and so on until the model ends the text.
//
// Breakpoints worth setting:
//   break glassbox::sample_next_token<float>            every filter, one a line
//   break glassbox::draw_token<float>                   `print coin`
//   break glassbox::stage if $_streq(name, "next_token")
#include <iostream>

#include "glassbox/generate.hpp"
#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// "-" for a token that a filter has forbidden.
std::string probability_text(float probability) {
  return probability > 0 ? examples::number_text(static_cast<double>(probability), 3) : "-";
}

void show(const examples::Lesson& lesson) {
  GenerationConfig config;  // greedy
  config.eos_token_id = lesson.eos_token_id;
  Generator generator(lesson.causal_lm, config, lesson.tokenizer.get());
  generator.prefill(lesson.ids);
  std::vector<TokenId> history;
  do history = generator.history();
  while (generator.next() && softmax(generator.next_token_logits()).row(0).maxCoeff() > 0.5f);
  const Tensor<float>& logits = generator.next_token_logits();  // [vocab]
  examples::say("Greedy until the model is in doubt: \"" + lesson.tokenizer->decode(history) + "\"");
  const Tensor<float> filtered[] = {logits,
                                    apply_temperature(logits, 0.5),
                                    apply_temperature(logits, 2),
                                    apply_temperature(logits, 0),
                                    keep_top_k(logits, 3),
                                    keep_top_p(logits, 0.6),
                                    keep_min_p(logits, 0.3)};
  std::vector<std::vector<std::string>> rows{
      {"next", "as it is", "temp. 0.5", "temp. 2", "temp. 0", "top_k 3", "top_p 0.6", "min_p 0.3"}};
  for (const TokenId id : examples::largest(logits.row(0), 6)) {
    rows.push_back({examples::label_text(lesson.tokenizer->piece(id))});
    for (const Tensor<float>& x : filtered) rows.back().push_back(probability_text(softmax(x)(id)));
  }
  std::cout << examples::table_text(rows) << "\n";

  config.sampling.temperature = 0.8;
  for (config.seed = 1; config.seed <= 2; ++config.seed) {
    const GenerationResult result = generate(lesson.causal_lm, lesson.ids, config, lesson.tokenizer.get());
    std::cout << "Temperature 0.8, seed " << config.seed << ", ended by "
              << stop_reason_name(result.stop_reason) << ":\n"
              << examples::wrapped(result.prompt_text + result.text, "  ") << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Choosing a token.", show); }
