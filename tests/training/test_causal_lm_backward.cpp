// The whole model: the gradients of every parameter against the reference (another implementation in double),
// against central differences, and the training forward against the book's.
//
// Faults that must turn this red: labels not shifted, or shifted by two; the mask of the prompt or of the
// padding forgotten; the sum of the losses in place of their mean; a gradient that misses one of its sources
// (the residual, a head of a group, the tied embedding); the transposed rotation not transposed; the scaling
// of the scores forgotten; layers gone through in the wrong order; activations recomputed from another
// layer's input.
#include "glassbox/training/causal_lm_backward.hpp"

#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "glassbox/io/checkpoint.hpp"
#include "glassbox/io/json.hpp"
#include "glassbox/io/safetensors.hpp"
#include "glassbox/training/adamw.hpp"
#include "support/gradient_check.hpp"
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

// Grouped heads whose widths do not add up to the hidden size; two layers.
inline ModelConfig tiny_config(bool biases, bool tied) {
  ModelConfig config;
  config.vocab_size = 11;
  config.hidden_size = 6;
  config.intermediate_size = 5;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 2;
  config.max_position_embeddings = 8;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 100;
  config.attention_bias = config.mlp_bias = biases;
  config.tie_word_embeddings = tied;
  return config;
}

inline TrainingBatch batch_from(Index batch, Index seq, const std::vector<double>& ids,
                                const std::vector<double>& mask, const std::vector<double>& labels) {
  TrainingBatch result;
  result.input_ids = make_tensor<TokenId>({{"batch", batch}, {"seq", seq}}, ids);
  result.attention_mask = make_tensor<std::int64_t>({{"batch", batch}, {"seq", seq}}, mask);
  result.labels = make_tensor<TokenId>({{"batch", batch}, {"seq", seq}}, labels);
  return result;
}

constexpr double none = double(ignore_index);

// A prompt of two tokens and its answer; a text with padding behind it; one with padding before it. Eight
// labels are predicted; a ninth stands at the beginning of a text, where nothing predicts it.
inline TrainingBatch mixed_batch() {
  return batch_from(3, 5, {3, 1, 4, 1, 5, 9, 2, 6, 0, 0, 0, 0, 5, 3, 5},
                    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1},
                    {none, none, 4, 1, 5, 9, 2, 6, none, none, none, none, 5, 3, 5});
}

// The loss once more, from the logits of the book's forward: position s - 1 predicts labels[s].
template <typename Scalar>
double loss_by_hand(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch) {
  KVCache<Scalar> cache(causal_lm.config.num_hidden_layers);
  const Tensor<Scalar> logits = causal_lm.forward(batch.input_ids, batch.attention_mask, cache);
  double sum = 0;
  Index counted = 0;
  for (Index b = 0; b < batch.labels.dim(0); ++b) {
    for (Index s = 1; s < batch.labels.dim(1); ++s) {
      if (batch.labels(b, s) == ignore_index) continue;
      double total = 0;
      for (Index v = 0; v < logits.dim(2); ++v) total += std::exp(double(logits(b, s - 1, v)));
      sum += std::log(total) - double(logits(b, s - 1, batch.labels(b, s)));
      counted += 1;
    }
  }
  return sum / double(counted);
}

template <typename Scalar>
double forward_loss(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch) {
  CausalLMActivations<Scalar> activations;
  const Tensor<Scalar> logits =
      causal_lm_training_forward(causal_lm, batch, ActivationMemory::recompute, activations);
  return cross_entropy(logits, shift_labels(batch.labels)).loss;
}

TYPED_TEST(CausalLMBackward, TheTrainingForwardIsTheForward) {
  for (const bool tied : {false, true}) {
    const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, tied), 2);
    const TrainingBatch batch = mixed_batch();
    CausalLMActivations<TypeParam> activations;
    const Tensor<TypeParam> logits =
        causal_lm_training_forward(causal_lm, batch, ActivationMemory::keep, activations);
    EXPECT_EQ(shape_string(logits), "[batch=3, seq=5, vocab=11]");
    KVCache<TypeParam> cache(2);
    EXPECT_TRUE(near_tensors(logits, causal_lm.forward(batch.input_ids, batch.attention_mask, cache), 0));
    // The text with padding behind it, on its own: the same bits at its three tokens.
    const Tensor<TypeParam> alone =
        causal_lm.forward(make_tensor<TokenId>({{"batch", 1}, {"seq", 3}}, {9, 2, 6}));
    for (Index s = 0; s < 3; ++s) EXPECT_EQ(alone.row(s), logits.row(5 + s)) << s;
    EXPECT_EQ(activations.layers.size(), 2u);
  }
}

