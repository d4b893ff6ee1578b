// stage(): the one function that every intermediate value passes on its way from text to token.
//
//   Tensor<Scalar> scores = scaled_scores(query_states, keys);  // [batch, head, query, key]
//   stage("scores", layer, scores);
//
// A debugger stops in it (`break glassbox::stage if $_streq(name, "scores")`), a hook reads or changes the
// tensor there, and with neither it does nothing. stage_table.hpp says what each name means.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "glassbox/stage_break.hpp"
#include "glassbox/stage_log.hpp"
#include "glassbox/stage_record.hpp"

namespace glassbox {

// What the environment asks for: see stage_log.hpp and stage_break.hpp. Most programs begin with none.
inline std::vector<StageHook> environment_hooks() {
  std::vector<StageHook> hooks;
  if (is_asked_for("GLASSBOX_LOG")) hooks.push_back(StageHook{log_stage, nullptr});
  if (is_asked_for("GLASSBOX_BREAK")) hooks.push_back(StageHook{break_at_stage, nullptr});
  return hooks;
}

// The one global of the library: where the computation is. Debuggers read it as plain data.
struct StageState {
  Index step = 0;         // 0: prefill; n: the n-th decode step. generate.hpp counts
  const char* name = "";  // the last stage passed, and its layer
  Index layer = -1;
  Index count = 0;                  // stages passed since the thread began
  std::vector<std::string> pieces;  // the text so far, the current input included, where the program knows it
  std::vector<StageHook> hooks = environment_hooks();  // called in this order at every stage
};

// The state of the thread that asked for its own last, so of the one that passed a stage last. Debuggers come
// to it here: lldb 14 cannot read a thread_local.
inline std::atomic<StageState*> latest_stage_state = nullptr;

inline StageState& stage_state() {
  thread_local StageState state;
  latest_stage_state.store(&state, std::memory_order_relaxed);
  return state;
}

// " (after stage masked_scores of layer 3, step 0)" for messages of functions that do not know where they are
// called; nothing before the first stage of the thread.
inline std::string after_stage() {
  const StageState& state = stage_state();
  if (state.count == 0) return "";
  const std::string layer = state.layer < 0 ? "" : " of layer " + std::to_string(state.layer);
  return " (after stage " + std::string(state.name) + layer + ", step " + std::to_string(state.step) + ")";
}

// Announces `tensor` as the complete value of stage `name` in `layer` (-1: outside the layers). Hooks may
// change the numbers in it, and the computation goes on with what they left; a changed shape is an error.
template <typename T>
GLASSBOX_NOINLINE void stage(const char* name, Index layer, Tensor<T>& tensor,
                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  StageState& state = stage_state();
  state.name = name;
  state.layer = layer;
  state.count += 1;
  if (state.hooks.empty()) return;
  StageRecord record;
  record.name = name;
  record.layer = layer;
  record.step = state.step;
  record.file = file;
  record.line = line;
  set_record_tensor(record, tensor);
  const std::string shape_before = shape_string(tensor);
  for (std::size_t i = 0; i < state.hooks.size(); ++i) {
    const StageHook hook = state.hooks[i];
    hook.call(hook.context, record);
  }
  const std::string shape_after = shape_string(tensor);
  if (shape_after != shape_before) {
    throw_error<ShapeError>("stage " + std::string(name) + ": a hook changed the shape from " + shape_before +
                            " to " + shape_after);
  }
}

// Calls `callable(StageRecord&)` at every stage of this thread while the object lives, which must end in the
// thread that made it:
//   ScopedStageHook hook([](StageRecord& record) { ... });
template <typename Callable>
class ScopedStageHook {
 public:
  explicit ScopedStageHook(Callable callable) : callable_(std::move(callable)) {
    stage_state().hooks.push_back(StageHook{&ScopedStageHook::call, this});
  }
  ScopedStageHook(const ScopedStageHook&) = delete;
  ScopedStageHook& operator=(const ScopedStageHook&) = delete;
  ~ScopedStageHook() {
    std::vector<StageHook>& hooks = stage_state().hooks;
    for (std::size_t i = hooks.size(); i-- > 0;) {
      if (hooks[i].context == this) hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

 private:
  Callable callable_;
  static void call(void* context, StageRecord& record) {
    static_cast<ScopedStageHook*>(context)->callable_(record);
  }
};

}  // namespace glassbox
