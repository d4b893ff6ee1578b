// train: a model that learns, from nothing or from where another one stands.
//
// You are here: texts -> batch -> logits -> [loss] -> [gradients] -> [step] -> weights
//
// Breakpoints worth setting (with --threads 1 all happens in the main thread):
//   break glassbox::cross_entropy<float>                which positions count
//   break glassbox::attention_backward<float>           `glass next d_scores`
//   break glassbox::AdamW<float>::step
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "glassbox/generate.hpp"
#include "glassbox/io/save_checkpoint.hpp"
#include "glassbox/io/training_state.hpp"
#include "glassbox/training/initialize.hpp"
#include "glassbox/training/learning_rate.hpp"
#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "support/loss_curve.hpp"
#include "support/memory.hpp"
#include "support/open_model.hpp"
#include "support/training_texts.hpp"

namespace {

using glassbox::CausalLM;
using glassbox::Index;
using glassbox::TokenId;
using glassbox::TrainingBatch;
using glassbox::TrainingExample;

struct Options {
  examples::ModelArguments model;
  std::string task = "fables";
  std::string text;
  std::string output;
  bool fine_tune = false;
  bool resume = false;
  bool no_mask = false;
  bool recompute = false;
  bool table = false;
  std::vector<std::string> freeze;
  std::int64_t steps = 4000;
  std::int64_t batch = 16;
  std::int64_t accumulate = 1;
  std::int64_t threads = 2;
  std::int64_t block = 0;
  std::int64_t max_length = 0;
  std::int64_t warmup = 100;
  std::int64_t every = 500;
  std::int64_t print = 100;
  std::int64_t stop_after = 0;
  std::uint64_t corpus = 40000;
  std::uint64_t held_out = 64;
  std::uint64_t seed = 1;
  double learning_rate = 3e-3;
  double weight_decay = 0.1;
  double clip = 1.0;
};

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

// One line of loss.tsv.
struct HistoryLine {
  Index step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
};

// Everything that a training consists of.
struct Training {
  CausalLM<float> causal_lm;
  std::unique_ptr<glassbox::Tokenizer> tokenizer;
  glassbox::GenerationConfig generation_config;
  std::vector<TrainingExample> learned;            // what it learns from
  std::vector<TrainingExample> held_out;           // what it is asked about now and then
  std::vector<TrainingExample> held_out_recalled;  // the same fables, with labels on recalled words only
  std::unique_ptr<glassbox::GradientWorkers<float>> workers;
  std::vector<glassbox::ParameterRule> rules;  // who is decayed, who is frozen
  glassbox::AdamW<float> optimizer;
  glassbox::LearningRateSchedule schedule;
  std::vector<HistoryLine> history;
  std::vector<Index> order;  // of the texts in this epoch
  Index epoch = -1;
  Index step = 0;  // steps done
};

std::filesystem::path state_file(const Options& options) {
  return std::filesystem::path(options.output) / "training_state.safetensors";
}

// ---- data -----------------------------------------------------------------------------------------------
constexpr std::uint64_t held_out_seed = 2;

void make_texts(const Options& options, Training& training) {
  const glassbox::Tokenizer& tokenizer = *training.tokenizer;
  if (!options.text.empty()) {
    const Index context = training.causal_lm.config.max_position_embeddings;
    Index left_over = 0;
    training.learned = examples::text_examples(tokenizer, options.text,
                                               options.block == 0 ? context : options.block, left_over);
    std::fprintf(stderr, "train: %s: %zu blocks; %lld tokens at the end fill none and are not used\n",
                 options.text.c_str(), training.learned.size(), static_cast<long long>(left_over));
    return;
  }
  const fables::Split learned = fables::Split::train, held_out = fables::Split::held_out;
  if (options.task == "questions") {
    training.learned = examples::question_examples(tokenizer, options.corpus, options.seed, learned);
    training.held_out = examples::question_examples(tokenizer, options.held_out, held_out_seed, held_out);
    return;
  }
  training.learned = examples::fable_examples(tokenizer, options.corpus, options.seed, learned);
  training.held_out = examples::fable_examples(tokenizer, options.held_out, held_out_seed, held_out);
  training.held_out_recalled = examples::fable_examples(tokenizer, options.held_out, held_out_seed, held_out,
                                                        examples::Learned::recalled_words);
}

// The text number `position` of all epochs one after the other, each in an order of its own.
const TrainingExample& text_at(const Options& options, Training& training, Index position) {
  const Index count = static_cast<Index>(training.learned.size());
  const Index epoch = position / count;
  if (epoch != training.epoch) {
    training.order = glassbox::shuffled_order(count, options.seed + static_cast<std::uint64_t>(epoch));
    training.epoch = epoch;
  }
  const Index number = training.order[static_cast<std::size_t>(position % count)];
  return training.learned[static_cast<std::size_t>(number)];
}

// Tokens of the longest text that is not cut.
Index max_length(const Options& options, const Training& training) {
  const Index context = training.causal_lm.config.max_position_embeddings;
  return options.max_length == 0 ? context : std::min(options.max_length, context);
}

void say_what_is_cut(const Options& options, const Training& training) {
  const Index longest = max_length(options, training);
  glassbox::BatchReport report;
  for (const TrainingExample& example : training.learned)
    glassbox::batch_of({example}, 0, longest, !options.no_mask, report);
  if (report.unlearned > 0) {
    throw std::runtime_error(std::to_string(report.unlearned) + " of " +
                             std::to_string(training.learned.size()) +
                             " texts have nothing to learn within " + std::to_string(longest) +
                             " tokens: their answers are cut off, or they have none");
  }
  if (report.truncated == 0) return;
  std::fprintf(stderr, "train: %lld of %zu texts are longer than %lld tokens and lose their end\n",
               static_cast<long long>(report.truncated), training.learned.size(),
               static_cast<long long>(longest));
}

TokenId padding_of(const Training& training) {
  const TokenId pad = training.tokenizer->pad_id();
  if (pad >= 0) return pad;
  const TokenId end = training.tokenizer->eos_id();
  return end >= 0 ? end : 0;  // any id will do: the mask hides it
}

// The batches of one step, --accumulate of them.
std::vector<TrainingBatch> batches_of_step(const Options& options, Training& training,
                                           glassbox::BatchReport& report) {
  const Index longest = max_length(options, training);
  std::vector<TrainingBatch> batches;
  Index position = training.step * options.batch;
  for (Index part = 0; part < options.accumulate; ++part) {
    std::vector<TrainingExample> texts;
    for (Index i = 0; i < options.batch / options.accumulate; ++i) {
      texts.push_back(text_at(options, training, position));
      position += 1;
    }
    batches.push_back(glassbox::batch_of(texts, padding_of(training), longest, !options.no_mask, report));
  }
  return batches;
}

// ---- what the model can do ------------------------------------------------------------------------------
// How many held-out questions get the right answer, the likeliest token at a time.
Index right_answers(const Training& training) {
  Index right = 0;
  for (const TrainingExample& example : training.held_out) {
    const std::vector<TokenId> prompt(example.ids.begin(), example.ids.begin() + example.prompt_length);
    const std::vector<TokenId> answer(example.ids.begin() + example.prompt_length, example.ids.end());
    glassbox::GenerationConfig config = training.generation_config;
    config.sampling.temperature = 0;
    config.max_new_tokens = static_cast<Index>(answer.size());
    if (glassbox::generate(training.causal_lm, prompt, config).ids == answer) right += 1;
  }
  return right;
}

std::string sample(const Training& training, const std::string& prompt, std::uint64_t seed) {
  const std::vector<TokenId> prompt_ids = training.tokenizer->encode_with_special_tokens(prompt);
  if (prompt_ids.empty()) return "(no sample: there is no begin token to begin with)";
  if (static_cast<Index>(prompt_ids.size()) >= training.causal_lm.config.max_position_embeddings)
    return "(no sample: its prompt does not fit the context)";
  glassbox::GenerationConfig config = training.generation_config;
  config.sampling = {};
  config.sampling.temperature = 0.7;
  config.seed = seed;
  config.max_new_tokens = 120;
  const glassbox::GenerationResult result =
      glassbox::generate(training.causal_lm, prompt_ids, config, training.tokenizer.get());
  return examples::printable(result.prompt_text + result.text);
}

void show_progress(const Options& options, const Training& training) {
  const Index context = training.causal_lm.config.max_position_embeddings;
  const std::uint64_t seed = static_cast<std::uint64_t>(training.step);
  if (!options.text.empty()) {
    std::printf("  > %s\n", sample(training, "", seed).c_str());
    return;
  }
  if (!training.held_out.empty()) {
    std::printf("  held out: loss %.4f", examples::mean_loss(training.causal_lm, training.held_out, context));
    if (options.task == "questions") {
      std::printf(", %lld of %zu answers right\n", static_cast<long long>(right_answers(training)),
                  training.held_out.size());
    } else {
      std::printf(", %.1f %% of the recalled words right\n",
                  examples::percent_right(training.causal_lm, training.held_out_recalled, context));
    }
  }
  if (options.task == "questions") {
    const examples::Question question =
        examples::make_question(fables::Language::english, seed, fables::Split::held_out);
    std::printf("  > %s\n", sample(training, question.prompt, seed).c_str());
  } else {
    std::printf("  > %s\n", sample(training, "Once upon a time", seed).c_str());
    std::printf("  > %s\n", sample(training, "从前", seed).c_str());
  }
}

// ---- files ----------------------------------------------------------------------------------------------
void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": the file cannot be written");
}

