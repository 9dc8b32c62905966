// Owns the measurement of reduces: the public prime::Group between separate processes of this machine, the commit included.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/result.hpp"

namespace prime::bench {

enum class Lane : std::uint8_t { Tcp, Tls, Memory };
std::string_view to_string(Lane lane);

/// One line of the table. All of one number of peers run in turns in the same processes, so that they meet the same machine.
struct Case {
  std::uint32_t peers = 2;
  std::uint64_t bytes = 0;  ///< of all tags together
  std::uint32_t tags = 1;
  Codec codec = Codec::None;
  Lane lane = Lane::Tcp;
  Schedule schedule = Schedule::Automatic;
  bool in_place = false;
  bool allocated = false;  ///< for lanes of shared memory: the tensors lie in what the group allocates
};

struct Times {
  double min = 0;
  double median = 0;
  double max = 0;
};

struct Row {
  Case what;
  Times time_s;                        ///< of the slowest peer, from a common start to the commit
  double bus_bytes_per_s = 0;          ///< 2(N−1)/N · bytes / median
  double cpu_s_per_gb = 0;             ///< of all peers, for each 10^9 bytes that leave a peer
  std::uint64_t extra_bytes_peak = 0;  ///< of one peer, beyond input and output, in all cases of so many peers
  double limit_share = 0;              ///< of the rate that the machine allows in the same run (limits.hpp): sockets, AES-GCM, or memcpy
};

/// Told before each round, in which all cases of so many peers are played one after the other; 0 is one that only warms up. Called in
/// another process; all processes of the measurement sleep until it returns. An error ends the measurement.
using RoundBegins = std::function<Result<void>(std::uint32_t peers, std::uint32_t round)>;

/// Fails when a case cannot run, a reduce takes longer than `timeout`, or one of the processes stands still for twice as long; the machine
/// is left as it was.
Result<std::vector<Row>> measure_reduces(const std::vector<Case>& cases, std::uint32_t repeat, const RoundBegins& begins = {},
                                         std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace prime::bench
