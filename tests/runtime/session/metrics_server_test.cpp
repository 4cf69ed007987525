// A page over HTTP: what is answered, and that strangers do not disturb it.
#include "runtime/session/reports/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>

#include "plugins/host/descriptor.h"
#include "runtime/error.h"

namespace runtime::session {
namespace {

using plugins::host::Descriptor;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Descriptor connection(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

// Returns all that the server answers before it closes the connection.
std::string answer_to(int port, const std::string& request) {
  const Descriptor socket = connection(port);
  size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n =
        ::send(socket.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  char bytes[4096];
  for (ssize_t n; (n = ::recv(socket.get(), bytes, sizeof(bytes), 0)) > 0;)
    answer.append(bytes, static_cast<size_t>(n));
  return answer;
}

std::string request(const std::string& line) {
  return line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
}

class MetricsServerTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      server_.emplace("127.0.0.1", 0);
    } catch (const ConfigurationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("libmicrohttpd-dev"));
      GTEST_SKIP() << error.what();
    }
  }
  std::optional<MetricsServer> server_;
};

TEST_F(MetricsServerTest, ThePageIsThatOfTheLastShow) {
  const int port = server_->port();
  ASSERT_GT(port, 0);
  server_->show("one 1\n");
  EXPECT_THAT(answer_to(port, request("GET /metrics")),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/plain; version=0.0.4"),
                    EndsWith("\r\n\r\none 1\n")));
  const std::string large(1 << 20, 'x');
  server_->show(large);
  EXPECT_THAT(answer_to(port, request("GET /metrics")), EndsWith("\r\n\r\n" + large));
}

TEST_F(MetricsServerTest, OtherRequestsAreRefused) {
  const int port = server_->port();
  server_->show("one 1\n");
  EXPECT_THAT(answer_to(port, request("GET /")),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("at /metrics")));
  EXPECT_THAT(answer_to(port, request("DELETE /metrics")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(answer_to(port, request("GET /" + std::string(1 << 17, 'a'))),
              StartsWith("HTTP/1.1 414 "));
  answer_to(port, "\x16\x03\x01\r\n\r\n");  // no HTTP
  EXPECT_THAT(answer_to(port, request("GET /metrics")), EndsWith("one 1\n"));
}

TEST_F(MetricsServerTest, ConnectionsThatSayNothingDoNotBlockTheNext) {
  server_->show("one 1\n");
  std::vector<Descriptor> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(connection(server_->port()));
  EXPECT_THAT(answer_to(server_->port(), request("GET /metrics")), EndsWith("one 1\n"));
}

TEST_F(MetricsServerTest, AnAddressThatCannotBeUsedIsAnErrorWithItsReason) {
  const auto error_at = [](const std::string& address, int port) -> std::string {
    try {
      const MetricsServer server(address, port);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_at("127.0.0.1", server_->port()),
              AllOf(HasSubstr(std::to_string(server_->port())), HasSubstr("in use"),
                    HasSubstr("another metrics.prometheus_port")));
  EXPECT_THAT(error_at("192.0.2.1", 0), HasSubstr("192.0.2.1"));
  EXPECT_THAT(error_at("no such name.invalid", 0), HasSubstr("no such name"));
}

}  // namespace
}  // namespace runtime::session
