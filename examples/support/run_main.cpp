// run_main of command_line.hpp. Apart from that file for the debugger: it has debug information, so that
// `step` in main arrives in the program, and no CLI11.
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "support/command_line.hpp"

namespace examples {

int run_main(int argc, char** argv, int (*program)(int argc, char** argv)) {
  const std::string path = argc > 0 ? argv[0] : "program";
  const std::string name = path.substr(path.find_last_of("/\\") + 1);
  try {
    const int exit_code = program(argc, argv);
    if (exit_code == 0) flush_output();
    return exit_code;
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": out of memory\n";
  } catch (const std::exception& error) {
    std::string message = printable(error.what());
    if (message.size() > 2000)
      message = message.substr(0, 2000) + "...";  // a file may have names of megabytes
    std::cerr << name << ": " << message << "\n";
  } catch (...) {
    std::cerr << name << ": an exception of unknown type\n";
  }
  return 1;
}

}  // namespace examples
