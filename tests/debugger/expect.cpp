// A checkpoint with reference values, for expect.session: one pass over the prompt that the values belong to.
#include <cstdio>

#include "glassbox/io/checkpoint.hpp"

int main() {
  const std::string folder = std::string(GLASSBOX_SOURCE_DIR) + "/tests/reference/tiny-llama-gqa-tied";
  const glassbox::Checkpoint<double> checkpoint = glassbox::load_checkpoint<double>(folder);
  const glassbox::TokenId prompt[] = {121, 31, 45, 0, 64, 93, 91, 34, 93};
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", 9}});
  for (glassbox::Index i = 0; i < 9; ++i) input_ids(0, i) = prompt[i];
  const glassbox::Tensor<double> logits = checkpoint.causal_lm.forward(input_ids);
  std::printf("%d\n", logits.rank());
}
