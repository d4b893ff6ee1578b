// Corrupt checkpoints: whatever the bytes are, the answer is an exception of glassbox or a right result.
// Right means: the same logits as the undamaged file where configuration and weights are the same, else
// numbers of the right shape. GLASSBOX_MUTATIONS sets the number of mutations of each kind of file (default
// 200); the same number, the same mutations. Faults that must turn this red (under the sanitizers, or by the
// limit of memory): any check of sizes or offsets dropped in safetensors.hpp, huggingface.hpp or llama2c.hpp;
// a number read as signed; layers believed before the file is compared; an exception of another library let
// through.
#include "glassbox/io/checkpoint.hpp"

#include <functional>
#include <iostream>

#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"
#if __has_include(<sys/resource.h>)
#include <sys/resource.h>
#endif

namespace glassbox {
namespace io_fuzz_test {

using test_support::llama2c_bytes;
using test_support::random_weights;
using test_support::safetensors_bytes;
using test_support::StoredTensor;
using test_support::StoredTensors;
using test_support::TemporaryFolder;
using test_support::tiny_config;

int mutations_per_kind() {
  const char* text = std::getenv("GLASSBOX_MUTATIONS");
  return text == nullptr ? 200 : std::atoi(text);
}

// Any damage a file may suffer: bits, bytes, pieces moved, doubled or lost, numbers changed.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string bytes) {
    const std::uint64_t rounds = 1 + below(3);
    for (std::uint64_t round = 0; round < rounds; ++round) bytes = mutate_once(std::move(bytes));
    return bytes;
  }

 private:
  RandomGenerator random_;

  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_.next_bits() % limit; }

  std::string mutate_once(std::string bytes) {
    if (bytes.empty()) return std::string(below(40), '\x7f');
    const std::size_t at = below(bytes.size());
    switch (below(9)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        return bytes;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        return bytes;
      case 2:
        return bytes.substr(0, at);
      case 3: {  // a piece written over another place
        const std::string piece = bytes.substr(below(bytes.size()), 1 + below(40));
        return bytes.replace(at, piece.size(), piece);
      }
      case 4: {  // a piece put in once more
        const std::string piece = bytes.substr(below(bytes.size()), 1 + below(40));
        return bytes.insert(at, piece);
      }
      case 5:
        return bytes.erase(at, 1 + below(20));
      case 6:
        return replace_number(bytes, at);
      case 7:
        return replace_word(bytes);
      default:
        return write_integer(bytes, at);
    }
  }

  // The next decimal number of a text becomes another one.
  std::string replace_number(std::string bytes, std::size_t at) {
    const std::size_t begin = bytes.find_first_of("0123456789", at);
    if (begin == std::string::npos) return bytes;
    std::size_t end = begin;
    while (end < bytes.size() && bytes[end] >= '0' && bytes[end] <= '9') ++end;
    const std::vector<std::string> numbers = {"0",
                                              "1",
                                              "2",
                                              "3",
                                              "-1",
                                              "4",
                                              "5",
                                              "7",
                                              "8",
                                              "16",
                                              "17",
                                              "255",
                                              "1e9",
                                              "1e308",
                                              "2147483647",
                                              "2147483648",
                                              "4294967295",
                                              "4294967296",
                                              "9223372036854775807",
                                              "9223372036854775808",
                                              "18446744073709551615",
                                              "18446744073709551616",
                                              "1e400",
                                              "0.5",
                                              "null",
                                              "true",
                                              "\"8\"",
                                              "[]",
                                              "{}",
                                              "[8]",
                                              "12345678901234567890123"};
    return bytes.replace(begin, end - begin, numbers[below(numbers.size())]);
  }

  // A word that the formats know becomes another one.
  std::string replace_word(std::string bytes) {
    const std::vector<std::string> words = {"F32",    "I64",  "BF16", "F16",     "F64",         "U8",
                                            "dtype",  "null", "true", "false",   "shape",       "weight",
                                            "layers", ".0.",  ".1.",  "lm_head", "hidden_size", "head_dim",
                                            "[",      "]",    "{",    "}",       ",",           ":"};
    const std::string& from = words[below(words.size())];
    const std::string& to = words[below(words.size())];
    const std::size_t found = bytes.find(from, below(bytes.size()));
    return found == std::string::npos ? bytes : bytes.replace(found, from.size(), to);
  }

  // Four or eight bytes become an integer from the edges of its range.
  std::string write_integer(std::string bytes, std::size_t at) {
    const std::vector<std::uint64_t> integers = {0,
                                                 1,
                                                 2,
                                                 0x7F,
                                                 0xFF,
                                                 0x7FFF,
                                                 0xFFFF,
                                                 0x7FFFFFFF,
                                                 0x80000000,
                                                 0xFFFFFFFF,
                                                 0x7FFFFFFFFFFFFFFF,
                                                 0x8000000000000000,
                                                 0xFFFFFFFFFFFFFFFF,
                                                 bytes.size(),
                                                 bytes.size() - 8,
                                                 100'000'000,
                                                 100'000'001};
    const std::uint64_t value = integers[below(integers.size())];
    const std::size_t width = below(2) == 0 ? 4 : 8;
    const std::size_t aligned = at / 4 * 4;
    return bytes.replace(aligned, width, std::string(reinterpret_cast<const char*>(&value), width));
  }
};

