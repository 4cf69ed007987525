// The plugin `chaos` wraps another plugin and makes one function of its tables (a slot) fail.
//
//   CHAOS_PLUGIN_INNER=<path of the plugin that does the work>
//   CHAOS_PLUGIN="launch:how=error:after=5:times=1:rank=1:in=runtime"
//
// The first word is the slot: `entry`, `options`, `shutdown`, `get_interface`, or the name of a
// function in a table of rt/device.h, rt/kernel.h or rt/communicator.h. `how` is one of the words
// of `fail` below, or `garbage`, `null` or `nan`: then the inner plugin does its work, and its
// results are overwritten. `after`, `times`, `rank` and CHAOS_LOG have the meaning that shim.c
// gives them; `in` is the name of the program, `runtime` or `plugin_probe`, because both call every
// plugin. With `trace` in place of a slot nothing fails, and every call is logged.
#include "rt/plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Fault {
  std::string slot, how, program;
  long after = 0, times = 1;
  bool is_meant = false;  // whether the fault is for this process
  std::atomic<long> calls = 0;

  Fault() {
    std::istringstream text(variable("CHAOS_PLUGIN"));
    std::map<std::string, std::string> words = {{"after", "0"}, {"times", "1"}, {"in", "runtime"}};
    std::getline(text, slot, ':');
    for (std::string word; std::getline(text, word, ':');)
      words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    how = words["how"];
    after = std::stol(words["after"]);
    times = std::stol(words["times"]);
    program = std::filesystem::read_symlink("/proc/self/exe").filename();
    is_meant = program == words["in"] &&
               (!words.contains("rank") || words["rank"] == variable("RUNTIME_RANK"));
  }

  bool is_due(const char* name) {
    if (slot == "trace") log(name);
    if (!is_meant || slot != name) return false;
    const long number = calls++;
    if (number < after || (times != 0 && number >= after + times)) return false;
    log(name);
    return true;
  }

  // Writes with system calls, because standard output and error belong to the program.
  void log(const char* name) const {
    const std::string file = variable("CHAOS_LOG"), rank = variable("RUNTIME_RANK");
    const std::string line =
        std::string(name) + " rank " + (rank.empty() ? "-" : rank) + " in " + program + "\n";
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (write(fd, line.data(), line.size()) < 0) std::perror("chaos plugin: the log");
    close(fd);
  }
};

Fault& fault() {
  static Fault one;
  return one;
}

rt_status answer(rt_error* error, rt_status code, const char* text) {
  if (error == nullptr) return code;
  error->code = code;
  std::snprintf(error->message, sizeof(error->message), "%s", text);
  return code;
}

// Fills the message without a terminating NUL, with bytes that control a terminal.
rt_status answer_with_garbage(rt_error* error) {
  if (error == nullptr) return RT_ERROR_DEVICE;
  error->code = -5;
  error->scope = 99;
  std::memset(error->native_domain, 0xF5, sizeof(error->native_domain));
  std::memset(error->message, 0x1B, sizeof(error->message));
  return RT_ERROR_DEVICE;
}

// Does what `how` says instead of the work of the slot. If it returns, it returns the status of the
// call.
rt_status fail(rt_error* error) {
  const std::string& how = fault().how;
  if (how == "error") return answer(error, RT_ERROR_DEVICE, "chaos: the device is broken");
  if (how == "memory") return answer(error, RT_ERROR_OUT_OF_MEMORY, "chaos: 7 bytes are free");
  if (how == "timeout") return answer(error, RT_ERROR_TIMEOUT, "chaos: too late");
  if (how == "aborted") return answer(error, RT_ERROR_ABORTED, "chaos: aborted");
  if (how == "unsupported") return answer(error, RT_ERROR_UNSUPPORTED, "chaos: not here");
  if (how == "communication") return answer(error, RT_ERROR_COMMUNICATION, "chaos: a peer is gone");
  if (how == "status") return 1'000'000;
  if (how == "silent") return RT_ERROR_DEVICE;
  if (how == "words") return answer_with_garbage(error);
  if (how == "throw") throw std::runtime_error("chaos: thrown across the border");
  if (how == "throw_int") throw 42;
  if (how == "exit") std::exit(0);
  if (how == "quit") _exit(7);
  if (how == "abort") std::abort();
  if (how == "segv") raise(SIGSEGV);
  if (how == "hang") {
    for (;;) pause();
  }
  if (how == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(700));
  return RT_OK;
}

bool goes_on() {
  const std::string& how = fault().how;
  return how == "delay" || how == "garbage" || how == "null" || how == "nan";
}

template <class T>
concept Sized = requires(T t) {
  t.size;
};

