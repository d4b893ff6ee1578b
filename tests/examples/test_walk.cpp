// The program walk, run as a user runs it. GLASSBOX_EXAMPLES_DIR in the environment says where it is; without
// that the tests that run it are skipped. Faults that must turn this file red:
//   a stage that is not shown in the prefill or in the decode step, or shown twice
//   a number, a shape or an explanation that is not the committed one (tests/regenerate.sh writes them)
//   a source line that is not the line where the value passes stage()
//   the wrong exit code or another message for wrong use; colours where nobody sees them
//   --layer, --stage, --full, --ids or --prompt without effect; Chinese labels out of line
//   GLASSBOX_LOG or GLASSBOX_BREAK not asked for at the first stage of a thread
#include "examples/run_program.hpp"

#include "glassbox/stage_table.hpp"
#include "support/print_tensor.hpp"

namespace glassbox {
namespace examples_walk_test {

using namespace test_support;

class Walk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples_folder() + "/walk")) GTEST_SKIP() << "walk was not built";
  }

  static std::string tiny_llama() { return (own_reference() / "tiny-llama-mha").string(); }

  // What walk prints, which must succeed.
  static std::string text_of(const std::vector<std::string>& arguments) {
    const Outcome outcome = run_program("walk", arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(Walk, EmbeddedModelAsCommitted) {
  ASSERT_FALSE(expected_output("walk").empty());
  EXPECT_EQ(first_difference(text_of({}), expected_output("walk")), "");
}

TEST_F(Walk, ChinesePromptAsCommitted) {
  ASSERT_FALSE(expected_output("walk_chinese").empty());
  EXPECT_EQ(first_difference(text_of({"--prompt", "从前，有一只", "--stage", "attn_weights", "--full"}),
                             expected_output("walk_chinese")),
            "");
}

TEST_F(Walk, ModelWithoutTokenizerByIds) {
  ASSERT_FALSE(expected_output("walk_ids").empty());
  EXPECT_EQ(first_difference(text_of({tiny_llama(), "--ids", "1,5,9", "--layer", "1"}),
                             expected_output("walk_ids")),
            "");
}

// Every stage of the table that a Llama passes stands once in the prefill and once in the decode step.
TEST_F(Walk, ShowsEveryStageOfBothPasses) {
  const std::string text = "\n" + text_of({});
  const std::size_t decode = text.find("== DECODE STEP 1");
  ASSERT_NE(decode, std::string::npos);
  std::size_t shown = 0;
  for (const StageRow& row : stage_table) {
    const std::string when = row.when;
    if (!when.empty() && when != "attn_implementation eager") continue;
    const std::string beginning = "\n" + std::string(row.name) + "  [";
    EXPECT_EQ(count_of(text.substr(0, decode), beginning), 1u) << row.name;
    EXPECT_EQ(count_of(text.substr(decode), beginning), 1u) << row.name;
    ++shown;
  }
  EXPECT_GE(shown, 44u);
}

TEST_F(Walk, SourceLinesAreThoseOfTheStages) {
  const std::string text = text_of({});
  const std::regex head("([a-z_]+)  \\[[^\\n]*\\]  [a-z0-9]+ +(glassbox/[a-z_]+\\.hpp):([0-9]+)");
  std::size_t checked = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), head); i != std::sregex_iterator(); ++i) {
    const std::filesystem::path file = std::filesystem::path(GLASSBOX_SOURCE_DIR) / "include" / (*i)[2].str();
    const std::vector<std::string> lines = lines_of(read_bytes(file));
    const std::size_t line = std::stoul((*i)[3].str());
    ASSERT_LE(line, lines.size());
    EXPECT_NE(lines[line - 1].find("stage(\"" + (*i)[1].str() + "\""), std::string::npos) << (*i)[0];
    ++checked;
  }
  EXPECT_GE(checked, 70u);
}

TEST_F(Walk, FitsAPageAndIsPlainWhereNobodySeesColours) {
  for (const std::string arguments : {"", "--full"}) {
    const std::string text = arguments.empty() ? text_of({}) : text_of({arguments, "--stage", "scores"});
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    for (const std::string& line : lines_of(text)) {
      EXPECT_LE(examples::display_width(line), 100) << line;
      EXPECT_FALSE(line.ends_with(" ")) << line;
    }
  }
}

TEST_F(Walk, OneStageOnly) {
  const std::string text = text_of({"--stage", "scores"});
  EXPECT_EQ(count_of("\n" + text, "\nscores  [batch=1, head=4, query=5, key=5]  f32 "), 1u);
  EXPECT_EQ(count_of("\n" + text, "\nscores  [batch=1, head=4, query=1, key=6]  f32 "), 1u);
  EXPECT_EQ(count_of(text, "glassbox/attention.hpp:"), 2u);
  EXPECT_EQ(count_of(text, "  head "), 2u);
  EXPECT_NE(text.find("  prefill -> now: query 5 -> 1, key 5 -> 6."), std::string::npos);
}

TEST_F(Walk, FullShowsAllHeads) {
  const std::string text = text_of({"--stage", "scores", "--full"});
  EXPECT_EQ(count_of(text, "  head "), 8u);
}

TEST_F(Walk, LayerChoosesTheOneInFull) {
  const std::string text = text_of({"--layer", "2"});
  EXPECT_NE(text.find("-- model.layers[2].input_layernorm"), std::string::npos);
  EXPECT_EQ(text.find("-- model.layers[0].input_layernorm"), std::string::npos);
  EXPECT_EQ(count_of(text, "\nlayer 0   residual stream"), 2u);
  EXPECT_EQ(count_of(text, "\nlayer 2   residual stream"), 0u);
}

