#include "support/lesson.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "support/command_line.hpp"
#include "support/open_model.hpp"
#include "support/stage_printer.hpp"

namespace examples {
namespace {

// run_main takes a plain function, so what main knows waits here for it.
const char* lesson_description = "";
void (*lesson_show)(const Lesson& lesson) = nullptr;

int run_opened(int argc, char** argv) {
  const std::string program = std::filesystem::path(argc > 0 ? argv[0] : "example").filename().string();
  ModelArguments arguments;
  CommandLine command_line(program, lesson_description);
  arguments.add_to(command_line);
  command_line.footer(
      "The source begins with what it shows and with the breakpoints worth setting. In a debugger:\n"
      "  gdb --args " +
      program + "\n");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;

  glassbox::Checkpoint<float> checkpoint = open_model<float>(arguments);
  Lesson lesson;
  lesson.tokenizer = open_tokenizer(arguments, checkpoint.causal_lm.config);
  lesson.causal_lm = std::move(checkpoint.causal_lm);
  lesson.eos_token_id = checkpoint.generation_config.eos_token_id;
  lesson.text = "Once upon a time";
  lesson.ids = lesson.tokenizer->encode_with_special_tokens(lesson.text);
  for (const glassbox::TokenId id : lesson.ids) lesson.pieces.push_back(lesson.tokenizer->piece(id));
  glassbox::stage_state().pieces = lesson.pieces;  // debuggers write them beside the rows
  lesson.input_ids = ids_tensor(lesson.ids);
  lesson_show(lesson);
  return 0;
}

}  // namespace

glassbox::Tensor<glassbox::TokenId> ids_tensor(const std::vector<glassbox::TokenId>& ids) {
  const glassbox::Index seq = static_cast<glassbox::Index>(ids.size());
  glassbox::Tensor<glassbox::TokenId> input_ids({{"batch", 1}, {"seq", seq}});
  for (glassbox::Index i = 0; i < seq; ++i) input_ids(0, i) = ids[static_cast<std::size_t>(i)];
  return input_ids;
}

glassbox::Tensor<std::int64_t> ones_mask(glassbox::Index seq) {
  glassbox::Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", seq}});
  attention_mask.row(0).setOnes();
  return attention_mask;
}

glassbox::Tensor<std::int64_t> counted_positions(glassbox::Index seq) {
  return glassbox::position_ids_from_mask(ones_mask(seq), seq);
}

HeadStates first_layer_heads(const Lesson& lesson) {
  const glassbox::DecoderModel<float>& model = lesson.causal_lm.model;
  const glassbox::DecoderLayer<float>& layer = model.layers[0];
  const glassbox::Attention<float>& self_attn = layer.self_attn;
  const glassbox::Tensor<float> residual = model.embed_tokens.forward(lesson.input_ids);
  const glassbox::Tensor<float> normed = layer.input_layernorm.forward(residual);
  const glassbox::Tensor<float> query_heads =
      split_heads(self_attn.q_proj.forward(normed), self_attn.num_attention_heads);
  const glassbox::Tensor<float> key_heads =
      split_heads(self_attn.k_proj.forward(normed), self_attn.num_key_value_heads, "kv_head");
  const glassbox::RotaryTables<float> rotary =
      model.rotary_emb.forward(counted_positions(lesson.input_ids.dim(1)));
  HeadStates heads;
  heads.query_states = apply_rotary_pos_emb(query_heads, rotary.cos, rotary.sin);
  heads.key_states = apply_rotary_pos_emb(key_heads, rotary.cos, rotary.sin);
  heads.value_states =
      split_heads(self_attn.v_proj.forward(normed), self_attn.num_key_value_heads, "kv_head");
  return heads;
}

glassbox::Tensor<float> first_additive_mask(const Lesson& lesson) {
  const glassbox::Index seq = lesson.input_ids.dim(1);
  const glassbox::Tensor<bool> expanded_mask = glassbox::expand_mask(ones_mask(seq));
  return glassbox::make_additive_mask<float>(glassbox::make_causal_mask(expanded_mask, seq));
}

glassbox::Tensor<float> first_attn_residual(const Lesson& lesson) {
  const HeadStates heads = first_layer_heads(lesson);
  const glassbox::Tensor<float> scores = scaled_scores(heads.query_states, heads.key_states);
  const glassbox::Tensor<float> attn_weights = softmax(add_mask(scores, first_additive_mask(lesson)));
  const glassbox::Tensor<float> context = weighted_values(attn_weights, heads.value_states);
  const glassbox::Attention<float>& self_attn = lesson.causal_lm.model.layers[0].self_attn;
  const glassbox::Tensor<float> attn_output = self_attn.o_proj.forward(merge_heads(context));
  return add(lesson.causal_lm.model.embed_tokens.forward(lesson.input_ids), attn_output);
}

std::vector<glassbox::TokenId> largest(glassbox::ConstRowView<float> row, std::size_t count) {
  std::vector<glassbox::TokenId> ids;
  for (glassbox::TokenId id = 0; id < row.size(); ++id) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(),
                   [&row](glassbox::TokenId a, glassbox::TokenId b) { return row[a] > row[b]; });
  ids.resize((std::min)(ids.size(), count));
  return ids;
}

std::string wrapped(const std::string& text, const std::string& indent) { return wrapped_text(text, indent); }

PrintOptions with_tokens(const std::vector<std::string>& tokens) {
  PrintOptions options;
  options.tokens = tokens;
  return options;
}

void say(const std::string& text) { std::cout << wrapped_text(text, "") << "\n"; }

int run_lesson(int argc, char** argv, const char* description, void (*show)(const Lesson& lesson)) {
  lesson_description = description;
  lesson_show = show;
  return run_main(argc, argv, run_opened);
}

}  // namespace examples
