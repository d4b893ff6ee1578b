#include "print_tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>

#include "glassbox/utf8.hpp"

namespace examples {
namespace {

using glassbox::Axis;
using glassbox::Index;

constexpr int line_width = 100;
constexpr int longest_label = 14;

struct CodeRange {
  char32_t first, last;
};
// Unicode Standard Annex 11, the ranges of East Asian Wide and Fullwidth characters and of emoji.
constexpr std::array<CodeRange, 14> wide_ranges{{{0x1100, 0x115F},
                                                 {0x2E80, 0x303E},
                                                 {0x3041, 0x33FF},
                                                 {0x3400, 0x4DBF},
                                                 {0x4E00, 0x9FFF},
                                                 {0xA000, 0xA4CF},
                                                 {0xAC00, 0xD7A3},
                                                 {0xF900, 0xFAFF},
                                                 {0xFE30, 0xFE6F},
                                                 {0xFF00, 0xFF60},
                                                 {0xFFE0, 0xFFE6},
                                                 {0x1F300, 0x1F64F},
                                                 {0x1F680, 0x1F9FF},
                                                 {0x20000, 0x3FFFD}}};
constexpr std::array<CodeRange, 4> zero_width_ranges{
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

template <std::size_t count>
bool in_ranges(char32_t code, const std::array<CodeRange, count>& ranges) {
  for (const CodeRange& range : ranges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

// The number of the character that these bytes are.
char32_t code_point(std::string_view character) {
  const unsigned char first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t code = first & (0xFFu >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) {
    code = code << 6 | (static_cast<unsigned char>(character[i]) & 0x3Fu);
  }
  return code;
}

// The whole character at the beginning; one byte where there is none.
std::string_view first_character(std::string_view text) {
  const int length = glassbox::utf8_character_length(text);
  return text.substr(0, length < 1 ? 1 : static_cast<std::size_t>(length));
}

// Which indices of an axis are shown; -1 stands for those left out.
std::vector<Index> shown_indices(Index size, Index most) {
  std::vector<Index> shown;
  const bool all = size <= most;
  const Index last_ones = most >= 6 ? 2 : 1;
  for (Index i = 0; i < size; ++i) {
    if (all || i < most - last_ones || i >= size - last_ones) shown.push_back(i);
    if (!all && i == most - last_ones) shown.push_back(-1);
  }
  return shown;
}

// What stands beside index i of an axis: the token where the axis counts tokens, else the number.
std::string axis_label(const Axis& axis, Index i, const PrintOptions& options) {
  const std::vector<std::string>& tokens = options.tokens;
  const Index count = static_cast<Index>(tokens.size());
  const bool keys = std::strcmp(axis.name, "key") == 0;
  const bool newest = std::strcmp(axis.name, "seq") == 0 || std::strcmp(axis.name, "query") == 0;
  if (std::strcmp(axis.name, "query") == 0 && axis.size == 1 && options.fed > 1) return "(all)";
  const Index token = keys ? i : count - axis.size + i;
  if ((keys || newest) && token >= 0 && token < count) {
    return label_text(tokens[static_cast<std::size_t>(token)]);
  }
  return std::to_string(i);
}

using Row = std::vector<std::string>;

std::vector<int> column_widths(const std::vector<Row>& rows) {
  std::vector<int> widths;
  for (const Row& row : rows) {
    widths.resize((std::max)(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = (std::max)(widths[i], display_width(row[i]));
  }
  return widths;
}

std::string joined_row(const Row& row, const std::vector<int>& widths, const std::string& indent) {
  std::string line = indent + pad_right(row[0], row.size() == 1 ? 0 : widths[0]);
  for (std::size_t i = 1; i < row.size(); ++i) line += "  " + pad_left(row[i], widths[i]);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// The table of one matrix, the heading first.
std::vector<Row> matrix_rows(const AnyTensor& tensor, Index matrix, const PrintOptions& options) {
  const Axis row_axis = tensor.rank() < 2 ? Axis("", 1) : tensor.axes[tensor.axes.size() - 2];
  const int decimals = tensor.whole_numbers() ? 0 : options.decimals;
  const Index all = (std::numeric_limits<Index>::max)();
  const std::vector<Index> columns =
      shown_indices(tensor.columns(), options.full ? all : options.max_columns);
  std::vector<Row> rows(1, Row{""});
  for (const Index column : columns) {
    rows[0].push_back(column < 0 ? ".." : axis_label(tensor.axes.back(), column, options));
  }
  for (const Index row : shown_indices(row_axis.size, options.full ? all : options.max_rows)) {
    const bool has_label = tensor.rank() >= 2 && tensor.rows() > 0;
    Row texts{row < 0 ? ".." : (has_label ? axis_label(row_axis, row, options) : "")};
    for (const Index column : columns) {
      const bool shown = row >= 0 && column >= 0;
      const Index flat_row = matrix * row_axis.size + row;
      texts.push_back(shown ? number_text(tensor.value(flat_row, column), decimals) : "..");
    }
    rows.push_back(texts);
  }
  return rows;
}

// A table too wide for a line goes on below: the same rows, the next columns.
std::string wrapped_table(const std::vector<Row>& rows, const std::string& indent) {
  const std::vector<int> widths = column_widths(rows);
  const int fixed = static_cast<int>(indent.size()) + widths[0];
  std::string text;
  std::size_t begin = 1;
  while (begin < widths.size()) {
    std::size_t end = begin;
    int used = fixed;
    while (end < widths.size() && (end == begin || used + 2 + widths[end] <= line_width)) {
      used += 2 + widths[end];
      ++end;
    }
    std::vector<int> block_widths{widths[0]};
    block_widths.insert(block_widths.end(), widths.begin() + static_cast<std::ptrdiff_t>(begin),
                        widths.begin() + static_cast<std::ptrdiff_t>(end));
    for (const Row& row : rows) {
      Row part{row[0]};
      part.insert(part.end(), row.begin() + static_cast<std::ptrdiff_t>(begin),
                  row.begin() + static_cast<std::ptrdiff_t>(end));
      text += joined_row(part, block_widths, indent);
    }
    begin = end;
  }
  return text;
}

}  // namespace

AnyTensor::AnyTensor(const glassbox::StageRecord& record)
    : AnyTensor(record.f32 != nullptr   ? AnyTensor(*record.f32)
                : record.f64 != nullptr ? AnyTensor(*record.f64)
                : record.i64 != nullptr ? AnyTensor(*record.i64)
                                        : AnyTensor(*record.boolean)) {}

Index AnyTensor::rows() const {
  Index count = axes.empty() ? 0 : 1;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) count *= axes[i].size;
  return count;
}

bool AnyTensor::whole_numbers() const {
  return std::strcmp(dtype, "f32") != 0 && std::strcmp(dtype, "f64") != 0;
}

Statistics statistics(const AnyTensor& tensor) {
  Statistics result;
  double sum = 0;
  for (Index row = 0; row < tensor.rows(); ++row) {
    for (Index column = 0; column < tensor.columns(); ++column) {
      const double value = tensor.value(row, column);
      ++result.count;
      if (std::isnan(value)) ++result.nan;
      if (!std::isfinite(value)) continue;
      result.min = result.finite == 0 ? value : (std::min)(result.min, value);
      result.max = result.finite == 0 ? value : (std::max)(result.max, value);
      ++result.finite;
      sum += value;
    }
  }
  if (result.finite > 0) result.mean = sum / static_cast<double>(result.finite);
  return result;
}

std::string statistics_text(const AnyTensor& tensor, int decimals) {
  const Statistics all = statistics(tensor);
  const int digits = tensor.whole_numbers() ? 0 : decimals;
  if (all.count == 1 && tensor.rank() == 1) return "one number: " + number_text(tensor.value(0, 0), digits);
  std::string text = "min " + number_text(all.min, digits) + "  max " + number_text(all.max, digits) +
                     "  mean " + number_text(all.mean, decimals);
  if (all.finite == 0) text = "no finite number";
  if (std::strcmp(tensor.dtype, "bool") == 0) {
    const double true_count = all.mean * static_cast<double>(all.count);
    text += "  (" + number_text(true_count, 0) + " of " + std::to_string(all.count) + " true)";
  }
  const Index infinite = all.count - all.finite - all.nan;
  const std::string of_count = " of " + std::to_string(all.count) + " are ";
  if (infinite > 0) text += "  (and " + std::to_string(infinite) + of_count + "-inf)";
  if (all.nan > 0) text += "  (and " + std::to_string(all.nan) + of_count + "NaN)";
  return text;
}

std::string values_text(const AnyTensor& tensor, const PrintOptions& options) {
  if (tensor.rows() == 0 || tensor.columns() == 0) return options.indent + "(no numbers)\n";
  const Index matrices = tensor.rows() / tensor.rows_per_matrix();
  const Index heads = tensor.rank() == 4 ? tensor.axes[1].size : 1;
  const Index texts = tensor.rank() >= 3 ? matrices / heads : 1;
  const bool of_texts = texts > 1 && std::strcmp(tensor.axes[0].name, "batch") == 0;
  std::string text;
  for (Index matrix = 0; matrix < matrices; ++matrix) {
    const Index wanted = tensor.rank() < 3 ? 0 : options.batch * heads + (std::min)(options.head, heads - 1);
    if (!options.full && matrix != wanted) continue;
    if (of_texts && (!options.full || matrix % heads == 0)) {
      const std::string others = options.full ? "" : "  (" + std::to_string(texts - 1) + " more)";
      text += options.indent + "text " + std::to_string(matrix / heads) + others + "\n";
    }
    if (tensor.rank() == 4 && heads > 1) {
      const std::string others = options.full ? "" : "  (" + std::to_string(heads - 1) + " more)";
      text += options.indent + tensor.axes[1].name + " " + std::to_string(matrix % heads) + others + "\n";
    }
    text += wrapped_table(matrix_rows(tensor, matrix, options), options.indent + "  ");
  }
  return text;
}

void print_tensor(const std::string& name, const AnyTensor& tensor, const PrintOptions& options) {
  std::cout << name << "  " << tensor.shape() << "  " << tensor.dtype << "\n";
  std::cout << options.indent << statistics_text(tensor, options.decimals) << "\n";
  std::cout << values_text(tensor, options) << "\n";
}

std::string number_text(double number, int decimals) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char text[64];
  const bool large = std::fabs(number) >= 1e9;
  std::snprintf(text, sizeof text, large ? "%.*g" : "%.*f", large ? 4 : decimals, number);
  const bool zero = std::strpbrk(text, "123456789") == nullptr;
  return zero && text[0] == '-' ? text + 1 : text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
  const std::vector<int> widths = column_widths(rows);
  std::string text;
  for (const Row& row : rows) text += joined_row(row, widths, indent);
  return text;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    const char32_t code = code_point(character);
    if (!in_ranges(code, zero_width_ranges)) width += in_ranges(code, wide_ranges) ? 2 : 1;
    text.remove_prefix(character.size());
  }
  return width;
}

std::string pad_left(const std::string& text, int width) {
  const int missing = (std::max)(0, width - display_width(text));
  return std::string(static_cast<std::size_t>(missing), ' ') + text;
}

std::string pad_right(const std::string& text, int width) {
  const int missing = (std::max)(0, width - display_width(text));
  return text + std::string(static_cast<std::size_t>(missing), ' ');
}

std::string label_text(const std::string& piece) {
  std::string label;
  std::string_view rest = piece;
  while (!rest.empty()) {
    const std::string_view character = first_character(rest);
    const unsigned char first = static_cast<unsigned char>(character[0]);
    const bool printable = first >= 0x20 && first != 0x7F && glassbox::is_utf8(character);
    label += printable ? std::string(character) : (first == '\n' ? "\\n" : "?");
    rest.remove_prefix(character.size());
    if (!rest.empty() && display_width(label) >= longest_label - 2) return label + "..";
  }
  return label;
}

std::string in_quotes(const std::string& piece) { return "\"" + label_text(piece) + "\""; }

std::vector<std::string> label_texts(const std::vector<std::string>& pieces) {
  std::vector<std::string> labels;
  for (const std::string& piece : pieces) labels.push_back(label_text(piece));
  return labels;
}

std::string bytes_text(Index bytes) {
  const double count = static_cast<double>(bytes);
  if (bytes < 1 << 10) return std::to_string(bytes) + " bytes";
  if (bytes < 1 << 20) return number_text(count / (1 << 10), 1) + " KiB";
  if (bytes < 1 << 30) return number_text(count / (1 << 20), 1) + " MiB";
  return number_text(count / (1 << 30), 1) + " GiB";
}

}  // namespace examples
