// NumPy's .npy files: a tensor written for and read from other programs.
//
//   write_npy("logits.npy", logits);                 numpy.load("logits.npy")
//   Tensor<double> expected = read_npy<double>("expected.npy", {"position", "vocab"});
#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "glassbox/io/mapped_file.hpp"
#include "glassbox/tensor.hpp"

namespace glassbox {

static_assert(std::endian::native == std::endian::little, "files are little-endian and used as they lie");

// NumPy's name of an element type.
template <typename T>
constexpr const char* npy_descr() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int64_t> ||
                    std::is_same_v<T, bool>,
                ".npy files are written for float, double, int64 and bool");
  if constexpr (std::is_same_v<T, float>) return "<f4";
  if constexpr (std::is_same_v<T, double>) return "<f8";
  if constexpr (std::is_same_v<T, std::int64_t>) return "<i8";
  return "|b1";
}

// "(2, 3)", "(3,)" with the comma that makes it a tuple in Python, "()" for one number without axes.
inline std::string npy_shape(const std::vector<Index>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

// Everything before the numbers: magic, version 1.0, length, a Python dict, spaces so that the numbers begin
// at a multiple of 64, a newline (numpy/lib/format.py).
inline std::string npy_header(const std::string& descr, const std::vector<Index>& shape) {
  const std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + npy_shape(shape) + ", }";
  const std::size_t before_dict = 10;
  const std::size_t padding = 63 - (before_dict + dict.size()) % 64;
  const std::string text = dict + std::string(padding, ' ') + "\n";
  std::string header = std::string("\x93NUMPY\x01", 7) + '\0';
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

// Writes numbers that follow each other in memory, row after row.
template <typename T>
void write_npy_rows(const std::filesystem::path& path, const std::vector<Index>& shape, Index rows,
                    const Tensor<T>& tensor) {
  std::ofstream stream(path, std::ios::binary);
  const std::string header = npy_header(npy_descr<T>(), shape);
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (Index r = 0; r < rows && tensor.cols() > 0; ++r) {
    const std::size_t bytes = static_cast<std::size_t>(tensor.cols()) * sizeof(T);
    stream.write(reinterpret_cast<const char*>(tensor.row(r).data()), static_cast<std::streamsize>(bytes));
  }
  stream.flush();
  if (!stream) {
    throw_error<FormatError>(path.string() +
                             ": cannot be written: " + std::generic_category().message(errno));
  }
}

template <typename T>
void write_npy(const std::filesystem::path& path, const Tensor<T>& tensor) {
  if (tensor.rank() == 0) throw_error<ShapeError>("write_npy: " + path.string() + ": the tensor has no axes");
  std::vector<Index> shape;
  for (int i = 0; i < tensor.rank(); ++i) shape.push_back(tensor.dim(i));
  write_npy_rows(path, shape, tensor.rows(), tensor);
}

// One number, shape ().
template <typename T>
requires std::is_arithmetic_v<T>
void write_npy(const std::filesystem::path& path, T number) {
  Tensor<T> one({{"number", 1}});
  one(0) = number;
  write_npy_rows(path, {}, 1, one);
}

// What the header of a .npy file says.
struct NpyHeader {
  std::string descr;
  std::vector<Index> shape;
  std::uint64_t data_begin = 0;  // bytes from the start of the file
};

// The text between `key` and the next `end` in the header's Python dict. Throws FormatError without it.
inline std::string npy_field(const std::string& file, std::string_view dict, const std::string& key,
                             char end) {
  const std::size_t found = dict.find(key);
  const std::size_t begin = found == std::string_view::npos ? dict.size() : found + key.size();
  const std::size_t stop = dict.find(end, begin);
  if (stop == std::string_view::npos) {
    throw_error<FormatError>(file + ": its .npy header has no readable " + key);
  }
  return std::string(dict.substr(begin, stop - begin));
}

// "2, 3" -> {2, 3}
inline std::vector<Index> parse_npy_shape(const std::string& file, const std::string& text) {
  std::vector<Index> shape;
  Index number = -1;  // -1: between two numbers
  for (const char character : text + ",") {
    const bool digit = character >= '0' && character <= '9';
    if (!digit && character != ',' && character != ' ') {
      throw_error<FormatError>(file + ": its .npy shape (" + text + ") is not a list of sizes");
    }
    if (digit) number = (number < 0 ? 0 : number * 10) + (character - '0');
    if (number > (Index{1} << 48)) throw_error<FormatError>(file + ": a size in its .npy shape is too large");
    if (character == ',' && number >= 0) {
      shape.push_back(number);
      number = -1;
    }
  }
  return shape;
}

inline NpyHeader read_npy_header(const MappedFile& file) {
  const std::string_view start = file.text(0, 12);
  if (!start.starts_with("\x93NUMPY") || start.size() < 12) {
    throw_error<FormatError>(file.name() + ": does not begin as a .npy file");
  }
  const unsigned version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) {
    throw_error<FormatError>(file.name() + ": .npy version " + std::to_string(version) + ", expected 1 to 3");
  }
  const int length_bytes = version == 1 ? 2 : 4;
  std::uint64_t length = 0;
  for (int i = 0; i < length_bytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(start[static_cast<std::size_t>(8 + i)])} << (8 * i);
  }
  const std::uint64_t dict_begin = 8 + static_cast<std::uint64_t>(length_bytes);
  const std::string_view dict = file.text(dict_begin, length);
  if (dict.size() < length) {
    throw_error<FormatError>(file.name() + ": truncated: " + std::to_string(file.size()) +
                             " bytes present, the header alone needs " + std::to_string(dict_begin + length));
  }
  NpyHeader header;
  header.descr = npy_field(file.name(), dict, "'descr': '", '\'');
  header.shape = parse_npy_shape(file.name(), npy_field(file.name(), dict, "'shape': (", ')'));
  header.data_begin = dict_begin + length;
  const std::string fortran_order = npy_field(file.name(), dict, "'fortran_order': ", ',');
  if (fortran_order != "False") {
    throw_error<FormatError>(file.name() + ": fortran_order is " + fortran_order +
                             ", expected False: save numpy.ascontiguousarray(x)");
  }
  return header;
}

