#include "support/stage_printer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>
#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace examples {
namespace {

using glassbox::Axis;
using glassbox::Index;
using glassbox::StageGroup;
using glassbox::StageRecord;
using glassbox::StageRow;

constexpr int line_width = 100;
constexpr std::size_t likeliest_shown = 6;
constexpr const char* other_layers_legend =
    "Of the newest token: the size of its stream (root mean square) before and after the layer, and which "
    "token it looks at most (its share, the mean over the heads).";
constexpr char unbreakable = '\x01';  // a space where wrapped_text must not break the line

// Where a new part of the model begins, and what it is called there.
struct Section {
  const char* first_stage;
  const char* title;
};
constexpr Section sections[] = {
    {"input_ids", "Input: which tokens, which of them count, and where they stand"},
    {"inputs_embeds", "Embedding: model.embed_tokens"},
    {"cos", "Rotary position embedding: model.rotary_emb"},
    {"expanded_mask", "Attention mask: from 0/1 to what is added to the scores"},
    {"residual", "model.layers[N]: the residual stream enters"},
    {"input_layernorm", "model.layers[N].input_layernorm"},
    {"q_proj", "model.layers[N].self_attn: queries, keys and values"},
    {"query_heads", "model.layers[N].self_attn: cut into heads"},
    {"query_states", "model.layers[N].self_attn: turned by the position"},
    {"cached_keys", "model.layers[N].self_attn: the KV cache"},
    {"scores", "model.layers[N].self_attn: who looks at whom"},
    {"context", "model.layers[N].self_attn: what they get from there"},
    {"attn_residual", "model.layers[N]: back into the residual stream"},
    {"post_attention_layernorm", "model.layers[N].post_attention_layernorm"},
    {"gate_proj", "model.layers[N].mlp: the feed-forward, every token by itself"},
    {"layer_output", "model.layers[N]: back into the residual stream again"},
    {"norm", "After the layers: model.norm and lm_head"},
    {"penalized", "Choosing the next token"},
};

// What is different in a decode step, where the shapes alone do not say it.
struct DecodeNote {
  const char* stage;
  const char* note;
};
constexpr DecodeNote decode_notes[] = {
    {"input_ids", "Only the token chosen last is fed: the others are in the cache already."},
    {"attention_mask", "It grows: the mask covers the tokens in the cache too."},
    {"position_ids", "Counting goes on where the prefill stopped."},
    {"causal_mask",
     "One row: the newest token comes after all others, so nothing is hidden from it. That row is the next "
     "line of the prefill's triangle."},
    {"residual", "From here on every tensor has one row: the work of a step is that of one token."},
    {"cached_keys", "The cache grew by one row; the rows of the prefill were not computed again."},
    {"cached_values", "Likewise."},
    {"scores", "One query against all keys: a row, not a square. This is what the cache saves."},
    {"attn_weights", "Shares of one query; they sum to 1."},
};

// "/usr/include/glassbox/attention.hpp" -> "glassbox/attention.hpp"
std::string short_path(const char* file) {
  const std::string path = file;
  const std::size_t at = path.rfind("glassbox/");
  return at == std::string::npos ? path : path.substr(at);
}

std::string axes_text(const std::vector<Axis>& axes) {
  return glassbox::shape_string(axes.data(), static_cast<int>(axes.size()));
}

// The last row of a tensor.
std::vector<double> last_row(const AnyTensor& tensor) {
  std::vector<double> row;
  for (Index i = 0; i < tensor.columns(); ++i) row.push_back(tensor.value(tensor.rows() - 1, i));
  return row;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = (std::min)(text.find(", ", begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 2;
  }
  return parts;
}

// Of the newest token's vector.
double newest_root_mean_square(const AnyTensor& tensor) {
  double sum = 0;
  for (const double number : last_row(tensor)) sum += number * number;
  return std::sqrt(sum / static_cast<double>((std::max)(Index{1}, tensor.columns())));
}

bool over_vocabulary(const AnyTensor& tensor) {
  return tensor.rank() > 0 && std::strcmp(tensor.axes.back().name, "vocab") == 0;
}

// The ids of the largest numbers, the largest first; -infinity is not among them.
std::vector<std::size_t> largest(const std::vector<double>& numbers, std::size_t count) {
  std::vector<std::size_t> ids;
  for (std::size_t id = 0; id < numbers.size(); ++id) {
    if (numbers[id] > -HUGE_VAL) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&numbers](std::size_t a, std::size_t b) { return numbers[a] > numbers[b]; });
  ids.resize((std::min)(ids.size(), count));
  return ids;
}

// Insertions, deletions and changes of letters that make one word of the other (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> previous(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> current(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = (std::min)({changed, previous[j] + 1, current[j - 1] + 1});
    }
    previous = current;
  }
  return previous[b.size()];
}

}  // namespace

