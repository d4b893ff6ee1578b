// GLASSBOX_BREAK=PLACE gdb ./program stops the debugger at a stage, without a breakpoint being set: in a
// program started by a script, on another machine, in one of many processes.
//
//   GLASSBOX_BREAK='scores:layer=3:query>=16'
//
// A place is the name of a stage, or * for each of them, and any conditions, each behind a colon:
//   layer=N   step=N   AXIS=N   AXIS>=N (the size of an axis)   hit=N (the N-th time that all else is so)
// Several places are separated by commas. Outside a debugger a place that is reached is said on standard
// error, and the program goes on; so is a place that was never reached, when the program ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "glassbox/split_text.hpp"
#include "glassbox/stage_log.hpp"

namespace glassbox {

// NAME=N or NAME>=N.
struct StageCondition {
  std::string name;  // "layer", "step" or an axis
  Index number = 0;
  bool or_more = false;

  bool holds_for(Index value) const { return or_more ? value >= number : value == number; }
};

// The size of the axis of that name; -1: there is none.
template <typename T>
Index axis_size(const Tensor<T>& tensor, const std::string& name) {
  for (int i = 0; i < tensor.rank(); ++i) {
    if (name == tensor.axis(i).name) return tensor.dim(i);
  }
  return -1;
}

inline Index axis_size(const StageRecord& record, const std::string& name) {
  if (record.f32 != nullptr) return axis_size(*record.f32, name);
  if (record.f64 != nullptr) return axis_size(*record.f64, name);
  if (record.i64 != nullptr) return axis_size(*record.i64, name);
  if (record.boolean != nullptr) return axis_size(*record.boolean, name);
  return -1;
}

// One place of GLASSBOX_BREAK.
struct StageRequest {
  std::string text;   // as it was given
  std::string stage;  // "*": every one
  std::vector<StageCondition> conditions;
  Index hit = 0;   // 0: every time
  Index seen = 0;  // how often all conditions held

  // Whether the program is at this place; counts it then.
  bool is_reached(const StageRecord& record) {
    if (stage != "*" && stage != record.name) return false;
    for (const StageCondition& condition : conditions) {
      if (!holds(condition, record)) return false;
    }
    const Index seen_now = std::atomic_ref<Index>(seen).fetch_add(1) + 1;  // threads pass stages side by side
    return hit == 0 || seen_now == hit;
  }

 private:
  static bool holds(const StageCondition& condition, const StageRecord& record) {
    if (condition.name == "layer") return condition.holds_for(record.layer);
    if (condition.name == "step") return condition.holds_for(record.step);
    const Index size = axis_size(record, condition.name);
    return size >= 0 && condition.holds_for(size);
  }
};

// "layer=3" or "query>=16". Throws UsageError for anything else.
inline StageCondition parse_stage_condition(const std::string& text) {
  const std::size_t equals = text.find('=');
  StageCondition condition;
  condition.or_more = equals != std::string::npos && equals > 0 && text[equals - 1] == '>';
  condition.name = text.substr(0, condition.or_more ? equals - 1 : equals);
  const std::string digits = equals == std::string::npos ? "" : text.substr(equals + 1);
  char* end = nullptr;
  condition.number = static_cast<Index>(std::strtoll(digits.c_str(), &end, 10));
  const bool is_number = !digits.empty() && *end == '\0';
  const std::string found = "GLASSBOX_BREAK: found \"" + text;
  if (is_number && digits.size() > 18)
    throw_error<UsageError>(found + "\", a number too large: at most 18 digits");
  if (condition.name.empty() || !is_number) {
    throw_error<UsageError>(found + "\", expected layer=N, step=N, hit=N, AXIS=N or AXIS>=N");
  }
  return condition;
}

// "scores:layer=3:hit=2". Throws UsageError where it is not understood.
inline StageRequest parse_stage_request(const std::string& text) {
  StageRequest request;
  request.text = text;
  const std::vector<std::string> parts = split_text(text, ':');
  request.stage = parts[0];
  if (request.stage.empty() || request.stage.find('=') != std::string::npos) {
    throw_error<UsageError>("GLASSBOX_BREAK: found \"" + text +
                            "\", expected the name of a stage in front, as in scores:layer=3");
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const StageCondition condition = parse_stage_condition(parts[i]);
    if (condition.name != "hit") {
      request.conditions.push_back(condition);
      continue;
    }
    if (condition.or_more || condition.number < 1) {
      throw_error<UsageError>("GLASSBOX_BREAK: found \"" + parts[i] + "\", expected hit=N with N at least 1");
    }
    request.hit = condition.number;
  }
  return request;
}

// Whether a debugger holds this process. Linux tells it in a file; elsewhere the answer is no.
inline bool is_under_debugger() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return false;
  long tracer = 0;
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr) std::sscanf(line, "TracerPid: %ld", &tracer);
  std::fclose(status);
  return tracer != 0;
}

inline volatile std::sig_atomic_t trap_was_left = 0;

// Stops the debugger here, three calls below the function that passes the stage; on x86 by an instruction,
// since raise() would stop inside the C library. The handler is for tracers that take no trap: strace.
GLASSBOX_NOINLINE inline void stop_debugger() {
#if defined(__linux__)
  static std::mutex one_thread;
  const std::lock_guard<std::mutex> lock(one_thread);
  struct sigaction before, ours = {};
  ours.sa_handler = [](int) { trap_was_left = 1; };
  sigaction(SIGTRAP, nullptr, &before);
  const bool is_default = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
  trap_was_left = 0;
  if (is_default) sigaction(SIGTRAP, &ours, nullptr);
#if defined(__x86_64__) || defined(__i386__)
  __asm__ volatile("int3\n\tnop");
#else
  std::raise(SIGTRAP);
#endif
  if (is_default) sigaction(SIGTRAP, &before, nullptr);
  if (trap_was_left != 0)
    std::fputs("glassbox: GLASSBOX_BREAK: no debugger took the stop: going on\n", stderr);
#endif
}

// The places of one GLASSBOX_BREAK.
class StageBreaks {
 public:
  explicit StageBreaks(const std::string& text) {
    for (const std::string& place : split_text(text, ',')) requests_.push_back(parse_stage_request(place));
  }
  StageBreaks(const StageBreaks&) = delete;
  StageBreaks& operator=(const StageBreaks&) = delete;
  ~StageBreaks() {
    for (const StageRequest& request : requests_) {
      if (request.seen >= (std::max)(request.hit, Index(1))) continue;
      std::fprintf(stderr, "glassbox: GLASSBOX_BREAK: %s was never reached\n", request.text.c_str());
    }
  }

  // Whether one of the places is reached here; all of them count.
  bool is_reached(const StageRecord& record) {
    bool any = false;
    for (StageRequest& request : requests_) any = request.is_reached(record) || any;
    return any;
  }

 private:
  std::vector<StageRequest> requests_;
};

// What the environment asks for, for all threads.
inline StageBreaks& stage_breaks() {
  static StageBreaks breaks(std::getenv("GLASSBOX_BREAK"));
  return breaks;
}

// The hook: says where the program is, and stops a debugger if one holds it.
inline void break_at_stage(void* /*context*/, StageRecord& record) {
  if (!stage_breaks().is_reached(record)) return;
  const bool stops = is_under_debugger();
  std::fprintf(stderr, "glassbox: GLASSBOX_BREAK: %s, %s, made at %s%s\n", stage_text(record).c_str(),
               summary_text(record).c_str(), place_text(record).c_str(),
               stops ? "" : " (no debugger: going on)");
  if (stops) stop_debugger();
}

}  // namespace glassbox
