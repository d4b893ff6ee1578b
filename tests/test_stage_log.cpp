// stage_log.hpp: the line a stage writes, and the file it goes to.
//
// Faults that must turn this file red: infinities or NaN counted into the statistics, or not counted; the
// first number not taken for the least and largest; a line lost where the program crashes; a file that cannot
// be written passed over.
#include "glassbox/stage_log.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "support/expect_near.hpp"

namespace glassbox {
namespace stage_log_test {

using test_support::make_tensor;
using test_support::throws;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string file_in(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  return (folder / "stages.txt").string();
}

std::filesystem::path own_folder(const char* name) {
  return std::filesystem::path(::testing::TempDir()) / "glassbox_stage_log" / name;
}

StageRecord record_of(Tensor<float>& tensor, const char* name, Index layer) {
  StageRecord record;
  record.name = name;
  record.layer = layer;
  record.step = 2;
  record.file = "include/glassbox/attention.hpp";
  record.line = 123;
  set_record_tensor(record, tensor);
  return record;
}

TEST(StageLog, SummariesAreThoseOfTheDebuggers) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(
      summary_text(make_tensor<float>({{"query", 2}, {"key", 3}}, {-infinity, 0.5F, nan, 2, 3, infinity})),
      "f32[query=2, key=3] min=0.5 max=3 mean=1.833 nan=1 inf=2");
  EXPECT_EQ(summary_text(make_tensor<double>({{"hidden", 2}}, {-3, -1})),
            "f64[hidden=2] min=-3 max=-1 mean=-2 nan=0 inf=0");
  EXPECT_EQ(summary_text(make_tensor<float>({{"hidden", 1}}, {nan})),
            "f32[hidden=1] min=- max=- mean=- nan=1 inf=0");
  EXPECT_EQ(summary_text(Tensor<std::int64_t>({{"seq", 2}})), "i64[seq=2] min=0 max=0 mean=0 nan=0 inf=0");
  EXPECT_EQ(summary_text(Tensor<bool>({{"key", 2}})), "bool[key=2] min=0 max=0 mean=0 nan=0 inf=0");
}

TEST(StageLog, ALineAStageWrittenAtOnce) {
  const std::string path = file_in(own_folder("lines"));
  Tensor<float> scores = make_tensor<float>({{"key", 2}}, {1, 2});
  StageRecord inner = record_of(scores, "scores", 3);
  StageRecord outer = record_of(scores, "logits", -1);
  {
    StageLog log(path);
    log.write(inner);
    EXPECT_EQ(contents(path),
              "step 2  layer 3  scores  f32[key=2] min=1 max=2 mean=1.5 nan=0 inf=0  attention.hpp:123\n");
    log.write(outer);
  }
  EXPECT_EQ(contents(path),
            "step 2  layer 3  scores  f32[key=2] min=1 max=2 mean=1.5 nan=0 inf=0  attention.hpp:123\n"
            "step 2  layer -  logits  f32[key=2] min=1 max=2 mean=1.5 nan=0 inf=0  attention.hpp:123\n");
  const StageLog again(path);
  EXPECT_EQ(contents(path), "");
}

TEST(StageLog, FilesThatCannotBeWritten) {
  const std::string path = (own_folder("none") / "no" / "folder").string();
  EXPECT_TRUE(
      throws<FormatError>([&] { StageLog log(path); },
                          "GLASSBOX_LOG: " + path + ": cannot be written: No such file or directory"));
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  Tensor<float> scores({{"key", 2}});
  const StageRecord record = record_of(scores, "scores", 0);
  StageLog log("/dev/full");
  EXPECT_TRUE(
      throws<FormatError>([&] { log.write(record); },
                          "GLASSBOX_LOG: /dev/full: no more can be written: No space left on device"));
}

}  // namespace stage_log_test
}  // namespace glassbox
