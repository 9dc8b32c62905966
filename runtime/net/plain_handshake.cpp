// Owns the handshake of the plain transport: both ends prove the run key over nonces of both, then speak in the clear.
//
//   dialer   → hello:  "prime-p2", protocol, role, id, id to be passed on to, SHA-256 of the run id, nonce
//   acceptor → answer: verdict, role, id, nonce, HMAC("acceptor", hello, answer so far)
//   dialer   → proof:  HMAC("dialer", hello, answer)
//   acceptor → go-ahead
//
// Each HMAC covers all that was said before it, so nothing of it can be exchanged or replayed; numbers are little-endian.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/net/crypto.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/plain_channel.hpp"

namespace prime::net {

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::string_view MAGIC = "prime-p2";
constexpr std::size_t PROOF_BYTES = 32;
constexpr std::size_t NONCE_BYTES = 32;
constexpr std::size_t ID_BYTES = 8;
constexpr std::size_t IDENTITY_BYTES = 1 + ID_BYTES;
constexpr std::size_t HELLO_BYTES = MAGIC.size() + 1 + IDENTITY_BYTES + ID_BYTES + 32 + NONCE_BYTES;
constexpr std::size_t ANSWER_BYTES = 1 + IDENTITY_BYTES + NONCE_BYTES + PROOF_BYTES;
static_assert(static_cast<std::byte>(MAGIC[0]) != TLS_RECORD);

/// What the acceptor makes of a hello.
enum class Verdict : std::uint8_t { Welcome, OtherRun, OtherProtocol };

void append(Bytes& to, std::span<const std::uint8_t> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }
void append(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void append(Bytes& to, PeerId id) {
  for (unsigned shift = 0; shift < 64; shift += 8) to.push_back(static_cast<std::uint8_t>(id.value >> shift));
}
void append(Bytes& to, const Identity& who) {
  to.push_back(static_cast<std::uint8_t>(who.role));
  append(to, who.id);
}

/// Takes fields off the front of a message whose length was checked before.
class Fields {
 public:
  explicit Fields(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint8_t take_byte() { return take(1)[0]; }
  PeerId take_id() {
    PeerId id;
    const auto digits = take(ID_BYTES);
    for (unsigned at = 0; at < ID_BYTES; ++at) id.value |= static_cast<std::uint64_t>(digits[at]) << (8 * at);
    return id;
  }
  std::optional<Identity> take_identity() {
    const std::uint8_t role = take_byte();
    const Identity who{Role::Peer, take_id()};
    if (role > static_cast<std::uint8_t>(Role::Peer)) return std::nullopt;
    return Identity{static_cast<Role>(role), who.id};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

/// What both ends share: whole messages over a non-blocking socket, and the proofs.
class PlainHandshake : public Handshake {
 public:
  PlainHandshake(SocketPtr socket, const Credentials& credentials) : credentials_(credentials), socket_(std::move(socket)) {}
  ChannelPtr take_channel() final { return std::make_unique<PlainChannel>(std::move(socket_), other_.id); }

 protected:
  Step flush() {
    while (sent_ < out_.size()) {
      const auto io = send_some(socket_->fd(), std::as_bytes(std::span(out_)).subspan(sent_));
      if (io.state != Channel::State::Ok) return blocked(io.state);
      sent_ += io.bytes;
    }
    return Step::Done;
  }
  void queue(Bytes message) {
    out_ = std::move(message);
    sent_ = 0;
  }
  /// Completes `message` to its full size; reads no byte more, since what follows belongs to the channel.
  Step fill(Bytes& message, std::size_t size) {
    while (message.size() < size) {
      const std::size_t had = message.size();
      message.resize(size);
      const auto io = receive_some(socket_->fd(), std::as_writable_bytes(std::span(message)).subspan(had));
      message.resize(had + io.bytes);
      if (io.state != Channel::State::Ok) return blocked(io.state);
    }
    return Step::Done;
  }
  /// Over hello and answer, as far as they are complete.
  [[nodiscard]] Bytes32 proof(std::string_view end) const {
    Bytes said(end.begin(), end.end());
    append(said, hello_);
    append(said, std::span(answer_).first(std::min(answer_.size(), ANSWER_BYTES - (end == "acceptor" ? PROOF_BYTES : 0))));
    return hmac_sha256(credentials_.proof_key(), said);
  }

  Credentials credentials_;
  Identity other_;
  Bytes hello_;
  Bytes answer_;

 private:
  Step blocked(Channel::State state) {
    if (state == Channel::State::WantRead) return Step::WantRead;
    if (state == Channel::State::WantWrite) return Step::WantWrite;
    return failed(ErrorName::RunUnreachable, "the connection ended before the go-ahead");
  }

  SocketPtr socket_;
  Bytes out_;
  std::size_t sent_ = 0;
};

class PlainAccept final : public PlainHandshake {
 public:
  PlainAccept(SocketPtr socket, const Credentials& credentials, PlainTerms terms)
      : PlainHandshake(std::move(socket), credentials), terms_(terms) {}
  [[nodiscard]] Protocol protocol() const override { return protocol_; }
  [[nodiscard]] PeerId target() const override { return target_; }

  Step advance() override {
    while (stage_ != Stage::Finished)
      if (const Step step = next(); step != Step::Done) return step;
    return Step::Done;
  }

 private:
  enum class Stage { Hello, Answer, Proof, GoAhead, Finished };

  Step next() {
    switch (stage_) {
      case Stage::Hello: return read_hello();
      case Stage::Answer:
        if (const Step step = flush(); step != Step::Done) return step;
        if (verdict_ != Verdict::Welcome) return failed(ErrorName::KeyRefused, "the hello is not one for us");
        stage_ = Stage::Proof;
        return Step::Done;
      case Stage::Proof: return read_proof();
      case Stage::GoAhead:
        if (const Step step = flush(); step != Step::Done) return step;
        stage_ = Stage::Finished;
        return Step::Done;
      case Stage::Finished: break;
    }
    return Step::Done;
  }

  Step read_hello() {
    // The magic is looked at as it comes: a stranger who sends less than a hello is refused without waiting for more.
    const Step step = fill(hello_, HELLO_BYTES);
    const auto seen = std::span(hello_).first(std::min(hello_.size(), MAGIC.size()));
    if (!std::ranges::equal(seen, MAGIC.substr(0, seen.size()))) return failed(ErrorName::KeyRefused, "no hello");
    if (step != Step::Done) return step;

    verdict_ = judge();
    append(answer_, std::array{static_cast<std::uint8_t>(verdict_)});
    append(answer_, credentials_.self());
    std::array<std::uint8_t, NONCE_BYTES> nonce{};
    fill_random(nonce);
    append(answer_, nonce);
    // A stranger gets a verdict but nothing signed.
    append(answer_, verdict_ == Verdict::Welcome ? proof("acceptor") : Bytes32{});
    queue(answer_);
    stage_ = Stage::Answer;
    return Step::Done;
  }

  Verdict judge() {
    Fields fields(hello_);
    fields.take(MAGIC.size());
    const std::uint8_t protocol = fields.take_byte();
    const auto who = fields.take_identity();
    target_ = fields.take_id();
    if (!takes(protocol) || !who || who->role != Role::Peer) return Verdict::OtherProtocol;
    protocol_ = static_cast<Protocol>(protocol);
    other_ = *who;
    return equal_secrets(fields.take(32), sha256(credentials_.run())) ? Verdict::Welcome : Verdict::OtherRun;
  }

  [[nodiscard]] bool takes(std::uint8_t protocol) const {
    if (protocol == static_cast<std::uint8_t>(Protocol::Relay)) return terms_.relays;
    return terms_.data && (protocol == static_cast<std::uint8_t>(Protocol::Lane) || protocol == static_cast<std::uint8_t>(Protocol::State));
  }

  Step read_proof() {
    if (const Step step = fill(proof_, PROOF_BYTES); step != Step::Done) return step;
    if (!equal_secrets(proof_, proof("dialer"))) return failed(ErrorName::KeyRefused, "the proof is of another run key");
    queue(Bytes{static_cast<std::uint8_t>(GO_AHEAD)});
    stage_ = Stage::GoAhead;
    return Step::Done;
  }

  PlainTerms terms_;
  Stage stage_ = Stage::Hello;
  Verdict verdict_ = Verdict::OtherProtocol;
  Protocol protocol_ = Protocol::Lane;
  PeerId target_;
  Bytes proof_;
};

class PlainDial final : public PlainHandshake {
 public:
  PlainDial(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who, PeerId target)
      : PlainHandshake(std::move(socket), credentials), protocol_(protocol), who_(who) {
    append(hello_, MAGIC);
    append(hello_, std::array{static_cast<std::uint8_t>(protocol)});
    append(hello_, credentials_.self());
    append(hello_, target);
    append(hello_, sha256(credentials_.run()));
    std::array<std::uint8_t, NONCE_BYTES> nonce{};
    fill_random(nonce);
    append(hello_, nonce);
    queue(hello_);
  }
  [[nodiscard]] Protocol protocol() const override { return protocol_; }

  Step advance() override {
    if (const Step step = flush(); step != Step::Done) return step;
    if (!proved_) {
      if (const Step step = fill(answer_, ANSWER_BYTES); step != Step::Done) return step;
      if (const Step step = check_answer(); step != Step::Done) return step;
      const Bytes32 own = proof("dialer");
      queue(Bytes(own.begin(), own.end()));
      proved_ = true;
      if (const Step step = flush(); step != Step::Done) return step;
    }
    if (const Step step = fill(go_ahead_, 1); step != Step::Done) return step;
    if (static_cast<std::byte>(go_ahead_[0]) != GO_AHEAD) return failed(ErrorName::VersionMismatch, "it gives no go-ahead");
    return Step::Done;
  }

 private:
  Step check_answer() {
    Fields fields(answer_);
    const std::uint8_t verdict = fields.take_byte();
    if (verdict == static_cast<std::uint8_t>(Verdict::OtherRun))
      return failed(ErrorName::WrongRun, "it does not know run " + credentials_.run());
    if (verdict != static_cast<std::uint8_t>(Verdict::Welcome))
      return failed(ErrorName::VersionMismatch, "it does not take " + std::string(name(protocol_)) + " in the clear");
    const auto who = fields.take_identity();
    if (!equal_secrets(std::span(answer_).last(PROOF_BYTES), proof("acceptor")))
      return failed(ErrorName::KeyRefused, "its proof is of another run key");
    if (!who || !who_.met_by(*who))
      return failed(ErrorName::RunUnreachable, (who ? describe(*who) : "nobody") + " answers instead of " + describe(who_));
    other_ = *who;
    return Step::Done;
  }

  Protocol protocol_;
  Expectation who_;
  Bytes go_ahead_;
  bool proved_ = false;
};

}  // namespace

std::unique_ptr<Handshake> accept_plain(SocketPtr socket, const Credentials& credentials, PlainTerms terms) {
  return std::make_unique<PlainAccept>(std::move(socket), credentials, terms);
}

std::unique_ptr<Handshake> dial_plain(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who,
                                      PeerId target) {
  return std::make_unique<PlainDial>(std::move(socket), credentials, protocol, who, target);
}

}  // namespace prime::net
