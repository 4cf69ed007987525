// Lays out the memories of oneDNN primitives in one workspace, and executes them in a launch.
#include "backends/cpu/primitive_plan.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel.h"

namespace backends::cpu {
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw rt::sdk::Error(RT_ERROR_DEVICE,
                       rt::sdk::format("%s: oneDNN status %d", what, static_cast<int>(status)))
      .native("oneDNN", status);
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// A row-major description in oneDNN's logical order of dimensions.
MemoryDesc plain(const MemoryDesc& desc) {
  const MemoryParts parts = take_apart(desc);
  const Dims& dims = parts.dims;
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strided_desc(dims, strides, parts.type);
}

}  // namespace

double reorder_ns(const Engine& engine, uint64_t bytes) {
  return 2000.0 + 2.5 * static_cast<double>(bytes) / engine.bytes_per_ns();
}

PrimitivePlan::PrimitivePlan(const Engine& engine, dnnl::engine onednn, std::string implementation)
    : engine_(engine), onednn_(std::move(onednn)), stream_(onednn_) {
  info_.implementation = std::move(implementation);
}

size_t PrimitivePlan::operand(const MemoryDesc& desc, Slot::Kind kind, uint32_t index) {
  memories_.push_back({dnnl::memory(desc, onednn_, nullptr), Slot{kind, index, 0}});
  return memories_.size() - 1;
}

size_t PrimitivePlan::temporary(const MemoryDesc& desc) {
  const Slot slot{Slot::Kind::kWorkspace, 0, info_.workspace_bytes};
  info_.workspace_bytes += (desc.get_size() + kAlignment - 1) / kAlignment * kAlignment;
  memories_.push_back({dnnl::memory(desc, onednn_, nullptr), slot});
  return memories_.size() - 1;
}

void PrimitivePlan::step(const dnnl::primitive& primitive, const MemoryDesc& scratchpad,
                         const std::vector<std::pair<int, size_t>>& arguments) {
  Step step{primitive, {}};
  for (const auto& [argument, memory] : arguments) {
    step.arguments.push_back({argument, memories_[memory].memory.get()});
  }
  if (scratchpad.get_size() > 0) {
    const size_t memory = temporary(scratchpad);
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, memories_[memory].memory.get()});
  }
  steps_.push_back(std::move(step));
}

void PrimitivePlan::reorder(size_t from, size_t to) {
  const MemoryDesc source = memories_[from].memory.get_desc();
  const MemoryDesc target = memories_[to].memory.get_desc();
  const dnnl::reorder::primitive_desc desc(onednn_, source, onednn_, target, user_scratchpad(),
                                           /*allow_empty=*/true);
  if (exists(desc)) {
    step(dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return;
  }
  const MemoryDesc middle = plain(source);
  if (same_memory(middle, source)) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, "oneDNN has no reorder between these layouts");
  }
  const size_t between = temporary(middle);
  reorder(from, between);
  reorder(between, to);
}

void PrimitivePlan::preload_output(uint32_t index, uint64_t bytes) {
  preload_ = index;
  preload_bytes_ = bytes;
  allow_in_place(0, index);
}

size_t PrimitivePlan::wide_output(const MemoryDesc& desc) {
  const size_t memory = temporary(desc);
  wide_offset_ = static_cast<int64_t>(memories_[memory].slot.offset);
  return memory;
}

void PrimitivePlan::apply_chain(const rt_launch& launch, int64_t begin, int64_t end) const {
  const kernels::Table& kernel = engine_.kernels();
  if (!narrow_) {
    auto* y = static_cast<float*>(launch.outputs[0]);
    return chain_.apply(kernel, y + begin, begin, end - begin, launch.inputs);
  }
  auto* y = static_cast<uint16_t*>(launch.outputs[0]);
  if (wide_offset_ < 0) {
    return chain_.apply_to_narrow(kernel, y + begin, begin, end - begin, launch.inputs);
  }
  constexpr int64_t kPiece = 4096;  // fits the first-level cache
  auto* wide = reinterpret_cast<float*>(static_cast<char*>(launch.workspace) + wide_offset_);
  for (int64_t i = begin; i < end; i += kPiece) {
    const int64_t count = std::min(kPiece, end - i);
    chain_.apply_to_wide(kernel, wide + i, i, count, launch.inputs);
    kernel.narrow(wide + i, y + i, count);
  }
}

void PrimitivePlan::finish_with(PostChain chain, int64_t count) {
  chain_ = std::move(chain);
  chain_count_ = count;
}

void PrimitivePlan::set_addresses(const rt_launch& launch) {
  for (auto& [memory, slot, current] : memories_) {
    void* address = nullptr;
    switch (slot.kind) {
      case Slot::Kind::kInput:
        address = const_cast<void*>(launch.inputs[slot.index]);
        break;
      case Slot::Kind::kOutput:
        address = launch.outputs[slot.index];
        break;
      case Slot::Kind::kWorkspace:
        address = static_cast<char*>(launch.workspace) + slot.offset;
        break;
    }
    if (address == current) continue;
    check(set_handle(memory.get(), address, stream_.get()), "setting the address of an operand");
    current = address;
  }
}

void PrimitivePlan::launch(const rt_launch& launch) {
  if (preload_ >= 0 && launch.outputs[0] != launch.inputs[preload_]) {
    auto* to = static_cast<char*>(launch.outputs[0]);
    const auto* from = static_cast<const char*>(launch.inputs[preload_]);
    parallel_parts(engine_.threads(), static_cast<int64_t>(preload_bytes_), 1 << 17, 4096,
                   [&](int, int64_t begin, int64_t end) {
                     std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
                   });
  }
  {
    const std::lock_guard lock(mutex_);
    set_addresses(launch);
    for (const Step& step : steps_) {
      check(dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                                   static_cast<int>(step.arguments.size()), step.arguments.data()),
            info_.implementation.c_str());
    }
  }
  if (!chain_.empty()) {
    parallel_parts(engine_.threads(), chain_count_, kElementGrain, 32,
                   [&](int, int64_t begin, int64_t end) { apply_chain(launch, begin, end); });
  }
}

}  // namespace backends::cpu
