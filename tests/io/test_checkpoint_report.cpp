// Borrowed weights and member paths.
// Faults that must turn this red: misaligned numbers read in place; aligned ones copied; the file closed
// while a weight still refers to it.
#include "glassbox/io/checkpoint_report.hpp"

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_checkpoint_report_test {

using test_support::near_values;
using test_support::TemporaryFolder;

TEST(MemberPath, LayersAreIndexed) {
  EXPECT_EQ(member_path("model.layers.12.mlp.up_proj.weight"), "model.layers[12].mlp.up_proj.weight");
  EXPECT_EQ(member_path("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(member_path("model.layers.12"), "model.layers.12");
}

// A file with one byte and then the floats 1 to 6, so that they are misaligned from byte 1 on.
class BorrowedWeight : public ::testing::Test {
 protected:
  TemporaryFolder folder_;

  std::shared_ptr<const MappedFile> file_with_numbers(std::size_t begin) {
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    std::string bytes(begin, 'x');
    bytes += std::string(reinterpret_cast<const char*>(numbers), sizeof numbers);
    return std::make_shared<const MappedFile>(folder_.write("numbers", bytes));
  }

  static void expect_numbers(const WeightMatrix& weight) {
    Tensor<double> row({{"in", 3}});
    weight.read_row<double>(1, row.row(0));
    EXPECT_TRUE(near_values(row, {4, 5, 6}, 0));
  }
};

TEST_F(BorrowedWeight, AlignedNumbersStayInTheFile) {
  std::shared_ptr<const MappedFile> file = file_with_numbers(4);
  const WeightMatrix weight = borrow_weight(file, file->data() + 4, StoredType::f32, {"out", 2}, {"in", 3});
  EXPECT_TRUE(weight.owned.empty());
  EXPECT_EQ(weight.data(), file->data() + 4);
  file.reset();  // the weight keeps it open
  expect_numbers(weight);
}

TEST_F(BorrowedWeight, MisalignedNumbersAreCopied) {
  for (const std::size_t begin : {1u, 2u, 3u}) {
    const std::shared_ptr<const MappedFile> file = file_with_numbers(begin);
    const WeightMatrix weight =
        borrow_weight(file, file->data() + begin, StoredType::f32, {"out", 2}, {"in", 3});
    EXPECT_EQ(weight.owned.size(), 24u);
    EXPECT_EQ(weight.borrowed, nullptr);
    expect_numbers(weight);
  }
}

TEST_F(BorrowedWeight, SixteenBitNumbersNeedOnlyEvenAddresses) {
  const std::shared_ptr<const MappedFile> file = file_with_numbers(2);
  const WeightMatrix weight = borrow_weight(file, file->data() + 2, StoredType::bf16, {"out", 4}, {"in", 3});
  EXPECT_TRUE(weight.owned.empty());
}

}  // namespace io_checkpoint_report_test
}  // namespace glassbox
