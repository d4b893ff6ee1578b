// forward: token ids or text in, the logits of every position out, for scripts that compare with other
// programs.
//
// You are here: text -> ids -> vectors -> layers -> [logits] -> token -> text
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "glassbox/io/npy.hpp"
#include "support/open_model.hpp"

namespace {

using glassbox::Index;
using glassbox::Tensor;
using glassbox::TokenId;

struct ForwardArguments {
  examples::ModelArguments model;
  std::vector<std::int64_t> ids;
  std::string prompt;
  std::string npy;
  bool json = false;
  std::string scalar = "float";
  std::int64_t chunk = 0;
  bool no_cache = false;
  std::int64_t top = 5;
};

// ids first..first+count-1  ->  [batch=1, seq=count]
Tensor<TokenId> input_ids_of(const std::vector<TokenId>& ids, Index first, Index count) {
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", count}});
  for (Index i = 0; i < count; ++i) input_ids(0, i) = ids[static_cast<std::size_t>(first + i)];
  return input_ids;
}

template <std::floating_point Scalar>
void put_rows(Tensor<Scalar>& all_logits, Index first, const Tensor<Scalar>& logits) {
  for (Index position = 0; position < logits.dim(1); ++position) {
    all_logits.row(first + position) = logits.matrix(0).row(position);
  }
}

// The same logits in three ways: all ids in one pass; `chunk` ids at a time through the KV cache; or, without
// a cache, a whole pass for every position, of which only the last one's logits are kept.
template <std::floating_point Scalar>
Tensor<Scalar> compute_logits(const glassbox::CausalLM<Scalar>& causal_lm, const std::vector<TokenId>& ids,
                              Index chunk, bool no_cache) {
  const Index length = static_cast<Index>(ids.size());
  Tensor<Scalar> all_logits({{"position", length}, {"vocab", causal_lm.config.vocab_size}});
  if (no_cache) {
    examples::Progress progress("positions", static_cast<std::uint64_t>(length));
    for (Index position = 0; position < length; ++position) {
      progress.step();
      glassbox::KVCache<Scalar> cache(causal_lm.config.num_hidden_layers);
      Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", position + 1}});
      attention_mask.row(0).setOnes();
      const Tensor<TokenId> input_ids = input_ids_of(ids, 0, position + 1);
      put_rows(all_logits, position, causal_lm.forward(input_ids, attention_mask, cache, 1));
    }
    return all_logits;
  }
  glassbox::KVCache<Scalar> cache(causal_lm.config.num_hidden_layers);
  const Index step = chunk == 0 ? length : chunk;
  examples::Progress progress("chunks", static_cast<std::uint64_t>((length + step - 1) / step));
  for (Index first = 0; first < length; first += step) {
    progress.step();
    const Index count = std::min(step, length - first);
    Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", first + count}});
    attention_mask.row(0).setOnes();
    const Tensor<TokenId> input_ids = input_ids_of(ids, first, count);
    put_rows(all_logits, first, causal_lm.forward(input_ids, attention_mask, cache));  // breakpoint: one pass
  }
  return all_logits;
}

// So many digits that the same number comes back when they are read.
template <std::floating_point Scalar>
std::string number_text(Scalar value) {
  char text[40];
  std::snprintf(text, sizeof text, sizeof(Scalar) == 4 ? "%.9g" : "%.17g", static_cast<double>(value));
  return text;
}

// JSON has no infinity and no NaN: null.
template <std::floating_point Scalar>
void print_json(const std::vector<TokenId>& ids, const Tensor<Scalar>& logits) {
  std::cout << "{\"input_ids\": [";
  for (std::size_t i = 0; i < ids.size(); ++i) std::cout << (i == 0 ? "" : ", ") << ids[i];
  std::cout << "], \"axes\": [\"position\", \"vocab\"], \"shape\": [" << logits.dim(0) << ", "
            << logits.dim(1) << "], \"logits\": [\n";
  for (Index position = 0; position < logits.dim(0); ++position) {
    std::cout << (position == 0 ? " [" : ",\n [");
    for (Index id = 0; id < logits.dim(1); ++id) {
      const Scalar value = logits(position, id);
      std::cout << (id == 0 ? "" : ", ") << (std::isfinite(value) ? number_text(value) : "null");
    }
    std::cout << "]";
  }
  std::cout << "\n]}\n";
}

// A piece as one word: quoted, line breaks and other control characters as \xNN.
std::string quoted(const std::string& piece) {
  std::string text = "\"";
  for (const char character : piece) {
    const unsigned char byte = static_cast<unsigned char>(character);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    text += byte < 32 || byte == 127 || byte == '"' || byte == '\\' ? escaped : std::string(1, character);
  }
  return text + "\"";
}

// For each position the likeliest next tokens with their logits.
template <std::floating_point Scalar>
void print_text(const std::vector<TokenId>& ids, const Tensor<Scalar>& logits, Index top,
                const glassbox::Tokenizer* tokenizer) {
  std::cout << "logits " << shape_string(logits) << " " << glassbox::dtype_name<Scalar>()
            << ", per position the likeliest next ids:\n";
  for (Index position = 0; position < logits.dim(0); ++position) {
    std::vector<TokenId> order;
    for (TokenId id = 0; id < logits.dim(1); ++id) order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [&logits, position](TokenId a, TokenId b) {
      return logits(position, a) > logits(position, b);
    });
    const TokenId input_id = ids[static_cast<std::size_t>(position)];
    std::cout << position << "  after " << input_id;
    if (tokenizer != nullptr) std::cout << " " << quoted(tokenizer->piece(input_id));
    std::cout << ":";
    for (Index rank = 0; rank < std::min(top, logits.dim(1)); ++rank) {
      const TokenId id = order[static_cast<std::size_t>(rank)];
      char value[40];
      std::snprintf(value, sizeof value, "%.6f", static_cast<double>(logits(position, id)));
      std::cout << "  " << id;
      if (tokenizer != nullptr) std::cout << " " << quoted(tokenizer->piece(id));
      std::cout << " " << value;
    }
    std::cout << "\n";
  }
}

