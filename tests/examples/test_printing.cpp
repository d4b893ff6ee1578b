// print_tensor and stage_printer: what walk and the numbered examples print with. Faults that must turn this
// file red:
//   a Chinese character counted as one column, a combining mark as one; "-0.000"
//   infinities or NaN in min, max or mean; the wrong rows or columns left out of a corner, or not said
//   a token beside the wrong row: key axes count from the first token, query axes end with the newest
//   another head or text than asked for; a table wider than a line
//   a line broken inside a word, or wider than asked for; a near name not found, or found where none is near
//   a stage of another layer shown; the decode step compared with something else than the prefill
#include <gtest/gtest.h>

#include <limits>

#include "support/print_tensor.hpp"
#include "support/stage_printer.hpp"

namespace examples {
namespace examples_printing_test {

using glassbox::Index;
using glassbox::Tensor;

constexpr float infinity = std::numeric_limits<float>::infinity();

// 0, 1, 2, ... in memory order.
Tensor<float> counting(std::initializer_list<glassbox::Axis> axes) {
  Tensor<float> tensor(axes);
  for (Index i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<float>(i);
  return tensor;
}

// What a piece of code prints.
template <typename Callable>
std::string printed(Callable callable) {
  testing::internal::CaptureStdout();
  callable();
  std::cout.flush();
  return testing::internal::GetCapturedStdout();
}

TEST(NumberText, HasFixedDecimalsAndNoMinusZero) {
  EXPECT_EQ(number_text(1.23456, 3), "1.235");
  EXPECT_EQ(number_text(-0.0004, 3), "0.000");
  EXPECT_EQ(number_text(-0.0006, 3), "-0.001");
  EXPECT_EQ(number_text(432, 0), "432");
  EXPECT_EQ(number_text(-HUGE_VAL, 3), "-inf");
  EXPECT_EQ(number_text(std::nan(""), 3), "nan");
  EXPECT_EQ(number_text(1.5e12, 3), "1.5e+12");
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\xE2\x96\x81"
                          "a"),
            2);
  EXPECT_EQ(display_width("从前，"), 6);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);         // e and a combining acute accent
  EXPECT_EQ(display_width("\xF0\x9F\xA6\x99"), 2);  // a llama
  EXPECT_EQ(pad_left("从前", 6), "  从前");
  EXPECT_EQ(pad_right("从前", 6), "从前  ");
  EXPECT_EQ(pad_right("longer", 3), "longer");
}

TEST(LabelText, HasNoControlCharactersAndIsShort) {
  EXPECT_EQ(label_text("a\nb\tc"), "a\\nb?c");
  EXPECT_EQ(label_text("\xFF"), "?");
  EXPECT_EQ(label_text("abcdefghijklmnop"), "abcdefghijkl..");
  EXPECT_EQ(label_text("abcdefghijkl"), "abcdefghijkl");
  EXPECT_EQ(in_quotes("a"), "\"a\"");
}

TEST(BytesText, ChoosesTheUnit) {
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(10240), "10.0 KiB");
  EXPECT_EQ(bytes_text(2621440), "2.5 MiB");
  EXPECT_EQ(bytes_text(3221225472), "3.0 GiB");
}

TEST(StatisticsText, LeavesInfinityAndNanOut) {
  Tensor<float> x({{"query", 2}, {"key", 3}});
  x.row(0) << 1, -2, -infinity;
  x.row(1) << 4, std::nanf(""), -infinity;
  EXPECT_EQ(statistics_text(x),
            "min -2.000  max 4.000  mean 1.000  (and 2 of 6 are -inf)  (and 1 of 6 are NaN)");
  x.row(0).setConstant(-infinity);
  x.row(1).setConstant(-infinity);
  EXPECT_EQ(statistics_text(x), "no finite number  (and 6 of 6 are -inf)");
}

