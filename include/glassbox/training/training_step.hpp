// One step of training: loss and gradients of a batch, shared out to threads; clipping; the optimizer.
#pragma once

#include <exception>
#include <thread>
#include <vector>

#include "glassbox/training/adamw.hpp"
#include "glassbox/training/causal_lm_backward.hpp"
#include "glassbox/training/gradient_norm.hpp"

namespace glassbox {

// What a step came to.
struct StepResult {
  double loss = 0;           // mean over the labels that count
  Index counted = 0;         // how many those were
  double gradient_norm = 0;  // before clipping
};

// Texts begin..end-1 of a batch.
inline TrainingBatch part_of_batch(const TrainingBatch& batch, Index begin, Index end) {
  const Axis texts(batch.input_ids.axis(0).name, end - begin);
  TrainingBatch part;
  part.input_ids = Tensor<TokenId>({texts, batch.input_ids.axis(1)});
  part.attention_mask = Tensor<std::int64_t>({texts, batch.attention_mask.axis(1)});
  part.labels = Tensor<TokenId>({texts, batch.labels.axis(1)});
  for (Index b = begin; b < end; ++b) {
    part.input_ids.row(b - begin) = batch.input_ids.row(b);
    part.attention_mask.row(b - begin) = batch.attention_mask.row(b);
    part.labels.row(b - begin) = batch.labels.row(b);
  }
  return part;
}

// The model's gradients, computed by several threads: each takes some of the texts and adds up gradients of
// its own, and these are added in the order of the threads. So the result is the same to the last bit for the
// same number of threads, however fast each of them is.
template <std::floating_point Scalar>
class GradientWorkers {
 public:
  GradientWorkers(const CausalLM<Scalar>& causal_lm, Index threads) {
    if (threads < 1) {
      throw_error<UsageError>("GradientWorkers: " + std::to_string(threads) + " threads, expected 1 or more");
    }
    for (Index i = 0; i < threads; ++i) gradients_.push_back(zero_gradients(causal_lm));
  }

  // The sum so far, under the names of the model.
  CausalLM<Scalar>& gradients() { return gradients_[0]; }

  void set_to_zero() {
    for (CausalLM<Scalar>& gradients : gradients_) glassbox::set_to_zero(gradients);
  }

  // Adds the gradients of a batch. `counted`: the labels that the mean is over, 0 for those of this batch.
  // Returns loss and counted of this batch.
  StepResult add(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch, Index counted = 0,
                 ActivationMemory memory = ActivationMemory::keep) {
    check_training_batch(causal_lm, batch);
    const Index threads = (std::min)(static_cast<Index>(gradients_.size()), batch.input_ids.dim(0));
    const Index counted_here = loops::count_labels(shift_labels(batch.labels));
    const Index mean_over = counted == 0 ? counted_here : counted;
    std::vector<CrossEntropy<Scalar>> parts(static_cast<std::size_t>(threads));
    if (threads == 1) {  // in this thread: a learner steps through it
      parts[0] = loss_and_gradients(causal_lm, batch, gradients_[0], mean_over, memory);
    } else {
      run_parts(causal_lm, batch, mean_over, memory, parts);
    }
    StepResult result;
    double sum = 0;
    for (const CrossEntropy<Scalar>& part : parts) sum += part.sum;
    result.counted = counted_here;
    if (result.counted > 0) result.loss = sum / double(result.counted);
    return result;
  }

  // Adds what the other threads have to gradients(), and sets theirs to zero.
  void collect() {
    std::vector<Parameter<Scalar>> total = parameters_of(gradients_[0]);
    for (std::size_t i = 1; i < gradients_.size(); ++i) {
      std::vector<Parameter<Scalar>> addition = parameters_of(gradients_[i]);
      for (std::size_t p = 0; p < total.size(); ++p) {
        total[p].view() += addition[p].view();
        addition[p].view().setZero();
      }
    }
  }

 private:
  std::vector<CausalLM<Scalar>> gradients_;  // one per thread

  void run_parts(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch, Index mean_over,
                 ActivationMemory memory, std::vector<CrossEntropy<Scalar>>& parts) {
    const Index texts = batch.input_ids.dim(0);
    const Index threads = static_cast<Index>(parts.size());
    std::vector<std::exception_ptr> errors(parts.size());
    std::vector<std::thread> running;
    try {
      for (Index i = 0; i < threads; ++i) {
        running.emplace_back([&, i] {
          const std::size_t part = static_cast<std::size_t>(i);
          try {
            const TrainingBatch own = part_of_batch(batch, i * texts / threads, (i + 1) * texts / threads);
            parts[part] = loss_and_gradients(causal_lm, own, gradients_[part], mean_over, memory);
          } catch (...) {
            errors[part] = std::current_exception();
          }
        });
      }
    } catch (...) {  // the system gives no more threads
      for (std::thread& thread : running) thread.join();
      throw;
    }
    for (std::thread& thread : running) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error != nullptr) std::rethrow_exception(error);
    }
  }
};

// One step on several batches, whose gradients are added before the one step is made: gradient accumulation.
// The mean is over the labels of all of them, so that the step equals that on the one large batch.
// max_norm: the longest gradient that is not shortened, 0 for any.
// Throws NumericError where the loss or a gradient is not finite, before any parameter changes.
template <std::floating_point Scalar>
StepResult training_step(CausalLM<Scalar>& causal_lm, const std::vector<TrainingBatch>& batches,
                         GradientWorkers<Scalar>& workers, AdamW<Scalar>& optimizer, double max_norm,
                         ActivationMemory memory = ActivationMemory::keep) {
  StepResult result;
  for (const TrainingBatch& batch : batches)
    result.counted += loops::count_labels(shift_labels(batch.labels));
  if (result.counted == 0) {
    throw_error<UsageError>("training_step: no label counts in any of " + std::to_string(batches.size()) +
                            " batches: there is nothing to learn");
  }
  workers.set_to_zero();
  double sum = 0;
  for (const TrainingBatch& batch : batches) {
    const StepResult part = workers.add(causal_lm, batch, result.counted, memory);
    sum += part.loss * double(part.counted);
  }
  workers.collect();
  result.loss = sum / double(result.counted);
  if (!std::isfinite(result.loss)) {
    check_finite("parameter", parameters_of(causal_lm));  // names the one that made it so, if it is one
    throw_error<NumericError>("training_step: the loss is " + std::to_string(result.loss) +
                              ": training stops here");
  }
  std::vector<Parameter<Scalar>> gradients = parameters_of(workers.gradients());
  check_finite("gradient", gradients);
  result.gradient_norm = clip_gradients(gradients, max_norm);
  std::vector<Parameter<Scalar>> parameters = parameters_of(causal_lm);
  optimizer.step(parameters, gradients);
  return result;
}

}  // namespace glassbox
