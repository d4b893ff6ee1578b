// The programs train and perplexity, run as a user runs them. GLASSBOX_EXAMPLES_DIR in the environment says
// where they are; without that everything here is skipped. Faults that must turn this file red:
//   a training that cannot be loaded again, or whose loss does not fall
//   a resumed training that differs from one without a break; other settings accepted for it
//   a frozen parameter that learns; a batch in parts or recomputed activations that give another model
//   a perplexity without the begin token, over another number of tokens, or in other digits
#include <cstring>
#include <sstream>

#include "examples/run_program.hpp"
#include "glassbox/io/checkpoint.hpp"

namespace glassbox {
namespace examples_train_test {

using namespace test_support;

std::string last_line(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  return lines.empty() ? "" : lines.back();
}

std::string fables() {
  return (std::filesystem::path(GLASSBOX_SOURCE_DIR) / "examples" / "models" / "fables").string();
}

class TrainProgram : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string max_length_ = "12";

  void SetUp() override {
    if (!std::filesystem::exists(examples_folder() + "/train")) GTEST_SKIP() << "train was not built";
  }

  std::string output(const std::string& name) { return folder_.file(name); }

  // Four steps of two short beginnings.
  Outcome train(const std::string& name, std::vector<std::string> more = {}, const std::string& before = "") {
    std::vector<std::string> arguments{"--output",  output(name), "--steps",  "4",       "--batch",
                                       "2",         "--corpus",   "6",        "--print", "2",
                                       "--every",   "3",          "--warmup", "2",       "--max-length",
                                       max_length_, "--held-out", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("train", arguments, before);
  }

  std::string weights(const std::string& name) { return read_bytes(output(name) + "/model.safetensors"); }

  std::vector<double> losses(const std::string& name) {
    std::vector<double> values;
    const std::vector<std::string> lines = lines_of(read_bytes(output(name) + "/loss.tsv"));
    for (std::size_t i = 1; i < lines.size(); ++i)
      values.push_back(std::stod(lines[i].substr(lines[i].find('\t'))));
    return values;
  }
};

TEST_F(TrainProgram, MakesAModelThatCanBeLoaded) {
  const Outcome outcome = train("a");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "train: 6 of 6 texts are longer than 12 tokens and lose their end\n");
  EXPECT_EQ(last_line(outcome.out), "saved in " + output("a"));
  const Checkpoint<float> checkpoint = load_checkpoint<float>(output("a"));
  EXPECT_EQ(checkpoint.causal_lm.config.hidden_size, 128);
  EXPECT_TRUE(std::filesystem::exists(output("a") + "/tokenizer.model"));
  EXPECT_TRUE(read_bytes(output("a") + "/loss.svg").starts_with("<svg "));
  const std::vector<double> values = losses("a");
  ASSERT_EQ(values.size(), 4u);
  EXPECT_NEAR(values[0], std::log(1000.0) + 0.5, 0.4);  // knowing nothing: logits of deviation 1
  EXPECT_LT(values[3], values[0]);
}

TEST_F(TrainProgram, GoesOnAsIfWithoutABreak) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("again").exit_code, 0);
  EXPECT_EQ(weights("again"), weights("whole"));  // the same seed, the same model
  const Outcome first = train("broken", {"--stop-after", "3"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(last_line(first.out),
            "stopped after step 3; saved in " + output("broken") + ", --resume goes on");
  EXPECT_NE(weights("broken"), weights("whole"));
  ASSERT_EQ(train("broken", {"--resume"}).exit_code, 0);
  EXPECT_EQ(weights("broken"), weights("whole"));
  EXPECT_EQ(losses("broken"), losses("whole"));
  const Outcome other = train("whole", {"--resume", "--learning-rate", "0.1"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(
      other.err.find("learning_rate was 0.003000, is now 0.100000: --resume goes on with the same settings"),
      std::string::npos)
      << other.err;
}

// What decides the next step is compared; a refusal changes nothing in the folder.
TEST_F(TrainProgram, ResumesWithTheSameSettingsOnly) {
  ASSERT_EQ(train("same", {"--stop-after", "2"}).exit_code, 0);
  const std::string tokenizer = read_bytes(output("same") + "/tokenizer.model");
  const std::string before = weights("same");
  const Outcome frozen = train("same", {"--resume", "--freeze", "model.embed_tokens.*"});
  EXPECT_EQ(frozen.exit_code, 1);
  EXPECT_NE(frozen.err.find("freeze_fingerprint was "), std::string::npos) << frozen.err;
  max_length_ = "0";
  const Outcome task = train("same", {"--resume", "--task", "questions"});
  EXPECT_EQ(task.exit_code, 1);
  EXPECT_NE(task.err.find("--resume goes on with the same settings only"), std::string::npos) << task.err;
  const std::string other_model =
      (std::filesystem::path(GLASSBOX_SOURCE_DIR) / "tests/reference/tiny-llama-mha").string();
  EXPECT_EQ(train("same", {"--resume", other_model, "--tokenizer", fables() + "/tokenizer.model"}).exit_code,
            1);
  EXPECT_EQ(read_bytes(output("same") + "/tokenizer.model"), tokenizer);
  EXPECT_EQ(weights("same"), before);
}

TEST_F(TrainProgram, TakesTheTokenizerAlong) {
  const std::filesystem::path named = folder_.path() / "named.model";
  std::filesystem::copy_file(fables() + "/tokenizer.model", named);
  ASSERT_EQ(train("named", {"--tokenizer", named.string()}).exit_code, 0);
  EXPECT_EQ(read_bytes(output("named") + "/tokenizer.model"), read_bytes(named.string()));
}

TEST_F(TrainProgram, NothingIsOverwritten) {
  ASSERT_EQ(train("old", {"--stop-after", "1"}).exit_code, 0);
  const Outcome again = train("old");
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_NE(again.err.find("there is a training already: --resume goes on with it"), std::string::npos)
      << again.err;
  std::filesystem::remove(output("old") + "/training_state.safetensors");
  const Outcome own = train("old", {output("old")});
  EXPECT_EQ(own.exit_code, 1);
  EXPECT_NE(own.err.find("is the model's own folder"), std::string::npos) << own.err;
}

// Standard output that takes nothing: an error, and yet the steps that were done are saved.
TEST_F(TrainProgram, SavesWhereItsOutputIsLost) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const std::string command =
      shell_quoted(examples_folder() + "/train") + " --output " + shell_quoted(output("full")) +
      " --steps 2 --batch 1 --corpus 2 --held-out 1 --max-length 4 --print 1 > /dev/full 2>&1";
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(output("full") + "/training_state.safetensors"));
}

TEST_F(TrainProgram, TextsWithoutALabelAreRefused) {
  const Outcome cut = train("cut", {"--task", "questions"});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_NE(cut.err.find("6 of 6 texts have nothing to learn within 12 tokens"), std::string::npos)
      << cut.err;
}

// Ctrl-C between two steps: waited for is the program's own word that the first one is done.
TEST_F(TrainProgram, AnInterruptSaves) {
  const std::string log = folder_.file("log"), errors = folder_.file("errors");
  const std::string command = shell_quoted(examples_folder() + "/train") + " --output " +
                              shell_quoted(output("i")) +
                              " --steps 1000000 --batch 1 --corpus 2 --held-out 1 --max-length 4 --print 1"
                              " > " +
                              shell_quoted(log) + " 2> " + shell_quoted(errors) +
                              " & pid=$!; "
                              "while kill -0 $pid && ! grep -q '^step 1 ' " +
                              shell_quoted(log) + "; do sleep 0.05; done; kill -INT $pid; wait $pid";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(read_bytes(errors).find("; saved in " + output("i") + ", --resume goes on"), std::string::npos)
      << read_bytes(errors);
  EXPECT_EQ(load_checkpoint<float>(output("i")).causal_lm.config.vocab_size, 1000);
}

TEST_F(TrainProgram, MemoryIsSavedWithoutAnotherResult) {
  ASSERT_EQ(train("keep").exit_code, 0);
  ASSERT_EQ(train("recompute", {"--recompute"}).exit_code, 0);
  EXPECT_EQ(weights("recompute"), weights("keep"));
  ASSERT_EQ(train("parts", {"--accumulate", "2"}).exit_code, 0);
  const std::vector<double> whole = losses("keep"), parts = losses("parts");
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-4);
}

