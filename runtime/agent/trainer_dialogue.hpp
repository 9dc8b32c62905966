// Owns the order of the conversation with a trainer: which of its messages is allowed when, and which event it becomes. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/agent/trainer_host.hpp"

namespace prime {

class TrainerDialogue {
 public:
  /// Progress comes every 50 ms from our own library; whoever sends more often is thinned out, so that it cannot flood a mailbox.
  static constexpr Duration INNER_INTERVAL = 10ms;

  // What the agent said.
  void segments_sent(std::uint32_t fragments, bool decoupled);
  /// Of the published ones nothing more is wanted in this step.
  void begun(OuterStep step, const Fragments& published);
  void finish_sent() { finish_sent_ = true; }

  /// What the trainer said: an event, nothing worth an event, or TrainerProtocol.
  Result<std::optional<TrainerEvent>> accept(wire::ToAgent message, std::vector<Descriptor> descriptors, Instant now);
  /// It answered `finish`: what is left for it is to end.
  [[nodiscard]] bool final_received() const { return final_received_; }

 private:
  using Outcome = Result<std::optional<TrainerEvent>>;
  Outcome on(wire::Bind bind, std::vector<Descriptor> descriptors);
  Outcome on_export(const wire::Export& exported, const Descriptor& file);
  Outcome on(wire::Data data);
  Outcome on(const wire::Initial& initial);
  Outcome on(const wire::Inner& inner, Instant now);
  Outcome on(const wire::Alive& alive, Instant now);
  Outcome on(const wire::Record& record);
  Outcome on(const wire::Contribute& contribution);
  Outcome on(const wire::LeaseUsed& used);
  [[nodiscard]] bool contributed() const { return published_.size() == fragments_; }
  Outcome on(wire::Final answer);

  std::vector<BoundTensor> tensors_;
  std::size_t exports_ = 0;
  bool bound_ = false;
  bool described_ = false;
  bool segments_sent_ = false;
  bool initial_received_ = false;
  std::uint32_t fragments_ = 1;
  bool decoupled_ = false;
  OuterStep step_;                     ///< begun last; 0 before the first
  OuterStep latest_;                   ///< that was begun: an earlier one may be begun after it
  std::set<std::uint32_t> published_;  ///< fragments in it, or not wanted
  bool finish_sent_ = false;
  bool final_received_ = false;
  std::optional<Instant> last_inner_;
  std::optional<Instant> last_alive_;
  bool waits_ = false;  ///< as it said last
};

}  // namespace prime
