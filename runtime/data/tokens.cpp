// Reads token ids from memory or files, and cuts them into windows.
#include "runtime/data/tokens.h"

#include <algorithm>
#include <bit>

#include "runtime/data/philox.h"
#include "runtime/data/source.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kChunk = 1024;  // tokens in a buffer on the stack
// Number of windows whose order takes 2 GiB.
constexpr int64_t kMaxWindows = int64_t{1} << 28;

template <class Id>
class MemoryTokens final : public Tokens {
 public:
  explicit MemoryTokens(Held<Id> ids) : ids_(std::move(ids)) {}
  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  void read(int64_t first, int64_t count, int32_t* out) const override {
    std::copy_n(ids_.data() + first, count, out);
  }

 private:
  Held<Id> ids_;
};

template <class Id>
class FileTokens final : public Tokens {
 public:
  FileTokens(const std::string& path, int64_t vocabulary) : file_(path), vocabulary_(vocabulary) {
    if (file_.size() == 0 || file_.size() % sizeof(Id) != 0) {
      fail_at(path, file_.size() - file_.size() % sizeof(Id),
              "the file has " + std::to_string(file_.size()) + " bytes; expected a multiple of " +
                  std::to_string(sizeof(Id)) +
                  ", the bytes of a token; the file is cut, or dataset.token_type is another");
    }
  }

  int64_t size() const override { return static_cast<int64_t>(file_.size() / sizeof(Id)); }

  void read(int64_t first, int64_t count, int32_t* out) const override {
    Id ids[kChunk];
    for (int64_t done = 0; done < count;) {
      const int64_t n = std::min(count - done, kChunk);
      const uint64_t offset = static_cast<uint64_t>(first + done) * sizeof(Id);
      if (file_.read_at(offset, ids, n * sizeof(Id)) != n * sizeof(Id)) {
        fail_at(file_.path(), offset,
                "the data end here, but the file had " + std::to_string(file_.size()) +
                    " bytes when it was opened; leave it alone while it is in use");
      }
      for (int64_t i = 0; i < n; ++i) out[done + i] = checked(ids[i], offset + i * sizeof(Id));
      done += n;
    }
  }

 private:
  int32_t checked(Id id, uint64_t offset) const {
    if (id >= vocabulary_) {
      fail_at(file_.path(), offset,
              "token " + std::to_string(id) + "; expected 0.." + std::to_string(vocabulary_ - 1) +
                  "; the file was made with another vocabulary, or dataset.token_type is another");
    }
    return static_cast<int32_t>(id);
  }

  File file_;
  int64_t vocabulary_;
};

class SyntheticTokens final : public Tokens {
 public:
  SyntheticTokens(int64_t size, int64_t vocabulary, uint64_t seed)
      : size_(size), vocabulary_(vocabulary), seed_(seed) {}
  int64_t size() const override { return size_; }
  void read(int64_t first, int64_t count, int32_t* out) const override {
    for (int64_t i = first; i < first + count; ++i) {
      const PhiloxCounter block =
          random_block(seed_, RandomUse::kSyntheticOffset, 0, static_cast<uint64_t>(i / 2));
      *out++ = static_cast<int32_t>((block[0] + i % 2) % vocabulary_);
    }
  }

 private:
  int64_t size_, vocabulary_;
  uint64_t seed_;
};

class TokenDataset final : public Dataset {
 public:
  TokenDataset(std::shared_ptr<const Tokens> tokens, const Windows& windows, SampleSpec spec,
               const std::string& title)
      : tokens_(std::move(tokens)), windows_(windows), spec_(std::move(spec)), title_(title) {
    spec_.shape = {windows.context};
    spec_.labels = windows.context;
    spec_.vocabulary = spec_.classes;
    if (windows.separator >= 0 || spec_.masking != nullptr)
      spec_.inputs = token_inputs(windows.context, spec_.masking != nullptr);
    const int64_t count = windows.end - windows.begin;
    if (count < windows.context + 1) {
      throw DataError(title + ": " + std::to_string(count) +
                      " tokens for a part; expected at least " +
                      std::to_string(windows.context + 1) +
                      ", the length of model.input and the token after it");
    }
    if (size() > kMaxWindows) {
      throw DataError(title + ": dataset.stride = " + std::to_string(windows.stride) + " makes " +
                      std::to_string(size()) + " samples; expected at most " +
                      std::to_string(kMaxWindows) + "; choose a larger stride");
    }
  }

  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override {
    return (windows_.end - windows_.begin - windows_.context - 1) / windows_.stride + 1;
  }

