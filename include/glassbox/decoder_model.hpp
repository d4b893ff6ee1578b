// The decoder: from token ids to the normalised hidden states of the last layer.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "glassbox/attention_mask.hpp"
#include "glassbox/config.hpp"
#include "glassbox/decoder_layer.hpp"
#include "glassbox/embedding.hpp"

namespace glassbox {

// Everything of the model but its head; the members' names are the checkpoint's after "model."
// (transformers LlamaModel.forward).
template <std::floating_point Scalar>
struct DecoderModel {
  Embedding<Scalar> embed_tokens;  // weight [vocab, hidden]
  std::vector<DecoderLayer<Scalar>> layers;
  RMSNorm<Scalar> norm;
  RotaryEmbedding<Scalar> rotary_emb;
  Index max_position_embeddings = 0;

  // input_ids [batch, seq], attention_mask [batch, past + seq] of 0/1, past = cache.length()
  //   ->  [batch, seq, hidden]; the cache grows by seq. For tokens in the cache the mask must be what it was
  // when they were fed: their keys were rotated by the positions it gave.
  // Throws UsageError where a position would lie at or beyond max_position_embeddings.
  Tensor<Scalar> forward(Tensor<TokenId> input_ids, Tensor<std::int64_t> attention_mask,
                         KVCache<Scalar>& cache) const {
    check_inputs(input_ids, attention_mask, cache);
    stage("input_ids", -1, input_ids);            // [batch, seq]
    stage("attention_mask", -1, attention_mask);  // [batch, seq], those in the cache included
    const Index seq = input_ids.dim(1);
    Tensor<std::int64_t> position_ids = position_ids_from_mask(attention_mask, seq);  // [batch, seq]
    stage("position_ids", -1, position_ids);
    check_context(position_ids);

    Tensor<Scalar> inputs_embeds = embed_tokens.forward(input_ids);  // [batch, seq, hidden]
    stage("inputs_embeds", -1, inputs_embeds);
    RotaryTables<Scalar> rotary = rotary_emb.forward(position_ids);
    Tensor<Scalar>& cos = rotary.cos;  // [batch, seq, head_dim]
    stage("cos", -1, cos);
    Tensor<Scalar>& sin = rotary.sin;  // [batch, seq, head_dim]
    stage("sin", -1, sin);
    Tensor<bool> expanded_mask = expand_mask(attention_mask);  // [batch, 1, 1, key]
    stage("expanded_mask", -1, expanded_mask);
    Tensor<bool> causal_mask = make_causal_mask(expanded_mask, seq);  // [batch, 1, query, key]
    stage("causal_mask", -1, causal_mask);
    Tensor<Scalar> additive_mask = make_additive_mask<Scalar>(causal_mask);  // [batch, 1, query, key]
    stage("additive_mask", -1, additive_mask);

    Tensor<Scalar> hidden_states = inputs_embeds;  // [batch, seq, hidden]
    for (const DecoderLayer<Scalar>& decoder_layer : layers) {
      LayerKVCache<Scalar>& layer_cache = cache.layers[static_cast<std::size_t>(decoder_layer.layer)];
      Tensor<Scalar> layer_output =
          decoder_layer.forward(hidden_states, cos, sin, additive_mask, layer_cache);
      hidden_states = std::move(layer_output);  // the residual stream goes on to the next layer
    }
    Tensor<Scalar> norm_output = norm.forward(hidden_states);  // [batch, seq, hidden]
    stage("norm", -1, norm_output);
    return norm_output;
  }

  void check_inputs(const Tensor<TokenId>& input_ids, const Tensor<std::int64_t>& attention_mask,
                    const KVCache<Scalar>& cache) const {
    check_rank("DecoderModel::forward", "input_ids", input_ids, 2);
    check_rank("DecoderModel::forward", "attention_mask", attention_mask, 2);
    if (input_ids.size() == 0) {
      throw_error<ShapeError>("DecoderModel::forward: input_ids " + shape_string(input_ids) +
                              " holds no token");
    }
    if (cache.layers.size() != layers.size()) {
      throw_error<ShapeError>("DecoderModel::forward: the cache has " + std::to_string(cache.layers.size()) +
                              " layers, the model " + std::to_string(layers.size()));
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].layer == static_cast<Index>(i)) continue;
      throw_error<ShapeError>("DecoderModel::forward: layers[" + std::to_string(i) + "].layer is " +
                              std::to_string(layers[i].layer) + ", expected " + std::to_string(i));
    }
    check_dim("DecoderModel::forward", "attention_mask", attention_mask, 0, input_ids.dim(0),
              "batch of input_ids");
    check_dim("DecoderModel::forward", "attention_mask", attention_mask, 1, cache.length() + input_ids.dim(1),
              "tokens in the cache and in input_ids together");
  }

  void check_context(const Tensor<std::int64_t>& position_ids) const {
    std::int64_t first_position = 0;
    std::int64_t last_position = 0;
    for (Index batch = 0; batch < position_ids.rows(); ++batch) {
      first_position = (std::min)(first_position, position_ids.row(batch).minCoeff());
      last_position = (std::max)(last_position, position_ids.row(batch).maxCoeff());
    }
    if (first_position < 0 || last_position == (std::numeric_limits<std::int64_t>::max)()) {
      throw_error<ShapeError>("DecoderModel::forward: position_ids hold " +
                              std::to_string(first_position < 0 ? first_position : last_position) +
                              ", expected positions from 0");
    }
    if (last_position < max_position_embeddings) return;
    throw_error<UsageError>("DecoderModel::forward: " + std::to_string(last_position + 1) +
                            " tokens do not fit the context of " + std::to_string(max_position_embeddings) +
                            " (max_position_embeddings)");
  }
};

}  // namespace glassbox
