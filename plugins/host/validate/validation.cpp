// Wraps the tables of a plugin in checking ones, and throws what they have found at the end.
#include "plugins/host/validate/validation.h"

#include "plugins/host/error.h"
#include "plugins/host/validate/calls.h"
#include "plugins/host/validate/ledger.h"

namespace plugins::host::validate {

Validation::Validation(std::function<void(const std::string&)> log)
    : ledger_(std::make_unique<Ledger>(std::move(log))) {}
Validation::~Validation() = default;

std::vector<std::string> Validation::findings() const {
  std::vector<std::string> texts;
  for (const Fault& fault : ledger_->findings.all()) texts.push_back(fault.text);
  return texts;
}

void Validation::throw_findings() const {
  const std::vector<Fault> faults = ledger_->findings.all();
  if (faults.empty()) return;
  throw Error(static_cast<rt_status>(faults.front().guilty), faults.front().text, RT_SCOPE_DEVICE);
}

ValidatedPlugin::ValidatedPlugin(std::shared_ptr<Validation> validation, const std::string& name,
                                 void* self, const Tables& plain, uint32_t minor)
    : validation_(std::move(validation)),
      instance_(new Instance{*validation_->ledger_, name, self, plain, minor}),
      tables_(plain) {
  if (plain.device) tables_.device = device_calls(*plain.device);
  if (plain.kernel) tables_.kernel = kernel_calls(*plain.kernel);
  if (plain.communicator) tables_.communicator = communicator_calls(*plain.communicator);
  if (plain.capture) tables_.capture = capture_calls(*plain.capture);
}

ValidatedPlugin::~ValidatedPlugin() {
  Ledger& ledger = instance_->ledger;
  std::string left;
  {
    const std::lock_guard lock(ledger.mutex);
    for (const auto& [handle, object] : ledger.objects) {
      if (&object->instance != instance_.get() || !object->alive) continue;
      left += std::string(", ") + to_string(object->kind) + " '" + object->name + "'";
      object->alive = false;
    }
  }
  if (left.empty() || ledger.findings.failed()) return;
  release(ledger.findings, [&] {
    ledger.findings.fault(
        Guilty::kRuntime, instance_->name + ": shutdown",
        "destroy everything first that was made from the plugin; left: " + left.substr(2));
  });
}

void* ValidatedPlugin::self() const { return instance_.get(); }

void ValidatedPlugin::name(const void* object, const std::string& text) const {
  Object* const found = instance_->ledger.find(object);
  if (found == nullptr) return;
  const std::lock_guard lock(instance_->ledger.mutex);
  found->name += " (" + text + ")";
}

}  // namespace plugins::host::validate
