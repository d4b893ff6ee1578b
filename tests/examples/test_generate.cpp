// The program generate, run as a user runs it. GLASSBOX_EXAMPLES_DIR in the environment says where it is;
// without that everything here is skipped. Faults that must turn this file red:
//   the prompt missing, twice, or shown with --no-echo; no line break at the end, or two
//   anything but the text on standard output; the seed or the stop reason not said, or another than was used
//   an option that has no effect, or that loses against generation_config.json; half a character printed
//   wrong use that does not return 2, a failure that does not return 1, more than one message
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "glassbox/generate.hpp"
#include "glassbox/io/checkpoint.hpp"
#include "glassbox/text/sentencepiece_tokenizer.hpp"
#include "io/tiny_checkpoint.hpp"

namespace glassbox {
namespace examples_generate_test {

using test_support::TemporaryFolder;
using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

std::string shell_quoted(const std::string& argument) {
  std::string quoted = "'";
  for (const char character : argument) quoted += character == '\'' ? "'\\''" : std::string(1, character);
  return quoted + "'";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string line_with(const std::string& text, const std::string& beginning) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning)) return line;
  }
  return "no line begins with " + beginning;
}

class GenerateProgram : public ::testing::Test {
 protected:
  std::string program;
  TemporaryFolder folder;

  void SetUp() override {
    const char* examples = std::getenv("GLASSBOX_EXAMPLES_DIR");
    if (examples == nullptr) GTEST_SKIP() << "GLASSBOX_EXAMPLES_DIR is not set";
    program = std::string(examples) + "/generate";
    if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " was not built";
  }

  Outcome run(const Arguments& arguments, const std::string& standard_input = "") {
    std::string command = shell_quoted(program);
    for (const std::string& argument : arguments) command += " " + shell_quoted(argument);
    const std::string input = folder.write("stdin", standard_input);
    return run_shell(command + " < " + shell_quoted(input));
  }

  // A whole command line, whose own redirections win.
  Outcome run_shell(const std::string& line) {
    const std::string command =
        "{ " + line + "; } > " + shell_quoted(folder.file("out")) + " 2> " + shell_quoted(folder.file("err"));
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = test_support::read_bytes(folder.file("out"));
    outcome.err = test_support::read_bytes(folder.file("err"));
    return outcome;
  }

  // A random model over the small Llama-like vocabulary: it says nonsense, broken bytes among it.
  std::string write_model() {
    ModelConfig config = test_support::tiny_config();
    config.vocab_size = 424;  // four ids without a piece
    config.max_position_embeddings = 64;
    test_support::write_folder(folder, config, test_support::random_weights(config, 5));
    const std::filesystem::path small =
        test_support::own_reference() / "tokenizer-small" / "llama_like.model";
    folder.write("tokenizer.model", test_support::read_bytes(small));
    return folder.path().string();
  }

  // What the library makes of the same request.
  GenerationResult expected(const std::string& model, const std::string& prompt, GenerationConfig config) {
    const Checkpoint<float> checkpoint = load_checkpoint<float>(model);
    const SentencePieceTokenizer tokenizer(model + "/tokenizer.model", {}, 424);
    config.eos_token_id = checkpoint.generation_config.eos_token_id;
    return generate(checkpoint.causal_lm, tokenizer.encode_with_special_tokens(prompt), config, &tokenizer);
  }
};

