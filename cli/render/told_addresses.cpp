#include "cli/render/told_addresses.hpp"

#include <algorithm>

#include "runtime/net/reachable.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::cli {

std::vector<ToldAddress> told(const Addresses& addresses) {
  const auto own = net::own_addresses();
  std::vector<ToldAddress> list;
  for (const auto& each : addresses.list) {
    const auto found = std::ranges::find(own, each.host, &net::OwnAddress::host);
    const auto reach = found != own.end() ? found->reach : net::reach_of(each.host);
    std::string from{net::reach_text(reach)};
    if (reach == net::Reach::Containers) from += ", " + found->interface;
    list.push_back({net::format_endpoint(each), std::move(from),
                    reach == net::Reach::Containers || reach == net::Reach::Link || reach == net::Reach::Machine});
  }
  return list;
}

}  // namespace prime::cli
