// walk: one prompt through a model, every stage of one prefill and one decode step.
//
//   walk                                   the embedded model, "Once upon a time"
//   walk --stage attn_weights --full       one stage, whole
//   walk MODEL --prompt "Hello" --layer 3  another model, another layer
//
// Breakpoints worth setting (gdb --args walk):
//   break glassbox::stage if $_streq(name, "scores")    then `up`: the value, complete, in its own function
//   break glassbox::scaled_scores<float>                one step before
//   break glassbox::draw_token<float>                   the choice
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "glassbox/generate.hpp"
#include "support/command_line.hpp"
#include "support/open_model.hpp"
#include "support/stage_printer.hpp"

namespace {

using glassbox::Index;
using glassbox::TokenId;

constexpr const char* footer =
    R"(What you see: the pieces of the prompt become numbers, the numbers become vectors, the vectors go
through the layers, and the last one becomes a probability for every token of the vocabulary. For each
value on the way (a "stage"): its name, its axes, its statistics, the formula, why it has this shape,
what it was made from, a corner of its numbers, and the line of the source that made it. The same is
shown for the prefill (the whole prompt in one pass) and for one decode step (one token, the rest from
the KV cache), so that the two can be compared.

Examples:
  walk                                          the embedded model, every stage of layer 0
  walk | less                                   the same at leisure
  walk --layer 3                                layer 3 in full, the others in one line each
  walk --stage attn_weights --full              who looks at whom, in every head
  walk --stage scores                           scores of prefill and decode step: a square, then a row
  walk --prompt "从前，"                        a Chinese prompt
  walk stories260K.bin --tokenizer tok512.model a llama2.c model
  walk MODEL --ids 1,5,9                        ids instead of text, for a model without a tokenizer

To stand inside a stage, in a debugger:
  gdb --args walk
  (gdb) source include/glassbox/debugger/glassbox_gdb.py
  (gdb) break glassbox::stage if $_streq(name, "scores")
  (gdb) run
  (gdb) up
  (gdb) print scores

Exit codes: 0 done, 1 failed (also: a layer, stage or id that this model does not have), 2 wrong use.
)";

struct Arguments {
  examples::ModelArguments model;
  std::string prompt = "Once upon a time";
  std::vector<std::int64_t> ids;
  std::int64_t layer = 0;
  std::string stage;
  bool full = false;
};

std::string piece_of(const glassbox::Tokenizer* tokenizer, TokenId id) {
  return tokenizer == nullptr ? "#" + std::to_string(id) : tokenizer->piece(id);
}

std::vector<std::string> pieces_of(const glassbox::Tokenizer* tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(piece_of(tokenizer, id));
  return pieces;
}

// One line that says which numbers a model of this shape is about.
std::string model_text(const glassbox::ModelConfig& config) {
  return std::to_string(config.num_hidden_layers) + " layers, hidden " + std::to_string(config.hidden_size) +
         ", " + std::to_string(config.num_attention_heads) + " query heads and " +
         std::to_string(config.num_key_value_heads) + " key/value heads of " +
         std::to_string(config.head_dim) + ", intermediate " + std::to_string(config.intermediate_size) +
         ", vocabulary " + std::to_string(config.vocab_size);
}

struct FlowStep {
  const char* what;
  std::string shape;
  const char* meaning;
};

