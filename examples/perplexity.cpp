// perplexity: how well a model predicts a text, as one number.
//
// You are here: text -> ids -> windows -> logits -> [loss] -> perplexity
//
// Breakpoints worth setting:
//   break glassbox::window_loss<float>                  one window; its labels are its own ids, shifted
//   break glassbox::cross_entropy<float>                a surprise for each token
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "glassbox/training/perplexity.hpp"
#include "support/open_model.hpp"
#include "support/training_texts.hpp"

namespace {

using glassbox::Index;
using glassbox::TokenId;

struct Options {
  examples::ModelArguments model;
  std::string text;
  std::int64_t context = 0;
  std::string scalar = "float";
};

template <std::floating_point Scalar>
void measure(const Options& options) {
  const glassbox::Checkpoint<Scalar> checkpoint = examples::open_model<Scalar>(options.model);
  const glassbox::CausalLM<Scalar>& causal_lm = checkpoint.causal_lm;
  const std::unique_ptr<glassbox::Tokenizer> tokenizer =
      examples::open_tokenizer(options.model, causal_lm.config);
  const std::vector<TokenId> ids = tokenizer->encode(examples::read_text_file(options.text));
  const Index known = causal_lm.config.max_position_embeddings;
  const Index context = options.context == 0 ? known : options.context;
  if (context > known) {
    throw std::runtime_error("--context " + std::to_string(context) + " is more than the model's " +
                             std::to_string(known) + " (max_position_embeddings)");
  }
  const std::vector<std::vector<TokenId>> windows =
      glassbox::perplexity_windows(ids, tokenizer->bos_id(), context);
  double sum = 0;
  Index counted = 0;
  {
    examples::Progress progress("windows", windows.size());
    for (const std::vector<TokenId>& window : windows) {
      const glassbox::CrossEntropy<Scalar> result = glassbox::window_loss(causal_lm, window);
      sum += result.sum;
      counted += result.counted;
      progress.step();
    }
  }
  if (!std::isfinite(sum))
    throw std::runtime_error("the loss is " + std::to_string(sum) + ": the model is broken");
  if (counted == 0) throw std::runtime_error(options.text + ": no token to predict in it");
  std::printf("%zu tokens in %zu windows of at most %lld, begin token %lld\n", ids.size(), windows.size(),
              static_cast<long long>(context), static_cast<long long>(tokenizer->bos_id()));
  std::printf("mean loss %.6g nats a token\n", sum / static_cast<double>(counted));
  std::printf("perplexity %.6g over %lld tokens\n", glassbox::perplexity_of(sum, counted),
              static_cast<long long>(counted));
}

int perplexity(int argc, char** argv) {
  Options options;
  examples::CommandLine command_line(
      "perplexity",
      "How many equally likely tokens a model hesitates between, on average, while it reads a text: the\n"
      "exponential of the mean surprise. 1 would be to know every token; a model that knows nothing has the\n"
      "size of its vocabulary. Only numbers over the same text and tokenizer can be compared.");
  command_line.positional("MODEL", options.model.model, "a Hugging Face folder or a llama2.c .bin file",
                          true);
  command_line.positional("FILE", options.text, "the text", true);
  command_line.option("--tokenizer", options.model.tokenizer, "FILE",
                      "default: tokenizer.model beside the weights");
  command_line.option("--context", options.context, "N",
                      "tokens of a window, begin token included; 0: as many as the model knows positions");
  command_line.choice("--scalar", options.scalar, {"float", "double"}, "the type that is computed in");
  command_line.footer(
      "The text is cut into windows without overlap, each of which begins with the begin token if the model\n"
      "has one; without one, a window's first token is read but not predicted.\n"
      "\nExample:\n  make_fables --count 1 --split held-out > fable.txt\n"
      "  perplexity examples/models/fables fable.txt");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;
  if (options.context != 0 && options.context < 2)
    return command_line.wrong_use("--context must be at least 2, or 0 for all that the model knows");
  if (options.scalar == "double") {
    measure<double>(options);
  } else {
    measure<float>(options);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, perplexity); }
