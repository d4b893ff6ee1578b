// The MODEL argument of the example programs: a Hugging Face folder or a llama2.c .bin file; the embedded
// model where the user names none. JSON and libsentencepiece are compiled in open_model.cpp alone.
//
//   examples::ModelArguments arguments;
//   arguments.add_to(command_line);                         // MODEL and --tokenizer
//   ...
//   glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(arguments);
//   std::unique_ptr<glassbox::Tokenizer> tokenizer =
//       examples::open_tokenizer(arguments, checkpoint.causal_lm.config);
#pragma once

#include <memory>
#include <string>

#include "glassbox/io/checkpoint_report.hpp"
#include "glassbox/tokenizer.hpp"
#include "support/command_line.hpp"

namespace examples {

// Where the embedded model lies.
std::string embedded_model();

struct ModelArguments {
  std::string model = embedded_model();
  std::string tokenizer;  // empty: tokenizer.model beside the weights

  // Registers MODEL and --tokenizer FILE.
  void add_to(CommandLine& command_line);
};

// The model with its weights. Throws glassbox::Error saying what is wrong with the files.
template <std::floating_point Scalar>
glassbox::Checkpoint<Scalar> open_model(const ModelArguments& arguments);
template <>
glassbox::Checkpoint<float> open_model(const ModelArguments& arguments);
template <>
glassbox::Checkpoint<double> open_model(const ModelArguments& arguments);

// On standard error, a line each: what of the files is not used although it may matter (keys that are unknown
// or ask for what is not done here, tensors that no part of the model takes), tokens that only
// tokenizer_config.json has, and a begin token about which tokenizer and model disagree.
void print_notes(const glassbox::CheckpointReport& report);
void print_notes(const ModelArguments& arguments, const glassbox::CheckpointReport& report,
                 const glassbox::ModelConfig& config, const glassbox::Tokenizer& tokenizer);

// What the model is, from its configuration alone.
glassbox::ModelDescription open_config(const ModelArguments& arguments);

// Every tensor checked against the configuration, none loaded. A null pointer where there are no weights:
// `reason` says what the folder lacks, and is empty where only a config.json was named.
std::unique_ptr<glassbox::StoredCheckpoint> open_weights(const ModelArguments& arguments,
                                                         std::string& reason);

// The file that open_tokenizer reads.
std::string tokenizer_file(const ModelArguments& arguments);

// Its tokenizer, with the begin and end tokens of tokenizer_config.json beside the tokenizer's file.
std::unique_ptr<glassbox::Tokenizer> open_tokenizer(const ModelArguments& arguments,
                                                    const glassbox::ModelConfig& config);

}  // namespace examples
