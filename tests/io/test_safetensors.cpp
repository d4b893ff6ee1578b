// Safetensors files and shards.
// Faults that must turn this red: any check of the header dropped (length, types, sizes, order, overlap, gap,
// end); begin counted from the file's start in place of the header's end; missing shards told one at a time;
// a shard's tensor taken though the index has it elsewhere; path separators in shard names allowed.
#include "glassbox/io/safetensors.hpp"

#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_safetensors_test {

using test_support::bytes_of;
using test_support::f32_tensor;
using test_support::read_bytes;
using test_support::safetensors_bytes;
using test_support::StoredTensors;
using test_support::TemporaryFolder;
using test_support::throws;

StoredTensors two_tensors() {
  StoredTensors tensors;
  tensors["a"] = f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  tensors["b"] = {"I64", {1}, bytes_of(std::int64_t{-7})};
  return tensors;
}

// What opening a file with these bytes says, without the file's name.
std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.safetensors", bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const FormatError& error) {
    const std::string text = error.what();
    return text.starts_with(path) ? text.substr(path.size()) : "the file is not named: " + text;
  }
  return "";
}

std::string error_of_header(const std::string& header, std::size_t data_bytes) {
  return error_of(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

// 0x0280 and 0x0480 bytes of header: their lengths begin as a Python pickle does, 80 02 and 80 04.
TEST(Safetensors, ALengthThatLooksLikeAPickle) {
  const std::size_t unpadded = safetensors_bytes(two_tensors()).size() - 8 - 32;  // 32 bytes of data
  for (const std::size_t header_bytes : {std::size_t{0x0280}, std::size_t{0x0480}}) {
    const std::string bytes = safetensors_bytes(two_tensors(), header_bytes - unpadded);
    EXPECT_EQ(bytes[0], '\x80');
    EXPECT_EQ(error_of(bytes), "");
  }
}

TEST(Safetensors, TensorsLieWhereTheHeaderSays) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.safetensors", safetensors_bytes(two_tensors(), 3));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 2u);
  const SafetensorsTensor* a = file.find("a");
  const SafetensorsTensor* b = file.find("b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(a->dtype, "F32");
  EXPECT_EQ(a->shape, (std::vector<Index>{2, 3}));
  EXPECT_EQ(a->bytes, 24u);
  EXPECT_EQ(b->bytes, 8u);
  EXPECT_EQ(std::memcmp(file.data(*a), two_tensors()["a"].bytes.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.data(*b), two_tensors()["b"].bytes.data(), 8), 0);
  EXPECT_EQ(a->begin + 32, std::filesystem::file_size(path));
}

TEST(Safetensors, EmptyAndSizelessTensors) {
  EXPECT_EQ(error_of(safetensors_bytes("{}", "")), "");
  EXPECT_EQ(error_of_header("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4), "");
  EXPECT_EQ(error_of_header("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]}}", 0), "");
}

// V26: a file cut anywhere names the bytes it has and the bytes it needs.
TEST(Safetensors, Truncated) {
  const std::string bytes = safetensors_bytes(two_tensors());
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const std::uint64_t whole = bytes.size();
  const std::pair<std::uint64_t, std::string> cuts[] = {
      {0, "8 needed for the length of the header"},
      {4, "8 needed for the length of the header"},
      {7, "8 needed for the length of the header"},
      {8, std::to_string(8 + header) + " needed for the header"},
      {8 + header - 1, std::to_string(8 + header) + " needed for the header"},
      {8 + header, std::to_string(whole) + " needed for the tensors"},
      {whole - 1, std::to_string(whole) + " needed for the tensors"}};
  for (const std::pair<std::uint64_t, std::string>& cut : cuts) {
    EXPECT_EQ(error_of(bytes.substr(0, cut.first)), ": truncated: " + std::to_string(cut.first) +
                                                        " bytes present, " + cut.second +
                                                        " (incomplete download?)");
  }
  EXPECT_EQ(error_of(bytes + "xyz"), ": 3 bytes after the last tensor belong to none");
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(error_of(bytes.substr(0, size)), "");
}

TEST(Safetensors, OtherFiles) {
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
            ": this is a Git LFS pointer, not the file itself: run `git lfs pull` or download the file");
  EXPECT_EQ(error_of("The quick brown fox"),
            ": not a safetensors file: a header of 7163385811044755540 bytes, at most 100000000 are allowed");
  EXPECT_EQ(error_of(bytes_of(std::uint64_t{100'000'001}) + "{"),
            ": not a safetensors file: a header of 100000001 bytes, at most 100000000 are allowed");
  EXPECT_EQ(error_of(safetensors_bytes(" {}", "")),
            ": not a safetensors file: its header does not begin with {");
  EXPECT_EQ(error_of(safetensors_bytes("", "")),
            ": not a safetensors file: its header does not begin with {");
}

TEST(Safetensors, MetadataIsTexts) {
  EXPECT_EQ(error_of_header("{\"__metadata__\":{\"format\":\"pt\"}}", 0), "");
  EXPECT_EQ(error_of_header("{\"__metadata__\":{\"format\":3}}", 0),
            ": __metadata__ is {\"format\":3}, expected an object whose values are strings");
  EXPECT_EQ(error_of_header("{\"__metadata__\":\"pt\"}", 0),
            ": __metadata__ is \"pt\", expected an object whose values are strings");
}

TEST(Safetensors, NothingBesideTheThreeKeys) {
  EXPECT_EQ(
      error_of_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"scale\":2}}", 4),
      ": tensor a: its entry is "
      "{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"scale\":2,\"shape\":[]}, expected {\"dtype\": string, "
      "\"shape\": [sizes], \"data_offsets\": [begin, end]}");
}

TEST(Safetensors, HeaderIsNotJson) {
  EXPECT_EQ(error_of_header("{\"a\": }", 0), ": not valid JSON at byte 14 (line 1, column 7)");
  EXPECT_EQ(error_of_header("{\"a\":1,\"a\":2}", 0), ": the key \"a\" stands twice in one object");
}

TEST(Safetensors, EntriesOfWrongForm) {
  const std::string expected =
      ", expected {\"dtype\": string, \"shape\": [sizes], \"data_offsets\": [begin, end]}";
  for (const std::string entry :
       {"3", "{}", "{\"dtype\":\"F32\",\"shape\":[1]}", "{\"data_offsets\":[0,4],\"dtype\":1,\"shape\":[1]}",
        "{\"data_offsets\":[0,4,4],\"dtype\":\"F32\",\"shape\":[1]}",
        "{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":1}"}) {
    const std::string found = entry.size() <= 80 ? entry : entry.substr(0, 77) + "...";
    EXPECT_EQ(error_of_header("{\"a\":" + entry + "}", 4), ": tensor a: its entry is " + found + expected);
  }
}

std::string header_of(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

TEST(Safetensors, TypesAndSizes) {
  EXPECT_EQ(error_of_header(header_of("F31", "[1]", "[0,4]"), 4), ": tensor a: unknown dtype \"F31\"");
  EXPECT_EQ(error_of_header(header_of("F32", "[1]", "[0,5]"), 5),
            ": tensor a: data_offsets span 5 bytes, but F32 [1] needs 4");
  EXPECT_EQ(error_of_header(header_of("BF16", "[2,3]", "[0,24]"), 24),
            ": tensor a: data_offsets span 24 bytes, but BF16 [2, 3] needs 12");
  EXPECT_EQ(error_of_header(header_of("F32", "[1]", "[4,0]"), 4),
            ": tensor a: data_offsets [4, 0] end before they begin");
  const std::string range = ", expected a whole number from 0 to 9223372036854775807";
  EXPECT_EQ(error_of_header(header_of("F32", "[-1]", "[0,4]"), 4), ": tensor a: shape holds -1" + range);
  EXPECT_EQ(error_of_header(header_of("F32", "[1.0]", "[0,4]"), 4), ": tensor a: shape holds 1.0" + range);
  EXPECT_EQ(error_of_header(header_of("F32", "[1]", "[0,18446744073709551615]"), 4),
            ": tensor a: data_offsets holds 18446744073709551615" + range);
  // V30: the product of the shape overflows to exactly the bytes that are there.
  EXPECT_EQ(error_of_header(header_of("F32", "[4294967296,4294967296]", "[0,0]"), 0),
            ": tensor a: its sizes multiply to more than 63 bits can count");
  EXPECT_EQ(error_of_header(header_of("F32", "[4611686018427387905]", "[0,4]"), 4),
            ": tensor a: its sizes multiply to more than 63 bits can count");
  EXPECT_EQ(
      error_of_header(header_of("I8", "[9223372036854775807]", "[0,9223372036854775807]"), 1),
      ": truncated: 98 bytes present, 9223372036854775904 needed for the tensors (incomplete download?)");
}

TEST(Safetensors, EveryTypeHasItsSize) {
  const std::pair<std::string, Index> types[] = {{"F64", 8},  {"I64", 8},     {"U64", 8},     {"F32", 4},
                                                 {"I32", 4},  {"U32", 4},     {"F16", 2},     {"BF16", 2},
                                                 {"I16", 2},  {"U16", 2},     {"I8", 1},      {"U8", 1},
                                                 {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}};
  for (const std::pair<std::string, Index>& type : types) {
    EXPECT_EQ(safetensors_dtype_bytes(type.first), type.second) << type.first;
  }
  EXPECT_EQ(safetensors_dtype_bytes("f32"), 0);
  EXPECT_EQ(safetensors_dtype_bytes(""), 0);
}

std::string two_entries(const std::string& a_offsets, const std::string& b_offsets) {
  return "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + a_offsets +
         "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + b_offsets + "}}";
}

TEST(Safetensors, OverlapsAndGaps) {
  EXPECT_EQ(error_of_header(two_entries("[0,8]", "[8,12]"), 12), "");
  EXPECT_EQ(error_of_header(two_entries("[4,12]", "[0,4]"), 12), "");
  EXPECT_EQ(error_of_header(two_entries("[0,8]", "[4,8]"), 8), ": tensor b: overlaps a");
  EXPECT_EQ(error_of_header(two_entries("[0,8]", "[0,4]"), 8), ": tensor a: overlaps b");
  EXPECT_EQ(error_of_header(two_entries("[0,8]", "[9,13]"), 13),
            ": tensor b: 1 bytes between a and it belong to no tensor");
  EXPECT_EQ(error_of_header(two_entries("[2,10]", "[10,14]"), 14),
            ": tensor a: 2 bytes between the header and it belong to no tensor");
}

// ---- shards

class Shards : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string index_ = folder_.file("model.safetensors.index.json");

  void write_shard(const std::string& name, const std::vector<std::string>& tensor_names) {
    StoredTensors tensors;
    for (const std::string& tensor : tensor_names) {
      tensors[tensor] = f32_tensor({1}, {static_cast<float>(name.back())});
    }
    folder_.write(name, safetensors_bytes(tensors));
  }
  void write_index(const std::string& weight_map) {
    folder_.write("model.safetensors.index.json",
                  "{\"metadata\": {\"total_size\": 12}, \"weight_map\": " + weight_map + "}");
  }
  std::string error() {
    try {
      open_safetensors_folder(folder_.path());
    } catch (const FormatError& caught) {
      return caught.what();
    }
    return "";
  }
};

