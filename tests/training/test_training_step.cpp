// Faults that must turn this red: the mean over a part's labels in place of the whole step's; gradients of
// the step before left in; a thread's gradients lost or added twice, or added in the order in which the
// threads end; a text of the batch left to no thread; an exception that dies in its thread; parameters
// changed before a loss or a gradient that is not finite is seen; clipping left out; the threads' texts mixed
// up.
#include "glassbox/training/training_step.hpp"

#include "glassbox/training/initialize.hpp"
#include "glassbox/training/learning_rate.hpp"
#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "support/gradient_check.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace training_step_test {

using test_support::largest_difference;
using test_support::make_tensor;
using test_support::near_tensors;
using test_support::near_values;
using test_support::numbers_of;
using test_support::random_model;
using test_support::rounding;
using test_support::same_bits;
using test_support::ScalarNames;
using test_support::Scalars;
using test_support::throws;

inline ModelConfig tiny_config() {
  ModelConfig config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  config.max_position_embeddings = 8;
  config.rms_norm_eps = 1e-5;
  config.attention_bias = true;
  return config;
}

// Five texts of different length and different numbers of labels: 3 + 1 + 4 + 0 + 2 predicted tokens.
inline TrainingBatch five_texts() {
  BatchReport report;
  return batch_of(
      {{{1, 3, 5, 7}, 0}, {{1, 4, 6}, 2}, {{1, 2, 3, 4, 5}, 0}, {{1, 9, 8}, 3}, {{1, 7, 6, 10}, 2}}, 0, 8,
      true, report);
}

// A model with its optimizer, as a training program holds them.
template <typename Scalar>
struct Training {
  CausalLM<Scalar> causal_lm;
  std::vector<Parameter<Scalar>> parameters;
  AdamW<Scalar> optimizer;
  GradientWorkers<Scalar> workers;

  Training(const CausalLM<Scalar>& model, Index threads, const AdamWConfig& config)
      : causal_lm(model),
        parameters(parameters_of(causal_lm)),
        optimizer(config, parameters, parameter_rules(parameters)),
        workers(model, threads) {}

  StepResult step(const std::vector<TrainingBatch>& batches, double max_norm = 0) {
    return training_step(causal_lm, batches, workers, optimizer, max_norm);
  }
};

template <typename Scalar>
class TrainingStepTest : public ::testing::Test {};
TYPED_TEST_SUITE(TrainingStepTest, Scalars, ScalarNames);

TEST(PartOfBatch, TheTextsFromBeginToEnd) {
  const TrainingBatch part = part_of_batch(five_texts(), 1, 3);
  EXPECT_EQ(shape_string(part.input_ids), "[batch=2, seq=5]");
  EXPECT_TRUE(near_values(part.input_ids, {1, 4, 6, 0, 0, 1, 2, 3, 4, 5}, 0));
  EXPECT_TRUE(near_values(part.attention_mask, {1, 1, 1, 0, 0, 1, 1, 1, 1, 1}, 0));
  EXPECT_TRUE(near_values(part.labels, {-100, -100, 6, -100, -100, 1, 2, 3, 4, 5}, 0));
}

// 1 to 8 threads, of which five find a text: the gradient of one thread but for the order of the sum, and the
// same bits each time.
TYPED_TEST(TrainingStepTest, AnyNumberOfThreadsGivesTheSameGradient) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(), 1);
  const TrainingBatch batch = five_texts();
  CausalLM<TypeParam> expected = zero_gradients(causal_lm);
  const CrossEntropy<TypeParam> loss = loss_and_gradients(causal_lm, batch, expected);
  EXPECT_EQ(loss.counted, 10);
  for (const Index threads : {1, 2, 3, 5, 8}) {
    std::vector<TypeParam> first;
    for (int again = 0; again < 3; ++again) {
      GradientWorkers<TypeParam> workers(causal_lm, threads);
      const StepResult result = workers.add(causal_lm, batch);
      workers.collect();
      EXPECT_EQ(result.counted, 10);
      EXPECT_NEAR(result.loss, loss.loss, rounding<TypeParam>());
      const std::vector<TypeParam> found = numbers_of(parameters_of(workers.gradients()));
      EXPECT_LE(largest_difference(found, numbers_of(parameters_of(expected))), 10 * rounding<TypeParam>());
      if (again == 0) first = found;
      EXPECT_EQ(found, first) << threads << " threads";
    }
  }
}

