// Splits lists and lines at the characters that no name of a host has.
#include "tools/launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "runtime/error.h"

namespace tools::launch {
namespace {

constexpr int kMostRanks = 4096;  // on one host

[[noreturn]] void refuse(const std::string& where, std::string_view entry) {
  throw runtime::ConfigurationError(where + ": got '" + std::string(entry) +
                                    "', expected a host such as b, user@b or [fd00::2], and maybe "
                                    "its number of ranks from 1 to " +
                                    std::to_string(kMostRanks) + " as in b:4");
}

// Reads "b", "b:4", "[fd00::2]:4" and, as it has several colons, "fd00::2".
Host parse_host(const std::string& where, std::string_view entry, int ranks) {
  std::string_view name = entry, number;
  const bool bracket = entry.starts_with('[');
  const size_t end = bracket ? entry.find(']') : 0;
  if (bracket && end == entry.npos) refuse(where, entry);
  if (bracket) {
    name = entry.substr(1, end - 1);
    number = entry.substr(end + 1);
    if (!number.empty() && !number.starts_with(':')) refuse(where, entry);
  } else if (std::ranges::count(entry, ':') == 1) {
    name = entry.substr(0, entry.find(':'));
    number = entry.substr(name.size());
  }
  // An option of the agent, or a word of a shell, is no host.
  const bool plain = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._@:%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (name.empty() || name.starts_with('-') || !plain) refuse(where, entry);
  if (number.empty()) return {std::string(name), ranks};
  number.remove_prefix(1);
  Host host{std::string(name), 0};
  const auto [last, error] =
      std::from_chars(number.data(), number.data() + number.size(), host.ranks);
  if (error != std::errc() || last != number.data() + number.size() || host.ranks < 1 ||
      host.ranks > kMostRanks)
    refuse(where, entry);
  return host;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view list, int ranks) {
  std::vector<Host> hosts;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    more = comma != list.npos;
    hosts.push_back(parse_host("--hosts", trimmed(list.substr(0, comma)), ranks));
    if (more) list.remove_prefix(comma + 1);
  }
  return hosts;
}

std::vector<Host> read_host_file(const std::string& path, int ranks) {
  std::ifstream file(path);
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    const std::string where = path + ":" + std::to_string(number);
    const size_t space = text.find_first_of(" \t");
    if (space == text.npos) {
      hosts.push_back(parse_host(where, text, ranks));
      continue;
    }
    constexpr std::string_view kSlots = "slots=";
    const std::string_view slots = trimmed(text.substr(space));
    if (!slots.starts_with(kSlots)) refuse(where, text);
    const std::string_view name = text.substr(0, space);
    const bool bare = name.find(':') != name.npos && !name.starts_with('[');
    hosts.push_back(parse_host(where,
                               (bare ? "[" + std::string(name) + "]" : std::string(name)) + ":" +
                                   std::string(slots.substr(kSlots.size())),
                               ranks));
  }
  if (hosts.empty())
    throw runtime::ConfigurationError("--host-file: " + path +
                                      " names no host, or cannot be read; write one a line, with "
                                      "its number of ranks as in 'b slots=4'");
  return hosts;
}

std::string address_of(const Host& host) {
  const size_t at = host.name.find('@');
  const std::string name = at == host.name.npos ? host.name : host.name.substr(at + 1);
  return name.find(':') == name.npos ? name : "[" + name + "]";
}

}  // namespace tools::launch
