// generation_config.json.
// Faults that must turn this red: do_sample ignored; top_k not 50 where it is absent; config.json's eos
// winning;
// [] or null read as "use config.json's"; a setting out of range let through; a key neither used nor listed.
#include "glassbox/io/generation_config_json.hpp"

#include "io/temporary_folder.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_generation_config_json_test {

using test_support::TemporaryFolder;

ModelConfig model_config() {
  ModelConfig config;
  config.vocab_size = 32;
  config.bos_token_id = 1;
  config.eos_token_id = {2};
  return config;
}

LoadedGenerationConfig read_text(const std::string& text) {
  const TemporaryFolder folder;
  return read_generation_config_json(folder.write("generation_config.json", text), model_config());
}

std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("generation_config.json", text);
  try {
    read_generation_config_json(path, model_config());
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : "file not named: " + message;
  }
  return "nothing was thrown";
}

std::vector<std::string> ignored(const LoadedGenerationConfig& loaded) {
  std::vector<std::string> texts;
  for (const IgnoredKey& key : loaded.ignored_keys) texts.push_back(key.key + ": " + key.reason);
  return texts;
}

TEST(GenerationConfigJson, GreedyWithoutDoSample) {
  const LoadedGenerationConfig loaded = read_text("{}");
  EXPECT_EQ(loaded.generation_config.sampling.temperature, 0.0);
  EXPECT_EQ(loaded.generation_config.sampling.top_k, 0);
  EXPECT_EQ(loaded.generation_config.max_new_tokens, GenerationConfig().max_new_tokens);
  EXPECT_EQ(loaded.assumptions, (std::vector<std::string>{"has no do_sample, so greedy",
                                                          "has no eos_token_id, so that of config.json"}));
  const LoadedGenerationConfig off = read_text(
      "{\"do_sample\": false, \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": 5, \"min_p\": 0.1, "
      "\"repetition_penalty\": 1.2, \"no_repeat_ngram_size\": 3, \"eos_token_id\": 2}");
  EXPECT_EQ(off.generation_config.sampling.temperature, 0.0);
  EXPECT_EQ(off.generation_config.sampling.top_p, 1.0);
  EXPECT_EQ(off.generation_config.sampling.top_k, 0);
  EXPECT_EQ(off.generation_config.sampling.min_p, 0.0);
  EXPECT_EQ(off.generation_config.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(off.generation_config.sampling.no_repeat_ngram_size, 3);
  EXPECT_TRUE(off.assumptions.empty());
  EXPECT_EQ(ignored(off), (std::vector<std::string>{
                              "temperature: only with do_sample true", "top_k: only with do_sample true",
                              "top_p: only with do_sample true", "min_p: only with do_sample true"}));
}

TEST(GenerationConfigJson, Sampling) {
  const LoadedGenerationConfig loaded = read_text(
      "{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": 0, \"min_p\": 0.05, "
      "\"max_new_tokens\": 77, \"stop_strings\": [\"###\", \"Q:\"], \"eos_token_id\": 2}");
  const SamplingConfig& sampling = loaded.generation_config.sampling;
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_EQ(loaded.generation_config.max_new_tokens, 77);
  EXPECT_EQ(loaded.generation_config.stop_strings, (std::vector<std::string>{"###", "Q:"}));
  EXPECT_TRUE(loaded.assumptions.empty());
  EXPECT_TRUE(loaded.ignored_keys.empty());
}

TEST(GenerationConfigJson, DefaultsOfSampling) {
  const LoadedGenerationConfig loaded =
      read_text("{\"do_sample\": true, \"stop_strings\": \"x\", \"top_p\": null}");
  EXPECT_EQ(loaded.generation_config.sampling.temperature, 1.0);
  EXPECT_EQ(loaded.generation_config.sampling.top_k, 50);
  EXPECT_EQ(loaded.generation_config.sampling.top_p, 1.0);
  EXPECT_EQ(loaded.generation_config.stop_strings, (std::vector<std::string>{"x"}));
  EXPECT_EQ(
      read_text("{\"do_sample\": true, \"temperature\": 0, \"top_k\": 5, \"eos_token_id\": 2}").assumptions,
      (std::vector<std::string>{"has do_sample true and temperature 0, which is greedy"}));
  EXPECT_EQ(loaded.assumptions, (std::vector<std::string>{"has no temperature, so 1 (do_sample is true)",
                                                          "has no top_k, so 50 (do_sample is true)",
                                                          "has no eos_token_id, so that of config.json"}));
}

// V24: this file wins over config.json, null and [] included.
TEST(GenerationConfigJson, EndTokens) {
  EXPECT_EQ(read_text("{\"eos_token_id\": [2, 7]}").generation_config.eos_token_id,
            (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(read_text("{\"eos_token_id\": 9}").generation_config.eos_token_id, (std::vector<TokenId>{9}));
  EXPECT_TRUE(read_text("{\"eos_token_id\": []}").generation_config.eos_token_id.empty());
  EXPECT_TRUE(read_text("{\"eos_token_id\": null}").generation_config.eos_token_id.empty());
  EXPECT_EQ(read_text("{}").generation_config.eos_token_id, (std::vector<TokenId>{2}));
}

TEST(GenerationConfigJson, ABeginTokenOtherThanTheConfigurations) {
  EXPECT_EQ(ignored(read_text("{\"bos_token_id\": 0}")),
            (std::vector<std::string>{"bos_token_id: NOT HONOURED: it is 1 by config.json, and the tokenizer "
                                      "says what begins a text"}));
  EXPECT_TRUE(ignored(read_text("{\"bos_token_id\": 1}")).empty());
  EXPECT_TRUE(ignored(read_text("{\"bos_token_id\": null}")).empty());
}

TEST(GenerationConfigJson, EveryKeyIsUsedOrListed) {
  EXPECT_EQ(
      ignored(read_text("{\"bos_token_id\": 1, \"max_length\": 4096, \"num_beams\": 1, \"typical_p\": 1.0, "
                        "\"penalty_alpha\": null, \"mine\": 3}")),
      (std::vector<std::string>{
          "num_beams: has the value that changes nothing",
          "penalty_alpha: has the value that changes nothing",
          "typical_p: has the value that changes nothing",
          "max_length: counts the prompt too; the context of the model is the limit here",
          "mine: unknown to this library"}));
  for (const KeyReason& other : other_generation_keys) {
    EXPECT_EQ(ignored(read_text(std::string("{\"") + other.key + "\": 17}")),
              (std::vector<std::string>{std::string(other.key) +
                                        ": NOT HONOURED: this library does not choose tokens in this way"}));
  }
}

TEST(GenerationConfigJson, WrongValues) {
  EXPECT_EQ(error_of("{\"temperature\": -0.5}"),
            "\"temperature\" is -0.5, expected 0 (greedy) or a number from 1e-5 to 1e5");
  EXPECT_EQ(error_of("{\"temperature\": \"0.5\"}"),
            "\"temperature\" is \"0.5\", expected 0 (greedy) or a number from 1e-5 to 1e5");
  EXPECT_EQ(error_of("{\"top_p\": 1.5}"), "\"top_p\" is 1.5, expected a number from 0 to 1 (off)");
  EXPECT_EQ(error_of("{\"min_p\": -0.1}"), "\"min_p\" is -0.1, expected a number from 0 (off) to 1");
  EXPECT_EQ(error_of("{\"top_k\": 1.5}"),
            "\"top_k\" is 1.5, expected a whole number from 0 to 1000000000000000000");
  EXPECT_EQ(error_of("{\"repetition_penalty\": 0}"),
            "\"repetition_penalty\" is 0, expected a number from 1e-3 to 1e3, 1 is off");
  EXPECT_EQ(error_of("{\"no_repeat_ngram_size\": -1}"),
            "\"no_repeat_ngram_size\" is -1, expected a whole number from 0 to 1000000000000000000");
  EXPECT_EQ(error_of("{\"max_new_tokens\": 0}"),
            "\"max_new_tokens\" is 0, expected a whole number from 1 to 2147483647");
  EXPECT_EQ(error_of("{\"do_sample\": 1}"), "\"do_sample\" is 1, expected true or false");
  EXPECT_EQ(error_of("{\"stop_strings\": [\"\"]}"),
            "\"stop_strings\" is [\"\"], expected a text or a list of texts, none empty");
  EXPECT_EQ(
      error_of("{\"eos_token_id\": [2, 32]}"),
      "\"eos_token_id\" is [2,32], expected an id from 0 to 31 (below vocab_size), a list of such ids, or "
      "null");
}

}  // namespace io_generation_config_json_test
}  // namespace glassbox
