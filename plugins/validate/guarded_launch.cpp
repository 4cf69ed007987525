// Launches a plan twice on copies with different poison, and compares results, operands and guards.
#include "plugins/validate/guarded_launch.h"

#include <algorithm>
#include <cstring>

#include "plugins/validate/difference.h"
#include "plugins/validate/memory.h"

namespace plugins::validate {
namespace {

// What results and workspace hold before the two launches: a NaN, and a small number.
constexpr std::byte kPoison{0xFF}, kOtherPoison{0x3C};

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Waits, when it is destroyed, for copies into memory that is freed here.
struct Drained {
  const StreamObject& stream;
  ~Drained() {
    try {
      static_cast<void>(stream.api().stream_synchronize(stream.plain, nullptr));
    } catch (...) {  // plugins must not throw; the one that waits for the work reports it
    }
  }
};

std::byte* pointer_to(uintptr_t address) {
  // The address of an operand: it came as a pointer, and is kept as a number to compare ranges.
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

GuardedLaunch::GuardedLaunch(PlanObject& plan, StreamObject& stream, const rt_launch& launch,
                             const std::vector<Operand>& operands, const std::string& where,
                             rt_error* error)
    : plan_(plan),
      stream_(stream),
      launch_(launch),
      operands_(operands),
      where_(where),
      error_(error) {}

void GuardedLaunch::fault(Offender offender, const Operand& operand,
                          const std::string& what) const {
  plan_.findings().fault(offender, where_ + ": " + to_string(operand), what);
}

void GuardedLaunch::run() {
  lay_out();
  if (bytes_ > stream_.device->largest_buffer()) {
    return require(stream_.device->instance.plain.kernel->launch(plan_.plain, stream_.plain,
                                                                 &launch_, error_));
  }
  reserve();
  const Image first = launch_with(kPoison);
  check_guards(first);
  check_inputs(first);
  const Image second = launch_with(kOtherPoison);
  check_guards(second);
  check_inputs(second);
  compare(first, second);
  copy_results();
}

void GuardedLaunch::lay_out() {
  const uint64_t alignment = std::max<uint64_t>(stream_.device->properties.alignment, 64);
  for (const Operand& operand : operands_) {
    auto place = std::find_if(places_.begin(), places_.end(),
                              [&](const Place& p) { return p.address == operand.range.begin; });
    if (place == places_.end()) place = places_.insert(place, Place{operand.range.begin});
    place->bytes = std::max(place->bytes, operand.range.bytes);
    place->read |= operand.read;
    place->written |= operand.written;
    if (place->operand == nullptr || operand.written) place->operand = &operand;
  }
  for (Place& place : places_) {
    place.offset = round_up(bytes_ + kGuardBytes, alignment);
    bytes_ = place.offset + place.bytes;
  }
  bytes_ = round_up(bytes_ + kGuardBytes, alignment);
}

void GuardedLaunch::reserve() {
  if (stream_.scratch_bytes >= bytes_) return;
  DeviceObject& device = *stream_.device;
  const rt_device_api& api = device.api();
  require(api.stream_synchronize(stream_.plain, error_));
  const std::lock_guard lock(device.memory_mutex);
  if (stream_.scratch != nullptr) api.free(device.plain, stream_.scratch, RT_MEMORY_DEVICE);
  device.own_bytes -= stream_.scratch_bytes;
  stream_.scratch = nullptr;
  stream_.scratch_bytes = 0;
  require(api.allocate(device.plain, bytes_, RT_MEMORY_DEVICE, &stream_.scratch, error_));
  stream_.scratch_bytes = bytes_;
  device.own_bytes += bytes_;
}

const GuardedLaunch::Place& GuardedLaunch::place_of(const void* address) const {
  return *std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return place.address == reinterpret_cast<uintptr_t>(address);
  });
}

void GuardedLaunch::launch_once() {
  const auto moved = [&](const void* address, uint64_t bytes) -> std::byte* {
    return bytes == 0 ? nullptr : memory() + place_of(address).offset;
  };
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (uint32_t i = 0; i < launch_.input_count; ++i)
    inputs.push_back(moved(launch_.inputs[i], plan_.inputs[i].bytes));
  for (uint32_t i = 0; i < launch_.output_count; ++i)
    outputs.push_back(moved(launch_.outputs[i], plan_.outputs[i].bytes));
  rt_launch launch = launch_;
  launch.inputs = inputs.data();
  launch.outputs = outputs.data();
  launch.workspace = moved(launch_.workspace, plan_.info.workspace_bytes);
  launch.saved = moved(launch_.saved, plan_.saved_bytes());
  require(plan_.instance.plain.kernel->launch(plan_.plain, stream_.plain, &launch, error_));
}

GuardedLaunch::Image GuardedLaunch::launch_with(std::byte poison) {
  const auto copy = [&](void* to, const void* from, uint64_t bytes) {
    require(stream_.api().copy(stream_.plain, to, from, bytes, error_));
  };
  Image image{std::vector<std::byte>(bytes_), std::vector<std::byte>(bytes_, kGuard)};
  for (const Place& place : places_)
    std::fill_n(image.after.begin() + static_cast<std::ptrdiff_t>(place.offset), place.bytes,
                poison);
  const Drained drained{stream_};
  copy(memory(), image.after.data(), bytes_);
  for (const Place& place : places_) {
    if (!place.read) continue;
    const std::byte* const from = pointer_to(place.address);
    copy(memory() + place.offset, from, place.bytes);
    copy(image.before.data() + place.offset, from, place.bytes);
  }
  launch_once();
  // Queued, not read after waiting: a kernel that runs later than the stream's order says is then
  // found, because its results are still poison.
  copy(image.after.data(), memory(), bytes_);
  require(stream_.api().stream_synchronize(stream_.plain, error_));
  return image;
}

void GuardedLaunch::check_guards(const Image& image) const {
  const auto is_guard = [](std::byte b) { return b == kGuard; };
  const auto check = [&](uint64_t begin, uint64_t end, const Operand& nearest, bool behind) {
    const auto first = image.after.begin() + static_cast<std::ptrdiff_t>(begin),
               last = image.after.begin() + static_cast<std::ptrdiff_t>(end);
    const auto at = std::find_if_not(first, last, is_guard);
    if (at == last) return;
    const auto distance = behind ? at - first + 1 : last - at;
    fault(Offender::kPlugin, nearest,
          "the kernel writes a byte " + std::to_string(distance) +
              (behind ? " behind the end of it" : " in front of it"));
  };
  check(0, places_.front().offset, *places_.front().operand, false);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const uint64_t end = i + 1 < places_.size() ? places_[i + 1].offset : bytes_;
    check(places_[i].offset + places_[i].bytes, end, *places_[i].operand, true);
  }
}

