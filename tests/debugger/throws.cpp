// Exceptions that are none of ours, then one of ours, for exceptions.session.
#include <cstdio>
#include <stdexcept>

#include "glassbox/matmul.hpp"

int main() {
  for (int i = 0; i < 3; ++i) {
    try {
      throw std::runtime_error("none of ours");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
  const glassbox::Tensor<float> hidden_states({{"seq", 2}, {"hidden", 3}});
  glassbox::WeightMatrix weight =
      glassbox::WeightMatrix::from_tensor(glassbox::Tensor<float>({{"out", 4}, {"in", 5}}));
  try {
    glassbox::matmul(hidden_states, weight);
  } catch (const glassbox::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 0;
}
