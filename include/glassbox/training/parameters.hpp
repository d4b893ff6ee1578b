// The parameters of a model as one list, and models made to be trained: every number owned and in the type
// that the arithmetic has. Gradients are kept in a model of the same shape, so that the gradient of
// model.layers[0].self_attn.q_proj.weight is gradients.model.layers[0].self_attn.q_proj.weight.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "glassbox/causal_lm.hpp"

namespace glassbox {

// One weight or bias under its name in the checkpoint, and where its numbers are.
template <std::floating_point Scalar>
struct Parameter {
  std::string name;
  std::vector<Axis> axes;  // [out, in] of a matrix, [in] of a vector
  Scalar* values = nullptr;
  Index size = 0;

  bool is_matrix() const { return axes.size() == 2; }
  RowView<Scalar> view() const { return RowView<Scalar>(values, size); }
};

// The numbers of a weight that is being trained. Throws UsageError where it does not own them in this type.
template <std::floating_point Scalar>
Scalar* trainable_values(const std::string& name, WeightMatrix& weight) {
  if (weight.type != WeightMatrix::stored_type_of<Scalar>() || weight.owned.empty()) {
    throw_error<UsageError>(
        "parameters_of: " + name + " " + shape_string(weight) + " is " +
        (weight.empty()
             ? std::string("empty")
             : std::string(weight.owned.empty() ? "borrowed, " : "owned, ") + stored_type_name(weight.type)) +
        ", expected owned numbers in " + dtype_name<Scalar>() + ": make_trainable() makes such a copy");
  }
  return reinterpret_cast<Scalar*>(weight.owned.data());
}

template <std::floating_point Scalar>
MatrixView<Scalar> trainable_matrix(const std::string& name, WeightMatrix& weight) {
  return MatrixView<Scalar>(trainable_values<Scalar>(name, weight), weight.out.size, weight.in.size);
}

namespace loops {

// The list while it grows.
template <std::floating_point Scalar>
struct ParameterList {
  std::vector<Parameter<Scalar>> parameters;

  void add(const std::string& name, WeightMatrix& weight) {
    Scalar* values = trainable_values<Scalar>(name, weight);
    parameters.push_back({name, {weight.out, weight.in}, values, weight.out.size * weight.in.size});
  }
  void add(const std::string& name, Tensor<Scalar>& vector) {
    parameters.push_back({name, {vector.axis(0)}, vector.data(), vector.size()});
  }
  void add(const std::string& name, Linear<Scalar>& linear) {
    add(name + ".weight", linear.weight);
    if (linear.bias.rank() > 0) add(name + ".bias", linear.bias);
  }
  void add(const std::string& name, DecoderLayer<Scalar>& layer) {
    add(name + ".input_layernorm.weight", layer.input_layernorm.weight);
    add(name + ".self_attn.q_proj", layer.self_attn.q_proj);
    add(name + ".self_attn.k_proj", layer.self_attn.k_proj);
    add(name + ".self_attn.v_proj", layer.self_attn.v_proj);
    add(name + ".self_attn.o_proj", layer.self_attn.o_proj);
    add(name + ".post_attention_layernorm.weight", layer.post_attention_layernorm.weight);
    add(name + ".mlp.gate_proj", layer.mlp.gate_proj);
    add(name + ".mlp.up_proj", layer.mlp.up_proj);
    add(name + ".mlp.down_proj", layer.mlp.down_proj);
  }
};

template <std::floating_point Scalar>
void own_weight(WeightMatrix& weight) {
  if (weight.empty()) return;
  Tensor<Scalar> numbers({weight.out, weight.in});  // [out, in]
  for (Index o = 0; o < weight.out.size; ++o) weight.read_row(o, numbers.row(o));
  weight = WeightMatrix::from_tensor(numbers);
}

}  // namespace loops

// Every parameter, in the order in which data meets them; a tied head is the embedding and stands there once.
// The pointers are good as long as the model lives and no weight of it is replaced.
// Throws UsageError for a weight that is not owned in this type.
template <std::floating_point Scalar>
std::vector<Parameter<Scalar>> parameters_of(CausalLM<Scalar>& causal_lm) {
  loops::ParameterList<Scalar> list;
  list.add("model.embed_tokens.weight", causal_lm.model.embed_tokens.weight);
  for (DecoderLayer<Scalar>& layer : causal_lm.model.layers) {
    list.add("model.layers." + std::to_string(layer.layer), layer);
  }
  list.add("model.norm.weight", causal_lm.model.norm.weight);
  if (!causal_lm.lm_head.weight.empty()) list.add("lm_head.weight", causal_lm.lm_head.weight);
  return std::move(list.parameters);
}

// The same model with weights of its own in this type: what a file lends, or stores in 16 bits, is copied.
// The numbers are those of before; 16-bit ones are widened exactly.
template <std::floating_point Scalar>
CausalLM<Scalar> make_trainable(const CausalLM<Scalar>& causal_lm) {
  CausalLM<Scalar> trainable = causal_lm;
  loops::own_weight<Scalar>(trainable.model.embed_tokens.weight);
  for (DecoderLayer<Scalar>& layer : trainable.model.layers) {
    loops::own_weight<Scalar>(layer.self_attn.q_proj.weight);
    loops::own_weight<Scalar>(layer.self_attn.k_proj.weight);
    loops::own_weight<Scalar>(layer.self_attn.v_proj.weight);
    loops::own_weight<Scalar>(layer.self_attn.o_proj.weight);
    loops::own_weight<Scalar>(layer.mlp.gate_proj.weight);
    loops::own_weight<Scalar>(layer.mlp.up_proj.weight);
    loops::own_weight<Scalar>(layer.mlp.down_proj.weight);
  }
  loops::own_weight<Scalar>(trainable.lm_head.weight);
  return trainable;
}

template <std::floating_point Scalar>
void set_to_zero(CausalLM<Scalar>& gradients) {
  for (Parameter<Scalar>& parameter : parameters_of(gradients)) parameter.view().setZero();
}

// A model of the same shape whose numbers are all zero: room for the gradients.
template <std::floating_point Scalar>
CausalLM<Scalar> zero_gradients(const CausalLM<Scalar>& causal_lm) {
  CausalLM<Scalar> gradients = make_trainable(causal_lm);
  set_to_zero(gradients);
  return gradients;
}

}  // namespace glassbox
