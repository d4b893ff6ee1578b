// Stopping a training and going on: the same numbers, to the last bit, as without a break.
//
// Faults that must turn these tests red:
//   - a moment, the step count or a weight not saved or not taken; the two moments exchanged
//   - a double or a 64-bit integer of the program rounded; infinities and NaN lost
//   - a state of another model, type or program taken; a tensor too few or too many not noticed
//   - half of a wrong state taken before the error
#include "glassbox/io/training_state.hpp"

#include <cmath>
#include <limits>

#include "glassbox/training/initialize.hpp"
#include "glassbox/training/parameter_rules.hpp"
#include "glassbox/training/training_batch.hpp"
#include "glassbox/training/training_step.hpp"
#include "io/tiny_checkpoint.hpp"
#include "support/expect_near.hpp"
#include "support/random_model.hpp"

namespace glassbox {
namespace io_training_state_test {

using test_support::read_bytes;
using test_support::TemporaryFolder;
using test_support::throws;

ModelConfig one_layer() {
  ModelConfig config = test_support::small_config();
  config.num_hidden_layers = 1;
  config.vocab_size = 12;
  return config;
}

// A model in training, with the program's counter.
template <typename Scalar>
struct Trained {
  CausalLM<Scalar> causal_lm;
  std::vector<Parameter<Scalar>> parameters;
  AdamW<Scalar> optimizer;
  GradientWorkers<Scalar> workers;
  TrainingProgress progress;

  explicit Trained(const ModelConfig& config, std::uint64_t seed = 1)
      : causal_lm(initialize_model<Scalar>(config, seed)),
        parameters(parameters_of(causal_lm)),
        optimizer({.learning_rate = 0.01, .weight_decay = 0.1}, parameters, parameter_rules(parameters)),
        workers(causal_lm, 1) {
    progress.integers["next_text"] = 0;
    progress.numbers["best_loss"] = std::numeric_limits<double>::infinity();
  }
  Trained(const Trained&) = delete;  // the parameters point into causal_lm
  Trained& operator=(const Trained&) = delete;

  // Each step has another text, told by the counter, and another learning rate, told by the step count.
  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      Index& next_text = progress.integers["next_text"];
      TrainingExample example;
      for (Index i = 0; i < 6; ++i) example.ids.push_back((next_text * 5 + i * i) % 12);
      next_text += 1;
      BatchReport report;
      optimizer.config.learning_rate = 0.01 / double(1 + optimizer.step_count);
      const StepResult result =
          training_step(causal_lm, {batch_of({example}, 0, 6, false, report)}, workers, optimizer, 1.0);
      double& best_loss = progress.numbers["best_loss"];
      best_loss = (std::min)(best_loss, result.loss);
    }
  }
  void save(const std::string& path) const { save_training_state(path, parameters, optimizer, progress); }
  void load(const std::string& path) { progress = load_training_state(path, parameters, optimizer); }

  // Every bit of weights and moments, as the file has them.
  std::string bytes() const {
    std::string all = std::to_string(optimizer.step_count);
    for (const TensorToSave& tensor : training_state_tensors(parameters, optimizer)) {
      all.append(reinterpret_cast<const char*>(tensor.numbers.data()), tensor.numbers.size());
    }
    return all;
  }
};

template <typename Scalar>
class TrainingState : public ::testing::Test {};
TYPED_TEST_SUITE(TrainingState, test_support::Scalars, test_support::ScalarNames);

TYPED_TEST(TrainingState, GoesOnAsIfItHadNotStopped) {
  const TemporaryFolder folder;
  const std::string path = folder.file("state.safetensors");
  Trained<TypeParam> unbroken(one_layer());
  unbroken.train(7);
  {
    Trained<TypeParam> first(one_layer());
    first.train(4);
    first.save(path);
  }
  Trained<TypeParam> second(one_layer(), 99);  // other weights, all of which the file replaces
  second.load(path);
  EXPECT_EQ(second.optimizer.step_count, 4);
  second.train(3);
  EXPECT_EQ(second.bytes() == unbroken.bytes(), true);
  EXPECT_EQ(second.progress, unbroken.progress);
}

// By another way than the reader's: the header read by hand has all tensors in order, and their numbers
// follow.
TEST(TrainingStateFile, ReadByHand) {
  const TemporaryFolder folder;
  Trained<double> trained(one_layer());
  trained.train(2);
  trained.save(folder.file("state"));
  const std::string bytes = read_bytes(folder.file("state"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const nlohmann::ordered_json header = nlohmann::ordered_json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.size(), 1 + 3 * trained.parameters.size());
  const Json state = Json::parse(header["__metadata__"]["glassbox.training_state"].get<std::string>());
  EXPECT_EQ(state["step_count"], 2);
  EXPECT_EQ(state["integers"], Json({{"next_text", 2}}));
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
    const Parameter<double>& parameter = trained.parameters[i];
    const std::pair<std::string, const double*> parts[] = {
        {"", parameter.values},
        {"exp_avg.", trained.optimizer.moments[i].exp_avg.data()},
        {"exp_avg_sq.", trained.optimizer.moments[i].exp_avg_sq.data()}};
    for (const std::pair<std::string, const double*>& part : parts) {
      const nlohmann::ordered_json& entry = header.at(part.first + parameter.name);
      EXPECT_EQ(entry["dtype"], "F64");
      EXPECT_EQ(entry["shape"].size(), parameter.axes.size());
      const std::uint64_t begin = entry["data_offsets"][0];
      const std::size_t size = static_cast<std::size_t>(parameter.size) * 8;
      EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + begin, part.second, size), 0)
          << part.first << parameter.name;
    }
  }
}

