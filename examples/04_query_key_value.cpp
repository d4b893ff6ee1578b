// You are here: text -> ids -> vectors -> norm -> [query, key, value] -> attention -> ... -> next token
//
// Three matrices make three vectors of each token: what it asks for (query), what it can be found by (key)
// and what it hands over (value). They are cut into heads, which work side by side. With grouped-query
// attention several query heads share a key and value head.
//
// Breakpoints worth setting:
//   break glassbox::Linear<float>::forward
//   break glassbox::split_heads<float>                  compare projection and heads before and after
#include <algorithm>
#include <iostream>

#include "support/lesson.hpp"

using namespace glassbox;

namespace {

void show(const examples::Lesson& lesson) {
  const DecoderModel<float>& model = lesson.causal_lm.model;
  const DecoderLayer<float>& layer = model.layers[0];
  const Attention<float>& self_attn = layer.self_attn;
  const examples::PrintOptions options = examples::with_tokens(lesson.pieces);
  const Tensor<float> residual = model.embed_tokens.forward(lesson.input_ids);
  const Tensor<float> input_layernorm_output = layer.input_layernorm.forward(residual);

  const Tensor<float> q_proj_output = self_attn.q_proj.forward(input_layernorm_output);
  const Tensor<float> k_proj_output = self_attn.k_proj.forward(input_layernorm_output);
  const Tensor<float> v_proj_output = self_attn.v_proj.forward(input_layernorm_output);
  examples::print_tensor("q_proj", q_proj_output, options);
  examples::print_tensor("k_proj", k_proj_output, options);
  examples::print_tensor("v_proj", v_proj_output, options);

  examples::say("Cut into heads: the last axis is divided, and head moves before seq.");
  const Tensor<float> query_heads = split_heads(q_proj_output, self_attn.num_attention_heads);
  const Tensor<float> key_heads = split_heads(k_proj_output, self_attn.num_key_value_heads, "kv_head");
  examples::print_tensor("query_heads", query_heads, options);
  examples::print_tensor("key_heads", key_heads, options);

  const Index head_dim = query_heads.dim(3);
  const Index last = query_heads.dim(2) - 1;
  const Index one = std::min<Index>(1, self_attn.num_attention_heads - 1);  // where there is only one head: 0
  const Index two = std::min<Index>(2, head_dim - 1);
  examples::say("The same number before and after, of the last token in head " + std::to_string(one) + ":");
  std::cout << "  q_proj[0, " << last << ", " << one << " * " << head_dim << " + " << two << "] = "
            << examples::number_text(static_cast<double>(q_proj_output(0, last, one * head_dim + two)), 3)
            << "    query_heads[0, " << one << ", " << last << ", " << two
            << "] = " << examples::number_text(static_cast<double>(query_heads(0, one, last, two)), 3)
            << "\n\n";

  examples::say("Which key and value head serves which query head (kv_head = head / groups):");
  const Index groups = self_attn.num_attention_heads / self_attn.num_key_value_heads;
  for (Index head = 0; head < self_attn.num_attention_heads; ++head) {
    std::cout << "  query head " << head << "  ->  key and value head " << head / groups << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) { return examples::run_lesson(argc, argv, "Query, key, value.", show); }
