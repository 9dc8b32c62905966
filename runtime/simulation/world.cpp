// Owns what the machines' effects set in motion: reduces between peers, state fetches, trainers.
#include <algorithm>
#include <utility>

#include "runtime/simulation/swarm.hpp"

namespace prime::sim {
namespace {

/// Inner steps of a lease, and between two publications of a fragment.
constexpr std::uint32_t LEASE_SLICES = 4;

/// The trainer's own is overwritten.
void take_over(Pace& pace) {
  if (std::exchange(pace.held, true) && !pace.published) pace.since = 0;
  pace.version = pace.told;
  pace.numbers = pace.told_numbers;
  pace.slices = 0;
  pace.published = false;
}

}  // namespace

// Data plane ----------------------------------------------------------------------------------------------------------------

void Swarm::run_reduce(std::size_t i, const StartReduce& message) {
  carry_out_commits(i);  // the reduce worker does one after the other
  auto& host = hosts_[i];
  auto& reduce = reduces_of(i)[message.op];
  if (reduce.members.empty()) open_reduce(reduce, message);
  auto& part = reduce.parts[i];
  if (part.started) return violate("SIM-4 " + host.machine.options.hello.name + " runs an operation twice");
  part.started = true;
  ++reduce.running;
  if (std::exchange(host.stalls, false)) host.stalled_in = message.op;
  const auto mine =
      std::find_if(message.contributions.begin(), message.contributions.end(), [&](const Contribution& c) { return c.peer == host.id; });
  if (mine == message.contributions.end()) return violate("LAW-4 " + host.machine.options.hello.name + " reduces without being a member");
  if (mine->weight > 0) {
    const auto& published = host.machine.published;
    const auto& all_told = published && published->owed.contains(message.fragment) ? published->told : host.machine.told;
    const auto told = std::ranges::find_if(all_told, [&](const Ready& ready) { return ready.covers(message.fragment); });
    const auto input = host.contributions.find(message.fragment);
    const bool is_input = input != host.contributions.end() && told != all_told.end() && input->second.step == told->step &&
                          (scenario_.options.decoupled || input->second.base == told->base);
    if (!is_input || message.base != host.model.revision)
      return violate("SIM-4 " + host.machine.options.hello.name + " has no input for step " + std::to_string(message.step.value));
    part.input = input->second.gradient;
  }
  watch_reduce(i, message.op);
  if (!reduce.broken_by) reduce.broken_by = reduce.dead;
  if (reduce.broken_by) return fail_part(i, message.op, *reduce.broken_by, ErrorName::LaneBroken, random_.between(1ms, 2s));
  if (reduce.parts.size() < reduce.members.size()) return;
  for (const auto other : reduce.members) {
    schedule(reduce_time(), [this, other, op = message.op] { complete_reduce(other, op); });
  }
  if (armed_resets_ > 0) {
    --armed_resets_;
    schedule(random_.between(1ms, 100ms), [this] { reset_link(); });
  }
  if (scenario_.bad_link) {
    const auto [a, b] = *scenario_.bad_link;
    if (!reduce.parts.contains(a) || !reduce.parts.contains(b)) return;
    reduce.broken_by = b;
    fail_part(a, message.op, b, ErrorName::LaneBroken, 20ms);
    fail_part(b, message.op, a, ErrorName::LaneBroken, 30ms);
  }
}

/// Whoever has not even begun holds it up; else whoever stands still.
std::optional<std::size_t> Swarm::holds_up(const Reduce& reduce, OperationId op) const {
  std::optional<std::size_t> found;
  for (const auto member : reduce.members) {
    const auto part = reduce.parts.find(member);
    const auto& host = hosts_[member];
    if (part == reduce.parts.end() || host.paused || !host.alive || host.stalled_in == op) found = member;
  }
  return found;
}

/// A reduce that moves may last; one that stands still is given up.
void Swarm::watch_reduce(std::size_t i, OperationId op) {
  schedule(scenario_.options.deadline, [this, i, op] {
    const auto& running = reduces_of(i).at(op);
    if (hosts_[i].stalled_in == op || running.parts.at(i).ended) return;
    const auto suspect = holds_up(running, op);
    if (!suspect && !running.broken_by) return watch_reduce(i, op);
    fail_part(i, op, suspect.value_or(i), ErrorName::DeadlineExceeded, 0ms);
  });
}

/// What heartbeats tell of it.
void Swarm::note_moved(std::size_t i) {
  auto& host = hosts_[i];
  if (host.paused) return;
  const auto moves = [&](const peer::InHand& each) {
    const auto reduce = reduces_of(i).find(each.reduce.op);
    return reduce != reduces_of(i).end() && reduce->second.parts.contains(i) && !reduce->second.parts.at(i).ended &&
           !reduce->second.broken_by && !holds_up(reduce->second, each.reduce.op);
  };
  const bool reduces = std::ranges::any_of(host.machine.operations, moves);
  const auto donor = host.machine.fetching ? index_of(host.machine.fetching->donor) : std::nullopt;
  const bool fetches = donor && hosts_[*donor].alive && !hosts_[*donor].paused;
  if (reduces || fetches) ++host.machine.moved_bytes;
}

Duration Swarm::reduce_time() {
  if (scenario_.reduce) return random_.between(scenario_.reduce->first, scenario_.reduce->second);
  return random_.chance(0.1) ? random_.between(1s, 5s) : random_.between(5ms, 500ms);
}

void Swarm::open_reduce(Reduce& reduce, const StartReduce& message) {
  reduce.message = message;
  for (const auto& contribution : message.contributions) {
    const auto other = *index_of(contribution.peer);
    reduce.members.push_back(other);
    if (!hosts_[other].alive && !reduce.dead) reduce.dead = other;
  }
}

Numbers Swarm::mean_of(const Reduce& reduce) const {
  Numbers sum{};
  double weight = 0;
  for (const auto& contribution : reduce.message.contributions) {
    if (contribution.weight == 0) continue;
    const auto& input = reduce.parts.at(*index_of(contribution.peer)).input;
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += input[k] * static_cast<double>(contribution.weight);
    weight += static_cast<double>(contribution.weight);
  }
  for (auto& number : sum) number /= weight;
  return sum;
}

void Swarm::complete_reduce(std::size_t i, OperationId op) {
  auto& host = hosts_[i];
  auto& reduce = reduces_of(i).at(op);
  auto& part = reduce.parts.at(i);
  if (!host.alive || part.ended || reduce.broken_by || host.stalled_in == op) return;
  const bool stalled = paused_ > 0 && std::any_of(reduce.parts.begin(), reduce.parts.end(),
                                                  [&](const auto& entry) { return !entry.second.ended && hosts_[entry.first].paused; });
  if (stalled) {
    schedule(100ms, [this, i, op] { complete_reduce(i, op); });
    return;
  }
  part.ended = true;
  --reduce.running;
  if (!reduce.mean) reduce.mean = mean_of(reduce);
  const auto fragment = reduce.message.fragment;
  auto next = next_of(host.model, fragment, *reduce.mean, reduce.message.next_sample);
  if (armed_corruptions_ > 0 && reduce.members.size() > 1) {  // alone, nobody could tell
    --armed_corruptions_;
    next.numbers[fragment] += static_cast<double>(1 + i);  // two never agree on what is wrong
  }
  const auto& contributions = reduce.message.contributions;
  const auto weighs = [](const Contribution& c) { return c.weight > 0; };
  const bool own = std::any_of(contributions.begin(), contributions.end(), [&](const auto& c) { return c.peer == host.id && weighs(c); });
  const auto count = std::count_if(contributions.begin(), contributions.end(), weighs);
  host.prepared[op] = Host::Prepared{next, reduce.message.next_sample, {{}, own, static_cast<std::uint32_t>(count)}, false};
  post(i, peer::ReduceEnded{op, digest_of(next, fragment), PeerId{}, 1000, 1000}, 0ms);
}

void Swarm::fail_part(std::size_t i, OperationId op, std::size_t suspect, ErrorName name, Duration delay) {
  schedule(delay, [this, i, op, suspect, name] {
    auto& reduce = reduces_of(i).at(op);
    auto& part = reduce.parts.at(i);
    if (!hosts_[i].alive || part.ended) return;
    part.ended = true;
    --reduce.running;
    if (!reduce.broken_by) reduce.broken_by = i;  // without this one nobody else completes
    post(i, peer::ReduceEnded{op, fail(name, "simulated"), suspect == i ? PeerId{} : hosts_[suspect].id, 0, 0}, 0ms);
  });
}

/// A participant is gone or has given up: whoever is not through yet notices, sooner or later.
void Swarm::break_reduces(std::size_t i, std::optional<OperationId> only) {
  for (auto& [op, reduce] : reduces_of(i)) {
    if (only && *only != op) continue;
    if (!reduce.parts.contains(i)) {
      if (!reduce.dead && std::find(reduce.members.begin(), reduce.members.end(), i) != reduce.members.end()) reduce.dead = i;
      continue;
    }
    if (reduce.running == 0 || reduce.broken_by) continue;
    reduce.broken_by = i;
    for (const auto& [other, part] : reduce.parts)
      if (other != i && !part.ended) fail_part(other, op, i, ErrorName::LaneBroken, random_.between(1ms, 2s));
  }
}

void Swarm::abort_reduce(std::size_t i, OperationId op) {
  auto& reduce = reduces_of(i).at(op);
  auto& part = reduce.parts.at(i);
  if (part.ended) return;  // it ended a moment before; its machine hears of that and discards
  break_reduces(i, op);
  part.ended = true;
  --reduce.running;
  if (random_.chance(0.3))
    post(i, peer::ReduceEnded{op, fail(ErrorName::Interrupted, "aborted"), PeerId{}, 0, 0}, random_.between(0ms, 300ms));
}

void Swarm::reset_link() {
  auto& reduces = reduces_[reduces_.size() == 1 ? 0 : random_.below(reduces_.size())];
  for (auto found = reduces.rbegin(); found != reduces.rend(); ++found) {
    const auto op = found->first;
    auto& reduce = found->second;
    std::vector<std::size_t> running;
    for (const auto& [i, part] : reduce.parts)
      if (part.started && !part.ended && hosts_[i].alive) running.push_back(i);
    if (running.size() < 2 || reduce.broken_by) continue;
    const auto a = running[random_.below(running.size())];
    auto b = a;
    while (b == a) b = running[random_.below(running.size())];
    reduce.broken_by = a;
    fail_part(a, op, b, ErrorName::LaneBroken, 0ms);
    if (random_.chance(0.5)) fail_part(b, op, a, ErrorName::LaneBroken, random_.between(0ms, 200ms));
    return;
  }
  ++armed_resets_;
}

/// At once, or after the machine has gone on to what comes next: the reduce worker has its own thread.
void Swarm::apply_commit(std::size_t i, const peer::ApplyCommit& apply) {
  auto& host = hosts_[i];
  const auto& op = apply.commit.op;
  if (!host.prepared.contains(op) || std::ranges::find(host.applying, op, &Commit::op) != host.applying.end())
    return violate("LAW-2 " + host.machine.options.hello.name + " applies what it did not prepare");
  host.applying.push_back(apply.commit);
  if (random_.chance(0.7)) return carry_out_commits(i);
  schedule(random_.between(1ms, 100ms), [this, i] {
    if (hosts_[i].alive) carry_out_commits(i);
  });
}

void Swarm::carry_out_commits(std::size_t i) {
  auto& host = hosts_[i];
  for (; !host.applying.empty(); host.applying.pop_front()) {
    const auto& commit = host.applying.front();
    changed_.push_back(i);
    auto prepared = std::move(host.prepared.extract(commit.op).mapped());
    host.model = with_fragment(std::move(host.model), prepared.model, commit.fragment, prepared.next_sample);
    if (prepared.then.own_work) host.contributions.erase(commit.fragment);  // only here (law 2)
    prepared.then.commit = commit;
    step_trainer(i, prepared.then);
  }
}

/// As the coordinator is told them.
std::vector<Digest> Swarm::told_parts(const Model& model) const {
  return scenario_.options.fragments > 1 ? parts_of(model) : std::vector<Digest>{};
}

// State fetch ---------------------------------------------------------------------------------------------------------------

void Swarm::start_fetch(std::size_t i, const FetchState& fetch) {
  if (hosts_[i].fetching) return violate("SIM-4 " + hosts_[i].machine.options.hello.name + " fetches twice at once");
  hosts_[i].fetching = true;
  hosts_[i].fetch_stopped = false;
  const auto usual = hosts_[i].spec.fetch_time;
  schedule(random_.between(usual / 2, usual), [this, i, fetch] { end_fetch(i, fetch); });
}

void Swarm::end_fetch(std::size_t i, const FetchState& fetch) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  if (host.fetch_stopped) return post(i, peer::FetchEnded{fetch.revision, fail(ErrorName::FetchFailed, "another donor is asked")}, 0ms);
  const auto donor = index_of(fetch.donor);
  if (host.paused || (donor && hosts_[*donor].alive && hosts_[*donor].paused)) {  // stands still; the lane gives up some time
    if (!host.paused && random_.chance(0.05))
      return post(i, peer::FetchEnded{fetch.revision, fail(ErrorName::LaneBroken, "the donor is mute")}, 0ms);
    schedule(250ms, [this, i, fetch] { end_fetch(i, fetch); });
    return;
  }
  if (!donor || !hosts_[*donor].alive || hosts_[*donor].parted != host.parted)
    return post(i, peer::FetchEnded{fetch.revision, fail(ErrorName::PeerLost, "the donor is gone")}, random_.between(0ms, 1s));
  const auto& model = hosts_[*donor].model;
  if (model.revision != fetch.revision || digest_of(model) != fetch.state) {
    probe(model.revision < fetch.revision ? WorldProbe::DonorBehind : WorldProbe::DonorMovedOn);
    return post(i, peer::FetchEnded{fetch.revision, fail(ErrorName::FetchFailed, "the donor holds another revision")}, 0ms);
  }
  host.fetched[fetch.revision] = model;
  post(i, peer::FetchEnded{fetch.revision, digest_of(model), told_parts(model)}, 0ms);
}

