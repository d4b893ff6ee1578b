// parse_json, read_json, JsonObject.
// Faults that must turn this red: accept a key twice; no depth limit; count bytes from 1; skip the byte order
// mark; wrap an unsigned number beyond the signed range; take 1.0 or "1" for a whole number; true for a
// number; compare with < in place of <=; do not remember that a key was read.
#include "glassbox/io/json.hpp"

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_json_test {

using test_support::TemporaryFolder;
using test_support::throws;

TEST(ParseJson, Values) {
  const Json json = parse_json("f", "{\"a\": [1, 2.5, \"x\"], \"b\": null}");
  EXPECT_EQ(json["a"][1], 2.5);
  EXPECT_TRUE(json["b"].is_null());
}

TEST(ParseJson, ErrorsNameFileAndByte) {
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", ""); }, "c.json: is empty, expected JSON"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{\"a\": }"); },
                                  "c.json: not valid JSON at byte 6 (line 1, column 7)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{\n \"a\": 1,\n ,}"); },
                                  "c.json: not valid JSON at byte 12 (line 3, column 2)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{\"a\": 1"); },
                                  "c.json: not valid JSON at byte 7 (line 1, column 8)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{}x", 8); },
                                  "c.json: not valid JSON at byte 10 (line 1, column 3)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "[\"\xff\"]"); },
                                  "c.json: not valid JSON at byte 2 (line 1, column 3)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "[1e999]"); },
                                  "c.json: not valid JSON: a number is out of range"));
}

TEST(ParseJson, ByteOrderMark) {
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "\xEF\xBB\xBF{}"); },
                                  "c.json: begins with a UTF-8 byte order mark (bytes EF BB BF), which JSON "
                                  "does not allow: save the file as UTF-8 without it"));
}

TEST(ParseJson, KeyTwiceInOneObject) {
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{\"a\": 1, \"b\": {}, \"a\": 2}"); },
                                  "c.json: the key \"a\" stands twice in one object"));
  EXPECT_NO_THROW(parse_json("c.json", "{\"a\": {\"a\": 1}, \"b\": [{\"a\": 1}, {\"a\": 2}]}"));
}

TEST(ParseJson, KeysOfArraysInObjects) {
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", "{\"x\": [{\"a\": 1, \"a\": 1}]}"); },
                                  "c.json: the key \"a\" stands twice in one object"));
}

TEST(ParseJson, Nesting) {
  const std::string message = "c.json: JSON nested deeper than 32 levels";
  EXPECT_NO_THROW(parse_json("c.json", std::string(32, '[') + std::string(32, ']')));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", std::string(33, '[') + std::string(33, ']')); },
                                  message));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("c.json", std::string(1000000, '[')); }, message));
}

TEST(ReadJson, Files) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_json(folder.write("a.json", "{\"x\": 3}"))["x"], 3);
  const std::string missing = folder.file("missing.json");
  EXPECT_TRUE(throws<FormatError>([&] { read_json(missing); }, missing + ": no such file"));
  const std::string pointer = folder.write("b.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_TRUE(throws<FormatError>(
      [&] { read_json(pointer); },
      pointer + ": this is a Git LFS pointer, not the file itself: run `git lfs pull` or download the file"));
}

// A parser of C strings ends at a zero byte, and what stands behind it would be accepted unread.
TEST(ParseJson, ZeroBytes) {
  const std::string text = std::string("{\n}\0{\"x\": 1}", 12);
  EXPECT_TRUE(throws<FormatError>([&] { parse_json("a.json", text); },
                                  "a.json: not valid JSON: a zero byte at byte 3 (line 2, column 2)"));
  EXPECT_TRUE(throws<FormatError>([] { parse_json("a.json", std::string_view("{}\0", 3), 8); },
                                  "a.json: not valid JSON: a zero byte at byte 10 (line 1, column 3)"));
}

TEST(JsonText, LongValuesAreShortened) {
  EXPECT_EQ(json_text(Json("ab")), "\"ab\"");
  EXPECT_EQ(json_text(Json(std::string(78, 'x'))), "\"" + std::string(78, 'x') + "\"");
  EXPECT_EQ(json_text(Json(std::string(79, 'x'))), "\"" + std::string(76, 'x') + "...");
}

JsonObject object_of(const std::string& text) { return JsonObject("c.json", parse_json("c.json", text)); }

