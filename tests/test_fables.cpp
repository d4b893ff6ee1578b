// The grammar of the fables, and the tokenizer that was made for it.
#include "support/fables.hpp"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace fables_test {

using fables::Kind;
using fables::Language;
using fables::Split;
using fables::Story;

constexpr Language languages[] = {Language::english, Language::chinese};
constexpr Kind scored[] = {Kind::pronoun, Kind::name, Kind::thing, Kind::colour, Kind::place};

const std::string english_story =
    "Once upon a time, there was a kind bear named Anna. She lived in the desert. Her "
    "mother gave her a red ball. In the desert, she found a lonely owl. The owl looked "
    "at the red ball and cried. Anna hid her ball, but then she was lonely. At last, Anna "
    "shared her red ball with the owl. Now the two sing in the desert every day. Joy grows "
    "when it is shared.";
const std::string chinese_story =
    "从前，在沙漠里，有一只善良的狐狸，名叫小刚。他的爸爸送给他一个白色的篮子。"
    "“我的篮子是沙漠里最好的！”他对一只可怜的乌鸦说。忽然，大风吹走了他的篮子。"
    "没有朋友来帮助小刚，只有乌鸦来了。乌鸦为他找到了白色的篮子。“对不起！”小刚说。"
    "他再也不为他的篮子骄傲了。骄傲使人落后。";

std::string replaced(std::string text, const std::string& from, const std::string& to, int occurrence) {
  std::size_t at = text.find(from);
  for (int i = 1; i < occurrence; ++i) at = text.find(from, at + 1);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Where the occurrence of `word` begins, in bytes.
std::size_t place_of(const std::string& text, const std::string& word, int occurrence) {
  std::size_t at = text.find(word);
  for (int i = 1; i < occurrence; ++i) at = text.find(word, at + 1);
  return at;
}

// ---- writing ------------------------------------------------------------------------------------------

TEST(Fables, OneSeedGivesOneStoryEverywhere) {
  EXPECT_EQ(fables::make_story(Language::english, 7, Split::train).text, english_story);
  EXPECT_EQ(fables::make_story(Language::chinese, 8, Split::train).text, chinese_story);
}

TEST(Fables, StoriesOpenWithTheFixedPhrase) {
  EXPECT_EQ(fables::opening(Language::english), "Once upon a time");
  for (const Language language : languages) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Story story = fables::make_story(language, seed, Split::any);
      EXPECT_EQ(story.text.rfind(fables::opening(language), 0), 0u) << story.text;
    }
  }
}

TEST(Fables, WordsJoinedAreTheText) {
  for (const Language language : languages) {
    const Story story = fables::make_story(language, 3, Split::any);
    std::string joined;
    for (const fables::Word& word : story.words) {
      EXPECT_EQ(word.begin, joined.size());
      joined += word.text;
    }
    EXPECT_EQ(joined, story.text);
  }
}

TEST(Fables, ValuesComeAboutEquallyOften) {
  for (const Language language : languages) {
    std::map<int, int> names, things;
    constexpr int stories = 6000;
    for (std::uint64_t seed = 0; seed < stories; ++seed) {
      const Story story = fables::make_story(language, seed, Split::train);
      ++names[story.attributes.name];
      ++things[story.attributes.thing];
    }
    ASSERT_EQ(names.size(), 12u);
    ASSERT_EQ(things.size(), 10u);
    for (const auto& [name, count] : names) EXPECT_NEAR(count, stories / 12, 90) << name;
    for (const auto& [thing, count] : things) EXPECT_NEAR(count, stories / 10, 90) << thing;
  }
}

TEST(Fables, TrainingNeverSeesAHeldOutCombination) {
  using Combination = std::tuple<int, int, int, int>;
  for (const Language language : languages) {
    std::set<Combination> train, held_out;
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
      const fables::Attributes a = fables::make_story(language, seed, Split::train).attributes;
      const fables::Attributes b = fables::make_story(language, seed, Split::held_out).attributes;
      train.insert({a.name, a.colour, a.place, a.thing});
      held_out.insert({b.name, b.colour, b.place, b.thing});
    }
    for (const Combination& combination : held_out) EXPECT_EQ(train.count(combination), 0u);
    EXPECT_GT(held_out.size(), 500u);
  }
}

