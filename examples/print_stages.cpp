// You are here: text -> ids -> vectors -> ... -> next token: the whole way, as a page.
// Prints docs/shapes.md: what every stage is, from the table in glassbox/stage_table.hpp.
// Breakpoint: print_stage, once for each row of the table.
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "glassbox/stage_table.hpp"
#include "support/command_line.hpp"

using glassbox::StageRow;

void print_stage(const StageRow& row, std::ostream& page) {
  page << "\n**`" << row.name << "`** `" << row.axes << "`, from " << row.from << ", by `" << row.module
       << "`\n\n";
  page << "    " << row.formula << "\n\n" << row.why << "\n";
  if (*row.when != '\0') page << "Computed by: " << row.when << ".\n";
}

std::string stages_page() {
  std::ostringstream page;
  page << "# The shape of every stage\n\nMade by `print_stages` from `glassbox/stage_table.hpp`: change it "
          "there.\n\n"
          "Each row is a value on the way from text to token. Its name is the variable in the code, what "
          "passes\n"
          "`stage(name, layer, tensor)`, and what a debugger stops at: `break glassbox::stage if "
          "$_streq(name, "
          "\"scores\")`.\nAxes are in memory order, the last one is contiguous; `1` is an axis of one "
          "element that is "
          "shared by all along it.\n";
  const StageRow* previous = nullptr;
  for (const StageRow& first : glassbox::stage_table) {
    const bool group_begins = previous == nullptr || previous->group != first.group;
    const bool group_is_done =
        page.str().find("\n## " + std::string(stage_group_name(first.group))) != std::string::npos;
    previous = &first;
    if (!group_begins || group_is_done) continue;
    page << "\n## " << stage_group_name(first.group)
         << "\n\n| stage | axes | Transformers (Llama) | llama.cpp |\n|---|---|---|---|\n";
    for (const StageRow& row : glassbox::stage_table) {
      if (row.group != first.group) continue;
      page << "| `" << row.name << "` | `" << row.axes << "` | " << row.transformers << " | " << row.llama_cpp
           << " |\n";
    }
    for (const StageRow& row : glassbox::stage_table) {
      if (row.group == first.group) print_stage(row, page);
    }
  }
  return page.str();
}

int print_stages(int argc, char** argv) {
  std::string check;
  examples::CommandLine command_line("print_stages",
                                     "Prints the page docs/shapes.md: every stage, its axes, its "
                                     "formula, and why it has that shape.");
  command_line.option("--check", check, "FILE", "print nothing, but fail where FILE is not this page");
  command_line.footer("To write the page anew:\n  print_stages > docs/shapes.md");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (check.empty()) {
    std::cout << stages_page();
    return 0;
  }
  std::ifstream file(check);
  std::ostringstream found;
  found << file.rdbuf();
  if (file && found.str() == stages_page()) return 0;
  throw glassbox::FormatError(check +
                              " is not what the table gives; write it anew: print_stages > docs/shapes.md");
}

int main(int argc, char** argv) { return examples::run_main(argc, argv, print_stages); }
