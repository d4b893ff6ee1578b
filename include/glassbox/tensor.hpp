// Tensor: numbers with named axes in one row-major buffer. The value that flows through everything.
//
//   Tensor<float> scores({{"batch", 1}, {"head", 8}, {"query", 5}, {"key", 5}});
//   scores(0, 3, 2, 1)      one element, checked
//   scores.matrix(0, 3)     the [query, key] matrix of batch 0, head 3, as an Eigen map
//   scores.row(17)          row 17 of all rows, the leading axes counted as one, as an Eigen map
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "glassbox/buffer.hpp"

namespace glassbox {

// Invariant: data_ holds matrices() x reserved_rows_ x cols() elements, every one initialised; of each
// matrix the first rows_per_matrix() rows are in use. Only append_rows makes reserved_rows_ larger than that.
template <typename T>
class Tensor {
 public:
  Tensor() = default;

  // A tensor of zeros. Throws ShapeError for a negative size, more than four axes, or a size no memory holds.
  Tensor(std::initializer_list<Axis> axes) : Tensor(axes.begin(), static_cast<int>(axes.size())) {}

  Tensor(const Axis* axes, int rank) {
    if (rank > 4) throw_error<ShapeError>("Tensor: at most 4 axes, got " + shape_string(axes, rank));
    for (int i = 0; i < rank; ++i) axes_[i] = axes[i];
    rank_ = rank;
    reserved_rows_ = rows_per_matrix();
    data_ = allocate_zeros();
  }

  // A tensor of zeros with the axes of another one, whatever its element type.
  template <typename U>
  static Tensor like(const Tensor<U>& other) {
    return other.rank() == 0 ? Tensor() : Tensor(&other.axis(0), other.rank());
  }

  Tensor(const Tensor& other) : Tensor(like(other)) {
    for (Index r = 0; r < other.rows(); ++r) row(r) = other.row(r);
  }
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    swap(copy);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor() { release_buffer(data_); }

  void swap(Tensor& other) noexcept {
    std::swap(rank_, other.rank_);
    std::swap(axes_, other.axes_);
    std::swap(reserved_rows_, other.reserved_rows_);
    std::swap(data_, other.data_);
  }

  int rank() const { return rank_; }
  const Axis& axis(int i) const {
    if (i < 0 || i >= rank_) throw_index("axis", i, rank_);
    return axes_[i];
  }
  Index dim(int i) const { return axis(i).size; }
  // The number of elements; a default-constructed tensor (rank 0) has none.
  Index size() const { return rows() * cols(); }
  // The last axis, and all the others counted as one.
  Index cols() const { return rank_ > 0 ? axes_[rank_ - 1].size : 0; }
  Index rows() const { return matrices() * rows_per_matrix(); }
  // The last two axes make a matrix; this many of them follow each other.
  Index rows_per_matrix() const { return rank_ >= 2 ? axes_[rank_ - 2].size : (rank_ == 1 ? 1 : 0); }
  Index matrices() const {
    Index count = rank_ == 0 ? 0 : 1;
    for (int i = 0; i + 2 < rank_; ++i) count *= axes_[i].size;
    return count;
  }

  RowView<T> row(Index r) { return RowView<T>(data_ + row_offset(r), cols()); }
  ConstRowView<T> row(Index r) const { return ConstRowView<T>(data_ + row_offset(r), cols()); }
  const T* row_data(Index r) const { return data_ + row_offset(r); }  // cols() numbers
  MatrixView<T> matrix(Index i = 0, Index j = 0) {
    return MatrixView<T>(data_ + matrix_offset(i, j), rows_per_matrix(), cols());
  }
  ConstMatrixView<T> matrix(Index i = 0, Index j = 0) const {
    return ConstMatrixView<T>(data_ + matrix_offset(i, j), rows_per_matrix(), cols());
  }

  // One element by as many indices as there are axes, each checked.
  template <typename... Indices>
  T& operator()(Indices... indices) {
    return data_[element_offset({static_cast<Index>(indices)...})];
  }
  template <typename... Indices>
  const T& operator()(Indices... indices) const {
    return data_[element_offset({static_cast<Index>(indices)...})];
  }

  // The elements in memory order. Rows follow each other without a gap unless append_rows reserved some.
  T* data() { return data_; }
  const T* data() const { return data_; }
  bool contiguous() const { return reserved_rows_ == rows_per_matrix(); }

