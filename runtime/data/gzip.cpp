// Decompression of gzip (RFC 1952) straight into the reader's memory, with zlib.
#include <zlib.h>

#include <algorithm>
#include <climits>

#include "runtime/data/source.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

constexpr std::size_t kInputSize = std::size_t{1} << 18;
// Deflate never expands more than 1032 times (zlib's technical notes).
constexpr uint64_t kMaxExpansion = 1032;
// Bytes that zlib may still have in its window and bit buffer.
constexpr uint64_t kHeldBack = 1 << 16;
// A compressed file of a few MB must not be able to fill the memory of the machine.
constexpr uint64_t kMaxInflated = uint64_t{4} << 30;

class GzipSource final : public Source {
 public:
  explicit GzipSource(std::unique_ptr<RawSource> raw)
      : Source(raw->name() + " (decompressed)"), raw_(std::move(raw)) {
    constexpr int kGzipOnly = MAX_WBITS + 16;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  uint64_t limit() const override {
    const uint64_t left = kMaxInflated - std::min(offset(), kMaxInflated);
    return std::min(left, (raw_->limit() + stream_.avail_in) * kMaxExpansion + kHeldBack);
  }

 protected:
  std::size_t do_read(uint8_t* out, std::size_t size) override {
    std::size_t done = 0;
    while (done < size && !ended_) done += inflate_some(out + done, size - done);
    return done;
  }

 private:
  std::size_t inflate_some(uint8_t* out, std::size_t size) {
    if (stream_.avail_in == 0) refill();
    const uInt space = static_cast<uInt>(std::min<std::size_t>(size, UINT_MAX));
    stream_.next_out = out;
    stream_.avail_out = space;
    const uInt before = stream_.avail_in;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const std::size_t produced = space - stream_.avail_out;
    if (result == Z_STREAM_END) {
      next_member();
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail_damaged();
    } else if (produced == 0 && before == 0) {
      raw_->fail("the compressed data end too early; the file is cut, fetch it again");
    }
    return produced;
  }

  void refill() {
    stream_.next_in = input_.data.get();
    stream_.avail_in = static_cast<uInt>(raw_->read(input_.data.get(), input_.size));
  }

  // A gzip file may consist of several compressed members, one behind the other.
  void next_member() {
    if (stream_.avail_in == 0) refill();
    ended_ = stream_.avail_in == 0;
    if (!ended_ && inflateReset(&stream_) != Z_OK) fail_damaged();
  }

  [[noreturn]] void fail_damaged() {
    const std::string why = stream_.msg != nullptr ? stream_.msg : "invalid compressed data";
    fail_at(raw_->name(), raw_->offset() - stream_.avail_in,
            "bad gzip data: " + why + "; the file is damaged, fetch it again");
  }

  std::unique_ptr<RawSource> raw_;
  Bytes input_ = make_bytes(kInputSize);
  z_stream stream_ = {};
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Source> gunzip_if_needed(std::unique_ptr<RawSource> raw) {
  uint8_t magic[2] = {};
  const bool gzip = raw->read(magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  raw->rewind();
  if (!gzip) return raw;
  return std::make_unique<GzipSource>(std::move(raw));
}

}  // namespace runtime::data
