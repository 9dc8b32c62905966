// Owns the face of the engine: each call is a message to the lane thread.
#include "runtime/lanes/engine.hpp"

#include "runtime/lanes/lane_thread.hpp"

namespace prime::lanes {

LaneEngine::LaneEngine(EngineOptions options) : thread_(std::make_unique<LaneThread>(std::move(options))) {}

LaneEngine::~LaneEngine() = default;

void LaneEngine::start(ReduceRequest request, std::function<void(ReduceOutcome)> done) {
  thread_->known().learn(request.view, request.contributions, request.relays);
  thread_->post(StartCommand{std::move(request), std::move(done)});
}

void LaneEngine::start_and_drive(ReduceRequest request, std::function<void(ReduceOutcome)> done) {
  thread_->known().learn(request.view, request.contributions, request.relays);
  thread_->post_and_drive(StartCommand{std::move(request), std::move(done)});
}

void LaneEngine::abort(OperationId op, const std::string& reason) { thread_->post(AbortCommand{op, reason}); }

void LaneEngine::share(const std::shared_ptr<const net::SharedRegion>& region) { thread_->post(ShareCommand{region->bytes(), region}); }

void LaneEngine::measure(const Member& member, std::function<void(Result<std::uint64_t>)> done) {
  thread_->post(MeasureCommand{member, std::move(done)});
}

std::size_t LaneEngine::peak_bytes() const { return thread_->peak_bytes(); }
std::uint64_t LaneEngine::bytes_moved() const { return thread_->bytes_moved(); }

void LaneEngine::know(const View& view) { thread_->known().learn(view); }
bool LaneEngine::is_gone(PeerId id) const { return thread_->known().is_gone(id); }
std::optional<Member> LaneEngine::member(PeerId id) const { return thread_->known().find(id); }

void LaneEngine::adopt(net::ChannelPtr channel) { thread_->post(AdoptCommand{std::move(channel)}); }

void LaneEngine::forget(PeerId peer) { thread_->post(ForgetCommand{peer}); }

}  // namespace prime::lanes
