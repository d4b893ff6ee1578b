// Axis: a name and a size; Index and TokenId; the Eigen views every header uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <Eigen/Core>
#include <string>
#include <type_traits>

#include "glassbox/error.hpp"

namespace glassbox {

using Index = Eigen::Index;
using TokenId = std::int64_t;  // as torch's input_ids

// Row-major like PyTorch and safetensors. A view is a pointer with sizes: assigning through it writes the
// tensor.
template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using RowVector = Eigen::Matrix<T, 1, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using MatrixView = Eigen::Map<Matrix<T>>;
template <typename T>
using ConstMatrixView = Eigen::Map<const Matrix<T>>;
template <typename T>
using RowView = Eigen::Map<RowVector<T>>;
template <typename T>
using ConstRowView = Eigen::Map<const RowVector<T>>;

// One axis. The name lies inside the object, so that a debugger can read it without running the program.
struct Axis {
  char name[24] = {};
  Index size = 0;

  Axis() = default;
  Axis(const char* axis_name, Index axis_size) : size(axis_size) {
    const std::size_t length = std::strlen(axis_name);
    if (length >= sizeof name)
      throw_error<ShapeError>("Axis: name longer than 23 characters: " + std::string(axis_name));
    std::memcpy(name, axis_name, length);
  }
};

// The short name of an element type, as printed everywhere: f32, f64, i64, bool.
template <typename T>
constexpr const char* dtype_name() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return "i64";
  if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return "i32";
  return "unknown";
}

// "[batch=1, head=8, query=5, key=5]"
inline std::string shape_string(const Axis* axes, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::string(axes[i].name) + "=" + std::to_string(axes[i].size);
  }
  return text + "]";
}

}  // namespace glassbox
