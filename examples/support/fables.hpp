// Short fables from a grammar, in English and in Chinese: what the embedded model learns.
//
// A story has a named animal, a colour, a place and a thing, drawn at random. Later sentences come back to
// them ("her red kite"), and the name alone decides he or she. So a reader of the story so far often knows
// the next word for certain: such a word is called forced. A model can know it too, but only by looking
// back, which is what attention is for.
//
// One grammar serves three uses: make_story writes with it, check_story reads with it, and the words that
// it leaves no choice about are the ones a model is scored on. The grammar itself (fables.cpp) is a list of
// sentences with slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fables {

enum class Language { english, chinese };

// What a word stands for. The first five are scored; the others are recalled too.
enum class Kind { pronoun, name, thing, colour, place, animal, companion, plain };
inline constexpr std::size_t scored_kinds = 5;
inline constexpr std::size_t kinds = 8;
const char* kind_name(Kind kind);

// Stories whose (name, colour, place, thing) is held out never occur in the train split.
enum class Split { train, held_out, any };

// Fixed openings: every story of the language starts with these bytes.
std::string_view opening(Language language);

// The choices a story is about, each an index into values(language, kind); -1: not mentioned yet.
struct Attributes {
  int name = -1;
  int colour = -1;
  int place = -1;
  int thing = -1;
  int animal = -1;
  int companion = -1;
  bool operator==(const Attributes&) const = default;
};

// True for one combination of (name, colour, place, thing) in ten: a hash of the four indices.
bool is_held_out(const Attributes& attributes);

// All words of a kind, e.g. the colours. For Kind::pronoun every form of he and she. No leading space.
const std::vector<std::string>& values(Language language, Kind kind);

struct Word {
  std::string text;       // with the space before it, if it has one: " red"
  std::size_t begin = 0;  // offset in the story, in bytes, of the space if there is one
  Kind kind = Kind::plain;
  bool forced = false;  // the story so far leaves only this word, and the word is no plain one
};

struct Story {
  Language language = Language::english;
  Attributes attributes;
  std::string text;
  std::vector<Word> words;  // joined, they are the text
};

// The same seed gives the same story, always and everywhere: integers and glassbox::RandomGenerator only.
Story make_story(Language language, std::uint64_t seed, Split split);

struct CheckResult {
  bool ok = false;
  std::size_t place = 0;  // bytes of the text that agree with the grammar
  std::string message;    // what is wrong there; empty if ok
  Story story;            // the words read, with their kinds; whole if ok
};

// Reads a text by the grammar. A text that ends too early is reported at its end.
CheckResult check_story(Language language, std::string_view text);
// The language is told by the opening.
CheckResult check_story(std::string_view text);

// Every different word that a story can contain, with its leading space if it has one.
std::vector<std::string> vocabulary(Language language);

}  // namespace fables
