// AdamW: every parameter goes against its gradient, by a step whose length is the learning rate's rather than
// the gradient's; large weights are pulled towards zero.
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <vector>

#include "glassbox/training/parameters.hpp"

namespace glassbox {

// torch.optim.AdamW's names and defaults. Language models are usually trained with beta2 = 0.95 and
// weight_decay = 0.1 (Touvron 2023, arXiv:2302.13971, section 2.3).
struct AdamWConfig {
  double learning_rate = 1e-3;
  double beta1 = 0.9;    // how much of the mean gradient is kept from step to step
  double beta2 = 0.999;  // likewise of the mean squared gradient
  double eps = 1e-8;
  double weight_decay = 0.01;

  // Throws UsageError naming the first value out of range.
  void validate() const {
    check(std::isfinite(learning_rate) && learning_rate >= 0, "learning_rate", learning_rate, "0 or more");
    check(beta1 >= 0 && beta1 < 1, "beta1", beta1, "0 or more and below 1");
    check(beta2 >= 0 && beta2 < 1, "beta2", beta2, "0 or more and below 1");
    check(std::isfinite(eps) && eps >= 0, "eps", eps, "0 or more");
    check(std::isfinite(weight_decay) && weight_decay >= 0, "weight_decay", weight_decay, "0 or more");
  }

 private:
  static void check(bool holds, const char* name, double value, const char* expected) {
    if (holds) return;
    throw_error<UsageError>("AdamWConfig: " + std::string(name) + " is " + std::to_string(value) +
                            ", expected " + expected);
  }
};

// How one parameter is treated.
struct ParameterRule {
  bool frozen = false;  // stays as it is
  bool decayed = true;  // weight decay applies
};

// The state of one parameter, [the parameter's size].
template <std::floating_point Scalar>
struct AdamWMoments {
  Tensor<Scalar> exp_avg;     // m, the mean of the gradients
  Tensor<Scalar> exp_avg_sq;  // v, the mean of their squares
};

namespace loops {

// The five lines below for one parameter.
template <std::floating_point Scalar>
void adamw_update(Scalar* values, const Scalar* gradient, Scalar* m, Scalar* v, Index size, double decay,
                  double beta1, double beta2, double step_size, double root_correction2, double eps) {
  const Scalar keep = Scalar(1 - decay);
  const Scalar b1 = Scalar(beta1), c1 = Scalar(1 - beta1);
  const Scalar b2 = Scalar(beta2), c2 = Scalar(1 - beta2);
  const Scalar rate = Scalar(step_size), correction = Scalar(1 / root_correction2), small = Scalar(eps);
  for (Index i = 0; i < size; ++i) {
    m[i] = b1 * m[i] + c1 * gradient[i];
    v[i] = b2 * v[i] + c2 * gradient[i] * gradient[i];
    values[i] = keep * values[i] - rate * m[i] / (std::sqrt(v[i]) * correction + small);
  }
}

}  // namespace loops

// Decoupled weight decay (Loshchilov & Hutter 2017, arXiv:1711.05101, algorithm 2; torch.optim.AdamW). With
// gradient g, learning rate lr and t counting steps from 1:
//   p = p * (1 - lr * weight_decay)                     where the parameter is decayed
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   m_hat = m / (1 - beta1^t),  v_hat = v / (1 - beta2^t)      m and v begin at 0: this makes up for it
//   p = p - lr * m_hat / (sqrt(v_hat) + eps)
template <std::floating_point Scalar>
struct AdamW {
  AdamWConfig config;
  std::vector<ParameterRule> rules;  // one per parameter
  std::vector<AdamWMoments<Scalar>> moments;
  Index step_count = 0;  // t of the last step

  AdamW() = default;
  AdamW(const AdamWConfig& adamw_config, const std::vector<Parameter<Scalar>>& parameters,
        const std::vector<ParameterRule>& parameter_rules)
      : config(adamw_config), rules(parameter_rules) {
    config.validate();
    check_count("rules", rules.size(), parameters.size());
    for (const Parameter<Scalar>& parameter : parameters) {
      const Tensor<Scalar> zeros({{"parameter", parameter.size}});
      moments.push_back({zeros, zeros});
    }
  }

  // One step with config.learning_rate. Frozen parameters and their moments stay as they are.
  void step(std::vector<Parameter<Scalar>>& parameters, const std::vector<Parameter<Scalar>>& gradients) {
    check_count("parameters", parameters.size(), moments.size());
    check_count("gradients", gradients.size(), moments.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) check_size(parameters[i], gradients[i], moments[i]);
    step_count += 1;
    const double correction1 = 1 - std::pow(config.beta1, double(step_count));
    const double correction2 = 1 - std::pow(config.beta2, double(step_count));
    const double step_size = config.learning_rate / correction1;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (rules[i].frozen) continue;
      const double decay = rules[i].decayed ? config.learning_rate * config.weight_decay : 0.0;
      loops::adamw_update(parameters[i].values, gradients[i].values, moments[i].exp_avg.data(),
                          moments[i].exp_avg_sq.data(), parameters[i].size, decay, config.beta1, config.beta2,
                          step_size, std::sqrt(correction2), config.eps);
    }
  }

 private:
  static void check_count(const char* name, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    throw_error<ShapeError>("AdamW: " + std::to_string(found) + " " + name + ", expected " +
                            std::to_string(expected) + ", one per parameter");
  }
  static void check_size(const Parameter<Scalar>& parameter, const Parameter<Scalar>& gradient,
                         const AdamWMoments<Scalar>& moment) {
    if (gradient.size == parameter.size && moment.exp_avg.size() == parameter.size &&
        moment.exp_avg_sq.size() == parameter.size) {
      return;
    }
    throw_error<ShapeError>("AdamW: " + parameter.name + " has " + std::to_string(parameter.size) +
                            " numbers, its gradient " + std::to_string(gradient.size) + ", its moments " +
                            std::to_string(moment.exp_avg.size()) + " and " +
                            std::to_string(moment.exp_avg_sq.size()));
  }
};

}  // namespace glassbox
