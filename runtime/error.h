// The runtime's hierarchy of exceptions and the exit code of each.
#ifndef RUNTIME_ERROR_H_
#define RUNTIME_ERROR_H_

#include <stdexcept>
#include <string>

namespace runtime {

// Exit codes of the `runtime` program; cli/README.md has them and those that are not listed here.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,
  kConfiguration = 2,
  kPlugin = 3,
  kCommunication = 4,
  kData = 5,
  kNumeric = 6,
};

// The base of all errors. The message says what was tried, the actual value, the expected value and
// the remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

// The configuration or the command line is wrong (exit code 2).
class ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message)
      : Error(ExitCode::kConfiguration, message) {}
};

// A plugin, a device or a kernel has failed or is missing (exit code 3).
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ExitCode::kPlugin, message) {}
};

// The rendezvous has failed, a rank is lost or stuck, or ranks disagree (exit code 4).
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& message)
      : Error(ExitCode::kCommunication, message) {}
};

// The job cannot go on, and another rank says why where this one would.
class ToldError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// A data set or a weights file cannot be read or written (exit code 5).
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

// A number is NaN or infinite, or replicas have diverged (exit code 6).
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
