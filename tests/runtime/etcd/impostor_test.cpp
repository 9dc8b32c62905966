// Owns the tests of the etcd client against what is no etcd, or one that is damaged.
#include <array>

#include "etcd_process.hpp"

BOOST_AUTO_TEST_SUITE(etcd_impostor)

using namespace prime;
using namespace prime::etcd;
using etcd::test::LIMIT;

namespace {

/// Answers the only request that comes, whatever it is.
class Impostor {
 public:
  explicit Impostor(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    BOOST_REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    BOOST_REQUIRE(::listen(listener_, 1) == 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread{[this, text = std::move(answer)] { answer_one(text); }};
  }
  ~Impostor() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  void answer_one(const std::string& text) const {
    const int asked = ::accept(listener_, nullptr, nullptr);
    if (asked < 0) return;
    std::array<char, 4096> request{};
    if (::recv(asked, request.data(), request.size(), 0) > 0)
      for (std::size_t sent = 0; sent < text.size();) {
        const auto more = ::send(asked, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) break;
        sent += static_cast<std::size_t>(more);
      }
    ::close(asked);
  }

  int listener_;
  std::string url_;
  std::jthread thread_;
};

std::string http(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_answers_as_no_etcd_does_is_an_error_that_names_it) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {http("200 OK", "<html>"), "it answers as no etcd does, with status 200"},
      {http("200 OK", "[1]"), "it answers as no etcd does, with status 200"},
      {http("500 Internal Server Error", R"({"error": {"code": 1}})"), "status 500"},
      {http("503 Service Unavailable", R"({"error": "no leader"})"), "no leader"},
      {http("200 OK", std::string(5 << 20, ' ')), "an answer of more than 4194304 bytes"}};
  for (const auto& [answer, said] : answers) {
    const Impostor impostor{answer};
    Client client{{impostor.url()}};
    const auto outcome = client.put({"/a", "x"}, LIMIT);
    BOOST_REQUIRE(!outcome);
    BOOST_CHECK(outcome.error().name == ErrorName::StandbyStoreFailed);
    BOOST_TEST(outcome.error().detail == impostor.url() + ": " + said);
  }
}

BOOST_AUTO_TEST_CASE(fields_of_other_types_than_etcd_has_are_errors_and_no_crash) {
  for (const std::string body : {R"({"kvs": [{"key": 1}]})", R"({"kvs": 5})", R"({"kvs": ["x"]})"}) {
    const Impostor impostor{http("200 OK", body)};
    Client client{{impostor.url()}};
    BOOST_TEST(!client.read("/a", LIMIT).has_value(), body);
  }
  for (const std::string body : {R"({"succeeded": 7})", R"({"responses": [{"response_range": 5}]})"}) {
    const Impostor impostor{http("200 OK", body)};
    Client client{{impostor.url()}};
    BOOST_TEST(!client.commit({{}, {}, {"/a"}}, LIMIT).has_value(), body);
  }
  const Impostor lender{http("200 OK", R"({"ID": 7, "TTL": []})")};
  BOOST_TEST(!Client{{lender.url()}}.grant(5s, LIMIT).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
