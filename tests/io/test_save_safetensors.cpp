// Writing safetensors files: what stands in them, byte by byte, and that no failure costs the old file.
//
// Faults that must turn these tests red:
//   - offsets counted from the file's start, or not moved on; tensors or their entries in another order
//   - the header not padded, or its length without the padding
//   - a name twice, a negative size or numbers that do not fit the shape written all the same
//   - an error of the system not noticed (open, write, close, rename), or told without file and reason
//   - the file written under its own name, so that a failure leaves half of it; the other name left behind
#include "glassbox/io/save_safetensors.hpp"

#include <cmath>
#include <limits>

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_save_safetensors_test {

using test_support::read_bytes;
using test_support::TemporaryFolder;
using test_support::throws;

const float six[] = {1, 2, 3, 4, 5, 6};
const double two[] = {-0.5, 0.25};

// The parts of a file, cut out by hand.
struct Parts {
  std::uint64_t header_bytes = 0;
  std::string header, data;
};
Parts parts_of(const std::string& path) {
  const std::string bytes = read_bytes(path);
  Parts parts;
  for (std::size_t i = 0; i < 8; ++i) {
    parts.header_bytes |= std::uint64_t{static_cast<unsigned char>(bytes.at(i))} << (8 * i);
  }
  parts.header = bytes.substr(8, parts.header_bytes);
  parts.data = bytes.substr(8 + parts.header_bytes);
  return parts;
}

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// ---- the bytes

TEST(SaveSafetensors, EveryByteOfASmallFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  save_safetensors(path, {tensor_to_save("b", {2, 3}, six, 6), tensor_to_save("a", {2}, two, 2)});
  const Parts parts = parts_of(path);
  const std::string json =
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[24,40]}}";
  EXPECT_EQ(parts.header.substr(0, json.size()), json);
  EXPECT_EQ(parts.header.find_first_not_of(' ', json.size()), std::string::npos);
  EXPECT_EQ(parts.header_bytes, (json.size() + 7) / 8 * 8);
  ASSERT_EQ(parts.data.size(), 40u);
  EXPECT_EQ(std::memcmp(parts.data.data(), six, 24), 0);
  EXPECT_EQ(std::memcmp(parts.data.data() + 24, two, 16), 0);
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"x.safetensors"});
}

TEST(SaveSafetensors, NumbersBeginAtAMultipleOfEight) {
  const TemporaryFolder folder;
  for (std::size_t length = 1; length <= 9; ++length) {
    const std::string path = folder.file("x.safetensors");
    const std::string name(length, 'n');
    save_safetensors(path, {tensor_to_save(name, {2}, two, 2)});
    EXPECT_EQ(parts_of(path).header_bytes % 8, 0u) << length;
    const SafetensorsFile file(path);
    ASSERT_NE(file.find(name), nullptr);
    EXPECT_EQ(std::memcmp(file.data(*file.find(name)), two, 16), 0);
  }
}

// What only a state file needs: every number comes back with all its bits.
TEST(SaveSafetensors, NumbersThatAreNotFinite) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const float numbers[] = {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN(), -0.0f,
                           std::numeric_limits<float>::denorm_min()};
  save_safetensors(path, {tensor_to_save("n", {5}, numbers, 5)});
  EXPECT_EQ(std::memcmp(parts_of(path).data.data(), numbers, sizeof numbers), 0);
}

TEST(SaveSafetensors, NoNumbersAndNoTensors) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  save_safetensors(path, {}, {});
  EXPECT_EQ(parts_of(path).header, "{}      ");
  save_safetensors(path, {tensor_to_save("e", {0, 5}, six, 0), tensor_to_save("s", {}, six + 3, 1)}, {});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.find("e")->shape, (std::vector<Index>{0, 5}));
  EXPECT_EQ(file.find("s")->shape, std::vector<Index>{});
  EXPECT_EQ(std::memcmp(file.data(*file.find("s")), six + 3, 4), 0);
}