TEST(Fables, OneCombinationInTenIsHeldOut) {
  int held_out = 0, all = 0;
  fables::Attributes a;
  for (a.name = 0; a.name < 12; ++a.name) {
    for (a.colour = 0; a.colour < 8; ++a.colour) {
      for (a.place = 0; a.place < 8; ++a.place) {
        for (a.thing = 0; a.thing < 10; ++a.thing) {
          ++all;
          if (fables::is_held_out(a)) ++held_out;
        }
      }
    }
  }
  EXPECT_NEAR(held_out, all / 10, 100);
}

// A forced word is one that nothing else could replace: the reader must refuse every other of its kind.
TEST(Fables, AnyOtherWordAtAForcedPlaceIsRefused) {
  for (const Language language : languages) {
    std::map<Kind, int> tried;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Story story = fables::make_story(language, seed, Split::any);
      for (const fables::Word& word : story.words) {
        if (!word.forced) continue;
        EXPECT_NE(word.kind, Kind::plain);
        const std::string space = word.text.front() == ' ' ? " " : "";
        for (const std::string& value : fables::values(language, word.kind)) {
          if (space + value == word.text) continue;
          std::string other = story.text;
          other.replace(word.begin, word.text.size(), space + value);
          const fables::CheckResult result = fables::check_story(language, other);
          EXPECT_FALSE(result.ok) << other;
          EXPECT_EQ(result.place, word.begin) << other;
          ++tried[word.kind];
        }
      }
    }
    for (const Kind kind : scored) EXPECT_GT(tried[kind], 40) << fables::kind_name(kind);
  }
}

TEST(Fables, FirstMentionsAreNotForcedAndLaterOnesOftenAre) {
  const Story story = fables::make_story(Language::english, 7, Split::train);
  std::map<Kind, std::vector<bool>> forced;
  for (const fables::Word& word : story.words) forced[word.kind].push_back(word.forced);
  for (const Kind kind : {Kind::name, Kind::thing, Kind::colour, Kind::place}) {
    ASSERT_GE(forced[kind].size(), 2u) << fables::kind_name(kind);
    EXPECT_FALSE(forced[kind].front()) << fables::kind_name(kind);
  }
  for (const bool plain : forced[Kind::plain]) EXPECT_FALSE(plain);
}

// ---- reading ------------------------------------------------------------------------------------------

TEST(Fables, EveryStoryIsAccepted) {
  for (const Language language : languages) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      const Story story = fables::make_story(language, seed, Split::any);
      const fables::CheckResult result = fables::check_story(story.text);
      ASSERT_TRUE(result.ok) << story.text << '\n' << result.message;
      ASSERT_EQ(result.place, story.text.size());
      ASSERT_EQ(result.story.attributes, story.attributes) << story.text;
      ASSERT_EQ(result.story.words.size(), story.words.size()) << story.text;
      for (std::size_t i = 0; i < story.words.size(); ++i) {
        ASSERT_EQ(result.story.words[i].text, story.words[i].text) << story.text;
        ASSERT_EQ(result.story.words[i].kind, story.words[i].kind) << story.text;
        ASSERT_EQ(result.story.words[i].forced, story.words[i].forced) << story.text;
      }
    }
  }
}

// Breaks one word of the stored story and expects the reader to stop at it, with these words.
void expect_departure(const std::string& story, const std::string& from, const std::string& to,
                      int occurrence, const std::string& message) {
  const fables::CheckResult result = fables::check_story(replaced(story, from, to, occurrence));
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.place, place_of(story, from, occurrence)) << result.message;
  EXPECT_EQ(result.message, message);
}

