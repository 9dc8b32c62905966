// Owns the text form of run keys, endpoints and invites.
#include "runtime/net/run_key.hpp"

#include <algorithm>
#include <charconv>
#include <openssl/crypto.h>
#include <optional>

#include "runtime/net/crypto.hpp"

namespace prime::net {

namespace {

constexpr std::string_view SCHEME = "prime://";
constexpr std::string_view ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// 32 bytes in base64url without padding: 43 characters, of which the last carries 4 bits.
constexpr std::size_t KEY_CHARACTERS = 43;

std::string encode_key(std::span<const std::uint8_t> bytes) {
  std::string text;
  std::uint32_t pending = 0;
  unsigned bits = 0;
  for (const std::uint8_t byte : bytes) {
    pending = pending << 8 | byte;
    for (bits += 8; bits >= 6; bits -= 6) text += ALPHABET[pending >> (bits - 6) & 63];
  }
  if (bits > 0) text += ALPHABET[pending << (6 - bits) & 63];
  return text;
}

/// Refuses what `encode_key` would not write, so that a key has one text only.
std::optional<RunKey> decode_key(std::string_view text) {
  if (text.size() != KEY_CHARACTERS) return std::nullopt;
  RunKey::Bytes bytes{};
  std::uint32_t pending = 0;
  unsigned bits = 0;
  std::size_t filled = 0;
  for (const char character : text) {
    const auto digit = ALPHABET.find(character);
    if (digit == std::string_view::npos) return std::nullopt;
    pending = pending << 6 | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[filled++] = static_cast<std::uint8_t>(pending >> bits);
    }
  }
  if ((pending & ((1U << bits) - 1)) != 0) return std::nullopt;
  return RunKey(bytes);
}

bool is_host(std::string_view host, bool bracketed) {
  const auto allowed = [&](char c) {
    const bool digit_or_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.';
    // A zone such as %eth0 names an interface of this machine, so letters are allowed behind it.
    if (bracketed) return digit_or_hex || c == ':' || c == '%' || (c >= 'a' && c <= 'z');
    return digit_or_hex || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  };
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, allowed);
}

Result<Invite> malformed(std::string detail) { return fail(ErrorName::InviteMalformed, std::move(detail)); }

}  // namespace

RunKey RunKey::generate() {
  Bytes bytes{};
  fill_random(bytes);
  return RunKey(bytes);
}

RunKey::~RunKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool operator==(const RunKey& a, const RunKey& b) { return equal_secrets(a.bytes_, b.bytes_); }

bool is_run_id(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.front() != '-' && text.size() <= MAX_RUN_BYTES && std::ranges::all_of(text, allowed);
}

std::string format_endpoint(const Endpoint& endpoint) {
  const bool bracketed = endpoint.host.find(':') != std::string::npos;
  return (bracketed ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    const bool port = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    return fail(ErrorName::Usage,
                port ? "no host: it must read HOST:PORT, such as 0.0.0.0:" + std::string{text} : "no port: it must read HOST:PORT");
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  const bool bracketed = host.starts_with('[');
  if (bracketed && !host.ends_with(']')) return fail(ErrorName::Usage, "no closing bracket after the IPv6 host");
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string_view::npos) return fail(ErrorName::Usage, "an IPv6 host needs brackets: [::1]:4000");
  if (!is_host(host, bracketed)) return fail(ErrorName::Usage, host.empty() ? "no host" : "the host has a character that no host has");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc{} || end != port_text.data() + port_text.size())
    return fail(ErrorName::Usage, "the port is not a number up to 65535");
  return Endpoint{std::string(host), port};
}

std::string format_addresses(const Addresses& addresses) {
  std::string text;
  for (const auto& each : addresses.list) text += (text.empty() ? "" : ",") + format_endpoint(each);
  return text;
}

Result<Addresses> parse_addresses(std::string_view text) {
  Addresses addresses;
  for (bool more = true; more;) {
    const auto comma = text.find(',');
    more = comma != std::string_view::npos;
    PRIME_TRY(auto endpoint, parse_endpoint(text.substr(0, comma)));
    if (endpoint.port == 0) return fail(ErrorName::Usage, "port 0 cannot be dialed");
    if (addresses.list.size() == MAX_ADDRESSES) return fail(ErrorName::Usage, "more than " + std::to_string(MAX_ADDRESSES) + " of them");
    addresses.list.push_back(std::move(endpoint));
    if (more) text.remove_prefix(comma + 1);
  }
  return addresses;
}

std::string key_check(const RunKey& key, std::string_view run) {
  return encode_key(derive_key(key.secret(), "prime key check 1 " + std::string{run}));
}

Result<Invite> parse_invite(std::string_view text) {
  if (!text.starts_with(SCHEME)) return malformed("it does not begin with prime://");
  text.remove_prefix(SCHEME.size());
  const auto hash = text.find('#');
  if (hash == std::string_view::npos)
    return malformed("the part after # is missing; a shell cuts it off where the invite is not in quotes");
  const std::string_view key_text = text.substr(hash + 1);
  const auto slash = text.substr(0, hash).find('/');
  if (slash == std::string_view::npos) return malformed("no run behind the address: it must read prime://HOST:PORT/RUN#KEY");
  const std::string_view run = text.substr(slash + 1, hash - slash - 1);

  auto addresses = parse_addresses(text.substr(0, slash));
  if (!addresses) return malformed("address: " + addresses.error().detail);
  if (!is_run_id(run)) return malformed(run.empty() ? "the run is empty" : "the run is not " + std::string{RUN_ID_RULE});
  if (key_text.size() != KEY_CHARACTERS)
    return malformed("the key has " + std::to_string(key_text.size()) + " characters instead of " + std::to_string(KEY_CHARACTERS));
  const auto key = decode_key(key_text);
  if (!key) return malformed("the key has a character that was mistyped");
  return Invite{std::move(*addresses), std::string(run), *key};
}

std::string format_invite(const Invite& invite) {
  return std::string(SCHEME) + format_addresses(invite.addresses) + "/" + invite.run + "#" + encode_key(invite.key.secret());
}

}  // namespace prime::net
