#include "prime/session.hpp"

#include <array>
#include <cstdlib>

#include "runtime/clock.hpp"
#include "runtime/session/session_state.hpp"

namespace prime {

namespace {

constexpr Duration ATTACH_LIMIT{60s};
/// As long as a peer may take to say good-bye to its run.
constexpr Duration LEAVE_LIMIT{20s};

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::join(const JoinOptions& options) {
  PRIME_TRY(auto ends, PacketSocket::pair());
  PRIME_TRY(auto process, AgentProcess::start(options, ends.second.number()));
  ends.second.close();  // the agent's copy is the only one now, so that its end is seen
  auto impl = std::make_unique<Impl>(std::move(ends.first), options.goes_on);
  if (auto welcomed = impl->await_welcome(monotonic_now() + options.timeout); !welcomed) {
    Error error = std::move(welcomed).error();
    // Its agent sees that nobody wants it any more, and leaves.
    if (error.name == ErrorName::Interrupted) return prime::fail(std::move(error));
    const auto explanation = process.end_and_explain();
    if (error.name == ErrorName::AgentLost) return prime::fail(ErrorName::ProcessFailed, explanation);
    if (error.name == ErrorName::DeadlineExceeded) error.detail = "waiting for the run to welcome this peer; " + explanation;
    return prime::fail(std::move(error));
  }
  impl->process = std::move(process);
  return Session(std::move(impl));
}

Result<Session> Session::attach(GoesOn goes_on) {
  const char* const path = std::getenv(AGENT_SOCKET_VARIABLE);
  const char* const secret = std::getenv(AGENT_SECRET_VARIABLE);
  if (path == nullptr || secret == nullptr)
    return prime::fail(ErrorName::AgentLost, std::string{"no agent started this process: "} + AGENT_SOCKET_VARIABLE + " and " +
                                                 AGENT_SECRET_VARIABLE + " are not both set; a launcher between the two must pass them on");
  PRIME_TRY(auto socket, PacketSocket::connect(path, secret));
  auto impl = std::make_unique<Impl>(std::move(socket), std::move(goes_on));
  PRIME_CHECK(impl->await_welcome(monotonic_now() + ATTACH_LIMIT));
  return Session(std::move(impl));
}

const std::string& Session::manifest() const { return impl_->welcome.manifest; }
const std::string& Session::local_manifest() const { return impl_->welcome.local; }
PeerId Session::peer() const { return impl_->welcome.peer; }
bool Session::fresh() const { return impl_->welcome.fresh; }
std::uint32_t Session::shard() const { return impl_->welcome.shard; }
std::uint32_t Session::shards() const { return impl_->welcome.shards; }
const std::string& Session::replica() const { return impl_->welcome.replica; }

Result<void> Session::bind(const TensorView& tensor, Role role) {
  const auto& memory = tensor.data;
  PRIME_TRY(const auto elements, count_elements({tensor.name, tensor.shape}));
  if (memory.bytes().size() != elements * element_bytes(memory.type())) {
    return prime::fail(ErrorName::LayoutUnusable, "`" + tensor.name + "` has " + std::to_string(memory.size()) +
                                                      " values, its shape asks for " + std::to_string(elements));
  }
  PRIME_TRY(const auto lies_at, impl_->place_in_arena(tensor.name, memory.bytes()));
  PRIME_CHECK(impl_->add({{tensor.name, tensor.shape}, memory.type(), role}));
  impl_->memory.push_back({memory.bytes(), {}, lies_at});
  return {};
}

Result<std::shared_ptr<float[]>> Session::allocate(std::uint64_t values) {
  if (impl_->offered) return prime::fail(ErrorName::Usage, "memory is given before the first step");
  if (!impl_->arena) {
    PRIME_TRY(impl_->arena, Arena::create());
  }
  return impl_->arena->take(values);
}

Result<void> Session::bind(PrivateBlob blob) {
  if (blob.capacity == 0 || !blob.save || !blob.load)
    return prime::fail(ErrorName::Usage, "`" + blob.name + "` needs a capacity, and functions that save and load it");
  if (blob.capacity > MODEL_LIMITS.elements) return prime::fail(ErrorName::LayoutUnusable, "`" + blob.name + "` is too large");
  const auto bytes = static_cast<std::int64_t>(blob.capacity + BLOB_LENGTH_BYTES);
  PRIME_CHECK(impl_->add({{blob.name, {bytes}}, DataType::U8, Role::Private}));
  impl_->memory.push_back({{}, std::move(blob), {}});
  return {};
}

void Session::export_file(std::string name, std::string content) {
  if (content.size() > EXPORT_BYTES_MAX) {
    impl_->link.give_up(Error(ErrorName::Usage, "`" + name + "` is larger than 16 MiB"));
    return;
  }
  const auto file = memory_file_of("prime-export", content);
  if (!file) {
    impl_->link.end(file.error());
    return;
  }
  // A failure ends the link, and the next call that returns a result tells of it.
  [[maybe_unused]] const auto sent = impl_->link.send(wire::Export{std::move(name)}, std::array{file->number()});
}

Result<void> Session::describe_data(const DataIdentity& data) {
  if (impl_->offered) return prime::fail(ErrorName::Usage, "the data is described before the first step");
  if (!data.told()) return prime::fail(ErrorName::Usage, "a digest of 0 means that nothing is told of the data");
  if (std::exchange(impl_->described, true)) return prime::fail(ErrorName::Usage, "the data was described already");
  return impl_->link.send(wire::Data{data});
}

Result<void> Session::describe_device(std::string device) {
  if (impl_->offered) return prime::fail(ErrorName::Usage, "the device is described before the first step");
  impl_->device = std::move(device);
  return {};
}

Result<std::optional<InnerStep>> Session::next() { return impl_->next(); }

Result<std::vector<Committed>> Session::report(const InnerReport& inner) { return impl_->report(inner); }

Result<std::vector<Committed>> Session::contribute() { return impl_->contribute(); }

std::vector<Samples> Session::upcoming(std::size_t count) const { return impl_->upcoming(count); }

Result<void> Session::finish(const std::function<FinalAnswer(const FinalPlan&)>& answer) {
  if (!impl_->done) return prime::fail(ErrorName::Usage, "the run is not done");
  const auto plan = std::exchange(impl_->final_plan, std::nullopt);
  if (!plan) return {};
  return impl_->link.send(wire::Final{plan->evaluate.of > 0 || plan->sample ? answer(*plan) : FinalAnswer{}});
}

Result<void> Session::alive(std::string_view waits_for) { return impl_->alive(waits_for); }

Result<void> Session::leave() {
  impl_->link.go_on();
  const auto sent = impl_->link.send(wire::Leave{});
  // After the run's end the agent may be gone already; there is nobody left to say good-bye to.
  if (!sent) return impl_->done ? Result<void>{} : sent;
  const bool closed = impl_->link.wait_for_close(monotonic_now() + LEAVE_LIMIT);
  const bool interrupted = impl_->link.interrupted();
  impl_->link.end(Error(ErrorName::Usage, "the session was left"));
  if (!closed && interrupted) return prime::fail(ErrorName::Interrupted, "waiting for the agent to leave; it does so by itself");
  if (!closed) return prime::fail(ErrorName::DeadlineExceeded, "waiting for the agent to leave");
  return {};
}

void Session::fail(const Error& cause) {
  impl_->link.go_on();
  [[maybe_unused]] const auto sent = impl_->link.send(wire::Failure{cause});
  impl_->link.end(cause);
}

}  // namespace prime
