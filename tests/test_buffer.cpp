// Faults that must turn this red: the memory not zeroed; alignment other than 64; a negative size or an
// overflowing product accepted; reserved rows taken for the last axis or not at all.
#include "glassbox/buffer.hpp"

#include <cstdint>

#include "support/expect_near.hpp"

namespace glassbox {
namespace buffer_test {

using test_support::throws;

TEST(Buffer, IsZeroEvenWhereMemoryIsUsedAgain) {
  const Axis axes[] = {{"row", 3}, {"column", 37}};
  for (int i = 0; i < 50; ++i) {
    unsigned char* bytes = static_cast<unsigned char*>(allocate_zeroed(axes, 2, 3, 4));
    for (int b = 0; b < 3 * 37 * 4; ++b) ASSERT_EQ(bytes[b], 0) << "byte " << b << " of round " << i;
    std::memset(bytes, 0xFF, 3 * 37 * 4);
    release_buffer(bytes);
  }
}

TEST(Buffer, IsAlignedTo64Bytes) {
  EXPECT_EQ(static_cast<std::size_t>(buffer_alignment), 64u);
  for (Index size = 1; size < 40; ++size) {
    const Axis axes[] = {{"hidden", size}};
    void* buffer = allocate_zeroed(axes, 1, 1, 4);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % 64, 0u);
    release_buffer(buffer);
  }
}

TEST(Buffer, NoElementsIsNull) {
  const Axis axes[] = {{"batch", 2}, {"key", 0}, {"head_dim", 4}};
  EXPECT_EQ(allocate_zeroed(axes, 3, 0, 8), nullptr);
  EXPECT_EQ(allocate_zeroed(axes, 0, 0, 8), nullptr);
  release_buffer(nullptr);
}

// [2, 1, 3] with room for 100 rows: the whole room is there to be written (the sanitizer sees it).
TEST(Buffer, ReservedRowsStandForTheSecondLastAxis) {
  const Axis axes[] = {{"head", 2}, {"key", 1}, {"head_dim", 3}};
  double* numbers = static_cast<double*>(allocate_zeroed(axes, 3, 100, 8));
  for (int i = 0; i < 2 * 100 * 3; ++i) {
    ASSERT_EQ(numbers[i], 0.0);
    numbers[i] = 1;
  }
  release_buffer(numbers);
  const Axis none_used[] = {{"key", 0}, {"head_dim", 3}};
  void* reserved = allocate_zeroed(none_used, 2, 5, 8);
  EXPECT_NE(reserved, nullptr);
  release_buffer(reserved);
}

TEST(Buffer, NegativeSizeIsAnError) {
  const Axis axes[] = {{"batch", 2}, {"hidden", -3}};
  EXPECT_TRUE(throws<ShapeError>([&] { allocate_zeroed(axes, 2, 2, 4); },
                                 "Tensor [batch=2, hidden=-3]: a size is negative"));
}

TEST(Buffer, ProductBeyond64BitsIsAnError) {
  const Axis axes[] = {{"batch", 4294967296}, {"hidden", 4294967296}};
  EXPECT_TRUE(
      throws<ShapeError>([&] { allocate_zeroed(axes, 2, 4294967296, 4); },
                         "Tensor [batch=4294967296, hidden=4294967296]: more bytes than 64 bits can count"));
  // The count fits, the bytes do not.
  const Axis bytes[] = {{"hidden", 2305843009213693952}};
  EXPECT_TRUE(throws<ShapeError>([&] { allocate_zeroed(bytes, 1, 1, 4); },
                                 "Tensor [hidden=2305843009213693952]: more bytes than 64 bits can count"));
}

}  // namespace buffer_test
}  // namespace glassbox
