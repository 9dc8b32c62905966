// Owns reading and writing through OpenSSL. Every call is preceded by ERR_clear_error: OpenSSL's error queue belongs to the thread, and
// what one session leaves in it makes another one look broken (spec/caf.md §7, D1).
#include "runtime/net/tls_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <utility>

#include "runtime/ancillary.hpp"
#include "runtime/net/plain_channel.hpp"

namespace prime::net {

namespace {

/// Of one call: enough to make calls cheap, little enough to stay in the caches on its way.
constexpr std::size_t BATCH_BYTES = 512 * 1024;
constexpr std::size_t RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH;

TlsWire& wire_of(BIO* bio) { return *static_cast<TlsWire*>(BIO_get_data(bio)); }

/// Moves errno into the flags by which OpenSSL knows "not now" from "never again".
int moved(BIO* bio, ssize_t count, int retry_flag) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int send_bytes(BIO* bio, const char* from, int size) {
  TlsWire& wire = wire_of(bio);
  const std::span bytes{reinterpret_cast<const std::byte*>(from), static_cast<std::size_t>(size)};
  if (const auto type = std::exchange(wire.record_type, 0); type != 0)
    return moved(bio, send_with(wire.socket->fd(), bytes, {SOL_TLS, TLS_SET_RECORD_TYPE, std::as_bytes(std::span{&type, 1})}),
                 BIO_FLAGS_WRITE);
  if (!wire.gathers) return moved(bio, ::send(wire.socket->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), BIO_FLAGS_WRITE);
  wire.records.insert(wire.records.end(), bytes.begin(), bytes.end());
  return moved(bio, size, BIO_FLAGS_WRITE);
}

/// The session asks for the five bytes of a record's head, then for the record: both come from what one call has brought.
int receive_bytes(BIO* bio, char* into, int size) {
  TlsWire& wire = wire_of(bio);
  if (wire.received_begin == wire.received_end) {
    if (!wire.received) wire.received.reset(new std::byte[BATCH_BYTES]);
    const ssize_t count = ::recv(wire.socket->fd(), wire.received.get(), BATCH_BYTES, 0);
    if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    if (count <= 0) {
      const int result = moved(bio, count, BIO_FLAGS_READ);
      wire.received.reset();
      return result;
    }
    wire.received_begin = 0;
    wire.received_end = static_cast<std::size_t>(count);
  }
  const std::size_t count = std::min(static_cast<std::size_t>(size), wire.received_end - wire.received_begin);
  std::memcpy(into, wire.received.get() + wire.received_begin, count);
  wire.received_begin += count;
  return moved(bio, static_cast<ssize_t>(count), BIO_FLAGS_READ);
}

/// What OpenSSL asks of a BIO that may have the kernel encrypt. The names are its own; bio.h keeps the numbers free for them.
constexpr int SET_KTLS = 72;
constexpr int SET_KTLS_RECORD_TYPE = 74;
constexpr int CLEAR_KTLS_RECORD_TYPE = 75;

/// It does not where it has no TLS; only sending, where `number` is not 0, is left to it.
bool kernel_takes(int fd) { return ::setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0; }

long control(BIO* bio, int command, long number, void* pointer) {
  TlsWire& wire = wire_of(bio);
  switch (command) {
    case BIO_CTRL_EOF: return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    case BIO_CTRL_FLUSH: return 1;
    case SET_KTLS: return number != 0 && kernel_takes(wire.socket->fd()) ? BIO_ctrl(wire.kernel.get(), SET_KTLS, number, pointer) : 0;
    case BIO_CTRL_GET_KTLS_SEND: return BIO_get_ktls_send(wire.kernel.get());
    case SET_KTLS_RECORD_TYPE: wire.record_type = static_cast<unsigned char>(number); return 0;
    case CLEAR_KTLS_RECORD_TYPE: wire.record_type = 0; return 0;
    default: return 0;
  }
}

int prepare(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BioMethodPtr make_method() {
  BioMethodPtr method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "prime socket"));
  if (!method) return nullptr;
  BIO_meth_set_write(method.get(), send_bytes);
  BIO_meth_set_read(method.get(), receive_bytes);
  BIO_meth_set_ctrl(method.get(), control);
  BIO_meth_set_create(method.get(), prepare);
  return method;
}

}  // namespace

SslPtr make_session(SSL_CTX* context, TlsWire& wire) {
  static const BioMethodPtr METHOD = make_method();
  SslPtr session(SSL_new(context));
  BIO* const bio = METHOD ? BIO_new(METHOD.get()) : nullptr;
  if (!session || bio == nullptr) {
    BIO_free(bio);
    ERR_clear_error();
    return nullptr;
  }
  BIO_set_data(bio, &wire);
  SSL_set_bio(session.get(), bio, bio);
  return session;
}

Channel::State state_after(SSL* session, int result) {
  const int why = SSL_get_error(session, result);
  ERR_clear_error();
  if (why == SSL_ERROR_WANT_READ) return Channel::State::WantRead;
  if (why == SSL_ERROR_WANT_WRITE) return Channel::State::WantWrite;
  return why == SSL_ERROR_ZERO_RETURN ? Channel::State::Closed : Channel::State::Failed;
}

TlsChannel::TlsChannel(TlsWirePtr wire, SslPtr session, PeerId peer)
    : wire_(std::move(wire)), session_(std::move(session)), peer_(peer), kernel_encrypts_(BIO_get_ktls_send(SSL_get_wbio(session_.get()))) {
  wire_->gathers = true;
}

TlsChannel::~TlsChannel() { wire_->socket->shutdown(); }

Channel::Io TlsChannel::read(std::span<std::byte> into) {
  std::size_t count = 0;
  ERR_clear_error();
  const int result = SSL_read_ex(session_.get(), into.data(), into.size(), &count);
  return result == 1 ? Io{State::Ok, count} : Io{state_after(session_.get(), result), 0};
}

int TlsChannel::encrypt(std::span<const std::byte> from) {
  while (!from.empty() && wire_->records.size() < BATCH_BYTES) {
    std::size_t count = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(session_.get(), from.data(), std::min(from.size(), RECORD_BYTES), &count);
    if (result != 1) return result;
    encrypted_ += count;
    from = from.subspan(count);
  }
  return 1;
}

Channel::Io TlsChannel::gather(std::span<const std::byte> first, std::span<const std::byte> second) {
  TlsWire& wire = *wire_;
  if (kernel_encrypts_ && wire.socket->is_shut_down()) return {State::Failed, 0};
  if (kernel_encrypts_) return send_some(wire.socket->fd(), first, second);
  if (encrypted_ == 0) {
    int result = encrypt(first);
    if (result == 1) result = encrypt(second);
    if (encrypted_ == 0) return {state_after(session_.get(), result), 0};
  }
  while (wire.sent < wire.records.size()) {
    const Io io = send_some(wire.socket->fd(), std::span{wire.records}.subspan(wire.sent));
    if (io.state != State::Ok) return io;
    wire.sent += io.bytes;
  }
  wire.records.clear();
  wire.sent = 0;
  return {State::Ok, std::exchange(encrypted_, 0)};
}

std::size_t TlsChannel::buffered() const {
  return static_cast<std::size_t>(SSL_pending(session_.get())) + wire_->received_end - wire_->received_begin;
}

}  // namespace prime::net
