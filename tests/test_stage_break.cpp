// stage_break.hpp: what GLASSBOX_BREAK asks for, and where that is. That a debugger really stops there is
// shown in tests/debugger/breaks.session.
//
// Faults that must turn this file red: a condition passed over, >= read as =, a hit counted where another
// condition fails or from 0; a place that is not understood taken for one; a place never reached not said; a
// trap that no debugger takes ending the program; the program's own handler of traps replaced.
#include "glassbox/stage_break.hpp"

#include "support/expect_near.hpp"

namespace glassbox {
namespace stage_break_test {

using test_support::throws;

StageRecord record_of(Tensor<float>& tensor, const char* name, Index layer, Index step) {
  StageRecord record;
  record.name = name;
  record.layer = layer;
  record.step = step;
  set_record_tensor(record, tensor);
  return record;
}

// At which of the given layers a place is reached.
std::vector<Index> layers_reached(const std::string& place, Index step = 0, Index keys = 5) {
  StageRequest request = parse_stage_request(place);
  Tensor<float> scores({{"query", 2}, {"key", keys}});
  std::vector<Index> layers;
  for (Index layer = -1; layer < 4; ++layer) {
    if (request.is_reached(record_of(scores, "scores", layer, step))) layers.push_back(layer);
  }
  return layers;
}

TEST(StageBreak, TheNameOfTheStage) {
  EXPECT_EQ(layers_reached("scores"), (std::vector<Index>{-1, 0, 1, 2, 3}));
  EXPECT_EQ(layers_reached("*"), (std::vector<Index>{-1, 0, 1, 2, 3}));
  EXPECT_EQ(layers_reached("score"), (std::vector<Index>{}));
}

TEST(StageBreak, LayerAndStep) {
  EXPECT_EQ(layers_reached("scores:layer=2"), (std::vector<Index>{2}));
  EXPECT_EQ(layers_reached("scores:layer=-1"), (std::vector<Index>{-1}));
  EXPECT_EQ(layers_reached("scores:layer>=2"), (std::vector<Index>{2, 3}));
  EXPECT_EQ(layers_reached("scores:layer=2:step=1"), (std::vector<Index>{}));
  EXPECT_EQ(layers_reached("scores:layer=2:step=1", 1), (std::vector<Index>{2}));
}

TEST(StageBreak, SizesOfAxes) {
  EXPECT_EQ(layers_reached("scores:key>=5:layer=0"), (std::vector<Index>{0}));
  EXPECT_EQ(layers_reached("scores:key>=6:layer=0"), (std::vector<Index>{}));
  EXPECT_EQ(layers_reached("scores:key=5:layer=0"), (std::vector<Index>{0}));
  EXPECT_EQ(layers_reached("scores:key=4:layer=0"), (std::vector<Index>{}));
  EXPECT_EQ(layers_reached("scores:head>=-1:layer=0"), (std::vector<Index>{}));  // it has no such axis
}

TEST(StageBreak, HitsAreCountedWhereAllElseIsSo) {
  EXPECT_EQ(layers_reached("scores:hit=1"), (std::vector<Index>{-1}));
  EXPECT_EQ(layers_reached("scores:layer>=1:hit=2"), (std::vector<Index>{2}));
  EXPECT_EQ(layers_reached("scores:hit=2:layer>=1"), (std::vector<Index>{2}));
  EXPECT_EQ(layers_reached("scores:hit=9"), (std::vector<Index>{}));
}

TEST(StageBreak, AxesOfEveryElementType) {
  Tensor<double> f64({{"hidden", 3}});
  Tensor<std::int64_t> i64({{"seq", 4}});
  Tensor<bool> boolean({{"key", 5}});
  StageRecord record;
  EXPECT_EQ(axis_size(record, "hidden"), -1);
  set_record_tensor(record, boolean);
  EXPECT_EQ(axis_size(record, "key"), 5);
  record = StageRecord();
  set_record_tensor(record, i64);
  EXPECT_EQ(axis_size(record, "seq"), 4);
  record = StageRecord();
  set_record_tensor(record, f64);
  EXPECT_EQ(axis_size(record, "hidden"), 3);
  EXPECT_EQ(axis_size(record, "key"), -1);
}

TEST(StageBreak, WhatIsNotUnderstood) {
  for (const char* text : {"", ":layer=2", "layer=2"}) {
    EXPECT_TRUE(throws<UsageError>([&] { parse_stage_request(text); },
                                   "GLASSBOX_BREAK: found \"" + std::string(text) +
                                       "\", expected the name of a stage in front, as in scores:layer=3"));
  }
  for (const char* text :
       {"", "layer", "layer=", "layer=x", "layer=2x", "=2", ">=2", "layer=x999999999999999999"}) {
    EXPECT_TRUE(throws<UsageError>([&] { parse_stage_request("scores:" + std::string(text)); },
                                   "GLASSBOX_BREAK: found \"" + std::string(text) +
                                       "\", expected layer=N, step=N, hit=N, AXIS=N or AXIS>=N"));
  }
  for (const char* text :
       {"layer=9999999999999999999", "layer=-9999999999999999999", "key>=9999999999999999999"}) {
    EXPECT_TRUE(throws<UsageError>(
        [&] { parse_stage_request("scores:" + std::string(text)); },
        "GLASSBOX_BREAK: found \"" + std::string(text) + "\", a number too large: at most 18 digits"));
  }
  for (const char* text : {"hit=0", "hit>=2", "hit=-1"}) {
    EXPECT_TRUE(throws<UsageError>(
        [&] { parse_stage_request("scores:" + std::string(text)); },
        "GLASSBOX_BREAK: found \"" + std::string(text) + "\", expected hit=N with N at least 1"));
  }
  EXPECT_TRUE(throws<UsageError>(
      [] { StageBreaks breaks("scores,"); },
      "GLASSBOX_BREAK: found \"\", expected the name of a stage in front, as in scores:layer=3"));
}

TEST(StageBreak, SeveralPlacesAndThoseNeverReached) {
  Tensor<float> scores({{"key", 2}});
  testing::internal::CaptureStderr();
  {
    StageBreaks breaks("scores:layer=1,*:layer=2:hit=2,logits");
    EXPECT_FALSE(breaks.is_reached(record_of(scores, "scores", 0, 0)));
    EXPECT_TRUE(breaks.is_reached(record_of(scores, "scores", 1, 0)));
    EXPECT_FALSE(breaks.is_reached(record_of(scores, "scores", 2, 0)));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "glassbox: GLASSBOX_BREAK: *:layer=2:hit=2 was never reached\n"
            "glassbox: GLASSBOX_BREAK: logits was never reached\n");
}

volatile std::sig_atomic_t own_handler_ran = 0;

// What strace does: it traces, and hands the trap on to the program.
TEST(StageBreak, ATrapThatNoDebuggerTakes) {
#if defined(__linux__)
  if (is_under_debugger()) GTEST_SKIP() << "a debugger takes the trap";
  testing::internal::CaptureStderr();
  stop_debugger();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "glassbox: GLASSBOX_BREAK: no debugger took the stop: going on\n");
  struct sigaction found = {};
  sigaction(SIGTRAP, nullptr, &found);
  EXPECT_EQ(found.sa_handler, SIG_DFL);
  std::signal(SIGTRAP, [](int) { own_handler_ran = 1; });
  testing::internal::CaptureStderr();
  stop_debugger();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(own_handler_ran, 1);
  std::signal(SIGTRAP, SIG_DFL);
#endif
}

}  // namespace stage_break_test
}  // namespace glassbox
