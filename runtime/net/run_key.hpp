// Owns the run key and the invite: the one string that lets a machine join a run.
#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "messages/membership.hpp"
#include "messages/result.hpp"

namespace prime::net {

inline constexpr std::size_t MAX_RUN_BYTES = 64;

/// 32 secret bytes from which all credentials of a run derive. Nothing prints it but `format_invite`; its memory is wiped.
class RunKey {
 public:
  static constexpr std::size_t SIZE_BYTES = 32;
  using Bytes = std::array<std::uint8_t, SIZE_BYTES>;

  /// A new key from the kernel's random source.
  static RunKey generate();
  explicit RunKey(const Bytes& bytes) : bytes_(bytes) {}
  RunKey(const RunKey&) = default;
  RunKey& operator=(const RunKey&) = default;
  ~RunKey();

  /// For derivations only.
  [[nodiscard]] std::span<const std::uint8_t, SIZE_BYTES> secret() const { return bytes_; }
  friend bool operator==(const RunKey& a, const RunKey& b);
  /// A key in a log line is a defect that does not compile.
  friend std::ostream& operator<<(std::ostream&, const RunKey&) = delete;

 private:
  Bytes bytes_;
};

struct Invite {
  Addresses addresses;  ///< of the coordinator: 1 to MAX_ADDRESSES
  std::string run;
  RunKey key;
  friend bool operator==(const Invite&, const Invite&) = default;
  friend std::ostream& operator<<(std::ostream&, const Invite&) = delete;
};

/// Who holds the same key has the same text for this run; it tells nothing of the key.
std::string key_check(const RunKey& key, std::string_view run);

/// Reads "prime://HOST:PORT/RUN#KEY", IPv6 hosts in brackets, several HOST:PORT divided by commas. InviteMalformed says which part is wrong
/// and never repeats the key.
Result<Invite> parse_invite(std::string_view text);
/// The inverse. The text is as secret as the key.
std::string format_invite(const Invite& invite);

/// "host:port", IPv6 hosts in brackets.
std::string format_endpoint(const Endpoint& endpoint);
/// The inverse; port 0 is allowed here. The error's detail says what is wrong.
Result<Endpoint> parse_endpoint(std::string_view text);
/// The same of several, divided by commas.
std::string format_addresses(const Addresses& addresses);
/// At least one, at most MAX_ADDRESSES, none with port 0.
Result<Addresses> parse_addresses(std::string_view text);
/// What begins with - reads as a flag wherever it is typed.
inline constexpr std::string_view RUN_ID_RULE = "1 to 64 of a-z, 0-9 and -, the first no -";
bool is_run_id(std::string_view text);

}  // namespace prime::net
