// What train learns from: fables, questions about fables, or the user's own text, as token ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "glassbox/tokenizer.hpp"
#include "glassbox/training/training_batch.hpp"
#include "support/fables.hpp"

namespace examples {

// Which words of a fable are learned, that is, have a label: all, or those that the story so far forces
// (recalled, see support/fable_words.hpp).
enum class Learned { all_words, recalled_words };

// `count` fables by the grammar, English and Chinese in turn, each with begin and end token.
std::vector<glassbox::TrainingExample> fable_examples(const glassbox::Tokenizer& tokenizer,
                                                      std::uint64_t count, std::uint64_t seed,
                                                      fables::Split split,
                                                      Learned learned = Learned::all_words);

// A question about a fable, and its answer.
struct Question {
  std::string prompt;    // the fable and the question
  std::string response;  // one word: " black", "黑色"
};
Question make_question(fables::Language language, std::uint64_t seed, fables::Split split);

// `count` questions, English and Chinese in turn: the prompt is the fable and the question, the response is
// the answer and the end token.
std::vector<glassbox::TrainingExample> question_examples(const glassbox::Tokenizer& tokenizer,
                                                         std::uint64_t count, std::uint64_t seed,
                                                         fables::Split split);

// A file in blocks of block_length ids; `left_over` ids at its end fill no block.
std::vector<glassbox::TrainingExample> text_examples(const glassbox::Tokenizer& tokenizer,
                                                     const std::string& path, glassbox::Index block_length,
                                                     glassbox::Index& left_over);

// The mean loss over the labels of all texts, prompts not counted; each is cut to `longest` tokens. 0 without
// a text.
double mean_loss(const glassbox::CausalLM<float>& causal_lm,
                 const std::vector<glassbox::TrainingExample>& texts, glassbox::Index longest);

// How many of the labels the model finds the likeliest of all, in percent; each text is cut to `longest`
// tokens. 0 without a label.
double percent_right(const glassbox::CausalLM<float>& causal_lm,
                     const std::vector<glassbox::TrainingExample>& texts, glassbox::Index longest);

// The whole file. Throws std::runtime_error naming the file where it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace examples