TEST(TrainingStateFile, TheProgramsNumbersComeBackExactly) {
  const TemporaryFolder folder;
  Trained<float> trained(one_layer());
  trained.progress.integers = {{"largest", std::numeric_limits<Index>::max()},
                               {"smallest", std::numeric_limits<Index>::min()},
                               {"odd", (Index{1} << 53) + 1},
                               {"seed", static_cast<Index>(0xFEDCBA9876543211u)},
                               {"\xC3\xB6 \"quoted\"\n", 0}};
  trained.progress.numbers = {{"third", 1.0 / 3},
                              {"next", std::nextafter(1.0, 2.0)},
                              {"whole", 5},
                              {"largest", std::numeric_limits<double>::max()},
                              {"smallest", std::numeric_limits<double>::denorm_min()},
                              {"zero", -0.0},
                              {"best", std::numeric_limits<double>::infinity()},
                              {"worst", -std::numeric_limits<double>::infinity()}};
  trained.save(folder.file("state"));
  Trained<float> loaded(one_layer());
  loaded.load(folder.file("state"));
  EXPECT_EQ(loaded.progress, trained.progress);
  EXPECT_TRUE(std::signbit(loaded.progress.numbers["zero"]));
  EXPECT_EQ(static_cast<std::uint64_t>(loaded.progress.integers["seed"]), 0xFEDCBA9876543211u);
  trained.progress.numbers = {{"loss", std::numeric_limits<double>::quiet_NaN()}};
  trained.save(folder.file("state"));
  loaded.load(folder.file("state"));
  EXPECT_TRUE(std::isnan(loaded.progress.numbers["loss"]));
}

// The numbers of a training that went wrong can be looked at later.
TEST(TrainingStateFile, NumbersThatAreNotFinite) {
  const TemporaryFolder folder;
  Trained<float> trained(one_layer());
  trained.parameters[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  trained.optimizer.moments[1].exp_avg_sq(2) = HUGE_VALF;
  trained.save(folder.file("state"));
  Trained<float> loaded(one_layer());
  loaded.load(folder.file("state"));
  EXPECT_EQ(loaded.bytes() == trained.bytes(), true);
}

TEST(TrainingStateFile, ANameThatIsNoText) {
  const TemporaryFolder folder;
  Trained<float> trained(one_layer());
  trained.progress.numbers["\xFF"] = 1;
  EXPECT_TRUE(throws<UsageError>(
      [&] { trained.save(folder.file("state")); },
      "training state: the name \"" + escaped_bytes("\xFF") + "\" is not well-formed UTF-8"));
}

// ---- states that do not fit: nothing of them is taken

class Misfits : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = folder_.file("state");
  Trained<double> trained_{one_layer()};
  const std::string untouched_ = trained_.bytes();

  template <typename ErrorType = FormatError>
  void expect_error(const std::string& text) {
    EXPECT_TRUE(throws<ErrorType>([this] { trained_.load(path_); }, text));
    EXPECT_EQ(trained_.bytes() == untouched_, true);
    EXPECT_EQ(trained_.progress.integers["next_text"], 0);
  }
  // The state of trained_ after a step, with its JSON and its tensors changed by hand.
  void write_state(const std::string& json, const std::vector<TensorToSave>& tensors) {
    save_safetensors(path_, tensors, {{"glassbox.training_state", json}});
  }
  void expect_json_error(const std::string& json, const std::string& text) {
    write_state(json, training_state_tensors(trained_.parameters, trained_.optimizer));
    expect_error(path_ + text);
  }
};

TEST_F(Misfits, NoFile) { expect_error(path_ + ": no such file"); }

TEST_F(Misfits, AFileThatWasCut) {
  Trained<double> other(one_layer());
  other.train(1);
  other.save(path_);
  const std::string bytes = read_bytes(path_);
  folder_.write("state", bytes.substr(0, bytes.size() - 1));
  expect_error(path_ + ": truncated: " + std::to_string(bytes.size() - 1) + " bytes present, " +
               std::to_string(bytes.size()) + " needed for the tensors (incomplete download?)");
}

TEST_F(Misfits, AModelFile) {
  save_safetensors(path_, training_state_tensors(trained_.parameters, trained_.optimizer));
  expect_error(path_ + ": is not a training state: its __metadata__ has no \"glassbox.training_state\"");
  save_safetensors(path_, {}, {});
  expect_error(path_ + ": is not a training state: its __metadata__ has no \"glassbox.training_state\"");
}

