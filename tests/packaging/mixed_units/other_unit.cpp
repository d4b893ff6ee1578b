#include "mixed_units/other_unit.hpp"

glassbox::Tensor<float> forward_in_other_unit(const glassbox::CausalLM<float>& causal_lm,
                                              const glassbox::Tensor<glassbox::TokenId>& input_ids,
                                              const glassbox::Tensor<std::int64_t>& attention_mask,
                                              glassbox::KVCache<float>& cache) {
  return causal_lm.forward(input_ids, attention_mask, cache);
}

glassbox::Tensor<float> grown_in_other_unit(glassbox::Tensor<float> tensor) {
  const glassbox::Tensor<float> copy = tensor;
  tensor.append_rows(copy);
  return tensor;
}
