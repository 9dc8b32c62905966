// Owns how a foreground command hears of Ctrl-C, Ctrl-\, SIGTERM and a closed terminal: as something to read, never in a handler.
#pragma once

#include "runtime/store/file_io.hpp"

namespace prime::cli {

class Interrupts {
 public:
  /// Blocks the signals in this thread: make it before other threads.
  Interrupts();
  /// Readable when one has come.
  [[nodiscard]] int descriptor() const { return signals_.get(); }
  /// Takes what has come; true when there was any.
  bool take();
  /// From here on they end the process as they would any, those that have come and were not taken, too.
  static void let_them_end_it();

 private:
  store::Descriptor signals_;
};

}  // namespace prime::cli