TEST(CausalLMBackwardOf, EveryParameterEqualsCentralDifferences) {
  for (const int variant : {0, 1, 2}) {
    const bool biases = variant == 1, tied = variant == 2;
    CausalLM<double> causal_lm = random_model<double>(tiny_config(biases, tied), 3);
    CausalLM<double> gradients = zero_gradients(causal_lm);
    const TrainingBatch batch = mixed_batch();
    const CrossEntropy<double> result = loss_and_gradients(causal_lm, batch, gradients);
    EXPECT_EQ(result.counted, 8);
    GradientCheck check;
    check.tolerance = 1e-6;
    check.samples = 9;
    EXPECT_TRUE(gradients_agree(
        parameters_of(causal_lm), parameters_of(gradients), [&] { return forward_loss(causal_lm, batch); },
        check))
        << "variant " << variant;

    CausalLM<float> narrow = random_model<float>(tiny_config(biases, tied), 3);
    CausalLM<float> narrow_gradients = zero_gradients(narrow);
    loss_and_gradients(narrow, batch, narrow_gradients);
    EXPECT_TRUE(near_gradients(parameters_of(narrow_gradients), parameters_of(gradients), 1e-4));
  }
}

// Turns red when the label shift is off by one: the loss by hand, and at once a text in which the model knows
// what comes next, but neither what is there nor what comes after it.
TYPED_TEST(CausalLMBackward, LabelsAreShiftedByOne) {
  CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(false, false), 4);
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  const TrainingBatch batch = mixed_batch();
  EXPECT_NEAR(loss_and_gradients(causal_lm, batch, gradients).loss, loss_by_hand(causal_lm, batch),
              20 * rounding<TypeParam>());

  // All layers hand on their input; the embedding of token t is the unit vector t, and the head gives t + 1 a
  // large logit, so that the loss of a text that counts is almost nothing.
  for (Parameter<TypeParam>& parameter : parameters_of(causal_lm)) {
    if (parameter.is_matrix()) parameter.view().setZero();
  }
  MatrixView<TypeParam> embedding =
      trainable_matrix<TypeParam>("embed_tokens", causal_lm.model.embed_tokens.weight);
  MatrixView<TypeParam> head = trainable_matrix<TypeParam>("lm_head", causal_lm.lm_head.weight);
  causal_lm.model.norm.weight.row(0).setOnes();
  for (Index token = 0; token < 6; ++token) {
    embedding(token, token) = 1;
    head(token + 1, token) = 8;
  }
  const std::vector<double> ones(5, 1.0);
  const TrainingBatch counting = batch_from(1, 5, {0, 1, 2, 3, 4}, ones, {0, 1, 2, 3, 4});
  EXPECT_LT(loss_and_gradients(causal_lm, counting, gradients).loss, 1e-6);
  const TrainingBatch repeating = batch_from(1, 5, {2, 2, 2, 2, 2}, ones, {2, 2, 2, 2, 2});
  EXPECT_GT(loss_and_gradients(causal_lm, repeating, gradients).loss, 10);
}

// Turns red when the mask of the prompt or of the padding is forgotten: what the prompt's labels would be and
// what lies in the padding makes no difference, and a text gives the same alone as between others.
TYPED_TEST(CausalLMBackward, PromptAndPaddingAreNotLearned) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, false), 5);
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  CausalLM<TypeParam> other = zero_gradients(causal_lm);
  // Right padding: token 7 or token 0, which stands nowhere else.
  const TrainingBatch padded = batch_from(2, 4, {3, 1, 4, 1, 5, 9, 7, 7}, {1, 1, 1, 1, 1, 1, 0, 0},
                                          {none, none, 4, 1, 5, 9, none, none});
  TrainingBatch otherwise = padded;
  otherwise.input_ids(1, 2) = otherwise.input_ids(1, 3) = 0;
  const CrossEntropy<TypeParam> result = loss_and_gradients(causal_lm, padded, gradients);
  EXPECT_EQ(result.counted, 3);
  EXPECT_TRUE(near_values(Tensor<TypeParam>(result.token_losses),
                          {0, double(result.token_losses(0, 1)), double(result.token_losses(0, 2)), 0,
                           double(result.token_losses(1, 0)), 0, 0, 0},
                          0));
  EXPECT_EQ(loss_and_gradients(causal_lm, otherwise, other).loss, result.loss);
  EXPECT_TRUE(same_bits(parameters_of(other), parameters_of(gradients)));
  for (const Index token : {7, 0}) {
    Tensor<TypeParam> row({{"hidden", 6}});
    gradients.model.embed_tokens.weight.read_row(token, row.row(0));
    EXPECT_TRUE(near_values(row, std::vector<double>(6, 0.0), 0)) << "embedding of the padding";
  }

  // Padding before the text: the same gradients as without it.
  set_to_zero(gradients);
  set_to_zero(other);
  const double loss =
      loss_and_gradients(causal_lm, batch_from(1, 3, {5, 3, 5}, {1, 1, 1}, {none, 3, 5}), gradients).loss;
  const TrainingBatch left = batch_from(1, 5, {7, 7, 5, 3, 5}, {0, 0, 1, 1, 1}, {none, none, none, 3, 5});
  EXPECT_NEAR(loss_and_gradients(causal_lm, left, other).loss, loss, 10 * rounding<TypeParam>());
  EXPECT_LE(largest_difference(numbers_of(parameters_of(other)), numbers_of(parameters_of(gradients))),
            100 * rounding<TypeParam>());
}

