// Runs an example program as a user does, and compares what it prints with a committed text.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "io/temporary_folder.hpp"

namespace glassbox::test_support {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

inline std::string shell_quoted(const std::string& argument) {
  std::string quoted = "'";
  for (const char character : argument) quoted += character == '\'' ? "'\\''" : std::string(1, character);
  return quoted + "'";
}

// The folder of the example programs; empty: they were not built, or nobody says where.
inline std::string examples_folder() {
  const char* folder = std::getenv("GLASSBOX_EXAMPLES_DIR");
  return folder == nullptr ? "" : folder;
}

// `before` stands in front of the program: variables of the environment.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& before = "") {
  const TemporaryFolder folder;
  std::string command = before + " " + shell_quoted(examples_folder() + "/" + program);
  for (const std::string& argument : arguments) command += " " + shell_quoted(argument);
  command += " > " + shell_quoted(folder.file("out")) + " 2> " + shell_quoted(folder.file("err"));
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = read_bytes(folder.file("out"));
  outcome.err = read_bytes(folder.file("err"));
  return outcome;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Numbers with decimals taken out of a line, runs of spaces made one, and source lines without their number.
inline std::string skeleton(const std::string& line, std::vector<std::string>& numbers) {
  static const std::regex number("-?[0-9]+\\.[0-9]+");
  static const std::regex source_line("\\.hpp:[0-9]+");
  static const std::regex spaces(" +");
  const std::string without_source = std::regex_replace(line, source_line, ".hpp:N");
  for (std::sregex_iterator i(without_source.begin(), without_source.end(), number);
       i != std::sregex_iterator(); ++i)
    numbers.push_back(i->str());
  return std::regex_replace(std::regex_replace(without_source, number, "#.#"), spaces, " ");
}

// Whether two lines say the same. Compilers and processors add floats in different orders, so a number may
// differ by one in its last decimal; all else, and every line without such a difference to the last space,
// must be equal.
inline bool same_line(const std::string& found, const std::string& expected) {
  if (found == expected) return true;
  std::vector<std::string> found_numbers, expected_numbers;
  if (skeleton(found, found_numbers) != skeleton(expected, expected_numbers)) return false;
  bool numbers_differ = false;
  for (std::size_t i = 0; i < found_numbers.size(); ++i) {
    const std::size_t decimals = expected_numbers[i].size() - expected_numbers[i].find('.') - 1;
    if (found_numbers[i].size() - found_numbers[i].find('.') - 1 != decimals) return false;
    const double difference = std::fabs(std::stod(found_numbers[i]) - std::stod(expected_numbers[i]));
    if (difference > 1.01 * std::pow(10.0, -static_cast<double>(decimals))) return false;
    if (found_numbers[i] != expected_numbers[i]) numbers_differ = true;
  }
  const std::regex source_line(" *glassbox/[a-z_/]+\\.hpp:[0-9]+$");
  return numbers_differ ||
         std::regex_replace(found, source_line, "") == std::regex_replace(expected, source_line, "");
}

// "" if two texts say the same, else the first line where they do not.
inline std::string first_difference(const std::string& found, const std::string& expected) {
  const std::vector<std::string> found_lines = lines_of(found);
  const std::vector<std::string> expected_lines = lines_of(expected);
  for (std::size_t i = 0; i < (std::max)(found_lines.size(), expected_lines.size()); ++i) {
    const std::string found_line = i < found_lines.size() ? found_lines[i] : "(the end)";
    const std::string expected_line = i < expected_lines.size() ? expected_lines[i] : "(the end)";
    if (!same_line(found_line, expected_line)) {
      return "line " + std::to_string(i + 1) + "\n  found    " + found_line + "\n  expected " + expected_line;
    }
  }
  return "";
}

// What an example is to print; tests/regenerate.sh writes these files.
inline std::string expected_output(const std::string& name) {
  return read_bytes(std::filesystem::path(GLASSBOX_SOURCE_DIR) / "examples" / "expected" / (name + ".txt"));
}

}  // namespace glassbox::test_support
