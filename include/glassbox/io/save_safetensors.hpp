// Writing safetensors files, and writing any file so that the old one stays until the new one is complete.
//
//   save_safetensors("model.safetensors", {tensor_to_save("lm_head.weight", {40, 24}, numbers, 960)});
//   Python: safetensors.torch.load_file("model.safetensors")
//
// io/safetensors.hpp reads them. Source: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>
#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <unistd.h>
#endif

#include "glassbox/io/safetensors.hpp"
#include "glassbox/utf8.hpp"

namespace glassbox {

// A file that is written under another name beside its own, NAME.part, and takes its place when it is
// complete: a program that ends on the way, or a disk that is full, leaves the old file as it was, and who
// has the old one open (a model whose weights were borrowed from it) keeps it. A link is replaced, not what
// it leads to. One writer a file: two at once would share NAME.part. Every function throws FormatError naming
// the file and the system's reason.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::filesystem::path& path) : path_(path), part_(path) {
    part_ += ".part";
    std::error_code no_throw;
    const std::filesystem::file_status status = std::filesystem::status(path, no_throw);
    if (std::filesystem::is_directory(status)) throw_file("is a folder, expected a file");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      throw_file("is not a regular file");  // a device: nothing may take its place
    }
    errno = 0;
    stream_.open(part_, std::ios::binary | std::ios::trunc);
    check_written();
  }
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;
  ~ReplacementFile() {
    stream_.close();
    std::error_code no_throw;
    if (!replaced_) std::filesystem::remove(part_, no_throw);
  }

  void write(const void* bytes, std::uint64_t count) {
    errno = 0;
    stream_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    check_written();
  }
  void write(std::string_view text) { write(text.data(), text.size()); }

  // All bytes are on the disk afterwards, and the old file is still there.
  void finish() {
    errno = 0;
    stream_.close();
    check_written();
    sync_part();
  }

  // The last step: the name leads to the new file from now on.
  void replace() {
    if (stream_.is_open()) finish();
    std::error_code error;
    std::filesystem::rename(part_, path_, error);
    if (error) throw_file("cannot be replaced by " + part_name() + ": " + error.message());
    replaced_ = true;
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
  std::ofstream stream_;
  bool replaced_ = false;

  std::string part_name() const { return part_.filename().string(); }
  [[noreturn]] void throw_file(const std::string& problem) const {
    throw_error<FormatError>(path_.string() + ": " + problem);
  }
  [[noreturn]] void throw_unwritable(int reason) const {
    throw_file("cannot be written (as " + part_name() + "): " +
               (reason == 0 ? std::string("unknown reason") : std::generic_category().message(reason)));
  }
  void check_written() const {
    if (!stream_) throw_unwritable(errno);
  }

  // Without this, the new name could reach the disk before the new bytes, and a power cut would leave a hole.
  void sync_part() const {
#if __has_include(<sys/mman.h>)
    const int descriptor = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw_unwritable(errno);
    const bool failed = ::fsync(descriptor) != 0;
    const int reason = errno;
    ::close(descriptor);
    if (failed && reason != EINVAL) throw_unwritable(reason);  // EINVAL: this kind of file knows no fsync
#endif
  }
};

// A tensor as it will stand in a file. The numbers are not copied: they must stay until it is written.
struct TensorToSave {
  std::string name;
  std::string dtype;  // as the file spells it: F32, F64, ...
  std::vector<Index> shape;
  std::span<const std::byte> numbers;  // row after row, without gaps
};

// `count` numbers that follow each other in memory, as F32 or F64. They may be infinite or NaN.
template <std::floating_point Scalar>
TensorToSave tensor_to_save(const std::string& name, const std::vector<Index>& shape, const Scalar* numbers,
                            Index count) {
  if (count < 0)
    throw_error<UsageError>("tensor_to_save: " + name + " has " + std::to_string(count) + " numbers");
  const std::span<const Scalar> values(numbers, static_cast<std::size_t>(count));
  return {name, sizeof(Scalar) == 4 ? "F32" : "F64", shape, std::as_bytes(values)};
}