// Turns red when the sum is used in place of the mean: every text twice is the same loss and gradient, and
// padding, which makes the batch larger, changes neither.
TYPED_TEST(CausalLMBackward, TheLossIsAMean) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(false, true), 6);
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  CausalLM<TypeParam> twice = zero_gradients(causal_lm);
  const TrainingBatch once = batch_from(1, 3, {3, 1, 4}, {1, 1, 1}, {3, 1, 4});
  const TrainingBatch doubled =
      batch_from(2, 4, {3, 1, 4, 0, 3, 1, 4, 0}, {1, 1, 1, 0, 1, 1, 1, 0}, {3, 1, 4, none, 3, 1, 4, none});
  const CrossEntropy<TypeParam> one = loss_and_gradients(causal_lm, once, gradients);
  const CrossEntropy<TypeParam> two = loss_and_gradients(causal_lm, doubled, twice);
  EXPECT_EQ(one.counted, 2);
  EXPECT_EQ(two.counted, 4);
  EXPECT_NEAR(one.loss, two.loss, rounding<TypeParam>());
  EXPECT_LE(largest_difference(numbers_of(parameters_of(twice)), numbers_of(parameters_of(gradients))),
            10 * rounding<TypeParam>());
}

TYPED_TEST(CausalLMBackward, RecomputedActivationsGiveTheSameBits) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, true), 7);
  CausalLM<TypeParam> kept = zero_gradients(causal_lm);
  CausalLM<TypeParam> recomputed = zero_gradients(causal_lm);
  const TrainingBatch batch = mixed_batch();
  const double loss = loss_and_gradients(causal_lm, batch, kept, 0, ActivationMemory::keep).loss;
  EXPECT_EQ(loss_and_gradients(causal_lm, batch, recomputed, 0, ActivationMemory::recompute).loss, loss);
  EXPECT_TRUE(same_bits(parameters_of(recomputed), parameters_of(kept)));
  CausalLMActivations<TypeParam> activations;
  causal_lm_training_forward(causal_lm, batch, ActivationMemory::recompute, activations);
  for (const DecoderLayerActivations<TypeParam>& layer : activations.layers) {
    EXPECT_EQ(layer.residual.size(), 3 * 5 * 6);
    EXPECT_EQ(layer.attn_residual.size(), 0);
    EXPECT_EQ(layer.self_attn.attn_weights.size(), 0);
    EXPECT_EQ(layer.mlp.gated.size(), 0);
  }
}

// Gradient accumulation: parts of a batch, each told the number of labels of the whole.
TYPED_TEST(CausalLMBackward, PartsAddUpToTheWhole) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(true, false), 8);
  CausalLM<TypeParam> whole = zero_gradients(causal_lm);
  CausalLM<TypeParam> parts = zero_gradients(causal_lm);
  const TrainingBatch batch =
      batch_from(2, 3, {3, 1, 4, 1, 5, 9}, std::vector<double>(6, 1.0), {3, 1, 4, none, none, 9});
  const double loss = loss_and_gradients(causal_lm, batch, whole).loss;
  const CrossEntropy<TypeParam> first =
      loss_and_gradients(causal_lm, batch_from(1, 3, {3, 1, 4}, {1, 1, 1}, {3, 1, 4}), parts, 3);
  const CrossEntropy<TypeParam> second =
      loss_and_gradients(causal_lm, batch_from(1, 3, {1, 5, 9}, {1, 1, 1}, {none, none, 9}), parts, 3);
  EXPECT_NEAR((first.sum + second.sum) / 3, loss, rounding<TypeParam>());
  EXPECT_NEAR(first.loss, first.sum / 2, rounding<TypeParam>());  // of this part alone
  EXPECT_LE(largest_difference(numbers_of(parameters_of(parts)), numbers_of(parameters_of(whole))),
            10 * rounding<TypeParam>());
}