// Links ---------------------------------------------------------------------------------------------------------------------

/// From 0.1 to 100 MB/s; drawn anew every two minutes.
std::uint64_t Swarm::link_speed(PeerId from, PeerId to) const {
  const auto era = static_cast<std::uint64_t>((now_ - Instant{}) / 2min);
  const auto drawn = mix(mix(from.value ^ mix(to.value)) ^ (scenario_.seed + era));
  if (drawn % 20 == 0) return 0;
  std::uint64_t speed = 100'000;
  for (auto tens = drawn / 20 % 4; tens > 0; --tens) speed *= 10;
  return speed + drawn % speed;
}

/// Where two cannot reach each other, a third passes their bytes on, if one reaches both; every other one does not, whatever its reasons.
Result<std::uint64_t> Swarm::relayed_speed(std::size_t i, std::size_t to) {
  for (std::size_t by = 0; by < hosts_.size(); ++by) {
    const auto speed = std::min(link_speed(hosts_[i].id, hosts_[by].id), link_speed(hosts_[by].id, hosts_[to].id));
    if (by == i || by == to || !hosts_[by].alive || hosts_[by].parted != hosts_[i].parted || speed % 2 == 0) continue;
    post(i, peer::WayChanged{hosts_[to].id, hosts_[by].id}, 0ms);
    return speed;
  }
  return fail(ErrorName::LaneBroken, "it cannot be reached");
}

