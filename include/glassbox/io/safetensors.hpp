// Safetensors files: 8 bytes with the length of a JSON header, the header, then the numbers of every tensor.
// Opening one checks the whole header against the file, so that afterwards every tensor lies within it.
// Source: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "glassbox/axis.hpp"
#include "glassbox/io/json.hpp"
#include "glassbox/io/mapped_file.hpp"

namespace glassbox {

static_assert(std::endian::native == std::endian::little, "files are little-endian and used as they lie");

// Bytes of one element of a safetensors type; 0 for a type the format does not have.
inline Index safetensors_dtype_bytes(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64" || dtype == "C64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" || dtype == "F8_E5M2") return 1;
  return 0;
}

// One entry of the header: where a tensor lies.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as the file spells it: F32, BF16, I64, ...
  std::vector<Index> shape;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t bytes = 0;
};

// "[96, 48]", as Python prints a shape.
inline std::string sizes_string(const std::vector<Index>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// Throws the error of a file that ends too early; `what` is what the missing bytes are.
[[noreturn]] inline void throw_truncated(const MappedFile& file, std::uint64_t needed,
                                         const std::string& what) {
  throw_error<FormatError>(file.name() + ": truncated: " + std::to_string(file.size()) + " bytes present, " +
                           std::to_string(needed) + " needed for " + what + " (incomplete download?)");
}

// Invariant: every tensor lies within the file, has as many bytes as its shape and type need, and no two
// tensors share a byte.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path)
      : mapped_(std::make_shared<const MappedFile>(path)) {
    const std::uint64_t header_bytes = read_header_length();
    const std::string_view header = mapped_->text(8, header_bytes);
    if (header.empty() || header.front() != '{') {
      throw_error<FormatError>(name() + ": not a safetensors file: its header does not begin with {");
    }
    const Json json = parse_json(name(), header, 8);
    for (Json::const_iterator item = json.begin(); item != json.end(); ++item) {
      if (item.key() == "__metadata__") {
        check_metadata(item.value());
        continue;
      }
      tensors_.push_back(read_entry(item.key(), item.value(), 8 + header_bytes));
    }
    check_layout(8 + header_bytes);
  }

  const std::string& name() const { return mapped_->name(); }
  const std::shared_ptr<const MappedFile>& mapped() const { return mapped_; }
  // In the order of their bytes in the file.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::byte* data(const SafetensorsTensor& tensor) const { return mapped_->data() + tensor.begin; }

  // A null pointer where the file has no tensor of this name.
  const SafetensorsTensor* find(const std::string& tensor_name) const {
    for (const SafetensorsTensor& tensor : tensors_) {
      if (tensor.name == tensor_name) return &tensor;
    }
    return nullptr;
  }

 private:
  std::shared_ptr<const MappedFile> mapped_;
  std::vector<SafetensorsTensor> tensors_;

  std::uint64_t read_header_length() const {
    // The length of a header may by chance have the bytes that a pickle begins with: look for the header
    // first.
    const bool header_follows = mapped_->text(0, 9).ends_with('{');
    const std::string advice = header_follows ? "" : recognise_file(*mapped_);
    if (!advice.empty()) throw_error<FormatError>(name() + ": " + advice);
    if (mapped_->size() < 8) throw_truncated(*mapped_, 8, "the length of the header");
    std::uint64_t length = 0;
    std::memcpy(&length, mapped_->data(), 8);
    const std::uint64_t longest = 100'000'000;  // as the format's own library
    if (length > longest) {
      throw_error<FormatError>(name() + ": not a safetensors file: a header of " + std::to_string(length) +
                               " bytes, at most " + std::to_string(longest) + " are allowed");
    }
    if (length > mapped_->size() - 8) throw_truncated(*mapped_, 8 + length, "the header");
    return length;
  }

  [[noreturn]] void throw_entry(const std::string& tensor_name, const std::string& problem) const {
    throw_error<FormatError>(name() + ": tensor " + tensor_name + ": " + problem);
  }

  // Texts about the file; nothing in them concerns the numbers.
  void check_metadata(const Json& metadata) const {
    bool texts = metadata.is_object();
    for (const Json& value : metadata) texts = texts && value.is_string();
    if (texts) return;
    throw_error<FormatError>(name() + ": __metadata__ is " + json_text(metadata) +
                             ", expected an object whose values are strings");
  }

  // A whole number >= 0 of the header.
  Index read_size(const std::string& tensor_name, const Json& value, const char* what) const {
    const std::uint64_t limit = std::uint64_t{0x7FFFFFFFFFFFFFFF};
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > limit) {
      throw_entry(tensor_name, std::string(what) + " holds " + json_text(value) +
                                   ", expected a whole number from 0 to " + std::to_string(limit));
    }
    return static_cast<Index>(value.get<std::uint64_t>());
  }

  SafetensorsTensor read_entry(const std::string& tensor_name, const Json& entry,
                               std::uint64_t data_begin) const {
    const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                          entry.contains("shape") && entry["shape"].is_array() &&
                          entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
                          entry["data_offsets"].size() == 2 && entry.size() == 3;
    if (!complete) {
      throw_entry(tensor_name, "its entry is " + json_text(entry) +
                                   ", expected {\"dtype\": string, \"shape\": [sizes], \"data_offsets\": " +
                                   "[begin, end]}");
    }
    SafetensorsTensor tensor;
    tensor.name = tensor_name;
    tensor.dtype = entry["dtype"].get<std::string>();
    for (const Json& size : entry["shape"]) tensor.shape.push_back(read_size(tensor_name, size, "shape"));
    const Index begin = read_size(tensor_name, entry["data_offsets"][0], "data_offsets");
    const Index end = read_size(tensor_name, entry["data_offsets"][1], "data_offsets");
    if (end < begin) {
      throw_entry(tensor_name, "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                                   "] end before they begin");
    }
    tensor.begin = data_begin + static_cast<std::uint64_t>(begin);
    tensor.bytes = static_cast<std::uint64_t>(end - begin);
    check_bytes(tensor);
    return tensor;
  }

  void check_bytes(const SafetensorsTensor& tensor) const {
    const Index element_bytes = safetensors_dtype_bytes(tensor.dtype);
    if (element_bytes == 0) throw_entry(tensor.name, "unknown dtype " + json_text(Json(tensor.dtype)));
    std::vector<Index> factors = tensor.shape;
    factors.push_back(element_bytes);
    const std::uint64_t expected = size_of(name() + ": tensor " + tensor.name, factors);
    if (tensor.bytes != expected) {
      throw_entry(tensor.name, "data_offsets span " + std::to_string(tensor.bytes) + " bytes, but " +
                                   tensor.dtype + " " + sizes_string(tensor.shape) + " needs " +
                                   std::to_string(expected));
    }
  }

  // The tensors follow each other from the end of the header to the end of the file: no byte twice, none
  // left out. That is how the format forbids hiding or sharing data.
  void check_layout(std::uint64_t data_begin) {
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                       return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
                     });
    std::uint64_t position = data_begin;
    std::string previous = "the header";
    for (const SafetensorsTensor& tensor : tensors_) {
      if (tensor.begin < position) throw_entry(tensor.name, "overlaps " + previous);
      if (tensor.begin > position) {
        throw_entry(tensor.name, std::to_string(tensor.begin - position) + " bytes between " + previous +
                                     " and it belong to no tensor");
      }
      position = tensor.begin + tensor.bytes;
      previous = tensor.name;
    }
    if (position > mapped_->size()) throw_truncated(*mapped_, position, "the tensors");
    if (position < mapped_->size()) {
      throw_error<FormatError>(name() + ": " + std::to_string(mapped_->size() - position) +
                               " bytes after the last tensor belong to none");
    }
  }
};