TEST(SaveSafetensors, MetadataIsText) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const SafetensorsMetadata metadata = {{"a \"b\"\n", "\xC3\xB6 {}\t"}, {"format", "pt"}};
  save_safetensors(path, {tensor_to_save("t", {1}, six, 1)}, metadata);
  const Json header = Json::parse(parts_of(path).header);
  EXPECT_EQ(header["__metadata__"].get<SafetensorsMetadata>(), metadata);
  const SafetensorsFile file(path);
}

TEST(SaveSafetensors, OtherTypesAreWrittenAsTheyAre) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const std::int64_t ids[] = {1, -2};
  save_safetensors(path, {{"ids", "I64", {2}, std::as_bytes(std::span<const std::int64_t>(ids))}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.find("ids")->dtype, "I64");
  EXPECT_EQ(std::memcmp(file.data(*file.find("ids")), ids, 16), 0);
}

// ---- what cannot be written

// What saving says, without the beginning that names the file; nothing is written.
std::string refusal(const std::vector<TensorToSave>& tensors, const SafetensorsMetadata& metadata = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const std::string beginning = "save_safetensors: " + path + ": ";
  try {
    save_safetensors(path, tensors, metadata);
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(names_in(folder).empty());
    return text.starts_with(beginning) ? text.substr(beginning.size()) : "the file is not named: " + text;
  }
  return "nothing was thrown";
}

TEST(SaveSafetensors, RefusesWhatNobodyCouldRead) {
  const TensorToSave good = tensor_to_save("a", {2, 3}, six, 6);
  EXPECT_EQ(refusal({good, tensor_to_save("b", {1}, six, 1), good}), "tensor a is there twice");
  EXPECT_EQ(refusal({tensor_to_save("a", {2, 3}, six, 5)}),
            "tensor a: has 20 bytes, but F32 [2, 3] needs 24");
  EXPECT_EQ(refusal({tensor_to_save("a", {2, 2}, six, 6)}),
            "tensor a: has 24 bytes, but F32 [2, 2] needs 16");
  EXPECT_EQ(refusal({tensor_to_save("a", {-2, -3}, six, 6)}), "tensor a: its shape [-2, -3] is negative");
  EXPECT_EQ(refusal({tensor_to_save("__metadata__", {6}, six, 6)}),
            "tensor __metadata__: the format has another use for this name");
  EXPECT_EQ(refusal({tensor_to_save("a\xFF", {6}, six, 6)}),
            "tensor " + escaped_bytes("a\xFF") + ": its name is not well-formed UTF-8");
  EXPECT_EQ(refusal({{"a", "F31", {6}, good.numbers}}), "tensor a: unknown dtype \"F31\"");
  EXPECT_EQ(refusal({good}, {{"format", "\xFF"}}), "metadata \"format\" is not well-formed UTF-8");
  EXPECT_TRUE(
      throws<UsageError>([] { tensor_to_save("a", {6}, six, -1); }, "tensor_to_save: a has -1 numbers"));
  EXPECT_TRUE(throws<FormatError>(
      [] {
        save_safetensors("x", {tensor_to_save("a", {Index{1} << 40, Index{1} << 40}, six, 6)});
      },
      "save_safetensors: x: tensor a: its sizes multiply to more than 63 bits can count"));
}

TEST(SaveSafetensors, RefusesAHeaderThatReadersRefuse) {
  check_header_length("x", 100'000'000);
  EXPECT_TRUE(throws<UsageError>([] { check_header_length("x", 100'000'008); },
                                 "x: a header of 100000008 bytes, at most 100000000 are allowed"));
}

// ---- what the system refuses

class Failures : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = folder_.file("x.safetensors");
  const std::vector<TensorToSave> tensors_ = {tensor_to_save("a", {2, 3}, six, 6)};

  // What saving says, without the file's name.
  std::string error(const std::string& path) {
    try {
      save_safetensors(path, tensors_);
    } catch (const FormatError& caught) {
      const std::string text = caught.what();
      return text.starts_with(path) ? text.substr(path.size()) : "the file is not named: " + text;
    }
    return "";
  }
};

