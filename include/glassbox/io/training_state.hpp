// Stopping a training and going on as if it had not stopped: weights, the optimizer's moments and the
// program's own counters in one file, so that no crash can leave parts of two states.
//
//   save_training_state("state.safetensors", parameters_of(causal_lm), optimizer, {{{"next_text", 320}},
//   {}}); TrainingProgress progress = load_training_state("state.safetensors", parameters, optimizer);
//
// The file is a safetensors file: NAME, exp_avg.NAME and exp_avg_sq.NAME of every parameter
// (torch.optim.AdamW's words), and the rest as JSON in its __metadata__.
#pragma once

#include <cmath>
#include <concepts>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "glassbox/io/save_safetensors.hpp"
#include "glassbox/tensor.hpp"

namespace glassbox {

// Who has an optimizer has included training/adamw.hpp; files can be read and written without it.
template <std::floating_point Scalar>
struct Parameter;
template <std::floating_point Scalar>
struct AdamW;

// Where a program is, in its own words: "epoch", "next_text", "best_loss", ... Both kinds come back exactly:
// all 64 bits of an integer (a std::uint64_t seed by static_cast<Index> and back), every double, infinities
// and NaN too.
struct TrainingProgress {
  std::map<std::string, Index> integers;
  std::map<std::string, double> numbers;

  bool operator==(const TrainingProgress&) const = default;
};

inline constexpr const char* training_state_key = "glassbox.training_state";  // in __metadata__
inline constexpr Index training_state_version = 1;

// JSON has no infinities and no NaN: they are texts there.
inline Json number_json(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

inline void check_progress_name(const std::string& name) {
  if (is_utf8(name)) return;
  throw_error<UsageError>("training state: the name \"" + escaped_bytes(name) +
                          "\" is not well-formed UTF-8");
}

// Throws UsageError for a name that is no text.
inline std::string training_state_json(const TrainingProgress& progress, Index step_count) {
  Json json;
  json["version"] = training_state_version;
  json["step_count"] = step_count;
  json["integers"] = Json::object();
  json["numbers"] = Json::object();
  for (const std::pair<const std::string, Index>& item : progress.integers) {
    check_progress_name(item.first);
    json["integers"][item.first] = item.second;
  }
  for (const std::pair<const std::string, double>& item : progress.numbers) {
    check_progress_name(item.first);
    json["numbers"][item.first] = number_json(item.second);
  }
  return json.dump();
}

// What a safetensors file says about itself: its __metadata__, empty without any.
inline SafetensorsMetadata read_safetensors_metadata(const SafetensorsFile& file) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.mapped()->data(), 8);
  const Json header = parse_json(file.name(), file.mapped()->text(8, header_bytes), 8);
  if (!header.contains("__metadata__")) return {};
  return header["__metadata__"]
      .get<SafetensorsMetadata>();  // SafetensorsFile has checked that these are texts
}

// Reads what training_state_json writes. Every wrong value is a FormatError that names file and key.
class TrainingStateReader {
 public:
  explicit TrainingStateReader(const SafetensorsFile& file) : file_(file.name()) {
    const SafetensorsMetadata metadata = read_safetensors_metadata(file);
    const SafetensorsMetadata::const_iterator found = metadata.find(training_state_key);
    if (found == metadata.end()) {
      throw_error<FormatError>(file_ + ": is not a training state: its __metadata__ has no \"" +
                               training_state_key + "\"");
    }
    state_ = parse_json(file_ + ": __metadata__: " + training_state_key, found->second);
    if (!state_.is_object()) throw_value("", state_, "an object");
    const Index version = integer("version", value_of(state_, "version"));
    if (version == training_state_version) return;
    throw_value("version", version, std::to_string(training_state_version));
  }

  Index step_count() const {
    const Index count = integer("step_count", value_of(state_, "step_count"));
    if (count < 0) throw_value("step_count", count, "a whole number >= 0");
    return count;
  }

  TrainingProgress progress() const {
    TrainingProgress progress;
    const Json& integers = object("integers");
    for (Json::const_iterator item = integers.begin(); item != integers.end(); ++item) {
      progress.integers[item.key()] = integer(item.key(), item.value());
    }
    const Json& numbers = object("numbers");
    for (Json::const_iterator item = numbers.begin(); item != numbers.end(); ++item) {
      progress.numbers[item.key()] = number(item.key(), item.value());
    }
    return progress;
  }

 private:
  std::string file_;
  Json state_;

  [[noreturn]] void throw_value(const std::string& key, const Json& found,
                                const std::string& expected) const {
    throw_error<FormatError>(file_ + ": training state: " + (key.empty() ? "it" : "\"" + key + "\"") +
                             " is " + json_text(found) + ", expected " + expected);
  }

  // null where the key is absent, which no reader takes
  static Json value_of(const Json& object, const std::string& key) {
    return object.contains(key) ? object[key] : Json();
  }

  const Json& object(const std::string& key) const {
    if (state_.contains(key) && state_[key].is_object()) return state_[key];
    throw_value(key, value_of(state_, key), "an object");
  }

