// WeightMatrix: a weight [out, in] in the type the checkpoint stores, owned or borrowed from a mapped file.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "glassbox/kernels/stored_types.hpp"
#include "glassbox/tensor.hpp"

namespace glassbox {

// How a checkpoint stores the numbers of a weight.
enum class StoredType : std::uint8_t { f32, f64, f16, bf16 };

inline const char* stored_type_name(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return "f32";
    case StoredType::f64:
      return "f64";
    case StoredType::f16:
      return "f16";
    case StoredType::bf16:
      return "bf16";
  }
  return "unknown";
}

inline Index stored_type_bytes(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return 4;
    case StoredType::f64:
      return 8;
    case StoredType::f16:
      return 2;
    case StoredType::bf16:
      return 2;
  }
  return 0;
}

// One row per output, as torch.nn.Linear. A copy of an owned matrix owns its numbers; a copy of a borrowed
// one shares the file.
struct WeightMatrix {
  StoredType type = StoredType::f32;
  Axis out;                                   // rows, e.g. {"hidden", 64}
  Axis in;                                    // columns
  std::vector<std::byte> owned;               // the numbers, if this matrix owns them
  const std::byte* borrowed = nullptr;        // else where they lie, row after row
  std::shared_ptr<const void> borrowed_from;  // keeps the mapped file open

  WeightMatrix() = default;
  WeightMatrix(const WeightMatrix&) = default;
  WeightMatrix& operator=(const WeightMatrix&) = default;
  WeightMatrix(WeightMatrix&& other) noexcept { swap(other); }  // the other is empty then
  WeightMatrix& operator=(WeightMatrix&& other) noexcept {
    WeightMatrix taken(std::move(other));
    swap(taken);
    return *this;
  }
  void swap(WeightMatrix& other) noexcept {
    std::swap(type, other.type);
    std::swap(out, other.out);
    std::swap(in, other.in);
    std::swap(owned, other.owned);
    std::swap(borrowed, other.borrowed);
    std::swap(borrowed_from, other.borrowed_from);
  }

  bool empty() const { return owned.empty() && borrowed == nullptr; }
  const std::byte* data() const { return owned.empty() ? borrowed : owned.data(); }
  Index bytes() const { return out.size * in.size * stored_type_bytes(type); }

  // Row o as numbers of another type, widened exactly: output[i] = weight[o, i].
  template <typename Scalar>
  void read_row(Index o, RowView<Scalar> output) const;

  // The numbers themselves, for code that knows the type. Throws ConfigError where it is another.
  template <typename Stored>
  const Stored* values() const {
    check_stored(stored_type_of<Stored>());
    return reinterpret_cast<const Stored*>(data());
  }

  // An owned matrix with the numbers of a tensor [out, in].
  template <typename Scalar>
  static WeightMatrix from_tensor(const Tensor<Scalar>& tensor);

  template <typename Stored>
  static constexpr StoredType stored_type_of() {
    if constexpr (std::is_same_v<Stored, double>) return StoredType::f64;
    if constexpr (std::is_same_v<Stored, Half>) return StoredType::f16;
    if constexpr (std::is_same_v<Stored, BFloat16>) return StoredType::bf16;
    return StoredType::f32;
  }

  void check_stored(StoredType wanted) const {
    if (type == wanted) return;
    throw_error<ConfigError>(std::string("weight ") + shape_string(*this) + " is stored as " +
                             stored_type_name(type) + ", not " + stored_type_name(wanted));
  }

  // "[out=64, in=172]" under the axes' names
  friend std::string shape_string(const WeightMatrix& weight) {
    const Axis axes[2] = {weight.out, weight.in};
    return shape_string(axes, 2);
  }
};

template <typename Scalar>
void WeightMatrix::read_row(Index o, RowView<Scalar> output) const {
  if (o < 0 || o >= out.size || output.size() != in.size) {
    throw_error<ShapeError>("WeightMatrix::read_row: row " + std::to_string(o) + " of " +
                            shape_string(*this) + " into a row of " + std::to_string(output.size()));
  }
  if (empty())
    throw_error<ShapeError>("WeightMatrix::read_row: " + shape_string(*this) + " was never loaded");
  const Index first = o * in.size;
  switch (type) {
    case StoredType::f32:
      loops::widen_row(values<float>() + first, in.size, output.data());
      return;
    case StoredType::f64:
      loops::widen_row(values<double>() + first, in.size, output.data());
      return;
    case StoredType::f16:
      loops::widen_row(values<Half>() + first, in.size, output.data());
      return;
    case StoredType::bf16:
      loops::widen_row(values<BFloat16>() + first, in.size, output.data());
      return;
  }
}

template <typename Scalar>
WeightMatrix WeightMatrix::from_tensor(const Tensor<Scalar>& tensor) {
  if (tensor.rank() != 2) {
    throw_error<ShapeError>("WeightMatrix::from_tensor: " + shape_string(tensor) + " must be [out, in]");
  }
  WeightMatrix weight;
  weight.type = stored_type_of<Scalar>();
  weight.out = tensor.axis(0);
  weight.in = tensor.axis(1);
  weight.owned.resize(static_cast<std::size_t>(weight.bytes()));
  if (weight.owned.empty()) return weight;  // without numbers there is no memory to copy from or to
  for (Index o = 0; o < weight.out.size; ++o) {
    const std::size_t row_bytes = static_cast<std::size_t>(weight.in.size) * sizeof(Scalar);
    std::memcpy(weight.owned.data() + static_cast<std::size_t>(o) * row_bytes, tensor.row_data(o), row_bytes);
  }
  return weight;
}

}  // namespace glassbox
