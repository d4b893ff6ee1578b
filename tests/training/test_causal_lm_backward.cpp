// training/causal_lm_backward.hpp: the gradients of every parameter against the reference (another
// implementation in double), against central differences, and the training forward against the book's.
//
// Faults that must turn these tests red:
//   - labels not shifted, or shifted by two
//   - a gradient that misses one of its sources (the residual, a head of a group, the tied embedding)
//   - the transposed rotation not transposed; the scaling of the scores forgotten
#include "glassbox/training/causal_lm_backward.hpp"

#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "glassbox/io/checkpoint.hpp"
#include "glassbox/io/json.hpp"
#include "glassbox/io/safetensors.hpp"
#include "glassbox/training/adamw.hpp"
#include "support/expect_near.hpp"
#include "support/random_model.hpp"

namespace causal_lm_backward_test {

using namespace glassbox;
using namespace glassbox::test_support;

const std::filesystem::path folder =
    std::filesystem::path(GLASSBOX_SOURCE_DIR) / "tests" / "reference" / "tiny-llama-train";

Json reference_index() {
  std::ifstream file(folder / "reference" / "index.json");
  return Json::parse(file);
}

template <typename T>
Tensor<T> matrix_of(const Json& rows) {
  Tensor<T> tensor({{"batch", Index(rows.size())}, {"seq", Index(rows[0].size())}});
  for (Index b = 0; b < tensor.dim(0); ++b) {
    for (Index s = 0; s < tensor.dim(1); ++s) tensor(b, s) = rows[std::size_t(b)][std::size_t(s)];
  }
  return tensor;
}

TrainingBatch reference_batch(const Json& index) {
  TrainingBatch batch;
  batch.input_ids = matrix_of<TokenId>(index["input_ids"]);
  batch.labels = matrix_of<TokenId>(index["labels"]);
  batch.attention_mask = Tensor<std::int64_t>::like(batch.input_ids);
  for (Index b = 0; b < batch.input_ids.rows(); ++b) batch.attention_mask.row(b).setOnes();
  return batch;
}

template <typename Scalar>
void expect_values(const std::string& file, const std::vector<Parameter<Scalar>>& parameters,
                   double tolerance) {
  const SafetensorsFile expected(folder / "reference" / file);
  EXPECT_EQ(expected.tensors().size(), parameters.size());
  for (const Parameter<Scalar>& parameter : parameters) {
    const SafetensorsTensor* tensor = expected.find(parameter.name);
    ASSERT_NE(tensor, nullptr) << parameter.name;
    ASSERT_EQ(tensor->bytes, std::uint64_t(parameter.size) * 8) << parameter.name;
    double worst = 0;
    for (Index i = 0; i < parameter.size; ++i) {
      double value = 0;
      std::memcpy(&value, expected.data(*tensor) + i * 8, 8);
      worst = (std::max)(worst, std::abs(double(parameter.values[i]) - value));
    }
    EXPECT_LE(worst, tolerance) << file << ": " << parameter.name;
  }
}

template <typename Scalar>
class CausalLMBackward : public ::testing::Test {};
TYPED_TEST_SUITE(CausalLMBackward, Scalars, ScalarNames);

TYPED_TEST(CausalLMBackward, TwoStepsEqualTheReference) {
  using Scalar = TypeParam;
  const double loss_tolerance = sizeof(Scalar) == 8 ? 1e-10 : 1e-5;
  const double tolerance = sizeof(Scalar) == 8 ? 1e-10 : 2e-5;
  const Json index = reference_index();
  const TrainingBatch batch = reference_batch(index);
  CausalLM<Scalar> causal_lm = make_trainable(load_checkpoint<Scalar>(folder).causal_lm);
  CausalLM<Scalar> gradients = zero_gradients(causal_lm);
  std::vector<Parameter<Scalar>> parameters = parameters_of(causal_lm);
  const std::vector<Parameter<Scalar>> gradient_list = parameters_of(gradients);
  AdamW<Scalar> optimizer({}, parameters, std::vector<ParameterRule>(parameters.size()));
  for (const Json& step : index["steps"]) {
    const std::string name = "step" + std::to_string(step["step"].get<int>());
    set_to_zero(gradients);
    const CrossEntropy<Scalar> result = loss_and_gradients(causal_lm, batch, gradients);
    EXPECT_NEAR(result.loss, step["loss_before"].get<double>(), loss_tolerance);
    EXPECT_EQ(result.counted, 14);
    expect_values(name + ".gradients.safetensors", gradient_list, tolerance);
    optimizer.step(parameters, gradient_list);
    expect_values(name + ".params.safetensors", parameters, sizeof(Scalar) == 8 ? 1e-10 : 2e-4);
  }
  set_to_zero(gradients);
  EXPECT_NEAR(loss_and_gradients(causal_lm, batch, gradients).loss, index["loss_after_step2"].get<double>(),
              sizeof(Scalar) == 8 ? 1e-10 : 1e-4);
}

}  // namespace causal_lm_backward_test
