#include "cli/glossary.hpp"

#include <algorithm>

namespace prime::cli {
namespace {

std::string plain(std::string_view word) {
  std::string text{word};
  for (auto& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == '_') c = ' ';
  }
  return text;
}

}  // namespace

const std::vector<WordGroup>& glossary() {
  static const std::vector<WordGroup> groups{
      {"A run",
       {
           {"run", "one training job, from `primectl up` to its last outer step; its id is its name and six letters"},
           {"peer", "who contributes to a run: an agent and its trainer"},
           {"shard", "a part of a model's parameters, where no peer holds the whole: peers of one shard reduce among each other"},
           {"replica", "the peers that hold all shards of one model; they take part in a run, or are out of it, together"},
           {"coordinator", "the process that decides who is a member and what is committed; it sees no tensor"},
           {"agent", "the process that is a peer's seat: it holds the outer state, speaks with the others and saves"},
           {"seat", "the place of a peer in a run: lost by silence or the death of its process, and not with its connection"},
           {"evict",
            "to take a peer's seat from it, because it was late, silent, or differed; it may join again as a new peer, which takes the "
            "current state"},
           {"guard", "the process that starts a coordinator again which was killed"},
           {"standby", "a coordinator that waits, on another machine, until the one that leads the run is gone, and then takes over"},
           {"lease", "the time for which a coordinator that gives no sign of life still leads, where others stand by"},
           {"trainer", "the program that does the inner steps: prime-trainer, or one of your own"},
           {"private state",
            "what a trainer keeps for itself, as moments of its optimizer: neither averaged nor compared; saved beside each checkpoint"},
           {"record", "private state as it was at a boundary of a trainer; one that was killed goes on from its last record"},
           {"invite", "the string that lets a machine join: address, run and key; whoever has it may take part"},
           {"manifest", "the YAML file that describes a run; its `local` half belongs to one peer alone"},
           {"quorum", "how many peers, of a sharded run replicas, begin the first outer step together"},
           {"epoch", "number of the list of members; every change of the members makes a new one"},
           {"checkpoint", "a directory with the shared parameters that Hugging Face transformers reads, and what is needed to go on"},
       }},
      {"A proof",
       {
           {"proof", "258 bytes that hold the largest activations of a segment (TOPLOC); whoever has the model can check them"},
           {"segment", "the tokens that one proof is of: a whole prompt, then 32 at a time"},
           {"prefill", "the pass in which a model reads many tokens at once: a prompt, or all that is verified"},
           {"activations", "hidden states behind the last norm of a model, a row for each token"},
           {"thresholds", "what an honest proof may differ by: mismatches of 128 values, mean and median of the mantissas' errors"},
           {"mismatch", "a value whose exponent or sign is not the committed one's"},
       }},
      {"An outer step",
       {
           {"DiLoCo", "the method: peers train alone for many inner steps, then average what they learned (arXiv:2311.08105)"},
           {"inner step", "one step of the optimizer on one peer, with its own data; nothing is sent"},
           {"outer step", "the inner steps of all peers and the averaged step that joins them"},
           {"vote", "before a result is applied each peer tells the coordinator its digest; the result is committed if all are equal"},
           {"pseudo-gradient", "what a peer contributes: the shared parameters minus those it trained to"},
           {"radial merge",
            "directions and lengths of contributions are averaged apart, so that a step of many is not shorter (`sync.merge`)"},
           {"reduce", "the exchange that gives all peers the same sum or mean of their tensors"},
           {"commit", "the moment when a result takes effect, on every survivor or on none"},
           {"fragment", "part of the model, of whole tensors, that is reduced and committed by itself (`sync.fragments`)"},
           {"revision", "version of the shared state: the number of commits that are in it, one for each fragment in each outer step"},
           {"digest", "hash of the shared state (parameters, momentum, versions); equal digests mean equal bits"},
           {"weight", "what a contribution counts for in the mean: the tokens that it was trained on"},
           {"held-out loss", "mean loss, in nats for each token, on text that no peer trains on"},
           {"nat", "unit of a loss: the natural logarithm of one over the probability; 1 nat is 1.44 bits"},
       }},
      {"The wire",
       {
           {"lane", "the connection that carries tensors between two peers: TLS, plain TCP, or shared memory of one machine"},
           {"relay", "a peer that passes a lane on between two that cannot reach each other, without being able to read it"},
           {"stream", "one TCP connection of a lane; several help where a network caps each"},
           {"chunk", "256 KiB of a tensor, the unit that lanes carry"},
           {"codec", "how values are written for the wire: `none` as 32-bit floats, the others in 16, 8 or 4 bits"},
           {"rounding", "of a codec: `nearest`, or `stochastic`, which is right on average"},
           {"error feedback", "what a codec lost is added before the next encoding"},
           {"schedule",
            "who sends what to whom in a reduce: `direct` to the owner of each part, `ring`, or `whole` to everyone (32 KiB at most)"},
           {"tag", "name of one of several reduces that run at once"},
       }},
      {"Columns of a run's table",
       {
           {"step", "the outer step"},
           {"loss", "mean loss of the inner steps of all contributors, in nats for each token"},
           {"held-out", "held-out loss of the state after that step; it has a row of its own, since it is known a step later"},
           {"tok/s", "tokens trained on in one second, of all contributors together"},
           {"peers", "contributors / members that were expected; who was lost is, until another one has come"},
           {"reduce", "duration of the step's reduce at the slowest contributor"},
           {"wire", "bytes that all members sent for the reduce"},
           {"note", "who came, left or was lost since the line before, and what was tried again"},
       }},
      {"Figures of `plan`",
       {
           {"parameters", "how many values the model has that are trained"},
           {"round", "one reduce and commit of one fragment; an outer step is as many rounds as there are fragments"},
           {"wire/token", "bytes that all peers send, for each token that they train on"},
           {"peak", "what a peer sends in one second while it sends: rounds that are waited for take all that the link gives"},
           {"mean", "what a peer sends in one second, training and waiting together"},
           {"utilization", "share of its time that a peer trains, and does not wait for a reduce"},
           {"needed link", "the slowest link, equal at all peers, with that utilization"},
           {"goodput", "share of the time that failures leave: B / (B + R), where one comes every B and costs R"},
       }},
      {"Columns of `ls`",
       {
           {"begun", "when the first process of the run here began; a time in UTC, or how long ago on a terminal"},
           {"size", "bytes of the run's files here, checkpoints with them"},
           {"where",
            "of a run: here, where this machine has its coordinator; peers here, where another one has it; or the machine or container of "
            "which only the files are seen here"},
       }},
      {"Columns of `status`",
       {
           {"state",
            "of a run: waiting (for peers), training, paused (by `primectl pause`, or by `membership.correlated_loss`), standby (another "
            "machine leads it); in the end done, stopped (by its owner, or as all peers left), left (by the peers of this machine alone) "
            "or "
            "failed. Of a peer: joining, fetching (the shared state), training, waiting (the run is paused), reducing, saving, left, lost"},
           {"PID", "process id of the peer's agent; none of a peer that is gone, or whose files are here and whose process is not"},
           {"elsewhere",
            "where processes of the run live of which only the files are seen here: on another machine, or in another container, that "
            "shares "
            "the state directory; `perhaps`, where nothing that is seen from here tells whether they live"},
           {"trainer", "process id of the peer's trainer"},
           {"reason", "why a peer left, was lost, or does not train; why a run ended before it was done"},
       }},
      {"States of a run",
       {
           {"waiting", "too few peers are seated for the next outer step; who joins, or returns, lets it begin"},
           {"training", "of a run: outer steps are made. Of a peer: its trainer is at its inner steps"},
           {"paused",
            "no outer step begins, and the peers stay seated: by `primectl pause`, until `primectl resume`; or since too many "
            "were lost at once (`membership.correlated_loss`), until others have come in their place"},
           {"standby", "another machine's coordinator leads the run, and this one takes over when that is gone"},
           {"done", "all outer steps of the manifest are committed, and the checkpoint is saved"},
           {"stopped", "ended before its last outer step by its owner, or by all peers leaving; `primectl up --from RUN` goes on"},
           {"left", "the peers of this machine left, and its coordinator is on another one: the run may go on there"},
           {"failed", "ended by what went wrong, which the line `reason` tells; `primectl up --from RUN` goes on from the last checkpoint"},
       }},
      {"States of a peer",
       {
           {"joining", "it has a seat, and its trainer is being started"},
           {"fetching", "it takes the shared state from another peer"},
           {"reducing", "it exchanges its contribution with the others"},
           {"saving", "its part is over, and it still writes its checkpoint"},
           {"left", "it ended on purpose: by `primectl leave` or `down`, by a signal to its agent, or as the run ended"},
           {"lost", "it was silent for `heartbeat.dead_after`, its process died, or it failed; `reason` tells which"},
       }},
      {"Columns of `bench`",
       {
           {"bytes", "size of what is reduced, all tags together"},
           {"tags", "how many reduces run at once"},
           {"place", "where a reduce puts its result: out, into a tensor of its own, or in, where its input lies"},
           {"tensors", "for shm: allocated (by the group, so that the members of a machine read them where they lie) or own (any memory)"},
           {"median", "of the repeats: time of the slowest peer from a common start to the commit; beside it the least and the greatest"},
           {"bus GB/s", "2(N-1)/N of the bytes, divided by the median: what each of N peers must move at least"},
           {"CPU s/GB", "processor time of all peers for each 10^9 bytes that leave a peer"},
           {"extra", "memory that one peer took beyond input and output, at most, in all rows of so many peers"},
           {"of limit", "share of what the machine allows in the same run: bare sockets (tcp), AES-GCM alone (tls), memcpy (shm)"},
           {"path", "which version of a kernel ran: its vector instructions, `cpu` where there is one version"},
           {"GB/s touched", "bytes that a kernel read and wrote in one second, on one thread"},
           {"of memcpy", "that rate beside memcpy's"},
           {"generate", "median time to write all tokens with their proofs"},
           {"proving %", "share of it that went into proofs: rounding, the largest values, polynomials"},
           {"verify", "median time to verify them: one prefill, and the comparison"},
           {"comparing %", "share of that which went into the comparison"},
           {"generate/verify", "how many times faster verifying is"},
       }},
  };
  return groups;
}

std::vector<Word> find_words(std::string_view word) {
  std::vector<Word> found;
  const auto asked = plain(word);
  for (const auto& group : glossary())
    std::copy_if(group.words.begin(), group.words.end(), std::back_inserter(found),
                 [&](const Word& entry) { return plain(entry.word) == asked; });
  if (found.empty() && asked.size() > 1 && asked.ends_with('s')) return find_words(std::string_view{asked}.substr(0, asked.size() - 1));
  return found;
}

std::string glossary_page() {
  std::string page =
      "# Words\n\n<!-- Written from cli/glossary.cpp by `PRIME_WRITE_GOLDENS=1 cli_test`; a test compares. -->\n\n"
      "`primectl explain WORD` shows one of these lines.\n";
  for (const auto& group : glossary()) {
    page += "\n## " + std::string{group.title} + "\n\n";
    for (const auto& entry : group.words) page += "* **" + std::string{entry.word} + "**: " + std::string{entry.meaning} + "\n";
  }
  return page;
}

}  // namespace prime::cli
