// What the two units of the program share: glassbox's own types, by value and by reference.
#pragma once

#include "glassbox/causal_lm.hpp"

// One pass of the model over new tokens: in the unit other_unit.cpp, whatever that was compiled with.
glassbox::Tensor<float> forward_in_other_unit(const glassbox::CausalLM<float>& causal_lm,
                                              const glassbox::Tensor<glassbox::TokenId>& input_ids,
                                              const glassbox::Tensor<std::int64_t>& attention_mask,
                                              glassbox::KVCache<float>& cache);

// The same tensor, moved in and out.
glassbox::Tensor<float> grown_in_other_unit(glassbox::Tensor<float> tensor);
