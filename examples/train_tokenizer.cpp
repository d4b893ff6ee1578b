// train_tokenizer: a tokenizer that learns its pieces from single words, by byte pair encoding.
//
// You are here: stories -> [words and counts] -> [merges] -> tokenizer.model, with which 01_text_to_ids
// begins
//
// Byte pair encoding (BPE) begins with single characters. Again and again it takes the two pieces that stand
// side by side most often and makes one new piece of them, until there are as many as asked for. So the order
// of the pieces is the order of the merges.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "glassbox/random.hpp"
#include "glassbox/text/sentencepiece_model.hpp"
#include "glassbox/utf8.hpp"
#include "support/command_line.hpp"
#include "support/fables.hpp"

namespace {

using glassbox::SentencePieceModel;

struct Options {
  std::string output;
  std::int64_t vocab_size = 1000;
  std::int64_t stories = 5000;
};

// ---- words ----------------------------------------------------------------------------------------------
// How often each word is used. A word has the space before it, where its language has spaces: " red". A map
// of strings is sorted by bytes, which for UTF-8 is the order of the characters' numbers.
using WordCounts = std::map<std::string, std::uint64_t>;

constexpr std::uint64_t stories_seed = 1;  // as make_fables has it

std::string space_before_words(fables::Language language) {
  return language == fables::Language::english ? " " : "";
}

void count_words(fables::Language language, std::int64_t stories, WordCounts& counts) {
  const bool english = language == fables::Language::english;
  examples::Progress progress(english ? "English stories" : "Chinese stories",
                              static_cast<std::uint64_t>(stories));
  glassbox::RandomGenerator seeds(stories_seed);
  for (std::int64_t number = 0; number < stories; ++number) {
    const fables::Story story = fables::make_story(language, seeds.next_bits(), fables::Split::train);
    // A story begins without a space, but the finished tokenizer puts one before a text.
    std::string space = space_before_words(language);
    for (const fables::Word& word : story.words) {
      counts[space + word.text] += 1;
      space.clear();
    }
    progress.step();
  }
}

// Names, colours and the like must be one piece each, however rare the others make them look: each counts ten
// times. One that no story has counts as if it were there once.
void favour_values(fables::Language language, WordCounts& counts) {
  for (std::size_t kind = 0; kind < fables::kinds; ++kind) {
    for (const std::string& value : fables::values(language, static_cast<fables::Kind>(kind))) {
      std::uint64_t& count = counts[space_before_words(language) + value];
      count = std::max<std::uint64_t>(count, 1) * 10;
    }
  }
}

WordCounts words_to_learn_from(std::int64_t stories) {
  WordCounts counts;
  for (const fables::Language language : {fables::Language::english, fables::Language::chinese}) {
    count_words(language, stories, counts);
    favour_values(language, counts);
  }
  // Every printable ASCII character becomes a piece, so that any English text is read in letters, not in
  // bytes. emplace leaves a character alone that is a word already.
  for (char character = '!'; character <= '~'; ++character) counts.emplace(std::string(1, character), 1);
  return counts;
}

// ---- training -------------------------------------------------------------------------------------------
// Hands the trainer one line a word, as a file of the format tsv would: the word, a tab, its count.
class WordLines : public sentencepiece::SentenceIterator {
 public:
  explicit WordLines(const WordCounts& counts) {
    for (const auto& [word, count] : counts) lines_.push_back(word + "\t" + std::to_string(count));
  }
  bool done() const override { return next_ == lines_.size(); }
  void Next() override { next_ += 1; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return sentencepiece::util::Status(); }

