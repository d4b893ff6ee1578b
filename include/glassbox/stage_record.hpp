// What a hook is given at a stage: one value on its way from text to token.
#pragma once

#include "glassbox/tensor.hpp"

namespace glassbox {

// Exactly one of the tensor pointers is set.
struct StageRecord {
  const char* name = "";  // stage_table.hpp
  Index layer = -1;       // -1: outside the decoder layers
  Index step = 0;         // 0: prefill; n: the n-th decode step
  Tensor<float>* f32 = nullptr;
  Tensor<double>* f64 = nullptr;
  Tensor<std::int64_t>* i64 = nullptr;
  Tensor<bool>* boolean = nullptr;
  const char* file = "";  // where the value was made
  int line = 0;
};

inline void set_record_tensor(StageRecord& record, Tensor<float>& tensor) { record.f32 = &tensor; }
inline void set_record_tensor(StageRecord& record, Tensor<double>& tensor) { record.f64 = &tensor; }
inline void set_record_tensor(StageRecord& record, Tensor<std::int64_t>& tensor) { record.i64 = &tensor; }
inline void set_record_tensor(StageRecord& record, Tensor<bool>& tensor) { record.boolean = &tensor; }

// A function pointer with the context it wants; ScopedStageHook makes one of any callable.
struct StageHook {
  void (*call)(void* context, StageRecord& record) = nullptr;
  void* context = nullptr;
};

}  // namespace glassbox
