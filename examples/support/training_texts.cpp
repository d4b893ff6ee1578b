#include "support/training_texts.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "glassbox/random.hpp"
#include "glassbox/sampler.hpp"
#include "support/command_line.hpp"
#include "support/fable_words.hpp"

namespace examples {
namespace {

using glassbox::Tensor;
using glassbox::TokenId;
using glassbox::TrainingExample;

fables::Language language_of(std::uint64_t number) {
  return number % 2 == 0 ? fables::Language::english : fables::Language::chinese;
}

struct Asked {
  fables::Kind kind;
  const char* english;
  const char* chinese;
};

// What every fable tells.
constexpr Asked asked[] = {
    {fables::Kind::name, " Who is it about?", "说的是谁？"},
    {fables::Kind::colour, " Which colour is it?", "是什么颜色？"},
    {fables::Kind::thing, " Which thing is it?", "是什么东西？"},
    {fables::Kind::place, " Where is it?", "在哪里？"},
    {fables::Kind::animal, " Which animal is it?", "是什么动物？"},
};

int attribute_of(const fables::Attributes& attributes, fables::Kind kind) {
  switch (kind) {
    case fables::Kind::name:
      return attributes.name;
    case fables::Kind::colour:
      return attributes.colour;
    case fables::Kind::thing:
      return attributes.thing;
    case fables::Kind::place:
      return attributes.place;
    default:
      return attributes.animal;
  }
}

// A text whose end the model is to learn needs tokens that say so.
void require_begin_and_end(const glassbox::Tokenizer& tokenizer) {
  if (tokenizer.bos_id() >= 0 && tokenizer.eos_id() >= 0) return;
  throw std::runtime_error("the tokenizer has no " + std::string(tokenizer.bos_id() < 0 ? "begin" : "end") +
                           " token, which fables and questions need");
}

}  // namespace

std::vector<TrainingExample> fable_examples(const glassbox::Tokenizer& tokenizer, std::uint64_t count,
                                            std::uint64_t seed, fables::Split split, Learned learned) {
  require_begin_and_end(tokenizer);
  std::vector<TrainingExample> examples;
  glassbox::RandomGenerator seeds(seed);
  Progress progress("fables", count);
  for (std::uint64_t number = 0; number < count; ++number) {
    const fables::Story story = fables::make_story(language_of(number), seeds.next_bits(), split);
    TrainingExample example;
    example.ids.push_back(tokenizer.bos_id());
    for (const TokenId id : tokenizer.encode(story.text)) example.ids.push_back(id);
    example.ids.push_back(tokenizer.eos_id());
    if (learned == Learned::recalled_words) {
      example.labels.assign(example.ids.size(), glassbox::ignore_index);
      for (const FableWord& word : fable_words(tokenizer, story, example.ids)) {
        if (!word.recalled) continue;
        const std::size_t position = static_cast<std::size_t>(word.position);
        example.labels[position] = example.ids[position];
      }
    }
    examples.push_back(std::move(example));
    progress.step();
  }
  return examples;
}

Question make_question(fables::Language language, std::uint64_t seed, fables::Split split) {
  const fables::Story story = fables::make_story(language, seed, split);
  const Asked& question = asked[glassbox::mix_bits(seed) % std::size(asked)];
  const int value = attribute_of(story.attributes, question.kind);
  const bool english = language == fables::Language::english;
  return {story.text + (english ? question.english : question.chinese),
          fables::values(language, question.kind)[static_cast<std::size_t>(value)]};
}

std::vector<TrainingExample> question_examples(const glassbox::Tokenizer& tokenizer, std::uint64_t count,
                                               std::uint64_t seed, fables::Split split) {
  require_begin_and_end(tokenizer);
  std::vector<TrainingExample> examples;
  glassbox::RandomGenerator seeds(seed);
  Progress progress("questions", count);
  for (std::uint64_t number = 0; number < count; ++number) {
    const Question question = make_question(language_of(number), seeds.next_bits(), split);
    std::vector<TokenId> prompt{tokenizer.bos_id()};
    for (const TokenId id : tokenizer.encode(question.prompt)) prompt.push_back(id);
    std::vector<TokenId> response = tokenizer.encode(question.response);
    response.push_back(tokenizer.eos_id());
    examples.push_back(glassbox::prompt_and_response(prompt, response));
    progress.step();
  }
  return examples;
}

std::vector<TrainingExample> text_examples(const glassbox::Tokenizer& tokenizer, const std::string& path,
                                           glassbox::Index block_length, glassbox::Index& left_over) {
  glassbox::TokenBlocks blocks =
      glassbox::blocks_of(tokenizer.encode_with_special_tokens(read_text_file(path)), block_length);
  left_over = blocks.left_over;
  if (blocks.blocks.empty()) {
    throw std::runtime_error(path + ": " + std::to_string(left_over) + " tokens, expected at least " +
                             std::to_string(block_length) + ", one block (--block)");
  }
  return std::move(blocks.blocks);
}

double mean_loss(const glassbox::CausalLM<float>& causal_lm, const std::vector<TrainingExample>& texts,
                 glassbox::Index longest) {
  double sum = 0;
  glassbox::Index counted = 0;
  for (const TrainingExample& text : texts) {
    glassbox::BatchReport report;
    const glassbox::TrainingBatch batch = glassbox::batch_of({text}, 0, longest, true, report);
    const glassbox::CrossEntropy<float> result =
        glassbox::cross_entropy(causal_lm.forward(batch.input_ids), glassbox::shift_labels(batch.labels));
    sum += result.sum;
    counted += result.counted;
  }
  return counted == 0 ? 0 : sum / static_cast<double>(counted);
}

double percent_right(const glassbox::CausalLM<float>& causal_lm, const std::vector<TrainingExample>& texts,
                     glassbox::Index longest) {
  glassbox::Index right = 0, all = 0;
  for (const TrainingExample& text : texts) {
    glassbox::BatchReport report;
    const glassbox::TrainingBatch batch = glassbox::batch_of({text}, 0, longest, true, report);
    const Tensor<float> logits = causal_lm.forward(batch.input_ids);  // [batch, seq, vocab]
    const Tensor<TokenId> shifted_labels = glassbox::shift_labels(batch.labels);
    Tensor<float> next_token_logits({{"vocab", logits.cols()}});
    for (glassbox::Index s = 0; s < shifted_labels.dim(1); ++s) {
      if (shifted_labels(0, s) == glassbox::ignore_index) continue;
      next_token_logits.row(0) = logits.row(s);
      all += 1;
      if (glassbox::argmax(next_token_logits) == shifted_labels(0, s)) right += 1;
    }
  }
  return all == 0 ? 0 : 100.0 * static_cast<double>(right) / static_cast<double>(all);
}

std::string read_text_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw std::runtime_error(path + ": is a folder, expected a text");
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[65536];
  while (file.read(buffer, sizeof buffer) || file.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() || file.bad()) throw std::runtime_error(path + ": the file cannot be read");
  return text;
}

}  // namespace examples
