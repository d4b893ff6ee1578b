// The memory below a tensor: aligned, zeroed, its size checked.
#pragma once

#include <cstring>
#include <limits>
#include <new>

#include "glassbox/axis.hpp"

namespace glassbox {

// Constant whatever -march says, so that units compiled with different flags may pass tensors to each other.
inline constexpr std::align_val_t buffer_alignment{64};

// Room for the product of the sizes, the second last taken as reserved_rows, every byte 0; null for no
// elements. Throws ShapeError for a negative size or a product that 64 bits cannot hold.
inline void* allocate_zeroed(const Axis* axes, int rank, Index reserved_rows, Index element_bytes) {
  const Index limit = (std::numeric_limits<Index>::max)() / element_bytes;
  Index count = rank == 0 ? 0 : 1;
  for (int i = 0; i < rank; ++i) {
    const Index factor = i == rank - 2 ? reserved_rows : axes[i].size;
    if (factor < 0) throw_error<ShapeError>("Tensor " + shape_string(axes, rank) + ": a size is negative");
    if (count > 0 && factor > limit / count) {
      throw_error<ShapeError>("Tensor " + shape_string(axes, rank) + ": more bytes than 64 bits can count");
    }
    count *= factor;
  }
  if (count == 0) return nullptr;
  const std::size_t bytes = static_cast<std::size_t>(count * element_bytes);
  void* buffer = ::operator new(bytes, buffer_alignment);
  std::memset(buffer, 0, bytes);
  return buffer;
}

inline void release_buffer(void* buffer) { ::operator delete(buffer, buffer_alignment); }

}  // namespace glassbox
