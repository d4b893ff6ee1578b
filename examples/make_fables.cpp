// make_fables: writes short fables, or checks them, by the grammar in support/fables.cpp.
//
// The same stories train the embedded model, score it and test it. One story per line; the same options
// give the same bytes everywhere.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "glassbox/random.hpp"
#include "support/command_line.hpp"
#include "support/fables.hpp"

namespace {

struct Options {
  std::uint64_t count = 10;
  std::uint64_t seed = 1;
  std::string language = "both";
  std::string split = "train";
  std::string format = "text";
  std::string output;
  std::string check;
};

void write_story(std::ostream& out, const fables::Story& story, const std::string& format) {
  if (format == "words") {  // with the space before it; the tokenizer puts one before the story too
    if (story.language == fables::Language::english) out << ' ';
    for (const fables::Word& word : story.words) out << word.text << '\n';
    return;
  }
  out << story.text;
  if (format == "forced") {  // then kind:offset:bytes of every word that the story before it forces
    for (const fables::Word& word : story.words) {
      if (word.forced)
        out << '\t' << fables::kind_name(word.kind) << ':' << word.begin << ':' << word.text.size();
    }
  }
  out << '\n';
}

// Every word that a story chooses by name, colour and so on, each as stories write it: with its leading
// space.
void write_values(std::ostream& out, fables::Language language) {
  const std::string space = language == fables::Language::english ? " " : "";
  for (std::size_t kind = 0; kind < fables::kinds; ++kind) {
    for (const std::string& value : fables::values(language, static_cast<fables::Kind>(kind)))
      out << space << value << '\n';
  }
}

void write_stories(std::ostream& out, const Options& options) {
  if (options.format == "values") {
    if (options.language != "zh") write_values(out, fables::Language::english);
    if (options.language != "en") write_values(out, fables::Language::chinese);
    return;
  }
  const fables::Split split = options.split == "train"      ? fables::Split::train
                              : options.split == "held-out" ? fables::Split::held_out
                                                            : fables::Split::any;
  glassbox::RandomGenerator seeds(options.seed);
  for (std::uint64_t number = 0; number < options.count; ++number) {
    const bool chinese = options.language == "zh" || (options.language == "both" && number % 2 == 1);
    const fables::Language language = chinese ? fables::Language::chinese : fables::Language::english;
    write_story(out, fables::make_story(language, seeds.next_bits(), split), options.format);
  }
  out.flush();
  if (!out) throw std::runtime_error("cannot write the stories: is the disk full?");
}

// Prints where each story departs from the grammar; fails unless all follow it and there is one.
void check_stories(std::istream& in, const std::string& name) {
  std::size_t line_number = 0, good = 0;
  std::string line;
  while (std::getline(in, line)) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const fables::CheckResult result = fables::check_story(line);
    if (result.ok) {
      ++good;
    } else {
      std::cout << "line " << line_number << ", byte " << result.place << ": " << result.message << '\n';
    }
  }
  // Standard input is read through stdio, which alone knows of its errors.
  if (in.bad() || (&in == &std::cin && std::ferror(stdin) != 0))
    throw std::runtime_error("cannot read " + name);
  if (line_number == 0) throw std::runtime_error(name + " holds no story");
  std::cout << good << " of " << line_number << " stories follow the grammar\n";
  if (good != line_number) throw std::runtime_error("not every story follows the grammar");
}

void check_file(const std::string& name) {
  if (name == "-") {
    check_stories(std::cin, "standard input");
    return;
  }
  std::ifstream file(name, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + name);
  check_stories(file, name);
}

int make_fables(int argc, char** argv) {
  Options options;
  examples::CommandLine command_line(
      "make_fables",
      "Writes short fables by a grammar, one per line, in English and Chinese, or checks them.\n"
      "A story tells of a named animal, a colour, a place and a thing and comes back to each; the name "
      "alone\n"
      "decides he or she. The embedded model is trained on such stories and scored on them.");
  command_line.option("-n,--count", options.count, "N", "how many stories");
  command_line.option("--seed", options.seed, "N",
                      "start of the random numbers: the same seed, the same stories");
  command_line.choice("--language", options.language, {"en", "zh", "both"},
                      "both: English and Chinese in turn");
  command_line.choice(
      "--split", options.split, {"train", "held-out", "any"},
      "held-out: only combinations of name, colour, place and thing that train never has, one "
      "in ten; any: all of them");
  command_line.choice(
      "--format", options.format, {"text", "forced", "words", "values"},
      "forced: text, then tab and kind:offset:bytes for each word that the story so far forces; "
      "words: one word per line, as the tokenizer is trained; values: no stories, but every "
      "pronoun, name, thing, colour, place and animal");
  command_line.option("-o,--output", options.output, "FILE", "file to write, instead of standard output");
  command_line.option(
      "--check", options.check, "FILE",
      "check the stories in this file (- is standard input), one per line, and tell where each "
      "first departs from the grammar; fails unless all follow it");
  command_line.footer(
      "Examples:\n"
      "  make_fables --count 3 --seed 7                    three stories, the languages in turn\n"
      "  make_fables --language zh --split held-out        combinations that training never shows\n"
      "  make_fables --count 100 | make_fables --check -   every story it writes follows the grammar");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;

  if (command_line.given("--output") && options.output.empty())
    return command_line.wrong_use("--output needs the name of a file");
  if (command_line.given("--check")) {
    if (options.check.empty())
      return command_line.wrong_use("--check needs the name of a file, or - for standard input");
    if (!options.output.empty())
      return command_line.wrong_use("--check writes no stories: leave --output out");
    check_file(options.check);
  } else if (options.output.empty()) {
    write_stories(std::cout, options);
  } else {
    std::ofstream file(options.output, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open " + options.output + " for writing");
    write_stories(file, options);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, make_fables); }
