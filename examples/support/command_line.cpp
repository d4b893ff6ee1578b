#include "command_line.hpp"

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

#include <algorithm>
#include <charconv>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "glassbox/utf8.hpp"

namespace examples {
namespace {

constexpr std::size_t help_column = 30;
constexpr std::size_t help_width = 100;

// CLI11 takes "[a,b]" for a list and "--name=" for an option whose value follows. Texts of our users may be
// either, so a mark that no terminal types goes before such values on their way in and is removed on their
// way out.
constexpr char mark = '\x01';

std::string protect(const std::string& argument) {
  const bool is_option = argument.size() > 2 && argument.compare(0, 2, "--") == 0;
  const std::size_t equals = is_option ? argument.find('=') : std::string::npos;
  const std::size_t begin = equals == std::string::npos ? 0 : equals + 1;
  const bool empty_value = begin == argument.size();
  const bool looks_like_list = !empty_value && argument[begin] == '[';
  const bool begins_with_mark = !empty_value && argument[begin] == mark;  // typed, or in a file's name
  if (!empty_value && !looks_like_list && !begins_with_mark) return argument;
  return argument.substr(0, begin) + mark + argument.substr(begin);
}

std::string without_marks(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != mark) result += c;
  }
  return result;
}

bool is_terminal_stderr() {
#ifdef _WIN32
  return _isatty(2) != 0;
#else
  return isatty(2) != 0;
#endif
}

std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

// The whole text as a number. std::from_chars knows no octal ("010" is ten) and does not depend on the
// locale.
template <typename Number>
Number parse_number(const std::string& text, const char* expected) {
  Number number{};
  const char* const begin = !text.empty() && text[0] == '+' ? text.data() + 1 : text.data();
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(begin, end, number);
  if (result.ec != std::errc() || result.ptr != end || begin == end) {
    throw CLI::ValidationError("expected " + std::string(expected) + ", got " + in_quotes(text));
  }
  return number;
}

constexpr const char* whole_number = "a whole number";
constexpr const char* natural_number = "a whole number from 0 to 18446744073709551615";
constexpr const char* real_number = "a number";

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Breaks lines between words, so that --help stays readable in a terminal of 100 columns.
std::string wrapped(const std::string& text) {
  std::string result;
  std::size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool full = column > 0 && help_column + column + 1 + word.size() > help_width;
    if (column > 0) result += full ? '\n' : ' ';
    column = full ? word.size() : column + (column > 0 ? 1 : 0) + word.size();
    result += word;
  }
  return result;
}

std::string with_default(const std::string& description, const std::string& default_text) {
  if (default_text.empty() || description.find("default") != std::string::npos) return wrapped(description);
  return wrapped(description + " (default: " + default_text + ")");
}

}  // namespace

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : program_(program), app_(std::make_unique<CLI::App>(description, program)) {
  app_->set_help_flag("-h,--help", "print this help and exit");
  app_->get_formatter()->column_width(help_column);
}

CommandLine::~CommandLine() = default;

