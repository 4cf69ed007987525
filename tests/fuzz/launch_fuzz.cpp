// Any lines are what a launcher on another machine reads, or are refused with a ConfigurationError:
// the first is an assignment, which reads back to itself after it is written, the others are
// orders. The same text is a list of hosts, or is refused in the same way.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "plugins/host/spawn.h"
#include "runtime/error.h"
#include "runtime/launch/orders.h"
#include "tools/launch/assignment.h"
#include "tools/launch/hosts.h"

namespace {

void read_as_assignment(const std::string& line) {
  std::string written;
  try {
    written = tools::launch::line_of(tools::launch::read_assignment(line));
  } catch (const runtime::ConfigurationError&) {
    return;
  }
  // An exception from here is a finding.
  if (tools::launch::line_of(tools::launch::read_assignment(written)) != written) std::abort();
}

void read_as_orders(const std::string& text) {
  const plugins::host::Pipe pipe = plugins::host::make_pipe();
  if (::write(pipe.write.get(), text.data(), text.size()) < 0) return;
  runtime::launch::Orders orders(pipe.read.get());
  for (const auto& order : orders.read()) {
    const std::string line = runtime::launch::line_of(order);
    if (line.find('\n') != line.size() - 1) std::abort();
  }
}

void read_as_hosts(const std::string& text) {
  try {
    for (const tools::launch::Host& host : tools::launch::parse_hosts(text, 1))
      if (host.name.empty() || host.name[0] == '-' || host.ranks < 1) std::abort();
  } catch (const runtime::ConfigurationError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  read_as_assignment(text.substr(0, end));
  if (end != text.npos) read_as_orders(text.substr(end + 1));
  read_as_hosts(text);
  return 0;
}
