// Owns descriptors and shared memory: memory files with sealed sizes, and their mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "messages/result.hpp"

namespace prime {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

enum class Access : std::uint8_t { ReadOnly, ReadWrite };

/// A mapping of f32 values; unmaps itself.
class SharedFloats {
 public:
  SharedFloats() = default;
  SharedFloats(SharedFloats&& other) noexcept : values_(std::exchange(other.values_, {})) {}
  SharedFloats& operator=(SharedFloats&& other) noexcept;
  ~SharedFloats();
  /// Refuses a file that is shorter than `elements` values, since touching the rest would end the process.
  static Result<SharedFloats> map(int descriptor, std::uint64_t elements, Access access);
  [[nodiscard]] std::span<float> values() const { return values_; }

 private:
  std::span<float> values_;
};

/// A nameless file in memory of `bytes` bytes whose size can never change; what one process cannot shrink cannot kill the other.
Result<Descriptor> create_memory_file(const std::string& name, std::uint64_t bytes);
/// Existing writable mappings stay; nobody can make another one or write through the descriptor.
Result<void> seal_against_new_writers(const Descriptor& file);
/// A memory file holding `content`.
Result<Descriptor> memory_file_of(const std::string& name, std::string_view content);
/// The content of a regular or memory file of at most `max_bytes`; never blocks, whatever the descriptor turns out to be.
Result<std::string> read_memory_file(const Descriptor& file, std::uint64_t max_bytes);

/// "what: reason" for the current errno.
std::string system_error_text(const std::string& what);

}  // namespace prime