void CommandLine::add(const std::string& names, const std::string& value_name, const std::string& description,
                      const std::string& default_text, bool repeatable,
                      const std::function<void(const std::string&)>& take) {
  const std::function<void(const std::vector<std::string>&)> take_all =
      [names, take](const std::vector<std::string>& values) {
        try {
          for (const std::string& value : values) take(value.starts_with(mark) ? value.substr(1) : value);
        } catch (const CLI::ValidationError& error) {
          throw CLI::ValidationError(names, error.what());
        }
      };
  CLI::Option* const option =
      app_->add_option_function(names, take_all, with_default(description, default_text));
  option->type_name(value_name)->expected(1)->allow_extra_args(false);
  if (repeatable) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void CommandLine::positional(const std::string& name, std::string& value, const std::string& description,
                             bool required) {
  add(name, "", description, value, false, [&value](const std::string& text) {
    if (text.empty()) throw CLI::ValidationError("expected a name, got \"\"");
    value = text;
  });
  if (required) app_->get_option(name)->required();
}

void CommandLine::option(const std::string& names, std::string& value, const std::string& value_name,
                         const std::string& description) {
  add(names, value_name, description, value.empty() ? "" : in_quotes(value), false,
      [&value, value_name](const std::string& text) {
        if (value_name == "FILE" && text.empty()) {
          throw CLI::ValidationError("expected the name of a file, got \"\"");
        }
        value = text;
      });
}

void CommandLine::option(const std::string& names, std::int64_t& value, const std::string& value_name,
                         const std::string& description) {
  add(names, value_name, description, std::to_string(value), false,
      [&value](const std::string& text) { value = parse_number<std::int64_t>(text, whole_number); });
}

void CommandLine::option(const std::string& names, std::uint64_t& value, const std::string& value_name,
                         const std::string& description) {
  add(names, value_name, description, std::to_string(value), false,
      [&value](const std::string& text) { value = parse_number<std::uint64_t>(text, natural_number); });
}

void CommandLine::option(const std::string& names, double& value, const std::string& value_name,
                         const std::string& description) {
  add(names, value_name, description, text_of(value), false,
      [&value](const std::string& text) { value = parse_number<double>(text, real_number); });
}

void CommandLine::option(const std::string& names, std::vector<std::int64_t>& value,
                         const std::string& value_name, const std::string& description) {
  std::string default_text;
  for (const std::int64_t number : value)
    default_text += (default_text.empty() ? "" : ",") + std::to_string(number);
  add(names, value_name, description, default_text, false, [&value](const std::string& text) {
    value.clear();
    std::size_t begin = 0;
    while (begin <= text.size()) {
      const std::size_t comma = (std::min)(text.find(',', begin), text.size());
      value.push_back(parse_number<std::int64_t>(text.substr(begin, comma - begin),
                                                 "whole numbers with commas between, such as 1,2,3"));
      begin = comma + 1;
    }
  });
}

void CommandLine::option(const std::string& names, std::vector<std::string>& value,
                         const std::string& value_name, const std::string& description) {
  // The first one given replaces the default, the others follow it.
  const std::shared_ptr<bool> replaced = std::make_shared<bool>(false);
  std::string default_text;
  for (const std::string& text : value) default_text += (default_text.empty() ? "" : " ") + in_quotes(text);
  add(names, value_name, description, default_text, true, [&value, replaced](const std::string& text) {
    if (!*replaced) value.clear();
    *replaced = true;
    value.push_back(text);
  });
}

void CommandLine::choice(const std::string& names, std::string& value,
                         const std::vector<std::string>& choices, const std::string& description) {
  std::string listed;
  for (const std::string& word : choices) listed += (listed.empty() ? "" : "|") + word;
  add(names, listed, description, value, false, [&value, choices, listed](const std::string& text) {
    for (const std::string& word : choices) {
      if (text != word) continue;
      value = text;
      return;
    }
    throw CLI::ValidationError("expected " + listed + ", got " + in_quotes(text));
  });
}

void CommandLine::flag(const std::string& names, bool& value, const std::string& description) {
  app_->add_flag(names, value, wrapped(description));
}

void CommandLine::footer(const std::string& text) { app_->footer(text); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  std::vector<std::string> reversed;  // CLI11 wants the last argument first
  for (int i = argc - 1; i >= 1; --i) reversed.push_back(protect(argv[i]));
  try {
    app_->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return 0;
  } catch (const CLI::ParseError& error) {
    return wrong_use(without_marks(error.what()));
  }
  return std::nullopt;
}

bool CommandLine::given(const std::string& name) const { return app_->get_option(name)->count() > 0; }

int CommandLine::wrong_use(const std::string& message) const {
  std::cerr << program_ << ": " << message << "\nTry: " << program_ << " --help\n";
  return 2;
}

std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const int length = glassbox::utf8_character_length(std::string_view(text).substr(begin));
    const std::string character = text.substr(begin, length > 0 ? static_cast<std::size_t>(length) : 1);
    const unsigned char first = static_cast<unsigned char>(character[0]);
    // U+0080 to U+009F are control characters too: C2 80 to C2 9F.
    const bool is_control = first < 0x20 || first == 0x7F ||
                            (first == 0xC2 && length == 2 && static_cast<unsigned char>(character[1]) < 0xA0);
    if (is_control || length <= 0) {
      for (const char byte : character) {
        char digits[8];
        std::snprintf(digits, sizeof digits, "\\x%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(byte)));
        result += digits;
      }
    } else {
      result += character;
    }
    begin += character.size();
  }
  return result;
}

Progress::Progress(const std::string& what, std::uint64_t total)
    : what_(what), total_(total), on_terminal_(is_terminal_stderr()) {}

Progress::~Progress() {
  if (shown_ >= 0) std::cerr << "\r" << std::string(what_.size() + 60, ' ') << "\r" << std::flush;
}

void Progress::step() {
  done_ += 1;
  if (!on_terminal_ || total_ < 2) return;
  const int percent = static_cast<int>(100 * done_ / total_);
  if (percent == shown_) return;
  shown_ = percent;
  const std::size_t width = static_cast<std::size_t>(percent * 30 / 100);
  std::cerr << "\r" << what_ << " [" << std::string(width, '#') << std::string(30 - width, ' ') << "] "
            << percent << " %" << std::flush;
}

StatusLine::StatusLine() : on_terminal_(is_terminal_stderr()) {}

StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!on_terminal_) return;
  const std::size_t blanks = width_ > text.size() ? width_ - text.size() : 0;
  std::cerr << "\r" << text << std::string(blanks, ' ') << std::flush;
  width_ = text.size();
}

void StatusLine::clear() {
  if (width_ > 0) std::cerr << "\r" << std::string(width_, ' ') << "\r" << std::flush;
  width_ = 0;
}

void flush_output() {
  if (!std::cout.flush().good()) throw std::runtime_error("standard output could not be written");
}

}  // namespace examples
