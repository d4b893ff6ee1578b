// You are here: text -> ids -> vectors -> layers -> logits -> [next token] -> and again
//
// Logits say what is likely; choosing is another matter. Filters forbid or favour tokens, a coin decides.
// Then the token is fed, and so on until the model ends the text.
//
// Breakpoints worth setting:
//   break glassbox::sample_next_token<float>            every filter, one a line
//   break glassbox::draw_token<float>                   `print coin`
//   break glassbox::stage if $_streq(name, "next_token")
#include <algorithm>
#include <iostream>

#include "glassbox/generate.hpp"
#include "support/lesson.hpp"

namespace {

using glassbox::Tensor;
using glassbox::TokenId;

// The five likeliest tokens after a filter; "-" for those that it has forbidden.
void print_filter(const std::string& name, const Tensor<float>& logits, const std::vector<TokenId>& shown) {
  const Tensor<float> probabilities = softmax(logits);
  std::cout << "  " << examples::pad_right(name, 26);
  for (const TokenId id : shown) {
    const bool forbidden = probabilities(id) == 0;
    const std::string number = examples::number_text(static_cast<double>(probabilities(id)), 3);
    std::cout << examples::pad_left(forbidden ? "-" : number, 10);
  }
  std::cout << "\n";
}

void show(const examples::Lesson& lesson) {
  glassbox::GenerationConfig config;  // greedy
  config.eos_token_id = lesson.eos_token_id;
  glassbox::Generator generator(lesson.causal_lm, config, lesson.tokenizer.get());
  generator.prefill(lesson.ids);
  while (softmax(generator.next_token_logits()).row(0).maxCoeff() > 0.5f && generator.next()) {
  }
  const Tensor<float> logits = generator.next_token_logits();  // [vocab]
  const std::vector<TokenId> history = generator.history();
  examples::say("Greedy until the model is in doubt: \"" + lesson.tokenizer->decode(history) + "\"");
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < logits.cols(); ++id) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&logits](TokenId a, TokenId b) { return logits(a) > logits(b); });
  ids.resize(6);
  std::cout << "  " << examples::pad_right("probabilities", 26);
  for (const TokenId id : ids)
    std::cout << examples::pad_left(examples::label_text(lesson.tokenizer->piece(id)), 10);
  std::cout << "\n";
  print_filter("as the model has them", logits, ids);
  print_filter("temperature 0.5", apply_temperature(logits, 0.5), ids);
  print_filter("temperature 2", apply_temperature(logits, 2.0), ids);
  print_filter("temperature 0 (greedy)", apply_temperature(logits, 0.0), ids);
  print_filter("top_k 3", keep_top_k(logits, 3), ids);
  print_filter("top_p 0.6", keep_top_p(logits, 0.6), ids);
  print_filter("min_p 0.3", keep_min_p(logits, 0.3), ids);

  config.sampling.temperature = 0.8;
  for (const std::uint64_t seed : {1, 2}) {
    config.seed = seed;
    const auto result = generate(lesson.causal_lm, lesson.ids, config, lesson.tokenizer.get());
    std::cout << "\nseed " << seed << ", temperature 0.8, ended by " << stop_reason_name(result.stop_reason)
              << ":\n";
    std::cout << examples::wrapped(result.prompt_text + result.text, "  ");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_lesson(argc, argv, "Choosing, again and again.", show);
}