// Overwrites a result with bytes that make large numbers, strings without an end and unknown flags.
template <class T>
void spoil(T answer) {
  if constexpr (std::is_pointer_v<T>) {
    using Value = std::remove_pointer_t<T>;
    if constexpr (!std::is_const_v<Value> && !std::is_same_v<Value, rt_error>) {
      if (answer == nullptr) return;
      if constexpr (std::is_same_v<Value, rt_support>) {
        answer->level = 77;
        answer->post_ops_fused = std::numeric_limits<uint32_t>::max();
        answer->candidate_count = std::numeric_limits<uint32_t>::max();
        answer->tolerance = std::numeric_limits<double>::quiet_NaN();
        std::memset(answer->reason, 'A', sizeof(answer->reason));
      } else if constexpr (std::is_pointer_v<Value>) {
        *answer = nullptr;
      } else if constexpr (std::is_same_v<Value, char>) {
        *answer = 0x1B;
      } else if constexpr (std::is_arithmetic_v<Value>) {
        *answer = static_cast<Value>(0xA5A5A5A5A5A5A5A5u);
      } else if constexpr (Sized<Value>) {  // handles are excluded: they have no fields here
        std::memset(reinterpret_cast<char*>(answer) + 4, 0xA5, sizeof(Value) - 4);
      }
    }
  }
}

// Overwrites the first element of the first output, which is a float32 in the jobs of this harness.
void spoil_numbers(const rt_launch* launch) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  if (launch->output_count > 0 && launch->outputs[0] != nullptr)
    std::memcpy(launch->outputs[0], &bad, sizeof(bad));
}

template <class... Arguments>
rt_error* error_of(Arguments... arguments) {
  rt_error* found = nullptr;
  const auto look = [&](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), rt_error*>) found = argument;
  };
  (look(arguments), ...);
  return found;
}

template <class... Arguments>
void spoil_answer(Arguments... arguments) {
  if (fault().how == "delay") return;
  if (fault().how == "nan") {
    const auto look = [](auto argument) {
      if constexpr (std::is_same_v<decltype(argument), const rt_launch*>) spoil_numbers(argument);
    };
    return (look(arguments), ...);
  }
  (spoil(arguments), ...);
}

// The plugin instance that one call of the entry returns, with the inner plugin's instance.
struct Instance {
  rt_plugin plugin;
  const rt_plugin* inner;
};

const rt_plugin& inner_of(void* self) { return *static_cast<Instance*>(self)->inner; }

// The inner plugin has its own `self`; all other arguments are passed on unchanged.
void* passed_on(void* self) { return inner_of(self).self; }
template <class T>
T* passed_on(T* handle) {
  return handle;
}

// The function for the slot `Member` of a table; it calls the inner plugin's function.
template <class Table, auto Member, class Signature>
struct Slot;

template <class Table, auto Member, class Result, class First, class... Rest>
struct Slot<Table, Member, Result (*)(First, Rest...)> {
  static inline const Table* inner = nullptr;
  static inline const char* name = nullptr;

  static Result work(First first, Rest... rest) {
    return (inner->*Member)(passed_on(first), rest...);
  }

  static Result call(First first, Rest... rest) {
    if (!fault().is_due(name)) return work(first, rest...);
    if constexpr (std::is_void_v<Result>) {
      fail(nullptr);
      if (fault().how != "nothing") work(first, rest...);
    } else {
      if (!goes_on()) return static_cast<Result>(fail(error_of(rest...)));
      fail(nullptr);  // for a delay, this call waits
      const Result result = work(first, rest...);
      spoil_answer(rest...);
      return result;
    }
  }
};

template <auto Member, class Table>
void put(Table& table, const Table& inner, const char* name) {
  using Signature = std::remove_reference_t<decltype(table.*Member)>;
  using Here = Slot<Table, Member, Signature>;
  if (inner.*Member == nullptr) return;
  Here::inner = &inner;
  Here::name = name;
  table.*Member = Here::call;
}
#define PUT(type, slot) put<&type::slot>(table, inner, #slot)

const rt_device_api* wrap(const rt_device_api& inner) {
  static rt_device_api table = inner;
  PUT(rt_device_api, count);
  PUT(rt_device_api, properties);
  PUT(rt_device_api, open);
  PUT(rt_device_api, close);
  PUT(rt_device_api, allocate);
  PUT(rt_device_api, free);
  PUT(rt_device_api, stream_create);
  PUT(rt_device_api, stream_destroy);
  PUT(rt_device_api, stream_synchronize);
  PUT(rt_device_api, copy);
  PUT(rt_device_api, fill);
  PUT(rt_device_api, event_create);
  PUT(rt_device_api, event_destroy);
  PUT(rt_device_api, event_record);
  PUT(rt_device_api, event_wait);
  PUT(rt_device_api, event_synchronize);
  PUT(rt_device_api, event_query);
  PUT(rt_device_api, event_elapsed);
  PUT(rt_device_api, memory_info);
  PUT(rt_device_api, utilisation);
  return &table;
}

