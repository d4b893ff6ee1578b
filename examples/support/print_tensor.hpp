// Tensors as text: axes, statistics and a corner of the numbers, with the tokens written where an axis counts
// tokens.
//
//   examples::PrintOptions options;
//   options.tokens = {"<s>", "Once", "upon"};
//   examples::print_tensor("inputs_embeds", inputs_embeds, options);
//
//   inputs_embeds  [batch=1, seq=3, hidden=64]  f32   min -1.204  max 1.311  mean 0.003
//                0       1       2       3     ..      63
//      <s>   0.120  -0.331   0.004   0.871     ..   0.310
//      ...
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "glassbox/stage.hpp"
#include "glassbox/tensor.hpp"

namespace examples {

// A tensor of any element type, to be read number by number. It refers to the tensor, which must outlive it.
struct AnyTensor {
  std::vector<glassbox::Axis> axes;
  const char* dtype = "";
  std::function<double(glassbox::Index row, glassbox::Index column)> value;  // rows counted over all matrices

  template <typename T>
  AnyTensor(const glassbox::Tensor<T>& tensor)  // implicit, so that functions take any tensor
      : dtype(glassbox::dtype_name<T>()), value([&tensor](glassbox::Index row, glassbox::Index column) {
          return static_cast<double>(tensor.row(row)[column]);
        }) {
    for (int i = 0; i < tensor.rank(); ++i) axes.push_back(tensor.axis(i));
  }
  explicit AnyTensor(const glassbox::StageRecord& record);

  int rank() const { return static_cast<int>(axes.size()); }
  glassbox::Index columns() const { return axes.empty() ? 0 : axes.back().size; }
  glassbox::Index rows_per_matrix() const { return rank() < 2 ? 1 : axes[axes.size() - 2].size; }
  glassbox::Index rows() const;
  bool whole_numbers() const;  // ids, masks and positions: printed without decimals
  std::string shape() const { return glassbox::shape_string(axes.data(), rank()); }
};

struct Statistics {
  double min = 0, max = 0, mean = 0;               // of the numbers that are neither infinite nor NaN
  glassbox::Index count = 0, finite = 0, nan = 0;  // count - finite - nan are infinite
};
Statistics statistics(const AnyTensor& tensor);

struct PrintOptions {
  // All tokens so far. They label an axis "key", and the last of them an axis "seq" or "query".
  std::vector<std::string> tokens;
  glassbox::Index fed = 0;          // so many are new: an axis "query" of 1 may be for all; 0: not known
  glassbox::Index batch = 0;        // which of the texts is shown
  glassbox::Index head = 0;         // which matrix of [batch, head, ., .] is shown
  glassbox::Index max_rows = 7;     // of more rows the first and the last are shown
  glassbox::Index max_columns = 7;  // likewise
  bool full = false;                // everything: all heads, all rows, all columns
  int decimals = 3;
  std::string indent = "  ";
};

// "min -1.204  max 1.311  mean 0.003", or for masks how many are true or -infinity.
std::string statistics_text(const AnyTensor& tensor, int decimals = 3);
// The numbers as a table with the tokens or the indices beside them, a line each.
std::string values_text(const AnyTensor& tensor, const PrintOptions& options);
// The head line with name, axes, dtype and statistics, then the numbers and an empty line.
void print_tensor(const std::string& name, const AnyTensor& tensor, const PrintOptions& options);

// A number with a fixed count of decimals; "-inf", "nan", never "-0.000".
std::string number_text(double number, int decimals);

// A table of texts; the first column to the left, all others to the right; the first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "  ");

// Columns that a text takes on a terminal: two for a Chinese character, none for a combining mark.
int display_width(std::string_view text);
std::string pad_left(const std::string& text, int width);   // spaces before
std::string pad_right(const std::string& text, int width);  // spaces after

// A piece as a label: no control characters, not longer than a table can bear.
std::string label_text(const std::string& piece);
std::string in_quotes(const std::string& piece);  // the label in quotation marks
std::vector<std::string> label_texts(const std::vector<std::string>& pieces);

// "1.4 KiB", "2.0 MiB"
std::string bytes_text(glassbox::Index bytes);

}  // namespace examples
