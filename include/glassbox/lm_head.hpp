// LM head: hidden states become one number per token of the vocabulary.
#pragma once

#include "glassbox/matmul.hpp"

namespace glassbox {

// logits[b, s, v] = sum_i hidden_states[b, s, i] * weight[v, i]
// Where embeddings are tied, weight is empty and the embedding table takes its place: the checkpoint stores
// it once (Press & Wolf 2016, arXiv:1608.05859; transformers tie_word_embeddings).
template <std::floating_point Scalar>
struct LMHead {
  WeightMatrix weight;  // [vocab, hidden]; empty: tied

  // hidden_states [batch, seq, hidden], embed_tokens_weight [vocab, hidden]  ->  [batch, seq, vocab]
  Tensor<Scalar> forward(const Tensor<Scalar>& hidden_states, const WeightMatrix& embed_tokens_weight) const {
    if (weight.empty()) return matmul(hidden_states, embed_tokens_weight);
    return matmul(hidden_states, weight);
  }
};

}  // namespace glassbox