std::vector<examples::CurvePoint> curve_of(const Training& training) {
  std::vector<examples::CurvePoint> points;
  for (const HistoryLine& line : training.history) points.push_back({line.step, line.loss});
  return points;
}

void write_history(const Options& options, const Training& training) {
  std::string text = "step\tloss\tlearning_rate\tgradient_norm\n";
  for (const HistoryLine& line : training.history) {
    char row[128];
    std::snprintf(row, sizeof row, "%lld\t%.6f\t%.6g\t%.4f\n", static_cast<long long>(line.step), line.loss,
                  line.learning_rate, line.gradient_norm);
    text += row;
  }
  const std::filesystem::path folder(options.output);
  write_text(folder / "loss.tsv", text);
  const std::vector<examples::CurvePoint> points = curve_of(training);
  const std::size_t group = std::max<std::size_t>(1, points.size() / 400);
  write_text(folder / "loss.svg",
             examples::curve_svg(examples::smoothed(points, group),
                                 "loss, " + (options.text.empty() ? options.task : "text")));
}

// The lines of a training that is resumed, those of steps done since the state was saved left out.
void read_history(const Options& options, Training& training) {
  std::ifstream file(std::filesystem::path(options.output) / "loss.tsv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    HistoryLine entry;
    if (!(words >> entry.step >> entry.loss >> entry.learning_rate >> entry.gradient_norm)) break;
    if (entry.step <= training.step) training.history.push_back(entry);
  }
}

