#include "runtime/net/session_threads.hpp"

#include <utility>

namespace prime::net {

SessionThreads::~SessionThreads() {
  std::vector<Running> running;
  {
    const std::lock_guard lock(mutex_);
    running.swap(running_);
  }
  for (auto& each : running) each.channel->shutdown();
}

bool SessionThreads::serve(ChannelPtr& channel, Session session) {
  const std::lock_guard lock(mutex_);
  let_go_of_done();
  if (running_.size() >= most_) return false;
  const std::shared_ptr<Channel> shared{std::move(channel)};
  const auto done = std::make_shared<std::atomic<bool>>(false);
  running_.push_back({shared, done, std::jthread{[shared, done, session = std::move(session)] {
                        session(*shared);
                        shared->shutdown();
                        done->store(true);
                      }}});
  return true;
}

std::size_t SessionThreads::running() {
  const std::lock_guard lock(mutex_);
  let_go_of_done();
  return running_.size();
}

void SessionThreads::let_go_of_done() {
  std::erase_if(running_, [](const Running& each) { return each.done->load(); });
}

}  // namespace prime::net
