// Memory that programs that run long ask for and give back again and again.
#pragma once

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace examples {

// Freed memory stays with the program. Otherwise glibc returns each large block to the system, and the next
// step begins by faulting it in again, page after page: a third of the time of a training step. One arena,
// since only the main one can grow without limit. Does nothing elsewhere than with glibc.
inline void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);
#endif
}

}  // namespace examples