// One number for many: another one where any of them differs, but for a chance of 1 in 2^62.
Index fingerprint(Index so_far, Index number) {
  const std::uint64_t mixed = glassbox::mix_bits(static_cast<std::uint64_t>(so_far) ^
                                                 glassbox::mix_bits(static_cast<std::uint64_t>(number)));
  return static_cast<Index>(mixed >> 2);
}

// Of all ids and prompts: the texts, the tokenizer, the task and the length of blocks decide these.
Index fingerprint_of(const std::vector<TrainingExample>& texts) {
  Index result = 0;
  for (const TrainingExample& text : texts) {
    result = fingerprint(result, text.prompt_length);
    for (const TokenId id : text.ids) result = fingerprint(result, id);
  }
  return result;
}

Index fingerprint_of(const std::vector<glassbox::ParameterRule>& rules) {
  Index result = 0;
  for (const glassbox::ParameterRule& rule : rules)
    result = fingerprint(result, (rule.decayed ? 1 : 0) + (rule.frozen ? 2 : 0));
  return result;
}

// The settings that decide the next step: a state is resumed only with the same.
glassbox::TrainingProgress progress_of(const Options& options, const Training& training) {
  glassbox::TrainingProgress progress;
  progress.integers = {{"step", training.step},
                       {"steps", options.steps},
                       {"batch", options.batch},
                       {"accumulate", options.accumulate},
                       {"threads", options.threads},
                       {"warmup", options.warmup},
                       {"max_length", options.max_length},
                       {"texts", static_cast<Index>(training.learned.size())},
                       {"texts_fingerprint", fingerprint_of(training.learned)},
                       {"freeze_fingerprint", fingerprint_of(training.rules)},
                       {"seed", static_cast<Index>(options.seed)},
                       {"mask", options.no_mask ? 0 : 1}};
  progress.numbers = {{"learning_rate", options.learning_rate},
                      {"weight_decay", options.weight_decay},
                      {"clip", options.clip}};
  return progress;
}

void save(const Options& options, Training& training) {
  write_history(options, training);  // before the state: lines of later steps are left out when it is read
  glassbox::save_training_state(state_file(options), glassbox::parameters_of(training.causal_lm),
                                training.optimizer, progress_of(options, training));
  glassbox::save_huggingface_folder(options.output, training.causal_lm, training.generation_config);
}

