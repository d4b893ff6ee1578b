// StagePrinter: prints every value that passes glassbox::stage() with what the stage table says about it. The
// heart of walk; a debugger's log can use it too.
//
//   examples::StagePrinter printer(options);
//   glassbox::ScopedStageHook hook([&printer](glassbox::StageRecord& record) { printer.show(record); });
//   printer.begin_pass(examples::Pass::prefill, tokens);
//   causal_lm.forward(...);
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "glassbox/stage.hpp"
#include "glassbox/stage_table.hpp"
#include "support/print_tensor.hpp"

namespace examples {

enum class Pass { prefill, decode };

struct StagePrinterOptions {
  glassbox::Index layer = 0;                            // shown in full; of the others one line each
  std::string stage;                                    // only this one; empty: all
  bool full = false;                                    // whole tensors instead of corners
  bool colours = false;                                 // colours_wanted()
  std::function<std::string(glassbox::TokenId)> piece;  // how an id of the vocabulary reads
};

// Whether standard output is a terminal that shows colours and the user has not set NO_COLOR
// (https://no-color.org).
bool colours_wanted();

// Text cut into lines of at most `width` columns at spaces, each behind `indent`.
std::string wrapped_text(const std::string& text, const std::string& indent, int width = 100);

// "no stage is called \"scorse\"; near it is scores". Stages that this version never has are not near.
std::string unknown_stage_text(const std::string& name);

class StagePrinter {
 public:
  explicit StagePrinter(const StagePrinterOptions& options) : options_(options) {}

  // What follows belongs to this forward pass and comes under this heading. `tokens`: all pieces so far, the
  // last `fed` of them fed now.
  void begin_pass(Pass pass, const std::string& heading, const std::vector<std::string>& tokens,
                  glassbox::Index fed);
  void show(glassbox::StageRecord& record);

  // How many stages were shown: 0 after a whole walk means that the wanted one does not exist here.
  glassbox::Index shown() const { return shown_; }
  // The logits of the last position that passed last, [vocab].
  const glassbox::Tensor<double>& last_logits() const { return last_logits_; }

  std::string heading(const std::string& text) const;   // a line across the page
  std::string emphasis(const std::string& text) const;  // bold on a terminal
  std::string quiet(const std::string& text) const;     // dim on a terminal

 private:
  // What is remembered of a stage after it has passed.
  struct Seen {
    std::vector<glassbox::Axis> axes;
    std::vector<double> values;  // of the stages that choose a token only: they are compared
  };

  StagePrinterOptions options_;
  Pass pass_ = Pass::prefill;
  std::string heading_;  // not printed yet
  std::vector<std::string> tokens_;
  glassbox::Index fed_ = 0;
  std::map<std::string, Seen> prefill_, this_pass_;  // of the layer shown in full and outside the layers
  std::string previous_choosing_;                    // the stage before this one among those that choose
  double residual_rms_ = 0;
  std::string most_watched_;
  bool summarising_ = false;  // the last line printed was that of a layer not shown in full
  glassbox::Index shown_ = 0;
  glassbox::Tensor<double> last_logits_;

  void print_pending_heading();
  void remember(const std::string& name, const AnyTensor& tensor, const glassbox::StageRow& row);
  void print_section(const std::string& name, glassbox::Index layer) const;
  void print_stage(const glassbox::StageRecord& record, const AnyTensor& tensor,
                   const glassbox::StageRow& row) const;
  void print_head(const glassbox::StageRecord& record, const AnyTensor& tensor) const;
  void print_sources(const glassbox::StageRow& row) const;
  void print_difference(const std::string& name, const AnyTensor& tensor) const;
  void print_values(const AnyTensor& tensor) const;
  void print_largest(const AnyTensor& tensor) const;
  bool is_unchanged(const std::string& name, const AnyTensor& tensor) const;
  bool one_candidate_left() const;
  void summarise_layer(const glassbox::StageRecord& record, const AnyTensor& tensor);
};

}  // namespace examples
