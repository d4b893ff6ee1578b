// .npy files, read and written.
// Faults that must turn this red: (2, 3) as (3, 2); no comma in (3,); header not padded to 64; length bytes
// swapped; columns first; rows of a tensor with room for more written with the room; fortran_order ignored;
// another type taken.
#include "glassbox/io/npy.hpp"

#include <functional>

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_npy_test {

using test_support::make_tensor;
using test_support::near_tensors;
using test_support::read_bytes;
using test_support::TemporaryFolder;
using test_support::throws;

// V38: byte by byte what numpy.save writes for numpy.float32([[1, 2, 3], [4, 5, 6]]).
TEST(Npy, BytesOfATwoByThreeMatrix) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  write_npy(path, make_tensor<float>({{"row", 2}, {"column", 3}}, {1, 2, 3, 4, 5, 6}));
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  std::string expected = std::string("\x93NUMPY\x01\0\x76\0", 10) + dict;
  expected += std::string(127 - expected.size(), ' ') + "\n";
  const float values[] = {1, 2, 3, 4, 5, 6};
  expected += std::string(reinterpret_cast<const char*>(values), sizeof values);
  EXPECT_EQ(read_bytes(path), expected);
}

TEST(Npy, HeadersEndAtMultiplesOf64) {
  for (Index rows = 1; rows < Index{1} << 60; rows = rows * 7 + 1) {
    EXPECT_EQ(npy_header("<f8", {rows, rows}).size() % 64, 0u) << rows;
    EXPECT_EQ(npy_header("<f8", {rows, rows}).back(), '\n');
  }
  EXPECT_EQ(npy_shape({3}), "(3,)");
  EXPECT_EQ(npy_shape({}), "()");
  EXPECT_EQ(npy_shape({1, 2, 3, 4}), "(1, 2, 3, 4)");
}

template <typename T>
void round_trip(std::initializer_list<Axis> axes, const std::vector<double>& values) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  const Tensor<T> tensor = make_tensor<T>(axes, values);
  write_npy(path, tensor);
  std::vector<std::string> names;
  for (int i = 0; i < tensor.rank(); ++i) names.push_back(tensor.axis(i).name);
  const Tensor<T> read = read_npy<T>(path, names);
  EXPECT_EQ(shape_string(read), shape_string(tensor));
  EXPECT_TRUE(near_tensors(read, tensor, 0));
}

TEST(Npy, EveryTypeComesBack) {
  round_trip<float>({{"a", 2}, {"b", 3}}, {1, -2, 3.5, 1e-30, 5, 6});
  round_trip<double>({{"a", 3}}, {1e300, -2, 1.0 / 3});
  round_trip<std::int64_t>({{"a", 1}, {"b", 2}, {"c", 1}}, {4611686018427387904.0, -1});
  round_trip<bool>({{"a", 1}, {"b", 2}, {"c", 2}, {"d", 1}}, {1, 0, 0, 1});
  round_trip<float>({{"a", 0}, {"b", 3}}, {});
}

TEST(Npy, OneNumberHasNoAxes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  write_npy(path, 2.5);
  EXPECT_NE(read_bytes(path).find("'shape': (), }"), std::string::npos);
  const Tensor<double> read = read_npy<double>(path, {"number"});
  EXPECT_EQ(shape_string(read), "[number=1]");
  EXPECT_EQ(read(0), 2.5);
}

TEST(Npy, RoomForMoreRowsIsNotWritten) {
  const TemporaryFolder folder;
  Tensor<float> keys = make_tensor<float>({{"head", 2}, {"key", 1}, {"head_dim", 2}}, {1, 2, 3, 4});
  for (int i = 0; i < 2; ++i) {
    keys.append_rows(make_tensor<float>({{"head", 2}, {"key", 1}, {"head_dim", 2}}, {5, 6, 7, 8}));
  }
  ASSERT_FALSE(keys.contiguous());
  write_npy(folder.file("x.npy"), keys);
  EXPECT_TRUE(near_tensors(read_npy<float>(folder.file("x.npy"), {"head", "key", "head_dim"}), keys, 0));
}

TEST(Npy, ReadsWhatNumpyWrote) {
  const std::string folder = (test_support::own_reference() / "tiny-llama-mha" / "reference").string();
  const Tensor<std::int64_t> ids = read_npy<std::int64_t>(folder + "/prompt0.input_ids.npy", {"position"});
  EXPECT_EQ(ids(0), 51);
  const Tensor<double> logits = read_npy<double>(folder + "/prompt1.logits.f64.npy", {"position", "vocab"});
  EXPECT_EQ(shape_string(logits), "[position=7, vocab=96]");
}

TEST(Npy, WritingErrors) {
  EXPECT_TRUE(throws<ShapeError>([] { write_npy("x.npy", Tensor<float>()); },
                                 "write_npy: x.npy: the tensor has no axes"));
  const TemporaryFolder folder;
  const std::string path = folder.file("no_folder/x.npy");
  EXPECT_TRUE(throws<FormatError>([&] { write_npy(path, 1.0); },
                                  path + ": cannot be written: No such file or directory"));
}

TEST(Npy, ReadingErrors) {
  const TemporaryFolder folder;
  const std::string good = npy_header("<f4", {2, 3}) + std::string(24, '\0');
  const std::function<std::string(const std::string&, int)> error = [&](const std::string& bytes, int axes) {
    const std::string path = folder.write("x.npy", bytes);
    try {
      read_npy<float>(path, std::vector<std::string>(static_cast<std::size_t>(axes), "axis"));
    } catch (const FormatError& caught) {
      return std::string(caught.what()).substr(path.size());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(error(good, 2), "nothing was thrown");
  EXPECT_EQ(error("", 2), ": does not begin as a .npy file");
  EXPECT_EQ(error("\x93NUMPX" + good.substr(6), 2), ": does not begin as a .npy file");
  EXPECT_EQ(error(good.substr(0, 6) + '\x04' + good.substr(7), 2), ": .npy version 4, expected 1 to 3");
  EXPECT_EQ(error(good.substr(0, 100), 2), ": truncated: 100 bytes present, the header alone needs 128");
  EXPECT_EQ(error(good.substr(0, 151), 2), ": 151 bytes present, shape (2, 3) needs 152");
  EXPECT_EQ(error(good + "x", 2), ": 153 bytes present, shape (2, 3) needs 152");
  EXPECT_EQ(error(good, 3), ": has shape (2, 3), expected 3 axes");
  EXPECT_EQ(error(npy_header("<f8", {1}) + std::string(8, '\0'), 1), ": holds '<f8', expected '<f4'");
  std::string fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_EQ(error(fortran, 2), ": fortran_order is True , expected False: save numpy.ascontiguousarray(x)");
  std::string words = good;
  words.replace(words.find("2, 3"), 4, "2, x");
  EXPECT_EQ(error(words, 2), ": its .npy shape (2, x) is not a list of sizes");
  std::string nameless = good;
  nameless.replace(nameless.find("descr"), 5, "abcde");
  EXPECT_EQ(error(nameless, 2), ": its .npy header has no readable 'descr': '");
  const Index huge = Index{1} << 48;
  EXPECT_EQ(error(npy_header("<f4", {huge, huge}), 2), ": its sizes multiply to more than 63 bits can count");
  EXPECT_EQ(error(npy_header("<f4", {huge + 1, 1}), 2), ": a size in its .npy shape is too large");
}

}  // namespace io_npy_test
}  // namespace glassbox