void Swarm::start_measure(std::size_t i, PeerId to) {
  schedule(random_.chance(0.1) ? random_.between(1s, 10s) : random_.between(5ms, 300ms), [this, i, to] {
    const auto other = index_of(to);
    const bool reduces = peer::phase_of(hosts_[i].machine) == peer::Phase::Reducing || random_.chance(0.05);
    Result<std::uint64_t> speed = link_speed(hosts_[i].id, to);
    if (!other || !hosts_[*other].alive || hosts_[*other].parted != hosts_[i].parted) speed = fail(ErrorName::LaneBroken, "it is gone");
    else if (reduces) speed = fail(ErrorName::Interrupted, "a reduce starts");
    else if (speed == 0U) speed = relayed_speed(i, *other);
    post(i, peer::MeasureEnded{to, std::move(speed)}, 0ms);
  });
}

// Trainer -------------------------------------------------------------------------------------------------------------------

/// From its process: lost, if that has ended by then.
void Swarm::hear_trainer(std::size_t i, trainer_life::Event event, Duration delay) {
  schedule(delay, [this, i, event = std::move(event), number = hosts_[i].trainers]() mutable {
    if (hosts_[i].trainers == number) deliver(i, std::move(event));
  });
}

void Swarm::deliver(std::size_t i, trainer_life::Event event) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  if (host.paused) return host.backlog.emplace_back(std::move(event)), void();
  ++untimed_events_;
  step_trainer(i, event);
}

