// One variable of each kind that the debuggers' printers show, with numbers one can check by eye. The scripts
// beside this file stop at the lines marked STOP.
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "glassbox/stage.hpp"
#include "glassbox/weight.hpp"

glassbox::Tensor<float> global_tensor({{"row", 2}});

using glassbox::BFloat16;
using glassbox::Half;
using glassbox::Index;
using glassbox::StageRecord;
using glassbox::Tensor;
using glassbox::WeightMatrix;

namespace {

// 1, 2, 3, ...
template <typename T>
void count_up(Tensor<T>& tensor) {
  for (Index r = 0; r < tensor.rows(); ++r) {
    for (Index i = 0; i < tensor.cols(); ++i) tensor.row(r)[i] = static_cast<T>(r * tensor.cols() + i + 1);
  }
}

Tensor<float> make_scores() {
  Tensor<float> scores({{"batch", 1}, {"head", 2}, {"query", 3}, {"key", 3}});
  for (Index head = 0; head < 2; ++head) {
    for (Index query = 0; query < 3; ++query) {
      for (Index key = 0; key < 3; ++key) {
        const float value = static_cast<float>(head) + 0.25f * static_cast<float>(query - key);
        scores(0, head, query, key) = key > query ? -std::numeric_limits<float>::infinity() : value;
      }
    }
  }
  return scores;
}

WeightMatrix stored_as(glassbox::StoredType type, const void* numbers, Index rows, Index columns) {
  WeightMatrix weight;
  weight.type = type;
  weight.out = glassbox::Axis("out", rows);
  weight.in = glassbox::Axis("in", columns);
  weight.borrowed = static_cast<const std::byte*>(numbers);
  return weight;
}

// Glassbox's own values.
void tensors() {
  Tensor<float> scores = make_scores();
  Tensor<double> hundred({{"row", 10}, {"column", 10}});
  count_up(hundred);
  Tensor<double> with_nan = hundred;
  with_nan(7, 3) = std::nan("");
  Tensor<std::int64_t> input_ids({{"batch", 2}, {"seq", 4}});
  count_up(input_ids);
  Tensor<bool> causal_mask({{"batch", 1}, {"head", 1}, {"query", 3}, {"key", 3}});
  for (Index query = 0; query < 3; ++query) {
    for (Index key = 0; key <= query; ++key) causal_mask(0, 0, query, key) = true;
  }
  // Appended thrice, so that memory is reserved after each matrix: two heads of three rows, room for four.
  Tensor<float> cached_keys({{"batch", 1}, {"kv_head", 2}, {"key", 0}, {"head_dim", 2}});
  Tensor<float> key_states({{"batch", 1}, {"kv_head", 2}, {"key", 1}, {"head_dim", 2}});
  for (int token = 0; token < 3; ++token) {
    count_up(key_states);
    for (Index r = 0; r < 2; ++r) key_states.row(r).array() += static_cast<float>(10 * token);
    cached_keys.append_rows(key_states);
  }
  Tensor<float> empty;
  Tensor<float> no_rows({{"batch", 1}, {"kv_head", 2}, {"key", 0}, {"head_dim", 2}});
  Tensor<float> one_number({{"vocab", 1}});
  one_number(0) = 2.5f;
  const Tensor<float>& reference = scores;
  const Tensor<float>* pointer = &scores;
  const std::vector<Tensor<float>> three(3, one_number);
  Tensor<double> offset({{"n", 4}});
  for (Index i = 0; i < 4; ++i) offset(i) = 1e9 + static_cast<double>(i);
  Tensor<double> squares({{"n", 3}});
  for (Index i = 0; i < 3; ++i) squares(i) = 1e200 * static_cast<double>(i + 1);
  Tensor<double> big({{"row", 2}, {"column", 2}});
  big(0, 0) = 1.5e308;
  big(0, 1) = -1.5e308;
  big(1, 0) = 1.4e308;
  big(1, 1) = 1.7e308;
  Tensor<std::uint64_t> unsigned_numbers({{"n", 2}});
  unsigned_numbers(0) = ~std::uint64_t(0);
  StageRecord record;
  record.name = "scores";
  record.layer = 3;
  record.step = 2;
  record.f32 = &scores;
  record.file = "include/glassbox/attention.hpp";
  record.line = 123;
  Index stop = pointer->rank() + reference.rank() + record.line;  // STOP tensors
  static_cast<void>(stop);
}

// Stored weights: each kind holds 1 2 3 / 4 5 -0.5.
void weights() {
  Tensor<float> tensor({{"out", 2}, {"in", 3}});
  count_up(tensor);
  tensor(1, 2) = -0.5f;
  const WeightMatrix owned_f32 = WeightMatrix::from_tensor(tensor);
  const double numbers_f64[] = {1, 2, 3, 4, 5, -0.5};
  const WeightMatrix borrowed_f64 = stored_as(glassbox::StoredType::f64, numbers_f64, 2, 3);
  const Half numbers_f16[] = {{0x3C00}, {0x4000}, {0x4200}, {0x4400}, {0x4500}, {0xB800}};
  const WeightMatrix borrowed_f16 = stored_as(glassbox::StoredType::f16, numbers_f16, 2, 3);
  const BFloat16 numbers_bf16[] = {{0x3F80}, {0x4000}, {0x4040}, {0x4080}, {0x40A0}, {0xBF00}};
  const WeightMatrix borrowed_bf16 = stored_as(glassbox::StoredType::bf16, numbers_bf16, 2, 3);
  const WeightMatrix never_loaded;
  Half half = numbers_f16[5];
  Index stop = owned_f32.bytes() + half.bits + numbers_bf16[0].bits + borrowed_bf16.bytes();  // STOP weights
  static_cast<void>(stop);
}

// Eigen's: each matrix is 1 2 3 4 / 5 6 7 8 / 9 10 11 12.
void eigen() {
  Eigen::Matrix<double, 3, 4, Eigen::RowMajor> fixed_rows;
  fixed_rows << 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12;
  Eigen::Matrix<double, 3, 4> fixed_columns = fixed_rows;
  glassbox::Matrix<float> dynamic_rows = fixed_rows.cast<float>();
  Eigen::MatrixXf dynamic_columns = dynamic_rows;
  glassbox::MatrixView<float> map(dynamic_rows.data(), 3, 4);
  glassbox::RowView<float> row_view(dynamic_rows.data() + 4, 4);
  Eigen::Map<Eigen::MatrixXf, 0, Eigen::OuterStride<>> strided(dynamic_columns.data(), 2, 2,
                                                               Eigen::OuterStride<>(6));
  Eigen::Ref<const Eigen::MatrixXf> ref(dynamic_columns);
  Eigen::Block<Eigen::MatrixXf> block = dynamic_columns.block(1, 1, 2, 3);
  Eigen::Block<Eigen::MatrixXf, 1, Eigen::Dynamic, false> row = dynamic_columns.row(1);
  Eigen::VectorBlock<glassbox::RowView<float>> head = row_view.head(2);
  Eigen::Transpose<Eigen::MatrixXf> transposed = dynamic_columns.transpose();
  Eigen::Ref<Eigen::RowVectorXf, 0, Eigen::InnerStride<>> strided_row(dynamic_columns.row(2));
  Eigen::RowVectorXi whole_numbers = Eigen::RowVectorXi::LinSpaced(5, -2, 2);
  const auto lazy = dynamic_columns * 2.0f;
  Index stop = map.rows() + strided.rows() + ref.rows() + block.rows() + row.rows() + head.size() +
               transposed.rows() + lazy.rows() + strided_row.cols() + whole_numbers.size() +
               fixed_columns.rows();  // STOP eigen
  static_cast<void>(stop);
}

// What is no tensor: bytes of all ones, a shape without memory, memory that is not there, an axis without
// name.
void garbage() {
  alignas(Tensor<float>) std::byte raw[sizeof(Tensor<float>)];
  std::memset(raw, 0xFF, sizeof raw);
  const Tensor<float>& all_ones = *reinterpret_cast<Tensor<float>*>(raw);
  Tensor<float> broken[3] = {Tensor<float>({{"row", 2}, {"column", 3}}),
                             Tensor<float>({{"row", 2}, {"column", 3}}),
                             Tensor<float>({{"row", 2}, {"column", 3}})};
  // Layout of a Tensor: rank, four axes of a name and a size, the pointer, the rows reserved.
  char* bytes = reinterpret_cast<char*>(broken);
  char saved[sizeof broken];
  std::memcpy(saved, bytes, sizeof saved);
  const std::size_t axes_at = 8, axis_bytes = sizeof(glassbox::Axis);
  const Index huge = Index(1) << 61, negative = -3;
  std::memcpy(bytes + axes_at + axis_bytes - 8, &huge, 8);
  std::memcpy(bytes + sizeof(Tensor<float>) + axes_at + axis_bytes - 8, &negative, 8);
  std::memset(bytes + 2 * sizeof(Tensor<float>) + axes_at, 7, 24);
  const Tensor<float>& impossible = broken[0];
  const Tensor<float>& below_zero = broken[1];
  const Tensor<float>& nameless = broken[2];
  Index* const nowhere = reinterpret_cast<Index*>(Index(64));
  Tensor<float> freed({{"row", 2}, {"column", 3}});
  char saved_freed[sizeof freed];
  std::memcpy(saved_freed, static_cast<void*>(&freed), sizeof freed);
  std::memcpy(reinterpret_cast<char*>(&freed) + axes_at + 4 * axis_bytes, static_cast<const void*>(&nowhere),
              8);
  Index stop = 1;  // STOP garbage
  std::memcpy(bytes, saved, sizeof saved);
  std::memcpy(reinterpret_cast<char*>(&freed), saved_freed, sizeof freed);
  Tensor<float> later({{"row", stop}, {"column", 3}});
  stop += later.rows() + impossible.rows() + below_zero.rows() + nameless.rows();
  static_cast<void>(stop);
  static_cast<void>(all_ones);
}

struct KeysAndValues {
  Tensor<float> keys, values;
};

// Tensors that are no plain variables of the function: elements, pointers' targets, globals, a caller's in a
// lambda.
void places() {
  static Tensor<float> local_static({{"n", 2}});
  Tensor<float> ones({{"row", 2}, {"column", 2}});
  count_up(ones);
  std::vector<KeysAndValues> caches(2);
  for (KeysAndValues& cache : caches) cache.keys = cache.values = ones;
  caches[1].values(0, 0) = 5;
  std::vector<Tensor<float>> list(3, ones);
  list[2](0, 1) = 7;
  std::array<Tensor<float>, 2> pair = {ones, list[2]};
  Tensor<float> plain[2] = {ones, list[2]};
  const std::unique_ptr<Tensor<float>> unique = std::make_unique<Tensor<float>>(list[2]);
  const std::shared_ptr<Tensor<float>> shared = std::make_shared<Tensor<float>>(list[2]);
  const Tensor<float>* null_pointer = nullptr;
  Tensor<bool> flags({{"n", 2}});
  Tensor<std::int64_t> whole_numbers({{"n", 2}});
  Tensor<double> doubles({{"n", 2}});
  BFloat16 numbers_bf16[] = {{0x3F80}, {0x4000}};
  const WeightMatrix stored = stored_as(glassbox::StoredType::bf16, numbers_bf16, 1, 2);
  Index stop =
      ones.rows() + pair[0].rows() + plain[0].rows() + unique->rows() + shared->rows();  // STOP places
  const auto inside = [&](Index more) {
    Tensor<float> own({{"n", 1}});
    return stop + more + own.rows() + ones.rows();  // STOP lambda
  };
  stop += inside(1) + local_static.rows() + global_tensor.rows() + flags.rows() + whole_numbers.rows() +
          doubles.rows();
  stop += stored.bytes() + (null_pointer == nullptr ? 0 : 1);
  static_cast<void>(stop);
}

void large() {
  Tensor<float> ten_million({{"vocab", 10000}, {"hidden", 1000}});
  ten_million(9999, 999) = 1;
  ten_million(1234, 567) = -2;
  Tensor<float> column({{"row", 10000000}, {"one", 1}});
  Tensor<float> other = column;
  other(9999999, 0) = 4;
  Index stop = ten_million.rows();  // STOP large
  static_cast<void>(stop);
}

}  // namespace

int main() {
  tensors();
  weights();
  eigen();
  garbage();
  large();
  places();
}
