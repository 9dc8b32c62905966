#include "cli/data_progress.hpp"

#include <poll.h>

#include "cli/render/figures.hpp"
#include "runtime/clock.hpp"

namespace prime::cli {

data::OnProgress tells_of_compiling(Terminal& terminal, int interrupt) {
  static constexpr Duration TELL_EVERY = 2s;
  return [&terminal, interrupt, next = monotonic_now() + TELL_EVERY](const data::Progress& progress) mutable -> Result<void> {
    pollfd wish{interrupt, POLLIN, 0};
    if (interrupt >= 0 && ::poll(&wish, 1, 0) > 0) return fail(ErrorName::Interrupted);
    if (monotonic_now() < next) return {};
    next = monotonic_now() + TELL_EVERY;
    terminal.say("Compiling", "data: " + bytes_figure(progress.bytes) + " of " + bytes_figure(progress.of_bytes));
    return {};
  };
}

}  // namespace prime::cli