TEST(StatisticsText, OfBooleansAndWholeNumbers) {
  Tensor<bool> mask({{"query", 2}, {"key", 2}});
  mask(0, 0) = mask(1, 0) = mask(1, 1) = true;
  EXPECT_EQ(statistics_text(mask), "min 0  max 1  mean 0.750  (3 of 4 true)");
  Tensor<std::int64_t> id({{"draw", 1}});
  id(0) = 432;
  EXPECT_EQ(statistics_text(id), "one number: 432");
}

TEST(ValuesText, PutsTokensBesideTheAxesThatCountThem) {
  PrintOptions options;
  options.tokens = {"<s>", "Once", "upon"};
  EXPECT_EQ(values_text(counting({{"query", 1}, {"key", 3}}), options),
            "            <s>   Once   upon\n"
            "    upon  0.000  1.000  2.000\n");
  EXPECT_EQ(values_text(counting({{"seq", 2}, {"hidden", 2}}), options),
            "              0      1\n"
            "    Once  0.000  1.000\n"
            "    upon  2.000  3.000\n");
}

TEST(ValuesText, OneQueryForSeveralTokensIsForAll) {
  PrintOptions options;
  options.tokens = {"a", "b"};
  options.fed = 2;
  EXPECT_EQ(values_text(counting({{"query", 1}, {"key", 2}}), options),
            "               a      b\n"
            "    (all)  0.000  1.000\n");
}

TEST(ValuesText, OnePositionOfSeveralTokensIsTheNewest) {
  PrintOptions options;
  options.tokens = {"a", "b"};
  options.fed = 2;
  EXPECT_EQ(values_text(counting({{"batch", 1}, {"seq", 1}, {"vocab", 2}}), options),
            "           0      1\n"
            "    b  0.000  1.000\n");
}

TEST(ValuesText, ShowsACornerAndSaysWhatIsMissing) {
  PrintOptions options;
  options.max_rows = 3;
  options.max_columns = 3;
  EXPECT_EQ(values_text(counting({{"from", 5}, {"to", 4}}), options),
            "             0       1  ..       3\n"
            "    0    0.000   1.000  ..   3.000\n"
            "    1    4.000   5.000  ..   7.000\n"
            "    ..      ..      ..  ..      ..\n"
            "    4   16.000  17.000  ..  19.000\n");
}

TEST(ValuesText, ShowsTheHeadAndTheTextAskedFor) {
  const Tensor<float> x = counting({{"batch", 2}, {"head", 2}, {"query", 1}, {"key", 1}});
  PrintOptions options;
  const std::string first_text = "  text 0  (1 more)\n";
  EXPECT_EQ(values_text(x, options), first_text + "  head 0  (1 more)\n           0\n    0  0.000\n");
  options.head = 1;
  EXPECT_EQ(values_text(x, options), first_text + "  head 1  (1 more)\n           0\n    0  1.000\n");
  options.batch = 1;
  EXPECT_EQ(values_text(x, options), "  text 1  (1 more)\n  head 1  (1 more)\n           0\n    0  3.000\n");
}

TEST(ValuesText, FullNamesEveryText) {
  PrintOptions options;
  options.full = true;
  EXPECT_EQ(values_text(counting({{"batch", 2}, {"head", 1}, {"query", 1}, {"key", 1}}), options),
            "  text 0\n           0\n    0  0.000\n  text 1\n           0\n    0  1.000\n");
  EXPECT_EQ(values_text(counting({{"batch", 2}, {"seq", 1}, {"hidden", 1}}), options),
            "  text 0\n           0\n    0  0.000\n  text 1\n           0\n    0  1.000\n");
}

TEST(ValuesText, FullShowsAllInLinesThatFit) {
  PrintOptions options;
  options.full = true;
  const std::string text = values_text(counting({{"head", 2}, {"seq", 1}, {"vocab", 40}}), options);
  EXPECT_NE(text.find(" 39.000"), std::string::npos);
  EXPECT_NE(text.find(" 79.000"), std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u);
    begin = end + 1;
  }
}

