#include "fables.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "glassbox/random.hpp"
#include "glassbox/split_text.hpp"

namespace fables {
namespace {

// ---------------------------------------------------------------------------------------------------
// The text. A story is one of three plots, a plot a row of sections, a section one of several sentences.
//   {name} {colour} {place} {thing} {animal} {companion}   the story's own word; the first one decides it
//   {he} {him} {his} {He} {His}                            the pronoun that the name forces
//   (a|b|c)                                                one of these words
// English words are separated as usual: each carries the space before it. Chinese is written without
// spaces; here spaces show where words end (they are dropped), since nothing else would.
// ---------------------------------------------------------------------------------------------------

using Section = std::vector<const char*>;
using Plot = std::vector<Section>;

struct Text {
  std::vector<std::string> female_names, male_names, colours, places, things, animals, companions;
  Section openings, possessions;
  std::vector<Plot> plots;
};

const Text& english_text() {
  static const Text text = {
      .female_names = {"Lily", "Mia", "Ruby", "Nora", "Anna", "Bella"},
      .male_names = {"Tom", "Max", "Leo", "Ben", "Sam", "Finn"},
      .colours = {"red", "blue", "green", "yellow", "white", "black", "purple", "silver"},
      .places = {"forest", "valley", "village", "meadow", "garden", "jungle", "castle", "desert"},
      .things = {"bell", "kite", "drum", "cup", "hat", "ball", "box", "ring", "flute", "basket"},
      .animals = {"fox", "cat", "dog", "bear", "mouse", "rabbit", "frog", "duck"},
      .companions = {"owl", "crow", "turtle", "squirrel"},
      .openings =
          {"Once upon a time, there was a (kind|clever|little) {animal} named {name}. {He} lived in the "
           "{place}.",
           "Once upon a time, in the {place}, there lived a (kind|clever|little) {animal} named {name}.",
           "Once upon a time, a (kind|clever|little) {animal} named {name} lived in the {place}."},
      .possessions = {" {He} had a {colour} {thing}, and {he} loved it.",
                      " {His} (mother|father) gave {him} a {colour} {thing}.",
                      " Every day, {name} carried a {colour} {thing}."},
      .plots = {
          // Lost and found.
          {{" One day, the {thing} was gone.", " One day, {name} lost the {colour} {thing}."},
           {" {He} looked in the {place}, but the {colour} {thing} was not there.",
            " \"Where is my {colour} {thing}?\" cried {name}.",
            " {name} sat in the {place} and cried for {his} {thing}."},
           {" A (kind|clever) {companion} heard {him}.",
            " Then a (kind|clever) {companion} came to help {name}."},
           {" \"Do not cry, {name},\" said the {companion}. \"Your {thing} is in the {place}.\"",
            " The two looked under every (tree|stone) in the {place}."},
           {" At last, {name} found {his} {colour} {thing}, and {he} (danced|sang) for joy.",
            " There, under a (tree|stone), was the {colour} {thing}! {name} hugged the {companion}."},
           {" From that day on, {name} never lost {his} {thing} again.",
            " From that day on, the {companion} and {name} were friends."},
           {" A good friend helps in time of need.", " Never give up hope."}},
          // The thing is shared.
          {{" One day, a (sad|lonely) {companion} came to the {place}.",
            " In the {place}, {he} found a (sad|lonely) {companion}."},
           {" \"May I hold your {colour} {thing}?\" said the {companion}.",
            " The {companion} looked at the {colour} {thing} and cried."},
           {" \"No,\" said {name}, \"the {thing} is mine!\" But alone in the {place}, {he} was (sad|lonely).",
            " {name} hid {his} {thing}, but then {he} was (sad|lonely)."},
           {" So {he} gave the {colour} {thing} to the {companion}.",
            " At last, {name} shared {his} {colour} {thing} with the {companion}."},
           {" Now the two (dance|sing|play) in the {place} every day.",
            " The {companion} thanked {him} and sang in the {place}.",
            " Now the two share the {thing}, and {name} is never alone."},
           {" A kind heart is never alone.", " Joy grows when it is shared."}},
          // Pride and a fall.
          {{" {He} was so proud of the {colour} {thing} that {he} laughed at a (little|sad) {companion}.",
            " \"My {thing} is the best in the {place}!\" {he} said to a (little|sad) {companion}."},
           {" Then a storm came, and {he} lost {his} {thing}.",
            " One night, {name} fell, and the {colour} {thing} was lost in a (deep|dark) hole."},
           {" {He} cried for help, but only the {companion} came.",
            " No friend came to help {name} but the {companion}."},
           {" At last, the {companion} found the {colour} {thing}.",
            " In the dark, the {companion} found {his} {colour} {thing}."},
           {" \"I am sorry,\" said {name}, and {he} was never proud of {his} {thing} again.",
            " {name} thanked the {companion} and shared {his} {thing} with every friend in the {place}."},
           {" Pride comes before a fall.", " Never laugh at a friend.",
            " A little friend can be a big help."}}}};
  return text;
}

const Text& chinese_text() {
  static const Text text = {
      .female_names = {"小美", "小兰", "小雪", "阿芳", "阿莉", "阿玉"},
      .male_names = {"小明", "小刚", "小勇", "阿强", "阿伟", "阿龙"},
      .colours = {"红色", "蓝色", "绿色", "黄色", "白色", "黑色", "紫色", "银色"},
      .places = {"森林", "竹林", "山谷", "村子", "花园", "沙漠", "城堡", "山洞"},
      .things = {"铃铛", "皮球", "杯子", "盒子", "戒指", "篮子", "灯笼", "气球", "口哨", "瓶子"},
      .animals = {"狐狸", "兔子", "小猫", "小狗", "小熊", "老鼠", "青蛙", "鸭子"},
      .companions = {"猫头鹰", "乌鸦", "乌龟", "松鼠"},
      .openings = {"从前 ， 有 一只 (善良|聪明|可爱) 的 {animal} ， 名叫 {name} 。 {he} 住在 {place} 里 。",
                   "从前 ， 在 {place} 里 ， 有 一只 (善良|聪明|可爱) 的 {animal} ， 名叫 {name} 。",
                   "从前 ， {place} 里 有 一只 {animal} ， 名叫 {name} 。"},
      .possessions = {"{he} 有 一个 {colour} 的 {thing} ， {he} 很 喜欢 它 。",
                      "{his} 的 (妈妈|爸爸) 送给 {him} 一个 {colour} 的 {thing} 。",
                      "每天 ， {name} 都 带着 一个 {colour} 的 {thing} 。"},
      .plots = {// Lost and found.
                {{"一天 ， {thing} 不见 了 。", "一天 ， {name} 弄丢 了 {colour} 的 {thing} 。"},
                 {"{he} 找遍 了 {place} ， 可是 {colour} 的 {thing} 不在 那里 。",
                  "“ 我 的 {colour} 的 {thing} 在 哪里 ？ ” {name} 哭着 说 。",
                  "{name} 坐 在 {place} 里 ， 为 {his} 的 {thing} 哭 了 。"},
                 {"一只 (善良|聪明) 的 {companion} 听见 了 {him} 的 哭声 。",
                  "这时 ， 一只 (善良|聪明) 的 {companion} 来 帮助 {name} 。"},
                 {"“ 别 哭 ， {name} ！ ” {companion} 说 ， “ 你 的 {thing} 在 {place} 里 。 ”",
                  "两个 朋友 一起 找遍 了 {place} 。"},
                 {"最后 ， {name} 找到 了 {his} 的 {colour} 的 {thing} ， {he} 高兴 得 (跳|唱) 起来 。",
                  "原来 ， {colour} 的 {thing} 就 在 (大树|石头) 后面 ！ {name} 抱住 了 {companion} 。"},
                 {"从此 ， {name} 再也 不 弄丢 {his} 的 {thing} 了 。",
                  "从此 ， {companion} 和 {name} 是 最好 的 朋友 。"},
                 {"好 朋友 会 在 困难 时 帮助 你 。", "不要 放弃 希望 。"}},
                // The thing is shared.
                {{"一天 ， 一只 (可怜|孤单) 的 {companion} 来到 {place} 里 。",
                  "在 {place} 里 ， {he} 看见 一只 (可怜|孤单) 的 {companion} 。"},
                 {"“ 我 可以 看看 你 的 {colour} 的 {thing} 吗 ？ ” {companion} 说 。",
                  "{companion} 看着 {colour} 的 {thing} ， 很 喜欢 。"},
                 {"“ 不行 ！ ” {name} 说 ， “ {thing} 是 我 的 ！ ” 可是 ， 在 {place} 里 ， {he} 很 "
                  "(孤单|难过) 。",
                  "{name} 藏起 了 {his} 的 {thing} ， 可是 {he} 很 (孤单|难过) 。"},
                 {"于是 ， {he} 把 {colour} 的 {thing} 送给 了 {companion} 。",
                  "最后 ， {name} 和 {companion} 一起 分享 {colour} 的 {thing} 。"},
                 {"现在 ， 两个 朋友 每天 在 {place} 里 (唱歌|跳舞) 。",
                  "{companion} 谢谢 {him} ， {place} 里 都 是 歌声 。",
                  "从此 ， {thing} 是 两个 朋友 的 ， {name} 再也 不 孤单 了 。"},
                 {"分享 让 大家 快乐 。", "善良 的 心 不 孤单 。"}},
                // Pride and a fall.
                {{"{he} 为 {colour} 的 {thing} 骄傲 ， 还 嘲笑 一只 (可怜|瘦小) 的 {companion} 。",
                  "“ 我 的 {thing} 是 {place} 里 最好 的 ！ ” {he} 对 一只 (可怜|瘦小) 的 {companion} 说 。"},
                 {"忽然 ， 大风 吹走 了 {his} 的 {thing} 。",
                  "一天 晚上 ， {name} 摔倒 了 ， {colour} 的 {thing} 不见 了 。"},
                 {"{he} 大声 哭 ， 只有 {companion} 来 了 。",
                  "没有 朋友 来 帮助 {name} ， 只有 {companion} 来 了 。"},
                 {"最后 ， {companion} 找到 了 {colour} 的 {thing} 。",
                  "{companion} 为 {him} 找到 了 {colour} 的 {thing} 。"},
                 {"“ 对不起 ！ ” {name} 说 。 {he} 再也 不 为 {his} 的 {thing} 骄傲 了 。",
                  "{name} 谢谢 {companion} ， 和 大家 一起 分享 {his} 的 {thing} 。"},
                 {"骄傲 使 人 落后 。", "不要 嘲笑 朋友 。", "瘦小 的 朋友 也 能 帮助 你 。"}}}};
  return text;
}

// ---------------------------------------------------------------------------------------------------
// The text, taken apart into words.
// ---------------------------------------------------------------------------------------------------

// One word of a sentence: a slot of the story, or one of some given words.
struct Item {
  Kind kind = Kind::plain;
  std::string space;                 // " " or nothing: what stands before the word
  std::vector<std::string> choices;  // plain: the words; pronoun: the form for he, the form for she
};
using Sentence = std::vector<Item>;

struct Grammar {
  Language language = Language::english;
  std::array<std::vector<std::string>, kinds> values;
  int female_names = 0;                                   // the first so many names are female
  std::vector<std::vector<std::vector<Sentence>>> plots;  // [plot][section][sentence]
};

Item slot_item(Language language, const std::string& slot) {
  static const std::map<std::string, Kind> slots = {{"name", Kind::name},     {"colour", Kind::colour},
                                                    {"place", Kind::place},   {"thing", Kind::thing},
                                                    {"animal", Kind::animal}, {"companion", Kind::companion}};
  static const std::map<std::string, std::string> english_she = {
      {"he", "she"}, {"him", "her"}, {"his", "her"}, {"He", "She"}, {"His", "Her"}};
  const auto kind = slots.find(slot);
  if (kind != slots.end()) return {kind->second, "", {}};
  if (language == Language::chinese) return {Kind::pronoun, "", {"他", "她"}};
  return {Kind::pronoun, "", {slot, english_she.at(slot)}};
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Cuts the next word from the front of text: a slot, a choice, a run of letters (Chinese: of anything up to
// the next space), or one punctuation character.
Item cut_item(Language language, std::string_view& text) {
  Item item;
  bool spaced = false;
  while (text.front() == ' ') {
    spaced = language == Language::english;
    text.remove_prefix(1);
  }
  std::size_t size = 1;
  if (text.front() == '{') {
    size = text.find('}') + 1;
    item = slot_item(language, std::string(text.substr(1, size - 2)));
  } else if (text.front() == '(') {
    size = text.find(')') + 1;
    item.choices = glassbox::split_text(text.substr(1, size - 2), '|');
  } else {
    if (language == Language::chinese) {
      size = std::min(text.find(' '), text.size());
    } else if (is_ascii_letter(text.front())) {
      while (size < text.size() && is_ascii_letter(text[size])) ++size;
    }
    item.choices = {std::string(text.substr(0, size))};
  }
  text.remove_prefix(size);
  item.space.assign(spaced ? 1 : 0, ' ');
  return item;
}

Sentence parse_sentence(Language language, std::string_view text) {
  Sentence sentence;
  while (!text.empty()) sentence.push_back(cut_item(language, text));
  return sentence;
}

std::vector<Sentence> parse_section(Language language, const Section& section) {
  std::vector<Sentence> sentences;
  for (const char* text : section) sentences.push_back(parse_sentence(language, text));
  return sentences;
}

Grammar make_grammar(Language language, const Text& text) {
  Grammar grammar;
  grammar.language = language;
  std::vector<std::string> names = text.female_names;
  names.insert(names.end(), text.male_names.begin(), text.male_names.end());
  grammar.female_names = static_cast<int>(text.female_names.size());
  const auto values_of = [&grammar](Kind kind) -> std::vector<std::string>& {
    return grammar.values[static_cast<std::size_t>(kind)];
  };
  values_of(Kind::name) = names;
  values_of(Kind::colour) = text.colours;
  values_of(Kind::place) = text.places;
  values_of(Kind::thing) = text.things;
  values_of(Kind::animal) = text.animals;
  values_of(Kind::companion) = text.companions;
  values_of(Kind::pronoun) =
      language == Language::english
          ? std::vector<std::string>{"he", "him", "his", "He", "His", "she", "her", "She", "Her"}
          : std::vector<std::string>{"他", "她"};
  for (const Plot& plot : text.plots) {
    auto& sections = grammar.plots.emplace_back();
    sections.push_back(parse_section(language, text.openings));
    sections.push_back(parse_section(language, text.possessions));
    for (const Section& section : plot) sections.push_back(parse_section(language, section));
  }
  return grammar;
}

const Grammar& grammar_of(Language language) {
  static const Grammar english = make_grammar(Language::english, english_text());
  static const Grammar chinese = make_grammar(Language::chinese, chinese_text());
  return language == Language::english ? english : chinese;
}

// The member of the attributes that a slot refers to; nullptr for pronouns and plain words.
int* attribute_of(Attributes& attributes, Kind kind) {
  switch (kind) {
    case Kind::name:
      return &attributes.name;
    case Kind::colour:
      return &attributes.colour;
    case Kind::place:
      return &attributes.place;
    case Kind::thing:
      return &attributes.thing;
    case Kind::animal:
      return &attributes.animal;
    case Kind::companion:
      return &attributes.companion;
    case Kind::pronoun:
    case Kind::plain:
      break;
  }
  return nullptr;
}

bool is_female(const Grammar& grammar, const Attributes& attributes) {
  return attributes.name < grammar.female_names;
}

// ---------------------------------------------------------------------------------------------------
// Reading. A reader does not know which plot or sentence a story is in until its words tell, so it follows
// all possibilities at once: a set of places in the grammar, each with what it has read so far.
// ---------------------------------------------------------------------------------------------------

struct Position {
  std::size_t plot = 0, section = 0, sentence = 0, item = 0;
  Attributes attributes;
  bool operator==(const Position&) const = default;
};

// A word that may come next, and where that leads.
struct Step {
  std::string word;
  Kind kind = Kind::plain;
  Position next;
};

void add_once(std::vector<Position>& positions, const Position& position) {
  if (std::find(positions.begin(), positions.end(), position) == positions.end())
    positions.push_back(position);
}

// The first word of every sentence of a section.
void add_section(const Grammar& grammar, Position position, std::vector<Position>& positions) {
  position.item = 0;
  const std::size_t sentences = grammar.plots[position.plot][position.section].size();
  for (position.sentence = 0; position.sentence < sentences; ++position.sentence)
    add_once(positions, position);
}

std::vector<Position> start_positions(const Grammar& grammar) {
  std::vector<Position> positions;
  Position position;
  for (position.plot = 0; position.plot < grammar.plots.size(); ++position.plot) {
    add_section(grammar, position, positions);
  }
  return positions;
}

bool at_end(const Grammar& grammar, const Position& position) {
  return position.section == grammar.plots[position.plot].size();
}

const Item& item_at(const Grammar& grammar, const Position& position) {
  return grammar.plots[position.plot][position.section][position.sentence][position.item];
}

// The word after this one: in the sentence, or any first word of the next section.
void add_following(const Grammar& grammar, Position position, std::vector<Position>& positions) {
  ++position.item;
  if (position.item < grammar.plots[position.plot][position.section][position.sentence].size()) {
    add_once(positions, position);
    return;
  }
  ++position.section;
  position.sentence = 0;
  position.item = 0;
  if (at_end(grammar, position)) {
    add_once(positions, position);
  } else {
    add_section(grammar, position, positions);
  }
}

// Every word that may stand at a position. `next` is the same position with the word's choice remembered.
std::vector<Step> steps_from(const Grammar& grammar, const Position& position) {
  std::vector<Step> steps;
  if (at_end(grammar, position)) return steps;
  const Item& item = item_at(grammar, position);
  if (item.kind == Kind::plain) {
    for (const std::string& word : item.choices) steps.push_back({item.space + word, item.kind, position});
    return steps;
  }
  if (item.kind == Kind::pronoun) {
    const std::size_t form = is_female(grammar, position.attributes) ? 1 : 0;
    steps.push_back({item.space + item.choices[form], item.kind, position});
    return steps;
  }
  const std::vector<std::string>& words = grammar.values[static_cast<std::size_t>(item.kind)];
  for (std::size_t value = 0; value < words.size(); ++value) {
    Step step{item.space + words[value], item.kind, position};
    int& attribute = *attribute_of(step.next.attributes, item.kind);
    if (attribute >= 0 && attribute != static_cast<int>(value))
      continue;  // decided already, and not for this word
    attribute = static_cast<int>(value);
    steps.push_back(step);
  }
  return steps;
}

std::vector<Step> steps_from(const Grammar& grammar, const std::vector<Position>& positions) {
  std::vector<Step> steps;
  for (const Position& position : positions) {
    for (const Step& step : steps_from(grammar, position)) steps.push_back(step);
  }
  return steps;
}

// Goes over one word: the positions after it.
std::vector<Position> advance(const Grammar& grammar, const std::vector<Step>& steps,
                              const std::string& word) {
  std::vector<Position> after;
  for (const Step& step : steps) {
    if (step.word == word) add_following(grammar, step.next, after);
  }
  return after;
}

// Marks the words that the story before them leaves no choice about.
void mark_forced(const Grammar& grammar, Story& story) {
  std::vector<Position> positions = start_positions(grammar);
  for (Word& word : story.words) {
    const std::vector<Step> steps = steps_from(grammar, positions);
    const bool only_one =
        std::all_of(steps.begin(), steps.end(), [&word](const Step& step) { return step.word == word.text; });
    word.forced = word.kind != Kind::plain && only_one;
    positions = advance(grammar, steps, word.text);
  }
}

// A number in [0, count), count < 2^32: no division and no std::uniform_int_distribution, whose numbers
// differ from library to library.
std::size_t choose(glassbox::RandomGenerator& random, std::size_t count) {
  return static_cast<std::size_t>(((random.next_bits() >> 32) * std::uint64_t{count}) >> 32);
}

void append_word(Story& story, const std::string& text, Kind kind) {
  story.words.push_back({text, story.text.size(), kind, false});
  story.text += text;
}

// Does the text go on with this word? In English a word ends where its letters end.
bool word_matches(const Grammar& grammar, std::string_view rest, const std::string& word) {
  if (rest.substr(0, word.size()) != word) return false;
  if (grammar.language == Language::chinese || !is_ascii_letter(word.back())) return true;
  return rest.size() == word.size() || !is_ascii_letter(rest[word.size()]);
}

// The word that the text goes on with; nullptr: none that is allowed. Chinese shows no end of a word, so one
// may begin like another: the longer one it is.
const Step* longest_match(const Grammar& grammar, const std::vector<Step>& steps, std::string_view rest) {
  const Step* match = nullptr;
  for (const Step& step : steps) {
    if (!word_matches(grammar, rest, step.word)) continue;
    if (match == nullptr || step.word.size() > match->word.size()) match = &step;
  }
  return match;
}

// What the text has where the grammar wants something else: a word of the language if it is one.
std::string found_at(const Grammar& grammar, std::string_view rest, Kind& kind) {
  std::string_view bare = rest;
  if (!bare.empty() && bare.front() == ' ') bare.remove_prefix(1);
  for (std::size_t index = 0; index < grammar.values.size(); ++index) {
    for (const std::string& value : grammar.values[index]) {
      kind = static_cast<Kind>(index);
      if (word_matches(grammar, bare, value)) return value;
    }
  }
  kind = Kind::plain;
  std::size_t size = 0;
  while (size < bare.size() && is_ascii_letter(bare[size])) ++size;
  if (size > 0) return std::string(bare.substr(0, size));
  size = std::min<std::size_t>(bare.size(), 1);
  while (size < bare.size() && (static_cast<unsigned char>(bare[size]) & 0xC0) == 0x80)
    ++size;  // one whole character
  return std::string(bare.substr(0, size));
}

// e.g. `wrong colour: found "blue", expected "red"`
std::string describe_departure(const Grammar& grammar, const std::vector<Step>& steps,
                               std::string_view rest) {
  Kind found_kind = Kind::plain;
  const std::string found = found_at(grammar, rest, found_kind);
  std::set<std::string> all, same_kind;
  for (const Step& step : steps) {
    const std::string bare = step.word.front() == ' ' ? step.word.substr(1) : step.word;
    all.insert(bare);
    if (step.kind == found_kind && found_kind != Kind::plain) same_kind.insert(bare);
  }
  std::string message = rest.empty() ? "the text ends" : same_kind.empty() ? "unexpected word" : "wrong ";
  if (!rest.empty() && !same_kind.empty()) message += kind_name(found_kind);
  message += rest.empty() ? ", expected " : ": found \"" + found + "\", expected ";
  if (steps.empty()) return message + "the end of the story";
  const std::set<std::string>& expected = same_kind.empty() ? all : same_kind;
  std::string separator;
  for (const std::string& word : expected) {
    message += separator + "\"" + word + "\"";
    separator = " or ";
  }
  return message;
}

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr std::array<const char*, kinds> names = {"pronoun", "name",   "thing",     "colour",
                                                           "place",   "animal", "companion", "plain"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view opening(Language language) {
  return language == Language::english ? "Once upon a time" : "从前";
}

bool is_held_out(const Attributes& attributes) {
  std::uint64_t key = 0;
  for (const int value : {attributes.name, attributes.colour, attributes.place, attributes.thing}) {
    key = key * 64 + static_cast<std::uint64_t>(value);
  }
  return glassbox::RandomGenerator(key).next_bits() % 10 == 0;
}

const std::vector<std::string>& values(Language language, Kind kind) {
  return grammar_of(language).values[static_cast<std::size_t>(kind)];
}

Story make_story(Language language, std::uint64_t seed, Split split) {
  const Grammar& grammar = grammar_of(language);
  glassbox::RandomGenerator random(seed);
  Story story;
  story.language = language;
  do {
    for (const Kind kind :
         {Kind::name, Kind::colour, Kind::place, Kind::thing, Kind::animal, Kind::companion}) {
      *attribute_of(story.attributes, kind) = static_cast<int>(choose(random, values(language, kind).size()));
    }
  } while (split != Split::any && is_held_out(story.attributes) != (split == Split::held_out));
  for (const auto& section : grammar.plots[choose(random, grammar.plots.size())]) {
    for (const Item& item : section[choose(random, section.size())]) {
      std::string word;
      if (item.kind == Kind::plain) {
        word = item.choices[item.choices.size() == 1 ? 0 : choose(random, item.choices.size())];
      } else if (item.kind == Kind::pronoun) {
        word = item.choices[is_female(grammar, story.attributes) ? 1 : 0];
      } else {
        const int value = *attribute_of(story.attributes, item.kind);
        word = values(language, item.kind)[static_cast<std::size_t>(value)];
      }
      append_word(story, item.space + word, item.kind);
    }
  }
  mark_forced(grammar, story);
  return story;
}

CheckResult check_story(Language language, std::string_view text) {
  const Grammar& grammar = grammar_of(language);
  CheckResult result;
  result.story.language = language;
  std::vector<Position> positions = start_positions(grammar);
  while (true) {
    const std::string_view rest = text.substr(result.place);
    const std::vector<Step> steps = steps_from(grammar, positions);
    if (rest.empty() && steps.empty()) break;
    const Step* match = longest_match(grammar, steps, rest);
    if (!match) {
      result.message = describe_departure(grammar, steps, rest);
      return result;
    }
    append_word(result.story, match->word, match->kind);
    result.place += match->word.size();
    positions = advance(grammar, steps, match->word);
    result.story.attributes = positions.front().attributes;
  }
  mark_forced(grammar, result.story);
  result.ok = true;
  return result;
}

CheckResult check_story(std::string_view text) {
  const std::string_view chinese = opening(Language::chinese);
  return check_story(text.substr(0, chinese.size()) == chinese ? Language::chinese : Language::english, text);
}

std::vector<std::string> vocabulary(Language language) {
  const Grammar& grammar = grammar_of(language);
  std::set<std::string> words;
  for (const auto& plot : grammar.plots) {
    for (const auto& section : plot) {
      for (const Sentence& sentence : section) {
        for (const Item& item : sentence) {
          const auto& choices = item.choices.empty() ? values(language, item.kind) : item.choices;
          for (const std::string& word : choices) words.insert(item.space + word);
        }
      }
    }
  }
  return {words.begin(), words.end()};
}

}  // namespace fables
