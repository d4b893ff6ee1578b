// A prefill and a decode step for study_build.sh to stop in.
#include <cstdio>

#include "glassbox/causal_lm.hpp"
#include "support/random_model.hpp"

int main() {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), 7);
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", 5}});
  for (glassbox::Index i = 0; i < 5; ++i) input_ids(0, i) = 3 * i;
  const glassbox::Tensor<float> logits = causal_lm.forward(input_ids);
  std::printf("%g\n", static_cast<double>(logits(0, 4, 0)));
}
