// Owns Result<T>: a value or an Error that cannot be ignored.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "messages/errors.hpp"

namespace prime {

/// Either a T or an Error; discarding one is a compiler warning (and an error in our builds).
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

/// Makes the failed alternative: `return fail(ErrorName::RunFull, "8 of 8");`
inline tl::unexpected<Error> fail(ErrorName name, std::string detail = {}) { return tl::unexpected<Error>(Error{name, std::move(detail)}); }
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

/// Visitor made of lambdas; without a generic catch-all a forgotten alternative does not compile.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace prime

#define PRIME_CONCAT_(a, b) a##b
#define PRIME_CONCAT(a, b) PRIME_CONCAT_(a, b)
/// Our `?`: `PRIME_TRY(auto shard, load(path));` declares `shard` or returns the error.
#define PRIME_TRY(declaration, expression)                                                                                                 \
  auto&& PRIME_CONCAT(prime_try_, __LINE__) = (expression);                                                                                \
  if (!PRIME_CONCAT(prime_try_, __LINE__)) return ::tl::unexpected<::prime::Error>(std::move(PRIME_CONCAT(prime_try_, __LINE__)).error()); \
  declaration = std::move(*PRIME_CONCAT(prime_try_, __LINE__))
/// The same for Result<void>.
#define PRIME_CHECK(expression) \
  if (auto prime_check_ = (expression); !prime_check_) return ::tl::unexpected<::prime::Error>(std::move(prime_check_).error())
