// Owns reading and writing through OpenSSL. Every call is preceded by ERR_clear_error: OpenSSL's error queue belongs to the thread, and
// what one session leaves in it makes another one look broken (spec/caf.md §7, D1).
#include "runtime/net/tls_channel.hpp"

#include <cerrno>
#include <openssl/err.h>
#include <sys/socket.h>

namespace prime::net {

namespace {

int descriptor(BIO* bio) { return static_cast<const Socket*>(BIO_get_data(bio))->fd(); }

/// Moves errno into the flags by which OpenSSL knows "not now" from "never again".
int moved(BIO* bio, ssize_t count, int retry_flag) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int send_bytes(BIO* bio, const char* from, int size) {
  return moved(bio, ::send(descriptor(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

int receive_bytes(BIO* bio, char* into, int size) {
  const ssize_t count = ::recv(descriptor(bio), into, static_cast<std::size_t>(size), 0);
  if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return moved(bio, count, BIO_FLAGS_READ);
}

long control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
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

SslPtr make_session(SSL_CTX* context, const Socket& socket) {
  static const BioMethodPtr METHOD = make_method();
  SslPtr session(SSL_new(context));
  BIO* const bio = METHOD ? BIO_new(METHOD.get()) : nullptr;
  if (!session || bio == nullptr) {
    BIO_free(bio);
    ERR_clear_error();
    return nullptr;
  }
  BIO_set_data(bio, const_cast<Socket*>(&socket));
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

TlsChannel::~TlsChannel() { socket_->shutdown(); }

Channel::Io TlsChannel::read(std::span<std::byte> into) {
  std::size_t count = 0;
  ERR_clear_error();
  const int result = SSL_read_ex(session_.get(), into.data(), into.size(), &count);
  return result == 1 ? Io{State::Ok, count} : Io{state_after(session_.get(), result), 0};
}

Channel::Io TlsChannel::write(std::span<const std::byte> from) {
  std::size_t count = 0;
  ERR_clear_error();
  const int result = SSL_write_ex(session_.get(), from.data(), from.size(), &count);
  return result == 1 ? Io{State::Ok, count} : Io{state_after(session_.get(), result), 0};
}

std::size_t TlsChannel::buffered() const { return static_cast<std::size_t>(SSL_pending(session_.get())); }

}  // namespace prime::net