const rt_kernel_api* wrap(const rt_kernel_api& inner) {
  static rt_kernel_api table = inner;
  PUT(rt_kernel_api, query);
  PUT(rt_kernel_api, create);
  PUT(rt_kernel_api, destroy);
  PUT(rt_kernel_api, info);
  PUT(rt_kernel_api, launch);
  PUT(rt_kernel_api, layout_bytes);
  PUT(rt_kernel_api, layout_name);
  return &table;
}

// CHAOS_PLUGIN names the functions of a communicator with the prefix `comm_`, because other tables
// have functions of the same names (properties, create, destroy).
#define PUT_COMM(slot) put<&rt_communicator_api::slot>(table, inner, "comm_" #slot)
const rt_communicator_api* wrap(const rt_communicator_api& inner) {
  static rt_communicator_api table = inner;
  PUT_COMM(properties);
  PUT_COMM(capabilities);
  PUT_COMM(create);
  PUT_COMM(split);
  PUT_COMM(destroy);
  PUT_COMM(group_begin);
  PUT_COMM(group_end);
  PUT_COMM(enqueue);
  PUT_COMM(work_poll);
  PUT_COMM(work_wait);
  PUT_COMM(work_destroy);
  PUT_COMM(abort);
  PUT_COMM(asynchronous_error);
  return &table;
}

const void* get_interface(void* self, const char* name, uint32_t version) {
  const rt_plugin& inner = inner_of(self);
  const bool is_due = fault().is_due("get_interface");
  if (is_due) fail(nullptr);
  const void* const table = inner.get_interface(inner.self, name, version);
  if (table == nullptr || (is_due && fault().how == "null")) return nullptr;
  if (std::strcmp(name, RT_INTERFACE_DEVICE) == 0)
    return wrap(*static_cast<const rt_device_api*>(table));
  if (std::strcmp(name, RT_INTERFACE_KERNEL) == 0)
    return wrap(*static_cast<const rt_kernel_api*>(table));
  if (std::strcmp(name, RT_INTERFACE_COMMUNICATOR) == 0)
    return wrap(*static_cast<const rt_communicator_api*>(table));
  return table;
}

const rt_option_spec* const* options(void* self, uint32_t* count) {
  const rt_plugin& inner = inner_of(self);
  if (fault().is_due("options")) {
    fail(nullptr);
    *count = fault().how == "garbage" ? 0xA5A5A5A5u : 3;
    if (fault().how == "null" || fault().how == "garbage") return nullptr;
  }
  return inner.options(inner.self, count);
}

void shutdown(void* self) {
  const rt_plugin& inner = inner_of(self);
  if (fault().is_due("shutdown")) fail(nullptr);
  inner.shutdown(inner.self);
  delete static_cast<Instance*>(self);
}

rt_plugin_entry_fn inner_entry() {
  const std::string path = variable("CHAOS_PLUGIN_INNER");
  void* const library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr
             ? nullptr
             : reinterpret_cast<rt_plugin_entry_fn>(dlsym(library, RT_PLUGIN_ENTRY_SYMBOL));
}

}  // namespace

extern "C" RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host,
                                                      rt_negotiation* negotiation,
                                                      const rt_plugin** plugin, rt_error* error) {
  const bool is_due = fault().is_due("entry");
  if (is_due && !goes_on()) return fail(error);
  const rt_plugin_entry_fn entry = inner_entry();
  if (entry == nullptr)
    return answer(error, RT_ERROR_UNAVAILABLE,
                  "chaos: CHAOS_PLUGIN_INNER names no plugin that can be loaded");
  auto* const instance = new Instance;
  const rt_status status = entry(host, negotiation, &instance->inner, error);
  if (status != RT_OK) {
    delete instance;
    return status;
  }
  instance->plugin = *instance->inner;
  instance->plugin.self = instance;
  instance->plugin.name = "chaos";
  instance->plugin.build_id = "chaos";
  instance->plugin.get_interface = get_interface;
  instance->plugin.options = options;
  instance->plugin.shutdown = shutdown;
  *plugin = is_due && fault().how == "null" ? nullptr : &instance->plugin;
  if (is_due && fault().how == "garbage") std::memset(&instance->plugin, 0xA5, sizeof(rt_plugin));
  return RT_OK;
}
