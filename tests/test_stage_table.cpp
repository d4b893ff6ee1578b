// stage_table.hpp: the table against what a model really passes, and against itself.
//
// Faults that must turn this file red:
//   - a row missing, renamed, out of order, or in the wrong group
//   - axes that a tensor of that stage does not have
//   - a stage marked as computed by other models only, though it is passed; or the reverse
//   - a field left empty; a source that is no stage and no weight
#include "glassbox/stage_table.hpp"

#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "glassbox/generate.hpp"
#include "support/expect_near.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace stage_table_test {

using test_support::throws;

// What passed stage(): first time by name, in that order.
struct PassedStage {
  std::string name;
  std::set<Index> layers;
  std::set<std::string> shapes;
};

std::vector<PassedStage> passed_stages() {
  std::vector<PassedStage> passed;
  const CausalLM<double> causal_lm = test_support::random_model<double>(test_support::small_config(), 1);
  ScopedStageHook hook([&passed](StageRecord& record) {
    const auto known = std::find_if(passed.begin(), passed.end(), [&record](const PassedStage& stage) {
      return stage.name == record.name;
    });
    PassedStage& stage = known == passed.end() ? passed.emplace_back() : *known;
    stage.name = record.name;
    stage.layers.insert(record.layer);
    if (record.f64 != nullptr) stage.shapes.insert(shape_string(*record.f64));
    if (record.i64 != nullptr) stage.shapes.insert(shape_string(*record.i64));
    if (record.boolean != nullptr) stage.shapes.insert(shape_string(*record.boolean));
  });
  GenerationConfig config;
  config.max_new_tokens = 2;
  generate(causal_lm, {1, 2, 3}, config);
  return passed;
}

// "[batch, 1, query, key]" with a prompt of 3 and the sizes of small_config(), as shape_string writes it.
std::string expected_shape(const std::string& axes, Index seq, Index key) {
  const ModelConfig config = test_support::small_config();
  const std::map<std::string, Index> sizes{
      {"batch", 1},
      {"seq", seq},
      {"query", seq},
      {"key", key},
      {"hidden", config.hidden_size},
      {"intermediate", config.intermediate_size},
      {"head", config.num_attention_heads},
      {"kv_head", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"heads*head_dim", config.num_attention_heads * config.head_dim},
      {"kv_heads*head_dim", config.num_key_value_heads * config.head_dim},
      {"vocab", config.vocab_size},
      {"draw", 1}};
  std::istringstream words(axes.substr(1, axes.size() - 2));
  std::string shape = "[";
  std::string word;
  for (int axis = 0; std::getline(words, word, ','); ++axis) {
    word.erase(0, word.find_first_not_of(' '));
    // An axis of one element keeps the name of what it is shared by.
    const std::string name = word == "1" ? (axis == 1 ? "head" : "query") : word;
    const Index size = word == "1" ? 1 : sizes.at(word);
    shape += (axis > 0 ? ", " : "") + name + "=" + std::to_string(size);
  }
  return shape + "]";
}

bool passed_by_every_model(const StageRow& row) {
  const std::string when = row.when;
  return when.empty() || when == "attn_implementation eager";
}

TEST(StageTable, OrderIsThatOfTheComputation) {
  std::vector<std::string> in_table;
  for (const StageRow& row : stage_table) {
    if (passed_by_every_model(row)) in_table.push_back(row.name);
  }
  std::vector<std::string> in_run;
  for (const PassedStage& stage : passed_stages()) in_run.push_back(stage.name);
  EXPECT_EQ(in_table, in_run);
}

// The prefill of 3 tokens and one decode step, whose keys are 4.
TEST(StageTable, AxesAreThoseOfTheTensors) {
  for (const PassedStage& stage : passed_stages()) {
    const StageRow& row = stage_row(stage.name);
    std::set<std::string> expected{expected_shape(row.axes, 3, 3), expected_shape(row.axes, 1, 4)};
    if (stage.name == "attention_mask") expected = {"[batch=1, seq=3]", "[batch=1, seq=4]"};
    if (stage.name == "logits") expected = {"[batch=1, seq=1, vocab=37]"};
    EXPECT_EQ(stage.shapes, expected) << stage.name;
  }
}

