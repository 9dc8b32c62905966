// Owns what the machine itself allows: the same bytes moved by the bare means of a lane, and by nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/bench/allreduce_bench.hpp"
#include "runtime/bench/bare_sockets.hpp"

namespace prime::bench {

/// Of one rank. Its peers do the same at the same time.
class Limits {
 public:
  Limits(std::uint32_t peers, BareSockets sockets);
  ~Limits();
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

  /// Moves what a reduce of so many bytes moves, out and in: 2(N−1)/N of them.
  ///   Tcp     through sockets, in calls of 512 KiB
  ///   Tls     nowhere: AES-256-GCM encrypts and decrypts them, in records of 16 KiB
  ///   Memory  into and out of a buffer that stays in the caches, by memcpy
  void run(Lane lane, std::uint64_t bytes);

 private:
  struct Cipher;
  void encrypt_and_decrypt(std::uint64_t bytes);
  void copy(std::uint64_t bytes);

  std::uint32_t peers_;
  BareSockets sockets_;
  std::unique_ptr<Cipher> cipher_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

}  // namespace prime::bench