void resume(const Options& options, Training& training) {
  glassbox::TrainingProgress saved = glassbox::load_training_state(
      state_file(options), glassbox::parameters_of(training.causal_lm), training.optimizer);
  const Index step = saved.integers.count("step") == 1 ? saved.integers["step"] : -1;
  if (step < 0 || step != training.optimizer.step_count) {
    throw std::runtime_error(state_file(options).string() + ": step is " + std::to_string(step) +
                             ", expected that of the optimizer, " +
                             std::to_string(training.optimizer.step_count));
  }
  training.step = step;
  const glassbox::TrainingProgress wanted = progress_of(options, training);
  for (const auto& [name, value] : wanted.integers) {
    if (saved.integers[name] == value) continue;
    throw std::runtime_error(state_file(options).string() + ": " + name + " was " +
                             std::to_string(saved.integers[name]) + ", is now " + std::to_string(value) +
                             ": --resume goes on with the same settings only");
  }
  for (const auto& [name, value] : wanted.numbers) {
    if (saved.numbers[name] == value) continue;
    throw std::runtime_error(state_file(options).string() + ": " + name + " was " +
                             std::to_string(saved.numbers[name]) + ", is now " + std::to_string(value) +
                             ": --resume goes on with the same settings only");
  }
  read_history(options, training);
  std::printf("resumed after step %lld\n", static_cast<long long>(training.step));
}

// ---- the training ---------------------------------------------------------------------------------------
Training prepare(const Options& options) {
  Training training;
  if (options.fine_tune) {
    glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(options.model);
    training.causal_lm = glassbox::make_trainable(checkpoint.causal_lm);
    training.generation_config = checkpoint.generation_config;
  } else {
    const glassbox::ModelDescription description = examples::open_config(options.model);
    training.causal_lm = glassbox::initialize_model<float>(description.config, options.seed);
    training.generation_config = description.generation_config;
  }
  training.tokenizer = examples::open_tokenizer(options.model, training.causal_lm.config);
  make_texts(options, training);
  say_what_is_cut(options, training);
  std::vector<glassbox::Parameter<float>> parameters = glassbox::parameters_of(training.causal_lm);
  training.rules = glassbox::parameter_rules(parameters, options.freeze);
  if (options.table || !options.freeze.empty())
    std::printf("%s", glassbox::parameter_table(parameters, training.rules).c_str());
  bool some_learn = false;
  for (const glassbox::ParameterRule& rule : training.rules) some_learn = some_learn || !rule.frozen;
  if (!some_learn) throw std::runtime_error("--freeze leaves no parameter that learns");
  glassbox::AdamWConfig config;
  config.learning_rate = options.learning_rate;
  config.beta2 = 0.95;
  config.weight_decay = options.weight_decay;
  training.optimizer = glassbox::AdamW<float>(config, parameters, training.rules);
  training.workers = std::make_unique<glassbox::GradientWorkers<float>>(
      training.causal_lm, std::min(options.threads, options.batch / options.accumulate));
  training.schedule = {options.learning_rate, options.learning_rate / 100, options.warmup,
                       std::max(options.steps, options.warmup)};
  training.schedule.validate();
  return training;
}

// "step 300 of 4000, loss 2.1034, ...": the loss is the mean of the last `group` steps.
std::string step_text(const Options& options, const Training& training, Index group, double seconds_per_step,
                      double tokens_per_second) {
  group = std::min<Index>(group, static_cast<Index>(training.history.size()));
  double loss = 0;
  for (Index i = 0; i < group; ++i) {
    loss += training.history[training.history.size() - 1 - static_cast<std::size_t>(i)].loss;
  }
  const double seconds = seconds_per_step * static_cast<double>(options.steps - training.step);
  const int left = static_cast<int>(std::min(seconds, 1e9));
  char text[200];
  std::snprintf(text, sizeof text,
                "step %lld of %lld, loss %.4f, learning rate %.6f, %.0f tokens/s, %d:%02d left",
                static_cast<long long>(training.step), static_cast<long long>(options.steps),
                loss / static_cast<double>(group), training.history.back().learning_rate, tokens_per_second,
                left / 60, left % 60);
  return text;
}

