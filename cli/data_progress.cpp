#include "cli/data_progress.hpp"

#include <poll.h>

#include "cli/render/figures.hpp"
#include "runtime/clock.hpp"

namespace prime::cli {

data::OnProgress tells_of_data(Terminal& terminal, std::string_view doing, int interrupt) {
  static constexpr Duration TELL_EVERY = 2s;
  return [&terminal, doing, interrupt, next = monotonic_now() + TELL_EVERY](const data::Progress& progress) mutable -> Result<void> {
    pollfd wish{interrupt, POLLIN, 0};
    if (interrupt >= 0 && ::poll(&wish, 1, 0) > 0) return fail(ErrorName::Interrupted);
    if (monotonic_now() < next) return {};
    next = monotonic_now() + TELL_EVERY;
    terminal.say(doing, "data: " + bytes_figure(progress.bytes) +
                            (progress.of_bytes == 0 ? std::string{} : " of " + bytes_figure(progress.of_bytes)));
    return {};
  };
}

}  // namespace prime::cli