TEST_F(Shards, EachTensorComesFromTheShardThatTheIndexNames) {
  write_shard("s1", {"a", "b"});
  write_shard("s2", {"b", "c", "d"});
  write_index("{\"a\": \"s1\", \"b\": \"s2\", \"c\": \"s2\"}");
  const SafetensorsFolder tensors = open_safetensors_folder(folder_.path());
  ASSERT_EQ(tensors.files.size(), 2u);
  ASSERT_EQ(tensors.places.size(), 3u);
  EXPECT_EQ(tensors.places.at("a").file, 0u);
  EXPECT_EQ(tensors.places.at("b").file, 1u);
  EXPECT_EQ(tensors.places.at("c").file, 1u);
  EXPECT_EQ(tensors.files[1].tensors()[tensors.places.at("c").tensor].name, "c");
  ASSERT_EQ(tensors.not_in_index.size(), 2u);
  EXPECT_EQ(tensors.files[0].tensors()[tensors.not_in_index[0].tensor].name, "b");
  EXPECT_EQ(tensors.files[1].tensors()[tensors.not_in_index[1].tensor].name, "d");
}

// V27: all missing files in one message, before any is opened.
TEST_F(Shards, AllMissingFilesAreNamed) {
  folder_.write("s2", "not a safetensors file");
  write_index("{\"a\": \"s1\", \"b\": \"s2\", \"c\": \"s3\", \"d\": \"s1\"}");
  EXPECT_EQ(error(), index_ + ": 2 of 3 files are missing: s1, s3");
}

