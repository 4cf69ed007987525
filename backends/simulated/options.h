// The options of a simulated device, from [device.simulated].
#ifndef BACKENDS_SIMULATED_OPTIONS_H_
#define BACKENDS_SIMULATED_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rt/device.h"
#include "rt/plugin.h"

namespace backends::simulated {

struct Options {
  int64_t max_delay_us = 50;  // before each task, uniform in 0..max
  uint64_t seed = 1;          // of the random delays
  uint64_t memory_mb = 1024;
  bool poison = false;      // fills fresh and freed memory with 0xFF (NaN)
  std::string fail_launch;  // only launches of this operation fail; empty: of any
  int64_t fail_after = -1;  // launches (of fail_launch) that succeed first; -1: none fails, or with
                            // fail_launch the first one
  int64_t slow_launch = 0;  // this launch (1, 2, ...; of all operations) takes slow_ms milliseconds
  int64_t slow_ms = 0;
  std::string corrupt;  // launches of this operation write a NaN to the first element of output 0
  std::string wrong;    // launches of this operation are wrong by about a tenth in every element
  std::string late;     // launches of this operation run when the host next waits for the stream
  std::string overrun;  // launches of this operation write one byte behind output 0
  std::vector<std::string> refuse;   // operations that query refuses
  double claim = 0;                  // relative error that query claims for every operation
  bool base_set = false;             // query refuses all but the base set of plugins/operations.md
  std::vector<std::string> varying;  // operations that give other bits every time
  std::string refuse_launch;         // launches of this operation fail before they are queued
  std::string refuse_capture;        // recordings with a launch of this operation fail
  // The device offers so many algorithms for each operation, and its events tell a clock of its own
  // that only launches move: one of the k-th algorithm takes the k-th number of nanoseconds. Empty:
  // one algorithm, and the clock of the host.
  std::vector<int64_t> algorithm_ns;
  int64_t load_ns = 0;     // by that clock, the first launch of a plan takes so much longer
  int64_t wake_ns = 0;     // so does, at most, the first launch behind a wait of the host
  int64_t scatter_ns = 0;  // and each launch, at most; both are random
};

// Throws rt::sdk::Error, which names the key, the value and the expected values.
Options parse_options(const rt_device_options& options);

// The keys of [device.simulated].
std::span<const rt_option_spec* const> option_specs();

}  // namespace backends::simulated

#endif  // BACKENDS_SIMULATED_OPTIONS_H_