TEST_F(TrainProgram, FrozenParametersStay) {
  max_length_ = "0";  // the answers stand at the end
  const Outcome outcome =
      train("frozen", {"--fine-tune", "--freeze", "model.embed_tokens.*", "--task", "questions"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("frozen\n"), std::string::npos) << outcome.out;
  const Checkpoint<float> before = load_checkpoint<float>(fables()),
                          after = load_checkpoint<float>(output("frozen"));
  const WeightMatrix& embedding = after.causal_lm.model.embed_tokens.weight;
  EXPECT_EQ(std::memcmp(embedding.data(), before.causal_lm.model.embed_tokens.weight.data(),
                        static_cast<std::size_t>(embedding.bytes())),
            0);
  const WeightMatrix& projection = after.causal_lm.model.layers[0].self_attn.q_proj.weight;
  EXPECT_NE(std::memcmp(projection.data(), before.causal_lm.model.layers[0].self_attn.q_proj.weight.data(),
                        static_cast<std::size_t>(projection.bytes())),
            0);
}

TEST_F(TrainProgram, LearnsFromATextOfOnesOwn) {
  folder_.write("text", "Once upon a time, a clever cat named Mia lived in the garden. Mia had a red kite.");
  const Outcome outcome = train("own", {"--text", folder_.file("text"), "--block", "8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("tokens at the end fill none and are not used"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(train("none", {"--text", folder_.file("absent")}).exit_code, 1);
  folder_.write("short", "Once");
  const Outcome short_text = train("short", {"--text", folder_.file("short")});
  EXPECT_EQ(short_text.exit_code, 1);
  EXPECT_NE(short_text.err.find("2 tokens, expected at least 256, one block"), std::string::npos)
      << short_text.err;
}

TEST_F(TrainProgram, WrongUseIsSaid) {
  EXPECT_EQ(run_program("train", {}).exit_code, 2);  // no --output
  EXPECT_EQ(train("x", {"--steps", "0"}).exit_code, 2);
  EXPECT_EQ(train("x", {"--batch", "3", "--accumulate", "2"}).exit_code, 2);
  EXPECT_EQ(train("x", {"--learning-rate", "-1"}).exit_code, 2);
  EXPECT_EQ(train("x", {"--freeze", "no.such.*"}).exit_code, 1);
  EXPECT_EQ(train("x", {"--freeze", "*"}).exit_code, 1);
  EXPECT_EQ(train("x", {"--weight-decay", "1e300"}).exit_code, 2);
  EXPECT_EQ(train("x", {"--text", fables() + "/config.json", "--task", "fables"}).exit_code, 2);
  EXPECT_EQ(train("x", {"--text", fables()}).exit_code, 1);  // a folder
}

TEST(PerplexityProgram, AgreesWithAnotherProgram) {
  if (!std::filesystem::exists(examples_folder() + "/perplexity")) GTEST_SKIP() << "perplexity was not built";
  const TemporaryFolder folder;
  folder.write("text", "Once upon a time");
  // exp of the mean of 0.710052, 5.0457e-05, 5.1954e-05 and 3.1730e-05, computed in float64 and Python
  EXPECT_EQ(last_line(run_program("perplexity", {fables(), folder.file("text")}).out),
            "perplexity 1.19428 over 4 tokens");
  EXPECT_EQ(last_line(run_program("perplexity", {fables(), folder.file("text"), "--scalar", "double"}).out),
            "perplexity 1.19428 over 4 tokens");
  const Outcome windows = run_program("perplexity", {fables(), folder.file("text"), "--context", "3"});
  EXPECT_EQ(lines_of(windows.out)[0], "4 tokens in 2 windows of at most 3, begin token 1");
  EXPECT_TRUE(last_line(windows.out).ends_with(" over 4 tokens")) << windows.out;
  EXPECT_EQ(run_program("perplexity", {fables()}).exit_code, 2);
  EXPECT_EQ(run_program("perplexity", {fables(), folder.file("text"), "--context", "1"}).exit_code, 2);
  EXPECT_EQ(run_program("perplexity", {fables(), folder.file("text"), "--context", "257"}).exit_code, 1);
  EXPECT_EQ(run_program("perplexity", {fables(), folder.file("absent")}).exit_code, 1);
  folder.write("empty", "");
  EXPECT_EQ(run_program("perplexity", {fables(), folder.file("empty")}).exit_code, 1);
}

// What the card of the embedded model says of its heads: in each language one that looks for the name where
// the pronoun is decided.
TEST(ScoreFablesProgram, ShowsTheHeadThatLooksForTheName) {
  if (!std::filesystem::exists(examples_folder() + "/score_fables")) GTEST_SKIP() << "it was not built";
  for (const std::string language : {"en", "zh"}) {
    const Outcome outcome =
        run_program("score_fables", {"--stories", "3", "--heads", "--language", language});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::vector<std::string> lines = lines_of(outcome.out);
    ASSERT_EQ(lines.size(), 6u + 5u + 5u) << outcome.out;
    EXPECT_TRUE(lines[6].starts_with("  attention to the name, from the token that predicts its pronoun"));
    double largest = 0;
    for (std::size_t layer = 0; layer < 4; ++layer) {
      std::istringstream row(lines[7 + layer].substr(lines[7 + layer].find(':') + 1));
      double weight = 0;
      int heads = 0;
      for (; row >> weight; ++heads) {
        EXPECT_GE(weight, 0);
        EXPECT_LE(weight, 1);
        largest = std::max(largest, weight);
      }
      EXPECT_EQ(heads, 4) << outcome.out;
    }
    EXPECT_GT(largest, 0.3) << outcome.out;
  }
}

TEST(TrainingFaultsProgram, ShowsBothTrainings) {
  if (!std::filesystem::exists(examples_folder() + "/training_faults")) GTEST_SKIP() << "it was not built";
  const Outcome outcome = run_program("training_faults", {"no-shift", "--steps", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("without the fault"), std::string::npos) << outcome.out;
  EXPECT_EQ(run_program("training_faults", {"nonsense"}).exit_code, 2);
}

}  // namespace examples_train_test
}  // namespace glassbox
