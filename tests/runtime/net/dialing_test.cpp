// Owns the tests of who is let in, who is refused, and by which name.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <openssl/err.h>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/certificate_authority.hpp"
#include "runtime/net/tls_channel.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(dialing)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

const RunKey KEY = RunKey::generate();
constexpr PeerId HOST_ID{1};
constexpr PeerId GUEST_ID{2};

Credentials guest_credentials() { return credentials(KEY, GUEST_ID); }

struct Papers {
  const Certified* leaf = nullptr;  ///< none: no certificate
  std::string run = "run";
  std::string protocol{name(Protocol::Lane)};
};

/// A TLS client that trusts anybody; true when it is given the go-ahead.
bool is_let_in(std::uint16_t port, const Papers& papers) {
  const Guest guest(port);
  const ContextPtr context(SSL_CTX_new(TLS_method()));
  if (papers.leaf != nullptr) {
    SSL_CTX_use_certificate(context.get(), papers.leaf->certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), papers.leaf->key.get());
  }
  const SslPtr session(SSL_new(context.get()));
  const std::string offer = static_cast<char>(papers.protocol.size()) + papers.protocol;
  if (!papers.protocol.empty())
    SSL_set_alpn_protos(session.get(), reinterpret_cast<const unsigned char*>(offer.data()), static_cast<unsigned int>(offer.size()));
  if (!papers.run.empty()) SSL_set_tlsext_host_name(session.get(), papers.run.c_str());
  SSL_set_fd(session.get(), guest.fd());
  char answer = 0;
  const bool let_in = SSL_connect(session.get()) == 1 && SSL_read(session.get(), &answer, 1) == 1;
  ERR_clear_error();
  return let_in;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_peer_reaches_a_peer_and_both_know_whom_they_talk_to) {
  Host host(credentials(KEY, HOST_ID));
  for (const Protocol protocol : PROTOCOLS) {
    auto dialed = dial(host.address(), protocol, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE);
    BOOST_REQUIRE(dialed);
    auto arrival = host.take();
    BOOST_TEST((arrival.protocol == protocol));
    BOOST_TEST(arrival.host == "127.0.0.1");
    BOOST_TEST((arrival.channel->peer() == GUEST_ID));
    BOOST_TEST(((*dialed)->peer() == HOST_ID));
    BOOST_TEST(carries(**dialed, *arrival.channel));
    BOOST_TEST(carries(*arrival.channel, **dialed));
  }
  BOOST_TEST(host->counters().accepted == PROTOCOLS.size());
}

BOOST_AUTO_TEST_CASE(megabytes_cross_both_transports_without_a_wrong_byte) {
  Host host(credentials(KEY, HOST_ID), {.allow_plain = true});
  for (const Transport transport : {Transport::Tls, Transport::Plain}) {
    auto dialed = dial(host.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE, transport);
    BOOST_REQUIRE(dialed);
    auto arrival = host.take();
    std::vector<std::byte> sent(9'000'001);
    for (std::size_t at = 0; at < sent.size(); ++at) sent[at] = static_cast<std::byte>((at * 2654435761U) >> 13);
    std::vector<std::byte> got(sent.size());
    std::thread sender([&] { write_all(**dialed, sent); });
    BOOST_TEST(read_all(*arrival.channel, got));
    sender.join();
    BOOST_TEST((got == sent));
  }
}

/// `modprobe tls` makes it so, before the test; all others of this program then go through the kernel, too.
BOOST_AUTO_TEST_CASE(the_kernel_encrypts_what_is_sent_if_it_has_tls) {
  std::ifstream names("/proc/sys/net/ipv4/tcp_available_ulp");
  const std::vector<std::string> available{std::istream_iterator<std::string>(names), {}};
  const bool has_tls = std::ranges::find(available, "tls") != available.end();
  BOOST_TEST_MESSAGE("this kernel has " << (has_tls ? "TLS" : "no TLS (CONFIG_TLS, module tls): OpenSSL must encrypt"));
  Host host(credentials(KEY, HOST_ID));
  const auto dialed = dial(host.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE);
  BOOST_REQUIRE(dialed);
  const auto arrival = host.take();
  BOOST_TEST(dynamic_cast<const TlsChannel&>(**dialed).kernel_encrypts() == has_tls);
  BOOST_TEST(dynamic_cast<const TlsChannel&>(*arrival.channel).kernel_encrypts() == has_tls);
}

BOOST_AUTO_TEST_CASE(names_and_ipv6_are_dialed_as_well) {
  Host host(credentials(KEY, HOST_ID));
  const Endpoint by_name{"localhost", host.address().port};
  BOOST_TEST(dial(by_name, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE).has_value());
  Host sixth(credentials(KEY, HOST_ID), {.listen = {"::1", 0}});
  BOOST_TEST(dial(sixth.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE).has_value());
}

