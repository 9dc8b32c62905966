// Owns the proof that an actor that crashes ends its process by name, and that one that is told to end does not.
#include "actors/supervisor/root.hpp"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(root)

using namespace prime;

namespace {

caf::behavior fragile(caf::event_based_actor*) {
  return {[](int) { throw std::bad_alloc(); }};
}

struct Hosted {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::actor actor = system.spawn<caf::detached>(fragile);
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_actor_that_crashes_ends_its_process_by_name) {
  Hosted hosted;
  std::promise<Error> crashed;
  end_with(hosted.actor, "reduce worker", [&](Error error) { crashed.set_value(std::move(error)); });
  caf::anon_send(hosted.actor, 1);
  const auto error = crashed.get_future().get();
  BOOST_CHECK(error.name == ErrorName::InternalError);
  BOOST_TEST(error.detail.find("the reduce worker crashed") == 0U, error.detail);
}

BOOST_AUTO_TEST_CASE(one_that_crashed_before_it_was_watched_does_so_too) {
  Hosted hosted;
  caf::anon_send(hosted.actor, 1);
  hosted.system.await_all_actors_done();
  std::promise<Error> crashed;
  end_with(hosted.actor, "peer", [&](Error error) { crashed.set_value(std::move(error)); });
  BOOST_TEST(crashed.get_future().get().detail.find("the peer crashed") == 0U);
}

BOOST_AUTO_TEST_CASE(one_that_is_told_to_end_has_not_crashed) {
  Hosted hosted;
  bool crashed = false;
  end_with(hosted.actor, "peer", [&](const Error&) { crashed = true; });
  caf::anon_send_exit(hosted.actor, caf::exit_reason::user_shutdown);
  hosted.system.await_all_actors_done();
  BOOST_TEST(!crashed);
}

BOOST_AUTO_TEST_SUITE_END()