TEST_F(Failures, NoFolder) {
  EXPECT_EQ(error(folder_.file("nowhere/x.safetensors")),
            ": cannot be written (as x.safetensors.part): No such file or directory");
  folder_.write("file", "");
  EXPECT_EQ(error(folder_.file("file/x.safetensors")),
            ": cannot be written (as x.safetensors.part): Not a directory");
}

TEST_F(Failures, NotAFile) {
  EXPECT_EQ(error(folder_.path().string()), ": is a folder, expected a file");
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  std::filesystem::create_symlink("/dev/full", path_);
  EXPECT_EQ(error(path_), ": is not a regular file");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
}

TEST_F(Failures, NoPermission) {
  const std::filesystem::path closed = folder_.path() / "closed";
  std::filesystem::create_directory(closed);
  std::filesystem::permissions(closed,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  if (std::ofstream(closed / "probe")) GTEST_SKIP() << "this user may write everywhere";
  EXPECT_EQ(error((closed / "x").string()), ": cannot be written (as x.part): Permission denied");
}

// The disk is full: at the first bytes of a large tensor, and at the end for a small one, which waits in the
// stream's buffer until the file is closed.
TEST_F(Failures, FullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const std::vector<double> many(100'000, 1.0);
  for (const std::vector<TensorToSave>& tensors :
       {tensors_, std::vector<TensorToSave>{tensor_to_save("m", {100'000}, many.data(), 100'000)}}) {
    folder_.write("x.safetensors", "the old file");
    std::filesystem::create_symlink("/dev/full", path_ + ".part");
    EXPECT_TRUE(
        throws<FormatError>([&] { save_safetensors(path_, tensors); },
                            path_ + ": cannot be written (as x.safetensors.part): No space left on device"));
    EXPECT_EQ(read_bytes(path_), "the old file");
    EXPECT_EQ(names_in(folder_), std::vector<std::string>{"x.safetensors"});
  }
}

TEST_F(Failures, TheNameIsTaken) {
  {
    ReplacementFile file(path_);
    file.write("new");
    std::filesystem::create_directory(path_);
    EXPECT_TRUE(throws<FormatError>([&] { file.replace(); },
                                    path_ + ": cannot be replaced by x.safetensors.part: Is a directory"));
  }
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"x.safetensors"});
}

// ---- the old file

TEST(ReplacementFile, TheOldFileStaysUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "old");
  {
    ReplacementFile file(path);
    file.write("new");
    file.finish();
    EXPECT_EQ(read_bytes(path), "old");
    EXPECT_EQ(read_bytes(path + ".part"), "new");
    file.replace();
  }
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"x"});
}

TEST(ReplacementFile, WhoStopsOnTheWayChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "old");
  {
    ReplacementFile file(path);
    file.write("new");
  }
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"x"});
}

// What a killed program left does not get into the next file.
TEST(ReplacementFile, ALeftoverIsOverwritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  folder.write("x.part", "a long leftover");
  ReplacementFile file(path);
  file.write("new");
  file.replace();
  EXPECT_EQ(read_bytes(path), "new");
}

// A model may be saved over the file whose weights it borrows.
TEST(ReplacementFile, WhoHasTheOldFileOpenKeepsIt) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "the old file");
  const MappedFile old(path);
  ReplacementFile file(path);
  file.write("new");
  file.replace();
  EXPECT_EQ(old.text(0, old.size()), "the old file");
  EXPECT_EQ(read_bytes(path), "new");
}

TEST(ReplacementFile, ALinkIsReplacedNotWhatItLeadsTo) {
  const TemporaryFolder folder;
  folder.write("blob", "shared");
  std::filesystem::create_symlink(folder.file("blob"), folder.file("x"));
  ReplacementFile file(folder.file("x"));
  file.write("new");
  file.replace();
  EXPECT_EQ(read_bytes(folder.file("blob")), "shared");
  EXPECT_EQ(read_bytes(folder.file("x")), "new");
}

}  // namespace io_save_safetensors_test
}  // namespace glassbox