BOOST_AUTO_TEST_CASE(of_several_addresses_the_one_where_the_right_one_answers_is_taken_and_remembered) {
  Host host(credentials(KEY, HOST_ID));
  Host stranger(credentials(RunKey::generate(), HOST_ID));
  Host other(credentials(KEY, PeerId{9}));
  const Mute mute;  // takes connections, and says nothing
  const Addresses all({{"127.0.0.1", 1}, stranger.address(), mute.address(), other.address(), host.address()});
  AddressMemory memory;
  auto dialed = dial(all, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE, Transport::Tls, &memory);
  BOOST_REQUIRE(dialed);
  BOOST_TEST(((*dialed)->peer() == HOST_ID));
  BOOST_TEST(memory.order(all).list.front().port == host.address().port);
  auto arrival = host.take();  // it counts after it has answered
  BOOST_TEST(host->counters().accepted == 1U, "it was dialed once");
  BOOST_TEST(carries(**dialed, *arrival.channel));
  dialed->reset();
  // The others are tried, too, when that takes its time, which a busy machine may have it do now and then.
  bool alone = false;
  for (int tries = 0; tries < 20 && !alone; ++tries) {
    const auto refused = stranger->counters().refused;
    BOOST_TEST(dial(all, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE, Transport::Tls, &memory).has_value());
    BOOST_TEST((host.take().channel->peer() == GUEST_ID));
    alone = stranger->counters().refused == refused;
  }
  BOOST_TEST(alone, "what led there before is tried first");
}

BOOST_AUTO_TEST_CASE(where_none_leads_there_each_address_is_named_with_what_became_of_it) {
  Host stranger(credentials(RunKey::generate(), HOST_ID));
  const Addresses all({{"127.0.0.1", 1}, stranger.address(), {"no-such-host.invalid", 5}});
  const auto dialed = dial(all, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE);
  check_error(dialed, ErrorName::KeyRefused, "127.0.0.1:1: connection refused");  // somebody's answer says more than silence
  for (const auto& part : {format_endpoint(stranger.address()), std::string{"no-such-host.invalid:5: "}})
    BOOST_TEST(dialed.error().detail.find(part) != std::string::npos, dialed.error().detail);
  check_error(dial(Addresses{}, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE), ErrorName::RunUnreachable,
              "has told no address");
}

BOOST_AUTO_TEST_CASE(another_run_key_is_refused_by_name_at_both_ends) {
  Host host(credentials(KEY, HOST_ID));
  const auto stranger = credentials(RunKey::generate(), GUEST_ID);
  check_error(dial(host.address(), Protocol::Lane, stranger, Expectation::peer(HOST_ID), PATIENCE), ErrorName::KeyRefused, "127.0.0.1:");
  BOOST_TEST(host->counters().accepted == 0U);
}

BOOST_AUTO_TEST_CASE(another_run_is_refused_by_name) {
  Host host(credentials(KEY, HOST_ID));
  const auto other = credentials(KEY, GUEST_ID, Role::Peer, "other-run");
  check_error(dial(host.address(), Protocol::Lane, other, Expectation::peer(HOST_ID), PATIENCE), ErrorName::WrongRun, "other-run");
}

BOOST_AUTO_TEST_CASE(somebody_else_at_the_address_is_not_talked_to) {
  Host peer(credentials(KEY, HOST_ID));
  check_error(dial(peer.address(), Protocol::Control, guest_credentials(), Expectation::coordinator(), PATIENCE), ErrorName::RunUnreachable,
              "peer 0000000000000001 answers instead of the coordinator");
  check_error(dial(peer.address(), Protocol::Lane, guest_credentials(), Expectation::peer(PeerId{9}), PATIENCE), ErrorName::RunUnreachable,
              "instead of peer 0000000000000009");
  Host coordinator(credentials(KEY, HOST_ID, Role::Coordinator));
  BOOST_TEST(dial(coordinator.address(), Protocol::Control, guest_credentials(), Expectation::coordinator(), PATIENCE).has_value());
  check_error(dial(coordinator.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE),
              ErrorName::RunUnreachable);
}

BOOST_AUTO_TEST_CASE(nobody_is_called_by_a_coordinator) {
  Host host(credentials(KEY, HOST_ID));
  const auto caller = credentials(KEY, GUEST_ID, Role::Coordinator);
  check_error(dial(host.address(), Protocol::Lane, caller, Expectation::peer(HOST_ID), PATIENCE), ErrorName::RunUnreachable);
}