TEST(StageTable, GroupsAreThoseOfTheLayers) {
  for (const PassedStage& stage : passed_stages()) {
    const bool in_layers = stage_row(stage.name).group == StageGroup::layer;
    EXPECT_EQ(stage.layers, in_layers ? (std::set<Index>{0, 1}) : (std::set<Index>{-1})) << stage.name;
  }
}

TEST(StageTable, FieldsAreFilled) {
  std::set<std::string> names;
  for (const StageRow& row : stage_table) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    const std::vector<std::string> fields{row.name,    row.axes, row.from,         row.module,
                                          row.formula, row.why,  row.transformers, row.llama_cpp};
    for (const std::string& field : fields) {
      EXPECT_FALSE(field.empty()) << row.name;
      EXPECT_EQ(field.find("  "), std::string::npos) << row.name << ": " << field;
      for (const char letter : field)
        EXPECT_TRUE(letter >= ' ' && letter <= '~') << row.name << ": " << field;
    }
    const std::string why = row.why;
    EXPECT_TRUE(why.ends_with(".")) << why;
    EXPECT_FALSE(std::string(stage_group_name(row.group)) == "unknown");
  }
}

// Each formula begins with what it computes.
TEST(StageTable, FormulasSayWhatTheyCompute) {
  for (const StageRow& row : stage_table) {
    const std::string formula = row.formula;
    EXPECT_TRUE(formula.starts_with(row.name)) << formula;
    EXPECT_NE(formula.find(" = "), std::string::npos) << formula;
  }
}

// A stage is computed from stages that come before it, and from weights.
TEST(StageTable, SourcesComeBefore) {
  std::set<std::string> before{"inv_freq"};
  for (const StageRow& row : stage_table) {
    std::istringstream sources(row.from);
    std::string source;
    while (std::getline(sources, source, ',')) {
      source.erase(0, source.find_first_not_of(' '));
      const bool one_word = source.find(' ') == std::string::npos;
      const bool weight = source.ends_with(".weight");
      const bool norm_of_gpt2 = source == "ln_1" || source == "ln_2";
      if (!one_word || weight || norm_of_gpt2) continue;
      EXPECT_EQ(before.count(source), 1U) << row.name << ": " << source;
    }
    before.insert(row.name);
  }
}

TEST(StageTable, Lookup) {
  ASSERT_NE(find_stage("scores"), nullptr);
  EXPECT_STREQ(find_stage("scores")->axes, "[batch, head, query, key]");
  EXPECT_EQ(find_stage("score"), nullptr);
  EXPECT_EQ(find_stage(""), nullptr);
  EXPECT_STREQ(find_stage("d_scores")->name, "d_NAME");
  EXPECT_EQ(find_stage("d_score"), nullptr);
  EXPECT_STREQ(stage_row("logits").name, "logits");
}

TEST(StageTable, UnknownNames) {
  EXPECT_TRUE(throws<UsageError>([] { stage_row("score"); },
                                 "no stage is called \"score\", did you mean scores, masked_scores?"));
  EXPECT_TRUE(throws<UsageError>([] { stage_row("all_logits"); },
                                 "no stage is called \"all_logits\", did you mean logits?"));
  try {
    stage_row("attention");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "no stage is called \"attention\", did you mean attention_mask, "
              "post_attention_layernorm?");
  }
  try {
    stage_row("zebra");
    FAIL();
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("no stage is called \"zebra\"; the stages are text, pieces, input_ids, "))
        << text;
    EXPECT_TRUE(text.ends_with(", loss, d_NAME")) << text;
  }
}

}  // namespace stage_table_test
}  // namespace glassbox
