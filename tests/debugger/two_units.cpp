// Two units that include the same headers: flow.cpp's main, and a pass of the model here.
#include "glassbox/generate.hpp"

#include "support/random_model.hpp"

float first_logit_of_other_unit() {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), 1);
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", 1}});
  input_ids(0, 0) = 1;
  return causal_lm.forward(input_ids)(0, 0, 0);
}
