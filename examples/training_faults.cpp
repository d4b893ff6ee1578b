// training_faults: why the loss does not fall, or falls and the model is none the wiser. Each fault is
// trained beside the same training without it.
//
// You are here: texts -> [what can go wrong] -> batch -> loss -> step
//
// Worth a breakpoint: train_fables and train_questions, where a fault changes one line of a training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "glassbox/generate.hpp"
#include "glassbox/training/initialize.hpp"
#include "glassbox/training/learning_rate.hpp"
#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "support/memory.hpp"
#include "support/open_model.hpp"
#include "support/print_tensor.hpp"
#include "support/training_texts.hpp"

namespace {

using glassbox::CausalLM;
using glassbox::Index;
using glassbox::TokenId;
using glassbox::TrainingBatch;
using glassbox::TrainingExample;

struct Options {
  examples::ModelArguments model;
  std::string fault;
  std::int64_t steps = 0;
  std::int64_t threads = 2;
};

struct Fault {
  const char* name;
  const char* symptom;
  const char* cause;
  const char* remedy;
};

constexpr Fault faults[] = {
    {"no-shift", "the loss falls to nothing within a few steps, and the model writes nonsense",
     "labels not shifted: each position is asked for the token that it has just read",
     "shift_labels(): the label of position s is token s + 1"},
    {"shift-by-two", "the loss falls, but not far, and every other word is missing",
     "labels shifted twice, once by the program and once by the loss",
     "labels = input_ids; the loss shifts them, once"},
    {"rate-too-high", "the loss falls at first, then stays high",
     "the learning rate is too high: each step overshoots",
     "a tenth of it; warm-up; look at the gradient's length"},
    {"rate-too-low", "the loss falls, but hardly", "the learning rate is too low",
     "ten times as much, until the loss begins to jump, then half"},
    {"weights-too-small",
     "the loss falls and stays where it is, and nothing that stands farther back is recalled",
     "the first weights are so small that every head looks everywhere alike, and finds no reason not to",
     "initialize_model() without a deviation of one's own: 1 / sqrt(hidden_size)"},
    {"not-shuffled", "the loss is good, then jumps; what was learned first is forgotten",
     "the texts come sorted: first all of one kind, then all of the other",
     "shuffled_order() for every epoch"},
    {"truncated", "the loss is good, and the texts never come to an end or forget their beginning",
     "texts are cut to a length that none of them has: their ends are never seen",
     "read what batch_of() reports: texts truncated, ids cut off"},
    {"no-mask", "the loss is good, the answers are not",
     "prompts count in the loss, which is then mostly about writing prompts",
     "batch_of() with mask_prompts: labels are -100 on the prompt"},
    {"other-format", "good answers in training, wrong ones in use",
     "questions come in another form than in training: here the question before the fable, not after it",
     "use the same template in both places"},
};

// What a training came to.
struct Outcome {
  std::vector<double> losses;                              // of each step
  std::vector<std::pair<std::string, std::string>> after;  // what the model can do, measured
};

double mean_of(const std::vector<double>& losses, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += losses[i];
  return sum / static_cast<double>(end - begin);
}

// ---- fables from nothing --------------------------------------------------------------------------------
// Labels that are wrong by `places` once the loss has shifted them.
void move_labels(TrainingBatch& batch, Index places) {
  const glassbox::Tensor<TokenId> labels = batch.labels;
  for (Index b = 0; b < labels.dim(0); ++b) {
    for (Index s = 0; s < labels.dim(1); ++s) {
      const Index from = s + places;
      const bool inside = from >= 0 && from < labels.dim(1);
      batch.labels(b, s) = inside ? labels(b, from) : glassbox::ignore_index;
    }
  }
}

glassbox::ModelConfig small_config(glassbox::ModelConfig config) {
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 172;
  config.num_hidden_layers = 2;
  return config;
}

std::vector<TrainingExample> of_language(const std::vector<TrainingExample>& texts, std::size_t remainder) {
  std::vector<TrainingExample> chosen;  // English and Chinese come in turn
  for (std::size_t i = remainder; i < texts.size(); i += 2) chosen.push_back(texts[i]);
  return chosen;
}

Outcome train_fables(const Options& options, const std::string& fault) {
  const std::unique_ptr<glassbox::Tokenizer> tokenizer =
      examples::open_tokenizer(options.model, examples::open_config(options.model).config);
  const glassbox::ModelConfig config = small_config(examples::open_config(options.model).config);
  const Index steps = options.steps == 0 ? 200 : options.steps;
  constexpr Index texts_in_step = 16;
  const std::vector<TrainingExample> corpus = examples::fable_examples(
      *tokenizer, static_cast<std::uint64_t>(steps * texts_in_step), 1, fables::Split::train);
  const std::vector<TrainingExample> held_out =
      examples::fable_examples(*tokenizer, 32, 2, fables::Split::held_out);
  const std::vector<TrainingExample> recalled =
      examples::fable_examples(*tokenizer, 32, 2, fables::Split::held_out, examples::Learned::recalled_words);
  std::vector<TrainingExample> texts = corpus;
  if (fault == "not-shuffled") {
    texts = of_language(corpus, 0);
    for (const TrainingExample& text : of_language(corpus, 1)) texts.push_back(text);
  }

  CausalLM<float> causal_lm = glassbox::initialize_model<float>(config, 1);
  if (fault == "weights-too-small") causal_lm = glassbox::initialize_model<float>(config, 1, 0.01);
  std::vector<glassbox::Parameter<float>> parameters = glassbox::parameters_of(causal_lm);
  glassbox::AdamW<float> optimizer({}, parameters, glassbox::parameter_rules(parameters));
  glassbox::GradientWorkers<float> workers(causal_lm, options.threads);
  double rate = 3e-3;
  if (fault == "rate-too-high") rate *= 100;
  if (fault == "rate-too-low") rate /= 300;
  const glassbox::LearningRateSchedule schedule{rate, rate / 10, 20, std::max<Index>(steps, 20)};
  const Index longest = fault == "truncated" ? 16 : 256;
  glassbox::BatchReport report;
  Outcome outcome;
  examples::Progress progress(fault.empty() ? "without the fault" : fault, static_cast<std::uint64_t>(steps));
  for (Index step = 0; step < steps; ++step) {
    std::vector<TrainingExample> step_texts;
    for (Index i = 0; i < texts_in_step; ++i)
      step_texts.push_back(texts[static_cast<std::size_t>(step * texts_in_step + i)]);
    TrainingBatch batch = glassbox::batch_of(step_texts, tokenizer->eos_id(), longest, true, report);
    if (fault == "no-shift") move_labels(batch, -1);
    if (fault == "shift-by-two") move_labels(batch, 1);
    optimizer.config.learning_rate = schedule.at(step);
    outcome.losses.push_back(glassbox::training_step(causal_lm, {batch}, workers, optimizer, 1.0).loss);
    progress.step();
  }
  outcome.after = {
      {"loss on new English fables",
       examples::number_text(examples::mean_loss(causal_lm, of_language(held_out, 0), 128), 3)},
      {"loss on new Chinese fables",
       examples::number_text(examples::mean_loss(causal_lm, of_language(held_out, 1), 128), 3)},
      {"percent of the recalled words right",
       examples::number_text(examples::percent_right(causal_lm, recalled, 128), 3)},
      {"texts cut / ids cut off", std::to_string(report.truncated) + " / " + std::to_string(report.cut_ids)}};
  return outcome;
}

// ---- questions, from the embedded model -------------------------------------------------------------------
// The same words in another order: the question first, then the fable.
std::string asked_otherwise(const std::string& prompt) {
  const std::size_t question = prompt.rfind(" Wh");
  if (question == std::string::npos) return prompt;
  return prompt.substr(question + 1) + " " + prompt.substr(0, question);
}

std::string right_answers(const CausalLM<float>& causal_lm, const glassbox::Tokenizer& tokenizer,
                          bool otherwise) {
  constexpr std::uint64_t asked = 60;
  std::uint64_t right = 0;
  glassbox::RandomGenerator seeds(2);
  for (std::uint64_t i = 0; i < asked; ++i) {
    const examples::Question question =
        examples::make_question(fables::Language::english, seeds.next_bits(), fables::Split::held_out);
    std::vector<TokenId> expected = tokenizer.encode(question.response);
    expected.push_back(tokenizer.eos_id());
    glassbox::GenerationConfig config;
    config.eos_token_id = {tokenizer.eos_id()};
    config.max_new_tokens = static_cast<Index>(expected.size());
    const std::string prompt = otherwise ? asked_otherwise(question.prompt) : question.prompt;
    const std::vector<TokenId> ids = tokenizer.encode_with_special_tokens(prompt);
    if (glassbox::generate(causal_lm, ids, config).ids == expected) right += 1;
  }
  return std::to_string(right) + " of " + std::to_string(asked);
}

Outcome train_questions(const Options& options, const std::string& fault) {
  glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(options.model);
  CausalLM<float> causal_lm = glassbox::make_trainable(checkpoint.causal_lm);
  const std::unique_ptr<glassbox::Tokenizer> tokenizer =
      examples::open_tokenizer(options.model, causal_lm.config);
  const Index steps = options.steps == 0 ? 60 : options.steps;
  constexpr Index texts_in_step = 16;
  const std::vector<TrainingExample> all = examples::question_examples(
      *tokenizer, static_cast<std::uint64_t>(2 * steps * texts_in_step), 1, fables::Split::train);
  const std::vector<TrainingExample> texts = of_language(all, 0);

  std::vector<glassbox::Parameter<float>> parameters = glassbox::parameters_of(causal_lm);
  glassbox::AdamW<float> optimizer({}, parameters, glassbox::parameter_rules(parameters));
  glassbox::GradientWorkers<float> workers(causal_lm, options.threads);
  const glassbox::LearningRateSchedule schedule{1e-3, 1e-4, 10, std::max<Index>(steps, 10)};
  const bool mask_prompts = fault != "no-mask";
  glassbox::BatchReport report;
  Outcome outcome;
  examples::Progress progress(fault.empty() ? "without the fault" : fault, static_cast<std::uint64_t>(steps));
  for (Index step = 0; step < steps; ++step) {
    std::vector<TrainingExample> step_texts;
    for (Index i = 0; i < texts_in_step; ++i)
      step_texts.push_back(texts[static_cast<std::size_t>(step * texts_in_step + i)]);
    const TrainingBatch batch = glassbox::batch_of(
        step_texts, tokenizer->eos_id(), causal_lm.config.max_position_embeddings, mask_prompts, report);
    optimizer.config.learning_rate = schedule.at(step);
    outcome.losses.push_back(glassbox::training_step(causal_lm, {batch}, workers, optimizer, 1.0).loss);
    progress.step();
  }
  outcome.after = {
      {"right answers to new questions", right_answers(causal_lm, *tokenizer, fault == "other-format")}};
  return outcome;
}

// ---- the report -------------------------------------------------------------------------------------------
const Fault* find_fault(const std::string& name) {
  for (const Fault& fault : faults) {
    if (name == fault.name) return &fault;
  }
  return nullptr;
}

void print_outcomes(const Fault& fault, const Outcome& right, const Outcome& wrong) {
  std::cout << fault.name << "\n  symptom  " << fault.symptom << "\n  cause    " << fault.cause
            << "\n  remedy   " << fault.remedy << "\n\n";
  std::vector<std::vector<std::string>> rows{{"", "without the fault", "with it"}};
  const std::size_t steps = right.losses.size();
  const std::size_t tenth = std::max<std::size_t>(1, steps / 10);
  for (const std::size_t percent : {10u, 30u, 50u, 70u, 100u}) {
    const std::size_t end = std::max(tenth, steps * percent / 100);
    rows.push_back({"training loss, steps " + std::to_string(end - tenth + 1) + " to " + std::to_string(end),
                    examples::number_text(mean_of(right.losses, end - tenth, end), 3),
                    examples::number_text(mean_of(wrong.losses, end - tenth, end), 3)});
  }
  for (std::size_t i = 0; i < right.after.size(); ++i)
    rows.push_back({right.after[i].first, right.after[i].second, wrong.after[i].second});
  std::cout << examples::table_text(rows);
}

int training_faults(int argc, char** argv) {
  Options options;
  std::size_t column = 0;
  for (const Fault& fault : faults) column = std::max(column, std::string(fault.name).size() + 2);
  std::string names;
  for (const Fault& fault : faults)
    names += "  " + std::string(fault.name) + std::string(column - std::string(fault.name).size(), ' ') +
             fault.symptom + "\n";
  examples::CommandLine command_line(
      "training_faults",
      "Trains twice, without and with a fault, and shows what one sees of it: half a minute each.");
  command_line.positional("FAULT", options.fault, "which one, see below", true);
  command_line.option("--model", options.model.model, "FOLDER",
                      "whose tokenizer, and for questions weights, are used");
  command_line.option("--steps", options.steps, "N", "steps of each training; 0: enough to see it");
  command_line.option("--threads", options.threads, "N", "threads that share a batch");
  command_line.footer("Faults:\n" + names + "\nExample:\n  training_faults no-shift");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  const Fault* fault = find_fault(options.fault);
  if (fault == nullptr)
    return command_line.wrong_use("no fault is called \"" + options.fault + "\"; --help lists them");
  if (options.steps < 0) return command_line.wrong_use("--steps must be at least 1, or 0 for enough");
  if (options.threads < 1) return command_line.wrong_use("--threads must be at least 1");
  examples::keep_freed_memory();
  const bool questions = options.fault == "no-mask" || options.fault == "other-format";
  const Outcome right = questions ? train_questions(options, "") : train_fables(options, "");
  const Outcome wrong =
      questions ? train_questions(options, options.fault) : train_fables(options, options.fault);
  print_outcomes(*fault, right, wrong);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, training_faults); }