TEST_F(GenerateProgram, PrintsPromptAndContinuation) {
  const std::string model = write_model();
  GenerationConfig config;
  config.max_new_tokens = 40;
  const std::string prompt = "The fox: \xE4\xBD\xA0\xE5\xA5\xBD!";
  const GenerationResult result = expected(model, prompt, config);
  const Outcome outcome = run({model, "--prompt", prompt, "--max-new-tokens", "40"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, prompt + result.text + "\n");
  EXPECT_TRUE(is_utf8(outcome.out));
  EXPECT_EQ(run({model, "--prompt", prompt, "--max-new-tokens", "40", "--no-echo"}).out, result.text + "\n");
  EXPECT_EQ(run({model, "--prompt", prompt, "--max-new-tokens", "0"}).out, prompt + "\n");
  EXPECT_EQ(run({model, "--prompt", "", "--max-new-tokens", "0"}).out, "\n");
}

TEST_F(GenerateProgram, SaysWhatItDidOnStandardError) {
  const std::string model = write_model();
  const Outcome outcome = run({model, "--prompt", "the fox", "--max-new-tokens", "3", "--seed", "12"});
  EXPECT_EQ(line_with(outcome.err, "model:"), "model: " + model + " (Hugging Face safetensors)");
  EXPECT_EQ(line_with(outcome.err, "sampling:"),
            "sampling: greedy (neither --temperature nor generation_config.json asks for a temperature "
            "above 0)");
  EXPECT_EQ(line_with(outcome.err, "stopped:"), "stopped: max_new_tokens");
  EXPECT_EQ(line_with(outcome.err, "tokens:"), "tokens: 3 in the prompt, 3 new");
  EXPECT_EQ(line_with(outcome.err, "seed:"), "seed: 12 (not used: greedy)");
  EXPECT_TRUE(contains(line_with(outcome.err, "prefill: 3 in "), " tokens/s)")) << outcome.err;
  EXPECT_TRUE(contains(line_with(outcome.err, "decode steps: 2 in "), " tokens/s)")) << outcome.err;
}

TEST_F(GenerateProgram, GreedySaysNoSeedThatNobodyGave) {
  const Outcome outcome = run({write_model(), "--prompt", "the fox", "--max-new-tokens", "1"});
  EXPECT_FALSE(contains(outcome.err, "seed")) << outcome.err;
}

TEST_F(GenerateProgram, WithoutATokenizer) {
  const std::string model = write_model();
  std::filesystem::remove(folder.file("tokenizer.model"));
  const Outcome outcome = run({model});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "generate: " + folder.file("tokenizer.model") +
                             ": no such tokenizer: name a SentencePiece model file with --tokenizer FILE, or "
                             "give ids to walk or forward with --ids\n");
}

TEST_F(GenerateProgram, TheSeedItSaysGivesTheSameText) {
  const std::string model = write_model();
  const Arguments drawn = {model, "--temperature", "1.5", "--max-new-tokens", "20"};
  const Outcome first = run(drawn);
  const std::string seed_line = line_with(first.err, "seed:");
  ASSERT_TRUE(seed_line.ends_with(" (with --seed it gives the same text again)")) << seed_line;
  const std::string seed = seed_line.substr(6, seed_line.find(' ', 6) - 6);
  Arguments again = drawn;
  again.insert(again.end(), {"--seed", seed});
  const Outcome second = run(again);
  EXPECT_EQ(second.out, first.out);
  EXPECT_NE(run(drawn).out, first.out) << "another seed each time";
}

TEST_F(GenerateProgram, EverySamplingOptionCounts) {
  const std::string model = write_model();
  GenerationConfig config;
  config.max_new_tokens = 25;
  config.seed = 3;
  config.sampling.temperature = 2;
  config.sampling.top_k = 30;
  config.sampling.top_p = 0.9;
  config.sampling.min_p = 0.01;
  config.sampling.repetition_penalty = 1.3;
  config.sampling.no_repeat_ngram_size = 2;
  const Arguments all = {model,     "--prompt",
                         "the the", "--max-new-tokens",
                         "25",      "--seed",
                         "3",       "--temperature",
                         "2",       "--top-k",
                         "30",      "--top-p",
                         "0.9",     "--min-p",
                         "0.01",    "--repetition-penalty",
                         "1.3",     "--no-repeat-ngram-size",
                         "2"};
  const Outcome outcome = run(all);
  EXPECT_EQ(outcome.out, "the the" + expected(model, "the the", config).text + "\n");
  EXPECT_EQ(line_with(outcome.err, "sampling:"),
            "sampling: temperature 2 (--temperature), top_k 30 (--top-k), top_p 0.9 (--top-p), min_p 0.01 "
            "(--min-p), repetition_penalty 1.3 (--repetition-penalty), no_repeat_ngram_size 2 "
            "(--no-repeat-ngram-size)");
  const Outcome greedy = run({model, "--temperature", "0", "--top-k", "5", "--max-new-tokens", "1"});
  EXPECT_EQ(line_with(greedy.err, "sampling:"),
            "sampling: greedy (--temperature 0), top_k 5 (--top-k, no effect: greedy)");
}

