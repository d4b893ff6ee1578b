// What the numbered examples share: open the model (the embedded one unless another is named), cut the
// running text into tokens, and show something.
//
//   void show(const examples::Lesson& lesson) { ... }
//   int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "what is shown", show); }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/tokenizer.hpp"
#include "support/print_tensor.hpp"

namespace examples {

struct Lesson {
  glassbox::CausalLM<float> causal_lm;
  std::unique_ptr<glassbox::Tokenizer> tokenizer;
  std::vector<glassbox::TokenId> eos_token_id;

  std::string text;                               // the running text: "Once upon a time"
  std::vector<glassbox::TokenId> ids;             // its tokens, the begin token first
  std::vector<std::string> pieces;                // as the vocabulary spells them
  glassbox::Tensor<glassbox::TokenId> input_ids;  // [batch=1, seq], the same ids
};

// One text's ids as a tensor [batch=1, seq].
glassbox::Tensor<glassbox::TokenId> ids_tensor(const std::vector<glassbox::TokenId>& ids);

// Ones, as many as there are tokens in all: no padding. [batch=1, seq]
glassbox::Tensor<std::int64_t> ones_mask(glassbox::Index seq);

// The positions of a text without padding: 0, 1, 2, ... [batch=1, seq]
glassbox::Tensor<std::int64_t> counted_positions(glassbox::Index seq);

// Layer 0 up to where its attention begins (examples 02 to 06), [batch, head or kv_head, seq, head_dim] each.
struct HeadStates {
  glassbox::Tensor<float> query_states, key_states, value_states;
};
HeadStates first_layer_heads(const Lesson& lesson);
// additive_mask of the running text, [batch, 1, query, key]
glassbox::Tensor<float> first_additive_mask(const Lesson& lesson);
// The residual stream after layer 0's attention (example 07), [batch, seq, hidden]
glassbox::Tensor<float> first_attn_residual(const Lesson& lesson);

// Options for print_tensor that write these tokens beside the axes that count them.
PrintOptions with_tokens(const std::vector<std::string>& tokens);

// Where a row of numbers is largest, the largest first; of equal ones the first.
std::vector<glassbox::TokenId> largest(glassbox::ConstRowView<float> row, std::size_t count);

// `text` in lines of at most 100 columns, each behind `indent`.
std::string wrapped(const std::string& text, const std::string& indent);

// A sentence or two, cut into lines, and an empty line.
void say(const std::string& text);

// The whole main(): MODEL, --tokenizer and --help are understood; the exit code is returned.
int run_lesson(int argc, char** argv, const char* description, void (*show)(const Lesson& lesson));

}  // namespace examples