TEST_F(Walk, PiecesAreShownThoughTheyPassNoStage) {
  const std::string text = text_of({"--stage", "pieces", "--prompt", "Once upon"});
  EXPECT_NE(text.find("  pieces     <s>  \xE2\x96\x81Once  \xE2\x96\x81upon\n"), std::string::npos) << text;
}

// GLASSBOX_LOG and GLASSBOX_BREAK, in a program that nobody debugs.
TEST_F(Walk, TheEnvironmentAsksForALogAndForStops) {
  const TemporaryFolder folder;
  const std::string log = folder.file("stages.txt");
  const Outcome outcome = run_program(
      "walk", {}, "GLASSBOX_BREAK=scores:layer=1:hit=2,scores:layer=9 GLASSBOX_LOG=" + shell_quoted(log));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, text_of({}));
  const std::vector<std::string> said = lines_of(outcome.err);
  ASSERT_EQ(said.size(), 2u) << outcome.err;
  EXPECT_TRUE(said[0].starts_with(
      "glassbox: GLASSBOX_BREAK: scores, layer 1, step 1, f32[batch=1, head=4, query=1,"));
  EXPECT_TRUE(said[0].ends_with(" (no debugger: going on)"));
  EXPECT_EQ(said[1], "glassbox: GLASSBOX_BREAK: scores:layer=9 was never reached");
  const std::string logged = read_bytes(log);
  EXPECT_EQ(count_of(logged, "  scores  f32[batch=1, head=4, query=5, key=5] "), 4u);
  EXPECT_EQ(count_of(logged, "  scores  f32[batch=1, head=4, query=1, key=6] "), 4u);
  EXPECT_TRUE(logged.starts_with(
      "step 0  layer -  input_ids  i64[batch=1, seq=5] min=1 max=526 mean=371 nan=0 inf=0 "));
}

TEST_F(Walk, WrongUse) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"--stage", "scorse"}, "walk: --stage: no stage is called \"scorse\"; near it is scores"},
      {{"--stage", "logit"}, "walk: --stage: no stage is called \"logit\"; near it is logits"},
      {{"--stage", "zzz"},
       "walk: --stage: no stage is called \"zzz\"; without --stage every stage is shown by its name"},
      {{"--stage", ""}, "walk: --stage: the name is empty"},
      {{"--layer", "-1"}, "walk: --layer -1: layers are counted from 0"},
      {{"--ids", "1", "--prompt", "a"}, "walk: --ids and --prompt: give one of them"}};
  for (const Case& wrong : cases) {
    const Outcome outcome = run_program("walk", wrong.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << wrong.message;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(lines_of(outcome.err).at(0), wrong.message);
  }
}

TEST_F(Walk, FiltersThatAreOffAndTheCoinSaySo) {
  const std::string penalized = text_of({"--stage", "penalized"});
  EXPECT_EQ(count_of(penalized, "  Here it has the same numbers as logits: this filter is off.\n"), 2u);
  EXPECT_EQ(count_of(text_of({"--stage", "tempered"}), "this filter is off"), 0u);
  const std::string coin = text_of({"--stage", "coin"});
  EXPECT_EQ(count_of(coin,
                     "  Here one token alone is left, as always at temperature 0: the coin decides "
                     "nothing.\n"),
            2u);
}

TEST_F(Walk, FullLogitsAreTheNewestTokensAndKeepTheLargest) {
  const std::string text = text_of({"--stage", "logits", "--full"});
  EXPECT_EQ(count_of(text, "(all)"), 0u);
  EXPECT_EQ(count_of(text, "\n    largest "), 2u);
  EXPECT_NE(text.find("\n    \xE2\x96\x81time  "), std::string::npos);
}

TEST_F(Walk, IdsShowPiecesWhereThereIsATokenizer) {
  const std::string text = text_of({"--stage", "input_ids", "--ids", "1,525,526"});
  EXPECT_NE(text.find("<s>  \xE2\x96\x81Once  \xE2\x96\x81upon\n"), std::string::npos) << text;
}

TEST_F(Walk, Failures) {
  const Outcome absent = run_program("walk", {"--stage", "q_norm"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_EQ(absent.out, "");
  EXPECT_EQ(absent.err, "walk: --stage q_norm: no such value came by; it exists in: " +
                            std::string(stage_row("q_norm").when) + "\n");
  const Outcome no_tokenizer = run_program("walk", {tiny_llama()});
  EXPECT_EQ(no_tokenizer.exit_code, 1);
  EXPECT_NE(no_tokenizer.err.find("--tokenizer FILE"), std::string::npos) << no_tokenizer.err;
  const Outcome no_such_id = run_program("walk", {"--ids", "1,5000"});
  EXPECT_EQ(no_such_id.exit_code, 1);
  EXPECT_EQ(no_such_id.out, "");
  EXPECT_EQ(no_such_id.err,
            "walk: --ids: id 5000 at place 2 is not in 0..999 (the model has a vocabulary of 1000)\n");
  const Outcome no_such_layer = run_program("walk", {"--layer", "4"});
  EXPECT_EQ(no_such_layer.exit_code, 1);
  EXPECT_EQ(no_such_layer.out, "");
  EXPECT_EQ(no_such_layer.err, "walk: --layer 4: the model has layers 0 to 3\n");
}

TEST_F(Walk, HelpTeaches) {
  const std::string help = text_of({"--help"});
  for (const char* part : {"--prompt TEXT", "--layer N", "--stage NAME", "--full", "What you see:",
                           "Examples:", "(gdb) break glassbox::stage if $_streq(name, \"scores\")"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part;
  }
}

}  // namespace examples_walk_test
}  // namespace glassbox