TEST_F(GenerateProgram, TheModelsSettingsAreTheDefault) {
  const std::string model = write_model();
  folder.write("generation_config.json",
               "{\"do_sample\": true, \"temperature\": 1.7, \"top_k\": 40, \"max_new_tokens\": 9}");
  GenerationConfig config;
  config.max_new_tokens = 9;
  config.seed = 8;
  config.sampling.temperature = 1.7;
  config.sampling.top_k = 40;
  const Outcome outcome = run({model, "--prompt", "the", "--seed", "8"});
  EXPECT_EQ(outcome.out, "the" + expected(model, "the", config).text + "\n");
  EXPECT_EQ(line_with(outcome.err, "sampling:"),
            "sampling: temperature 1.7 (generation_config.json), top_k 40 (generation_config.json)");
  config.sampling.top_k = 3;
  const Outcome other = run({model, "--prompt", "the", "--seed", "8", "--top-k", "3"});
  EXPECT_EQ(other.out, "the" + expected(model, "the", config).text + "\n") << "the command line wins";
  EXPECT_EQ(line_with(other.err, "sampling:"),
            "sampling: temperature 1.7 (generation_config.json), top_k 3 (--top-k)");
}

TEST_F(GenerateProgram, PromptFromAFileAndFromStandardInput) {
  const std::string model = write_model();
  const std::string file = folder.write("prompt.txt", "the fox\nand the\n");
  EXPECT_EQ(run({model, "--prompt-file", file, "--max-new-tokens", "0"}).out, "the fox\nand the\n");
  EXPECT_EQ(run({model, "--prompt-file", "-", "--max-new-tokens", "0"}, "the bear\r\n").out, "the bear\n");
  EXPECT_EQ(run({model, "--prompt-file", "-", "--max-new-tokens", "0"}, "the bear\n\n").out, "the bear\n\n");
  EXPECT_EQ(run({model, "--prompt-file", "-", "--max-new-tokens", "0"}).out, "\n");
}

// What cannot be read is no empty prompt, and what no model takes is not cut into tokens first.
TEST_F(GenerateProgram, PromptsThatCannotBeRead) {
  const std::string model = write_model();
  const Outcome of_folder = run({model, "--prompt-file", folder.path().string()});
  EXPECT_EQ(of_folder.exit_code, 1);
  EXPECT_EQ(of_folder.err,
            "generate: " + folder.path().string() + ": the prompt cannot be read: Is a directory\n");
  const Outcome closed =
      run_shell(shell_quoted(program) + " " + shell_quoted(model) + " --prompt-file - <&-");
  EXPECT_EQ(closed.exit_code, 1);
  EXPECT_EQ(closed.err, "generate: standard input: the prompt cannot be read: Bad file descriptor\n");
  const Outcome endless = run({model, "--prompt-file", "/dev/zero"});
  EXPECT_EQ(endless.exit_code, 1);
  EXPECT_EQ(endless.err, "generate: /dev/zero: the prompt has more than 16 MiB, which no model takes\n");
}

TEST_F(GenerateProgram, AFullDiskEndsIt) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Outcome outcome =
      run_shell(shell_quoted(program) + " " + shell_quoted(write_model()) + " > /dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.err.ends_with("generate: standard output could not be written\n")) << outcome.err;
  EXPECT_FALSE(contains(outcome.err, "stopped:")) << "it went on to the end: " << outcome.err;
}

