// MappedFile, size_of, recognise_file.
// Faults that must turn this red: compare factors in int; forget the overflow check; treat a folder as
// missing; read in place of map or map in place of read; text() past the end; one marker of recognise_file
// dropped.
#include "glassbox/io/mapped_file.hpp"

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_mapped_file_test {

using test_support::TemporaryFolder;
using test_support::throws;

TEST(MappedFile, MappedAndReadBytesAreTheSame) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes += static_cast<char>(i % 251);
  const std::string path = folder.write("file", bytes);
  const MappedFile mapped(path, FileAccess::map);
  const MappedFile read(path, FileAccess::read);
#if __has_include(<sys/mman.h>)
  EXPECT_TRUE(mapped.is_mapped());
#endif
  EXPECT_FALSE(read.is_mapped());
  EXPECT_EQ(mapped.name(), path);
  EXPECT_EQ(mapped.size(), 10000u);
  EXPECT_EQ(read.size(), 10000u);
  EXPECT_EQ(mapped.text(0, 10000), bytes);
  EXPECT_EQ(read.text(0, 10000), bytes);
}

TEST(MappedFile, TextEndsWithTheFile) {
  const TemporaryFolder folder;
  const MappedFile file(folder.write("file", "abcdef"));
  EXPECT_EQ(file.text(2, 3), "cde");
  EXPECT_EQ(file.text(4, 100), "ef");
  EXPECT_EQ(file.text(6, 1), "");
  EXPECT_EQ(file.text(~std::uint64_t{0}, ~std::uint64_t{0}), "");
}

TEST(MappedFile, EmptyFile) {
  const TemporaryFolder folder;
  const MappedFile file(folder.write("file", ""));
  EXPECT_EQ(file.size(), 0u);
  EXPECT_EQ(file.text(0, 1), "");
}

// V31: sizes beyond 32 bits. The file is sparse: it has the size, not the blocks.
TEST(MappedFile, ThreeGigabytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("big", "x");
  std::filesystem::resize_file(path, std::uintmax_t{3} << 30);
  EXPECT_EQ(regular_file_size(path), 3221225472u);
#if __has_include(<sys/mman.h>)
  const MappedFile file(path);
  EXPECT_EQ(file.size(), 3221225472u);
  EXPECT_EQ(file.text(3221225471u, 5), std::string_view("\0", 1));
#endif
}

// V31: three causes, three messages.
TEST(MappedFile, ErrorsSayWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  EXPECT_TRUE(throws<FormatError>([&] { MappedFile file(missing); }, missing + ": no such file"));
  const std::string directory = folder.path().string();
  EXPECT_TRUE(
      throws<FormatError>([&] { MappedFile file(directory); }, directory + ": is a folder, expected a file"));
#if __has_include(<sys/mman.h>)
  EXPECT_TRUE(throws<FormatError>([] { MappedFile file("/dev/null"); }, "/dev/null: is not a regular file"));
#endif
}

// A link that leads nowhere is not the same as nothing: the file was meant to be there.
TEST(MappedFile, BrokenLink) {
  const TemporaryFolder folder;
  const std::string link = folder.file("link");
  std::filesystem::create_symlink("nowhere", link);
  EXPECT_TRUE(path_exists(link));
  EXPECT_TRUE(
      throws<FormatError>([&] { MappedFile file(link); }, link + ": is a link to a file that is not there"));
}

// A path that cannot even be asked about is an error of ours, not of <filesystem>.
TEST(MappedFile, ImpossiblePath) {
  const std::string path = std::string(5000, 'x');
  EXPECT_FALSE(path_exists(path));
  EXPECT_FALSE(is_folder(path));
  EXPECT_TRUE(
      throws<FormatError>([&] { MappedFile file(path); }, path + ": cannot be opened: File name too long"));
}

TEST(MappedFile, UnreadableFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (std::ifstream(path)) GTEST_SKIP() << "this user may read every file";
  for (const FileAccess access : {FileAccess::map, FileAccess::read}) {
    EXPECT_TRUE(throws<FormatError>([&] { MappedFile file(path, access); },
                                    path + ": cannot be opened: Permission denied"));
  }
}

// V30: 40 layers of 5120 x 13824 are more than 2^31.
TEST(SizeOf, ProductsAreCountedIn64Bits) {
  EXPECT_EQ(size_of("w", {40, 5120, 13824}), 2831155200u);
  EXPECT_EQ(size_of("w", {}), 1u);
  EXPECT_EQ(size_of("w", {3, 0, 5}), 0u);
  EXPECT_EQ(size_of("w", {std::int64_t{1} << 31, std::int64_t{1} << 31}), std::uint64_t{1} << 62);
  const std::int64_t largest = 0x7FFFFFFFFFFFFFFF;
  EXPECT_EQ(size_of("w", {largest, 1}), 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(size_of("w", {largest, largest, 0}), 0u);
}

TEST(SizeOf, OverflowAndNegativeAreErrors) {
  const std::string overflow = "file: tensor w: its sizes multiply to more than 63 bits can count";
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_TRUE(throws<FormatError>([&] { size_of("file: tensor w", {half, half}); }, overflow));
  EXPECT_TRUE(throws<FormatError>([&] { size_of("file: tensor w", {half, half, 1}); }, overflow));
  EXPECT_TRUE(throws<FormatError>([&] { size_of("file: tensor w", {half, half / 2}); }, overflow));
  EXPECT_TRUE(throws<FormatError>([&] { size_of("file: tensor w", {0x7FFFFFFFFFFFFFFF, 2}); }, overflow));
  EXPECT_TRUE(throws<FormatError>([] { size_of("w", {0, -3}); }, "w: size -3 is negative"));
}

TEST(RecogniseFile, KnownBeginnings) {
  const TemporaryFolder folder;
  const std::string python =
      "; with Python: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder) writes "
      "safetensors";
  const std::pair<std::string, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 5\n",
       "this is a Git LFS pointer, not the file itself: run `git lfs pull` or download the file"},
      {"PK\x03\x04rest", "this is a PyTorch checkpoint (a zip of Python pickles)" + python},
      {"\x80\x02rest", "this is an old PyTorch checkpoint (a Python pickle)" + python},
      {"\x80\x04rest", "this is an old PyTorch checkpoint (a Python pickle)" + python},
      {"GGUFrest", "this is a GGUF file, which is not read: take the Hugging Face folder it was made from"},
      {"<!DOCTYPE html>", "this is a web page, not a checkpoint: the download went wrong"},
      {"<html>", "this is a web page, not a checkpoint: the download went wrong"},
      {"{\"a\": 1}", ""},
      {"", ""},
  };
  for (const std::pair<std::string, std::string>& item : cases) {
    EXPECT_EQ(recognise_file(MappedFile(folder.write("file", item.first))), item.second) << item.first;
  }
}

}  // namespace io_mapped_file_test
}  // namespace glassbox
