// Owns the tests of one stream alone: when it is tried again.
#include "runtime/lanes/stream.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <utility>
#include <vector>

#include "runtime/net/shared_region.hpp"

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
    std::vector<std::byte> written;
    std::optional<net::Channel::RegionPlace> place;  ///< of whatever is shared
    bool gone = false;
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
  std::optional<RegionPlace> share(const std::shared_ptr<const net::SharedRegion>&, std::span<const std::byte>) override {
    return script_.place;
  }
  Shared shared(const RegionPlace& place, std::size_t count) override {
    if (place != script_.place || count != script_.lent.size()) return {};
    if (script_.gone) return {nullptr, true};
    return {{script_.lent.data(), [](const std::byte*) {}}};
  }
  Io write(std::span<const std::byte> from) override {
    rung_ = script_.rings_in_write;
    script_.written.insert(script_.written.end(), from.begin(), from.end());
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

namespace {

Frame input_frame(std::span<const std::byte> payload) {
  Frame frame;
  frame.header.kind = PieceKind::Input;
  frame.header.world = 2;
  frame.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  frame.payload = payload;
  return frame;
}

/// What a stream writes when it sends `payload`, which lies in a region.
std::vector<std::byte> written_for(std::span<const std::byte> payload, std::optional<net::Channel::RegionPlace> place) {
  PlayedChannel::Script script;
  script.place = place;
  Stream stream(std::make_unique<PlayedChannel>(script));
  stream.send(input_frame(payload), net::SharedRegion::make(4096).value());
  while (stream.sending()) BOOST_REQUIRE((stream.write() == Stream::WriteStep::Written));
  return script.written;
}

}  // namespace

/// As of TLS: what it read has brought more along, of which poll does not tell.
BOOST_AUTO_TEST_CASE(a_stream_that_was_tried_too_early_and_found_something_is_tried_again) {
  PlayedChannel::Script script;
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 64> bin{};
  BOOST_TEST((stream.read(bin) == Stream::ReadStep::Blocked));
  BOOST_TEST(!stream.may_read());
  const auto bytes = encode(input_frame({}).header);
  script.header = bytes;
  BOOST_TEST((stream.read(bin) == Stream::ReadStep::Header));
  BOOST_TEST(stream.may_read());
}

BOOST_AUTO_TEST_CASE(of_a_payload_that_the_other_end_can_read_only_its_place_is_written) {
  const std::array<std::byte, 64> payload{std::byte{7}};
  BOOST_TEST(written_for(payload, net::Channel::RegionPlace{3, 8}).size() == HEADER_BYTES + 16);
  const auto moved = written_for(payload, std::nullopt);
  BOOST_REQUIRE(moved.size() == HEADER_BYTES + payload.size());
  BOOST_TEST(std::equal(payload.begin(), payload.end(), moved.begin() + HEADER_BYTES));
}

/// It is used there, or copied from there, or left there; and what comes next is the next frame.
BOOST_AUTO_TEST_CASE(a_payload_is_found_in_its_place) {
  const net::Channel::RegionPlace place{3, 8};
  PlayedChannel::Script script;
  script.lent.fill(std::byte{5});
  script.place = place;
  std::vector<std::byte> three;
  for (int i = 0; i < 3; ++i) std::ranges::copy(written_for(script.lent, place), std::back_inserter(three));
  script.header = three;
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 8> bin{};
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
  BOOST_TEST(stream.can_lend());
  stream.receive(Reception{stream.header(), {}, nullptr, true});
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Payload));
  const auto lent = stream.received();
  BOOST_TEST(lent.into.data() == script.lent.data());
  BOOST_TEST(!stream.lends());  // nothing that is read next overwrites it

  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
  std::array<std::byte, 64> into{};
  stream.receive(Reception{stream.header(), into, nullptr});
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Payload));
  BOOST_TEST((into == script.lent));

  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
  stream.discard();
  BOOST_TEST((stream.read(bin) == Stream::ReadStep::Dropped));
}

/// Who has given a reduce up may have freed its memory; what else comes has nothing to do with that.
BOOST_AUTO_TEST_CASE(a_place_that_is_gone_ends_a_frame_and_not_the_stream) {
  PlayedChannel::Script script;
  script.place = net::Channel::RegionPlace{3, 8};
  std::vector<std::byte> two;
  for (int i = 0; i < 2; ++i) std::ranges::copy(written_for(script.lent, script.place), std::back_inserter(two));
  script.header = two;
  script.gone = true;
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 64> bin{};
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
    stream.receive(Reception{stream.header(), {}, nullptr, true});
    BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Payload));
    BOOST_TEST(stream.received().gone);
  }
}

BOOST_AUTO_TEST_CASE(a_place_that_is_none_ends_the_stream) {
  PlayedChannel::Script script;
  const auto bytes = written_for(script.lent, net::Channel::RegionPlace{3, 8});
  script.header = bytes;
  script.place = net::Channel::RegionPlace{4, 8};
  Stream stream(std::make_unique<PlayedChannel>(script));
  std::array<std::byte, 64> bin{};
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Header));
  stream.receive(Reception{stream.header(), {}, nullptr, true});
  BOOST_REQUIRE((stream.read(bin) == Stream::ReadStep::Lost));
  BOOST_TEST((stream.error()->name == ErrorName::ProtocolViolation));
}

BOOST_AUTO_TEST_SUITE_END()
