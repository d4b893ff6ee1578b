// Faults that must turn this red: hooks called although their scope has ended, or in another order, or once
// only; the record's layer, step or line wrong; a changed shape let through; state.count not counted; the
// hook seeing a copy instead of the tensor.
#include "glassbox/stage.hpp"

#include <functional>
#include <memory>
#include <thread>

#include "support/expect_near.hpp"

namespace glassbox {
namespace stage_test {

using test_support::make_tensor;
using test_support::near_values;
using test_support::throws;

TEST(Stage, WithoutHooksNothingIsCalledAndNothingChanges) {
  Tensor<float> x = make_tensor<float>({{"hidden", 3}}, {1, 2, 3});
  const float* memory = x.data();
  const Index count = stage_state().count;
  ASSERT_TRUE(stage_state().hooks.empty());
  stage("scores", 2, x);
  EXPECT_EQ(stage_state().count, count + 1);
  EXPECT_STREQ(stage_state().name, "scores");
  EXPECT_EQ(stage_state().layer, 2);
  EXPECT_EQ(x.data(), memory);
  EXPECT_TRUE(near_values(x, {1, 2, 3}, 0));
}

TEST(Stage, HookIsToldEverything) {
  Tensor<float> x = make_tensor<float>({{"hidden", 3}}, {1, 2, 3});
  std::vector<StageRecord> records;
  ScopedStageHook hook([&](StageRecord& record) { records.push_back(record); });
  stage_state().step = 7;
  const int line = __LINE__ + 1;
  stage("q_proj", 4, x);
  stage_state().step = 0;
  stage("logits", -1, x);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_STREQ(records[0].name, "q_proj");
  EXPECT_EQ(records[0].layer, 4);
  EXPECT_EQ(records[0].step, 7);
  EXPECT_EQ(records[0].line, line);
  EXPECT_TRUE(std::string(records[0].file).ends_with("test_stage.cpp"));
  EXPECT_EQ(records[0].f32, &x);
  EXPECT_EQ(records[0].f64, nullptr);
  EXPECT_EQ(records[0].i64, nullptr);
  EXPECT_EQ(records[0].boolean, nullptr);
  EXPECT_EQ(records[1].layer, -1);
  EXPECT_EQ(records[1].step, 0);
}

TEST(Stage, EachElementTypeHasItsPointer) {
  Tensor<double> f64({{"hidden", 1}});
  Tensor<TokenId> i64({{"seq", 1}});
  Tensor<bool> boolean({{"key", 1}});
  StageRecord last;
  ScopedStageHook hook([&](StageRecord& record) { last = record; });
  stage("norm", -1, f64);
  EXPECT_EQ(last.f64, &f64);
  EXPECT_EQ(last.f32, nullptr);
  stage("input_ids", -1, i64);
  EXPECT_EQ(last.i64, &i64);
  EXPECT_EQ(last.f64, nullptr);
  stage("causal_mask", -1, boolean);
  EXPECT_EQ(last.boolean, &boolean);
  EXPECT_EQ(last.i64, nullptr);
}

TEST(Stage, HookMayChangeTheNumbers) {
  Tensor<double> x = make_tensor<double>({{"hidden", 3}}, {1, 2, 3});
  ScopedStageHook hook([](StageRecord& record) { (*record.f64)(1) = 20; });
  stage("gated", 0, x);
  EXPECT_TRUE(near_values(x, {1, 20, 3}, 0));
}

TEST(Stage, HooksAreCalledInTheirOrderWhileTheyLive) {
  Tensor<float> x({{"hidden", 1}});
  std::string calls;
  {
    ScopedStageHook first([&](StageRecord&) { calls += "a"; });
    {
      ScopedStageHook second([&](StageRecord&) { calls += "b"; });
      stage("norm", -1, x);
      EXPECT_EQ(calls, "ab");
    }
    stage("norm", -1, x);
    EXPECT_EQ(calls, "aba");
  }
  stage("norm", -1, x);
  EXPECT_EQ(calls, "aba");
  EXPECT_TRUE(stage_state().hooks.empty());
}

TEST(Stage, HooksMayEndInAnyOrder) {
  Tensor<float> x({{"hidden", 1}});
  std::string calls;
  const std::function<void(StageRecord&)> add_a = [&](StageRecord&) { calls += "a"; };
  const std::function<void(StageRecord&)> add_b = [&](StageRecord&) { calls += "b"; };
  using Hook = ScopedStageHook<std::function<void(StageRecord&)>>;
  std::unique_ptr<Hook> first = std::make_unique<Hook>(add_a);
  std::unique_ptr<Hook> second = std::make_unique<Hook>(add_b);
  first.reset();
  stage("norm", -1, x);
  EXPECT_EQ(calls, "b");
  second.reset();
  EXPECT_TRUE(stage_state().hooks.empty());
}

TEST(Stage, ChangedShapeIsAnError) {
  Tensor<float> x({{"batch", 1}, {"hidden", 3}});
  ScopedStageHook hook([](StageRecord& record) { *record.f32 = Tensor<float>({{"hidden", 3}}); });
  EXPECT_TRUE(throws<ShapeError>(
      [&] { stage("merged_heads", 0, x); },
      "stage merged_heads: a hook changed the shape from [batch=1, hidden=3] to [hidden=3]"));
}

TEST(Stage, ExceptionsOfHooksPassThroughAndTheHookEndsWithItsScope) {
  Tensor<float> x({{"hidden", 1}});
  try {
    ScopedStageHook hook([](StageRecord&) { throw std::runtime_error("seen enough"); });
    stage("norm", -1, x);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "seen enough");
  }
  EXPECT_TRUE(stage_state().hooks.empty());
  EXPECT_NO_THROW(stage("norm", -1, x));
}

// Each thread has its own state: what one watches does not disturb the other.
TEST(Stage, StateIsOfItsThread) {
  Tensor<float> x({{"hidden", 1}});
  Index calls = 0;
  ScopedStageHook hook([&](StageRecord&) { ++calls; });
  Index other_count = -1;
  std::thread other([&] {
    Tensor<float> y({{"hidden", 1}});
    stage("norm", -1, y);
    other_count = stage_state().count;
  });
  other.join();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(other_count, 1);
}

}  // namespace stage_test
}  // namespace glassbox
