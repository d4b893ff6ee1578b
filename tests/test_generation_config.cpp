// generation_config.hpp: defaults, messages, and the context that follows.
//
// Faults that must turn this file red:
//   - validate() that leaves a field out, or the settings of the sampler
//   - context 0 taken literally; more than the model's positions accepted, or exactly as many refused
#include "glassbox/generation_config.hpp"

#include <gtest/gtest.h>

#include "support/expect_near.hpp"

namespace glassbox {
namespace generation_config_test {

using test_support::throws;

TEST(GenerationConfig, DefaultIsGreedyWithoutAnEnd) {
  const GenerationConfig config;
  EXPECT_EQ(config.sampling.temperature, 0);
  EXPECT_EQ(config.max_new_tokens, 256);
  EXPECT_TRUE(config.eos_token_id.empty());
  EXPECT_TRUE(config.stop_strings.empty());
  EXPECT_EQ(config.seed, 0U);
  EXPECT_EQ(config.context, 0);
  EXPECT_NO_THROW(config.validate());
}

TEST(GenerationConfig, ErrorsNameTheSetting) {
  GenerationConfig config;
  config.max_new_tokens = 0;
  EXPECT_NO_THROW(config.validate());
  config.max_new_tokens = -1;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "generation: max_new_tokens is -1, expected a whole number >= 0"));
  config = GenerationConfig();
  config.context = -5;
  EXPECT_TRUE(
      throws<UsageError>([&] { config.validate(); },
                         "generation: context is -5, expected a whole number >= 1, or 0 (the model's own)"));
  config = GenerationConfig();
  config.eos_token_id = {2, -1};
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "generation: eos_token_id contains -1, expected ids >= 0"));
  config = GenerationConfig();
  config.stop_strings = {"end", ""};
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); }, "generation: a stop string is empty"));
  config.stop_strings = {"end", "a\xE4\xBD"};
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "generation: the stop string \"a\\xE4\\xBD\" is not well-formed UTF-8"));
  config = GenerationConfig();
  config.sampling.top_p = 2;
  EXPECT_TRUE(throws<UsageError>([&] { config.validate(); },
                                 "sampling: top_p is 2, expected a number from 0 to 1 (off)"));
}

TEST(GenerationConfig, Context) {
  GenerationConfig config;
  EXPECT_EQ(context_length(config, 512), 512);
  config.context = 100;
  EXPECT_EQ(context_length(config, 512), 100);
  config.context = 512;
  EXPECT_EQ(context_length(config, 512), 512);
  config.context = 513;
  EXPECT_TRUE(
      throws<UsageError>([&] { context_length(config, 512); },
                         "generation: context is 513, more than the model's max_position_embeddings 512"));
}

}  // namespace generation_config_test
}  // namespace glassbox
