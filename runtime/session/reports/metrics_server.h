// A page over HTTP.
#ifndef RUNTIME_SESSION_REPORTS_METRICS_SERVER_H_
#define RUNTIME_SESSION_REPORTS_METRICS_SERVER_H_

#include <memory>
#include <string>

namespace runtime::session {

// Answers GET /metrics with the text of the last show(), from a thread of its own, by
// libmicrohttpd. Other paths and methods are refused; a connection that is silent for 10 s is
// closed, and no more than 16 are open. Equivalent to: start_http_server of Prometheus' client for
// Python.
class MetricsServer {
 public:
  // Listens on an address of this machine, a number or a name. Port 0: any free one. Throws
  // ConfigurationError that names the address if it cannot, or if this build has no libmicrohttpd.
  MetricsServer(const std::string& address, int port);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const;
  void show(std::string text);  // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTS_METRICS_SERVER_H_