void run_steps(const Options& options, Training& training) {
  using Clock = std::chrono::steady_clock;
  const glassbox::ActivationMemory memory =
      options.recompute ? glassbox::ActivationMemory::recompute : glassbox::ActivationMemory::keep;
  Clock::time_point begin = Clock::now();
  Index steps_timed = 0, tokens_timed = 0;
  examples::StatusLine status;
  const Index end = options.stop_after == 0 ? options.steps : std::min(options.stop_after, options.steps);
  while (training.step < end && interrupted == 0) {
    glassbox::BatchReport report;
    const std::vector<TrainingBatch> batches = batches_of_step(options, training, report);
    training.optimizer.config.learning_rate = training.schedule.at(training.step);
    const glassbox::StepResult result = glassbox::training_step(
        training.causal_lm, batches, *training.workers, training.optimizer, options.clip, memory);
    training.step += 1;
    training.history.push_back(
        {training.step, result.loss, training.optimizer.config.learning_rate, result.gradient_norm});
    steps_timed += 1;
    for (const TrainingBatch& batch : batches) tokens_timed += batch.input_ids.size();
    tokens_timed -= report.padding;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double per_step = seconds / static_cast<double>(steps_timed);
    const double tokens_per_second = static_cast<double>(tokens_timed) / seconds;
    status.show(step_text(options, training, 1, per_step, tokens_per_second));
    const bool last = training.step == options.steps;
    if (training.step % options.print == 0 || last) {
      status.clear();
      std::printf("%s\n", step_text(options, training, options.print, per_step, tokens_per_second).c_str());
      examples::flush_output();
    }
    if (training.step % options.every == 0 && !last) {
      status.clear();
      save(options, training);
      show_progress(options, training);
    }
    if (training.step % options.print == 0) {  // the speed of the newest steps, not of all
      begin = Clock::now();
      steps_timed = tokens_timed = 0;
    }
  }
}

// What is wrong with the options; empty: nothing.
std::string wrong_options(const Options& options) {
  const std::pair<const char*, std::int64_t> counts[] = {
      {"--steps", options.steps},
      {"--batch", options.batch},
      {"--accumulate", options.accumulate},
      {"--threads", options.threads},
      {"--every", options.every},
      {"--print", options.print},
      {"--corpus", static_cast<std::int64_t>(options.corpus)}};
  for (const auto& [name, value] : counts) {
    if (value < 1) return std::string(name) + " must be at least 1";
  }
  if (options.stop_after < 0) return "--stop-after must be at least 1, or 0 for all";
  if (options.warmup < 0) return "--warmup must be at least 0";
  if (options.max_length != 0 && options.max_length < 2)
    return "--max-length must be at least 2, or 0 for the whole context";
  if (options.block != 0 && options.block < 2)
    return "--block must be at least 2, or 0 for the whole context";
  if (options.batch % options.accumulate != 0) return "--batch must be a multiple of --accumulate";
  if (options.output.empty()) return "--output FOLDER is needed: where the trained model goes";
  if (!(options.learning_rate > 0 && options.learning_rate < 10))
    return "--learning-rate must be between 0 and 10";
  if (!(options.weight_decay >= 0 && options.weight_decay <= 1))
    return "--weight-decay must be between 0 and 1";
  if (!(options.clip >= 0)) return "--clip must be at least 0";
  return "";
}