TEST(Fables, BrokenEnglishStoriesAreRefusedAtTheBreak) {
  expect_departure(english_story, " She", " He", 1, "wrong pronoun: found \"He\", expected \"She\"");
  expect_departure(english_story, " her", " his", 1, "wrong pronoun: found \"his\", expected \"her\"");
  expect_departure(english_story, " red", " blue", 2, "wrong colour: found \"blue\", expected \"red\"");
  expect_departure(english_story, " ball", " kite", 2, "wrong thing: found \"kite\", expected \"ball\"");
  expect_departure(english_story, " desert", " forest", 2,
                   "wrong place: found \"forest\", expected \"desert\"");
  expect_departure(english_story, " Anna", " Tom", 3, "wrong name: found \"Tom\", expected \"Anna\"");
  expect_departure(english_story, " owl", " crow", 2, "wrong companion: found \"crow\", expected \"owl\"");
  expect_departure(english_story, " mother", " uncle", 1,
                   "unexpected word: found \"uncle\", expected \"father\" or \"mother\"");
}

TEST(Fables, BrokenChineseStoriesAreRefusedAtTheBreak) {
  expect_departure(chinese_story, "他", "她", 1, "wrong pronoun: found \"她\", expected \"他\"");
  expect_departure(chinese_story, "白色", "红色", 2, "wrong colour: found \"红色\", expected \"白色\"");
  expect_departure(chinese_story, "篮子", "气球", 2, "wrong thing: found \"气球\", expected \"篮子\"");
  expect_departure(chinese_story, "沙漠", "森林", 2, "wrong place: found \"森林\", expected \"沙漠\"");
  expect_departure(chinese_story, "小刚", "小明", 2, "wrong name: found \"小明\", expected \"小刚\"");
  expect_departure(chinese_story, "乌鸦", "乌龟", 2, "wrong companion: found \"乌龟\", expected \"乌鸦\"");
  expect_departure(chinese_story, "爸爸", "爷爷", 1,
                   "unexpected word: found \"爷\", expected \"妈妈\" or \"爸爸\"");
}

TEST(Fables, EndsThatComeEarlyOrLateAreRefused) {
  const std::string cut = english_story.substr(0, english_story.size() - 1);
  fables::CheckResult result = fables::check_story(cut);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.place, cut.size());
  EXPECT_EQ(result.message, "the text ends, expected \".\"");

  result = fables::check_story(english_story + " He");
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.place, english_story.size());
  EXPECT_NE(result.message.find("expected the end of the story"), std::string::npos) << result.message;

  EXPECT_FALSE(fables::check_story("").ok);
  EXPECT_FALSE(fables::check_story("Once upon a timer").ok);
  EXPECT_FALSE(fables::check_story(english_story + english_story).ok);
}

// ---- the tokenizer of the embedded model ----------------------------------------------------------------

class FablesTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(GLASSBOX_SOURCE_DIR) + "/examples/models/fables/tokenizer.model";
    ASSERT_TRUE(tokenizer_.Load(path).ok()) << path;
  }

  std::vector<std::string> pieces(const std::string& text) const {
    std::vector<std::string> result;
    EXPECT_TRUE(tokenizer_.Encode(text, &result).ok());
    return result;
  }

  // The text of a piece: U+2581 is a space.
  static std::string text_of(const std::string& piece) {
    const std::string space = "\xE2\x96\x81";
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const bool is_space = piece.compare(at, space.size(), space) == 0;
      text += is_space ? ' ' : piece[at];
      at += is_space ? space.size() : 1;
    }
    return text;
  }

  sentencepiece::SentencePieceProcessor tokenizer_;
};

TEST_F(FablesTokenizer, HasTheSizeAndTheIdsOfTheConfiguration) {
  EXPECT_EQ(tokenizer_.GetPieceSize(), 1000);
  EXPECT_EQ(tokenizer_.unk_id(), 0);
  EXPECT_EQ(tokenizer_.bos_id(), 1);
  EXPECT_EQ(tokenizer_.eos_id(), 2);
}

TEST_F(FablesTokenizer, TheModelFolderIsSmall) {
  std::uintmax_t bytes = 0;
  for (const std::filesystem::directory_entry& file :
       std::filesystem::directory_iterator(GLASSBOX_SOURCE_DIR "/examples/models/fables")) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  EXPECT_LE(bytes, 4u * 1024 * 1024);
}