// What is done with a damaged checkpoint: everything a program does with a good one.
Tensor<float> use(const std::filesystem::path& path) {
  const Checkpoint<float> checkpoint = load_checkpoint<float>(path);
  Tensor<TokenId> input_ids({{"batch", 1}, {"seq", 3}});
  for (Index i = 0; i < 3; ++i) input_ids(0, i) = i % checkpoint.causal_lm.config.vocab_size;
  const Tensor<float> logits = checkpoint.causal_lm.forward(input_ids);
  EXPECT_EQ(logits.dim(2), checkpoint.causal_lm.config.vocab_size);
  return logits;
}

class Fuzz : public ::testing::Test {
 protected:
  ModelConfig config_ = tiny_config();
  StoredTensors tensors_ = random_weights(config_, 9);
  TemporaryFolder folder_;
  int opened_ = 0;
  int refused_ = 0;

  // Nothing here needs more than a few megabytes; a size believed from a file would.
  void SetUp() override {
#if __has_include(<sys/resource.h>) && !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return;
#endif
#endif
    const rlimit limit = {rlim_t{1} << 30, rlim_t{1} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
#endif
  }

  // Writes damaged copies of `bytes` as `name` and opens `path`.
  void run(const std::string& name, const std::string& bytes, const std::filesystem::path& path) {
    folder_.write(name, bytes);
    const Tensor<float> expected = use(path);
    for (int i = 0; i < mutations_per_kind(); ++i) {
      const std::string damaged = Mutator(static_cast<std::uint64_t>(i)).mutate(bytes);
      folder_.write(name, damaged);
      expect_exception_or_right(path, damaged == bytes, expected, i);
    }
    std::cout << name << ": " << refused_ << " refused, " << opened_ << " opened\n";
    if (mutations_per_kind() >= 200) {
      EXPECT_GT(refused_, mutations_per_kind() / 10) << "the mutations hardly damage anything";
    }
  }

  void expect_exception_or_right(const std::filesystem::path& path, bool undamaged,
                                 const Tensor<float>& expected, int mutation) {
    try {
      const Tensor<float> logits = use(path);
      ++opened_;
      if (undamaged) {
        EXPECT_TRUE(test_support::near_tensors(logits, expected, 0)) << "mutation " << mutation;
      }
    } catch (const Error& error) {
      ++refused_;
      EXPECT_GT(std::string(error.what()).size(), 10u);
      EXPECT_FALSE(undamaged) << "mutation " << mutation << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << mutation << ": not an exception of glassbox: " << error.what();
    }
  }
};

TEST_F(Fuzz, Safetensors) {
  folder_.write("config.json", test_support::config_text(config_));
  run("model.safetensors", safetensors_bytes(tensors_), folder_.path());
}

// Mostly the header, where the structure is.
TEST_F(Fuzz, SafetensorsHeader) {
  folder_.write("config.json", test_support::config_text(config_));
  const std::string bytes = safetensors_bytes(tensors_);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string header = bytes.substr(8, length);
  const std::string data = bytes.substr(8 + length);
  folder_.write("model.safetensors", bytes);
  const Tensor<float> expected = use(folder_.path());
  for (int i = 0; i < mutations_per_kind(); ++i) {
    const std::string damaged = Mutator(static_cast<std::uint64_t>(i)).mutate(header);
    folder_.write("model.safetensors", safetensors_bytes(damaged, data));
    expect_exception_or_right(folder_.path(), damaged == header, expected, i);
  }
  if (mutations_per_kind() >= 200) {
    EXPECT_GT(refused_, mutations_per_kind() / 2);
  }
}

TEST_F(Fuzz, ConfigJson) {
  folder_.write("model.safetensors", safetensors_bytes(tensors_));
  run("config.json", test_support::config_text(config_), folder_.path());
}

TEST_F(Fuzz, GenerationConfigJson) {
  test_support::write_folder(folder_, config_, tensors_);
  run("generation_config.json",
      "{\"do_sample\": true, \"temperature\": 0.7, \"top_k\": 40, \"top_p\": 0.9, \"min_p\": 0.01,\n"
      " \"repetition_penalty\": 1.1, \"no_repeat_ngram_size\": 3, \"eos_token_id\": [2, 7],\n"
      " \"max_new_tokens\": 64, \"stop_strings\": [\"a\", \"b\"], \"num_beams\": 1, \"bos_token_id\": 1}",
      folder_.path());
}

TEST_F(Fuzz, ShardIndex) {
  StoredTensors second;
  second["lm_head.weight"] = tensors_["lm_head.weight"];
  tensors_.erase("lm_head.weight");
  std::string map = "\"lm_head.weight\": \"s2\"";
  for (const std::pair<const std::string, StoredTensor>& tensor : tensors_) {
    map += ",\n\"" + tensor.first + "\": \"s1\"";
  }
  folder_.write("config.json", test_support::config_text(config_));
  folder_.write("s1", safetensors_bytes(tensors_));
  folder_.write("s2", safetensors_bytes(second));
  run("model.safetensors.index.json", "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {" + map + "}}",
      folder_.path());
}

TEST_F(Fuzz, Llama2cVersion0) {
  run("model.bin", llama2c_bytes(config_, tensors_, 0), folder_.file("model.bin"));
}

TEST_F(Fuzz, Llama2cVersion1) {
  run("model.bin", llama2c_bytes(config_, tensors_, 1), folder_.file("model.bin"));
}

// Headers alone, where all the numbers are.
TEST_F(Fuzz, Llama2cHeaders) {
  for (const int version : {0, 1}) {
    const std::string bytes = llama2c_bytes(config_, tensors_, version);
    const std::size_t length = version == 0 ? 28 : 40;
    folder_.write("model.bin", bytes);
    const Tensor<float> expected = use(folder_.file("model.bin"));
    for (int i = 0; i < mutations_per_kind(); ++i) {
      const std::string damaged = Mutator(static_cast<std::uint64_t>(i)).mutate(bytes.substr(0, length));
      folder_.write("model.bin", damaged + bytes.substr(length));
      expect_exception_or_right(folder_.file("model.bin"), damaged == bytes.substr(0, length), expected, i);
    }
  }
}

}  // namespace io_fuzz_test
}  // namespace glassbox
