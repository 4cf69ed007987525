// Allocates the kept memory on a thread, and copies the state into it.
#include "runtime/train/checkpoint/kept_state.h"

#include <string>
#include <utility>

#include "plugins/host/error.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

// The pages that a file is written in.
constexpr uint64_t kPage = 4096;

// The first byte at or behind `memory` that begins a page.
std::byte* page_from(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (kPage - address % kPage) % kPage;
}

// Returns pinned memory, or nothing if the device cannot give so much of it.
plugins::host::Memory pinned_memory(plugins::host::Device& device, uint64_t bytes) {
  try {
    return device.allocate(bytes, RT_MEMORY_PINNED_HOST);
  } catch (const plugins::host::Error& error) {
    if (error.code() != RT_ERROR_OUT_OF_MEMORY) throw;
    return {};
  }
}

}  // namespace

KeptState::KeptState(RankModel& model, Writers writers) : model_(model) {
  uint64_t bytes = kPage;
  for (HeldTensor& held : held_tensors(model, writers)) {
    if (!held.writes) continue;
    file_.tensors[held.name] = {
        held.dtype, held.slice.is_whole() ? held.slice.dims : graph::Dims{held.slice.elements()},
        nullptr, held.bytes()};
    describe_slice(file_.metadata, held.name, held.slice);
    bytes += held.bytes();
    written_.push_back(std::move(held));
  }
  if (!model.setup().spec.characters.empty())
    file_.metadata[kCharacters] = model.setup().spec.characters;
  if (!model.setup().spec.preparation.empty())
    file_.metadata[kPreparation] = model.setup().spec.preparation;
  begin_ = std::async(std::launch::async, [this, bytes] {
    pinned_ = pinned_memory(*model_.setup().device, bytes);
    if (!pinned_) ordinary_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::byte* const begin = page_from(pinned_ ? pinned_.data() : ordinary_.get());
    for (uint64_t at = 0; at + kPage < bytes; at += kPage) begin[at] = {};
    return begin;
  });
}

void KeptState::take() {
  if (begin_.valid()) data::place_tensors(file_, begin_.get());
  for (const HeldTensor& held : written_) {
    const data::TensorView& tensor = file_.tensors.at(held.name);
    if (tensor.bytes > 0)
      model_.stream().copy(const_cast<std::byte*>(tensor.data), held.address, tensor.bytes);
  }
  model_.stream().synchronize();
}

}  // namespace runtime::train