  // Concatenates along the second last axis, as torch.cat([this, addition], dim=-2). Room for more is
  // reserved by doubling, so that a cache that grows row by row is copied rarely.
  void append_rows(const Tensor& addition);

  // Forgets all but the first `count` rows of each matrix, as tensor[..., :count, :]; the room stays.
  void truncate_rows(Index count) {
    if (count < 0 || rank_ < 2 || count > rows_per_matrix())
      throw_index("row count", count, rows_per_matrix() + 1);
    axes_[rank_ - 2].size = count;
  }

 private:
  int rank_ = 0;
  Axis axes_[4];
  T* data_ = nullptr;
  Index reserved_rows_ = 0;  // rows each matrix has room for

  T* allocate_zeros() const {
    static_assert(std::is_arithmetic_v<T>, "a tensor holds numbers");
    return static_cast<T*>(allocate_zeroed(axes_, rank_, reserved_rows_, static_cast<Index>(sizeof(T))));
  }
  Index row_offset(Index r) const;
  Index matrix_offset(Index i, Index j) const;
  Index element_offset(std::initializer_list<Index> indices) const;
  [[noreturn]] GLASSBOX_NOINLINE void throw_index(const char* what, Index found, Index limit) const {
    throw_error<ShapeError>("Tensor " + shape_string(axes_, rank_) + ": " + what + " " +
                            std::to_string(found) + " is not in 0.." + std::to_string(limit - 1));
  }
};

template <typename T>
std::string shape_string(const Tensor<T>& tensor) {
  return tensor.rank() == 0 ? "[]" : shape_string(&tensor.axis(0), tensor.rank());
}

template <typename T>
Index Tensor<T>::row_offset(Index r) const {
  if (r < 0 || r >= rows()) throw_index("row", r, rows());
  if (contiguous()) return r * cols();
  return (r / rows_per_matrix() * reserved_rows_ + r % rows_per_matrix()) * cols();
}

template <typename T>
Index Tensor<T>::matrix_offset(Index i, Index j) const {
  const Index inner = rank_ == 4 ? axes_[1].size : 1;
  const Index outer = rank_ >= 3 ? axes_[0].size : (rank_ == 0 ? 0 : 1);
  if (i < 0 || i >= outer) throw_index("matrix", i, outer);
  if (j < 0 || j >= inner) throw_index("matrix", j, inner);
  return (i * inner + j) * reserved_rows_ * cols();
}

template <typename T>
Index Tensor<T>::element_offset(std::initializer_list<Index> indices) const {
  if (static_cast<int>(indices.size()) != rank_)
    throw_index("number of indices", static_cast<Index>(indices.size()), rank_ + 1);
  Index offset = 0;
  int i = 0;
  for (const Index index : indices) {
    if (index < 0 || index >= axes_[i].size) throw_index(axes_[i].name, index, axes_[i].size);
    const Index extent = i == rank_ - 2 ? reserved_rows_ : axes_[i].size;
    offset = offset * extent + index;
    ++i;
  }
  return offset;
}

template <typename T>
void Tensor<T>::append_rows(const Tensor& addition) {
  bool fits = rank_ >= 2 && addition.rank_ == rank_;
  for (int i = 0; fits && i < rank_; ++i) fits = i == rank_ - 2 || axes_[i].size == addition.axes_[i].size;
  if (!fits) {
    throw_error<ShapeError>("Tensor::append_rows: " + shape_string(*this) + " cannot take " +
                            shape_string(addition) + ": all axes but the second last must agree");
  }
  if (&addition == this) return append_rows(Tensor(addition));
  const Index used_rows = rows_per_matrix();
  const Index wanted_rows = used_rows + addition.rows_per_matrix();
  if (wanted_rows > reserved_rows_) {
    Tensor larger;
    larger.rank_ = rank_;
    std::copy(axes_, axes_ + rank_, larger.axes_);
    larger.reserved_rows_ = (std::max)(wanted_rows, 2 * reserved_rows_);
    larger.data_ = larger.allocate_zeros();
    for (Index r = 0; r < rows(); ++r) larger.row(r) = row(r);
    swap(larger);
  }
  axes_[rank_ - 2].size = wanted_rows;
  for (Index r = 0; r < addition.rows(); ++r) {
    const Index matrix_of_row = r / addition.rows_per_matrix();
    row(matrix_of_row * wanted_rows + used_rows + r % addition.rows_per_matrix()) = addition.row(r);
  }
}

}  // namespace glassbox
