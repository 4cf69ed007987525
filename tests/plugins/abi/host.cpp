// A host that uses everything that it can of one plugin, without and with validation, and compares
// what it gets. matrix.py compiles it together with plugins/host against headers in which structs
// have grown.
//
//   abi_host LIBRARY
//
// Exit code 0: everything worked. 1: something did not; standard error says what.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "plugins/host/communicator.h"
#include "plugins/host/device.h"
#include "plugins/host/plugin.h"
#include "plugins/host/reader.h"
#include "plugins/validate/validation.h"

namespace {

using namespace plugins::host;

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("expected " + what);
}

// Expects that `body` throws an Error whose message has `words` in it: the text of the plugin.
template <typename Body>
void expect_error(const std::string& words, Body&& body) {
  std::string message = "no error";
  try {
    body();
  } catch (const Error& error) {
    message = error.what();
  }
  expect(message.find(words) != std::string::npos,
         "an error with '" + words + "' in it; got: " + message);
}

// The key-value store that ranks meet in.
class Store {
 public:
  HostServices services() {
    HostServices services;
    services.log = [](int32_t, const std::string&, const std::string&) {};
    services.available_memory = [] { return uint64_t{1} << 30; };
    services.stop_requested = [] { return false; };
    services.kv_set = [this](const std::string& key, const std::string& value) {
      const std::lock_guard lock(mutex_);
      values_[key] = value;
    };
    services.kv_get = [this](const std::string& key, std::chrono::nanoseconds timeout) {
      const auto deadline = std::chrono::steady_clock::now() + timeout;
      do {
        {
          const std::lock_guard lock(mutex_);
          if (const auto found = values_.find(key); found != values_.end()) return found->second;
        }
        std::this_thread::yield();
      } while (std::chrono::steady_clock::now() < deadline);
      throw Error(RT_ERROR_TIMEOUT, "no key " + key);
    };
    return services;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

Operation scale() {
  Operation op;
  op.name = "scale";
  op.inputs = op.outputs = {make_tensor_desc(RT_FLOAT32, {2, 3})};
  op.attributes = {{"alpha", 2.0}, {"beta", int64_t{1}}};
  return op;
}

void use_kernels(const std::shared_ptr<Device>& device) {
  Operation op = scale();
  op.post_ops = {{.kind = RT_POST_ACTIVATION, .function = 1, .operand = -1}};
  const Support support = device->query(op);
  expect(support.level == RT_SUPPORT_NATIVE && support.post_ops_fused == 0,
         "scale to be supported without post-operations; got level " +
             std::to_string(support.level) + ": " + support.reason);
  for (const rt_candidate& candidate : support.candidates) {
    expect(candidate.algorithm == 1 && candidate.input_bytes[0] == 24 &&
               candidate.output_bytes[0] == 24 && candidate.implementation[0] != '\0',
           "the candidate as the plugin wrote it");
  }
  op = scale();
  const uint64_t bytes = device->layout_bytes(op.inputs[0]);
  expect(bytes == 24 && device->layout_name(op.inputs[0]) == "canonical", "the canonical layout");

  Kernel kernel = device->create_kernel(op);
  expect(kernel.info().flags == RT_PLAN_DETERMINISTIC && kernel.info().in_place[0] == 1,
         "the plan's flags");
  Memory x = device->allocate(bytes), y = device->allocate(bytes);
  Stream stream = device->create_stream();
  Event begin = device->create_event(), end = device->create_event();
  const float given[6] = {0, 1, 2, 3, 4, 5};
  float result[6] = {};
  stream.copy(x.data(), given, bytes);
  stream.fill(y.data(), 0, bytes);
  begin.record(stream);
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  rt_launch launch{};
  launch.size = sizeof(launch);
  launch.inputs = inputs;
  launch.outputs = outputs;
  launch.input_count = launch.output_count = 1;
  kernel.launch(stream, launch);
  end.record(stream);
  end.wait(stream);
  stream.copy(result, y.data(), bytes);
  stream.synchronize();
  expect(end.query() && Event::elapsed(begin, end).count() >= 0, "events in order");
  for (int i = 0; i < 6; ++i) expect(result[i] == 2 * given[i] + 1, "2 x + 1");

  op.name = "no_such_operation";
  const Support refused = device->query(op);
  expect(refused.level == RT_SUPPORT_REFUSED && !refused.reason.empty(), "a refusal with a reason");
  expect_error(refused.reason, [&] { device->create_kernel(op); });
}

void use_device(const std::shared_ptr<Plugin>& plugin) {
  DeviceOptions options;
  options.threads = 1;
  for (const Plugin::OptionSpec& option : plugin->options()) {
    expect(option.key == "memory_mib" && option.default_value == "4096", "the option as written");
    options.options["memory_mib"] = "64";
  }
  const auto device = Device::open(plugin, 0, options);
  const rt_device_properties& p = device->properties();
  expect(p.alignment == 64 && p.threads == 1 && p.name[0] != '\0', "the properties as written");
  const rt_memory_info memory = device->memory_info();
  expect(memory.total_bytes > 0 && memory.free_bytes > 0, "sizes of the memory");
  expect(device->utilisation().compute_percent == -1, "an unknown load");
  use_kernels(device);
}

void use_communicator(const std::shared_ptr<Plugin>& plugin) {
  expect(communicator_properties(*plugin).ranks == RT_RANKS_THREADS, "ranks that are threads");
  const std::vector<rt_comm_capability> rows = list_capabilities(*plugin);
  expect(rows.size() == RT_BARRIER, "nine rows");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    expect(rows[i].collective == static_cast<int32_t>(i) + 1 && rows[i].flags == RT_COMM_IN_PLACE &&
               rows[i].dtypes == rows[0].dtypes && rows[0].dtypes != 0,
           "row " + std::to_string(i) + " as written");
  }
  std::string failures[2];
  const auto rank = [&](int32_t r) {
    try {
      CommunicatorOptions options;
      options.rank = options.local_rank = r;
      options.world_size = 2;
      options.prefix = "matrix";
      options.timeout = std::chrono::seconds(20);
      const auto communicator = Communicator::create(plugin, options);
      const float send = static_cast<float>(r + 1);
      float receive = 0;
      communicator->enqueue(make_collective(RT_ALL_REDUCE, RT_FLOAT32, &send, &receive, 1, RT_SUM))
          .wait(std::chrono::seconds(20));
      expect(receive == 3, "the sum 3");
      expect_error("collective 77", [&] {
        communicator->enqueue(make_collective(77, RT_FLOAT32, &send, &receive, 1, RT_SUM));
      });
    } catch (const std::exception& error) {
      failures[r] = "rank " + std::to_string(r) + ": " + error.what();
    }
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  for (const std::string& failure : failures)
    if (!failure.empty()) throw std::runtime_error(failure);
}

// A file of samples, which the destructor removes.
struct File {
  std::string path = "/tmp/abi_host_" + std::to_string(::getpid()) + ".txt";
  File() {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    expect(file != nullptr, "to write " + path);
    std::fputs("1 0:0.5\n-1 1:2\n", file);
    std::fclose(file);
  }
  ~File() { std::remove(path.c_str()); }
};

void use_reader(const std::shared_ptr<Plugin>& plugin) {
  const std::vector<ReaderFormat> formats = list_formats(*plugin);
  expect(formats.size() == 1 && formats[0].name == "text" && formats[0].options.size() == 1,
         "the format as written");
  const File file;
  ReaderRequest request;
  request.path = file.path;
  request.shape = {2};
  request.options["first_index"] = "0";
  const auto data = ReaderDataset::open(plugin, "text", request);
  const rt_dataset_info& info = data->info();
  expect(info.samples == 2 && info.classes == 2 && info.rank == 1 && info.shape[0] == 2 &&
             info.target_count == 1 && info.description == file.path,
         "what is known of the samples");
  const int64_t indices[] = {1, 0};
  float features[4] = {};
  int32_t labels[2] = {};
  data->read(indices, features, labels);
  expect(features[0] == 0 && features[1] == 2 && features[2] == 0.5f && features[3] == 0 &&
             labels[0] == 0 && labels[1] == 1,
         "the samples as written");
  request.path = "/nowhere";
  expect_error("cannot be opened", [&] { ReaderDataset::open(plugin, "text", request); });
}

void use(const std::string& library,
         const std::shared_ptr<plugins::validate::Validation>& validation) {
  Store store;
  const auto plugin = Plugin::load(library, store.services(), validation);
  if (plugin->device_api() != nullptr) use_device(plugin);
  if (plugin->communicator_api() != nullptr) use_communicator(plugin);
  if (plugin->reader_api() != nullptr) use_reader(plugin);
}

}  // namespace

int main(int, char** arguments) {
  try {
    use(arguments[1], nullptr);
    const auto validation = std::make_shared<plugins::validate::Validation>(nullptr);
    use(arguments[1], validation);
    validation->throw_findings();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
