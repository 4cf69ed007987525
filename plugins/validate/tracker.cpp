// Hands out checked handles for objects of plugins, and knows those that have been destroyed.
#include "plugins/validate/tracker.h"

#include <stdexcept>

namespace plugins::validate {
namespace {

constexpr std::size_t kMostDead = 65536;

}  // namespace

const char* to_string(Kind kind) {
  constexpr const char* kNames[] = {"device",    "stream",       "event", "plan",
                                    "recording", "communicator", "work"};
  return kNames[static_cast<int>(kind)];
}

Findings& Object::findings() const { return instance.tracker.findings; }

void Object::fault(Offender offender, const std::string& call, const std::string& what) const {
  findings().fault(offender, name + ": " + call, what);
}

void* Tracker::adopt(std::unique_ptr<Object> object) {
  const std::lock_guard lock(mutex);
  Object* const handle = object.get();
  objects.emplace(handle, std::move(object));
  return handle;
}

void Tracker::bury(Object& object) {
  object.alive = false;
  dead.push_back(&object);
  if (dead.size() <= kMostDead) return;
  objects.erase(dead.front());
  dead.pop_front();
}

Object* Tracker::find(const void* handle) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(handle);
  return found == objects.end() ? nullptr : found->second.get();
}

void expect_alive(const Object& object, const char* call) {
  const std::lock_guard lock(object.tracker().mutex);
  if (!object.alive)
    object.fault(Offender::kRuntime, call,
                 std::string("the ") + to_string(object.kind) + " was destroyed before");
}

Turn::Turn(Object& object, const char* call) : object_(object) {
  expect_alive(object, call);
  const std::lock_guard lock(object.tracker().mutex);
  if (object.call != nullptr)
    object.fault(Offender::kRuntime, call,
                 std::string("another thread is in its ") + object.call +
                     " at the same time; the host serializes the calls");
  object.call = call;
}

Turn::~Turn() {
  const std::lock_guard lock(object_.tracker().mutex);
  object_.call = nullptr;
}

Object* object_at(const void* handle, Kind kind) {
  auto* const object = static_cast<Object*>(const_cast<void*>(handle));
  if (object == nullptr || object->mark != Object::kMark || object->kind != kind)
    throw std::invalid_argument(std::string("a call got no ") + to_string(kind) +
                                " that a validated plugin has made");
  return object;
}

}  // namespace plugins::validate
