// stage_record.hpp: a record points to the tensor itself, under its element type.
//
// Faults that must turn this file red: a tensor set under another type; a copy instead of the tensor.
#include "glassbox/stage_record.hpp"

#include <gtest/gtest.h>

namespace glassbox {
namespace stage_record_test {

TEST(StageRecord, EachElementTypeHasItsPointer) {
  Tensor<float> f32({{"hidden", 1}});
  Tensor<double> f64({{"hidden", 1}});
  Tensor<std::int64_t> i64({{"seq", 1}});
  Tensor<bool> boolean({{"key", 1}});
  StageRecord records[4];
  set_record_tensor(records[0], f32);
  set_record_tensor(records[1], f64);
  set_record_tensor(records[2], i64);
  set_record_tensor(records[3], boolean);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].f32, i == 0 ? &f32 : nullptr);
    EXPECT_EQ(records[i].f64, i == 1 ? &f64 : nullptr);
    EXPECT_EQ(records[i].i64, i == 2 ? &i64 : nullptr);
    EXPECT_EQ(records[i].boolean, i == 3 ? &boolean : nullptr);
  }
}

}  // namespace stage_record_test
}  // namespace glassbox
