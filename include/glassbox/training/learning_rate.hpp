// The learning rate over the course of a training: up from zero, then down along a cosine.
#pragma once

#include <cmath>
#include <string>

#include "glassbox/axis.hpp"

namespace glassbox {

// Warm-up, while the optimizer's means are still few gradients old, then half a cosine (Loshchilov & Hutter
// 2016, arXiv:1608.03983, eq. 5 without restarts). Steps count from 0:
//   step < warmup_steps:  peak * (step + 1) / warmup_steps
//   step < total_steps:   lowest + (peak - lowest) * (1 + cos(pi * progress)) / 2,
//                         progress = (step - warmup_steps) / (total_steps - warmup_steps)
//   afterwards:           lowest
struct LearningRateSchedule {
  double peak = 1e-3;
  double lowest = 0;
  Index warmup_steps = 0;
  Index total_steps = 0;

  double at(Index step) const {
    if (step < warmup_steps) return peak * double(step + 1) / double(warmup_steps);
    if (step >= total_steps) return lowest;
    const double progress = double(step - warmup_steps) / double(total_steps - warmup_steps);
    return lowest + (peak - lowest) * (1 + std::cos(pi * progress)) / 2;
  }

  // Throws UsageError naming what contradicts.
  void validate() const {
    if (std::isfinite(peak) && peak >= 0 && lowest >= 0 && lowest <= peak && warmup_steps >= 0 &&
        total_steps >= warmup_steps) {
      return;
    }
    throw_error<UsageError>("LearningRateSchedule: peak " + std::to_string(peak) + ", lowest " +
                            std::to_string(lowest) + ", warmup_steps " + std::to_string(warmup_steps) +
                            ", total_steps " + std::to_string(total_steps) +
                            ": expected 0 <= lowest <= peak and 0 <= warmup_steps <= total_steps");
  }

 private:
  static constexpr double pi = 3.14159265358979323846;
};

}  // namespace glassbox