std::string unknown_stage_text(const std::string& name) {
  std::vector<std::string> near;
  for (const StageRow& row : glassbox::stage_table) {
    const std::string_view known = row.name;
    if (std::strstr(row.when, "this version does not") != nullptr) continue;
    const bool contained = name.size() >= 3 && (known.find(name) != std::string_view::npos ||
                                                name.find(known) != std::string_view::npos);
    const bool close = edit_distance(known, name) <= (std::min)(std::size_t{3}, name.size() / 3);
    if (contained || close) near.push_back(row.name);
  }
  std::string text = "no stage is called \"" + name + "\"; ";
  if (near.empty()) return text + "without --stage every stage is shown by its name";
  text += near.size() == 1 ? "near it is " : "near it are ";
  for (std::size_t i = 0; i < near.size(); ++i) text += (i == 0 ? "" : ", ") + near[i];
  return text;
}

bool colours_wanted() {
  const char* const no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && no_color[0] != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  if (terminal != nullptr && std::strcmp(terminal, "dumb") == 0) return false;
#if defined(_WIN32)
  return _isatty(1) != 0 && terminal != nullptr;
#else
  return isatty(1) != 0;
#endif
}

std::string wrapped_text(const std::string& text, const std::string& indent, int width) {
  const std::size_t line_end = text.find('\n');
  if (line_end != std::string::npos) {
    return wrapped_text(text.substr(0, line_end), indent, width) +
           wrapped_text(text.substr(line_end + 1), indent, width);
  }
  std::string result;
  std::string line = indent;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t space = (std::min)(text.find(' ', begin), text.size());
    std::string word = text.substr(begin, space - begin);
    std::replace(word.begin(), word.end(), unbreakable, ' ');
    const bool empty = line.size() == indent.size();
    if (!empty && display_width(line) + 1 + display_width(word) > width) {
      result += line + "\n";
      line = indent + word;
    } else {
      line += (empty ? "" : " ") + word;
    }
    begin = space + 1;
  }
  return result + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string StagePrinter::emphasis(const std::string& text) const {
  return options_.colours ? "\x1b[1m" + text + "\x1b[0m" : text;
}

std::string StagePrinter::quiet(const std::string& text) const {
  return options_.colours ? "\x1b[2m" + text + "\x1b[0m" : text;
}

std::string StagePrinter::heading(const std::string& text) const {
  const int rule = (std::max)(3, line_width - 4 - display_width(text));
  const std::string line = "== " + text + " " + std::string(static_cast<std::size_t>(rule), '=');
  return options_.colours ? "\x1b[1;36m" + line + "\x1b[0m" : line;
}

void StagePrinter::begin_pass(Pass pass, const std::string& heading, const std::vector<std::string>& tokens,
                              Index fed) {
  pass_ = pass;
  heading_ = heading;
  tokens_ = tokens;
  fed_ = fed;
  if (pass == Pass::decode) prefill_ = this_pass_;
  this_pass_.clear();
  previous_choosing_.clear();
  summarising_ = false;
}

