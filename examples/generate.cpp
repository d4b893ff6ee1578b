// generate: a prompt in, its continuation out, token by token as the model chooses them.
//
// You are here: text -> ids -> vectors -> layers -> logits -> [token -> text, and again]
//
// Breakpoints worth setting:
//   break glassbox::Generator::next    a step: feed the token chosen last, choose the next one
//   break glassbox::sample_next_token  the choice: logits in, token out
//   break glassbox::StreamingDecoder::push  a token's text: nothing yet where half a character came
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <system_error>

#include "glassbox/generate.hpp"
#include "glassbox/random_seed.hpp"
#include "support/open_model.hpp"

namespace {

using glassbox::GenerationConfig;
using glassbox::GenerationResult;
using glassbox::StopReason;
using glassbox::TokenId;
using Clock = std::chrono::steady_clock;

struct GenerateArguments {
  examples::ModelArguments model;
  std::string prompt = "Once upon a time";
  std::string prompt_file;
  std::int64_t max_new_tokens = 256;
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::int64_t no_repeat_ngram_size = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  std::int64_t context = 0;
  bool no_echo = false;
};

void add_options(examples::CommandLine& command_line, GenerateArguments& arguments) {
  arguments.model.add_to(command_line);
  command_line.option("--prompt", arguments.prompt, "TEXT", "the text to continue");
  command_line.option(
      "--prompt-file", arguments.prompt_file, "FILE",
      "read it from a file, or from standard input where FILE is -; one line break at the end "
      "is not part of it");
  command_line.flag("--no-echo", arguments.no_echo, "print the continuation only, without the prompt");
  command_line.option("--max-new-tokens", arguments.max_new_tokens, "N",
                      "so many tokens at most (default: generation_config.json's, else 256)");
  command_line.option(
      "--temperature", arguments.temperature, "T",
      "0: greedy, always the likeliest token; 1: draw by the model's own probabilities; between: "
      "prefer likely ones (default: generation_config.json's, else 0)");
  command_line.option("--top-k", arguments.top_k, "K",
                      "draw from the K likeliest tokens only; 0: off (default: generation_config.json's)");
  command_line.option(
      "--top-p", arguments.top_p, "P",
      "draw from the smallest set of likely tokens whose probabilities reach P; 1: off (default: "
      "generation_config.json's)");
  command_line.option("--min-p", arguments.min_p, "P",
                      "draw from tokens at least P times as likely as the likeliest; 0: off (default: "
                      "generation_config.json's)");
  command_line.option("--repetition-penalty", arguments.repetition_penalty, "R",
                      "above 1: tokens that have occurred become less likely; 1: off (default: "
                      "generation_config.json's)");
  command_line.option("--no-repeat-ngram-size", arguments.no_repeat_ngram_size, "N",
                      "no sequence of N tokens twice; 0: off (default: generation_config.json's)");
  command_line.option("--seed", arguments.seed, "S",
                      "the same seed gives the same text (default: another one each time, and said)");
  command_line.option(
      "--stop", arguments.stop, "TEXT",
      "stop before this text; may be given several times (default: generation_config.json's)");
  command_line.option("--context", arguments.context, "N",
                      "positions that prompt and continuation may fill (default: max_position_embeddings)");
  command_line.footer(
      "The text goes to standard output, UTF-8, one line break after it; all else to standard error.\n"
      "It ends at a token of eos_token_id, at a --stop text, after --max-new-tokens, or where the context "
      "is\n"
      "full; which one is said.\n"
      "Of Transformers' generation settings these exist, named alike: temperature, top_k, top_p, min_p,\n"
      "repetition_penalty, no_repeat_ngram_size, max_new_tokens, and stop_strings as --stop; do_sample is\n"
      "a temperature above 0. The others do not: beam search, typical_p, epsilon_cutoff, eta_cutoff,\n"
      "min_new_tokens, suppressed or forced tokens and words; `inspect` says which of them a model asks "
      "for.\n"
      "On Windows, say `chcp 65001` first, so that the console shows UTF-8.\n"
      "Examples:\n"
      "  generate                                          the embedded model, greedy\n"
      "  generate --temperature 0.8 --top-p 0.9 --seed 7   drawn, and the same again with the same seed\n"
      "  echo 'Once upon' | generate --prompt-file - --no-echo 2>/dev/null\n"
      "  generate ../models/Llama-2-7b-hf --prompt 'The capital of France is' --max-new-tokens 8");
}

// The settings that the user gave, over those of the model.
void take_options(const examples::CommandLine& command_line, const GenerateArguments& arguments,
                  GenerationConfig& config) {
  if (command_line.given("--max-new-tokens")) config.max_new_tokens = arguments.max_new_tokens;
  if (command_line.given("--temperature")) config.sampling.temperature = arguments.temperature;
  if (command_line.given("--top-k")) config.sampling.top_k = arguments.top_k;
  if (command_line.given("--top-p")) config.sampling.top_p = arguments.top_p;
  if (command_line.given("--min-p")) config.sampling.min_p = arguments.min_p;
  if (command_line.given("--repetition-penalty"))
    config.sampling.repetition_penalty = arguments.repetition_penalty;
  if (command_line.given("--no-repeat-ngram-size"))
    config.sampling.no_repeat_ngram_size = arguments.no_repeat_ngram_size;
  if (command_line.given("--stop")) config.stop_strings = arguments.stop;
  if (command_line.given("--context")) config.context = arguments.context;
  config.seed = command_line.given("--seed") ? arguments.seed : glassbox::random_seed();
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// How tokens are chosen, and who said so.
std::string sampling_text(const examples::CommandLine& command_line, const glassbox::CheckpointReport& report,
                          const glassbox::SamplingConfig& sampling) {
  const bool greedy = sampling.temperature == 0;
  std::string text;
  if (greedy && !command_line.given("--temperature")) {
    text = "greedy (neither --temperature nor generation_config.json asks for a temperature above 0)";
  } else if (greedy) {
    text = "greedy (--temperature 0)";
  }
  struct Setting {
    const char* name;
    const char* option;
    double value;
    double off;
    bool only_for_draws;
  };
  const Setting settings[] = {
      {"temperature", "--temperature", sampling.temperature, 0, true},
      {"top_k", "--top-k", static_cast<double>(sampling.top_k), 0, true},
      {"top_p", "--top-p", sampling.top_p, 1, true},
      {"min_p", "--min-p", sampling.min_p, 0, true},
      {"repetition_penalty", "--repetition-penalty", sampling.repetition_penalty, 1, false},
      {"no_repeat_ngram_size", "--no-repeat-ngram-size", static_cast<double>(sampling.no_repeat_ngram_size),
       0, false}};
  for (const Setting& setting : settings) {
    if (setting.value == setting.off) continue;
    text += (text.empty() ? "" : ", ") + std::string(setting.name) + " " + number_text(setting.value) + " (";
    const std::string absent = "generation_config.json: has no " + std::string(setting.name) + ",";
    bool by_default = false;
    for (const std::string& assumption : report.assumptions)
      by_default = by_default || assumption.starts_with(absent);
    text += command_line.given(setting.option) ? setting.option
            : by_default ? "Transformers' default, since generation_config.json says do_sample"
                         : "generation_config.json";
    text += greedy && setting.only_for_draws ? ", no effect: greedy)" : ")";
  }
  return text;
}

std::string stop_text(const GenerationResult& result) {
  std::string text = glassbox::stop_reason_name(result.stop_reason);
  if (result.stop_reason == StopReason::eos) text += " (id " + std::to_string(result.eos_id) + ")";
  if (result.stop_reason == StopReason::stop_string) text += " (\"" + result.stop_string + "\")";
  return text;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string rate_text(std::int64_t tokens, double seconds) {
  char text[80];
  const double rate = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  std::snprintf(text, sizeof text, "%lld in %.3f s (%.1f tokens/s)", static_cast<long long>(tokens), seconds,
                rate);
  return text;
}

void report(const GenerationResult& result, double prefill_seconds, double decode_seconds, bool greedy,
            bool seed_given) {
  std::cerr << "stopped: " << stop_text(result) << "\n"
            << "tokens: " << result.prompt_length << " in the prompt, " << result.ids.size() << " new\n"
            << "prefill: " << rate_text(result.prompt_length, prefill_seconds) << "\n"
            << "decode steps: " << rate_text(result.steps, decode_seconds) << "\n";
  if (greedy && !seed_given) return;  // a seed drawn for nothing tells nothing
  std::cerr << "seed: " << result.seed
            << (greedy ? " (not used: greedy)" : " (with --seed it gives the same text again)") << "\n";
}

// All bytes of a file, or of standard input where it is "-". No model's context takes 16 MiB of text.
std::string read_bytes(const std::string& file) {
  const std::string name = file == "-" ? "standard input" : file;
  const std::size_t most = 16 << 20;
  std::FILE* const stream = file == "-" ? stdin : std::fopen(file.c_str(), "rb");
  std::string bytes;
  char block[1 << 16];
  std::size_t count = 0;
  while (stream != nullptr && bytes.size() <= most &&
         (count = std::fread(block, 1, sizeof block, stream)) > 0) {
    bytes.append(block, count);
  }
  const bool failed = stream == nullptr || std::ferror(stream) != 0;
  const std::string reason = std::generic_category().message(errno);
  if (stream != nullptr && stream != stdin) std::fclose(stream);
  if (failed) {
    glassbox::throw_error<glassbox::FormatError>(name + ": the prompt cannot be read: " + reason);
  }
  if (bytes.size() > most) {
    glassbox::throw_error<glassbox::FormatError>(name +
                                                 ": the prompt has more than 16 MiB, which no model takes");
  }
  return bytes;
}

// One line break at the end belongs to the file, not to the text: echo and editors put it there.
std::string read_prompt(const std::string& file) {
  std::string text = read_bytes(file);
  if (text.ends_with("\r\n")) {
    text.resize(text.size() - 2);
  } else if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

// Throws for a text that is much too long for the context, before it is cut into tokens, which takes long.
// Every character but spaces, which a tokenizer may merge, ends up in some piece; a factor of 4 is left for
// tokenizers that replace characters by shorter ones.
void check_prompt_bytes(const std::string& prompt, const glassbox::Tokenizer& tokenizer,
                        std::int64_t context) {
  std::int64_t longest = 1;
  for (TokenId id = 0; id < tokenizer.piece_count(); ++id) {
    longest = (std::max)(longest, static_cast<std::int64_t>(tokenizer.piece_bytes(id).size()));
  }
  std::int64_t bytes = 0;
  for (const char byte : prompt) bytes += byte == ' ' ? 0 : 1;
  if (bytes / 4 / longest < context) return;
  glassbox::throw_error<glassbox::UsageError>(
      "generation: the prompt of " + std::to_string(prompt.size()) + " bytes is longer than the context of " +
      std::to_string(context) + " tokens, of which the longest has " + std::to_string(longest) + " bytes");
}

int generate(int argc, char** argv) {
  GenerateArguments arguments;
  examples::CommandLine command_line("generate", "Continues a text with a language model.");
  add_options(command_line, arguments);
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (command_line.given("--context") && arguments.context < 1)
    return command_line.wrong_use("--context must be at least 1");
  if (command_line.given("--prompt") && command_line.given("--prompt-file"))
    return command_line.wrong_use("give --prompt or --prompt-file, not both");
  try {
    GenerationConfig options_alone;
    take_options(command_line, arguments, options_alone);
    options_alone.validate();
  } catch (const glassbox::UsageError& error) {
    return command_line.wrong_use(error.what());
  }
  if (command_line.given("--prompt-file")) arguments.prompt = read_prompt(arguments.prompt_file);

  const glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(arguments.model);
  const glassbox::CausalLM<float>& causal_lm = checkpoint.causal_lm;
  const std::unique_ptr<glassbox::Tokenizer> tokenizer =
      examples::open_tokenizer(arguments.model, causal_lm.config);
  GenerationConfig config = checkpoint.generation_config;
  take_options(command_line, arguments, config);
  check_prompt_bytes(arguments.prompt, *tokenizer,
                     glassbox::context_length(config, causal_lm.config.max_position_embeddings));
  const std::vector<TokenId> prompt_ids = tokenizer->encode_with_special_tokens(arguments.prompt);
  glassbox::Generator generator(causal_lm, config, tokenizer.get());
  Clock::time_point start = Clock::now();
  generator.prefill(prompt_ids);  // breakpoint: all tokens of the prompt in one pass
  const double prefill_seconds = seconds_since(start);
  examples::print_notes(arguments.model, checkpoint.report, causal_lm.config, *tokenizer);
  std::cerr << "model: " << checkpoint.report.path << " (" << checkpoint.report.format << ")\n"
            << "sampling: " << sampling_text(command_line, checkpoint.report, config.sampling) << "\n";
  if (!arguments.no_echo) std::cout << generator.result().prompt_text << std::flush;
  double decode_seconds = 0;  // without the time to print
  start = Clock::now();
  while (generator.next()) {  // breakpoint: one token each time
    decode_seconds += seconds_since(start);
    std::cout << generator.new_text();
    examples::flush_output();
    start = Clock::now();
  }
  std::cout << "\n";
  examples::flush_output();
  report(generator.result(), prefill_seconds, decode_seconds, config.sampling.temperature == 0,
         command_line.given("--seed"));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, generate); }