TYPED_TEST(CausalLMBackward, WithoutLabelsNothingIsLearned) {
  const CausalLM<TypeParam> causal_lm = random_model<TypeParam>(tiny_config(false, false), 9);
  CausalLM<TypeParam> gradients = zero_gradients(causal_lm);
  // The only label is the first token's, which nothing predicts.
  const TrainingBatch batch = batch_from(1, 3, {3, 1, 4}, {1, 1, 1}, {3, none, none});
  const CrossEntropy<TypeParam> result = loss_and_gradients(causal_lm, batch, gradients);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.counted, 0);
  for (const Parameter<TypeParam>& parameter : parameters_of(gradients)) {
    EXPECT_TRUE(parameter.view().isZero(0)) << parameter.name;
  }
}

// The stages outside the layers; those of the layers are theirs to test.
TEST(CausalLMBackwardOf, StagesInTheirOrder) {
  const CausalLM<double> causal_lm = random_model<double>(tiny_config(false, false), 9);
  CausalLM<double> gradients = zero_gradients(causal_lm);
  std::string passed;
  std::vector<Index> layers;
  ScopedStageHook hook([&](StageRecord& record) {
    if (record.layer < 0) passed += std::string(record.name) + " ";
    if (record.layer >= 0 && (layers.empty() || layers.back() != record.layer))
      layers.push_back(record.layer);
  });
  loss_and_gradients(causal_lm, mixed_batch(), gradients);
  EXPECT_EQ(
      passed,
      "input_ids attention_mask position_ids inputs_embeds cos sin expanded_mask causal_mask additive_mask "
      "norm logits labels shifted_labels token_losses loss d_logits d_norm d_inputs_embeds ");
  const std::vector<Index> there_and_back = {0, 1, 0};
  EXPECT_EQ(layers, there_and_back);
}

TEST(CausalLMBackwardOf, Errors) {
  const CausalLM<float> causal_lm = random_model<float>(tiny_config(false, false), 9);
  CausalLM<float> gradients = zero_gradients(causal_lm);
  const std::vector<double> ones(9, 1.0);
  const auto learn = [&](const TrainingBatch& batch) {
    return [&causal_lm, &gradients, batch] { loss_and_gradients(causal_lm, batch, gradients); };
  };
  TrainingBatch batch = batch_from(1, 3, {3, 1, 4}, {1, 1, 1}, {3, 1, 4});
  batch.labels = Tensor<TokenId>({{"batch", 1}, {"seq", 2}});
  EXPECT_TRUE(throws<ShapeError>(learn(batch),
                                 "training_forward: input_ids [batch=1, seq=3] and labels [batch=1, seq=2] "
                                 "must have the same shape"));
  batch.attention_mask = Tensor<std::int64_t>({{"batch", 1}, {"seq", 4}});
  EXPECT_TRUE(throws<ShapeError>(learn(batch),
                                 "training_forward: input_ids [batch=1, seq=3] and attention_mask [batch=1, "
                                 "seq=4] must have the same shape"));
  batch.input_ids = Tensor<TokenId>({{"seq", 3}});
  EXPECT_TRUE(throws<ShapeError>(learn(batch), "training_forward: input_ids [seq=3] has 1 axes, expected 2"));
  EXPECT_TRUE(throws<ShapeError>(learn(batch_from(0, 3, {}, {}, {})),
                                 "DecoderModel::forward: input_ids [batch=0, seq=3] holds no token"));
  EXPECT_TRUE(throws<UsageError>(
      learn(batch_from(1, 9, ones, ones, ones)),
      "DecoderModel::forward: 9 tokens do not fit the context of 8 (max_position_embeddings)"));
  EXPECT_TRUE(
      throws<TokenError>(learn(batch_from(1, 3, {3, 11, 4}, {1, 1, 1}, {3, 1, 4})),
                         "training_forward: input_ids [batch=1, seq=3]: id 11 at row 0, position 1 is "
                         "not in 0..10 (vocab_size 11)"));
  EXPECT_TRUE(
      throws<TokenError>(learn(batch_from(2, 2, {3, 1, 4, 1}, {1, 1, 1, 1}, {3, 1, 4, -1})),
                         "training_forward: label -1 of batch 1, position 1 is not in 0..10, nor -100 "
                         "(not counted)"));
  for (const Parameter<float>& parameter : parameters_of(gradients)) EXPECT_TRUE(parameter.view().isZero(0));
}

}  // namespace causal_lm_backward_test
