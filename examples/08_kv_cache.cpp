// You are here: text -> ids -> vectors -> norm -> query, key, value -> [cache] -> attention -> next token
//
// Keys and values of earlier tokens never change, since no token looks ahead. So they are kept, and a new
// token computes only its own. The same text by both ways, with equal results.
//
// Breakpoints worth setting:
//   break glassbox::LayerKVCache<float>::append         `print key_states`; `finish`, then `print cache.keys`
//   break glassbox::Attention<float>::forward           the cache comes in as an argument and grows
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

// Layer 0's attention on tokens from `begin` on, those before being in the cache. [batch, tokens, hidden]
Tensor<float> attend(const examples::Lesson& lesson, Index begin, Index end, LayerKVCache<float>& cache) {
  const DecoderModel<float>& model = lesson.causal_lm.model;
  const std::vector<TokenId> ids(lesson.ids.begin() + begin, lesson.ids.begin() + end);
  const Tensor<std::int64_t> attention_mask = examples::ones_mask(end);
  const Tensor<std::int64_t> position_ids = position_ids_from_mask(attention_mask, end - begin);
  const RotaryTables<float> rotary = model.rotary_emb.forward(position_ids);
  const Tensor<bool> causal_mask = make_causal_mask(expand_mask(attention_mask), end - begin);
  const Tensor<float> additive_mask = make_additive_mask<float>(causal_mask);
  const Tensor<float> residual = model.embed_tokens.forward(examples::ids_tensor(ids));
  const Tensor<float> input_layernorm_output = model.layers[0].input_layernorm.forward(residual);
  return model.layers[0].self_attn.forward(input_layernorm_output, rotary.cos, rotary.sin, additive_mask,
                                           cache);
}

void show(const examples::Lesson& lesson) {
  const Index seq = static_cast<Index>(lesson.ids.size());
  std::vector<std::vector<std::string>> rows{
      {"token", "fed: all", "fed: new", "cached_keys", "bytes (both)", "difference"}};
  LayerKVCache<float> kept;
  for (Index length = 1; length <= seq; ++length) {
    LayerKVCache<float> empty;
    const Tensor<float> without_cache = attend(lesson, 0, length, empty);       // all tokens again
    const Tensor<float> with_cache = attend(lesson, length - 1, length, kept);  // the new one only
    const float difference = (without_cache.row(length - 1) - with_cache.row(0)).cwiseAbs().maxCoeff();
    const Index numbers = kept.keys.size() + kept.values.size();
    rows.push_back({examples::label_text(lesson.pieces[static_cast<std::size_t>(length - 1)]),
                    std::to_string(length), "1", shape_string(kept.keys),
                    std::to_string(numbers * static_cast<Index>(sizeof(float))),
                    difference < 1e-6f ? "< 1e-6" : std::to_string(difference)});
  }
  examples::say(
      "Layer 0, a token more in each line: once all tokens are fed again, once only the new one and the "
      "rest comes from the cache. The difference is the largest between the two attn_output (< 1e-6: "
      "none but perhaps in the last bits):");
  std::cout << examples::table_text(rows) << "\n";
  examples::say("What is in the cache in the end: keys after the rotation, values as v_proj made them.");
  examples::print_tensor("cached_keys", kept.keys, examples::with_tokens(lesson.pieces));
  examples::print_tensor("cached_values", kept.values, examples::with_tokens(lesson.pieces));
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "The KV cache.", show); }
