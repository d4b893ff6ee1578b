// The examples 01 to 15: what they print is the committed text, and their sources are what they promise.
// GLASSBOX_EXAMPLES_DIR in the environment says where the programs are; without it those tests are skipped.
// Faults that must turn this file red:
//   a number in an example's output that changes by two in its last decimal, a changed word, a lost line
//   an example that does not return 0, that prints to standard error, or is wider than 100 columns
//   a component of the book that computes something else (examples 02 to 15 are made of them)
//   a source of more than 60 lines, without "You are here", or naming a breakpoint that does not exist
//   a list of breakpoints that a formatter has made prose of
//   same_line() taking for equal what is not
#include "examples/run_program.hpp"
#include "io/tiny_checkpoint.hpp"

#include "glassbox/stage_table.hpp"
#include "support/print_tensor.hpp"

namespace glassbox {
namespace examples_numbered_examples_test {

using namespace test_support;

const std::vector<std::string> names{
    "01_text_to_ids",    "02_embedding", "03_rms_norm", "04_query_key_value", "05_rotary_embedding",
    "06_attention_mask", "07_attention", "08_kv_cache", "09_feed_forward",    "10_decoder_layers",
    "11_logits",         "12_sampling",  "13_loss",     "14_backward",        "15_training_step"};

std::string source_of(const std::string& name) {
  return read_bytes(std::filesystem::path(GLASSBOX_SOURCE_DIR) / "examples" / (name + ".cpp"));
}

// All headers of the library in one string.
std::string all_headers() {
  std::string text;
  const std::filesystem::path folder = std::filesystem::path(GLASSBOX_SOURCE_DIR) / "include" / "glassbox";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".hpp") text += read_bytes(entry.path());
  }
  return text;
}

class NumberedExample : public ::testing::TestWithParam<std::string> {};

TEST_P(NumberedExample, PrintsTheCommittedText) {
  if (!std::filesystem::exists(examples_folder() + "/" + GetParam()))
    GTEST_SKIP() << GetParam() << " was not built";
  const Outcome outcome = run_program(GetParam(), {});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  ASSERT_FALSE(expected_output(GetParam()).empty()) << "no committed text";
  EXPECT_EQ(first_difference(outcome.out, expected_output(GetParam())), "");
}

TEST_P(NumberedExample, FitsAPage) {
  for (const std::string& line : lines_of(expected_output(GetParam()))) {
    EXPECT_LE(examples::display_width(line), 100) << line;
    EXPECT_FALSE(line.ends_with(" ")) << line;
  }
}

TEST_P(NumberedExample, SourceIsShortAndSaysWhereOneIs) {
  const std::string source = source_of(GetParam());
  EXPECT_LE(lines_of(source).size(), 60u);
  EXPECT_TRUE(source.starts_with("// You are here: ")) << source.substr(0, 60);
  EXPECT_NE(source.find("// Breakpoints worth setting:\n"), std::string::npos);
}

// A formatter that joins or breaks lines of the head would make prose of a breakpoint.
TEST_P(NumberedExample, EveryLineOfTheListIsABreakpoint) {
  const std::string source = source_of(GetParam());
  const std::size_t list = source.find("// Breakpoints worth setting:\n");
  ASSERT_NE(list, std::string::npos);
  const std::vector<std::string> lines =
      lines_of(source.substr(list, source.find("\n#include", list) - list));
  EXPECT_GE(lines.size(), 2u);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("//   break ")) << lines[i];
    EXPECT_EQ(lines[i].find("break ", 11), std::string::npos) << lines[i];
  }
}

TEST_P(NumberedExample, BreakpointsNamedExist) {
  const std::string source = source_of(GetParam());
  const std::string headers = all_headers();
  const std::regex breakpoint("// +break glassbox::([A-Za-z_:<>]+)");
  std::size_t count = 0;
  for (std::sregex_iterator i(source.begin(), source.end(), breakpoint); i != std::sregex_iterator(); ++i) {
    const std::string plain = std::regex_replace((*i)[1].str(), std::regex("<[a-z]+>"), "");
    const std::size_t colons = plain.rfind("::");
    const std::string function = colons == std::string::npos ? plain : plain.substr(colons + 2);
    EXPECT_TRUE(std::regex_search(headers, std::regex("[ :*&]" + function + "\\("))) << (*i)[0];
    if (colons != std::string::npos) {
      EXPECT_TRUE(std::regex_search(headers, std::regex("(struct|class) " + plain.substr(0, colons) + "\\b")))
          << (*i)[0];
    }
    ++count;
  }
  EXPECT_GE(count, 1u);
  const std::regex stage_name("\\$_streq\\(name, \"([a-z_]+)\"\\)");
  for (std::sregex_iterator i(source.begin(), source.end(), stage_name); i != std::sregex_iterator(); ++i)
    EXPECT_NE(find_stage((*i)[1].str()), nullptr) << (*i)[0];
}

std::string without_dashes(const ::testing::TestParamInfo<std::string>& info) { return "E" + info.param; }
INSTANTIATE_TEST_SUITE_P(All, NumberedExample, ::testing::ValuesIn(names), without_dashes);

// The smallest model there can be: one head of two numbers, one detector.
TEST(NumberedExamples, TakeTheSmallestModel) {
  const TemporaryFolder folder;
  ModelConfig config = tiny_config();
  config.vocab_size = 424;
  config.hidden_size = 2;
  config.intermediate_size = 1;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = 2;
  write_folder(folder, config, random_weights(config, 5));
  folder.write("tokenizer.model", read_bytes(own_reference() / "tokenizer-small" / "llama_like.model"));
  for (const std::string& name : names) {
    if (!std::filesystem::exists(examples_folder() + "/" + name)) GTEST_SKIP() << name << " was not built";
    const Outcome outcome = run_program(name, {folder.path().string()});
    EXPECT_EQ(outcome.exit_code, 0) << name << ": " << outcome.err;
  }
}

TEST(NumberedExamples, RefuseAModelThatIsNotThere) {
  if (!std::filesystem::exists(examples_folder() + "/01_text_to_ids"))
    GTEST_SKIP() << "01_text_to_ids was not built";
  const Outcome outcome = run_program("01_text_to_ids", {"/no/such/model"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "01_text_to_ids: /no/such/model: no such file or folder\n");
}

TEST(SameLine, AllowsOneInTheLastDecimal) {
  EXPECT_TRUE(same_line("  a  0.123  4.0", "  a  0.123  4.0"));
  EXPECT_TRUE(same_line("  a  0.124  4.0", "  a  0.123  4.0"));
  EXPECT_TRUE(same_line("  a  -0.001", "  a   0.000"));
  EXPECT_TRUE(same_line("x   glassbox/attention.hpp:99", "x  glassbox/attention.hpp:101"));
}

TEST(SameLine, AndNothingElse) {
  EXPECT_FALSE(same_line("  a  0.125  4.0", "  a  0.123  4.0"));
  EXPECT_FALSE(same_line("  b  0.123  4.0", "  a  0.123  4.0"));
  EXPECT_FALSE(same_line("  a  0.1230", "  a  0.123"));
  EXPECT_FALSE(same_line("  a  0.123 4.0", "  a  0.123  4.0"));
  EXPECT_FALSE(same_line("  a  5", "  a  6"));
  EXPECT_FALSE(same_line("  a  -inf", "  a  0.123"));
  EXPECT_EQ(first_difference("a\n", "a\nb\n"), "line 2\n  found    (the end)\n  expected b");
}

}  // namespace examples_numbered_examples_test
}  // namespace glassbox
