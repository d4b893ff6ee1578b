// The causal language model: token ids in, logits of the next token out.
#pragma once

#include "glassbox/decoder_model.hpp"
#include "glassbox/lm_head.hpp"

namespace glassbox {

// The last `count` positions of [batch, seq, hidden] (transformers: hidden_states[:, -logits_to_keep:, :]).
template <std::floating_point Scalar>
Tensor<Scalar> last_positions(const Tensor<Scalar>& hidden_states, Index count) {
  check_rank("last_positions", "hidden_states", hidden_states, 3);
  if (count < 1 || count > hidden_states.dim(1)) {
    throw_error<ShapeError>("last_positions: the last " + std::to_string(count) +
                            " positions of hidden_states " + shape_string(hidden_states) + " do not exist");
  }
  Tensor<Scalar> last({hidden_states.axis(0), {"seq", count}, hidden_states.axis(2)});
  for (Index batch = 0; batch < hidden_states.dim(0); ++batch) {
    last.matrix(batch) = hidden_states.matrix(batch).bottomRows(count);
  }
  return last;
}

// A decoder with its LM head. Member paths are the checkpoint's names:
// model.layers[0].self_attn.q_proj.weight (transformers LlamaForCausalLM).
template <std::floating_point Scalar>
struct CausalLM {
  ModelConfig config;
  DecoderModel<Scalar> model;
  LMHead<Scalar> lm_head;

  // One pass over new tokens. input_ids [batch, seq]; attention_mask [batch, past + seq] of 0/1 with
  // past = cache.length(); the cache grows by seq. logits_to_keep: 0 for all positions, else that many of the
  // last.
  //   ->  logits [batch, seq or logits_to_keep, vocab]
  Tensor<Scalar> forward(const Tensor<TokenId>& input_ids, const Tensor<std::int64_t>& attention_mask,
                         KVCache<Scalar>& cache, Index logits_to_keep = 0) const {
    check_logits_to_keep(input_ids, logits_to_keep);  // before the cache grows
    KVCacheRollback<Scalar> rollback(cache);
    Tensor<Scalar> hidden_states = model.forward(input_ids, attention_mask, cache);  // [batch, seq, hidden]
    const Index kept = logits_to_keep == 0 ? hidden_states.dim(1) : logits_to_keep;
    Tensor<Scalar> kept_states = last_positions(hidden_states, kept);                 // [batch, kept, hidden]
    Tensor<Scalar> logits = lm_head.forward(kept_states, model.embed_tokens.weight);  // [batch, kept, vocab]
    stage("logits", -1, logits);
    rollback.keep();
    return logits;
  }

  void check_logits_to_keep(const Tensor<TokenId>& input_ids, Index logits_to_keep) const {
    if (logits_to_keep == 0 || (logits_to_keep > 0 && logits_to_keep <= input_ids.cols())) return;
    throw_error<ShapeError>("CausalLM::forward: logits_to_keep is " + std::to_string(logits_to_keep) +
                            ", expected 0 (all) to " + std::to_string(input_ids.cols()) + ", as input_ids " +
                            shape_string(input_ids) + " has positions");
  }

  // One pass over a whole text without padding, beginning with an empty cache.
  Tensor<Scalar> forward(const Tensor<TokenId>& input_ids) const {
    Tensor<std::int64_t> attention_mask = Tensor<std::int64_t>::like(input_ids);
    for (Index batch = 0; batch < input_ids.rows(); ++batch) attention_mask.row(batch).setOnes();
    KVCache<Scalar> cache(config.num_hidden_layers);
    return forward(input_ids, attention_mask, cache);
  }
};

}  // namespace glassbox
