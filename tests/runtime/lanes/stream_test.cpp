// Owns the tests of one stream alone: when it is tried again.
#include "runtime/lanes/stream.hpp"

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
  };
  explicit PlayedChannel(Script& script) : script_(script) {}
  Io read(std::span<std::byte>) override { return script_.read; }
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

BOOST_AUTO_TEST_SUITE_END()
