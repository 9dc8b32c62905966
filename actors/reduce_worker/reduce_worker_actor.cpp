#include "actors/reduce_worker/reduce_worker_actor.hpp"

#include <caf/send.hpp>

namespace prime {

ReduceWorkerImpl::behavior_type ReduceWorkerImpl::make_behavior() {
  return {[this](const ReduceHappening& happening) { handle(happening.event); }};
}

void ReduceWorkerImpl::handle(const reduce_worker::Event& event) {
  auto transition = reduce_worker::step(std::move(state_), event);
  state_ = std::move(transition.state);
  if (ports_.log && !transition.reason.empty()) ports_.log(transition.reason);
  for (const auto& effect : transition.effects) carry_out(effect);
}

void ReduceWorkerImpl::start(const reduce_worker::Run& run) {
  const auto& reduce = run.reduce;
  const auto self = caf::actor_cast<ReduceWorkerActor>(this);
  auto request = request_of(ports_.terms(), {reduce.fragment, reduce.step, reduce.ring});
  request.op = reduce.op;
  request.view = reduce.view;
  request.self = ports_.self;
  request.contributions = reduce.contributions.list();
  if (run.brings) request.input = std::as_bytes(ports_.state->contribution(reduce.fragment));
  request.output = std::as_writable_bytes(ports_.state->result(reduce.fragment));
  const auto feedback = ports_.state->feedback(reduce.fragment);
  request.residual = feedback.residual;
  request.next_residual = feedback.next;
  request.relays = reduce.relays;
  ports_.lanes->start(std::move(request),
                      [self](ReduceOutcome outcome) { caf::anon_send(self, ReduceHappening{reduce_worker::Moved{std::move(outcome)}}); });
}

void ReduceWorkerImpl::carry_out(const reduce_worker::Effect& effect) {
  std::visit(overloaded{
                 [&](const reduce_worker::StartLanes& e) { start(e.run); },
                 [&](const reduce_worker::AbortLanes& e) { ports_.lanes->abort(e.op, e.reason); },
                 [&](const reduce_worker::Prepare& e) {
                   handle(reduce_worker::PreparedState{e.run.reduce.op, ports_.state->prepare(e.run.reduce, e.run.brings), e.stats});
                 },
                 [&](const reduce_worker::CommitState& e) { ports_.state->commit(e.commit); },
                 [&](const reduce_worker::DiscardState& e) { ports_.state->discard(e.op); },
                 [&](const reduce_worker::Report& e) {
                   ports_.report(peer::ReduceEnded{e.op, e.prepared, e.suspect, e.stats.wire_bytes_sent,
                                                   static_cast<std::uint64_t>(e.stats.elapsed.count())});
                 },
             },
             effect);
}

}  // namespace prime
