// A program of two units compiled with different -O and -march (mixed_units.sh): tensors, a model and a cache
// made in one are used, grown and destroyed in the other, and every number agrees with one pass over the
// whole text in this unit.
//
// Faults that must turn it red: a tensor's buffer from Eigen's allocator, which follows -march (buffer.hpp
// with Eigen::internal::aligned_malloc and aligned_free: the program crashes); a cache that is not grown.
#include <cmath>
#include <cstdio>

#include "mixed_units/other_unit.hpp"
#include "support/random_model.hpp"

using glassbox::Index;

namespace {

constexpr Index tokens = 9;

glassbox::Tensor<glassbox::TokenId> ids(Index first, Index count) {
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", count}});
  for (Index i = 0; i < count; ++i) input_ids(0, i) = (first + i) * 5 % 37;
  return input_ids;
}

glassbox::Tensor<std::int64_t> ones(Index count) {
  glassbox::Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", count}});
  attention_mask.row(0).setOnes();
  return attention_mask;
}

bool agrees(const char* what, const glassbox::Tensor<float>& found, const glassbox::Tensor<float>& expected,
            Index first) {
  float largest = 0;
  for (Index r = 0; r < found.rows(); ++r) {
    for (Index i = 0; i < found.cols(); ++i) {
      largest = (std::max)(largest, std::abs(found.row(r)[i] - expected.row(first + r)[i]));
    }
  }
  const bool right = largest <= 1e-5f;  // false for NaN too
  std::printf("%s %s: largest difference %g\n", right ? "right" : "WRONG", what,
              static_cast<double>(largest));
  return right;
}

}  // namespace

int main() {
  const glassbox::CausalLM<float> causal_lm =
      glassbox::test_support::random_model<float>(glassbox::test_support::small_config(), 5);
  const glassbox::Tensor<float> expected = causal_lm.forward(ids(0, tokens));  // [batch, seq, vocab]

  // The first five tokens there, two here, two there: the cache is allocated and grown on both sides.
  glassbox::KVCache<float> cache(causal_lm.config.num_hidden_layers);
  glassbox::Tensor<float> first = forward_in_other_unit(causal_lm, ids(0, 5), ones(5), cache);
  glassbox::Tensor<float> second = causal_lm.forward(ids(5, 2), ones(7), cache);
  glassbox::Tensor<float> third = forward_in_other_unit(causal_lm, ids(7, 2), ones(9), cache);
  bool right = agrees("prefill in the other unit", first, expected, 0);
  right = agrees("next tokens in this unit", second, expected, 5) && right;
  right = agrees("next tokens in the other unit", third, expected, 7) && right;

  for (int round = 0; round < 50; ++round) {  // buffers made here are grown and freed there, and back
    glassbox::Tensor<float> tensor({{"row", 3}, {"col", 5 + round}});
    tensor.row(0).setOnes();
    tensor = grown_in_other_unit(tensor);
    tensor.append_rows(tensor);
    right = tensor.dim(0) == 12 && tensor(9, 4) == 1.0f && tensor(2, 0) == 0.0f && right;
  }
  if (!right) std::printf("WRONG\n");
  return right ? 0 : 1;
}
