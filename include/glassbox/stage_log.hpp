// GLASSBOX_LOG=FILE ./program writes every stage the program passes into FILE, a line each, where there is no
// terminal to debug in:
//
//   step 0  layer 3  scores  f32[query=5, key=5] min=-0.7 max=1.2 mean=0.2 nan=0 inf=0  attention.hpp:123
#pragma once

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "glassbox/stage_record.hpp"

namespace glassbox {

// The statistics of a tensor: of the finite numbers, summed in double; the others are counted apart.
struct TensorSummary {
  double min = 0, max = 0, sum = 0;
  Index finite = 0, nan = 0, inf = 0;

  void add(double value) {
    if (std::isnan(value)) {
      nan += 1;
      return;
    }
    if (std::isinf(value)) {
      inf += 1;
      return;
    }
    if (finite == 0 || value < min) min = value;
    if (finite == 0 || value > max) max = value;
    sum += value;
    finite += 1;
  }
};

// "f32[batch=1, query=5] min=-0.7344 max=1.15 mean=0.1817 nan=0 inf=0", as the debuggers show it.
template <typename T>
std::string summary_text(const Tensor<T>& tensor) {
  TensorSummary summary;
  for (Index r = 0; r < tensor.rows(); ++r) {
    const T* const row = tensor.row_data(r);
    for (Index c = 0; c < tensor.cols(); ++c) summary.add(static_cast<double>(row[c]));
  }
  char numbers[120] = "min=- max=- mean=-";
  if (summary.finite > 0) {
    std::snprintf(numbers, sizeof numbers, "min=%.4g max=%.4g mean=%.4g", summary.min, summary.max,
                  summary.sum / static_cast<double>(summary.finite));
  }
  return dtype_name<T>() + shape_string(tensor) + " " + numbers + " nan=" + std::to_string(summary.nan) +
         " inf=" + std::to_string(summary.inf);
}

inline std::string summary_text(const StageRecord& record) {
  if (record.f32 != nullptr) return summary_text(*record.f32);
  if (record.f64 != nullptr) return summary_text(*record.f64);
  if (record.i64 != nullptr) return summary_text(*record.i64);
  if (record.boolean != nullptr) return summary_text(*record.boolean);
  return "no tensor";
}

// "attention.hpp:123": where the value was made.
inline std::string place_text(const StageRecord& record) {
  const std::string file = record.file;
  return file.substr(file.find_last_of("/\\") + 1) + ":" + std::to_string(record.line);
}

// "scores, layer 3, step 0"
inline std::string stage_text(const StageRecord& record) {
  const std::string layer = record.layer < 0 ? "" : ", layer " + std::to_string(record.layer);
  return record.name + layer + ", step " + std::to_string(record.step);
}

// A file that takes one line a stage, written out at once, so that it is whole even if the program crashes.
class StageLog {
 public:
  // Throws FormatError where the file cannot be written. Empties a file that is there.
  explicit StageLog(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) {
      throw_error<FormatError>("GLASSBOX_LOG: " + path + ": cannot be written: " + std::strerror(errno));
    }
  }
  StageLog(const StageLog&) = delete;
  StageLog& operator=(const StageLog&) = delete;
  ~StageLog() { std::fclose(file_); }

  void write(const StageRecord& record) {
    const std::string layer = record.layer < 0 ? "-" : std::to_string(record.layer);
    const std::string line = "step " + std::to_string(record.step) + "  layer " + layer + "  " + record.name +
                             "  " + summary_text(record) + "  " + place_text(record) + "\n";
    const bool written = std::fputs(line.c_str(), file_) >= 0 && std::fflush(file_) == 0;
    if (!written)
      throw_error<FormatError>("GLASSBOX_LOG: " + path_ +
                               ": no more can be written: " + std::strerror(errno));
  }

 private:
  std::string path_;
  std::FILE* file_;
};

// Whether an environment variable is set, and not to nothing.
inline bool is_asked_for(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// The log that the environment asks for; all threads write into the one file.
inline StageLog& stage_log() {
  static StageLog log(std::getenv("GLASSBOX_LOG"));
  return log;
}

inline void log_stage(void* /*context*/, StageRecord& record) { stage_log().write(record); }

}  // namespace glassbox
