// score_fables: how well a model knows what its story forces.
//
// A fable (support/fables.cpp) often leaves no choice about the next word: Lily is "she", her kite stays red.
// The model gets the true story up to such a word and is right if it finds that word the likeliest. It is
// scored on stories whose name, colour, place and thing it never saw together. With --free it also goes on
// from the opening by itself, and the grammar says whether that is a story.
//
// Worth a breakpoint: score_story, where the logits of a whole story are there.
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "glassbox/causal_lm.hpp"
#include "glassbox/generate.hpp"
#include "glassbox/random.hpp"
#include "glassbox/sampler.hpp"
#include "support/command_line.hpp"
#include "support/fable_words.hpp"
#include "support/fables.hpp"
#include "support/open_model.hpp"

namespace {

using glassbox::Index;
using glassbox::Tensor;
using glassbox::TokenId;

struct Options {
  examples::ModelArguments model;
  std::uint64_t stories = 1000;
  std::uint64_t free_stories = 0;
  std::uint64_t seed = 2;
  double temperature = 1;
  double at_least = 0;
  bool heads = false;
  std::string language = "both";
  std::string split = "held-out";
};

struct Count {
  std::uint64_t right = 0, all = 0;
};
using Score = std::array<Count, fables::scored_kinds>;

double percent(const Count& count) {
  return count.all == 0 ? 0 : 100.0 * static_cast<double>(count.right) / static_cast<double>(count.all);
}

// Throws NumericError where a logit is NaN or +infinity: a broken model must not pass for one that is wrong.
TokenId likeliest(const Tensor<float>& logits, Index position) {
  Tensor<float> next_token_logits({{"vocab", logits.cols()}});
  next_token_logits.row(0) = logits.row(position);
  glassbox::check_logits("score_story", next_token_logits, position);
  return glassbox::argmax(next_token_logits);
}

// How much each head attends to the name that a pronoun stands for, wherever the name stands before it: the
// weights of all these places added. By layer, then by head.
using HeadSums = std::vector<std::vector<double>>;
struct PronounAttention {
  HeadSums before;  // from the token before the pronoun, which predicts it
  HeadSums at;      // from the pronoun
  std::uint64_t pronouns = 0;
};

// attn_weights [batch, head, query, key] of one layer and one story; the query stands `offset` before the
// pronoun.
void add_attention(const Tensor<float>& attn_weights, const std::vector<examples::FableWord>& words,
                   Index offset, std::vector<double>& sums) {
  sums.resize(static_cast<std::size_t>(attn_weights.dim(1)));
  for (const examples::FableWord& pronoun : words) {
    if (pronoun.kind != fables::Kind::pronoun) continue;
    const Index query = pronoun.position - offset;
    for (const examples::FableWord& name : words) {
      if (name.kind != fables::Kind::name || name.position > query) continue;
      for (Index head = 0; head < attn_weights.dim(1); ++head) {
        sums[static_cast<std::size_t>(head)] +=
            static_cast<double>(attn_weights(0, head, query, name.position));
      }
    }
  }
}

// One forward pass for a story's score, and for what its heads look at on the way.
void score_story(const glassbox::CausalLM<float>& causal_lm, const glassbox::Tokenizer& tokenizer,
                 const fables::Story& story, Score& score, PronounAttention& attention) {
  const std::vector<TokenId> ids = tokenizer.encode_with_special_tokens(story.text);
  const std::vector<examples::FableWord> words = examples::fable_words(tokenizer, story, ids);
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", static_cast<Index>(ids.size())}});
  for (std::size_t i = 0; i < ids.size(); ++i) input_ids(0, static_cast<Index>(i)) = ids[i];
  attention.before.resize(causal_lm.model.layers.size());
  attention.at.resize(causal_lm.model.layers.size());
  const glassbox::ScopedStageHook hook([&](const glassbox::StageRecord& record) {
    if (std::string_view(record.name) != "attn_weights") return;
    const std::size_t layer = static_cast<std::size_t>(record.layer);
    add_attention(*record.f32, words, 1, attention.before[layer]);
    add_attention(*record.f32, words, 0, attention.at[layer]);
  });
  const Tensor<float> logits = causal_lm.forward(input_ids);  // [batch, seq, vocab]
  for (const examples::FableWord& word : words) {
    if (word.kind == fables::Kind::pronoun) attention.pronouns += 1;
    const std::size_t kind = static_cast<std::size_t>(word.kind);
    if (!word.recalled || kind >= score.size()) continue;
    score[kind].all += 1;
    // The logits at a position are about the token after it.
    if (likeliest(logits, word.position - 1) == input_ids(0, word.position)) score[kind].right += 1;
  }
}

void print_heads(const char* from, const HeadSums& sums, std::uint64_t pronouns) {
  std::printf("  attention to the name, from %s, mean of %llu\n", from,
              static_cast<unsigned long long>(pronouns));
  for (std::size_t layer = 0; layer < sums.size(); ++layer) {
    std::printf("    layer %zu:", layer);
    for (const double sum : sums[layer])
      std::printf("  %.3f", pronouns == 0 ? 0 : sum / static_cast<double>(pronouns));
    std::printf("\n");
  }
}

constexpr std::uint64_t shown_refusals = 3;

// Stories that the model writes from the opening, and how many of them the grammar accepts.
Count score_free_stories(const glassbox::CausalLM<float>& causal_lm, const glassbox::Tokenizer& tokenizer,
                         glassbox::GenerationConfig config, fables::Language language,
                         const Options& options) {
  Count count;
  glassbox::RandomGenerator seeds(options.seed);
  config.sampling = {};
  config.sampling.temperature = options.temperature;
  config.max_new_tokens = causal_lm.config.max_position_embeddings;
  const std::string prompt(fables::opening(language));
  for (; count.all < options.free_stories; ++count.all) {
    config.seed = seeds.next_bits();
    const glassbox::GenerationResult result =
        glassbox::generate(causal_lm, tokenizer.encode_with_special_tokens(prompt), config, &tokenizer);
    const std::string text = result.prompt_text + result.text;
    const fables::CheckResult check = fables::check_story(language, text);
    if (check.ok) {
      count.right += 1;
    } else if (count.all - count.right < shown_refusals) {
      std::printf("  byte %zu: %s\n    %s\n", check.place, check.message.c_str(),
                  examples::printable(text).c_str());
    }
  }
  return count;
}

// Prints the score of one language; false if a share is below what was asked for.
bool score_language(const glassbox::Checkpoint<float>& checkpoint, const glassbox::Tokenizer& tokenizer,
                    fables::Language language, const Options& options) {
  const fables::Split split = options.split == "train"      ? fables::Split::train
                              : options.split == "held-out" ? fables::Split::held_out
                                                            : fables::Split::any;
  Score score;
  PronounAttention attention;
  glassbox::RandomGenerator seeds(options.seed);
  const char* language_name = language == fables::Language::english ? "English" : "Chinese";
  {
    examples::Progress progress(std::string(language_name) + " stories", options.stories);
    for (std::uint64_t number = 0; number < options.stories; ++number) {
      const fables::Story story = fables::make_story(language, seeds.next_bits(), split);
      score_story(checkpoint.causal_lm, tokenizer, story, score, attention);
      progress.step();
    }
  }
  std::printf("%s, %llu stories\n", language_name, static_cast<unsigned long long>(options.stories));
  bool good = true;
  for (std::size_t kind = 0; options.stories > 0 && kind < score.size(); ++kind) {
    std::printf("  %-8s %7llu of %7llu  %6.2f %%\n", fables::kind_name(static_cast<fables::Kind>(kind)),
                static_cast<unsigned long long>(score[kind].right),
                static_cast<unsigned long long>(score[kind].all), percent(score[kind]));
    good = good && percent(score[kind]) >= options.at_least;
  }
  if (options.heads && options.stories > 0) {
    print_heads("the token that predicts its pronoun", attention.before, attention.pronouns);
    print_heads("the pronoun", attention.at, attention.pronouns);
  }
  if (options.free_stories > 0) {
    const Count count =
        score_free_stories(checkpoint.causal_lm, tokenizer, checkpoint.generation_config, language, options);
    std::printf("  free     %7llu of %7llu  %6.2f %% are stories by the grammar (temperature %g)\n",
                static_cast<unsigned long long>(count.right), static_cast<unsigned long long>(count.all),
                percent(count), options.temperature);
  }
  return good;
}

// What is wrong with the options; empty: nothing.
std::string wrong_options(const Options& options, bool at_least_given) {
  if (!(options.at_least >= 0 && options.at_least <= 100)) return "--at-least must be a number from 0 to 100";
  if (options.stories == 0 && at_least_given) return "--at-least needs --stories to be at least 1";
  if (options.stories == 0 && options.free_stories == 0)
    return "nothing to score: --stories or --free must be at least 1";
  try {
    glassbox::check_setting(glassbox::temperature_range, options.temperature);
  } catch (const glassbox::UsageError& error) {
    return error.what();
  }
  return "";
}

int score_fables(int argc, char** argv) {
  Options options;
  examples::CommandLine command_line(
      "score_fables",
      "Scores a model on fables: is the next word the right one where the story so far forces it? Pronouns,\n"
      "names, things, colours and places count, by default in stories whose name, colour, place and thing\n"
      "training never has together (make_fables --split held-out).");
  options.model.add_to(command_line);
  command_line.option("--stories", options.stories, "N", "how many stories per language");
  command_line.choice("--language", options.language, {"en", "zh", "both"}, "which stories");
  command_line.choice("--split", options.split, {"train", "held-out", "any"}, "which stories");
  command_line.option("--seed", options.seed, "N", "start of the random numbers");
  command_line.option("--at-least", options.at_least, "PERCENT", "fail if a share is below this");
  command_line.option(
      "--free", options.free_stories, "N",
      "also let the model write N stories per language from the opening, and print those that "
      "the grammar refuses");
  command_line.option("--temperature", options.temperature, "T",
                      "for --free; 0: always the likeliest word, so one story is enough");
  command_line.flag(
      "--heads", options.heads,
      "also print how much each head attends to a name from where its pronoun is said: the mean over "
      "all pronouns, a line per layer, a column per head");
  command_line.footer("Example:\n  score_fables --at-least 95 --free 200");
  if (const std::optional<int> exit_code = command_line.parse(argc, argv)) return *exit_code;

  const std::string wrong = wrong_options(options, command_line.given("--at-least"));
  if (!wrong.empty()) return command_line.wrong_use(wrong);
  const glassbox::Checkpoint<float> checkpoint = examples::open_model<float>(options.model);
  const std::unique_ptr<glassbox::Tokenizer> tokenizer =
      examples::open_tokenizer(options.model, checkpoint.causal_lm.config);
  bool good = true;
  for (const fables::Language language : {fables::Language::english, fables::Language::chinese}) {
    const bool english = language == fables::Language::english;
    if (options.language == (english ? "zh" : "en")) continue;
    good = score_language(checkpoint, *tokenizer, language, options) && good;
  }
  if (!good) throw std::runtime_error("a share is below --at-least");
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_main(argc, argv, score_fables); }