 private:
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

std::size_t different_characters(const WordCounts& counts) {
  std::set<std::string_view> characters;
  for (const auto& [word, count] : counts) {
    std::string_view rest = word;
    while (!rest.empty()) {
      const int length = glassbox::utf8_character_length(rest);
      if (length <= 0) throw std::runtime_error("\"" + word + "\" is not text in UTF-8");
      characters.insert(rest.substr(0, static_cast<std::size_t>(length)));
      rest.remove_prefix(static_cast<std::size_t>(length));
    }
  }
  return characters.size();
}

// Some pieces are there before the first merge; the trainer's own words about them would not help a reader.
void check_vocab_size(const Options& options, const WordCounts& counts) {
  const std::size_t characters = different_characters(counts);
  const std::size_t smallest = 3 + 256 + characters;
  if (options.vocab_size >= static_cast<std::int64_t>(smallest)) return;
  throw std::runtime_error("--vocab-size " + std::to_string(options.vocab_size) +
                           " is too small: 3 special pieces, 256 bytes and " + std::to_string(characters) +
                           " characters are there before anything is merged, " + std::to_string(smallest) +
                           " in all");
}

// The trainer says FILE(LINE) [CONDITION] REASON; the last is what a user can do something about.
std::string reason_of(const sentencepiece::util::Status& status) {
  const std::string message = status.error_message();
  const std::size_t condition_end = message.rfind("] ");
  if (condition_end == std::string::npos) return message;
  const std::string reason = message.substr(condition_end + 2);
  return reason.empty() ? message : reason;
}

// The bytes of a model file in which add_dummy_prefix is off and no file is named.
std::string train_pieces(const Options& options, const WordCounts& counts) {
  const std::unordered_map<std::string, std::string> settings = {
      {"input_format", "tsv"},
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},                         // none
      {"byte_fallback", "true"},                // a character that is no piece becomes its bytes
      {"character_coverage", "1.0"},            // every character of the words is a piece
      {"normalization_rule_name", "identity"},  // text stays as it is
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},         // a word's space is in its line, and not every word has one
      {"split_by_unicode_script", "false"},  // the words are cut already
      {"split_digits", "true"},
      {"num_threads", "1"},
      {"minloglevel", "3"}};  // no chatter: what goes wrong comes back as a status
  WordLines lines(counts);
  std::string model;
  const sentencepiece::util::Status status =
      sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok()) {
    throw std::runtime_error("no tokenizer of " + std::to_string(options.vocab_size) +
                             " pieces can be trained: " + reason_of(status));
  }
  return model;
}

// ---- the file -------------------------------------------------------------------------------------------
// A number as protobuf writes it: seven bits a byte, the lowest first; the highest bit says that more follow.
std::string varint(std::uint64_t value) {
  std::string bytes;
  while (value >= 0x80) {
    bytes += static_cast<char>(0x80 | (value & 0x7F));
    value >>= 7;
  }
  bytes += static_cast<char>(value);
  return bytes;
}

// A field of wire type 2: text, or a message in the message.
std::string length_and_bytes(std::uint64_t number, std::string_view bytes) {
  const std::uint64_t tag = number << 3 | 2;
  return varint(tag) + varint(bytes.size()) + std::string(bytes);
}

// A normalizer_spec with add_dummy_prefix switched on.
std::string with_dummy_prefix(std::string_view normalizer_spec) {
  std::string result(normalizer_spec);
  glassbox::ProtobufReader reader(normalizer_spec);
  glassbox::ProtobufField field;
  bool found = false;
  while (reader.next(field)) {
    if (field.number != 3) continue;
    result[field.position + 1] = 1;  // after the tag, which is one byte
    found = true;
  }
  if (!found) throw std::runtime_error("the trainer's file does not say add_dummy_prefix");
  return result;
}

// A trainer_spec that names files. A tokenizer file says what it was made from and as what. There are no such
// files here: the trainer gets its lines from memory and leaves its result there, so no folder is needed for
// them. The names are those that the file of the embedded model has had from the beginning.
std::string with_file_names(std::string_view trainer_spec) {
  const std::string input = length_and_bytes(1, "words.tsv");
  const std::string model_prefix = length_and_bytes(2, "tokenizer");
  return input + model_prefix + std::string(trainer_spec);
}

