// How long a prefill and a decode step take, for study_figures.sh, which compiles this in several ways.
// Usage: study_speed LAYERS HIDDEN HEADS KV_HEADS INTERMEDIATE VOCAB. Prints two numbers: milliseconds of a
// prefill of 32 tokens and of a decode step, each the least of several.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "support/random_model.hpp"

namespace {

using namespace glassbox;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// One pass over `count` tokens behind those in the cache.
double pass(const CausalLM<float>& causal_lm, Index count, KVCache<float>& cache) {
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", count}});
  for (Index i = 0; i < count; ++i) input_ids(0, i) = 3 + i % 7;
  Tensor<std::int64_t> attention_mask({{"batch", 1}, {"seq", cache.length() + count}});
  for (Index i = 0; i < attention_mask.cols(); ++i) attention_mask(0, i) = 1;
  const Clock::time_point start = Clock::now();
  causal_lm.forward(input_ids, attention_mask, cache, 1);
  return milliseconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: study_speed LAYERS HIDDEN HEADS KV_HEADS INTERMEDIATE VOCAB\n");
    return 2;
  }
  ModelConfig config;
  config.num_hidden_layers = std::atoll(argv[1]);
  config.hidden_size = std::atoll(argv[2]);
  config.num_attention_heads = std::atoll(argv[3]);
  config.num_key_value_heads = std::atoll(argv[4]);
  config.intermediate_size = std::atoll(argv[5]);
  config.vocab_size = std::atoll(argv[6]);
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.max_position_embeddings = 128;
  const CausalLM<float> causal_lm = test_support::random_model<float>(config, 1);
  double prefill = 1e9;
  double decode = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    KVCache<float> cache(config.num_hidden_layers);
    prefill = (std::min)(prefill, pass(causal_lm, 32, cache));
    for (int step = 0; step < 4; ++step) decode = (std::min)(decode, pass(causal_lm, 1, cache));
  }
  std::printf("%.3f %.3f\n", prefill, decode);
  return 0;
}