// A tensor of zeros whose axes are known only now.
template <typename T>
Tensor<T> tensor_of_shape(const std::vector<std::string>& names, const std::vector<Index>& sizes) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.emplace_back(names[i].c_str(), sizes[i]);
  switch (axes.size()) {
    case 1:
      return Tensor<T>({axes[0]});
    case 2:
      return Tensor<T>({axes[0], axes[1]});
    case 3:
      return Tensor<T>({axes[0], axes[1], axes[2]});
    default:
      return Tensor<T>({axes.at(0), axes.at(1), axes.at(2), axes.at(3)});
  }
}

// A tensor with these axis names. One number without axes becomes a tensor of one element.
template <typename T>
Tensor<T> read_npy(const std::filesystem::path& path, std::vector<std::string> axis_names) {
  const MappedFile file(path);
  NpyHeader header = read_npy_header(file);
  if (header.descr != npy_descr<T>()) {
    throw_error<FormatError>(file.name() + ": holds '" + header.descr + "', expected '" + npy_descr<T>() +
                             "'");
  }
  const std::string shape_text = npy_shape(header.shape);
  if (header.shape.empty()) header.shape.push_back(1);
  if (header.shape.size() != axis_names.size() || axis_names.size() > 4) {
    throw_error<FormatError>(file.name() + ": has shape " + shape_text + ", expected " +
                             std::to_string(axis_names.size()) + " axes");
  }
  std::vector<Index> factors = header.shape;
  factors.push_back(static_cast<Index>(sizeof(T)));
  const std::uint64_t bytes = size_of(file.name(), factors);
  if (file.size() - header.data_begin != bytes) {
    throw_error<FormatError>(file.name() + ": " + std::to_string(file.size()) + " bytes present, shape " +
                             shape_text + " needs " + std::to_string(header.data_begin + bytes));
  }
  Tensor<T> tensor = tensor_of_shape<T>(axis_names, header.shape);
  if (bytes > 0) std::memcpy(tensor.data(), file.data() + header.data_begin, static_cast<std::size_t>(bytes));
  return tensor;
}

}  // namespace glassbox