TEST_F(Misfits, AnotherType) {
  Trained<float> other(one_layer());
  other.save(path_);
  expect_error(path_ + ": tensor model.embed_tokens.weight is F32 [12, 16], expected F64 [12, 16]");
}

TEST_F(Misfits, AnotherShape) {
  ModelConfig config = one_layer();
  config.intermediate_size = 8;
  Trained<double> other(config);
  other.save(path_);
  expect_error(path_ + ": tensor model.layers.0.mlp.gate_proj.weight is F64 [8, 16], expected F64 [22, 16]");
}

TEST_F(Misfits, AnotherNumberOfLayers) {
  ModelConfig config = one_layer();
  config.num_hidden_layers = 2;
  Trained<double> other(config);
  other.save(path_);
  expect_error(path_ +
               ": tensor model.layers.1.input_layernorm.weight [16] belongs to no parameter of this model");
  config = one_layer();
  config.tie_word_embeddings = true;
  Trained<double> tied(config);
  tied.save(path_);
  expect_error(path_ + ": tensor lm_head.weight is missing, expected F64 [12, 16]");
}

// The last tensor is the wrong one: those before it are not taken either.
TEST_F(Misfits, AMomentIsMissing) {
  Trained<double> other(one_layer());
  other.train(1);
  std::vector<TensorToSave> tensors = training_state_tensors(other.parameters, other.optimizer);
  tensors.pop_back();
  write_state(training_state_json(other.progress, 1), tensors);
  expect_error(path_ + ": tensor exp_avg_sq.lm_head.weight is missing, expected F64 [12, 16]");
}

TEST_F(Misfits, TheProgramsPart) {
  const std::string part = ": training state: ";
  const std::string rest = ",\"integers\":{},\"numbers\":{}}";
  expect_json_error("{",
                    ": __metadata__: glassbox.training_state: not valid JSON at byte 1 (line 1, column 2)");
  expect_json_error("[]", part + "it is [], expected an object");
  expect_json_error("{\"step_count\":1" + rest,
                    part + "\"version\" is null, expected a whole number of 64 bits");
  expect_json_error("{\"version\":2,\"step_count\":1" + rest, part + "\"version\" is 2, expected 1");
  expect_json_error("{\"version\":1,\"step_count\":-1" + rest,
                    part + "\"step_count\" is -1, expected a whole number >= 0");
  expect_json_error("{\"version\":1,\"step_count\":1.5" + rest,
                    part + "\"step_count\" is 1.5, expected a whole number of 64 bits");
  expect_json_error("{\"version\":1,\"step_count\":1,\"numbers\":{}}",
                    part + "\"integers\" is null, expected an object");
  expect_json_error(
      "{\"version\":1,\"step_count\":1,\"integers\":{\"n\":9223372036854775808},\"numbers\":{}}",
      part + "\"n\" is 9223372036854775808, expected a whole number of 64 bits");
  expect_json_error("{\"version\":1,\"step_count\":1,\"integers\":{},\"numbers\":{\"x\":\"1\"}}",
                    part + "\"x\" is \"1\", expected a number, \"inf\", \"-inf\" or \"nan\"");
}

// ---- optimizers that do not fit

TEST_F(Misfits, AnOptimizerOfOtherParameters) {
  trained_.save(path_);
  const AdamWMoments<double> last = trained_.optimizer.moments.back();
  trained_.optimizer.moments.pop_back();
  const std::string text = "training state: 12 parameters, but the optimizer has moments for 11";
  EXPECT_TRUE(throws<UsageError>([this] { trained_.save(path_); }, text));
  EXPECT_TRUE(throws<UsageError>([this] { trained_.load(path_); }, text));
  trained_.optimizer.moments.push_back({last.exp_avg, Tensor<double>({{"parameter", 5}})});
  const std::string size = ": tensor exp_avg_sq.lm_head.weight: has 40 bytes, but F64 [12, 16] needs 1536";
  EXPECT_TRUE(throws<UsageError>([this] { trained_.save(path_); }, "save_safetensors: " + path_ + size));
  EXPECT_TRUE(throws<UsageError>([this] { trained_.load(path_); }, "load_training_state" + size));
}

// ---- a crash while saving

TEST_F(Misfits, AnInterruptedSaveLeavesTheStateBefore) {
  Trained<double> other(one_layer());
  other.train(2);
  other.save(path_);
  folder_.write("state.part", read_bytes(path_).substr(0, 1000));  // what a killed program leaves
  trained_.load(path_);
  EXPECT_EQ(trained_.bytes() == other.bytes(), true);
  other.train(1);
  other.save(path_);
  trained_.load(path_);
  EXPECT_EQ(trained_.bytes() == other.bytes(), true);
}

}  // namespace io_training_state_test
}  // namespace glassbox
