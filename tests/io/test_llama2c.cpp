// llama2.c files of version 0 and 1.
// Faults that must turn this red: up_proj and down_proj exchanged; rows of q or k not reordered, or reordered
// across heads; the tables not skipped, or skipped in version 1; the sign of vocab_size ignored; wcls before
// the tables; a size check that lets one byte more or less through.
#include "glassbox/io/llama2c.hpp"

#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"

namespace glassbox {
namespace io_llama2c_test {

using test_support::bytes_of;
using test_support::llama2c_bytes;
using test_support::random_weights;
using test_support::StoredTensor;
using test_support::StoredTensors;
using test_support::TemporaryFolder;
using test_support::tiny_config;

ModelConfig config_with_pairs(bool tied) {
  ModelConfig config = tiny_config();
  config.hidden_size = 16;
  config.head_dim = 4;  // two pairs a head, so that their order matters
  config.tie_word_embeddings = tied;
  return config;
}

StoredCheckpoint open_bytes(const TemporaryFolder& folder, const std::string& bytes) {
  return open_llama2c(std::make_shared<const MappedFile>(folder.write("model.bin", bytes)));
}

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  try {
    open_bytes(folder, bytes);
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.starts_with(folder.file("model.bin")) ? text.substr(folder.file("model.bin").size()) : text;
  }
  return "nothing was thrown";
}

// Every weight byte for byte what was written, in both versions, tied and not.
TEST(Llama2c, EveryWeightComesBack) {
  for (const bool tied : {true, false}) {
    const ModelConfig config = config_with_pairs(tied);
    const StoredTensors tensors = random_weights(config, 3);
    for (const int version : {0, 1}) {
      const TemporaryFolder folder;
      const StoredCheckpoint checkpoint = open_bytes(folder, llama2c_bytes(config, tensors, version));
      ASSERT_EQ(checkpoint.weights.size(), tensors.size());
      for (const std::pair<const std::string, StoredTensor>& tensor : tensors) {
        const WeightMatrix& weight = checkpoint.weights.at(tensor.first);
        ASSERT_EQ(static_cast<std::size_t>(weight.bytes()), tensor.second.bytes.size());
        EXPECT_EQ(std::memcmp(weight.data(), tensor.second.bytes.data(), tensor.second.bytes.size()), 0)
            << tensor.first << " version " << version;
        const bool reordered = tensor.first.find("q_proj") != std::string::npos ||
                               tensor.first.find("k_proj") != std::string::npos;
        EXPECT_EQ(weight.owned.empty(), !reordered) << tensor.first << ": only q and k need a copy";
      }
    }
  }
}

// The order within a head, by hand: rows of pairs (0, 1), (2, 3) become 0, 2, 1, 3.
TEST(Llama2c, RowsOfOneHead) {
  ModelConfig config = config_with_pairs(true);
  StoredTensors tensors = random_weights(config, 3);
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = open_bytes(folder, llama2c_bytes(config, tensors, 0));
  const std::string bytes = test_support::read_bytes(folder.file("model.bin"));
  // After the header: embedding [11, 16], input_layernorm of 2 layers, then q_proj of layer 0.
  const std::size_t q_begin = 28 + 4 * (11 * 16 + 2 * 16);
  const WeightMatrix& q_proj = checkpoint.weights.at("model.layers.0.self_attn.q_proj.weight");
  const std::size_t file_rows[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_EQ(std::memcmp(q_proj.data() + row * 64, bytes.data() + q_begin + file_rows[row] * 64, 64), 0)
        << row;
  }
}

TEST(Llama2c, ConfigurationAndWhatIsAssumed) {
  const ModelConfig config = config_with_pairs(false);
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = open_bytes(folder, llama2c_bytes(config, random_weights(config, 3), 0));
  EXPECT_EQ(checkpoint.config.hidden_size, 16);
  EXPECT_EQ(checkpoint.config.intermediate_size, 6);
  EXPECT_EQ(checkpoint.config.num_hidden_layers, 2);
  EXPECT_EQ(checkpoint.config.num_attention_heads, 4);
  EXPECT_EQ(checkpoint.config.num_key_value_heads, 2);
  EXPECT_EQ(checkpoint.config.head_dim, 4);
  EXPECT_EQ(checkpoint.config.vocab_size, 11);
  EXPECT_EQ(checkpoint.config.max_position_embeddings, 16);
  EXPECT_FALSE(checkpoint.config.tie_word_embeddings);
  EXPECT_EQ(checkpoint.config.rms_norm_eps, 1e-5);
  EXPECT_EQ(checkpoint.config.rope_theta, 10000.0);
  EXPECT_EQ(checkpoint.config.bos_token_id, 1);
  EXPECT_EQ(checkpoint.config.eos_token_id, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(checkpoint.generation_config.eos_token_id, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(checkpoint.report.format, "llama2.c version 0");
  EXPECT_EQ(checkpoint.report.assumptions,
            (std::vector<std::string>{
                "rms_norm_eps = 1e-05 (fixed in run.c, not stored)",
                "rope_theta = 10000 (fixed in run.c, not stored)",
                "hidden_act = \"silu\" (fixed in run.c, not stored)",
                "bos_token_id = 1, eos_token_id = [1, 2] (1 as in run.c, 2 Llama's; not stored)",
                "greedy (sampling settings are not stored)"}));
  std::vector<std::string> unused;
  for (const ReportedTensor& tensor : checkpoint.report.tensors) {
    if (tensor.used_as.empty()) {
      unused.push_back(tensor.name + " " + std::to_string(tensor.bytes) + ": " + tensor.unused_because);
    }
  }
  EXPECT_EQ(unused,
            (std::vector<std::string>{"freq_cis_real 128: a table: computed from rope_theta and head_dim",
                                      "freq_cis_imag 128: a table: computed from rope_theta and head_dim"}));
}

TEST(Llama2c, TheSizeMustBeExact) {
  for (const bool tied : {true, false}) {
    const ModelConfig config = config_with_pairs(tied);
    for (const int version : {0, 1}) {
      const std::string bytes = llama2c_bytes(config, random_weights(config, 3), version);
      EXPECT_EQ(error_of(bytes), "nothing was thrown");
      const std::string rest = " bytes present, " + std::to_string(bytes.size()) +
                               " needed by its llama2.c header (version " + std::to_string(version) +
                               ", dim 16, hidden_dim 6, n_layers 2, n_heads 4, n_kv_heads 2, vocab_size 11, "
                               "seq_len 16)";
      EXPECT_EQ(error_of(bytes.substr(0, bytes.size() - 1)), ": " + std::to_string(bytes.size() - 1) + rest);
      EXPECT_EQ(error_of(bytes + "x"), ": " + std::to_string(bytes.size() + 1) + rest);
    }
  }
}

TEST(Llama2c, TruncatedHeaders) {
  const ModelConfig config = config_with_pairs(true);
  const std::string bytes = llama2c_bytes(config, random_weights(config, 3), 1);
  const std::string advice = " needed for the header of a llama2.c file (incomplete download?)";
  EXPECT_EQ(error_of(""), ": truncated: 0 bytes present, 28" + advice);
  EXPECT_EQ(error_of(bytes.substr(0, 3)), ": truncated: 3 bytes present, 28" + advice);
  EXPECT_EQ(error_of(bytes.substr(0, 255)), ": truncated: 255 bytes present, 256" + advice);
  EXPECT_EQ(error_of(std::string(27, '\1')), ": truncated: 27 bytes present, 28" + advice);
}

std::string with_number(std::string bytes, std::size_t begin, std::int32_t number) {
  return bytes.replace(begin, 4, bytes_of(number));
}

TEST(Llama2c, HeadersThatMakeNoSense) {
  const ModelConfig config = config_with_pairs(true);
  const std::string bytes = llama2c_bytes(config, random_weights(config, 3), 0);
  const char* names[] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(error_of(with_number(bytes, 4 * i, 0)),
              std::string(": not a llama2.c file: ") + names[i] +
                  " is 0, expected a whole number from 1 to 2147483647");
    if (i == 5) continue;  // a negative vocab_size has a meaning
    EXPECT_EQ(error_of(with_number(bytes, 4 * i, -2)),
              std::string(": not a llama2.c file: ") + names[i] +
                  " is -2, expected a whole number from 1 to 2147483647");
  }
  EXPECT_EQ(error_of(with_number(bytes, 20, -2147483647 - 1)),
            ": not a llama2.c file: vocab_size is 2147483648, expected a whole number from 1 to 2147483647");
  EXPECT_EQ(error_of(with_number(bytes, 12, 3)),
            ": not a llama2.c file: dim 16 is not a multiple of 2 * n_heads 3");
  EXPECT_EQ(error_of(with_number(bytes, 16, 3)),
            ": not a llama2.c file: n_heads 4 is not a multiple of n_kv_heads 3");
}

TEST(Llama2c, HugeHeadersAreComparedWithTheFileFirst) {
  const ModelConfig config = config_with_pairs(true);
  const std::string bytes = llama2c_bytes(config, random_weights(config, 3), 0);
  const std::string layers = error_of(with_number(bytes, 8, 2147483647));
  EXPECT_NE(
      layers.find(" needed by its llama2.c header (version 0, dim 16, hidden_dim 6, n_layers 2147483647"),
      std::string::npos)
      << layers;
  const std::string width = error_of(with_number(with_number(bytes, 0, 2147483640), 8, 2147483647));
  EXPECT_EQ(width, ": model.layers.0: more parameters than 64 bits can count");
}

TEST(Llama2c, OtherVersions) {
  const ModelConfig config = config_with_pairs(true);
  const std::string bytes = llama2c_bytes(config, random_weights(config, 3), 1);
  EXPECT_EQ(error_of(with_number(bytes, 4, 2)),
            ": llama2.c version 2 (weights as 8-bit groups, Q8_0) is not read: export with --version 1");
  EXPECT_EQ(error_of(with_number(bytes, 4, 3)),
            ": llama2.c version 3, expected 1 (or a legacy file without a version)");
}

}  // namespace io_llama2c_test
}  // namespace glassbox
