#include "actors/checkpoint_server/recovery_machine.hpp"

namespace prime::checkpoint_server {
namespace {

Transition with(State state, Effect effect, std::string reason) { return {std::move(state), std::move(effect), std::move(reason)}; }

Transition offered(State s, const Offered& offer) {
  if (offer.revision != s.revision)
    return with(std::move(s), Fail{Error{ErrorName::FetchFailed, "the donor is at revision " + std::to_string(offer.revision.value)}},
                "the donor moved on");
  if (offer.total_bytes != s.expected_bytes)
    return with(std::move(s), Fail{Error{ErrorName::LayoutMismatch, "the donor offers " + std::to_string(offer.total_bytes) + " bytes"}},
                "another layout");
  if (s.next == s.chunks) return with(std::move(s), Done{}, "nothing is missing");
  const auto first = s.next;
  return with(std::move(s), Ask{first}, "asks from chunk " + std::to_string(first));
}

Transition arrived(State s, const ChunkArrived& chunk) {
  if (chunk.index != s.next)
    return with(std::move(s), Fail{Error{ErrorName::ProtocolViolation, "chunk " + std::to_string(chunk.index) + " was not asked for"}},
                "a wrong chunk");
  if (!chunk.whole) {
    if (++s.resumes > MAX_RESUMES)
      return with(std::move(s), Fail{Error{ErrorName::FetchFailed, "chunk " + std::to_string(chunk.index) + " arrives damaged"}},
                  "damaged again and again");
    return with(std::move(s), Reconnect{}, "a damaged chunk");
  }
  s.resumes = 0;
  ++s.next;
  if (s.next == s.chunks) return with(std::move(s), Done{}, "complete");
  return with(std::move(s), Continue{}, {});
}

}  // namespace

Transition step(State state, const Event& event) {
  return std::visit(overloaded{
                        [&](const Offered& e) { return offered(std::move(state), e); },
                        [&](const ChunkArrived& e) { return arrived(std::move(state), e); },
                        [&](const Broken& e) {
                          if (++state.resumes > MAX_RESUMES) return with(std::move(state), Fail{e.error}, "broken too often");
                          return with(std::move(state), Reconnect{}, "broken: " + to_string(e.error));
                        },
                    },
                    event);
}

}  // namespace prime::checkpoint_server
