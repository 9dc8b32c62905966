// Owns the TLS handshake of both ends, and what its failures mean to a user.
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/net/certificate_authority.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/tls_channel.hpp"

namespace prime::net {

namespace {

/// What both ends share: one session, driven until TLS is content.
class TlsHandshake : public Handshake {
 public:
  TlsHandshake(SocketPtr socket, const Credentials& credentials, SSL_CTX* context)
      : credentials_(credentials), wire_(std::make_unique<TlsWire>(std::move(socket))), session_(make_session(context, *wire_)) {}

  Step advance() final {
    if (!session_) return failed(ErrorName::InternalError, "OpenSSL cannot make a TLS session");
    if (!agreed_) {
      ERR_clear_error();
      const int result = SSL_do_handshake(session_.get());
      if (result != 1) return stopped(result);
      agreed_ = true;
      if (const Step step = check(); step != Step::Done) return step;
    }
    return go_ahead();
  }
  ChannelPtr take_channel() final { return std::make_unique<TlsChannel>(std::move(wire_), std::move(session_), other_->id); }

 protected:
  /// Looks at who answered and what was agreed; Done when content.
  virtual Step check() = 0;
  virtual Step go_ahead() = 0;
  /// Names the failure that OpenSSL's error queue or the certificate check holds.
  virtual Step name_failure() = 0;

  /// Not content yet: waits, or fails for good.
  Step stopped(int result) {
    const int why = SSL_get_error(session_.get(), result);
    const Step step = why == SSL_ERROR_WANT_READ ? Step::WantRead : why == SSL_ERROR_WANT_WRITE ? Step::WantWrite : name_failure();
    ERR_clear_error();
    return step;
  }

  /// Reads the other end's identity; the certificate itself was verified by the handshake.
  bool identify() {
    const CertificatePtr certificate(SSL_get1_peer_certificate(session_.get()));
    if (certificate && SSL_get_verify_result(session_.get()) == X509_V_OK) other_ = identity_in(certificate.get());
    return other_.has_value();
  }

  [[nodiscard]] std::optional<Protocol> agreed_protocol() const {
    const unsigned char* text = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(session_.get(), &text, &size);
    return text == nullptr ? std::nullopt : parse_protocol({reinterpret_cast<const char*>(text), size});
  }

  [[nodiscard]] SSL* session() const { return session_.get(); }
  [[nodiscard]] const std::optional<Identity>& other() const { return other_; }

 private:
  Credentials credentials_;  ///< holds what the session's context points to
  TlsWirePtr wire_;
  SslPtr session_;  ///< reads from the wire, so it goes first
  bool agreed_ = false;
  std::optional<Identity> other_;
};

class TlsAccept final : public TlsHandshake {
 public:
  TlsAccept(SocketPtr socket, const Credentials& credentials) : TlsHandshake(std::move(socket), credentials, credentials.accepting()) {
    if (session() != nullptr) SSL_set_accept_state(session());
  }
  [[nodiscard]] Protocol protocol() const override { return protocol_; }

 private:
  Step check() override {
    if (!identify() || other()->role != Role::Peer) return failed(ErrorName::KeyRefused, "the certificate names no peer");
    const auto protocol = agreed_protocol();
    if (!protocol) return failed(ErrorName::VersionMismatch, "no protocol was named");
    protocol_ = *protocol;
    return Step::Done;
  }
  Step go_ahead() override {
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(session(), &GO_AHEAD, 1, &written);
    return result == 1 ? Step::Done : stopped(result);
  }
  Step name_failure() override { return failed(ErrorName::KeyRefused, "the TLS handshake failed"); }

  Protocol protocol_ = Protocol::Control;
};

bool prepare_dial(SSL* session, const std::string& run, Protocol protocol) {
  const std::string_view text = name(protocol);
  const std::string offer = static_cast<char>(text.size()) + std::string(text);
  SSL_set_connect_state(session);
  // SSL_set_alpn_protos answers 0 for success, unlike its neighbours.
  return SSL_set_tlsext_host_name(session, run.c_str()) == 1 &&
         SSL_set_alpn_protos(session, reinterpret_cast<const unsigned char*>(offer.data()), static_cast<unsigned int>(offer.size())) == 0;
}

class TlsDial final : public TlsHandshake {
 public:
  TlsDial(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who)
      : TlsHandshake(std::move(socket), credentials, credentials.dialing()), run_(credentials.run()), protocol_(protocol), who_(who) {
    prepared_ = session() != nullptr && prepare_dial(session(), run_, protocol_);
  }
  [[nodiscard]] Protocol protocol() const override { return protocol_; }

 private:
  Step check() override {
    if (!prepared_ || agreed_protocol() != protocol_)
      return failed(ErrorName::VersionMismatch, "it does not speak " + std::string(name(protocol_)));
    if (!identify()) return failed(ErrorName::KeyRefused, "its certificate names nobody");
    if (!who_.met_by(*other())) return failed(ErrorName::RunUnreachable, describe(*other()) + " answers instead of " + describe(who_));
    return Step::Done;
  }

  Step go_ahead() override {
    std::byte answer{};
    std::size_t count = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(session(), &answer, 1, &count);
    if (result != 1) return stopped(result);
    return answer == GO_AHEAD ? Step::Done : failed(ErrorName::VersionMismatch, "it gives no go-ahead");
  }

  Step name_failure() override {
    if (SSL_get_verify_result(session()) != X509_V_OK)
      return failed(ErrorName::KeyRefused, "its certificate does not come from this run key");
    const auto code = ERR_peek_last_error();
    const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    if (reason > SSL_AD_REASON_OFFSET) return name_alert(reason - SSL_AD_REASON_OFFSET);
    if (reason != 0) return failed(ErrorName::RunUnreachable, "what answers does not speak TLS 1.3");
    return failed(ErrorName::RunUnreachable, "the connection ended before the go-ahead");
  }

  /// An alert is the other end's own word for why it refused.
  Step name_alert(int alert) {
    switch (alert) {
      case SSL_AD_UNRECOGNIZED_NAME: return failed(ErrorName::WrongRun, "it does not know run " + run_);
      case SSL_AD_NO_APPLICATION_PROTOCOL:
      case SSL_AD_PROTOCOL_VERSION: return failed(ErrorName::VersionMismatch, "it does not speak " + std::string(name(protocol_)));
      case SSL_AD_BAD_CERTIFICATE:
      case SSL_AD_CERTIFICATE_EXPIRED:
      case SSL_AD_CERTIFICATE_UNKNOWN:
      case SSL_AD_UNKNOWN_CA:
      case SSL_AD_DECRYPT_ERROR:
        return failed(ErrorName::KeyRefused, std::string("it refuses our certificate: ") + SSL_alert_desc_string_long(alert));
      default: return failed(ErrorName::RunUnreachable, std::string("it ends the TLS handshake: ") + SSL_alert_desc_string_long(alert));
    }
  }

  std::string run_;
  Protocol protocol_;
  Expectation who_;
  bool prepared_ = false;
};

}  // namespace

std::unique_ptr<Handshake> accept_tls(SocketPtr socket, const Credentials& credentials) {
  return std::make_unique<TlsAccept>(std::move(socket), credentials);
}

std::unique_ptr<Handshake> dial_tls(SocketPtr socket, const Credentials& credentials, Protocol protocol, const Expectation& who) {
  return std::make_unique<TlsDial>(std::move(socket), credentials, protocol, who);
}

}  // namespace prime::net