void describe(Options& options, examples::CommandLine& command_line) {
  options.model.add_to(command_line);
  command_line.option("--output", options.output, "FOLDER",
                      "where the trained model goes: a Hugging Face folder");
  command_line.choice("--task", options.task, {"fables", "questions"},
                      "what to learn: to write fables, or to answer questions about them");
  command_line.option("--text", options.text, "FILE",
                      "learn from this text instead, in blocks of one length");
  command_line.option("--block", options.block, "N", "tokens of a block; 0: the model's whole context");
  command_line.flag("--fine-tune", options.fine_tune, "begin with MODEL's weights, not with random ones");
  command_line.flag("--no-mask", options.no_mask,
                    "let prompts count in the loss, too, to see what becomes of it");
  command_line.option("--freeze", options.freeze, "PATTERN",
                      "parameters that stay as they are, as model.embed_tokens.* (again for more)");
  command_line.flag("--table", options.table, "print what happens to each parameter");
  command_line.option("--steps", options.steps, "N", "steps in all");
  command_line.option("--batch", options.batch, "N", "texts in a step");
  command_line.option("--accumulate", options.accumulate, "N",
                      "so many parts of a batch one after the other: less memory, the same step");
  command_line.flag(
      "--recompute", options.recompute,
      "keep only each layer's input and compute the rest again in the backward pass: less memory, "
      "more time, the same step");
  command_line.option("--threads", options.threads, "N", "threads that share a batch");
  command_line.option("--learning-rate", options.learning_rate, "X", "the highest one");
  command_line.option("--warmup", options.warmup, "N", "steps up to it; from there down along a cosine");
  command_line.option("--weight-decay", options.weight_decay, "X", "of matrices; norms have none");
  command_line.option("--clip", options.clip, "X", "the longest gradient; 0: any");
  command_line.option("--corpus", options.corpus, "N", "different texts to learn from");
  command_line.option("--held-out", options.held_out, "N", "texts it never learns from, to measure it by");
  command_line.option("--max-length", options.max_length, "N",
                      "longer texts lose their end, which is said; 0: the model's whole context");
  command_line.option("--seed", options.seed, "N", "start of the random numbers");
  command_line.option("--every", options.every, "N", "steps between samples; the model is saved then");
  command_line.option("--print", options.print, "N", "steps between lines");
  command_line.option("--stop-after", options.stop_after, "N",
                      "end and save after this step, for --resume to go on; 0: do all");
  command_line.flag("--resume", options.resume, "go on where --output was left, with the same settings");
  command_line.footer(
      "Ctrl-C saves what is there; --resume goes on from it, to the same weights as without a break.\n"
      "\nExamples:\n"
      "  train --output /tmp/mine\n"
      "  train --task questions --fine-tune --learning-rate 0.0005 --steps 600 --output /tmp/answers\n"
      "  train --text book.txt --steps 1000 --output /tmp/book models/fables");
}

// The tokenizer that was used, as tokenizer.model whatever it was called, and what lies beside it.
void copy_tokenizer(const Options& options) {
  const std::filesystem::path used = examples::tokenizer_file(options.model);
  const std::filesystem::path copy = std::filesystem::path(options.output) / "tokenizer.model";
  glassbox::copy_tokenizer_files(used.has_parent_path() ? used.parent_path() : ".", options.output);
  if (std::filesystem::exists(copy) && std::filesystem::equivalent(used, copy)) return;
  std::filesystem::copy_file(used, copy, std::filesystem::copy_options::overwrite_existing);
}

// A new training does not take the place of another one, or of the model it reads.
void check_output(const Options& options) {
  if (std::filesystem::exists(state_file(options))) {
    throw std::runtime_error(
        state_file(options).string() +
        ": there is a training already: --resume goes on with it, another --output begins anew");
  }
  std::error_code none;
  if (std::filesystem::equivalent(options.model.model, options.output, none)) {
    throw std::runtime_error(options.output + ": is the model's own folder, expected another --output");
  }
}

// Runs all steps. What was learned is saved even where something else fails, such as standard output.
void run_and_save(const Options& options, Training& training) {
  const Index first_step = training.step;
  try {
    run_steps(options, training);
  } catch (...) {
    if (training.step > first_step) save(options, training);
    throw;
  }
  save(options, training);
}

int train(int argc, char** argv) {
  Options options;
  examples::CommandLine command_line(
      "train",
      "Trains a model: batches, loss, gradients, AdamW. Without other wishes a small model learns from "
      "nothing\n"
      "to write fables in English and Chinese; its shape and tokenizer are those of MODEL.");
  describe(options, command_line);
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  const std::string wrong = wrong_options(options);
  if (!wrong.empty()) return command_line.wrong_use(wrong);
  if (!options.text.empty() && command_line.given("--task"))
    return command_line.wrong_use("--text and --task exclude each other: one says what is learned");

  if (!options.resume) check_output(options);
  examples::keep_freed_memory();
  Training training = prepare(options);
  if (options.resume) {
    resume(options, training);
  } else {
    std::filesystem::create_directories(options.output);
    copy_tokenizer(options);
  }
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
#ifdef SIGHUP
  std::signal(SIGHUP, on_interrupt);  // a closed terminal
  std::signal(SIGPIPE, SIG_IGN);      // a reader that has gone is a failing write, after which all is saved
#endif
  run_and_save(options, training);
  if (interrupted != 0) {
    throw std::runtime_error("interrupted after step " + std::to_string(training.step) + "; saved in " +
                             options.output + ", --resume goes on");
  }
  if (training.step < options.steps) {
    std::printf("stopped after step %lld; saved in %s, --resume goes on\n",
                static_cast<long long>(training.step), options.output.c_str());
    return 0;
  }
  show_progress(options, training);
  std::printf("%s", examples::curve_text(curve_of(training)).c_str());
  std::printf("saved in %s\n", options.output.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, train); }