// All tensors of a folder, wherever they lie: in model.safetensors or in the shards that
// model.safetensors.index.json names.
struct SafetensorsFolder {
  struct Place {
    std::size_t file = 0;    // index into files
    std::size_t tensor = 0;  // index into files[file].tensors()
  };
  std::vector<SafetensorsFile> files;
  std::map<std::string, Place> places;  // by tensor name
  std::vector<Place> not_in_index;      // in a shard, but the index has them elsewhere or not at all
};

// The shard of each tensor, as the index says. Throws FormatError for anything but plain file names.
inline std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index_path) {
  JsonObject index(index_path.string(), read_json(index_path));
  const Json* found = index.find("weight_map");
  if (found == nullptr || !found->is_object() || found->empty()) {
    throw_error<FormatError>(index.file() + ": has no \"weight_map\" {tensor: file}");
  }
  std::map<std::string, std::string> weight_map;
  for (Json::const_iterator item = found->begin(); item != found->end(); ++item) {
    const std::string shard = item.value().is_string() ? item.value().get<std::string>() : "";
    const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                       shard.find_first_of("/\\:") == std::string::npos &&
                       shard.find('\0') == std::string::npos;
    if (!plain) {
      throw_error<FormatError>(index.file() + ": weight_map: tensor " + item.key() + " is in " +
                               json_text(item.value()) + ", expected the name of a file in this folder");
    }
    weight_map[item.key()] = shard;
  }
  return weight_map;
}