// The way through the model with this model's sizes, before the walk along it.
void print_flow(const glassbox::ModelConfig& config, Index tokens) {
  const std::string seq = std::to_string(tokens);
  const std::string stream = "[1, " + seq + ", " + std::to_string(config.hidden_size) + "]";
  const std::string wide = "[1, " + seq + ", " + std::to_string(config.intermediate_size) + "]";
  const std::string in_heads = "[1, " + std::to_string(config.num_attention_heads) + ", " + seq + ", ";
  const std::string layers = "-- " + std::to_string(config.num_hidden_layers) + " layers, in each:";
  const FlowStep steps[] = {
      {"text -> pieces -> input_ids", "[1, " + seq + "]", "numbers of entries of the vocabulary"},
      {"inputs_embeds", stream, "a vector for each token: the residual stream begins"},
      {layers.c_str(), "", ""},
      {"   input_layernorm", stream, "all vectors to the same size"},
      {"   query, key, value_states", in_heads + std::to_string(config.head_dim) + "]",
       "asked, offered, handed over"},
      {"   scores -> attn_weights", in_heads + seq + "]", "who looks at whom: only here do tokens meet"},
      {"   context -> attn_output", stream, "what they get from there, added to the stream"},
      {"   post_attention_layernorm", stream, "all vectors to the same size"},
      {"   gate, up -> gated", wide, "every token by itself, in a wider space"},
      {"   down_proj", stream, "and back, added to the stream"},
      {"norm", stream, "all vectors to the same size"},
      {"logits", "[1, 1, " + std::to_string(config.vocab_size) + "]",
       "a number for every token that may follow the last one"},
      {"next_token", "", "fed again, alone: the decode step"}};
  for (const FlowStep& step : steps) {
    const std::string what = examples::pad_right(step.what, 29);
    const bool bare = step.shape.empty() && step.meaning[0] == '\0';
    std::cout << "  " << (bare ? step.what : what + examples::pad_right(step.shape, 15) + step.meaning)
              << "\n";
  }
  std::cout << "\n";
}

void print_prompt(const Arguments& arguments, const std::vector<TokenId>& ids,
                  const std::vector<std::string>& pieces) {
  if (arguments.ids.empty())
    std::cout << "  text       \"" << examples::printable(arguments.prompt) << "\"\n";
  std::vector<std::string> names{"pieces"};
  std::vector<std::string> numbers{"input_ids"};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!arguments.full && ids.size() > 12 && i == 9) {
      names.push_back("..");
      numbers.push_back("..");
    }
    if (!arguments.full && ids.size() > 12 && i >= 9 && i + 2 < ids.size()) continue;
    names.push_back(examples::label_text(pieces[i]));
    numbers.push_back(std::to_string(ids[i]));
  }
  std::cout << examples::table_text({names, numbers});
}

// The likeliest next tokens, with the probabilities that softmax makes of the logits.
void print_top_tokens(const glassbox::Tensor<double>& logits, const glassbox::Tokenizer* tokenizer) {
  const glassbox::Tensor<double> probabilities = glassbox::softmax(logits);
  std::vector<TokenId> ids;
  for (Index id = 0; id < logits.cols(); ++id) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&logits](TokenId a, TokenId b) { return logits(a) > logits(b); });
  std::vector<std::vector<std::string>> rows{{"piece", "id", "logit", "probability", ""}};
  for (std::size_t rank = 0; rank < (std::min)(ids.size(), std::size_t{5}); ++rank) {
    const TokenId id = ids[rank];
    const double probability = probabilities(id);
    const std::string bar(static_cast<std::size_t>(std::lround(probability * 40)), '#');
    rows.push_back({examples::label_text(piece_of(tokenizer, id)), std::to_string(id),
                    examples::number_text(logits(id), 3), examples::number_text(probability, 3),
                    examples::pad_right(bar, 40)});
  }
  std::cout << "The likeliest next tokens (softmax of the logits):\n" << examples::table_text(rows) << "\n";
}

void print_introduction(const Arguments& arguments, const glassbox::ModelConfig& config,
                        const std::vector<TokenId>& ids, const std::vector<std::string>& pieces,
                        const examples::StagePrinter& printer) {
  std::cout << printer.heading("The model and the prompt") << "\n\n";
  std::cout << examples::wrapped_text(model_text(config), "  ");
  print_prompt(arguments, ids, pieces);
  std::cout << "\n" << printer.heading("The way, with the sizes of this model and prompt") << "\n\n";
  print_flow(config, static_cast<Index>(ids.size()));
  std::cout << examples::wrapped_text(
                   "Layer " + std::to_string(arguments.layer) +
                       " is shown in full, the other layers in a line each. The axes seq and query count the "
                       "tokens fed now, the axis key all tokens so far; each number has its token beside it.",
                   "  ")
            << "\n";
}

[[noreturn]] void throw_not_passed(const std::string& stage) {
  const std::string when = glassbox::stage_row(stage).when;
  glassbox::throw_error<glassbox::UsageError>("--stage " + stage + ": no such value came by" +
                                              (when.empty() ? "" : "; it exists in: " + when));
}