void StagePrinter::show(StageRecord& record) {
  const AnyTensor tensor(record);
  const std::string name = record.name;
  if (name == "logits") {
    last_logits_ = glassbox::Tensor<double>({tensor.axes.back()});
    for (Index i = 0; i < tensor.columns(); ++i) last_logits_(i) = tensor.value(tensor.rows() - 1, i);
  }
  if (record.layer >= 0 && record.layer != options_.layer) {
    if (options_.stage.empty()) summarise_layer(record, tensor);
    return;
  }
  const StageRow& row = glassbox::stage_row(name);
  const bool everything = options_.stage.empty();
  if (everything || options_.stage == name) {
    print_pending_heading();
    if (summarising_) std::cout << "\n";
    summarising_ = false;
    if (everything) print_section(name, record.layer);
    if (everything && is_unchanged(name, tensor)) {  // one line is enough
      std::cout << emphasis(name) << "  " << tensor.shape() << "  " << tensor.dtype
                << "   the same numbers as " << previous_choosing_ << ": this filter is off\n\n";
    } else {
      print_stage(record, tensor, row);
    }
    ++shown_;
  }
  remember(name, tensor, row);
}

void StagePrinter::print_pending_heading() {
  if (!heading_.empty()) std::cout << heading(heading_) << "\n\n";
  heading_.clear();
}

// In the decode step what is new there; how the value is made was said in the prefill.
void StagePrinter::print_stage(const StageRecord& record, const AnyTensor& tensor,
                               const StageRow& row) const {
  print_head(record, tensor);
  if (pass_ == Pass::prefill) {
    print_sources(row);
    std::cout << quiet(wrapped_text(row.formula, "  "));
    std::cout << wrapped_text(row.why, "  ");
  } else {
    print_difference(row.name, tensor);
  }
  if (is_unchanged(row.name, tensor))
    std::cout << "  Here it has the same numbers as " << previous_choosing_ << ": this filter is off.\n";
  if (std::strcmp(row.name, "coin") == 0 && one_candidate_left())
    std::cout << "  Here one token alone is left, as always at temperature 0: the coin decides nothing.\n";
  std::cout << "  " << statistics_text(tensor) << "\n";
  print_values(tensor);
  std::cout << "\n";
}

void StagePrinter::remember(const std::string& name, const AnyTensor& tensor, const StageRow& row) {
  Seen seen;
  seen.axes = tensor.axes;
  const bool chooses = row.group == StageGroup::choosing && over_vocabulary(tensor);
  if (chooses || name == "logits") {
    seen.values = last_row(tensor);
    previous_choosing_ = name;
  }
  this_pass_[name] = seen;
}

void StagePrinter::print_section(const std::string& name, Index layer) const {
  for (const Section& section : sections) {
    if (name != section.first_stage) continue;
    std::string title = section.title;
    const std::size_t number = title.find("[N]");
    if (number != std::string::npos) title.replace(number, 3, "[" + std::to_string(layer) + "]");
    const int rule = (std::max)(3, line_width - 4 - display_width(title));
    const std::string line = "-- " + title + " " + std::string(static_cast<std::size_t>(rule), '-');
    std::cout << (options_.colours ? "\x1b[36m" + line + "\x1b[0m" : line) << "\n\n";
  }
}

// Name, axes and dtype at the left, the source line at the right.
void StagePrinter::print_head(const StageRecord& record, const AnyTensor& tensor) const {
  const std::string name = record.name;
  const std::string what = "  " + tensor.shape() + "  " + tensor.dtype;
  const std::string where = short_path(record.file) + ":" + std::to_string(record.line);
  const int used = display_width(name + what + where);
  const std::string gap(static_cast<std::size_t>((std::max)(2, line_width - used)), ' ');
  std::cout << emphasis(name) << what << gap << quiet(where) << "\n";
}

// What it is made from, with the shapes those had: how the shape has changed.
void StagePrinter::print_sources(const StageRow& row) const {
  std::string text;
  for (const std::string& source : split_at_commas(row.from)) {
    const std::map<std::string, Seen>::const_iterator seen = this_pass_.find(source);
    std::string shape = seen == this_pass_.end() ? "" : " " + axes_text(seen->second.axes);
    std::replace(shape.begin(), shape.end(), ' ', unbreakable);
    text += (text.empty() ? "from " : ", ") + source + shape;
  }
  std::cout << quiet(wrapped_text(text, "  "));
}

