// The programs inspect and forward, run as a user runs them. GLASSBOX_EXAMPLES_DIR in the environment says
// where they are; without that everything here is skipped. Faults that must turn this file red:
//   a folder that cannot be used and exit code 0; a lone config.json and exit code 1; half a report
//   a tokenizer, or the lack of one, not told; a vocabulary that does not fit let through
//   a key without its file; --ids without the pieces that --prompt shows, or refused for a wrong tokenizer
#include "examples/run_program.hpp"
#include "io/tiny_checkpoint.hpp"

namespace glassbox {
namespace examples_inspect_test {

using namespace test_support;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The last line that begins with `beginning` after its spaces.
std::string line_with(const std::string& text, const std::string& beginning) {
  std::string found = "no line begins with " + beginning;
  for (const std::string& line : lines_of(text)) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos && line.substr(begin).starts_with(beginning)) found = line.substr(begin);
  }
  return found;
}

class InspectProgram : public ::testing::Test {
 protected:
  TemporaryFolder folder_;

  void SetUp() override {
    if (!std::filesystem::exists(examples_folder() + "/inspect")) GTEST_SKIP() << "inspect was not built";
  }

  // Random weights over the small Llama-like vocabulary of 420 pieces.
  std::string write_model(Index vocab_size = 424) {
    ModelConfig config = tiny_config();
    config.vocab_size = vocab_size;
    write_folder(folder_, config, random_weights(config, 5));
    folder_.write("tokenizer.model", read_bytes(own_reference() / "tokenizer-small" / "llama_like.model"));
    return folder_.path().string();
  }
};