// Every shard is looked for before one is opened, so that all missing ones are named at once.
inline void check_shards_exist(const std::filesystem::path& folder, const std::string& index_name,
                               const std::set<std::string>& shards) {
  std::string missing;
  std::size_t count = 0;
  for (const std::string& shard : shards) {
    if (path_exists(folder / shard)) continue;
    missing += (count == 0 ? "" : ", ") + shard;
    count += 1;
  }
  if (count == 0) return;
  throw_error<FormatError>((folder / index_name).string() + ": " + std::to_string(count) + " of " +
                           std::to_string(shards.size()) + " files are missing: " + missing);
}

inline SafetensorsFolder open_shards(const std::filesystem::path& folder, const std::string& index_name) {
  const std::map<std::string, std::string> weight_map = read_weight_map(folder / index_name);
  std::set<std::string> shards;
  for (const std::pair<const std::string, std::string>& item : weight_map) shards.insert(item.second);
  check_shards_exist(folder, index_name, shards);
  SafetensorsFolder result;
  for (const std::string& shard : shards) {
    const SafetensorsFile& file = result.files.emplace_back(folder / shard);
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      const std::string& name = file.tensors()[i].name;
      const std::map<std::string, std::string>::const_iterator listed = weight_map.find(name);
      if (listed != weight_map.end() && listed->second == shard) {
        result.places[name] = {result.files.size() - 1, i};
      } else {
        result.not_in_index.push_back({result.files.size() - 1, i});
      }
    }
  }
  for (const std::pair<const std::string, std::string>& item : weight_map) {
    if (result.places.count(item.first) == 1) continue;
    throw_error<FormatError>((folder / index_name).string() + ": tensor " + item.first +
                             " is said to be in " + item.second + ", but that file does not have it");
  }
  return result;
}

// A folder with model.safetensors or, without it, with model.safetensors.index.json.
inline SafetensorsFolder open_safetensors_folder(const std::filesystem::path& folder) {
  const std::filesystem::path single = folder / "model.safetensors";
  if (!path_exists(single)) return open_shards(folder, "model.safetensors.index.json");
  SafetensorsFolder result;
  const SafetensorsFile& file = result.files.emplace_back(single);
  for (std::size_t i = 0; i < file.tensors().size(); ++i) result.places[file.tensors()[i].name] = {0, i};
  return result;
}

}  // namespace glassbox
