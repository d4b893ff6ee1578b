// Embedding: each token id picks its row of a table.
#pragma once

#include <concepts>

#include "glassbox/check.hpp"
#include "glassbox/weight.hpp"

namespace glassbox {
namespace loops {

template <std::floating_point Scalar>
void pick_rows(const WeightMatrix& weight, const Tensor<TokenId>& input_ids, Tensor<Scalar>& inputs_embeds) {
  for (Index batch = 0; batch < input_ids.dim(0); ++batch) {
    for (Index position = 0; position < input_ids.dim(1); ++position) {
      const TokenId id = input_ids(batch, position);
      const Index row = batch * input_ids.dim(1) + position;
      weight.read_row(id, inputs_embeds.row(row));
    }
  }
}

}  // namespace loops

// inputs_embeds[b, s, :] = weight[input_ids[b, s], :]      (torch.nn.Embedding)
template <std::floating_point Scalar>
struct Embedding {
  WeightMatrix weight;  // [vocab, hidden]

  // input_ids [batch, seq]  ->  [batch, seq, hidden]. Throws TokenError for an id outside the table.
  Tensor<Scalar> forward(const Tensor<TokenId>& input_ids) const {
    check_rank("Embedding::forward", "input_ids", input_ids, 2);
    check_token_ids("Embedding::forward", input_ids, weight.out.size);
    Tensor<Scalar> inputs_embeds({input_ids.axis(0), input_ids.axis(1), weight.in});
    loops::pick_rows(weight, input_ids, inputs_embeds);
    return inputs_embeds;
  }
};

}  // namespace glassbox
