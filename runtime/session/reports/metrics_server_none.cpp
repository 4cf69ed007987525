// Refuses to serve a page: this build has no libmicrohttpd.
#include "runtime/error.h"
#include "runtime/session/reports/metrics_server.h"

namespace runtime::session {

struct MetricsServer::State {};

MetricsServer::MetricsServer(const std::string&, int) {
  throw ConfigurationError(
      "metrics.prometheus_port: this build has no libmicrohttpd, so it cannot serve numbers over "
      "HTTP; set metrics.prometheus_port = 0 (metrics.ranks = true writes the numbers to files), "
      "or build again where libmicrohttpd-dev is installed");
}
MetricsServer::~MetricsServer() = default;
int MetricsServer::port() const { return 0; }
void MetricsServer::show(std::string) {}

}  // namespace runtime::session