void Swarm::step_trainer(std::size_t i, const trainer_life::Event& event) {
  auto& host = hosts_[i];
  if (!host.alive) return;
  auto transition = trainer_life::step(std::move(host.life), event, host.clock.read(now_));
  host.life = std::move(transition.state);
  if (!transition.reason.empty()) trace(host.machine.options.hello.name, "trainer", transition.reason);
  for (const auto& effect : transition.effects) carry_out(i, effect);
}

void Swarm::carry_out(std::size_t i, const trainer_life::Effect& effect) {
  auto& host = hosts_[i];
  namespace life = trainer_life;
  std::visit(overloaded{
                 [&](const life::Launch&) { launch_trainer(i); },
                 [&](const life::Kill&) {
                   if (host.life.stop_cause->name == ErrorName::Interrupted) probe(WorldProbe::TrainerStartedOver);
                   end_trainer(i, Error{ErrorName::TrainerFailed, "killed"}, random_.between(0ms, 20ms));
                 },
                 [&](const life::TellStop&) { end_trainer(i, std::nullopt, random_.between(0ms, 2s)); },
                 [&](const life::OpenState&) { hear_trainer(i, life::StateOpened{}, 0ms); },
                 [&](const life::MapTensors&) { hear_trainer(i, life::Initial{}, random_.between(0ms, 10ms)); },
                 [&](const life::FoundState&) {
                   const Digest layout{host.spec.other_layout ? 2U : 1U, host.spec.shard};
                   hear_trainer(i,
                                life::StateFound{life::Held{layout, 3 + host.spec.shard, digest_of(host.model), host.model.revision,
                                                            static_cast<std::uint32_t>(host.trainers), told_parts(host.model)}},
                                0ms);
                 },
                 [&](const life::TakeContribution& take) {
                   for (std::uint32_t fragment = 0; fragment < scenario_.options.fragments; ++fragment)
                     if (covers(take.fragments, fragment)) host.contributions[fragment] = host.local.at(fragment);
                   const auto time = takes_.chance(0.9) ? 0ms : takes_.between(1ms, 500ms);
                   schedule(time, [this, i, lengths = lengths_of(i, take.fragments)] { deliver(i, life::ContributionTaken{lengths}); });
                 },
                 [&](const life::TellBegin& order) { train(i, order); },
                 [&](const life::TellAsked& told) { host.paces[told.asked.fragment].asked = told.asked.version; },
                 [&](const life::TellCommitted& told) {
                   if (scenario_.options.decoupled) return note_told(i, told.commit.fragment);
                   host.training.untold.erase(told.commit.fragment);
                   if (std::exchange(host.training.waits, false)) end_slice(i);
                 },
                 [&](const life::TellFinish& order) { finish_training(i, order.done); },
                 [&](const life::Report& report) { post(i, report.event, 0ms); },
                 [&](const life::Died& died) { trainer_died(i, died); },
                 [&](const life::Write& order) {
                   if (!order.hold) violate("SIM-4 " + host.machine.options.hello.name + " saves a revision that it does not hold");
                   save(i, order.order);
                 },
             },
             effect);
}

