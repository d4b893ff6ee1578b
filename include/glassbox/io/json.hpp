// JSON files with messages that name the file and the place. Only headers in io/ include nlohmann-json.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "glassbox/axis.hpp"
#include "glassbox/io/mapped_file.hpp"

namespace glassbox {

using Json = nlohmann::json;

inline constexpr std::size_t max_json_depth = 32;  // objects and arrays within each other; checkpoints need 4

// "line 3, column 7", both counted from 1, of a byte counted from 0.
inline std::string line_and_column(std::string_view text, std::size_t byte) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < byte && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n' ? 1u : 0u;
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// A value as it stands in the file, shortened so that it fits a message.
inline std::string json_text(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

// Refuses what JSON allows but a checkpoint never means: a key twice in one object, endless nesting. It goes
// through the text before the parser that makes values, since that one, given a callback, looks through a
// whole object again after each object inside it.
class JsonGuard final : public nlohmann::json_sax<Json> {
 public:
  explicit JsonGuard(std::string file) : file_(std::move(file)) {}

  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    throw_error<FormatError>(file_ + ": the key " + json_text(name) + " stands twice in one object");
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // the other parser says where
  }

 private:
  std::string file_;
  std::vector<std::set<std::string>>
      open_;  // the keys of each object or array that is open; arrays have none

  bool enter() {
    open_.emplace_back();
    if (open_.size() <= max_json_depth) return true;
    throw_error<FormatError>(file_ + ": JSON nested deeper than " + std::to_string(max_json_depth) +
                             " levels");
  }
  bool leave() {
    open_.pop_back();
    return true;
  }
};

// The value that `text`, found in `file` from byte `first_byte` on, stands for. Throws FormatError.
inline Json parse_json(const std::string& file, std::string_view text, std::uint64_t first_byte = 0) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    throw_error<FormatError>(file + ": begins with a UTF-8 byte order mark (bytes EF BB BF), which JSON " +
                             "does not allow: save the file as UTF-8 without it");
  }
  if (text.empty()) throw_error<FormatError>(file + ": is empty, expected JSON");
  // A zero byte would end the text for the parser, whatever comes behind it.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    throw_error<FormatError>(file + ": not valid JSON: a zero byte at byte " +
                             std::to_string(first_byte + zero) + " (" + line_and_column(text, zero) + ")");
  }
  try {
    JsonGuard guard(file);
    Json::sax_parse(text, &guard);
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // nlohmann counts from 1, and counts the end of the text as one byte more.
    const std::size_t byte = error.byte == 0 ? 0 : (std::min)(error.byte - 1, text.size());
    throw_error<FormatError>(file + ": not valid JSON at byte " + std::to_string(first_byte + byte) + " (" +
                             line_and_column(text, byte) + ")");
  } catch (const Json::exception&) {
    throw_error<FormatError>(file + ": not valid JSON: a number is out of range");
  }
}

inline Json read_json(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string advice = recognise_file(file);
  if (!advice.empty()) throw_error<FormatError>(file.name() + ": " + advice);
  return parse_json(file.name(), file.text(0, file.size()));
}

// One JSON object of a file, read key by key. Every wrong value is a ConfigError that names file and key;
// the keys that nobody asked for are known at the end.
class JsonObject {
 public:
  // `inside` is the key whose value this object is; empty for the file's own object.
  JsonObject(std::string file, Json object, std::string inside = "")
      : file_(std::move(file)), object_(std::move(object)), inside_(std::move(inside)) {
    if (object_.is_object()) return;
    throw_error<FormatError>(file_ + ": " + (inside_.empty() ? "" : "\"" + inside_ + "\" ") + "is " +
                             json_text(object_) + ", expected a JSON object");
  }

  const std::string& file() const { return file_; }

  // The value of a key; a null pointer where the key is absent.
  const Json* find(const std::string& key) {
    read_.insert(key);
    const Json::const_iterator found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  bool is_absent(const std::string& key) { return find(key) == nullptr; }
  bool is_null(const std::string& key) { return find(key) != nullptr && find(key)->is_null(); }
  bool is_absent_or_null(const std::string& key) { return is_absent(key) || is_null(key); }

  [[noreturn]] void throw_value(const std::string& key, const std::string& expected) {
    const std::string name = inside_.empty() ? key : inside_ + "." + key;
    if (is_absent(key)) {
      throw_error<ConfigError>(file_ + ": \"" + name + "\" is missing, expected " + expected);
    }
    throw_error<ConfigError>(file_ + ": \"" + name + "\" is " + json_text(*find(key)) + ", expected " +
                             expected);
  }

  Index whole_number(const std::string& key, Index smallest, Index largest) {
    const Json* value = find(key);
    const std::string expected =
        "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest);
    if (value == nullptr || !value->is_number_integer()) throw_value(key, expected);
    // An unsigned number past the signed range would wrap.
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{0x7FFFFFFFFFFFFFFF}) {
      throw_value(key, expected);
    }
    const Index number = value->get<std::int64_t>();
    if (number < smallest || number > largest) throw_value(key, expected);
    return number;
  }

  double number(const std::string& key, double smallest, const std::string& expected) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number()) throw_value(key, expected);
    const double found = value->get<double>();
    if (!std::isfinite(found) || found < smallest) throw_value(key, expected);
    return found;
  }

  bool boolean(const std::string& key) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_boolean()) throw_value(key, "true or false");
    return value->get<bool>();
  }

  std::string string(const std::string& key) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_string()) throw_value(key, "a string");
    return value->get<std::string>();
  }

  std::vector<std::string> unread_keys() const {
    std::vector<std::string> unread;
    for (Json::const_iterator item = object_.begin(); item != object_.end(); ++item) {
      if (read_.count(item.key()) == 0) unread.push_back(item.key());
    }
    return unread;
  }

  const Json& value() const { return object_; }

 private:
  std::string file_;
  Json object_;
  std::string inside_;
  std::set<std::string> read_;
};

}  // namespace glassbox
