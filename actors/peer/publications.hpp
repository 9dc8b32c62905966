// Owns what a trainer has published: what waits, in order, until its values may be taken, and what no committed version has yet. The values
// of a fragment have one place: the next ones are taken only when the ones before are committed, or void. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/peer/peer_machine.hpp"
#include "actors/peer/trainer_records.hpp"

namespace prime::trainer_life {

/// What a trainer has made of some fragments.
struct Publication {
  peer::TrainerContributed work;
  std::uint32_t diverged_at = 0;  ///< the first inner step, from 1 on, whose loss was not finite; 0: none was
  std::optional<Record> record = {};
};

/// Only Publications changes it.
struct Published {
  std::deque<Publication> waiting;  ///< whose values are yet to be taken
  bool taking = false;              ///< the values of the first are being taken
  std::set<std::uint32_t>
      of_step;                   ///< fragments of which the step needs nothing more: their values were taken, or it does not ask for them
  std::set<std::uint32_t> owed;  ///< fragments that this life has contributed to, and whose commit is still to come
  std::set<std::uint32_t> uncommitted;  ///< those, and such of earlier lives
  // With `decoupled`:
  std::map<std::uint32_t, OuterStep> versions;  ///< by fragment, the last one that was committed; none before the first
  bool in_vain = false;                         ///< while the first was being taken its version was committed without it
  bool lease_used = false;                      ///< the trainer has used its samples up, which waits for what it published before
};

/// `fragments`: of the state. `decoupled`: what a trainer publishes names the version that it is for, and is void once that is committed
/// without it.
class Publications {
 public:
  struct Taken {
    enum class Fate : std::uint8_t {
      Gone,    ///< the life that published it has ended meanwhile
      InVain,  ///< its version is committed without it
      Counts,
    };
    Fate fate = Fate::Gone;
    Publication publication = {};
  };

  Publications(std::uint32_t fragments, bool decoupled, Published& published)
      : fragments_(fragments), decoupled_(decoupled), p_(published) {}

  /// What waits, and what this life was to be told of, is forgotten. What was taken stays uncommitted.
  void end_life();
  /// The trainer begins another step; `anew`: another attempt at the same one, of `begin.fragments`. What was uncommitted until now is
  /// committed by now, or void, and in nobody's way; except, with `begin.overlaps`, work on the step before, which is still reduced, and,
  /// `anew`, fragments that are not made again. With `decoupled` all of it stays.
  void begin_step(const BeginStep& begin, bool anew);

  /// Puts it behind what waits; or says why it does not count.
  std::optional<std::string> add(Publication publication);
  /// The first of what waits is to be taken, of these fragments; nothing as long as it would take the place of something uncommitted.
  std::optional<Fragments> take_next();
  /// Ends what take_next began.
  Taken taken();
  /// What was taken is on its way to the others.
  void contributed(const Fragments& fragments);
  /// A version with this peer's work; whether this life has waited for it.
  bool own_work_committed(std::uint32_t fragment);
  /// With `decoupled`, whoever contributed: the trainer takes the fragment over, and what it may have made for that version is void.
  void version_committed(std::uint32_t fragment, OuterStep version);

  void use_lease() { p_.lease_used = true; }
  /// True once, when nothing that was published before it waits any more: that work is on the same samples.
  bool take_lease_used();
  /// All that the step needs was published.
  [[nodiscard]] bool has_all() const;
  /// And its values were taken.
  [[nodiscard]] bool has_taken_all() const { return p_.of_step.size() == fragments_; }

 private:
  template <class Action>
  void for_each(const Fragments& fragments, Action action) const {
    for (std::uint32_t fragment = 0; fragment < fragments_; ++fragment)
      if (covers(fragments, fragment)) action(fragment);
  }

  std::uint32_t fragments_;
  bool decoupled_;
  Published& p_;
};

}  // namespace prime::trainer_life
