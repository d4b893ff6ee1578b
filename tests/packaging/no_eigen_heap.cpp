// The book never allocates through Eigen: its objects' memory is made and freed differently by units that are
// compiled with different -march, and an allocation inside a loop is slow. Eigen itself tells: with
// EIGEN_RUNTIME_NO_MALLOC every allocation of Eigen while it is forbidden is a failed assertion, thrown here.
//
// Faults that must turn it red: `Matrix<Scalar> scores = query * key.transpose();` in attention.hpp, an
// `.eval()` in rms_norm.hpp or softmax.hpp, a RowVector in sampling_filters.hpp.
#define EIGEN_RUNTIME_NO_MALLOC
#include <stdexcept>
[[noreturn]] inline void eigen_assertion_failed(const char* condition) { throw std::logic_error(condition); }
#define eigen_assert(condition) ((condition) ? static_cast<void>(0) : eigen_assertion_failed(#condition))

#include <gtest/gtest.h>

#include "glassbox/causal_lm.hpp"
#include "glassbox/sampler.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace {

// Forbids Eigen's allocations as long as it lives.
struct NoEigenHeap {
  NoEigenHeap() { Eigen::internal::set_is_malloc_allowed(false); }
  ~NoEigenHeap() { Eigen::internal::set_is_malloc_allowed(true); }
};

TEST(NoEigenHeap, EigenTellsOfItsAllocations) {
  const NoEigenHeap forbidden;
  EXPECT_THROW(RowVector<float>(100), std::logic_error);
}

template <typename Scalar>
class NoEigenHeapOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(NoEigenHeapOf, Scalars);

TYPED_TEST(NoEigenHeapOf, PrefillAndDecodeAllocateNothingThroughEigen) {
  const CausalLM<TypeParam> causal_lm =
      test_support::random_model<TypeParam>(test_support::small_config(), 3);
  Tensor<TokenId> prompt({{"batch", 2}, {"seq", 7}});
  Tensor<TokenId> next({{"batch", 2}, {"seq", 1}});
  Tensor<std::int64_t> prompt_mask = Tensor<std::int64_t>::like(prompt);
  Tensor<std::int64_t> next_mask({{"batch", 2}, {"seq", 8}});
  for (Index batch = 0; batch < 2; ++batch) {
    prompt_mask.row(batch).setOnes();
    next_mask.row(batch).setOnes();
  }
  prompt_mask(1, 0) = 0;  // padding on the left
  next_mask(1, 0) = 0;
  const NoEigenHeap forbidden;
  KVCache<TypeParam> cache(causal_lm.config.num_hidden_layers);
  EXPECT_NO_THROW(causal_lm.forward(prompt, prompt_mask, cache));
  EXPECT_NO_THROW(causal_lm.forward(next, next_mask, cache));
  EXPECT_EQ(cache.length(), 8);
}

}  // namespace
}  // namespace glassbox