// Prefill and decode step side by side: the same work for each token, but for one token instead of all.
void print_comparison(Index tokens, bool ended, const glassbox::ModelConfig& config) {
  const Index numbers_per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
  const Index bytes_per_token = numbers_per_token * static_cast<Index>(sizeof(float));
  const std::string before = std::to_string(tokens);
  const std::string after = std::to_string(tokens + 1);
  const std::string square = before + " x " + before;
  std::vector<std::vector<std::string>> rows{
      {"", "prefill", "decode step 1"},
      {"tokens fed", before, "1"},
      {"keys and values computed", before, "1"},
      {"keys and values in the cache", "0 -> " + before, before + " -> " + after},
      {"bytes in the cache", examples::bytes_text(tokens * bytes_per_token),
       examples::bytes_text((tokens + 1) * bytes_per_token)},
      {"scores in each head (query x key)", square, "1 x " + after}};
  if (ended) {
    for (std::vector<std::string>& row : rows) row.pop_back();
  }
  std::cout << examples::table_text(rows) << "\n";
}

void print_text(const glassbox::GenerationResult& result, const glassbox::Tokenizer* tokenizer,
                const std::vector<std::string>& pieces, const std::string& newest, bool ended) {
  if (tokenizer != nullptr) {
    std::cout << "The text so far: " << examples::printable(result.prompt_text) << "|"
              << examples::printable(result.text) << "\n";
  } else {
    std::cout << "The ids so far:";
    for (const std::string& piece : pieces) std::cout << " " << piece;
    std::cout << (ended ? "" : " " + newest) << "\n";
  }
  if (result.stop_reason == glassbox::StopReason::eos) {
    std::cout << "The model has ended the text" << (ended ? ", so there is no decode step" : "") << ".\n";
  } else if (result.stop_reason == glassbox::StopReason::context) {
    std::cout << "The context is full" << (ended ? ", so there is no decode step" : "") << ".\n";
  }
  if (result.stop_reason != glassbox::StopReason::max_new_tokens) return;
  std::cout << "The next step feeds " << examples::in_quotes(newest)
            << "; `generate` goes on so until the end.\n";
}

// The stages pass while the generator works; the printer sees them through the hook.
void take_walk(const Arguments& arguments, const glassbox::Checkpoint<float>& checkpoint,
               const glassbox::Tokenizer* tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> pieces = pieces_of(tokenizer, ids);

  examples::StagePrinterOptions options;
  options.layer = arguments.layer;
  options.stage = arguments.stage;
  options.full = arguments.full;
  options.colours = examples::colours_wanted();
  options.piece = [tokenizer](TokenId id) { return piece_of(tokenizer, id); };
  examples::StagePrinter printer(options);
  const bool everything = arguments.stage.empty();
  if (arguments.stage == "text" || arguments.stage == "pieces") {  // no tensors: they pass no stage()
    const glassbox::StageRow& row = glassbox::stage_row(arguments.stage);
    std::cout << row.name << "  " << row.axes << "\n" << examples::wrapped_text(row.why, "  ");
    print_prompt(arguments, ids, pieces);
    return;
  }
  if (everything) print_introduction(arguments, checkpoint.causal_lm.config, ids, pieces, printer);

  glassbox::GenerationConfig config;  // greedy, so that every walk is the same
  config.max_new_tokens = 2;
  config.eos_token_id = checkpoint.generation_config.eos_token_id;
  glassbox::Generator generator(checkpoint.causal_lm, config, tokenizer);
  glassbox::ScopedStageHook hook([&printer](glassbox::StageRecord& record) { printer.show(record); });

  printer.begin_pass(examples::Pass::prefill,
                     "PREFILL: " + std::to_string(ids.size()) + " tokens in one pass, the cache is empty",
                     pieces, static_cast<Index>(ids.size()));
  generator.prefill(ids);
  generator.next();
  if (everything) print_top_tokens(printer.last_logits(), tokenizer);

  const std::string newest = piece_of(tokenizer, generator.token());
  const bool ended = generator.result().stop_reason != glassbox::StopReason::none;
  pieces.push_back(newest);
  if (!ended) {
    printer.begin_pass(
        examples::Pass::decode,
        "DECODE STEP 1: the token " + examples::in_quotes(newest) + " alone, the others are cached", pieces,
        1);
    generator.next();
    if (everything) print_top_tokens(printer.last_logits(), tokenizer);
  }
  if (printer.shown() == 0) throw_not_passed(arguments.stage);
  if (!everything) return;
  std::cout << printer.heading("What the two passes did") << "\n\n";
  print_comparison(static_cast<Index>(ids.size()), ended, checkpoint.causal_lm.config);
  print_text(generator.result(), tokenizer, pieces, piece_of(tokenizer, generator.token()), ended);
}