TEST_F(InspectProgram, AModelThatCanBeUsed) {
  const Outcome outcome = run_program("inspect", {write_model()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(line_with(outcome.out, "tokenizer.model"),
            "tokenizer.model           " + folder_.file("tokenizer.model"));
  EXPECT_EQ(line_with(outcome.out, "tokenizer_config.json"),
            "tokenizer_config.json     none: the tokenizer's own begin token is put in front, no end token "
            "behind");
  EXPECT_EQ(line_with(outcome.out, "vocabulary"),
            "vocabulary                420 pieces; the last 4 of vocab_size 424 ids have none");
  EXPECT_TRUE(contains(outcome.out, "Memory (batch 1, context 16, arithmetic in float)")) << outcome.out;
  folder_.write("tokenizer_config.json", "{}");
  EXPECT_EQ(line_with(run_program("inspect", {folder_.path().string()}).out, "tokenizer_config.json"),
            "tokenizer_config.json     " + folder_.file("tokenizer_config.json"));
}

TEST_F(InspectProgram, WithoutWeightsTheReportAndFailure) {
  const std::string model = write_model();
  std::filesystem::remove(folder_.file("model.safetensors"));
  const Outcome outcome = run_program("inspect", {model});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "inspect: " + model + ": has neither model.safetensors nor model.safetensors.index.json\n");
  EXPECT_EQ(line_with(outcome.out, "weights  "), "weights                   ! none here");
  EXPECT_TRUE(contains(outcome.out, "logits, all positions")) << outcome.out;
}

TEST_F(InspectProgram, AConfigurationAlone) {
  write_model();
  const Outcome outcome = run_program("inspect", {folder_.file("config.json")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(line_with(outcome.out, "weights  "), "weights                   configuration only");
  EXPECT_EQ(line_with(outcome.out, "model.layers.1"), "model.layers.1: the same");
}

TEST_F(InspectProgram, WithoutATokenizer) {
  const std::string model = write_model();
  std::filesystem::remove(folder_.file("tokenizer.model"));
  const Outcome outcome = run_program("inspect", {model});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(line_with(outcome.out, "tokenizer.model"),
            "tokenizer.model           none: ids only (walk and forward with --ids), or --tokenizer FILE");
  folder_.write("tokenizer.json", "{}");
  EXPECT_EQ(line_with(run_program("inspect", {model}).out, "tokenizer.json"),
            "tokenizer.json            of a kind that is not read");
}

TEST_F(InspectProgram, AVocabularyThatDoesNotFit) {
  const std::string model = write_model(419);
  const Outcome outcome = run_program("inspect", {model});
  const std::string misfit =
      folder_.file("tokenizer.model") +
      " has 420 pieces, but the model's vocab_size is 419: they do not belong together";
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "inspect: " + misfit + "\n");
  EXPECT_EQ(line_with(outcome.out, "! vocabulary"), "! vocabulary              " + misfit);
  EXPECT_TRUE(contains(outcome.out, "logits, all positions")) << outcome.out;
}

TEST_F(InspectProgram, KeysUnderTheirFiles) {
  const std::string model = write_model();
  folder_.write("generation_config.json",
                "{\"bos_token_id\": 3, \"transformers_version\": \"4\", \"eos_token_id\": 2}");
  const std::string out = run_program("inspect", {model}).out;
  EXPECT_TRUE(contains(out, "  generation_config.json: has no do_sample, so greedy\n")) << out;
  EXPECT_TRUE(contains(out,
                       "\nKeys that change nothing here\n"
                       "  generation_config.json:\n"
                       "  ! bos_token_id            3  NOT HONOURED: it is 1 by config.json, and the "
                       "tokenizer says what begins a text\n"
                       "    transformers_version    \"4\"  where the checkpoint came from\n\n"))
      << out;
}

TEST_F(InspectProgram, AContextBeyondCountingGivesNoHalfReport) {
  const Outcome outcome = run_program("inspect", {write_model(), "--context", "999999999999999"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(
      outcome.err,
      "inspect: the memory for batch 1 and context 999999999999999 cannot be counted: scores: its sizes "
      "multiply to more than 63 bits can count; give a smaller --batch or --context\n");
}

TEST_F(InspectProgram, ForwardShowsThePiecesOfIds) {
  const std::string model = write_model();
  const Outcome prompt = run_program("forward", {model, "--prompt", ""});
  const Outcome ids = run_program("forward", {model, "--ids", "1"});
  EXPECT_EQ(ids.exit_code, 0);
  EXPECT_EQ(ids.err, "");
  EXPECT_EQ(ids.out, prompt.out);
  EXPECT_TRUE(contains(ids.out, "0  after 1 \"<s>\":")) << ids.out;
}

// Infinite logits are given as they are, and said.
TEST_F(InspectProgram, ForwardSaysWhichLogitsAreNone) {
  ModelConfig config = tiny_config();
  StoredTensors weights = random_weights(config, 5);
  weights["lm_head.weight"].bytes.replace(3, 1, "\x7f");
  weights["lm_head.weight"].bytes.replace(2, 1, "\xc0");
  write_folder(folder_, config, weights);
  const Outcome outcome = run_program("forward", {folder_.path().string(), "--ids", "1,2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "note: 2 of 22 logits are NaN or infinite: the weights are, or f32 is too small for them\n");
  EXPECT_EQ(run_program("forward", {folder_.path().string(), "--ids", "1", "--npy", ""}).exit_code, 2);
}

// Before the memory for the logits of all positions is taken.
TEST_F(InspectProgram, ForwardChecksTheIdsFirst) {
  const std::string model = write_model();
  const Outcome outside = run_program("forward", {model, "--ids", "1,424"});
  EXPECT_EQ(outside.exit_code, 1);
  EXPECT_EQ(outside.err, "forward: id 424 at position 1, expected 0..423 (vocab_size 424)\n");
  const std::string seventeen = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  const Outcome too_long = run_program("forward", {model, "--ids", seventeen, "--no-cache"});
  EXPECT_EQ(too_long.exit_code, 1);
  EXPECT_EQ(too_long.err, "forward: the text has 17 tokens, the model's max_position_embeddings is 16\n");
}

TEST_F(InspectProgram, ForwardIgnoresNoOption) {
  const std::string model = write_model();
  EXPECT_EQ(run_program("forward", {model, "--ids", "1", "--json", "--tokenizer", "/no/such/file"}).exit_code,
            1);
  EXPECT_EQ(run_program("forward", {model, "--ids", "1", "--json", "--top", "3"}).exit_code, 2);
}

// What concerns how text is cut is said where text was cut.
TEST_F(InspectProgram, ForwardSaysWhichTokensOnlyTheConfigurationHas) {
  const std::string model = write_model();
  folder_.write("tokenizer_config.json", "{\"added_tokens_decoder\": {\"420\": {\"content\": \"<x>\"}}}");
  const std::string note = "adds 1 tokens that the tokenizer's file does not have (\"<x>\")";
  EXPECT_TRUE(contains(run_program("forward", {model, "--prompt", "a"}).err, note));
  EXPECT_EQ(run_program("forward", {model, "--ids", "1"}).err, "");
}

TEST_F(InspectProgram, ALinkToItselfIsNoTokenizer) {
  const std::string model = write_model();
  std::filesystem::remove(folder_.file("tokenizer.model"));
  std::filesystem::create_symlink("tokenizer.model", folder_.file("tokenizer.model"));
  const Outcome outcome = run_program("forward", {model, "--ids", "1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "forward: ids without their pieces: " + folder_.file("tokenizer.model") + " does not exist\n");
}

// Weights at odd addresses are copied by who uses them, not by who looks: inspect only counts them.
TEST_F(InspectProgram, CountsWhatIsCopied) {
  ModelConfig config = tiny_config();
  write_folder(folder_, config, random_weights(config, 5));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, safetensors_bytes(random_weights(config, 5)).data(), 8);
  const std::size_t padding = static_cast<std::size_t>((8 - header_bytes % 8) % 8);
  folder_.write("model.safetensors", safetensors_bytes(random_weights(config, 5), padding));
  const std::string aligned = run_program("inspect", {folder_.path().string()}).out;
  EXPECT_FALSE(contains(aligned, "of these copied")) << aligned;
  folder_.write("model.safetensors", safetensors_bytes(random_weights(config, 5), padding + 1));
  const std::string odd = run_program("inspect", {folder_.path().string()}).out;
  std::uint64_t bytes = 0;
  for (const std::pair<const std::string, StoredTensor>& tensor : random_weights(config, 5)) {
    bytes += tensor.second.bytes.size();
  }
  EXPECT_TRUE(contains(line_with(odd, "of these copied"), " bytes")) << odd;
  std::string digits;
  for (const char character : line_with(odd, "of these copied")) {
    if (character == 'b') break;
    if (character >= '0' && character <= '9') digits += character;
  }
  EXPECT_EQ(digits, std::to_string(bytes));
}

TEST_F(InspectProgram, NamesFromFilesDoNotReachTheTerminal) {
  ModelConfig config = tiny_config();
  StoredTensors weights = random_weights(config, 5);
  weights["foo\\n\\u001b[31m"] = f32_tensor({1}, {1});
  write_folder(folder_, config, weights);
  const std::string out = run_program("inspect", {folder_.path().string()}).out;
  EXPECT_TRUE(contains(out, "  foo\\x0a\\x1b[31m  F32  4 bytes: no part of a Llama model has this name\n"))
      << out;
  weights["model.\\u001b[31m"] = f32_tensor({1}, {1});
  write_folder(folder_, config, weights);
  const std::string err = run_program("forward", {folder_.path().string(), "--ids", "1"}).err;
  EXPECT_TRUE(contains(err, "tensor model.\\x1b[31m is part of the model")) << err;
}

TEST_F(InspectProgram, ForwardWithIdsNeedsNoTokenizer) {
  const std::string model = write_model();
  const std::string wrong = folder_.write("tokenizer.model", "");
  const Outcome outcome = run_program("forward", {model, "--ids", "1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "forward: ids without their pieces: " + wrong + " is empty, expected a SentencePiece model\n");
  EXPECT_TRUE(contains(outcome.out, "0  after 1:")) << outcome.out;
  EXPECT_EQ(run_program("forward", {model, "--ids", "1", "--tokenizer", wrong}).exit_code, 1);
  std::filesystem::remove(wrong);
  EXPECT_EQ(run_program("forward", {model, "--ids", "1"}).err, "");
}

}  // namespace examples_inspect_test
}  // namespace glassbox
