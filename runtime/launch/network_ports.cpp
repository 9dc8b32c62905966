#include "runtime/launch/network_ports.hpp"

#include "runtime/net/run_key.hpp"

namespace prime::launch {
namespace {

/// What names no port is left as it is.
Result<std::string> moved_up(const std::string& text, std::uint32_t by) {
  const auto endpoint = net::parse_endpoint(text);
  if (!endpoint || endpoint->port == 0) return text;
  if (endpoint->port + by > 65535)
    return fail(ErrorName::Usage, "there are not " + std::to_string(by) + " ports behind that of `" + text +
                                      "`, for the processes that are to be started: name a lower one");
  return net::format_endpoint({endpoint->host, static_cast<std::uint16_t>(endpoint->port + by)});
}

}  // namespace

Result<manifest::Network> network_of(manifest::Network network, std::uint32_t listen, std::uint32_t advertise) {
  if (network.listen) {
    PRIME_TRY(network.listen, moved_up(*network.listen, listen));
  }
  for (auto& each : network.advertise) {
    PRIME_TRY(each, moved_up(each, advertise));
  }
  return network;
}

}  // namespace prime::launch