// The ids that the user gave, before anything is printed.
void check_ids(const std::vector<std::int64_t>& ids, Index vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    glassbox::throw_error<glassbox::UsageError>(
        "--ids: id " + std::to_string(ids[i]) + " at place " + std::to_string(i + 1) + " is not in 0.." +
        std::to_string(vocab_size - 1) + " (the model has a vocabulary of " + std::to_string(vocab_size) +
        ")");
  }
}

// Ids can be walked without a tokenizer: one that was not asked for may be absent, or of a kind not read.
std::unique_ptr<glassbox::Tokenizer> tokenizer_for_ids(const examples::ModelArguments& arguments,
                                                       const glassbox::ModelConfig& config) {
  if (!arguments.tokenizer.empty()) return examples::open_tokenizer(arguments, config);
  try {
    return examples::open_tokenizer(arguments, config);
  } catch (const glassbox::Error& error) {
    if (glassbox::path_exists(examples::tokenizer_file(arguments)))
      std::cerr << "note: ids without their pieces: " << examples::printable(error.what()) << "\n";
    return nullptr;
  }
}

int walk(int argc, char** argv) {
  Arguments arguments;
  examples::CommandLine command_line(
      "walk", "Shows every stage of a prompt's way through a model: one prefill and one decode step.");
  arguments.model.add_to(command_line);
  command_line.option("--prompt", arguments.prompt, "TEXT", "what the model shall continue");
  command_line.option("--ids", arguments.ids, "LIST",
                      "token ids instead of --prompt, fed as they are: 1,5,9");
  command_line.option("--layer", arguments.layer, "N", "the layer to show in full");
  command_line.option("--stage", arguments.stage, "NAME", "only this stage, by the name that walk shows");
  command_line.flag("--full", arguments.full, "whole tensors instead of their corners");
  command_line.footer(footer);
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (command_line.given("--stage") && arguments.stage.empty())
    return command_line.wrong_use("--stage: the name is empty");
  if (!arguments.stage.empty() && glassbox::find_stage(arguments.stage) == nullptr)
    return command_line.wrong_use("--stage: " + examples::unknown_stage_text(arguments.stage));
  if (command_line.given("--ids") && command_line.given("--prompt"))
    return command_line.wrong_use("--ids and --prompt: give one of them");
  if (arguments.layer < 0)
    return command_line.wrong_use("--layer " + std::to_string(arguments.layer) +
                                  ": layers are counted from 0");

  const glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(arguments.model);
  const glassbox::ModelConfig& config = checkpoint.causal_lm.config;
  if (arguments.layer >= config.num_hidden_layers) {
    glassbox::throw_error<glassbox::UsageError>("--layer " + std::to_string(arguments.layer) +
                                                ": the model has layers 0 to " +
                                                std::to_string(config.num_hidden_layers - 1));
  }
  if (command_line.given("--ids")) {
    check_ids(arguments.ids, config.vocab_size);
    take_walk(arguments, checkpoint, tokenizer_for_ids(arguments.model, config).get(), arguments.ids);
    examples::print_notes(checkpoint.report);
    return 0;
  }
  const std::unique_ptr<glassbox::Tokenizer> tokenizer = examples::open_tokenizer(arguments.model, config);
  take_walk(arguments, checkpoint, tokenizer.get(), tokenizer->encode_with_special_tokens(arguments.prompt));
  examples::print_notes(arguments.model, checkpoint.report, config, *tokenizer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, walk); }
