// One training step of a 15-million-parameter model (hidden 288, 6 layers, vocabulary 32000; 8 texts of 256
// tokens), again and again: seconds and memory. training_step.py does the same with PyTorch.
//
//   training_step THREADS [STEPS [recompute]]      recompute: gradient checkpointing
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "glassbox/training/initialize.hpp"
#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "support/memory.hpp"

using namespace glassbox;

int main(int argc, char** argv) {
  const Index threads = argc > 1 ? std::atol(argv[1]) : 1;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5;
  const bool recompute = argc > 3 && argv[3] == std::string("recompute");
  const ActivationMemory memory = recompute ? ActivationMemory::recompute : ActivationMemory::keep;
  examples::keep_freed_memory();
  ModelConfig config;
  config.vocab_size = 32000;
  config.hidden_size = 288;
  config.intermediate_size = 768;
  config.num_hidden_layers = 6;
  config.num_attention_heads = 6;
  config.max_position_embeddings = 256;
  config.tie_word_embeddings = true;
  CausalLM<float> causal_lm = initialize_model<float>(config, 1);
  RandomGenerator random(3);
  std::vector<TrainingExample> texts(8);
  for (TrainingExample& text : texts) {
    for (int i = 0; i < 256; ++i) text.ids.push_back(static_cast<TokenId>(random.next_uniform() * 32000));
  }
  BatchReport report;
  const TrainingBatch batch = batch_of(texts, 0, 256, false, report);
  std::vector<Parameter<float>> parameters = parameters_of(causal_lm);
  AdamW<float> optimizer({}, parameters, parameter_rules(parameters));
  GradientWorkers<float> workers(causal_lm, threads);
  std::vector<double> times;
  for (int step = 0; step <= steps; ++step) {
    const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    const StepResult result = training_step(causal_lm, {batch}, workers, optimizer, 1.0, memory);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::fprintf(stderr, "step %d: %.3f s, loss %.4f\n", step, seconds, result.loss);
    if (step > 0) times.push_back(seconds);  // the first one asks for its memory
  }
  std::sort(times.begin(), times.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("glassbox%s, %lld threads: median %.3f s a step, %ld MB at most\n",
              recompute ? ", recompute" : "", static_cast<long long>(threads), times[times.size() / 2],
              usage.ru_maxrss / 1024);
  return 0;
}