void Swarm::launch_trainer(std::size_t i) {
  auto& host = hosts_[i];
  ++host.trainers;
  host.trainer_up = true;
  host.paces.assign(scenario_.options.fragments, {});
  for (std::uint32_t fragment = 0; fragment < host.paces.size(); ++fragment)
    host.paces[fragment].since = LEASE_SLICES - (fragment + 1) * LEASE_SLICES / scenario_.options.fragments;
  const DataIdentity data{Digest{host.spec.other_data ? 2U : 1U, 0}, "files"};
  hear_trainer(i, trainer_life::Described{data}, host.spec.bind_time);
  hear_trainer(i, trainer_life::TensorsBound{}, host.spec.bind_time);
}

void Swarm::end_trainer(std::size_t i, std::optional<Error> cause, Duration delay) {
  auto& host = hosts_[i];
  if (!std::exchange(host.trainer_up, false)) return;
  ++host.trainers;
  hear_trainer(i, trainer_life::Gone{std::move(cause)}, delay);
}

/// As the supervisor does it.
void Swarm::trainer_died(std::size_t i, const trainer_life::Died& died) {
  auto& host = hosts_[i];
  auto decided = supervisor::child_died(std::move(host.restarts), died.cause, host.clock.read(now_), died.began);
  host.restarts = std::move(decided.state);
  std::visit(overloaded{
                 [&](const supervisor::Restart&) {
                   post(i, peer::TrainerRestarting{died.cause}, 0ms);
                   step_trainer(i, trainer_life::Start{});
                 },
                 [&](const supervisor::GiveUp& give_up) { post(i, peer::TrainerGaveUp{give_up.cause}, 0ms); },
             },
             decided.decision);
}