// Texts about a file. PyTorch and Transformers want to read {"format": "pt"} there.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Throws UsageError for a tensor that the format cannot hold under its name, shape and type.
inline void check_tensor_to_save(const std::string& where, const TensorToSave& tensor) {
  const std::string name = where + ": tensor " + escaped_bytes(tensor.name);
  if (!is_utf8(tensor.name)) throw_error<UsageError>(name + ": its name is not well-formed UTF-8");
  if (tensor.name == "__metadata__")
    throw_error<UsageError>(name + ": the format has another use for this name");
  const Index element_bytes = safetensors_dtype_bytes(tensor.dtype);
  if (element_bytes == 0) throw_error<UsageError>(name + ": unknown dtype \"" + tensor.dtype + "\"");
  for (const Index size : tensor.shape) {
    if (size < 0)
      throw_error<UsageError>(name + ": its shape " + sizes_string(tensor.shape) + " is negative");
  }
  std::vector<Index> factors = tensor.shape;
  factors.push_back(element_bytes);
  const std::uint64_t expected = size_of(name, factors);
  if (tensor.numbers.size() == expected) return;
  throw_error<UsageError>(name + ": has " + std::to_string(tensor.numbers.size()) + " bytes, but " +
                          tensor.dtype + " " + sizes_string(tensor.shape) + " needs " +
                          std::to_string(expected));
}

// Throws UsageError for a header that readers refuse, since it is longer than any model's.
inline void check_header_length(const std::string& where, std::uint64_t bytes) {
  const std::uint64_t longest = 100'000'000;
  if (bytes <= longest) return;
  throw_error<UsageError>(where + ": a header of " + std::to_string(bytes) + " bytes, at most " +
                          std::to_string(longest) + " are allowed");
}

// The JSON header, with spaces at its end so that the numbers behind it begin at a multiple of 8.
inline std::string safetensors_header(const std::string& where, const std::vector<TensorToSave>& tensors,
                                      const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const std::pair<const std::string, std::string>& item : metadata) {
    if (!is_utf8(item.first) || !is_utf8(item.second)) {
      throw_error<UsageError>(where + ": metadata \"" + escaped_bytes(item.first) +
                              "\" is not well-formed UTF-8");
    }
    header["__metadata__"][item.first] = item.second;
  }
  std::set<std::string> names;
  std::uint64_t begin = 0;  // bytes from the end of the header
  for (const TensorToSave& tensor : tensors) {
    check_tensor_to_save(where, tensor);
    if (!names.insert(tensor.name).second) {
      throw_error<UsageError>(where + ": tensor " + tensor.name + " is there twice");
    }
    const std::uint64_t end = begin + tensor.numbers.size();
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {begin, end};
    header[tensor.name] = entry;
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  check_header_length(where, text.size());
  return text;
}

// The whole content of a safetensors file.
inline void write_safetensors(ReplacementFile& file, const std::string& header,
                              const std::vector<TensorToSave>& tensors) {
  const std::uint64_t header_bytes = header.size();
  file.write(&header_bytes, sizeof header_bytes);
  file.write(header);
  for (const TensorToSave& tensor : tensors) file.write(tensor.numbers.data(), tensor.numbers.size());
}

// Writes the tensors in the order given, in the place of the file that was there. Where types are mixed, the
// F64 behind an odd number of F32 are not aligned, which costs readers a copy.
// Throws UsageError, before anything is written, for a name twice, a shape that does not fit its numbers, or
// a name that is no text; FormatError naming file and reason where it cannot be written.
inline void save_safetensors(const std::filesystem::path& path, const std::vector<TensorToSave>& tensors,
                             const SafetensorsMetadata& metadata = {{"format", "pt"}}) {
  const std::string header = safetensors_header("save_safetensors: " + path.string(), tensors, metadata);
  ReplacementFile file(path);
  write_safetensors(file, header, tensors);
  file.replace();
}

}  // namespace glassbox
