#include "runtime/manifest/text_rules.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <string>

namespace prime::manifest {
namespace {

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool printable(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && std::none_of(text.begin(), text.end(), is_control);
}

bool made_of(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) { return is_alphanumeric(c) || others.find(c) != std::string_view::npos; });
}

/// With colons it is an IPv6 address: else the end behind one is a port.
bool is_host(std::string_view text) {
  in6_addr address{};
  if (text.find(':') != std::string_view::npos) return ::inet_pton(AF_INET6, std::string{text}.c_str(), &address) == 1;
  return !text.empty() && text.size() <= 253 && made_of(text, "._-");
}

}  // namespace

bool is_run_name(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.front() != '-' && text.size() <= 40 && std::all_of(text.begin(), text.end(), allowed);
}

bool is_path(std::string_view text) { return printable(text, 4096); }

bool is_glob(std::string_view text) { return printable(text, 255) && text.find('/') == std::string_view::npos; }

bool is_listen_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  auto host = text.substr(0, colon);
  const auto port = text.substr(colon + 1);
  // The colons of an IPv6 address need brackets, or its end would be taken for the port.
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool port_is_right = !port.empty() && port.size() <= 5 && error == std::errc{} && end == port.data() + port.size();
  return port_is_right &&
         (bracketed ? host.size() <= 45 && made_of(host, ":.") : is_host(host) && host.find(':') == std::string_view::npos);
}

bool is_advertised_address(std::string_view text) { return is_host(text) || (is_listen_address(text) && !text.ends_with(":0")); }

bool is_argument(std::string_view text) { return is_path(text); }

bool is_device(std::string_view text) {
  constexpr std::string_view NUMBERED = "cuda:";
  if (text == "cpu" || text == "cuda" || text == "auto") return true;
  if (!text.starts_with(NUMBERED)) return false;
  const auto number = text.substr(NUMBERED.size());
  const bool digits = !number.empty() && number.size() <= 2 && number.find_first_not_of("0123456789") == std::string_view::npos;
  return digits && (number.size() == 1 || number.front() != '0');
}

std::string meant_device(std::string_view text) {
  std::string word, number;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool digit = c >= '0' && c <= '9';
    if (digit) number += c;
    else if (!number.empty()) break;
    else if (lower >= 'a' && lower <= 'z') word += lower;
  }
  const bool gpu = word == "gpu" || word == "nvidia" || word == "nvidiagpu" || word == "cudagpu";
  const auto name = gpu ? std::optional<std::string_view>{"cuda"} : nearest(word, {"cpu", "cuda", "auto"});
  if (!name) return {};
  number.erase(0, std::min(number.find_first_not_of('0'), number.empty() ? 0 : number.size() - 1));
  const auto device = std::string{*name} + (*name == "cuda" && !number.empty() ? ":" + number : "");
  return is_device(device) ? device : std::string{};
}

bool is_adapter(std::string_view text) { return text.size() <= 255 && text.find_first_not_of("ACGTN") == std::string_view::npos; }

bool is_user(std::string_view text) { return printable(text, 255); }

bool is_url(std::string_view text) {
  const std::string_view scheme = text.starts_with("https://") ? "https://" : "http://";
  return text.starts_with(scheme) && is_listen_address(text.substr(scheme.size())) && !text.ends_with(":0");
}

}  // namespace prime::manifest
