// The one hierarchy of exceptions of the runtime and the exit codes that it maps to.
#ifndef RUNTIME_ERROR_H_
#define RUNTIME_ERROR_H_

#include <stdexcept>
#include <string>

namespace runtime {

// Exit codes of the `runtime` program; documented in README.md.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,
  kConfiguration = 2,
  kPlugin = 3,
  kCommunication = 4,
  kData = 5,
  kNumeric = 6,
};

// A message says what was tried, the actual value, the expected value and the remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

// Configuration or command line (exit 2).
class ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message)
      : Error(ExitCode::kConfiguration, message) {}
};

// Plugin, device or kernel (exit 3).
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ExitCode::kPlugin, message) {}
};

// Rendezvous, a lost or stuck rank, ranks that disagree (exit 4).
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& message)
      : Error(ExitCode::kCommunication, message) {}
};

// Data set, weights file or checkpoint (exit 5).
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

// NaN, Inf or diverged replicas (exit 6).
class NumericError : public Error {
 public:
  explicit NumericError(const std::string& message) : Error(ExitCode::kNumeric, message) {}
};

// An invariant of the program does not hold, whatever the configuration is (exit 1).
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& broken)
      : Error(ExitCode::kInternal,
              "a fault of the program itself, not of the configuration: " + broken +
                  "; please report it with the output of runtime config show") {}
};

}  // namespace runtime

#endif  // RUNTIME_ERROR_H_
