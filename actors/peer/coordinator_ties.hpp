// Owns what ties a peer to its coordinator: how it looks for one that was lost, says goodbye, and ends.
#pragma once

#include "actors/peer/part.hpp"

namespace prime::peer {

class CoordinatorTies : Part {
 public:
  using Part::Part;

  std::string lost(const std::string& how);
  /// At a tick, while it is away.
  std::string look();
  std::string redial_failed(const Error& cause);
  /// It owes this peer what was decided, and says so once it knows who is back.
  std::string back();
  /// Neither found nor heard of in time.
  std::string stays_away();

  std::string leave();
  std::string give_up(Error cause);
  /// Its part is over. With `save` what it holds of the run goes to disk before, and `why` says what for.
  std::string end(std::optional<Error> cause, bool save, const std::string& why);
  /// An attempt to save what a peer holds that ends.
  std::string saved(const Result<std::string>& path);
  /// At a tick, while it saves.
  std::string save_again();

 private:
  /// Of those that it has not voted on: what was voted for is still decided about.
  void abort_reduces(const std::string& reason);
  std::string say_goodbye();
  std::string over(std::optional<Error> cause, const std::string& why);
};

}  // namespace prime::peer