// The tokenizer for the pieces beside ids that were given as ids. They are a help only: a tokenizer that was
// not named may be absent or wrong.
std::unique_ptr<glassbox::Tokenizer> tokenizer_for_pieces(const examples::ModelArguments& arguments,
                                                          const glassbox::ModelConfig& config) {
  const bool named = !arguments.tokenizer.empty();
  if (!named && !glassbox::path_exists(examples::tokenizer_file(arguments))) return nullptr;
  try {
    return examples::open_tokenizer(arguments, config);
  } catch (const glassbox::Error& error) {
    if (named) throw;
    std::cerr << "forward: ids without their pieces: " << error.what() << "\n";
    return nullptr;
  }
}

// Numbers that are none are written like all others, but not in silence.
template <std::floating_point Scalar>
void print_finite(const Tensor<Scalar>& logits) {
  Index infinite = 0;
  for (Index row = 0; row < logits.rows(); ++row) {
    for (Index id = 0; id < logits.cols(); ++id) infinite += std::isfinite(logits.row(row)[id]) ? 0 : 1;
  }
  if (infinite == 0) return;
  std::cerr << "note: " << infinite << " of " << logits.size()
            << " logits are NaN or infinite: the weights are, or " << glassbox::dtype_name<Scalar>()
            << " is too small for them\n";
}

// The model would find these out too, but after the memory for the logits of all positions was taken.
void check_ids(const std::vector<TokenId>& ids, const glassbox::ModelConfig& config) {
  if (static_cast<Index>(ids.size()) > config.max_position_embeddings) {
    glassbox::throw_error<glassbox::UsageError>("the text has " + std::to_string(ids.size()) +
                                                " tokens, the model's max_position_embeddings is " +
                                                std::to_string(config.max_position_embeddings));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < config.vocab_size) continue;
    glassbox::throw_error<glassbox::TokenError>(
        "id " + std::to_string(ids[i]) + " at position " + std::to_string(i) + ", expected 0.." +
        std::to_string(config.vocab_size - 1) + " (vocab_size " + std::to_string(config.vocab_size) + ")");
  }
}

