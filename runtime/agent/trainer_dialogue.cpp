#include "runtime/agent/trainer_dialogue.hpp"

#include <algorithm>
#include <iterator>

namespace prime {

namespace {
tl::unexpected<Error> refuse(const char* why) { return fail(ErrorName::TrainerProtocol, why); }
}  // namespace

void TrainerDialogue::segments_sent(std::uint32_t fragments, bool decoupled) {
  segments_sent_ = true;
  decoupled_ = decoupled;
  fragments_ = fragments;
}

void TrainerDialogue::begun(OuterStep step, const Fragments& published) {
  step_ = step;
  latest_ = std::max(latest_, step);
  published_ = {published.begin(), published.end()};
  last_inner_.reset();
}

auto TrainerDialogue::accept(wire::ToAgent message, std::vector<Descriptor> descriptors, Instant now) -> Outcome {
  if (descriptors.size() != wire::descriptor_count(message)) return refuse("a packet has the wrong number of descriptors");
  return std::visit(overloaded{
                        [&](wire::Bind& m) { return on(std::move(m), std::move(descriptors)); },
                        [&](wire::Export& m) { return on_export(m, descriptors.front()); },
                        [&](wire::Data& m) { return on(std::move(m)); },
                        [&](wire::Initial& m) { return on(m); },
                        [&](wire::Inner& m) { return on(m, now); },
                        [&](wire::Alive& m) { return on(m, now); },
                        [&](wire::Record& m) { return on(m); },
                        [&](wire::Contribute& m) { return on(m); },
                        [&](wire::LeaseUsed& m) { return on(m); },
                        [&](wire::Final& m) { return on(std::move(m)); },
                        [&](wire::Leave&) { return Outcome(TrainerLeft{}); },
                        [&](wire::Failure& m) { return Outcome(TrainerFailed{std::move(m.error)}); },
                    },
                    message);
}

auto TrainerDialogue::on(wire::Bind bind, std::vector<Descriptor> descriptors) -> Outcome {
  if (bound_) return refuse("tensors were bound already");
  std::move(bind.tensors.begin(), bind.tensors.end(), std::back_inserter(tensors_));
  for (const auto role : {Role::Averaged, Role::Private, Role::Copied})
    PRIME_CHECK(check_tensor_count(static_cast<std::size_t>(std::ranges::count(tensors_, role, &BoundTensor::role))));
  if (!bind.last) return std::nullopt;
  PRIME_TRY(auto layout, make_bound_layout(tensors_));
  PRIME_CHECK(make_record_layout(tensors_, true));
  bound_ = true;
  TrainerBound bound{std::move(layout), std::move(bind.device), std::exchange(tensors_, {}), {}};
  if (!bind.shared) return bound;
  const auto foreign = [](const BoundTensor& tensor) { return tensor.role == Role::Averaged && tensor.type != DataType::F32; };
  if (std::ranges::any_of(bound.tensors, foreign)) return refuse("only tensors of f32 are shared");
  bound.shared = std::make_shared<const Descriptor>(std::move(descriptors.front()));
  return bound;
}

auto TrainerDialogue::on_export(const wire::Export& exported, const Descriptor& file) -> Outcome {
  if (++exports_ > EXPORT_FILES_MAX) return refuse("too many exported files");
  PRIME_TRY(auto content, read_memory_file(file, EXPORT_BYTES_MAX));
  return TrainerExported{exported.name, std::move(content)};
}

auto TrainerDialogue::on(wire::Data data) -> Outcome {
  if (bound_ || std::exchange(described_, true)) return refuse("the data was described twice, or after the tensors were bound");
  return TrainerDescribed{std::move(data.data)};
}

auto TrainerDialogue::on(const wire::Initial&) -> Outcome {
  if (!segments_sent_ || std::exchange(initial_received_, true)) return refuse("initial values at a time when nobody asked");
  return TrainerInitial{};
}

auto TrainerDialogue::on(const wire::Inner& inner, Instant now) -> Outcome {
  if (inner.step > latest_) return refuse("progress in a step that was not begun");
  const bool stale = inner.step != step_ || contributed();
  if (stale || (last_inner_ && now - *last_inner_ < INNER_INTERVAL)) return std::nullopt;
  last_inner_ = now;
  return TrainerInner{inner};
}

auto TrainerDialogue::on(const wire::Alive& alive, Instant now) -> Outcome {
  const bool news = alive.waits_for.empty() != !waits_;
  if (!news && last_alive_ && now - *last_alive_ < INNER_INTERVAL) return std::nullopt;
  last_alive_ = now;
  waits_ = !alive.waits_for.empty();
  return TrainerAlive{alive.waits_for};
}

auto TrainerDialogue::on(const wire::Record& record) -> Outcome {
  if (record.step > latest_) return refuse("a record of a step that was not begun");
  // The trainer has yet to hear that another step has begun; it waits for the answer all the same.
  if (record.step != step_ || contributed()) return TrainerRecorded{};
  return TrainerRecorded{record};
}

auto TrainerDialogue::on(const wire::Contribute& contribution) -> Outcome {
  if (!contribution.fragments.empty() && contribution.fragments.back() >= fragments_) return refuse("a fragment that there is not");
  if (decoupled_) {
    const bool names_one = contribution.fragments.size() == 1 || (contribution.fragments.empty() && fragments_ == 1);
    if (!names_one || latest_ == OuterStep{}) return refuse("a publication that is not of one fragment, or before there was a step");
    return TrainerContributed{contribution};
  }
  if (contribution.step > latest_) return refuse("a contribution to a step that was not begun");
  // It was sent before the trainer heard that another step has begun; nobody wants it any more.
  if (contribution.step != step_) return std::nullopt;
  for (std::uint32_t fragment = 0; fragment < fragments_; ++fragment)
    if (covers(contribution.fragments, fragment) && !published_.insert(fragment).second) return refuse("a second contribution to one step");
  return TrainerContributed{contribution};
}

auto TrainerDialogue::on(const wire::LeaseUsed& used) -> Outcome {
  if (!decoupled_ || used.step > latest_) return refuse("samples were used up that were not given");
  if (used.step != step_) return std::nullopt;
  return TrainerUsedLease{};
}

auto TrainerDialogue::on(wire::Final answer) -> Outcome {
  if (!finish_sent_ || std::exchange(final_received_, true)) return refuse("a final answer at a time when nobody asked");
  return TrainerFinal{std::move(answer.answer)};
}

}  // namespace prime
