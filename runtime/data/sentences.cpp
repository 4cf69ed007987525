// Tables of texts: each sample is one text or two, with the special tokens of its tokenizer.
#include <algorithm>
#include <filesystem>

#include "runtime/data/csv.h"
#include "runtime/data/formats.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/tokenizer/utf8.h"

namespace runtime::data {
namespace {

// Token ids of all samples, one behind the other, each at most as long as a sample.
struct EncodedTexts {
  std::vector<int32_t> ids, segments;
  std::vector<int64_t> begins = {0};  // of each sample in the two, and the end
  int64_t cut = 0;                    // samples that were longer
};

// Samples of `context` tokens. What a text leaves over is padding: token 0 of segment 0, which
// belongs to no document.
class SentenceDataset final : public Dataset {
 public:
  SentenceDataset(EncodedTexts texts, SampleSpec spec, Targets targets, std::string title)
      : texts_(std::move(texts)),
        spec_(std::move(spec)),
        targets_(std::move(targets)),
        title_(std::move(title)) {
    spec_.classes = targets_.classes;
    spec_.targets = targets_.per_sample;
    const std::vector<int32_t>& segments = texts_.segments;
    const int32_t last = *std::max_element(segments.begin(), segments.end());
    spec_.inputs = {{"segments", spec_.shape, true, 0, last},
                    {"documents", spec_.shape, true, -1, 0}};
  }
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return static_cast<int64_t>(texts_.begins.size()) - 1; }
  void read_features(int64_t index, float* out) const override { copy(texts_.ids, index, out); }
  int32_t label(int64_t index) const override {
    return targets_.labels[static_cast<std::size_t>(index)];
  }
  void read_targets(int64_t index, float* out) const override {
    std::copy_n(targets_.values.data() + index * spec_.targets, spec_.targets, out);
  }
  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    for (const int64_t index : indices) {
      if (input == 0) {
        copy(texts_.segments, index, out.integers);
      } else {
        std::fill_n(out.integers, context(), -1);
        std::fill_n(out.integers, length(index), 0);
      }
      out.integers += context();
    }
  }
  std::string description() const override {
    return describe(title_, size(), spec_) + ", texts of " + std::to_string(spec_.vocabulary) +
           " kinds of tokens";
  }

 private:
  int64_t context() const { return spec_.shape[0]; }
  int64_t length(int64_t index) const { return texts_.begins[index + 1] - texts_.begins[index]; }
  template <class Number>
  void copy(const std::vector<int32_t>& numbers, int64_t index, Number* out) const {
    std::copy_n(numbers.data() + texts_.begins[index], length(index), out);
    std::fill_n(out + length(index), context() - length(index), Number{0});
  }

  EncodedTexts texts_;
  SampleSpec spec_;
  Targets targets_;
  std::string title_;
};

class Encoder {
 public:
  Encoder(const DatasetOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), context_(options.shape[0]) {
    const bool pair = options.texts.size() == 2;
    std::optional<tokenizer::Ids> second;
    if (pair) second.emplace();
    const tokenizer::Marked around = tokenizer.marked({}, second);
    special_ = static_cast<int64_t>(around.ids.size());
    if (special_ < context_) return;
    throw ConfigurationError("model.input is [" + std::to_string(context_) +
                             "], but the tokenizer puts " + std::to_string(special_) +
                             " special tokens around a sample; expected room for more");
  }

  EncodedTexts encode(const CsvTable& table) const {
    EncodedTexts all;
    for (std::size_t i = 0; i < table.texts.size(); ++i) {
      const std::string name = table.part.title + ": sample " + std::to_string(i);
      add(table.texts[i], name, all);
    }
    return all;
  }