TEST(JsonObjectTest, MustBeAnObject) {
  EXPECT_TRUE(throws<FormatError>([] { object_of("[]"); }, "c.json: is [], expected a JSON object"));
  EXPECT_TRUE(throws<FormatError>([] { JsonObject("c.json", Json(3), "rope_scaling"); },
                                  "c.json: \"rope_scaling\" is 3, expected a JSON object"));
}

TEST(JsonObjectTest, WholeNumbers) {
  JsonObject object = object_of(
      "{\"a\": 5, \"text\": \"64\", \"real\": 64.0, \"yes\": true, \"negative\": -1, \"huge\": "
      "18446744073709551615,"
      " \"beyond\": 99999999999999999999, \"null\": null}");
  EXPECT_EQ(object.whole_number("a", 5, 5), 5);
  EXPECT_EQ(object.whole_number("negative", -1, 5), -1);
  const std::string expected = ", expected a whole number from 1 to 2147483647";
  const std::pair<std::string, std::string> wrong[] = {{"text", "\"text\" is \"64\""},
                                                       {"real", "\"real\" is 64.0"},
                                                       {"yes", "\"yes\" is true"},
                                                       {"negative", "\"negative\" is -1"},
                                                       {"huge", "\"huge\" is 18446744073709551615"},
                                                       {"beyond", "\"beyond\" is 1e+20"},
                                                       {"null", "\"null\" is null"},
                                                       {"absent", "\"absent\" is missing"}};
  for (const std::pair<std::string, std::string>& item : wrong) {
    EXPECT_TRUE(throws<ConfigError>([&] { object.whole_number(item.first, 1, 2147483647); },
                                    "c.json: " + item.second + expected));
  }
  EXPECT_TRUE(throws<ConfigError>([&] { object.whole_number("a", 6, 9); },
                                  "c.json: \"a\" is 5, expected a whole number from 6 to 9"));
  EXPECT_TRUE(throws<ConfigError>([&] { object.whole_number("a", 1, 4); },
                                  "c.json: \"a\" is 5, expected a whole number from 1 to 4"));
}

TEST(JsonObjectTest, OtherTypes) {
  JsonObject object = object_of("{\"n\": 1e-5, \"i\": 3, \"b\": true, \"s\": \"x\", \"zero\": 0}");
  EXPECT_EQ(object.number("n", 0, "a number"), 1e-5);
  EXPECT_EQ(object.number("i", 0, "a number"), 3.0);
  EXPECT_EQ(object.number("zero", 0, "a number"), 0.0);
  EXPECT_TRUE(object.boolean("b"));
  EXPECT_EQ(object.string("s"), "x");
  EXPECT_TRUE(throws<ConfigError>([&] { object.number("s", 0, "a number >= 0"); },
                                  "c.json: \"s\" is \"x\", expected a number >= 0"));
  EXPECT_TRUE(throws<ConfigError>([&] { object.number("b", 0, "a number >= 0"); },
                                  "c.json: \"b\" is true, expected a number >= 0"));
  EXPECT_TRUE(throws<ConfigError>([&] { object.number("i", 4, "a number >= 4"); },
                                  "c.json: \"i\" is 3, expected a number >= 4"));
  EXPECT_TRUE(
      throws<ConfigError>([&] { object.boolean("zero"); }, "c.json: \"zero\" is 0, expected true or false"));
  EXPECT_TRUE(throws<ConfigError>([&] { object.string("i"); }, "c.json: \"i\" is 3, expected a string"));
}

TEST(JsonObjectTest, KnowsWhatWasNotRead) {
  JsonObject object = object_of("{\"a\": 1, \"b\": null, \"c\": 3}");
  EXPECT_TRUE(object.is_absent_or_null("b"));
  EXPECT_TRUE(object.is_null("b"));
  EXPECT_FALSE(object.is_absent("b"));
  EXPECT_TRUE(object.is_absent("d"));
  EXPECT_EQ(object.unread_keys(), (std::vector<std::string>{"a", "c"}));
  JsonObject inner("c.json", parse_json("c.json", "{\"t\": 1}"), "rope");
  EXPECT_TRUE(throws<ConfigError>([&] { inner.string("t"); }, "c.json: \"rope.t\" is 1, expected a string"));
}

}  // namespace io_json_test
}  // namespace glassbox