template <std::floating_point Scalar>
int run(const ForwardArguments& arguments) {
  const glassbox::Checkpoint<Scalar> checkpoint = examples::open_model<Scalar>(arguments.model);
  std::unique_ptr<glassbox::Tokenizer> tokenizer;
  std::vector<TokenId> ids = arguments.ids;
  if (ids.empty()) {
    tokenizer = examples::open_tokenizer(arguments.model, checkpoint.causal_lm.config);
    ids = tokenizer->encode_with_special_tokens(arguments.prompt);
    if (ids.empty()) glassbox::throw_error<glassbox::UsageError>("the prompt has no tokens");
  } else if (!arguments.model.tokenizer.empty() || (arguments.npy.empty() && !arguments.json)) {
    tokenizer = tokenizer_for_pieces(arguments.model, checkpoint.causal_lm.config);
  }
  check_ids(ids, checkpoint.causal_lm.config);
  const Tensor<Scalar> logits =
      compute_logits(checkpoint.causal_lm, ids, arguments.chunk, arguments.no_cache);
  if (arguments.ids.empty()) {
    examples::print_notes(arguments.model, checkpoint.report, checkpoint.causal_lm.config, *tokenizer);
  } else {
    examples::print_notes(checkpoint.report);
  }
  print_finite(logits);
  if (!arguments.npy.empty()) glassbox::write_npy(arguments.npy, logits);
  if (arguments.json) {
    print_json(ids, logits);
  } else if (arguments.npy.empty()) {
    print_text(ids, logits, arguments.top, tokenizer.get());
  }
  return 0;
}

int forward(int argc, char** argv) {
  ForwardArguments arguments;
  examples::CommandLine command_line(
      "forward", "Computes the logits of every position of a text, for comparison with other programs.");
  arguments.model.add_to(command_line);
  command_line.option("--ids", arguments.ids, "1,2,3", "token ids, fed as given: nothing is put in front");
  command_line.option("--prompt", arguments.prompt, "TEXT",
                      "a text, cut into tokens as generate does, with the begin token if the model wants it");
  command_line.option("--npy", arguments.npy, "FILE",
                      "write the logits [position, vocab] as a NumPy file, <f4 for float, <f8 for double");
  command_line.flag("--json", arguments.json, "print ids and logits as JSON");
  command_line.choice("--scalar", arguments.scalar, {"float", "double"},
                      "the arithmetic; the stored weights are widened exactly");
  command_line.option("--chunk", arguments.chunk, "N",
                      "feed N ids at a time through the KV cache (default: all in one pass)");
  command_line.flag("--no-cache", arguments.no_cache,
                    "recompute everything for every position: the slow truth the cache must agree with");
  command_line.option("--top", arguments.top, "N", "as text: so many of the likeliest ids per position");
  command_line.footer(
      "Three ways to the same numbers (differences are rounding, about 1e-6 in float):\n"
      "  forward MODEL --ids 1,5,9                all positions in one pass (prefill)\n"
      "  forward MODEL --ids 1,5,9 --chunk 1      one at a time, as while generating\n"
      "  forward MODEL --ids 1,5,9 --no-cache     without any memory of earlier passes\n"
      "In Python: numpy.load('out.npy') after --npy out.npy; compare with transformers by\n"
      "  numpy.abs(ours - theirs).max()");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  const bool has_ids = command_line.given("--ids");
  if (has_ids == command_line.given("--prompt")) {
    return command_line.wrong_use(has_ids ? "give --ids or --prompt, not both" : "give --ids or --prompt");
  }
  if (has_ids && arguments.ids.empty()) return command_line.wrong_use("--ids needs at least one id");
  if (command_line.given("--chunk") && arguments.chunk < 1) {
    return command_line.wrong_use("--chunk must be at least 1");
  }
  if (command_line.given("--chunk") && arguments.no_cache) {
    return command_line.wrong_use("--chunk feeds a cache: it cannot go with --no-cache");
  }
  if (command_line.given("--top") && (arguments.json || !arguments.npy.empty())) {
    return command_line.wrong_use("--top is about the text output: it cannot go with --json or --npy");
  }
  if (arguments.top < 1) return command_line.wrong_use("--top must be at least 1");
  return arguments.scalar == "double" ? run<double>(arguments) : run<float>(arguments);
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, forward); }