 private:
  void add(const std::vector<std::string>& texts, const std::string& name,
           EncodedTexts& all) const {
    std::vector<int32_t> ids[2];
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string text =
          options_.replaces_invalid_utf8 ? tokenizer::with_replacements(texts[i]) : texts[i];
      tokenizer_.encode(text, name, [&](int32_t id) { ids[i].push_back(id); });
    }
    // The longer of two texts loses tokens first, as in the library tokenizers.
    const auto count = [&] { return static_cast<int64_t>(ids[0].size() + ids[1].size()); };
    all.cut += count() + special_ > context_ ? 1 : 0;
    while (count() + special_ > context_) ids[ids[0].size() > ids[1].size() ? 0 : 1].pop_back();
    std::optional<tokenizer::Ids> second;
    if (texts.size() == 2) second = ids[1];
    const tokenizer::Marked marked = tokenizer_.marked(ids[0], second);
    if (marked.ids.empty())
      throw DataError(name + " has no token; expected a text, fill it in or remove the line");
    all.ids.insert(all.ids.end(), marked.ids.begin(), marked.ids.end());
    all.segments.insert(all.segments.end(), marked.segments.begin(), marked.segments.end());
    all.begins.push_back(static_cast<int64_t>(all.ids.size()));
  }

  const DatasetOptions& options_;
  const Tokenizer& tokenizer_;
  int64_t context_, special_ = 0;
};

void check_options(const DatasetOptions& options) {
  if (options.texts.empty() || options.texts.size() > 2) {
    throw ConfigurationError("dataset.texts names " + std::to_string(options.texts.size()) +
                             " columns; expected one column of texts, or two");
  }
  if (options.shape.size() != 1) {
    throw ConfigurationError("model.input is " + shape_text(options.shape) +
                             "; expected [length], the tokens of a sample");
  }
  if (options.tokenizer.empty() || learns_characters(options.tokenizer)) {
    throw ConfigurationError("dataset.tokenizer is \"" + options.tokenizer +
                             "\"; expected byte, gpt2 or hf, for format sentences");
  }
}

}  // namespace

DatasetPair open_sentences(const DatasetOptions& options) {
  check_options(options);
  const TokenizerPointer tokenizer = make_tokenizer(options, "", 0);
  const Encoder encoder(options, *tokenizer);
  CsvOptions csv{.features = {},
                 .target = options.target,
                 .classification = options.classification,
                 .classes = options.classes,
                 .needs_target = options.needs_targets,
                 .header = options.header,
                 .texts = options.texts};
  CsvTable known;
  const CsvTable* before = nullptr;
  if (options.preparation != nullptr) {
    known.class_names = options.preparation->class_names;
    known.named = options.preparation->named;
    before = &known;
  }
  DatasetPair pair;
  const auto part = [&](const CsvTable& table) {
    EncodedTexts texts = encoder.encode(table);
    if (texts.cut > 0) {
      pair.notes.push_back(table.part.title + ": " + std::to_string(texts.cut) + " of " +
                           std::to_string(table.part.samples) + " samples are longer than " +
                           std::to_string(options.shape[0]) + " tokens (model.input) and were cut");
    }
    SampleSpec spec;
    spec.shape = options.shape;
    spec.vocabulary = tokenizer->vocabulary();
    Targets targets = table.part.targets;
    if (!table.labelled && !options.classification && options.preparation != nullptr) {
      targets.per_sample = options.preparation->targets;
      targets.values.assign(table.texts.size() * targets.per_sample, 0);
    }
    return std::make_shared<SentenceDataset>(
        std::move(texts), spec, std::move(targets),
        std::filesystem::path(table.part.title).filename().string());
  };
  const CsvTable train = read_csv(options.path, csv, before);
  pair.train = part(train);
  if (!options.validation_path.empty())
    pair.validation = part(read_csv(options.validation_path, csv, &train));
  pair.labelled = train.labelled;
  pair.preparation.named = train.named;
  pair.preparation.class_names = train.class_names;
  pair.preparation.tokenizer = tokenizer_identity(options);
  return pair;
}

}  // namespace runtime::data