void Swarm::train(std::size_t i, const trainer_life::TellBegin& order) {
  auto& host = hosts_[i];
  const auto& begin = order.begin;
  if (order.base != host.model.revision) violate("SIM-4 " + host.machine.options.hello.name + " begins from what it does not hold");
  const bool first = std::exchange(host.begun, host.trainers) != host.trainers || begin.step < host.training.result.step;
  host.training = {.number = host.training.number + 1,
                   .untold = {order.in_flight.begin(), order.in_flight.end()},
                   .published = order.published,
                   .first_sample = begin.first_sample,
                   .result = {begin.step, order.base, pseudo_gradient(host.id, begin.step, host.model, begin.first_sample), begin.attempt,
                              first || !scenario_.streams}};
  if (scenario_.options.decoupled) begin_lease(i);
  train_slice(i);
}

/// All other fragments, as messages name them.
Fragments Swarm::what_is_left(const Fragments& published) const {
  Fragments left;
  for (std::uint32_t fragment = 0; fragment < scenario_.options.fragments; ++fragment)
    if (!std::ranges::binary_search(published, fragment)) left.push_back(fragment);
  return published.empty() ? Fragments{} : left;
}

/// Until fragments are due, all or the next.
void Swarm::train_slice(std::size_t i) {
  const auto slices = scenario_.options.decoupled ? LEASE_SLICES : scenario_.streams ? scenario_.options.fragments : 1;
  const auto time = random_.between(hosts_[i].spec.inner_time * 7 / 10, hosts_[i].spec.inner_time * 13 / 10) / slices;
  schedule(time, [this, i, life = hosts_[i].trainers, number = hosts_[i].training.number] {
    const auto& host = hosts_[i];
    if (host.alive && host.trainers == life && host.training.number == number) end_slice(i);
  });
}

void Swarm::end_slice(std::size_t i) {
  if (scenario_.options.decoupled) return end_lease_slice(i);
  auto& training = hosts_[i].training;
  if (!scenario_.streams) return publish(i, what_is_left(training.published));
  const auto fragments = scenario_.options.fragments;
  const auto fragment = training.next;
  // The last that must be known, in the order in which they are published; of a fragment itself its version before.
  for (auto back = *scenario_.streams + 1; back <= fragments; ++back)
    if (training.untold.contains((fragment + fragments - back) % fragments)) {
      training.waits = true;
      return;
    }
  ++training.next;
  const bool is_out = std::ranges::binary_search(training.published, fragment);
  if (!is_out) training.untold.insert(fragment);
  const bool last = training.next == fragments;
  if (!is_out) publish(i, {fragment});
  if (!last) train_slice(i);
}

void Swarm::publish(std::size_t i, const Fragments& fragments) {
  auto& host = hosts_[i];
  const auto& result = host.training.result;
  for (std::uint32_t fragment = 0; fragment < scenario_.options.fragments; ++fragment)
    if (covers(fragments, fragment)) host.local[fragment] = result;
  peer::TrainerContributed work{result.step,  {},       weight_of(host.id, result.step), 64, Real{2.5}, HeldOutLoss{Real{2.6}, 64},
                                Real{1000.0}, fragments};
  deliver(i, trainer_life::Contributed{std::move(work)});
}

/// As it is now.
void Swarm::note_told(std::size_t i, std::uint32_t fragment) {
  auto& host = hosts_[i];
  host.paces[fragment].told = host.model.versions[fragment];
  host.paces[fragment].told_numbers = host.model.numbers;
}

/// From the state as it is: what the trainer has of each fragment since it took that over goes on.
void Swarm::begin_lease(std::size_t i) {
  for (std::uint32_t fragment = 0; fragment < scenario_.options.fragments; ++fragment) {
    note_told(i, fragment);
    auto& pace = hosts_[i].paces[fragment];
    if (!pace.held || pace.told > pace.version) take_over(pace);
  }
}