// How a decode step differs from the prefill.
void StagePrinter::print_difference(const std::string& name, const AnyTensor& tensor) const {
  const std::map<std::string, Seen>::const_iterator before = prefill_.find(name);
  std::string text;
  if (before != prefill_.end() && before->second.axes.size() == tensor.axes.size()) {
    for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
      const Axis& was = before->second.axes[i];
      const Axis& is = tensor.axes[i];
      if (was.size == is.size) continue;
      text += (text.empty() ? "prefill -> now: " : ", ") + std::string(is.name) + " " +
              std::to_string(was.size) + " -> " + std::to_string(is.size);
    }
  }
  if (!text.empty()) text += ".";
  for (const DecodeNote& note : decode_notes) {
    if (name == note.stage) text += (text.empty() ? "" : " ") + std::string(note.note);
  }
  if (!text.empty()) std::cout << wrapped_text(text, "  ");
}

// The largest of the last row, with their tokens.
void StagePrinter::print_largest(const AnyTensor& tensor) const {
  const std::vector<double> numbers = last_row(tensor);
  std::vector<std::string> pieces{"largest"};
  std::vector<std::string> values{""};
  for (const std::size_t id : largest(numbers, likeliest_shown)) {
    if (numbers[id] == 0) continue;  // a probability of a token that was filtered out
    pieces.push_back(label_text(options_.piece(static_cast<glassbox::TokenId>(id))));
    values.push_back(number_text(numbers[id], 3));
  }
  std::cout << table_text({pieces, values}, "    ");
}

// Of numbers over the vocabulary the largest, since a corner of them says nothing.
void StagePrinter::print_values(const AnyTensor& tensor) const {
  if (tensor.rank() == 1 && tensor.columns() == 1) {
    if (!tensor.whole_numbers()) return;
    const std::string piece = options_.piece(static_cast<glassbox::TokenId>(tensor.value(0, 0)));
    std::cout << "    the token " << in_quotes(piece) << "\n";
    return;
  }
  if (over_vocabulary(tensor)) {
    print_largest(tensor);
    if (!options_.full) return;
  }
  PrintOptions options;
  options.tokens = tokens_;
  options.fed = fed_;
  options.full = options_.full;
  std::cout << values_text(tensor, options);
}

// A filter that is off passes its input on.
bool StagePrinter::is_unchanged(const std::string& name, const AnyTensor& tensor) const {
  if (!over_vocabulary(tensor) || name == "logits") return false;
  const std::map<std::string, Seen>::const_iterator previous = this_pass_.find(previous_choosing_);
  return previous != this_pass_.end() && previous->second.values == last_row(tensor);
}

bool StagePrinter::one_candidate_left() const {
  const std::map<std::string, Seen>::const_iterator seen = this_pass_.find("probabilities");
  if (seen == this_pass_.end()) return false;
  const std::vector<double>& values = seen->second.values;
  return std::count(values.begin(), values.end(), 0.0) + 1 == static_cast<std::ptrdiff_t>(values.size());
}

void StagePrinter::summarise_layer(const StageRecord& record, const AnyTensor& tensor) {
  const std::string name = record.name;
  if (name == "residual") residual_rms_ = newest_root_mean_square(tensor);
  if (name == "attn_weights") {
    const Index keys = tensor.columns();
    const Index heads = tensor.axes[1].size;
    std::vector<double> shares(static_cast<std::size_t>(keys), 0.0);
    for (Index head = 0; head < heads; ++head) {
      const Index newest = (head + 1) * tensor.rows_per_matrix() - 1;
      for (Index key = 0; key < keys; ++key)
        shares[static_cast<std::size_t>(key)] += tensor.value(newest, key) / static_cast<double>(heads);
    }
    const std::size_t most = largest(shares, 1)[0];
    most_watched_ = in_quotes(tokens_[most]) + " (" + number_text(shares[most], 2) + ")";
  }
  if (name != "layer_output") return;
  print_pending_heading();
  if (!summarising_) {
    std::cout << "-- Other layers do the same with weights of their own: a line each (--layer N shows one in "
                 "full)\n\n"
              << wrapped_text(other_layers_legend, "") << "\n";
  }
  summarising_ = true;
  std::cout << "layer " << record.layer << "   residual stream (rms) "
            << pad_left(number_text(residual_rms_, 2), 5) << " -> "
            << pad_left(number_text(newest_root_mean_square(tensor), 2), 5) << "   looks most at "
            << most_watched_ << "\n";
}

}  // namespace examples