// Every word of every story begins where a piece begins, so no piece spans two words.
TEST_F(FablesTokenizer, NoPieceSpansTwoWordsOfAStory) {
  for (const Language language : languages) {
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      const Story story = fables::make_story(language, seed, Split::any);
      std::set<std::size_t> piece_begins;
      std::size_t at = 0;
      for (const std::string& piece : pieces(story.text)) {
        piece_begins.insert(at);
        at += text_of(piece).size();
      }
      ASSERT_EQ(at, story.text.size() + 1);  // 1: the space in front that the tokenizer adds
      for (const fables::Word& word : story.words) {
        const std::size_t begin = word.begin == 0 && language == Language::english ? 0 : word.begin + 1;
        ASSERT_EQ(piece_begins.count(begin), 1u) << word.text << " in " << story.text;
      }
    }
  }
}

// Also by the list of pieces, whatever the text: a piece that is no single character is a part of one word.
TEST_F(FablesTokenizer, EveryPieceIsPartOfOneWord) {
  std::vector<std::string> words;
  for (const Language language : languages) {
    const std::vector<std::string> more = fables::vocabulary(language);
    words.insert(words.end(), more.begin(), more.end());
  }
  words.push_back(" Once");  // the tokenizer puts a space before a text
  for (int id = 0; id < tokenizer_.GetPieceSize(); ++id) {
    if (tokenizer_.IsControl(id) || tokenizer_.IsUnknown(id) || tokenizer_.IsByte(id)) continue;
    const std::string text = text_of(tokenizer_.IdToPiece(id));
    const bool ascii_character = text.size() == 1;
    const bool inside = std::any_of(words.begin(), words.end(), [&text](const std::string& word) {
      return word.find(text) != std::string::npos;
    });
    EXPECT_TRUE(ascii_character || inside) << tokenizer_.IdToPiece(id);
  }
}

TEST_F(FablesTokenizer, NamesPronounsThingsColoursAndPlacesAreSinglePieces) {
  for (const Language language : languages) {
    for (const Kind kind :
         {Kind::pronoun, Kind::name, Kind::thing, Kind::colour, Kind::place, Kind::animal, Kind::companion}) {
      for (const std::string& value : fables::values(language, kind)) {
        const std::string piece = (language == Language::english ? "\xE2\x96\x81" : "") + value;
        EXPECT_FALSE(tokenizer_.IsUnknown(tokenizer_.PieceToId(piece))) << piece;
      }
    }
  }
}

TEST_F(FablesTokenizer, ThoseWordsAreOnePieceInEveryStory) {
  for (const Language language : languages) {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      const Story story = fables::make_story(language, seed, Split::any);
      std::map<std::size_t, std::string> piece_at;
      std::size_t at = 0;
      for (const std::string& piece : pieces(story.text)) {
        piece_at[at] = text_of(piece);
        at += text_of(piece).size();
      }
      for (const fables::Word& word : story.words) {
        if (word.kind == Kind::plain) continue;
        ASSERT_EQ(piece_at[word.begin + 1], word.text) << story.text;
      }
    }
  }
}

TEST_F(FablesTokenizer, OtherTextGoesThroughBytes) {
  for (const std::string text :
       {"The weather in Z\xC3\xBCrich: 21.5 C", "\xE6\x98\x9F\xE6\x9C\x9F\xE4\xB8\x83", "  two  spaces ",
        "\xF0\x9F\x90\xA2 emoji", "tab\tand\nline"}) {
    std::vector<int> ids;
    std::string back;
    ASSERT_TRUE(tokenizer_.Encode(text, &ids).ok());
    EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer_.unk_id()), 0) << text;
    ASSERT_TRUE(tokenizer_.Decode(ids, &back).ok());
    EXPECT_EQ(back, text);
  }
}

TEST_F(FablesTokenizer, TheWordsBeforeDoNotChangeTheWordsOfAStory) {
  const std::vector<std::string> alone = pieces(chinese_story);
  const std::vector<std::string> after = pieces("Hello \xE4\xB8\x96\xE7\x95\x8C: " + chinese_story);
  ASSERT_GT(after.size(), alone.size());
  EXPECT_TRUE(std::equal(alone.begin() + 1, alone.end(), after.end() - std::ssize(alone) + 1));
}

}  // namespace fables_test
