// Starts a program with pipes for its output, and says what to do if that fails.
#include "runtime/launch/child.h"

#include <errno.h>
#include <unistd.h>

#include <cstring>

#include "runtime/error.h"

namespace runtime::launch {

Child start(const ChildSpec& spec) {
  plugins::host::Pipe out, err;
  auto what = static_cast<const plugins::host::Spawn&>(spec);
  const auto add_pipe = [&](plugins::host::Pipe& pipe, int number) {
    pipe = plugins::host::make_pipe();
    if (!pipe.read) {
      throw CommunicationError("cannot make a pipe for " + spec.name + ": " + std::strerror(errno) +
                               "; each rank needs two, see 'ulimit -n'");
    }
    what.descriptors.emplace_back(pipe.write.get(), number);
  };
  if (spec.pipe_out) add_pipe(out, STDOUT_FILENO);
  if (spec.pipe_err) add_pipe(err, STDERR_FILENO);
  const auto [id, error] = plugins::host::spawn(what);
  if (id < 0) {
    throw CommunicationError("cannot start " + spec.name + ": " + std::strerror(error) +
                             "; start fewer ranks, or allow more processes ('ulimit -u') and open "
                             "files ('ulimit -n')");
  }
  if (error != 0) {
    throw ConfigurationError(
        "cannot start " + spec.name + ": '" + spec.program + "': " + std::strerror(error) + "; " +
        (error == EMFILE || error == ENFILE ? "allow more open files ('ulimit -n')" : spec.remedy));
  }
  return {spec.name, spec.rank, id, spec.end_signal, std::move(out.read), std::move(err.read)};
}

}  // namespace runtime::launch