TYPED_TEST(TrainingStepTest, WorkersAddUpAndStartAnew) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(), 1);
  const TrainingBatch batch = five_texts();
  GradientWorkers<TypeParam> workers(causal_lm, 2);
  workers.add(causal_lm, batch);
  workers.collect();
  std::vector<TypeParam> twice = numbers_of(parameters_of(workers.gradients()));
  for (TypeParam& number : twice) number *= 2;
  workers.add(causal_lm, batch);
  workers.collect();  // the second thread's part of before is not added again
  EXPECT_LE(largest_difference(numbers_of(parameters_of(workers.gradients())), twice),
            10 * rounding<TypeParam>());
  workers.add(causal_lm, batch);
  workers.set_to_zero();
  workers.collect();
  EXPECT_EQ(largest_difference(numbers_of(parameters_of(workers.gradients())),
                               std::vector<TypeParam>(twice.size())),
            0);
}

// Gradient accumulation: parts with 4, 4 and 2 labels, as batches of one step, are the one large batch. A
// mean of the parts' means would weigh the labels of the last one twice.
TYPED_TEST(TrainingStepTest, MicroBatchesEqualTheLargeBatch) {
  const CausalLM<TypeParam> model = random_model<TypeParam>(tiny_config(), 2);
  const TrainingBatch batch = five_texts();
  Training<TypeParam> large(model, 1, {});
  Training<TypeParam> parts(model, 2, {});
  const StepResult expected = large.step({batch});
  const StepResult result =
      parts.step({part_of_batch(batch, 0, 2), part_of_batch(batch, 2, 4), part_of_batch(batch, 4, 5)});
  EXPECT_EQ(result.counted, 10);
  EXPECT_NEAR(result.loss, expected.loss, rounding<TypeParam>());
  EXPECT_NEAR(result.gradient_norm, expected.gradient_norm, 5 * rounding<TypeParam>());
  EXPECT_LE(largest_difference(numbers_of(parameters_of(parts.workers.gradients())),
                               numbers_of(parameters_of(large.workers.gradients()))),
            10 * rounding<TypeParam>());
}

// The step is AdamW's on the clipped gradient; the next one begins with gradients of zero.
TYPED_TEST(TrainingStepTest, IsLossGradientClippingAndAdamW) {
  Training<TypeParam> training(random_model<TypeParam>(tiny_config(), 3), 1, {});
  Training<TypeParam> by_hand(training.causal_lm, 1, {});
  const TrainingBatch batch = five_texts();
  for (int step = 0; step < 3; ++step) {
    CausalLM<TypeParam> gradients = zero_gradients(by_hand.causal_lm);
    const double loss = loss_and_gradients(by_hand.causal_lm, batch, gradients).loss;
    std::vector<Parameter<TypeParam>> list = parameters_of(gradients);
    const double norm = clip_gradients(list, 0.1);
    EXPECT_GT(norm, 0.1);
    by_hand.optimizer.step(by_hand.parameters, list);
    const StepResult result = training.step({batch}, 0.1);
    EXPECT_EQ(result.loss, loss);
    EXPECT_EQ(result.gradient_norm, norm);
    EXPECT_NEAR(global_norm(parameters_of(training.workers.gradients())), 0.1, 1e-5);
    EXPECT_TRUE(same_bits(training.parameters, by_hand.parameters)) << "step " << step;
  }
}

// Gradient checkpointing: the same bits as with everything kept, also over threads.
TYPED_TEST(TrainingStepTest, RecomputedActivationsGiveTheSameStep) {
  Training<TypeParam> kept(random_model<TypeParam>(tiny_config(), 3), 2, {});
  Training<TypeParam> recomputed(kept.causal_lm, 2, {});
  const TrainingBatch batch = five_texts();
  training_step(kept.causal_lm, {batch}, kept.workers, kept.optimizer, 0, ActivationMemory::keep);
  training_step(recomputed.causal_lm, {batch}, recomputed.workers, recomputed.optimizer, 0,
                ActivationMemory::recompute);
  EXPECT_TRUE(same_bits(recomputed.parameters, kept.parameters));
}

