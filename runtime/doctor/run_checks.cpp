#include "runtime/doctor/run_checks.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "runtime/net/probe.hpp"
#include "runtime/net/reachable.hpp"

namespace prime::doctor {
namespace {

constexpr Duration LOOK_UP_LIMIT = 2s;
/// Farther apart than this is wrong, however the clocks are kept.
constexpr Duration CLOCKS_APART = 60s;
/// Segments that are tried where full ones do not pass, and the packets that they make (IPv6 and options included).
struct Segment {
  int bytes;
  int packet;
};
constexpr std::array SEGMENTS{Segment{1200, 1280}, Segment{900, 980}, Segment{500, 580}};

/// Where a peer would listen here, and what it would tell.
struct OwnEnd {
  std::unique_ptr<net::ProbeListener> listener;
  Addresses told;
};

Result<OwnEnd> own_end(const net::Invite& invite, const manifest::Network& network) {
  PRIME_TRY(const auto towards, net::addresses_towards(invite.addresses, LOOK_UP_LIMIT));
  net::Listening listening{net::listen_towards(towards)};
  if (network.listen) {
    PRIME_TRY(const auto asked, net::parse_endpoint(*network.listen));
    listening = net::listening_for(asked);
  }
  OwnEnd own;
  PRIME_TRY(own.listener, net::ProbeListener::open(listening.at));
  PRIME_TRY(own.told, net::peer_addresses(listening, own.listener->port(), network.advertise, towards));
  return own;
}

std::string seconds_text(Duration time) {
  return std::to_string(std::llabs(std::chrono::duration_cast<std::chrono::seconds>(time).count())) + " s";
}

class RunExamination {
 public:
  RunExamination(const net::Invite& invite, const net::Credentials& credentials, const OwnEnd& own)
      : invite_(invite), credentials_(credentials), own_(own) {}

  Findings findings() {
    std::optional<net::ProbeReport> best;
    std::string reached;
    std::string failed;
    for (const auto& address : invite_.addresses.list) {
      auto report = net::probe(address, credentials_, own_.told, own_.listener->nonce());
      const auto text = net::format_endpoint(address);
      if (report.stalled() && !refused(report)) look_for_a_narrow_way(address, report);
      if (report.connected && !refused(report)) reached += (reached.empty() ? "" : ", ") + text;
      else failed += (failed.empty() ? "" : "; ") + text + ": " + report.unreached->detail;
      if (!report.connected || refused(report)) first_refusal_ = first_refusal_ ? first_refusal_ : report.unreached;
      if (!best && report.clock_ahead) best = std::move(report);
      if (best) break;  // as a joiner does
    }
    say_outwards(reached, failed);
    if (best) {
      say_inwards(*best);
      say_clock(*best);
    }
    if (best && !narrow_) findings_.push_back({"packets", Level::Good, "full-sized ones pass in both directions"});
    return std::move(findings_);
  }

 private:
  /// By an answer, not by silence.
  static bool refused(const net::ProbeReport& report) { return report.unreached && report.unreached->name != ErrorName::RunUnreachable; }

  /// Connected, and then large packets did not come through: smaller ones do, or nothing does. What passes replaces the report.
  void look_for_a_narrow_way(const Endpoint& address, net::ProbeReport& report) {
    for (const auto& segment : SEGMENTS) {
      auto smaller = net::probe(address, credentials_, own_.told, own_.listener->nonce(), segment.bytes);
      if (smaller.stalled() || !smaller.connected) continue;
      narrow_ = true;
      findings_.push_back({"packets", Level::Stops,
                           "the way to " + net::format_endpoint(address) +
                               " swallows large packets: connections open, and stand still; packets of " + std::to_string(segment.packet) +
                               " bytes pass, full-sized ones do not, and nobody says so (an MTU black hole)",
                           "`ip link set DEVICE mtu " + std::to_string(segment.packet) +
                               "` for the device that leads there, or let the ICMP messages through that tell the right size"});
      report = std::move(smaller);
      return;
    }
  }

  void say_outwards(const std::string& reached, const std::string& failed) {
    if (!reached.empty())
      return findings_.push_back({"to the run", Level::Good, reached + " is reached" + (failed.empty() ? "" : "; not: " + failed)});
    const bool answered = first_refusal_ && first_refusal_->name != ErrorName::RunUnreachable;
    findings_.push_back({"to the run", Level::Stops, "the coordinator is not reached: " + failed,
                         answered ? std::string{info(first_refusal_->name).hint}
                                  : "check that the run is up, and open this port in its firewall; its `local.network.advertise` may name "
                                    "another address"});
  }

  void say_inwards(const net::ProbeReport& report) {
    std::string reached;
    std::string failed;
    for (const auto& back : report.back) {
      auto& text = back.problem.empty() ? reached : failed;
      text += (text.empty() ? "" : ", ") + net::format_endpoint(back.address) + (back.problem.empty() ? "" : ": " + back.problem);
    }
    if (!reached.empty())
      return findings_.push_back(
          {"from the run", Level::Good, "the coordinator reaches " + reached + (failed.empty() ? "" : "; not: " + failed)});
    findings_.push_back(
        {"from the run", Level::Stops,
         "the coordinator does not reach a peer here: " + (failed.empty() ? "it did not say how its look ended" : failed) +
             (report.seen_as.empty() ? "" : "; it sees this machine as " + report.seen_as),
         "open a port for it and name it: `--set local.network.listen=0.0.0.0:PORT`; behind a router, map it, and name the outer side in "
         "`local.network.advertise`"});
  }

  void say_clock(const net::ProbeReport& report) {
    const auto ahead = *report.clock_ahead;
    const bool apart = ahead > CLOCKS_APART || ahead < -CLOCKS_APART;
    const auto text = "this machine's is " + seconds_text(ahead) + (ahead > Duration{} ? " behind" : " ahead of") + " the coordinator's";
    if (!apart) return findings_.push_back({"clocks", Level::Good, text});
    findings_.push_back(
        {"clocks", Level::Doubtful, text, "set the one that is wrong, and let NTP keep it: logs of both cannot be compared"});
  }

  const net::Invite& invite_;
  const net::Credentials& credentials_;
  const OwnEnd& own_;
  Findings findings_;
  std::optional<Error> first_refusal_;
  bool narrow_ = false;
};

}  // namespace

Result<Findings> examine_run(const net::Invite& invite, const manifest::Network& network) {
  PeerId id{static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) | 1U};
  PRIME_TRY(const auto credentials, net::Credentials::make(invite.key, invite.run, net::Identity{net::Role::Peer, id}));
  const auto own = own_end(invite, network);
  if (!own) return Findings{{"from the run", Level::Stops, to_string(own.error()), std::string{info(own.error().name).hint}}};
  return RunExamination{invite, credentials, *own}.findings();
}

}  // namespace prime::doctor
