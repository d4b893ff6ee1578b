// MappedFile: the bytes of a file, mapped into memory where the system can, read where it cannot.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>
#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "glassbox/error.hpp"

namespace glassbox {

// Whether something is there, be it a link that leads nowhere: opening it then says so. False too where that
// cannot be found out.
inline bool path_exists(const std::filesystem::path& path) {
  std::error_code no_throw;
  return std::filesystem::exists(std::filesystem::symlink_status(path, no_throw));
}

inline bool is_folder(const std::filesystem::path& path) {
  std::error_code no_throw;
  return std::filesystem::is_directory(path, no_throw);
}

// The size of a regular file. Missing, folder and other kinds of file are three different messages.
inline std::uint64_t regular_file_size(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw_error<FormatError>(
        path.string() + (path_exists(path) ? ": is a link to a file that is not there" : ": no such file"));
  }
  if (status.type() == std::filesystem::file_type::none) {
    throw_error<FormatError>(path.string() + ": cannot be opened: " + error.message());
  }
  if (std::filesystem::is_directory(status)) {
    throw_error<FormatError>(path.string() + ": is a folder, expected a file");
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw_error<FormatError>(path.string() + ": is not a regular file");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw_error<FormatError>(path.string() + ": cannot read its size: " + error.message());
  if (size > (std::numeric_limits<std::size_t>::max)() / 2) {
    throw_error<FormatError>(path.string() + ": " + std::to_string(size) + " bytes do not fit this system");
  }
  return size;
}

// Product of sizes in 64 bits, for elements and bytes of what a file claims to hold.
// Throws FormatError naming `where` for a negative factor or an overflow.
inline std::uint64_t size_of(const std::string& where, const std::vector<std::int64_t>& factors) {
  const std::uint64_t limit = static_cast<std::uint64_t>((std::numeric_limits<std::int64_t>::max)());
  std::uint64_t product = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t factor : factors) {
    if (factor < 0) throw_error<FormatError>(where + ": size " + std::to_string(factor) + " is negative");
    const std::uint64_t size = static_cast<std::uint64_t>(factor);
    empty = empty || size == 0;
    overflow = overflow || (size != 0 && product > limit / size);
    product *= size;
  }
  if (empty) return 0;  // whatever its other sizes
  if (overflow) throw_error<FormatError>(where + ": its sizes multiply to more than 63 bits can count");
  return product;
}

enum class FileAccess : std::uint8_t { map, read };

// Invariant: data() points to size() bytes that stay valid and unchanged while the object lives (unless
// another program shortens the file).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, FileAccess access = FileAccess::map)
      : name_(path.string()), size_(regular_file_size(path)) {
    if (size_ == 0) return;
    if (access == FileAccess::map && map(path)) return;
    read(path);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
#if __has_include(<sys/mman.h>)
    if (mapping_ != nullptr) ::munmap(mapping_, static_cast<std::size_t>(size_));
#endif
  }

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  bool is_mapped() const { return mapping_ != nullptr; }
  const std::byte* data() const {
    return mapping_ != nullptr ? static_cast<const std::byte*>(mapping_) : buffer_.data();
  }

  // At most `count` bytes from `begin`, as characters; fewer at the end of the file.
  std::string_view text(std::uint64_t begin, std::uint64_t count) const {
    if (begin >= size_) return {};
    const std::uint64_t present = count < size_ - begin ? count : size_ - begin;
    return {reinterpret_cast<const char*>(data()) + begin, static_cast<std::size_t>(present)};
  }

 private:
  std::string name_;
  std::uint64_t size_ = 0;
  void* mapping_ = nullptr;  // null: the bytes are in buffer_
  std::vector<std::byte> buffer_;

  [[noreturn]] void throw_unreadable(const std::string& reason) const {
    throw_error<FormatError>(name_ + ": cannot be opened: " + reason);
  }

  // False where the system or the file cannot be mapped, so that it has to be read.
  bool map([[maybe_unused]] const std::filesystem::path& path) {
#if __has_include(<sys/mman.h>)
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw_unreadable(std::generic_category().message(errno));
    void* address = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_PRIVATE, descriptor, 0);
    ::close(descriptor);  // the mapping stays
    if (address == MAP_FAILED) return false;
    mapping_ = address;
    return true;
#else
    return false;
#endif
  }

  void read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw_unreadable(std::generic_category().message(errno));
    buffer_.resize(static_cast<std::size_t>(size_));
    stream.read(reinterpret_cast<char*>(buffer_.data()), static_cast<std::streamsize>(size_));
    if (static_cast<std::uint64_t>(stream.gcount()) != size_) {
      throw_error<FormatError>(name_ + ": only " + std::to_string(stream.gcount()) + " of " +
                               std::to_string(size_) + " bytes could be read");
    }
  }
};

// What the first bytes say about a file that is not what was expected: a sentence with advice, or nothing.
inline std::string recognise_file(const MappedFile& file) {
  const std::string_view head = file.text(0, 64);
  const std::string python =
      "; with Python: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder) writes "
      "safetensors";
  if (head.starts_with("version https://git-lfs")) {
    return "this is a Git LFS pointer, not the file itself: run `git lfs pull` or download the file";
  }
  if (head.starts_with("PK\x03\x04"))
    return "this is a PyTorch checkpoint (a zip of Python pickles)" + python;
  if (head.starts_with("\x80\x02") || head.starts_with("\x80\x04")) {
    return "this is an old PyTorch checkpoint (a Python pickle)" + python;
  }
  if (head.starts_with("GGUF")) {
    return "this is a GGUF file, which is not read: take the Hugging Face folder it was made from";
  }
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<!doctype") || head.starts_with("<html")) {
    return "this is a web page, not a checkpoint: the download went wrong";
  }
  return "";
}

}  // namespace glassbox
