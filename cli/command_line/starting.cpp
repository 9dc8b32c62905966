// Owns the command lines of what starts: `up`, `join`, `invite`, `standby`, `doctor`.
#include "cli/command_line/table.hpp"
#include "cli/trainer_words.hpp"
#include "messages/membership.hpp"

namespace prime::cli {
namespace {

void add_up(Table& table) {
  auto [up, typed] = table.add<UpArguments>("up", "start a run: a coordinator and peers on this machine", "Start");
  up.add_option("FILE", typed.file, "run manifest")->required();
  up.add_option("--local", typed.local, "peers to start on this machine, 0: the coordinator alone; of a sharded run, replicas [1]")
      ->type_name("N")
      ->transform(whole(0, 64));
  up.add_option("--quorum", typed.quorum,
                "peers that begin the first outer step together; of a sharded run, replicas [N, at least the manifest's minimum]")
      ->type_name("N")
      ->transform(whole(1, 1024));
  up.add_flag("-d,--detach", typed.detach, "return when all have started; they go on in the background");
  up.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
  up.footer(
      "In the foreground it ends with its run; SIGINT, SIGTERM, SIGQUIT and SIGHUP let the peers leave and end the run.\n"
      "One that is killed (SIGKILL) leaves the run as --detach would: `primectl status` shows it, `primectl down` ends it.");
  up.add_option("--from", typed.from, "go on from a checkpoint, or from the newest one that a run left")->type_name("PATH|RUN");
  up.add_option_function<std::string>(
        "--trainer",
        [&typed = typed](const std::string& text) {
          auto words = words_of_shell(text);
          if (!words) throw CLI::ValidationError("--trainer", words.error().detail);
          typed.overrides.push_back(trainer_override(*words));
        },
        "command line of a trainer of your own, as 'python3 train.py'; the same as local.trainer_command")
      ->type_name("COMMAND");
  up.add_option("--listen", typed.listen, "address of the coordinator [the manifest's local.network.listen]")->type_name("HOST:PORT");
}

void add_join(Table& table) {
  auto [join, typed] = table.add<JoinArguments>("join", "become a peer of a run, with nothing but its invite", "Start");
  join.add_option("INVITE", typed.invite, "as `primectl up` printed it; may come from $PRIMECTL_INVITE instead");
  join.add_option("TRAINER", typed.trainer, "behind `--`: program and arguments of a trainer of your own, as -- python3 train.py");
  auto* detach = join.add_flag("-d,--detach", typed.detach, "return when the run has welcomed this peer; it goes on in the background");
  join.add_option("--name", typed.name, "readable name of this peer [drawn]")->check(peer_name());
  join.add_option("--local-manifest", typed.local_manifest, "manifest whose `local:` half this peer uses")->type_name("FILE");
  join.add_option("--set", typed.overrides, "override a key of the local half, such as local.threads=4")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  auto* replica =
      join.add_option("--replica", typed.replica, "of a sharded run: which model this peer holds a part of; a name that its peers share")
          ->type_name("NAME")
          ->check(replica_name());
  auto* shard = join.add_option("--shard", typed.shard, "of a sharded run: which part, from 0")
                    ->type_name("I")
                    ->transform(whole(0, MAX_SHARDS - 1))
                    ->needs(replica);
  join.add_option("--shards", typed.shards, "of a sharded run: start a whole replica, so many peers, in the background [of a drawn name]")
      ->type_name("S")
      ->transform(whole(2, MAX_SHARDS))
      ->excludes(shard)
      ->needs(detach);
  join.add_option("--trainer-fd", typed.trainer_descriptor, "socket of the trainer that started this agent")->group("");
}

void add_invite(Table& table) {
  auto [invite, typed] = table.add<InviteArguments>("invite", "print the invite of a run that was started here", "Start");
  invite.add_option("RUN", typed.run, RUN_HELP)->check(named());
  invite.footer("The invite alone is on stdout. Whoever has it may take part in the run.");
}

void add_standby(Table& table) {
  auto [standby, typed] =
      table.add<StandbyArguments>("standby", "take a run's coordinator over when the machine that has it is gone", "Start");
  standby.add_option("INVITE", typed.invite, "as `primectl up` printed it; may come from $PRIMECTL_INVITE instead");
  standby.add_option("--etcd", typed.etcd, "as the run's manifest names it in membership.standby.etcd")
      ->type_name("URL,URL")
      ->delimiter(',')
      ->required()
      ->allow_extra_args(false);
  standby
      .add_option("--listen", typed.listen,
                  "address that the peers then find it at [any free port; this machine only, unless the run is elsewhere]")
      ->type_name("HOST:PORT");
  standby.add_option("--set", typed.overrides, "a key of the local half, such as local.etcd.authority=/etc/etcd/ca.pem")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  standby.add_flag("-d,--detach", typed.detach, "return when it stands by; it goes on in the background");
  standby.footer(
      "SIGINT and SIGTERM end it while it stands by, and the run when it leads it; `primectl status` says which, and\n"
      "`primectl down` does the same.");
}

void add_doctor(Table& table) {
  auto [doctor, typed] = table.add<DoctorArguments>("doctor", "examine this machine, and the way from it to a run", "Start");
  doctor.add_option("INVITE", typed.invite, "of the run; absent: this machine alone");
  doctor.add_option("--set", typed.overrides, "a key of `local.network` that a peer here would have")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  doctor.footer(
      "With an invite the run's coordinator looks back: at the addresses that a peer here would tell, at the clocks, at packets of full\n"
      "size. Exits with 5 when something is found that would stop a run.");
}

}  // namespace

void add_starting(Table& table) {
  add_up(table);
  add_join(table);
  add_invite(table);
  add_standby(table);
  add_doctor(table);
}

}  // namespace prime::cli
