// The program train_tokenizer, run as a user runs it. GLASSBOX_EXAMPLES_DIR in the environment says where it
// is; without that everything here is skipped. Faults that must turn this file red:
//   other stories, another seed or split; a word without the space before it
//   names that do not count ten times, or count more often; an ASCII character forgotten
//   another option of the trainer; add_dummy_prefix left off; a file that does not say its names
//   the trainer's chatter among the output; a failure without a message, with more than one, or with code 0
#include "examples/run_program.hpp"
#include "glassbox/text/sentencepiece_model.hpp"

namespace glassbox {
namespace examples_train_tokenizer_test {

using namespace test_support;

std::string embedded_file() {
  const std::filesystem::path models = std::filesystem::path(GLASSBOX_SOURCE_DIR) / "examples" / "models";
  return read_bytes(models / "fables" / "tokenizer.model");
}

class TrainTokenizerProgram : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string output_ = folder_.file("tokenizer.model");

  void SetUp() override {
    if (!std::filesystem::exists(examples_folder() + "/train_tokenizer")) {
      GTEST_SKIP() << "train_tokenizer was not built";
    }
  }

  Outcome train(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"--output", output_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("train_tokenizer", arguments);
  }

  // It ends with this exit code and a message that says `reason`, and leaves no file.
  void expect_failure(const Outcome& outcome, int exit_code, const std::string& reason) {
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_TRUE(outcome.err.starts_with("train_tokenizer: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
    const std::size_t hints = exit_code == 2 ? 1 : 0;  // "Try: train_tokenizer --help"
    EXPECT_EQ(lines_of(outcome.err).size(), 1 + hints) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(output_));
  }
};

// Not only the same pieces: every byte. Where only this test is red, the embedded model no longer comes from
// the grammar and the program, or the installed trainer merges or writes otherwise than sentencepiece 0.1.97.
TEST_F(TrainTokenizerProgram, MakesTheTokenizerOfTheEmbeddedModel) {
  const Outcome outcome = train();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "452 different words\n"
            "1000 pieces: 3 special, 256 bytes, 440 merged, 301 characters\n"
            "saved as " +
                output_ + "\n");
  const std::string trained = read_bytes(output_), embedded = embedded_file();
  ASSERT_EQ(embedded.size(), 14129u);
  EXPECT_EQ(trained.size(), embedded.size());
  const std::size_t shorter = (std::min)(trained.size(), embedded.size());
  std::size_t equal = 0;
  while (equal < shorter && trained[equal] == embedded[equal]) ++equal;
  EXPECT_TRUE(trained == embedded) << "the first " << equal << " bytes are equal";
}

// One story has few of the names and colours; all of them are words to learn from, and all become one piece.
TEST_F(TrainTokenizerProgram, FewStoriesAreEnough) {
  const Outcome outcome = train({"--stories", "1", "--vocab-size", "800"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const SentencePieceModel model = parse_sentencepiece_model(read_bytes(output_));
  EXPECT_EQ(model.pieces.size(), 800u);
  EXPECT_TRUE(model.add_dummy_prefix);
  EXPECT_TRUE(model.byte_fallback);
  EXPECT_FALSE(model.remove_extra_whitespaces);
  std::set<std::string> pieces;
  for (const SentencePieceModel::Entry& entry : model.pieces) pieces.insert(entry.piece);
  for (const char* piece : {"\u2581Anna", "\u2581Lily", "\u2581red", "\u2581white", "\u5C0F\u521A", "~"}) {
    EXPECT_EQ(pieces.count(piece), 1u) << piece;
  }
}

// 3 special pieces, 256 bytes and the characters of one story and the names: nothing merged.
TEST_F(TrainTokenizerProgram, TheSmallestVocabularyHasNothingMerged) {
  expect_failure(train({"--stories", "1", "--vocab-size", "481"}), 1,
                 "--vocab-size 481 is too small: 3 special pieces, 256 bytes and 223 characters are there "
                 "before anything is merged, 482 in all");
  const Outcome outcome = train({"--stories", "1", "--vocab-size", "482"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("482 pieces: 3 special, 256 bytes, 0 merged, 223 characters\n"),
            std::string::npos)
      << outcome.out;
}

TEST_F(TrainTokenizerProgram, ImpossibleVocabulariesAreRefused) {
  expect_failure(train({"--stories", "1", "--vocab-size", "5000"}), 1,
                 "no tokenizer of 5000 pieces can be trained: Vocabulary size too high (5000).");
  expect_failure(train({"--stories", "1", "--vocab-size", "99999999999"}), 1,
                 "no tokenizer of 99999999999 pieces can be trained: ");
}

TEST_F(TrainTokenizerProgram, AFileThatCannotBeWrittenIsSaid) {
  const std::string absent = folder_.file("absent/tokenizer.model");
  expect_failure(
      run_program("train_tokenizer", {"--stories", "1", "--vocab-size", "600", "--output", absent}), 1,
      "cannot open " + absent + " for writing");
  expect_failure(run_program("train_tokenizer",
                             {"--stories", "1", "--vocab-size", "600", "--output", folder_.path().string()}),
                 1, "cannot open " + folder_.path().string() + " for writing");
  if (!std::filesystem::exists("/dev/full")) return;
  expect_failure(
      run_program("train_tokenizer", {"--stories", "1", "--vocab-size", "600", "--output", "/dev/full"}), 1,
      "/dev/full: the file cannot be written");
}

TEST_F(TrainTokenizerProgram, WrongUseIsSaid) {
  expect_failure(run_program("train_tokenizer", {}), 2, "--output FILE is needed");
  expect_failure(train({"--vocab-size", "0"}), 2, "--vocab-size must be at least 1");
  expect_failure(train({"--vocab-size", "many"}), 2, "expected a whole number");
  expect_failure(train({"--stories", "0"}), 2, "--stories must be at least 1");
  const Outcome help = run_program("train_tokenizer", {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("Chinese has no spaces"), std::string::npos) << help.out;
}

}  // namespace examples_train_tokenizer_test
}  // namespace glassbox
