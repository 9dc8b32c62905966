// Owns the tests of one stream alone: when it is tried again.
#include "runtime/lanes/stream.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <utility>

BOOST_AUTO_TEST_SUITE(stream)

using namespace prime;
using namespace prime::lanes;

namespace {

/// Does what the test says.
class PlayedChannel final : public net::Channel {
 public:
  struct Script {
    Io read{State::WantRead, 0};
    bool rings_in_write = false;
    std::span<const std::byte> header;  ///< is read before anything else
    State lends = State::WantRead;
    std::array<std::byte, 64> lent{};
  };
  explicit PlayedChannel(Script& script) : script_(script) {}
  Io read(std::span<std::byte> into) override {
    if (script_.header.empty()) return script_.read;
    const std::size_t count = std::min(into.size(), script_.header.size());
    std::copy_n(script_.header.begin(), count, into.begin());
    script_.header = script_.header.subspan(count);
    return {State::Ok, count};
  }
  [[nodiscard]] bool lends(std::size_t count) const override { return count == script_.lent.size(); }
  Lent lend(std::size_t) override {
    if (script_.lends != State::Ok) return {script_.lends, nullptr};
    return {State::Ok, {script_.lent.data(), [](std::byte*) {}}};
  }
  Io write(std::span<const std::byte> from) override {
    rung_ = script_.rings_in_write;
    return {State::Ok, from.size()};
  }
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool rung() override { return std::exchange(rung_, false); }
  [[nodiscard]] PeerId peer() const override { return PeerId{1}; }
  void shutdown() noexcept override {}

 private:
  Script& script_;
  bool rung_ = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_bell_that_writing_has_heard_wakes_reading_too) {
  PlayedChannel::Script script;
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 64> bin{};
  for (const bool rings : {false, true}) {
    BOOST_TEST((stream.read(bin) == Stream::ReadStep::Blocked));
    BOOST_TEST(!stream.may_read());
    BOOST_TEST(stream.poll_events() == POLLIN);
    script.rings_in_write = rings;
    stream.send(Frame{});
    BOOST_TEST((stream.write() == Stream::WriteStep::Written));
    BOOST_TEST(stream.may_read() == rings);
  }
}

BOOST_AUTO_TEST_CASE(a_payload_that_the_channel_lends_is_not_moved_and_counts_as_lent_while_somebody_has_it) {
  PlayedChannel::Script script;
  FrameHeader header;
  header.kind = PieceKind::Input;
  header.world = 2;
  header.payload_bytes = static_cast<std::uint32_t>(script.lent.size());
  const auto bytes = encode(header);
  script.header = bytes;
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 64> bin{};
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
  BOOST_REQUIRE(stream.can_lend());
  stream.receive(Reception{stream.header(), {}, nullptr, true});
  BOOST_TEST((stream.read(bin) == Stream::ReadStep::Blocked));
  script.lends = net::Channel::State::Ok;
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Payload));
  auto reception = stream.received();
  BOOST_TEST(reception.into.data() == script.lent.data());
  BOOST_TEST(reception.into.size() == script.lent.size());
  BOOST_TEST(stream.lends());
  reception = {};
  BOOST_TEST(!stream.lends());
}

BOOST_AUTO_TEST_SUITE_END()