// Two texts by heart: a few hundred steps, and the loss is almost nothing.
TYPED_TEST(TrainingStepTest, OverfitsOneBatch) {
  AdamWConfig config;
  config.learning_rate = 0.02;
  Training<TypeParam> training(initialize_model<TypeParam>(tiny_config(), 4, 0.1), 1, config);
  BatchReport report;
  const TrainingBatch batch = batch_of({{{1, 3, 5, 7, 9, 2}, 0}, {{1, 4, 8, 3, 2}, 0}}, 0, 8, false, report);
  const double before = training.step({batch}, 1).loss;
  EXPECT_NEAR(before, std::log(11.0), 0.3);  // it begins by hesitating between all 11 tokens
  StepResult last;
  // The first token is followed by two others, 3 and 4, so that ln 2 remains of two of nine labels: these are
  // not learned here.
  TrainingBatch learnable = batch;
  learnable.labels(0, 1) = learnable.labels(1, 1) = ignore_index;
  for (int step = 0; step < 150; ++step) last = training.step({learnable}, 1);
  EXPECT_EQ(last.counted, 7);
  EXPECT_LT(last.loss, 0.01);
}

// A course with everything: schedule, clipping, shuffled texts, two threads. Twice the same seed, twice the
// same losses and parameters to the last bit.
TYPED_TEST(TrainingStepTest, TheCourseOfASeedIsReproducible) {
  const TrainingBatch texts = five_texts();
  const LearningRateSchedule schedule = {.peak = 0.01, .lowest = 0.001, .warmup_steps = 2, .total_steps = 8};
  std::vector<double> losses[2];
  std::vector<TypeParam> parameters[2];
  for (int run = 0; run < 2; ++run) {
    Training<TypeParam> training(initialize_model<TypeParam>(tiny_config(), 7), 2, {});
    for (Index step = 0; step < 8; ++step) {
      training.optimizer.config.learning_rate = schedule.at(step);
      const std::vector<Index> order = shuffled_order(5, std::uint64_t(step / 4));
      const Index a = order[std::size_t(step % 4)], b = order[std::size_t(step % 4 + 1)];
      losses[run].push_back(
          training.step({part_of_batch(texts, a, a + 1), part_of_batch(texts, b, b + 1)}, 0.5).loss);
    }
    parameters[run] = numbers_of(training.parameters);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(parameters[0], parameters[1]);
}

// Whatever goes wrong, the parameters, the moments and the count of steps are those of before.
template <typename Scalar, typename ErrorType>
void expect_error_changes_nothing(Training<Scalar>& training, const std::vector<TrainingBatch>& batches,
                                  const std::string& text) {
  const std::vector<Scalar> before = numbers_of(training.parameters);
  const Index steps = training.optimizer.step_count;
  EXPECT_TRUE(throws<ErrorType>([&] { training.step(batches, 1); }, text));
  const std::vector<Scalar> after = numbers_of(training.parameters);
  EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(Scalar)), 0);
  EXPECT_EQ(training.optimizer.step_count, steps);
  for (const AdamWMoments<Scalar>& moments : training.optimizer.moments) {
    EXPECT_EQ(moments.exp_avg.row(0).template lpNorm<1>(), 0);
    EXPECT_EQ(moments.exp_avg_sq.row(0).template lpNorm<1>(), 0);
  }
}

TYPED_TEST(TrainingStepTest, AnInfiniteLossStopsTheTraining) {
  Training<TypeParam> training(random_model<TypeParam>(tiny_config(), 5), 1, {});
  const TypeParam largest = std::numeric_limits<TypeParam>::max();
  for (Parameter<TypeParam>& parameter : training.parameters) {
    if (parameter.name == "lm_head.weight") parameter.view().setConstant(largest);
  }
  const std::vector<TypeParam> before = numbers_of(training.parameters);
  try {
    training.step({five_texts()}, 1);
    FAIL() << "nothing was thrown";
  } catch (const NumericError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text == "training_step: the loss is nan: training stops here" ||
                text == "training_step: the loss is -nan: training stops here" ||
                text == "training_step: the loss is inf: training stops here")
        << text;
  }
  EXPECT_EQ(numbers_of(training.parameters), before);
  EXPECT_EQ(training.optimizer.step_count, 0);
  // Where a parameter itself is at fault, it is named.
  for (Parameter<TypeParam>& parameter : training.parameters) {
    if (parameter.name == "lm_head.weight") parameter.view().setConstant(TypeParam(0.1));
    if (parameter.name == "model.norm.weight")
      parameter.values[1] = std::numeric_limits<TypeParam>::quiet_NaN();
  }
  try {
    training.step({five_texts()}, 1);
    FAIL() << "nothing was thrown";
  } catch (const NumericError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("parameter of model.norm.weight [hidden=")) << text;
  }
}