TEST(ValuesText, OfNothing) {
  EXPECT_EQ(values_text(Tensor<float>({{"key", 0}, {"head_dim", 4}}), {}), "  (no numbers)\n");
}

TEST(WrappedText, BreaksBetweenWords) {
  EXPECT_EQ(wrapped_text("aa bb cc", "  ", 7), "  aa bb\n  cc\n");
  EXPECT_EQ(wrapped_text("aa bb\ncc", "", 7), "aa bb\ncc\n");
  EXPECT_EQ(wrapped_text("tooooolong b", "", 4), "tooooolong\nb\n");
  EXPECT_EQ(wrapped_text("从前 从前", "", 8), "从前\n从前\n");
}

TEST(UnknownStageText, FindsNamesThatAreNear) {
  EXPECT_EQ(unknown_stage_text("attn_weight"), "no stage is called \"attn_weight\"; near it is attn_weights");
  EXPECT_EQ(unknown_stage_text("qproj"), "no stage is called \"qproj\"; near it is q_proj");
  EXPECT_EQ(unknown_stage_text("head"),
            "no stage is called \"head\"; near it are query_heads, key_heads, merged_heads");
  EXPECT_EQ(unknown_stage_text("logit"), "no stage is called \"logit\"; near it is logits");
  EXPECT_EQ(unknown_stage_text("zzzz"),
            "no stage is called \"zzzz\"; without --stage every stage is shown by its name");
  EXPECT_EQ(unknown_stage_text("q_nrm").find("q_norm"), std::string::npos);  // of Qwen3, not loaded
}

// One pass of three tokens and one of the fourth through "scores" of layers 0 and 1.
std::string two_passes(const StagePrinterOptions& options) {
  return printed([&options] {
    StagePrinter printer(options);
    const glassbox::ScopedStageHook hook([&printer](glassbox::StageRecord& record) { printer.show(record); });
    Tensor<float> square = counting({{"batch", 1}, {"head", 1}, {"query", 2}, {"key", 2}});
    Tensor<float> row = counting({{"batch", 1}, {"head", 1}, {"query", 1}, {"key", 3}});
    printer.begin_pass(Pass::prefill, "first", {"a", "b"}, 2);
    stage("scores", 0, square, "/somewhere/glassbox/attention.hpp", 7);
    stage("scores", 1, square);
    printer.begin_pass(Pass::decode, "second", {"a", "b", "c"}, 1);
    stage("scores", 0, row, "/somewhere/glassbox/attention.hpp", 7);
    EXPECT_EQ(printer.shown(), 2);
  });
}

TEST(StagePrinter, ShowsOneLayerAndWhatTheDecodeStepChanges) {
  StagePrinterOptions options;
  options.stage = "scores";
  const std::string text = two_passes(options);
  EXPECT_EQ(text.substr(0, 9), "== first ");
  EXPECT_NE(text.find("scores  [batch=1, head=1, query=2, key=2]  f32                              "
                      "glassbox/attention.hpp:7\n  from query_states, cached_keys\n  scores[b, h, i, j] ="),
            std::string::npos)
      << text;
  const std::size_t second = text.find("== second ");
  ASSERT_NE(second, std::string::npos);
  EXPECT_NE(text.find("  prefill -> now: query 2 -> 1, key 2 -> 3. One query against all keys", second),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("           a      b      c\n    c  0.000  1.000  2.000\n", second), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(StagePrinter, ColoursWhereAskedFor) {
  StagePrinterOptions options;
  options.stage = "scores";
  options.colours = true;
  const std::string text = two_passes(options);
  EXPECT_NE(text.find("\x1b[1mscores\x1b[0m  [batch=1"), std::string::npos);
  EXPECT_NE(text.find("\x1b[1;36m== first "), std::string::npos);
}

TEST(ColoursWanted, NeverWhereNoColorIsSet) {
  ASSERT_EQ(setenv("NO_COLOR", "1", 1), 0);
  EXPECT_FALSE(colours_wanted());
}

}  // namespace examples_printing_test
}  // namespace examples
