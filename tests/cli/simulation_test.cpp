// Owns what a simulated run looks like: the object, the line, the account of a failure.
#include "cli/render/simulation_text.hpp"
#include "support.hpp"

namespace prime::cli {
namespace {

sim::Summary summary_of(std::uint64_t seed, const std::string& end) {
  sim::Summary summary;
  summary.scenario = "churn";
  summary.seed = seed;
  summary.peers = 4;
  summary.end = end;
  summary.outer_steps_committed = 12;
  summary.aborted = 1;
  summary.probes = {{"fault join", 3}, {"end: done", 1}};
  summary.took = 41'250ms;
  summary.tail = {"[1us] peer-0 <- start: hello", "[2us] peer-1 <- start: hello", "[3us] coordinator <- Hello: welcome"};
  return summary;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulation)

BOOST_AUTO_TEST_CASE(the_object_has_the_fields_of_its_schema) {
  auto summary = summary_of(7, "done");
  BOOST_TEST(simulation_json(summary).dump() ==
             R"({"schema":"primectl.simulate/1","scenario":"churn","seed":7,"peers":4,"outer_steps_committed":12,"aborted":1,)"
             R"("violations":[],"probes_hit":["end: done","fault join"],"virtual_s":41.25,"joins":0,"join_p50_s":null,"join_p99_s":null})");
  for (int i = 1; i <= 200; ++i) summary.joins.push_back(i * 10ms);
  BOOST_TEST(simulation_json(summary)["joins"] == 200);
  BOOST_TEST(simulation_json(summary)["join_p50_s"] == 1.0);
  BOOST_TEST(simulation_json(summary)["join_p99_s"] == 1.98);
  summary.violations = {"LAW-4 revision 3 is not the mean of its contributors"};
  BOOST_TEST(simulation_json(summary)["violations"].dump() == R"(["LAW-4 revision 3 is not the mean of its contributors"])");
}

BOOST_AUTO_TEST_CASE(people_get_one_line_for_a_run) {
  auto summary = summary_of(7, "done");
  BOOST_TEST(simulation_line(summary) == "churn, seed 7, 4 peers: done; 12 outer steps committed, 1 aborted, 41.2 s of virtual time\n");
  summary.violations = {"LAW-6 the run hangs"};
  summary.peers = 1;
  BOOST_TEST(simulation_line(summary) == "churn, seed 7, 1 peer: FAILED; 12 outer steps committed, 1 aborted, 41.2 s of virtual time\n");
}

BOOST_AUTO_TEST_CASE(a_failure_tells_what_broke_the_last_events_and_how_it_is_replayed) {
  auto summary = summary_of(7, "done");
  summary.violations = {"LAW-4 revision 3 is not the mean of its contributors"};
  BOOST_TEST(simulation_failure(summary, "primectl simulate churn.yaml --seed 7", 2) ==
             "error: seed 7 of churn: LAW-4 revision 3 is not the mean of its contributors\n"
             "  its last events:\n"
             "  [2us] peer-1 <- start: hello\n"
             "  [3us] coordinator <- Hello: welcome\n"
             "replay: primectl simulate churn.yaml --seed 7\n");
  BOOST_TEST(simulation_failure(summary, "primectl …", 0) ==
             "error: seed 7 of churn: LAW-4 revision 3 is not the mean of its contributors\nreplay: primectl …\n");
}

BOOST_AUTO_TEST_CASE(many_seeds_are_counted_by_how_they_ended) {
  SimulationTotals totals;
  totals.add(summary_of(1, "done"));
  BOOST_TEST(totals.text() == "1 run, 0 failed; 12 outer steps committed, 1 aborted; ended: 1 done\n");
  BOOST_TEST(!totals.failed());
  totals.add(summary_of(2, "done"));
  auto failed = summary_of(3, "TooFewPeers");
  failed.violations = {"LAW-5"};
  totals.add(failed);
  BOOST_TEST(totals.failed());
  BOOST_TEST(totals.text() == "3 runs, 1 failed; 36 outer steps committed, 3 aborted; ended: 1 TooFewPeers, 2 done\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::cli