BOOST_AUTO_TEST_CASE(only_a_valid_certificate_of_this_run_is_let_in) {
  Host host(credentials(KEY, HOST_ID));
  const std::uint16_t port = host.address().port;
  const auto ours = CertificateAuthority::derive(KEY, "run");
  const Identity who{Role::Peer, GUEST_ID};
  const auto good = ours->issue(who);
  const auto expired = ours->issue(who, {"20000101000000Z", "20010101000000Z"});
  const auto too_early = ours->issue(who, {"99980101000000Z", "99991231235959Z"});
  const auto foreign = CertificateAuthority::derive(RunKey::generate(), "run")->issue(who);
  const auto other_run = CertificateAuthority::derive(KEY, "other-run")->issue(who);
  const auto coordinator = ours->issue({Role::Coordinator, GUEST_ID});

  BOOST_TEST(is_let_in(port, {&*good}));
  BOOST_TEST(!is_let_in(port, {nullptr}));
  BOOST_TEST(!is_let_in(port, {&*expired}));
  BOOST_TEST(!is_let_in(port, {&*too_early}));
  BOOST_TEST(!is_let_in(port, {&*foreign}));
  BOOST_TEST(!is_let_in(port, {&*other_run}));
  BOOST_TEST(!is_let_in(port, {&*coordinator}));
  BOOST_TEST(!is_let_in(port, {&*good, "other-run"}));
  BOOST_TEST(!is_let_in(port, {&*good, ""}));
  BOOST_TEST(!is_let_in(port, {&*good, "run", "prime-lane/0"}));
  BOOST_TEST(!is_let_in(port, {&*good, "run", ""}));
  BOOST_TEST(host->counters().accepted == 1U);
}

BOOST_AUTO_TEST_CASE(an_address_where_nobody_listens_is_unreachable) {
  Endpoint gone;
  {
    Host host(credentials(KEY, HOST_ID));
    gone = host.address();
  }
  check_error(dial(gone, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), PATIENCE), ErrorName::RunUnreachable,
              format_endpoint(gone) + ": connection refused");
  check_error(dial(Endpoint{"no-such-host.invalid", 1}, Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), 5s),
              ErrorName::RunUnreachable, "no-such-host.invalid");
}

/// Each of these would last for the minute that is allowed.
BOOST_AUTO_TEST_CASE(a_dial_that_is_stopped_ends) {
  const Mute mute;
  StopSignal stop;
  const DialLimit limit{PATIENCE, &stop};
  const auto own = guest_credentials();
  std::array<Result<ChannelPtr>, 4> ended;
  {
    std::vector<std::jthread> dials;
    const auto begin = [&](std::size_t index, const std::function<Result<ChannelPtr>()>& dials_so) {
      dials.emplace_back([&ended, index, dials_so] { ended[index] = dials_so(); });
    };
    const auto who = Expectation::peer(HOST_ID);
    begin(0, [&] { return dial(mute.address(), Protocol::Lane, own, who, limit); });
    begin(1, [&] { return dial(mute.address(), Protocol::Lane, own, who, limit, Transport::Plain); });
    begin(2, [&] { return dial_through(mute.address(), PeerId{9}, Protocol::Lane, own, HOST_ID, limit); });
    begin(3, [&]() -> Result<ChannelPtr> {
      auto socket = connect_to(mute.address(), monotonic_now() + PATIENCE);
      if (!socket) return fail(socket.error());
      return wait_ready((*socket)->fd(), POLLIN, monotonic_now() + PATIENCE, &stop) ? fail(ErrorName::InternalError)
                                                                                    : fail(ErrorName::Interrupted);
    });
    stop.stop();
  }
  for (const auto& each : ended) check_error(each, ErrorName::Interrupted);
  check_error(dial(mute.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), limit), ErrorName::Interrupted);
}

BOOST_AUTO_TEST_CASE(a_stop_says_nothing_of_a_dial_that_is_done) {
  Host host(credentials(KEY, HOST_ID));
  StopSignal stop;
  const auto dialed = dial(host.address(), Protocol::Lane, guest_credentials(), Expectation::peer(HOST_ID), {PATIENCE, &stop});
  BOOST_REQUIRE(dialed);
  auto arrival = host.take();
  stop.stop();
  BOOST_TEST(carries(**dialed, *arrival.channel));
}

BOOST_AUTO_TEST_CASE(a_mute_address_costs_its_deadline_and_no_descriptor) {
  const int mute = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(::bind(mute, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  BOOST_REQUIRE(::listen(mute, 128) == 0);
  socklen_t size = sizeof where;
  ::getsockname(mute, reinterpret_cast<sockaddr*>(&where), &size);
  const auto own = guest_credentials();
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 20; ++round)
    check_error(dial(Endpoint{"127.0.0.1", ntohs(where.sin_port)}, Protocol::Lane, own, Expectation::peer(HOST_ID), 20ms),
                ErrorName::RunUnreachable, "no answer in time");
  BOOST_TEST(open_descriptors() == before);
  ::close(mute);
}

BOOST_AUTO_TEST_SUITE_END()
