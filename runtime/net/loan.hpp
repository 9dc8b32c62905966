// Owns Loan: bytes that came over a channel and still lie where the channel has them.
#pragma once

#include <cstddef>
#include <memory>

namespace prime::net {

/// Who has it may read the bytes until it lets go of it, also when the channel is gone. The other end of the channel can still change
/// them: whoever depends on their being the same twice copies them. Used, and ended, by the thread of the channel only.
class Loan {
 public:
  Loan() = default;
  virtual ~Loan() = default;
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  /// They may lie elsewhere after a call of the channel.
  [[nodiscard]] virtual const std::byte* bytes() const = 0;
};
using LoanPtr = std::unique_ptr<Loan>;

}  // namespace prime::net
