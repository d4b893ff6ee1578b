// What is not glassbox's, and what another thread does: a header that is called as one of glassbox's, a
// function called stage, a model that runs in a thread while that of the first thread waits inside its
// scores.
#include <thread>

#include "glassbox/generate.hpp"
#include "others/attention.hpp"
#include "support/random_model.hpp"

namespace {

void run_model(unsigned seed, const char* piece) {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), seed);
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", 2}});
  input_ids(0, 0) = 1;
  input_ids(0, 1) = 7;
  glassbox::stage_state().pieces = {piece, piece};
  causal_lm.forward(input_ids);
}

void two_texts() {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), 3);
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 2}, {"seq", 2}});
  input_ids(0, 1) = 5;
  input_ids(1, 0) = 6;
  causal_lm.forward(input_ids);
}

}  // namespace

int main() {
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += others::attention(i);
  {
    const glassbox::ScopedStageHook hook([](glassbox::StageRecord& record) {
      if (std::string(record.name) != "scores" || record.layer != 1) return;
      std::thread other(run_model, 2, "theirs");
      other.join();
    });
    run_model(1, "ours");
  }
  sum += 1;  // STOP between
  two_texts();
  return sum == 0 ? 1 : 0;
}
