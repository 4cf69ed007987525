// Wraps the tables of a plugin in checking ones, and throws what they have found at the end.
#include "plugins/validate/validation.h"

#include "plugins/host/error.h"
#include "plugins/validate/calls.h"
#include "plugins/validate/tracker.h"

namespace plugins::validate {
namespace {

class ValidatedPlugin : public host::InterposedPlugin {
 public:
  ValidatedPlugin(std::shared_ptr<Tracker> tracker, const std::string& name, void* self,
                  const host::Tables& plain, uint32_t minor)
      : tracker_(std::move(tracker)),
        instance_(new Instance{*tracker_, name, self, plain, minor}),
        tables_(plain) {
    if (plain.device) tables_.device = device_calls(*plain.device);
    if (plain.kernel) tables_.kernel = kernel_calls(*plain.kernel);
    if (plain.communicator) tables_.communicator = communicator_calls(*plain.communicator);
    if (plain.capture) tables_.capture = capture_calls(*plain.capture);
  }
  ~ValidatedPlugin() override {
    std::string left;
    {
      const std::lock_guard lock(tracker_->mutex);
      for (const auto& [handle, object] : tracker_->objects) {
        if (&object->instance != instance_.get() || !object->alive) continue;
        left += std::string(", ") + to_string(object->kind) + " '" + object->name + "'";
        object->alive = false;
      }
    }
    if (left.empty() || tracker_->findings.failed()) return;
    release(tracker_->findings, [&] {
      tracker_->findings.fault(
          Offender::kRuntime, instance_->name + ": shutdown",
          "destroy everything first that was made from the plugin; left: " + left.substr(2));
    });
  }
  ValidatedPlugin(const ValidatedPlugin&) = delete;
  ValidatedPlugin& operator=(const ValidatedPlugin&) = delete;

  const host::Tables& tables() const override { return tables_; }
  void* self() const override { return instance_.get(); }
  void name(const void* object, const std::string& text) const override {
    Object* const found = tracker_->find(object);
    if (found == nullptr) return;
    const std::lock_guard lock(tracker_->mutex);
    found->name += " (" + text + ")";
  }

 private:
  std::shared_ptr<Tracker> tracker_;
  std::unique_ptr<Instance> instance_;
  host::Tables tables_;
};

}  // namespace

Validation::Validation(std::function<void(const std::string&)> log)
    : tracker_(std::make_shared<Tracker>(std::move(log))) {}

std::unique_ptr<host::InterposedPlugin> Validation::wrap(const std::string& name, void* self,
                                                         const host::Tables& plain,
                                                         uint32_t minor) {
  return std::make_unique<ValidatedPlugin>(tracker_, name, self, plain, minor);
}

std::vector<std::string> Validation::findings() const {
  std::vector<std::string> texts;
  for (const Fault& fault : tracker_->findings.all()) texts.push_back(fault.text);
  return texts;
}

void Validation::throw_findings() const {
  const std::vector<Fault> faults = tracker_->findings.all();
  if (faults.empty()) return;
  throw host::Error(static_cast<rt_status>(faults.front().offender), faults.front().text,
                    RT_SCOPE_DEVICE);
}

}  // namespace plugins::validate