  Index integer(const std::string& key, const Json& value) const {
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{0x7FFFFFFFFFFFFFFF});
    if (!fits) throw_value(key, value, "a whole number of 64 bits");
    return value.get<Index>();
  }

  double number(const std::string& key, const Json& value) const {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    throw_value(key, value, "a number, \"inf\", \"-inf\" or \"nan\"");
  }
};

// The tensors of a state in the order of its file; their numbers are those of the parameters and the
// optimizer. Throws UsageError where there is not one pair of moments per parameter.
template <std::floating_point Scalar>
std::vector<TensorToSave> training_state_tensors(const std::vector<Parameter<Scalar>>& parameters,
                                                 const AdamW<Scalar>& optimizer) {
  if (optimizer.moments.size() != parameters.size()) {
    throw_error<UsageError>("training state: " + std::to_string(parameters.size()) +
                            " parameters, but the optimizer has moments for " +
                            std::to_string(optimizer.moments.size()));
  }
  std::vector<TensorToSave> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    std::vector<Index> shape;
    for (const Axis& axis : parameters[i].axes) shape.push_back(axis.size);
    const Tensor<Scalar>& exp_avg = optimizer.moments[i].exp_avg;
    const Tensor<Scalar>& exp_avg_sq = optimizer.moments[i].exp_avg_sq;
    const Scalar* values = parameters[i].values;
    tensors.push_back(tensor_to_save(name, shape, values, parameters[i].size));
    tensors.push_back(tensor_to_save("exp_avg." + name, shape, exp_avg.data(), exp_avg.size()));
    tensors.push_back(tensor_to_save("exp_avg_sq." + name, shape, exp_avg_sq.data(), exp_avg_sq.size()));
  }
  return tensors;
}

// Writes the state of a training, in the place of the file that was there; an interrupted save leaves that
// one. The optimizer's config and rules, the learning rate's schedule and the order of the texts are the
// program's settings and not in the file: to go on exactly, they must be the same again. Throws UsageError
// for an optimizer of other parameters, FormatError where the file cannot be written.
template <std::floating_point Scalar>
void save_training_state(const std::filesystem::path& path, const std::vector<Parameter<Scalar>>& parameters,
                         const AdamW<Scalar>& optimizer, const TrainingProgress& progress) {
  SafetensorsMetadata metadata;
  metadata["format"] = "pt";
  metadata[training_state_key] = training_state_json(progress, optimizer.step_count);
  save_safetensors(path, training_state_tensors(parameters, optimizer), metadata);
}

// Throws FormatError unless the file has these tensors, in these types and shapes, and no others.
inline void check_training_state(const SafetensorsFile& file, const std::vector<TensorToSave>& expected) {
  std::set<std::string> names;
  for (const TensorToSave& tensor : expected) {
    names.insert(tensor.name);
    const std::string wanted = tensor.dtype + " " + sizes_string(tensor.shape);
    const SafetensorsTensor* found = file.find(tensor.name);
    if (found == nullptr) {
      throw_error<FormatError>(file.name() + ": tensor " + tensor.name + " is missing, expected " + wanted);
    }
    if (found->dtype == tensor.dtype && found->shape == tensor.shape) continue;
    throw_error<FormatError>(file.name() + ": tensor " + tensor.name + " is " + found->dtype + " " +
                             sizes_string(found->shape) + ", expected " + wanted);
  }
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (names.count(tensor.name) == 1) continue;
    throw_error<FormatError>(file.name() + ": tensor " + tensor.name + " " + sizes_string(tensor.shape) +
                             " belongs to no parameter of this model");
  }
}

// Puts the state of a file into parameters (parameters_of a model of the same configuration and type) and
// optimizer, and returns what the program had saved. Everything is checked before the first number changes.
// Throws FormatError naming file and tensor with what was found and expected.
template <std::floating_point Scalar>
TrainingProgress load_training_state(const std::filesystem::path& path,
                                     const std::vector<Parameter<Scalar>>& parameters,
                                     AdamW<Scalar>& optimizer) {
  const SafetensorsFile file(path);
  const TrainingStateReader reader(file);
  const TrainingProgress progress = reader.progress();
  const Index step_count = reader.step_count();
  const std::vector<TensorToSave> tensors = training_state_tensors(parameters, optimizer);
  for (const TensorToSave& tensor : tensors) check_tensor_to_save("load_training_state", tensor);
  check_training_state(file, tensors);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Scalar* destinations[3] = {parameters[i].values, optimizer.moments[i].exp_avg.data(),
                               optimizer.moments[i].exp_avg_sq.data()};
    for (std::size_t part = 0; part < 3; ++part) {
      const TensorToSave& tensor = tensors[3 * i + part];
      if (tensor.numbers.empty()) continue;
      std::memcpy(destinations[part], file.data(*file.find(tensor.name)), tensor.numbers.size());
    }
  }
  optimizer.step_count = step_count;
  return progress;
}

}  // namespace glassbox