// Embeddings of about 1e-160 without eps: their norm is finite, its slope is not.
TEST(TrainingStep, AnInfiniteGradientStopsTheTrainingAndIsNamed) {
  ModelConfig config = tiny_config();
  config.rms_norm_eps = 0;
  Training<double> training(random_model<double>(config, 5), 1, {});
  ASSERT_EQ(training.parameters[0].name, "model.embed_tokens.weight");
  training.parameters[0].view() *= 1e-160;
  const std::vector<double> before = numbers_of(training.parameters);
  try {
    training.step({five_texts()}, 1);
    FAIL() << "nothing was thrown";
  } catch (const NumericError& error) {
    EXPECT_EQ(
        std::string(error.what()).find("gradient of model.embed_tokens.weight [vocab=11, hidden=8] holds "),
        0u)
        << error.what();
  }
  EXPECT_EQ(numbers_of(training.parameters), before);
  EXPECT_EQ(training.optimizer.step_count, 0);
}

// A NaN in a weight is found in a worker's softmax: the caller gets the exception, whichever thread met it,
// and the workers can be used again.
TYPED_TEST(TrainingStepTest, AnExceptionInAThreadReachesTheCaller) {
  Training<TypeParam> training(random_model<TypeParam>(tiny_config(), 6), 3, {});
  MatrixView<TypeParam> embedding =
      trainable_matrix<TypeParam>("embed_tokens", training.causal_lm.model.embed_tokens.weight);
  const TypeParam number = embedding(10, 0);  // token 10 is in the last text only, the last thread's
  embedding(10, 0) = std::numeric_limits<TypeParam>::quiet_NaN();
  expect_error_changes_nothing<TypeParam, NumericError>(
      training, {five_texts()},
      "softmax: x [batch=2, head=2, query=5, key=5]: row 10 holds a NaN or +infinity (after stage "
      "masked_scores of "
      "layer 0, step 0)");
  embedding(10, 0) = number;
  Training<TypeParam> fresh(training.causal_lm, 3, {});
  EXPECT_EQ(training.step({five_texts()}, 1).loss, fresh.step({five_texts()}, 1).loss);
  EXPECT_TRUE(same_bits(training.parameters, fresh.parameters));
}

TYPED_TEST(TrainingStepTest, WithoutLabelsThereIsNothingToLearn) {
  Training<TypeParam> training(random_model<TypeParam>(tiny_config(), 6), 2, {});
  const TrainingBatch unlearned = part_of_batch(five_texts(), 3, 4);
  expect_error_changes_nothing<TypeParam, UsageError>(
      training, {unlearned, unlearned},
      "training_step: no label counts in any of 2 batches: there is nothing to learn");
  expect_error_changes_nothing<TypeParam, UsageError>(
      training, {}, "training_step: no label counts in any of 0 batches: there is nothing to learn");
  // Beside others it is no error, and changes nothing.
  Training<TypeParam> other(training.causal_lm, 2, {});
  const TrainingBatch learned = part_of_batch(five_texts(), 0, 1);
  EXPECT_EQ(training.step({learned, unlearned}).loss, other.step({learned}).loss);
  EXPECT_TRUE(same_bits(training.parameters, other.parameters));
  const StepResult none = training.workers.add(training.causal_lm, unlearned);
  EXPECT_EQ(none.counted, 0);
  EXPECT_EQ(none.loss, 0);
}

// An error names the text's place in the whole batch, not in the part that a thread has.
TEST(TrainingStep, Errors) {
  const CausalLM<float> causal_lm = random_model<float>(tiny_config(), 6);
  EXPECT_TRUE(throws<UsageError>([&] { GradientWorkers<float>(causal_lm, 0); },
                                 "GradientWorkers: 0 threads, expected 1 or more"));
  Training<float> training(causal_lm, 2, {});
  TrainingBatch batch = five_texts();
  batch.labels(4, 1) = 11;
  expect_error_changes_nothing<float, TokenError>(
      training, {batch},
      "training_forward: label 11 of batch 4, position 1 is not in 0..10, nor -100 (not counted)");
}

}  // namespace training_step_test
}  // namespace glassbox
