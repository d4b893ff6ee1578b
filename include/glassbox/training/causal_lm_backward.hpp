// The whole model in training: one pass forward, the loss, and one pass backward that leaves the gradient of
// every parameter.
#pragma once

#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/training/cross_entropy.hpp"
#include "glassbox/training/decoder_layer_backward.hpp"
#include "glassbox/training/embedding_backward.hpp"

namespace glassbox {

// Texts to learn from, side by side.
struct TrainingBatch {
  Tensor<TokenId> input_ids;            // [batch, seq]
  Tensor<std::int64_t> attention_mask;  // [batch, seq], 1: a token, 0: padding
  Tensor<TokenId> labels;               // [batch, seq], input_ids where they count, else ignore_index
};

// What the backward of the model needs of its forward.
template <std::floating_point Scalar>
struct CausalLMActivations {
  Tensor<Scalar> cos;            // [batch, seq, head_dim]
  Tensor<Scalar> sin;            // [batch, seq, head_dim]
  Tensor<Scalar> additive_mask;  // [batch, 1, seq, seq]
  std::vector<DecoderLayerActivations<Scalar>> layers;
  Tensor<Scalar> last_hidden_states;  // [batch, seq, hidden], the last layer's output
  Tensor<Scalar> norm;                // [batch, seq, hidden]
};

// Whether the activations of the layers are kept, or only each layer's input.
enum class ActivationMemory {
  keep,      // everything the backward needs
  recompute  // gradient checkpointing (Chen 2016, arXiv:1604.06174): a layer's forward runs again before its
             // backward. Less memory, about a third more time, the same gradients to the last bit
};

// Throws ShapeError unless the parts of a batch have one shape and hold a token, TokenError for ids or labels
// that are none, UsageError where a text is longer than the context.
template <std::floating_point Scalar>
void check_training_batch(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch) {
  check_rank("training_forward", "input_ids", batch.input_ids, 2);
  check_same_shape("training_forward", "input_ids", batch.input_ids, "attention_mask", batch.attention_mask);
  check_same_shape("training_forward", "input_ids", batch.input_ids, "labels", batch.labels);
  const KVCache<Scalar> no_cache(static_cast<Index>(causal_lm.model.layers.size()));
  causal_lm.model.check_inputs(batch.input_ids, batch.attention_mask, no_cache);
  const Index vocab_size = causal_lm.model.embed_tokens.weight.out.size;
  check_token_ids("training_forward", batch.input_ids, vocab_size);
  check_label_ids("training_forward", batch.labels, vocab_size);
  causal_lm.model.check_context(position_ids_from_mask(batch.attention_mask, batch.input_ids.dim(1)));
}

// CausalLM::forward over whole texts, line by line, with its intermediates kept.
//   ->  logits [batch, seq, vocab]
template <std::floating_point Scalar>
Tensor<Scalar> causal_lm_training_forward(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch,
                                          ActivationMemory memory, CausalLMActivations<Scalar>& activations) {
  check_training_batch(causal_lm, batch);
  Tensor<TokenId> input_ids = batch.input_ids;  // [batch, seq]
  stage("input_ids", -1, input_ids);
  Tensor<std::int64_t> attention_mask = batch.attention_mask;  // [batch, seq]
  stage("attention_mask", -1, attention_mask);
  const Index seq = input_ids.dim(1);
  Tensor<std::int64_t> position_ids = position_ids_from_mask(attention_mask, seq);  // [batch, seq]
  stage("position_ids", -1, position_ids);
  causal_lm.model.check_context(position_ids);

  Tensor<Scalar> inputs_embeds = causal_lm.model.embed_tokens.forward(input_ids);  // [batch, seq, hidden]
  stage("inputs_embeds", -1, inputs_embeds);
  RotaryTables<Scalar> rotary = causal_lm.model.rotary_emb.forward(position_ids);
  activations.cos = std::move(rotary.cos);  // [batch, seq, head_dim]
  stage("cos", -1, activations.cos);
  activations.sin = std::move(rotary.sin);  // [batch, seq, head_dim]
  stage("sin", -1, activations.sin);
  Tensor<bool> expanded_mask = expand_mask(attention_mask);  // [batch, 1, 1, key]
  stage("expanded_mask", -1, expanded_mask);
  Tensor<bool> causal_mask = make_causal_mask(expanded_mask, seq);  // [batch, 1, query, key]
  stage("causal_mask", -1, causal_mask);
  activations.additive_mask = make_additive_mask<Scalar>(causal_mask);  // [batch, 1, query, key]
  stage("additive_mask", -1, activations.additive_mask);

  Tensor<Scalar> hidden_states = inputs_embeds;  // [batch, seq, hidden]
  activations.layers.clear();
  for (const DecoderLayer<Scalar>& decoder_layer : causal_lm.model.layers) {
    DecoderLayerActivations<Scalar> layer_activations;
    Tensor<Scalar> layer_output =
        decoder_layer_training_forward(decoder_layer, hidden_states, activations.cos, activations.sin,
                                       activations.additive_mask, layer_activations);
    hidden_states = std::move(layer_output);
    if (memory == ActivationMemory::keep) {
      activations.layers.push_back(std::move(layer_activations));
    } else {
      activations.layers.emplace_back();
      activations.layers.back().residual = std::move(layer_activations.residual);  // the layer's input
    }
  }
  activations.last_hidden_states = std::move(hidden_states);                        // [batch, seq, hidden]
  activations.norm = causal_lm.model.norm.forward(activations.last_hidden_states);  // [batch, seq, hidden]
  stage("norm", -1, activations.norm);
  Tensor<Scalar> logits = causal_lm.lm_head.forward(activations.norm, causal_lm.model.embed_tokens.weight);
  stage("logits", -1, logits);  // [batch, seq, vocab]
  return logits;
}

// Backward of logits = norm_output . weight^T, where weight is lm_head's own or, tied, the embedding's, whose
// gradient then has two sources. d_logits [batch, seq, vocab]  ->  d_norm [batch, seq, hidden]
template <std::floating_point Scalar>
Tensor<Scalar> lm_head_backward(const CausalLM<Scalar>& causal_lm, const Tensor<Scalar>& norm_output,
                                const Tensor<Scalar>& d_logits, CausalLM<Scalar>& gradients) {
  if (causal_lm.lm_head.weight.empty()) {
    return matmul_backward(causal_lm.model.embed_tokens.weight, norm_output, d_logits,
                           gradients.model.embed_tokens.weight);
  }
  return matmul_backward(causal_lm.lm_head.weight, norm_output, d_logits, gradients.lm_head.weight);
}

// d_logits [batch, seq, vocab]. The gradient of every parameter is added to `gradients`, a model of the same
// shape (zero_gradients). `activations` are used up: each layer's are freed when its backward is done.
template <std::floating_point Scalar>
void causal_lm_backward(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch,
                        CausalLMActivations<Scalar>& activations, Tensor<Scalar>& d_logits,
                        ActivationMemory memory, CausalLM<Scalar>& gradients) {
  stage("d_logits", -1, d_logits);  // [batch, seq, vocab]

  // forward: logits = lm_head.forward(norm_output)
  Tensor<Scalar> d_norm = lm_head_backward(causal_lm, activations.norm, d_logits, gradients);
  stage("d_norm", -1, d_norm);  // [batch, seq, hidden]
  // forward: norm_output = norm.forward(hidden_states)
  Tensor<Scalar> d_hidden_states = rms_norm_backward(causal_lm.model.norm, activations.last_hidden_states,
                                                     d_norm, gradients.model.norm);  // [batch, seq, hidden]

  // forward: for each layer, hidden_states = decoder_layer.forward(hidden_states): the last one first
  for (std::size_t i = causal_lm.model.layers.size(); i-- > 0;) {
    const DecoderLayer<Scalar>& decoder_layer = causal_lm.model.layers[i];
    DecoderLayerActivations<Scalar>& layer_activations = activations.layers[i];
    if (memory == ActivationMemory::recompute) {
      const Tensor<Scalar> layer_input = std::move(layer_activations.residual);
      decoder_layer_training_forward(decoder_layer, layer_input, activations.cos, activations.sin,
                                     activations.additive_mask, layer_activations);
    }
    Tensor<Scalar> d_residual =
        decoder_layer_backward(decoder_layer, activations.cos, activations.sin, layer_activations,
                               d_hidden_states, gradients.model.layers[i]);
    d_hidden_states = std::move(d_residual);
    layer_activations = DecoderLayerActivations<Scalar>();
  }

  // forward: inputs_embeds = embed_tokens.forward(input_ids)
  Tensor<Scalar> d_inputs_embeds = std::move(d_hidden_states);  // [batch, seq, hidden]
  stage("d_inputs_embeds", -1, d_inputs_embeds);
  embedding_backward(batch.input_ids, d_inputs_embeds, gradients.model.embed_tokens);
}

// The loss of a batch, and the gradient of every parameter, added to `gradients`.
// `counted`: the labels that the mean is over; 0: those of this batch. A batch that is split into parts gives
// the number of the whole, so that the parts' gradients add up to those of the whole.
// The result's loss is that of this batch alone.
template <std::floating_point Scalar>
CrossEntropy<Scalar> loss_and_gradients(const CausalLM<Scalar>& causal_lm, const TrainingBatch& batch,
                                        CausalLM<Scalar>& gradients, Index counted = 0,
                                        ActivationMemory memory = ActivationMemory::keep) {
  CausalLMActivations<Scalar> activations;
  Tensor<Scalar> logits = causal_lm_training_forward(causal_lm, batch, memory, activations);
  Tensor<TokenId> labels = batch.labels;  // [batch, seq]
  stage("labels", -1, labels);
  Tensor<TokenId> shifted_labels = shift_labels(labels);  // [batch, seq]
  stage("shifted_labels", -1, shifted_labels);
  CrossEntropy<Scalar> result = cross_entropy(logits, shifted_labels);
  stage("token_losses", -1, result.token_losses);  // [batch, seq]
  Tensor<Scalar> loss({{"loss", 1}});
  loss(0) = Scalar(result.loss);
  stage("loss", -1, loss);
  if (result.counted == 0) return result;  // nothing to learn from: every gradient is zero
  const Index mean_over = counted == 0 ? result.counted : counted;
  Tensor<Scalar> d_logits = cross_entropy_backward(logits, shifted_labels, mean_over);  // [batch, seq, vocab]
  logits = Tensor<Scalar>();  // large, and needed no more
  causal_lm_backward(causal_lm, batch, activations, d_logits, memory, gradients);
  return result;
}

}  // namespace glassbox