/// A boundary: what has arrived is taken over, then what is due or asked for is published.
void Swarm::end_lease_slice(std::size_t i) {
  auto& host = hosts_[i];
  for (std::uint32_t fragment = 0; fragment < host.paces.size(); ++fragment) {
    auto& pace = host.paces[fragment];
    ++pace.slices;
    ++pace.since;
    if (pace.told > pace.version) take_over(pace);
    const bool asked = pace.asked == pace.version.next();
    if (pace.slices > 0 && !pace.published && (asked || pace.since >= LEASE_SLICES)) publish_decoupled(i, fragment);
  }
  if (++host.training.next < LEASE_SLICES) return train_slice(i);
  deliver(i, trainer_life::UsedLease{});
}

void Swarm::publish_decoupled(std::size_t i, std::uint32_t fragment) {
  auto& host = hosts_[i];
  auto& pace = host.paces[fragment];
  const auto version = pace.version.next();
  pace.asked.reset();
  pace.published = true;
  pace.since = 0;
  Model base;
  base.numbers = pace.numbers;
  host.local[fragment] = {version, {}, pseudo_gradient(host.id, version, base, host.training.first_sample)};
  const auto weight = weight_of(host.id, version);
  peer::TrainerContributed work{version, {}, weight, 64, Real{2.5}, HeldOutLoss{}, Real{1000.0}, {fragment}, {}, weight};
  deliver(i, trainer_life::Contributed{std::move(work)});
}

/// As with `sync.merge: radial`: what is told beside a contribution has to come with it to its reduce. A contribution is as long as it
/// weighs.
std::vector<Lengths> Swarm::lengths_of(std::size_t i, const Fragments& fragments) const {
  if (scenario_.options.shards > 1) return {};
  const auto& host = hosts_[i];
  std::vector<Lengths> lengths;
  for (std::uint32_t fragment = 0; fragment < scenario_.options.fragments; ++fragment)
    if (covers(fragments, fragment))
      lengths.push_back({Real{static_cast<double>(weight_of(host.id, host.contributions.at(fragment).step))}});
  return lengths;
}

void Swarm::finish_training(std::size_t i, const RunDone& done) {
  if (done.revision != hosts_[i].model.revision)
    violate("SIM-4 " + hosts_[i].machine.options.hello.name + " evaluates another state than the final one");
  ++hosts_[i].training.number;
  const HeldOutLoss part{Real{2.5}, done.evaluate.of > 0 ? std::uint64_t{64} : 0};
  hear_trainer(i, trainer_life::Answered{{part, "sample"}}, hosts_[i].spec.inner_time);
}

// Disk ----------------------------------------------------------------------------------------------------------------------

/// Now and then a disk is full, with no fault that says so.
bool Swarm::disk_takes(const Host& host) { return now_ >= host.disk_full_until && !random_.chance(0.05); }

/// Of the state as it is now; on the disk once it has ended. One after the other, as the checkpoint server does it.
void Swarm::save(std::size_t i, const peer::SaveState& order) {
  if (order.of != hosts_[i].model.revision)
    violate("SIM-4 " + hosts_[i].machine.options.hello.name + " saves a revision that it does not hold");
  if (!order.shared) return;  // simulated trainers keep nothing for themselves
  const auto time = random_.chance(0.1) ? random_.between(1s, 5s) : random_.between(5ms, 500ms);
  auto& busy_until = hosts_[i].disk_busy_until;
  busy_until = std::max(busy_until, now_) + time;
  schedule(busy_until - now_, [this, i, periodic = order.periodic, state = hosts_[i].model] {
    auto& host = hosts_[i];
    if (!host.alive) return;
    if (!disk_takes(host)) return post(i, peer::SaveEnded{periodic, fail(ErrorName::StorageFailed, "no space left")}, 0ms);
    host.checkpoint = state;
    post(i, peer::SaveEnded{periodic, std::string{"/checkpoint"}}, 0ms);
  });
}

void Swarm::fill_disk(std::size_t i, Duration hold) {
  hosts_[i].disk_full_until = hold == Duration{} ? Instant::max() : std::max(hosts_[i].disk_full_until, now_ + hold);
}

void Swarm::kill_trainer(std::size_t i) {
  if (!hosts_[i].alive) return;
  // What repeats itself in each word before a trainer has begun is not cured by a restart; other deaths may be.
  const auto signal = std::to_string(6 + random_.below(6));
  end_trainer(i, Error{ErrorName::ProcessFailed, "killed by signal " + signal}, random_.chance(0.5) ? 0ms : random_.between(0ms, 50ms));
}

}  // namespace prime::sim