// What may matter and is not used is said where the model is used, not only by inspect.
TEST_F(GenerateProgram, SaysWhatItDoesNotUse) {
  const std::string model = write_model();
  ModelConfig config = test_support::tiny_config();
  config.vocab_size = 424;
  config.max_position_embeddings = 64;
  test_support::StoredTensors weights = test_support::random_weights(config, 5);
  weights["foo.\\u001b[31mweight"] = test_support::f32_tensor({1}, {1});
  test_support::write_folder(folder, config, weights);
  std::string config_text = test_support::config_text(config);
  config_text.replace(config_text.find("\"bos_token_id\": 1"), 17, "\"bos_token_id\": -1");
  folder.write("config.json", config_text);
  folder.write("generation_config.json", "{\"num_beams\": 4, \"eos_token_id\": 2, \"mystery\": 1}");
  const Outcome outcome = run({model, "--max-new-tokens", "1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.err.starts_with(
      "note: generation_config.json: \"num_beams\" 4: NOT HONOURED: this library does not choose tokens in "
      "this "
      "way\n"
      "note: generation_config.json: \"mystery\" 1 is unknown to this library and was not used\n"
      "note: model.safetensors: tensor foo.\\x1b[31mweight was not used: no part of a Llama model has this "
      "name\n"
      "note: the begin token is 1 by the tokenizer, which is followed, and none by the model's "
      "configuration\n"
      "model: "))
      << outcome.err;
}

TEST_F(GenerateProgram, TokensThatOnlyTheConfigurationHas) {
  const std::string model = write_model();
  folder.write(
      "tokenizer_config.json",
      "{\"added_tokens_decoder\": {\"1\": {\"content\": \"<s>\"}, \"420\": {\"content\": \"<|im_end|>\"}}}");
  const Outcome outcome = run({model, "--max-new-tokens", "1"});
  EXPECT_EQ(line_with(outcome.err, "note:"),
            "note: tokenizer_config.json adds 1 tokens that the tokenizer's file does not have "
            "(\"<|im_end|>\"): in a "
            "text they are cut like any other characters");
}

TEST_F(GenerateProgram, APromptMuchTooLongIsRefusedBeforeItIsCut) {
  const std::string model = write_model();
  const Outcome outcome = run({model, "--prompt-file", "-"}, std::string(100000, 'a'));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.err.starts_with(
      "generate: generation: the prompt of 100000 bytes is longer than the context of "
      "64 tokens, of which the longest has "))
      << outcome.err;
  EXPECT_EQ(run({model, "--prompt-file", "-", "--max-new-tokens", "0"}, std::string(5000, ' ')).exit_code, 1)
      << "spaces may be merged, so that these are cut: here they are not";
}

TEST_F(GenerateProgram, AControlCharacterTypedIsKept) {
  const std::string model = write_model();
  for (const std::string prompt : {"\x01", "a\x01 b", "\x01[a]"}) {
    EXPECT_EQ(run({model, "--prompt", prompt, "--max-new-tokens", "0"}).out, prompt + "\n");
    EXPECT_EQ(run({model, "--prompt=" + prompt, "--max-new-tokens", "0"}).out, prompt + "\n");
  }
  EXPECT_EQ(run({model, "--temperature", "1\x01"}).exit_code, 2);
}

TEST_F(GenerateProgram, DefaultsOfTransformersAreCalledSo) {
  const std::string model = write_model();
  folder.write("generation_config.json", "{\"do_sample\": true, \"temperature\": 0.5}");
  EXPECT_EQ(line_with(run({model, "--max-new-tokens", "1"}).err, "sampling:"),
            "sampling: temperature 0.5 (generation_config.json), top_k 50 (Transformers' default, since "
            "generation_config.json says do_sample)");
}

TEST_F(GenerateProgram, StopReasons) {
  const std::string model = write_model();
  const Outcome context = run({model, "--prompt", "the", "--context", "6"});
  EXPECT_EQ(line_with(context.err, "stopped:"), "stopped: context");
  EXPECT_EQ(line_with(context.err, "tokens:"), "tokens: 2 in the prompt, 5 new");
  GenerationConfig config;
  config.max_new_tokens = 30;
  const std::string text = expected(model, "the", config).text;
  ASSERT_GT(text.size(), 8u);
  std::size_t middle = text.size() / 2;
  while ((text[middle] & 0xC0) == 0x80) ++middle;  // not within a character
  const std::string stop = text.substr(middle, 6);
  const Outcome stopped =
      run({model, "--prompt", "the", "--stop", "never said", "--stop", stop, "--no-echo"});
  EXPECT_EQ(stopped.out, text.substr(0, text.find(stop)) + "\n");
  EXPECT_EQ(line_with(stopped.err, "stopped:"), "stopped: stop_string (\"" + stop + "\")");
  // Whatever the model says first is made its end token.
  const TokenId first = expected(model, "the", config).ids.front();
  folder.write("generation_config.json", "{\"eos_token_id\": [2, " + std::to_string(first) + "]}");
  const Outcome ended = run({model, "--prompt", "the"});
  EXPECT_EQ(ended.out, "the\n") << "the end token is no text";
  EXPECT_EQ(line_with(ended.err, "stopped:"), "stopped: eos (id " + std::to_string(first) + ")");
}

