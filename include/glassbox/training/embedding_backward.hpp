// Backward of Embedding: each position's gradient goes to the row that its token picked.
#pragma once

#include "glassbox/embedding.hpp"
#include "glassbox/training/parameters.hpp"

namespace glassbox {

// Forward:  inputs_embeds[b, s, :] = weight[input_ids[b, s], :]
// Backward: d_weight[id, :] += sum over the positions with that id of d_inputs_embeds[b, s, :]
// Ids are no numbers to follow a slope along, so there is no gradient of input_ids.
// input_ids [batch, seq], d_inputs_embeds [batch, seq, hidden]; added to gradients.weight [vocab, hidden]
template <std::floating_point Scalar>
void embedding_backward(const Tensor<TokenId>& input_ids, const Tensor<Scalar>& d_inputs_embeds,
                        Embedding<Scalar>& gradients) {
  check_rank("embedding_backward", "input_ids", input_ids, 2);
  check_rank("embedding_backward", "d_inputs_embeds", d_inputs_embeds, 3);
  check_dim("embedding_backward", "d_inputs_embeds", d_inputs_embeds, 0, input_ids.dim(0),
            "batch of input_ids");
  check_dim("embedding_backward", "d_inputs_embeds", d_inputs_embeds, 1, input_ids.dim(1),
            "positions of input_ids");
  check_dim("embedding_backward", "d_inputs_embeds", d_inputs_embeds, 2, gradients.weight.in.size,
            "width of the embedding");
  check_token_ids("embedding_backward", input_ids, gradients.weight.out.size);
  MatrixView<Scalar> d_weight = trainable_matrix<Scalar>("embed_tokens.weight", gradients.weight);
  for (Index batch = 0; batch < input_ids.dim(0); ++batch) {
    for (Index s = 0; s < input_ids.dim(1); ++s) {
      const TokenId id = input_ids(batch, s);
      d_weight.row(id) += d_inputs_embeds.row(batch * input_ids.dim(1) + s);
    }
  }
}

}  // namespace glassbox
