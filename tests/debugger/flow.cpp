// A small model on its way from ids to tokens, for the sessions beside this file: two layers, grouped heads,
// random weights, five tokens in and three out.
#include "glassbox/generate.hpp"
#include "support/random_model.hpp"

int main() {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), 1);
  glassbox::GenerationConfig config;
  config.max_new_tokens = 3;
  glassbox::Generator generator(causal_lm, config);
  glassbox::stage_state().pieces = {"<s>", "\xE2\x96\x81Once", "\xE2\x96\x81upon",
                                    "\xE2\x96\x81"
                                    "a",
                                    "\xE2\x96\x81time"};
  generator.prefill({1, 7, 9, 30, 12});
  while (generator.next()) {
  }
  return generator.result().ids.size() == 3 ? 0 : 1;
}