TEST_F(Shards, NamesThatNoFileCanHave) {
  const std::string name(5000, 'x');
  write_index("{\"a\": \"" + name + "\"}");
  EXPECT_EQ(error(), index_ + ": 1 of 1 files are missing: " + name);
}

TEST_F(Shards, TensorAbsentFromItsShard) {
  write_shard("s1", {"a"});
  write_shard("s2", {"b"});
  write_index("{\"a\": \"s1\", \"b\": \"s1\"}");
  EXPECT_EQ(error(), index_ + ": tensor b is said to be in s1, but that file does not have it");
}

TEST_F(Shards, IndexOfWrongForm) {
  const std::string no_map = index_ + ": has no \"weight_map\" {tensor: file}";
  folder_.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(error(), no_map);
  write_index("[]");
  EXPECT_EQ(error(), no_map);
  write_index("{}");
  EXPECT_EQ(error(), no_map);
  folder_.write("model.safetensors.index.json", "[]");
  EXPECT_EQ(error(), index_ + ": is [], expected a JSON object");
  for (const std::string file : {"\"../s1\"", "\"/etc/passwd\"", "\"a\\\\b\"", "\"C:x\"", "\"..\"", "\".\"",
                                 "\"\"", "3", "\"s\\u0000\""}) {
    write_index("{\"a\": " + file + "}");
    EXPECT_EQ(error(), index_ + ": weight_map: tensor a is in " + file +
                           ", expected the name of a file in this folder");
  }
}

TEST_F(Shards, NeitherFileIsThere) { EXPECT_EQ(error(), index_ + ": no such file"); }

TEST_F(Shards, ASingleFileComesFirst) {
  write_index("{\"a\": \"missing\"}");
  write_shard("model.safetensors", {"x"});
  const SafetensorsFolder tensors = open_safetensors_folder(folder_.path());
  EXPECT_EQ(tensors.places.count("x"), 1u);
  EXPECT_EQ(tensors.places.size(), 1u);
}

}  // namespace io_safetensors_test
}  // namespace glassbox
