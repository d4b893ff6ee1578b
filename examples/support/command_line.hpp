// CommandLine: the options of an example program, and run_main, which turns failures into exit codes.
//
//   int greet(int argc, char** argv) {
//     std::string name = "reader";
//     std::int64_t times = 1;
//     examples::CommandLine command_line("greet", "Says hello.");
//     command_line.positional("NAME", name, "whom to greet");
//     command_line.option("--times", times, "N", "how often");
//     command_line.footer("Example:\n  greet --times 2 Ada");
//     if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
//     if (times < 1) return command_line.wrong_use("--times must be at least 1");
//     for (std::int64_t i = 0; i < times; ++i) std::cout << "Hello, " << name << "!\n";
//     return 0;
//   }
//
//   int main(int argc, char** argv) { return examples::run_main(argc, argv, greet); }
//
// Every variable holds its default when it is registered and keeps it unless the user gives the option;
// --help shows the default. Exit codes: 0 done (also --help), 1 failed, 2 wrong use.
//
// CLI11 does the work, in command_line.cpp alone: it takes seconds to compile, so programs never include it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace examples {

class CommandLine {
 public:
  // The program's name and what it does: the first lines of --help.
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // An argument that is known by its place, such as MODEL. May be left out unless `required`.
  void positional(const std::string& name, std::string& value, const std::string& description,
                  bool required = false);

  // An option with one value: --name VALUE or --name=VALUE. `names` may hold a short form too ("-n,--name").
  // `value_name` stands for the value in --help: N, FILE, TEXT. The default is shown unless it is empty or
  // the description already speaks of one ("default: all layers").
  void option(const std::string& names, std::string& value, const std::string& value_name,
              const std::string& description);
  void option(const std::string& names, std::int64_t& value, const std::string& value_name,
              const std::string& description);
  void option(const std::string& names, std::uint64_t& value, const std::string& value_name,
              const std::string& description);
  void option(const std::string& names, double& value, const std::string& value_name,
              const std::string& description);

  // A list of whole numbers: --ids 1,2,3
  void option(const std::string& names, std::vector<std::int64_t>& value, const std::string& value_name,
              const std::string& description);
  // A list of texts: the option may be given again and again, once for each (--stop A --stop B).
  void option(const std::string& names, std::vector<std::string>& value, const std::string& value_name,
              const std::string& description);

  // An option whose value is one of a few words: --scalar float|double
  void choice(const std::string& names, std::string& value, const std::vector<std::string>& choices,
              const std::string& description);

  // An option without a value: false unless given.
  void flag(const std::string& names, bool& value, const std::string& description);

  // What --help says after the options, exactly as written: examples of use.
  void footer(const std::string& text);

  // Fills the variables and returns nothing; or returns the exit code to leave with: 0 after --help (printed
  // on standard output), 2 after wrong use (one message and a hint on standard error).
  std::optional<int> parse(int argc, char** argv);

  // After parse(): did the user give this option or positional, by one of its names ("--seed", "MODEL")?
  bool given(const std::string& name) const;

  // Prints what is wrong with the command line, as parse() does, and returns 2.
  int wrong_use(const std::string& message) const;

 private:
  void add(const std::string& names, const std::string& value_name, const std::string& description,
           const std::string& default_text, bool repeatable,
           const std::function<void(const std::string&)>& take);

  std::string program_;
  std::unique_ptr<CLI::App> app_;
};

// A text from a file as one line that a terminal only shows: control characters and bytes that are no UTF-8
// as \x and two digits.
std::string printable(const std::string& text);

// Throws std::runtime_error where standard output takes no more (a full disk): for programs that run long.
void flush_output();

// A bar on standard error while something long goes on; nothing where standard error is no terminal.
//   Progress progress("stories", 1000);
//   for (...) { ...; progress.step(); }
class Progress {
 public:
  Progress(const std::string& what, std::uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // takes the bar away
  void step();

 private:
  std::string what_;
  std::uint64_t total_, done_ = 0;
  int shown_ = -1;  // the percentage on the screen
  bool on_terminal_;
};

// One line on standard error that changes while something goes on; nothing where standard error is no
// terminal.
class StatusLine {
 public:
  StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine();  // takes the line away
  void show(const std::string& text);
  void clear();

 private:
  std::size_t width_ = 0;  // columns on the screen
  bool on_terminal_;
};

// Runs program(argc, argv) and returns its exit code, or 1 after an exception, with one message
// "NAME: what happened" on standard error. Output that could not be written (a full disk) is a failure too.
int run_main(int argc, char** argv, int (*program)(int argc, char** argv));

}  // namespace examples