  void read_features(int64_t index, float* out) const override {
    int32_t ids[kChunk];
    for (int64_t done = 0; done < windows_.context;) {
      const int64_t n = std::min(windows_.context - done, kChunk);
      tokens_->read(begin_of(index) + done, n, ids);
      std::copy_n(ids, n, out + done);
      done += n;
    }
  }

  int32_t label(int64_t index) const override {
    int32_t id = 0;
    tokens_->read(begin_of(index) + first_label(), 1, &id);
    return id;
  }
  void read_labels(int64_t index, int32_t* out) const override {
    tokens_->read(begin_of(index) + first_label(), windows_.context, out);
  }
  void read_targets(int64_t, float*) const override {}
  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    const int64_t count = static_cast<int64_t>(indices.size()) * windows_.context;
    if (input == kMasked) {
      std::fill_n(out.floats, count, 1.0f);
      return;
    }
    if (input == kSegments) {
      std::fill_n(out.integers, count, 0);
      return;
    }
    const bool positions = input == kPositions;
    for (const int64_t index : indices) {
      tokens_->read(begin_of(index), windows_.context, out.integers);
      int32_t document = 0, position = 0;
      for (int64_t i = 0; i < windows_.context; ++i) {
        const bool ends = *out.integers == windows_.separator;
        *out.integers++ = positions ? position : document;
        position = ends ? 0 : position + 1;
        document += ends ? 1 : 0;
      }
    }
  }

  std::string description() const override {
    return title_ + ", " + std::to_string(windows_.end - windows_.begin) + " tokens of " +
           std::to_string(spec_.classes) + " kinds, " + std::to_string(size()) + " samples of " +
           std::to_string(windows_.context);
  }

 private:
  enum : std::size_t { kDocuments, kPositions, kSegments, kMasked };  // as token_inputs()
  int64_t first_label() const { return spec_.masking != nullptr ? 0 : 1; }
  int64_t begin_of(int64_t index) const { return windows_.begin + index * windows_.stride; }

  std::shared_ptr<const Tokens> tokens_;
  Windows windows_;
  SampleSpec spec_;
  std::string title_;
};

}  // namespace

std::shared_ptr<const Tokens> make_tokens(Held<uint16_t> ids) {
  return std::make_shared<MemoryTokens<uint16_t>>(std::move(ids));
}

std::shared_ptr<const Tokens> make_tokens(Held<int32_t> ids) {
  return std::make_shared<MemoryTokens<int32_t>>(std::move(ids));
}

std::shared_ptr<const Tokens> open_token_file(const std::string& path, int width,
                                              int64_t vocabulary) {
  if (width == 2) return std::make_shared<FileTokens<uint16_t>>(path, vocabulary);
  return std::make_shared<FileTokens<uint32_t>>(path, vocabulary);
}

std::shared_ptr<const Tokens> make_synthetic_tokens(int64_t size, int64_t vocabulary,
                                                    uint64_t seed) {
  return std::make_shared<SyntheticTokens>(size, vocabulary, seed);
}

std::vector<SampleInput> token_inputs(int64_t context, bool masked) {
  const auto last = static_cast<int32_t>(context - 1);
  std::vector<SampleInput> inputs = {{"documents", {context}, true, 0, last},
                                     {"positions", {context}, true, 0, last},
                                     {"segments", {context}, true, 0, 0}};
  if (masked) inputs.push_back({TokenMasking::kInput, {context}, false});
  return inputs;
}

int64_t count_vocabulary(const Tokens& tokens) {
  int32_t ids[kChunk];
  int32_t largest = 0;
  for (int64_t done = 0; done < tokens.size(); done += kChunk) {
    const int64_t n = std::min(tokens.size() - done, kChunk);
    tokens.read(done, n, ids);
    largest = std::max(largest, *std::max_element(ids, ids + n));
  }
  return int64_t{largest} + 1;
}

std::shared_ptr<const Dataset> make_token_dataset(std::shared_ptr<const Tokens> tokens,
                                                  const Windows& windows, SampleSpec spec,
                                                  const std::string& title) {
  return std::make_shared<TokenDataset>(std::move(tokens), windows, std::move(spec), title);
}

}  // namespace runtime::data
