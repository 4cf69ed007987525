// Reads cores, memory and the name of the processor from /proc and the scheduler.
#include "backends/cpu/system.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <thread>

namespace backends::cpu {
namespace {

// The value of the first line "key : value" of a file in /proc; empty if there is none.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t name_end = line.find_last_not_of(" \t", colon - 1);
    if (name_end + 1 != key.size()) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

uint64_t kilobytes(const char* key) {
  const std::string value = proc_value("/proc/meminfo", key);
  return value.empty() ? 0 : std::strtoull(value.c_str(), nullptr, 10) * 1024;
}

const char* vector_name() {
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  return __builtin_cpu_supports("avx2") ? "avx2" : "sse";
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string processor_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "x86-64 processor" : name;
}

std::string processor_identity() {
  std::string text = "cpu";
  for (const char* key : {"vendor_id", "cpu family", "model", "stepping"}) {
    text += '-';
    text += proc_value("/proc/cpuinfo", key);
  }
  text += '-';
  text += vector_name();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-'; }, '_');
  return text.substr(0, 63);
}

SystemMemory system_memory() { return {kilobytes("MemTotal"), kilobytes("MemAvailable")}; }

}  // namespace backends::cpu