void GuardedLaunch::check_inputs(const Image& image) const {
  for (const Place& place : places_) {
    if (place.written) continue;
    const std::byte* const before = image.before.data() + place.offset;
    const std::byte* const after = image.after.data() + place.offset;
    const auto [at, other] = std::mismatch(before, before + place.bytes, after);
    if (at == before + place.bytes) continue;
    fault(Offender::kPlugin, *place.operand,
          "the kernel changes byte " + std::to_string(at - before) + " of what it may only read");
  }
}

void GuardedLaunch::compare(const Image& first, const Image& second) {
  for (const Place& place : places_) {
    if (place.read && std::memcmp(first.before.data() + place.offset,
                                  second.before.data() + place.offset, place.bytes) != 0)
      fault(Offender::kRuntime, *place.operand,
            "something that is not ordered with this launch changes it at the same time");
    if (!place.written || std::string_view(place.operand->role) == "workspace") continue;
    if (!place.read) check_written(place, first, second);
    compare(place, first, second);
  }
}

// A canonical result has no padding, so every element is written: none holds the first poison after
// the first launch and the other one after the second.
void GuardedLaunch::check_written(const Place& place, const Image& first,
                                  const Image& second) const {
  if (!place.operand->canonical) return;
  const std::size_t step = element_bytes(place.operand->dtype);
  const auto all = [&](const Image& image, uint64_t at, std::byte value) {
    return std::all_of(&image.after[at], &image.after[at] + step,
                       [&](std::byte b) { return b == value; });
  };
  for (uint64_t i = 0; i + step <= place.bytes; i += step) {
    const uint64_t at = place.offset + i;
    if (all(first, at, kPoison) && all(second, at, kOtherPoison))
      fault(Offender::kPlugin, *place.operand,
            "element " + std::to_string(i / step) +
                " is not written, or not in the order of the stream");
  }
}

// Bytes that no launch has written may differ where a result has padding: in foreign layouts and in
// saved data.
void GuardedLaunch::compare(const Place& place, const Image& first, const Image& second) {
  std::vector<std::byte> a(
      first.after.begin() + static_cast<std::ptrdiff_t>(place.offset),
      first.after.begin() + static_cast<std::ptrdiff_t>(place.offset + place.bytes));
  std::vector<std::byte> b(
      second.after.begin() + static_cast<std::ptrdiff_t>(place.offset),
      second.after.begin() + static_cast<std::ptrdiff_t>(place.offset + place.bytes));
  if (!place.operand->canonical) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == kPoison && b[i] == kOtherPoison) b[i] = a[i];
    }
  }
  if (a == b) return;
  if (plan_.is_deterministic()) {
    const Image third = launch_with(kPoison);
    const bool same = std::memcmp(third.after.data() + place.offset,
                                  first.after.data() + place.offset, place.bytes) == 0;
    fault(Offender::kPlugin, *place.operand,
          same ? "the result depends on what its memory or the workspace held before the launch"
               : "the plan is deterministic, but a second launch gives other bits");
  }
  if (!place.operand->canonical) return;
  const rt_dtype dtype = place.operand->dtype;
  const double limit = 2 * std::max(plan_.tolerance, epsilon_of(dtype));
  const double difference = relative_difference(a, b, dtype);
  if (difference <= limit) return;
  fault(Offender::kPlugin, *place.operand,
        "two launches differ by " + std::to_string(difference) +
            ", more than twice the tolerance that the plugin claims, " +
            std::to_string(plan_.tolerance));
}

void GuardedLaunch::copy_results() {
  for (const Place& place : places_) {
    if (!place.written || std::string_view(place.operand->role) == "workspace") continue;
    require(stream_.api().copy(stream_.plain, pointer_to(place.address), memory() + place.offset,
                               place.bytes, error_));
  }
}

}  // namespace plugins::validate