// The trainer needs add_dummy_prefix off; who uses the tokenizer needs it on, as Llama's has it: then a word
// at the beginning of a text is the same piece as elsewhere.
std::string finished_file(std::string_view trained) {
  std::string result;
  glassbox::ProtobufReader reader(trained);
  glassbox::ProtobufField field;
  while (reader.next(field)) {
    glassbox::check_wire_type(field, 2, "a part of the trainer's file");
    std::string part(field.bytes);
    if (field.number == 2) part = with_file_names(field.bytes);
    if (field.number == 3) part = with_dummy_prefix(field.bytes);
    result += length_and_bytes(field.number, part);
  }
  return result;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path + " for writing");
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error(path + ": the file cannot be written");
}

// ---- what came of it ------------------------------------------------------------------------------------
void print_pieces(const SentencePieceModel& model) {
  std::size_t special = 0, bytes = 0, characters = 0, merged = 0;
  for (const SentencePieceModel::Entry& entry : model.pieces) {
    const bool one_character =
        glassbox::utf8_character_length(entry.piece) == static_cast<int>(entry.piece.size());
    if (entry.type == SentencePieceModel::byte) {
      bytes += 1;
    } else if (entry.type != SentencePieceModel::normal) {
      special += 1;
    } else if (one_character) {
      characters += 1;
    } else {
      merged += 1;
    }
  }
  std::printf("%zu pieces: %zu special, %zu bytes, %zu merged, %zu characters\n", model.pieces.size(),
              special, bytes, merged, characters);
}

int train_tokenizer(int argc, char** argv) {
  Options options;
  examples::CommandLine command_line(
      "train_tokenizer",
      "Trains the tokenizer of the embedded model: byte pair encoding (BPE) on the words of fables.\n"
      "It begins with characters and makes the two pieces that most often stand side by side one piece, "
      "again\n"
      "and again, until there are as many as asked for.");
  command_line.option("--output", options.output, "FILE", "where it goes, such as tokenizer.model");
  command_line.option(
      "--vocab-size", options.vocab_size, "N",
      "pieces in all: 3 special ones, 256 bytes for characters that are no piece, the characters "
      "of the words, and what is merged from them");
  command_line.option("--stories", options.stories, "N",
                      "fables to count words in, for each of the languages");
  command_line.footer(
      "Why single words, each with how often it is used, and not whole stories: Chinese has no spaces. BPE\n"
      "merges what it sees side by side, and in stories from one grammar whole clauses come again and "
      "again:\n"
      "they would become pieces, and the model would have nothing left to choose. Of a word alone nothing "
      "but\n"
      "the word and its parts can become a piece, so no piece reaches over a word. Names, colours and the "
      "like\n"
      "count ten times, so that each becomes one piece; printable ASCII is added character by character.\n"
      "\nWithout other wishes the file is, byte for byte, tokenizer.model of the embedded model.\n"
      "\nExamples:\n"
      "  train_tokenizer --output tokenizer.model\n"
      "  train_tokenizer --vocab-size 700 --output small.model    words fall into more pieces\n"
      "  01_text_to_ids --tokenizer small.model                   ... as here");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (options.output.empty())
    return command_line.wrong_use("--output FILE is needed: where the tokenizer goes");
  if (options.vocab_size < 1) return command_line.wrong_use("--vocab-size must be at least 1");
  if (options.stories < 1) return command_line.wrong_use("--stories must be at least 1");

  const WordCounts counts = words_to_learn_from(options.stories);
  std::printf("%zu different words\n", counts.size());
  check_vocab_size(options, counts);
  const std::string trained = train_pieces(options, counts);
  const std::string file = finished_file(trained);
  const SentencePieceModel model = glassbox::parse_sentencepiece_model(file);  // as whoever opens it reads it
  print_pieces(model);
  write_file(options.output, file);
  std::printf("saved as %s\n", options.output.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, train_tokenizer); }