TEST_F(GenerateProgram, ATypedEndTokenEndsNothing) {
  const std::string model = write_model();
  const Outcome outcome = run({model, "--prompt", "the </s> fox", "--max-new-tokens", "4"});
  EXPECT_TRUE(outcome.out.starts_with("the </s> fox"));
  EXPECT_EQ(line_with(outcome.err, "stopped:"), "stopped: max_new_tokens");
}

TEST_F(GenerateProgram, FailuresAndWrongUse) {
  const std::string model = write_model();
  const Outcome long_prompt = run({model, "--prompt", "the fox", "--context", "2"});
  EXPECT_EQ(long_prompt.exit_code, 1);
  EXPECT_EQ(long_prompt.err,
            "generate: generation: the prompt of 3 tokens is longer than the context of 2\n");
  EXPECT_EQ(long_prompt.out, "");
  const Outcome no_file = run({model, "--prompt-file", folder.file("absent")});
  EXPECT_EQ(no_file.exit_code, 1);
  EXPECT_EQ(no_file.err, "generate: " + folder.file("absent") +
                             ": the prompt cannot be read: No such file or directory\n");
  const Outcome wide_context = run({model, "--context", "65"});
  EXPECT_EQ(wide_context.exit_code, 1);
  EXPECT_EQ(wide_context.err,
            "generate: generation: context is 65, more than the model's max_position_embeddings 64\n");
  const std::vector<Arguments> wrong = {{model, "--temperature", "-1"},
                                        {model, "--top-p", "1.5"},
                                        {model, "--max-new-tokens", "-1"},
                                        {model, "--context", "0"},
                                        {"", "--prompt", "a"},
                                        {model, "--stop", ""},
                                        {model, "--stop", "\xE4"},
                                        {model, "--tokenizer", ""},
                                        {model, "--prompt-file", ""},
                                        {model, "--prompt", "a", "--prompt-file", "b"},
                                        {model, "--seed", "x"},
                                        {model, "--no-such-option"}};
  for (const Arguments& arguments : wrong) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[1];
    EXPECT_TRUE(outcome.err.ends_with("Try: generate --help\n")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(contains(help.out, "--no-repeat-ngram-size")) << help.out;
  EXPECT_TRUE(contains(help.out, "The others do not: beam search, typical_p,")) << help.out;
}

// llama2.c's run counts positions, the begin token's included: N of them are fed.
TEST_F(GenerateProgram, GreedyTextOfStories260kToTheLetter) {
  const std::filesystem::path model = test_support::outer_reference() / "stories260k";
  if (!std::filesystem::exists(model / "model.safetensors"))
    GTEST_SKIP() << "GLASSBOX_REFERENCE has no stories260k";
  const nlohmann::json index = nlohmann::json::parse(std::ifstream(model / "reference" / "index.json"));
  ASSERT_GE(index.at("runc_greedy_text").size(), 3u);
  const SentencePieceTokenizer tokenizer((model / "tokenizer.model").string());
  for (const nlohmann::json& item : index.at("runc_greedy_text")) {
    const std::string prompt = item.at("prompt");
    const std::string text = item.at("stdout_without_final_newline");
    const std::size_t prompt_length = tokenizer.encode_with_special_tokens(prompt).size();
    const std::size_t new_tokens = item.at("n").get<std::size_t>() + 1 - prompt_length;
    for (const std::string& path : {model.string(), (model / "stories260K.bin").string()}) {
      const Arguments arguments = {path, "--prompt", prompt, "--max-new-tokens", std::to_string(new_tokens)};
      EXPECT_EQ(run(arguments).out, text + "\n");
    }
  }
}

}  // namespace examples_generate_test
}  // namespace glassbox
