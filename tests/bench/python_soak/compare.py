"""A soak of the Python face: two resident trainers, which reduce in a Group besides, and guests that join and end every few seconds, each in another way. It fails
where anything hangs, where bits differ, or where memory or descriptors grow.

usage: compare.py PYTHON_SOAK [--seconds 180] [--seed 1]     (PYTHON_SOAK is beside primectl; it need not be there)
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRAINER = pathlib.Path(__file__).resolve().parent / "trainer.py"
MIB = 1 << 20
ENDS = ("leaves", "leaves", "raises", "exits", "interrupted", "killed", "agent_killed")
GUESTS_MAX, GAP_LIMIT_S = 3, 60
# A guest may be so long at each stage of its life. What comes before it joins is an interpreter that loads torch, which on a busy machine takes minutes.
STAGE_LIMIT_S = {"starts": 900, "joins": 120, "trains": 120, "ends": 120}
# A process may grow by so much after its first third, and an interpreter's own objects by so much.
GROWTH, TRACED_GROWTH, DESCRIPTORS_MORE = 6 * MIB, MIB // 4, 4


class Guest:
    """A trainer that joins by itself: its process, how it is to end, and since when it is at which stage of its life."""

    def __init__(self, ends, env, folder, life):
        self.ends, self.told, self.stage, self.since, self.stages_s = ends, folder / "stage", "starts", time.monotonic(), {}
        self.said = open(folder / "said", "w+")
        env = {**env, "XDG_STATE_HOME": str(folder), "ENDS": ends, "STAGE": str(self.told), "PYTHONFAULTHANDLER": "1", "LIFE": str(life)}
        self.process = subprocess.Popen([sys.executable, TRAINER], env=env, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT)

    def look(self):
        """Whether it goes on; how long it was at each stage is counted."""
        stage = self.told.read_text() if self.told.exists() else ""
        now = time.monotonic()
        ended = self.process.poll() is not None
        if ended or (stage and stage != self.stage):
            self.stages_s[self.stage] = now - self.since
            self.stage, self.since = stage or self.stage, now
        return not ended

    def hangs(self):
        return time.monotonic() > self.since + STAGE_LIMIT_S[self.stage]

    def last_words(self):
        self.said.seek(0)
        said = self.said.read()
        self.said.close()
        return said[-2000:]


class Guests:
    """All guests, and what becomes of them."""

    def __init__(self, run, env, seed):
        self.run, self.random = run, random.Random(seed)
        self.env = {key: value for key, value in env.items() if key != "RESIDENT"}
        self.here, self.ended, self.wrong, self.stages_s = [], collections.Counter(), [], collections.defaultdict(list)

    def tend(self):
        for guest in list(self.here):
            if guest.look() and not guest.hangs():
                continue
            self.here.remove(guest)
            self.see_off(guest)
        if len(self.here) < GUESTS_MAX:
            folder = self.run.directory / f"guest-{self.ended.total() + len(self.here)}"
            folder.mkdir()
            env = {**self.env, "PRIMECTL_INVITE": self.run.up["invite"]}
            self.here.append(Guest(self.random.choice(ENDS), env, folder, self.random.uniform(0, 6)))

    def see_off(self, guest):
        if guest.process.poll() is None:
            guest.process.send_signal(signal.SIGABRT)  # faulthandler shows where it stands
            guest.process.wait()
            told = [{key: line[key] for key in ("t", "event", "name", "reason") if key in line} for line in self.run.coordinator() if line["event"].startswith("peer_")]
            self.wrong.append(f"a guest that {guest.ends} hangs for {time.monotonic() - guest.since:.0f} s, at the stage `{guest.stage}`; the coordinator wrote last: {told[-8:]}")
        self.ended[guest.ends] += 1
        for stage, seconds in guest.stages_s.items():
            self.stages_s[stage].append(seconds)
        said, code = guest.last_words(), guest.process.returncode
        if code not in {"leaves": (0,), "exits": (0,), "raises": (1,), "interrupted": (-signal.SIGINT,), "killed": (-signal.SIGKILL,), "agent_killed": (1,)}[guest.ends]:
            self.wrong.append(f"a guest that {guest.ends} ended with {code}: {said}")

    def end(self):
        for guest in self.here:
            guest.process.kill()
            guest.process.wait()
            guest.last_words()


def longest_gap(commits):
    at = [datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp() for line in commits]
    return max((after - before for before, after in zip(at, at[1:])), default=0.0)


def judge(samples, key, limit):
    """Growth from the second third of the samples to the last, and whether that is more than is allowed."""
    third = len(samples) // 3
    begin, end = (statistics.median(each[key] for each in part) for part in (samples[third:2 * third], samples[2 * third:]))
    return begin, end, end - begin > limit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bin_dir = options.program.resolve().parent
    os.environ.setdefault("PRIME_BIN", str(bin_dir))
    sys.path[:0] = [str(ROOT / "tests" / "chaos"), str(ROOT / "tests" / "python")]
    os.environ.setdefault("PRIME_SOURCE", str(ROOT))
    from programs import free_addresses
    from prime_run import Run

    env = {**os.environ, "PYTHONPATH": str(bin_dir.parent / "python"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PRIME_PRIMECTL": str(bin_dir / "primectl"),
           "MEMBERS": " ".join(free_addresses(4))}
    wrong = []
    with Run(2, outer_steps=1_000_000, inner_steps=10, up_flags=["--quorum", "2"], deadline="30s", dead_after="5s", every=0, trainer=f'{sys.executable}", "{TRAINER}',
             env={**env, "RESIDENT": str(pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"prime-soak-{os.getpid()}")}) as run:
        # Who comes before the second of them takes its place, and trains with the first.
        run.wait_for("peer_admitted", 2)
        guests = Guests(run, run.env, options.seed)
        began, heard, commits = time.monotonic(), time.monotonic(), 0
        try:
            while time.monotonic() < began + options.seconds:
                guests.tend()
                time.sleep(0.2)
                now = len(run.events("outer_step_committed"))
                if now > commits:
                    commits, heard = now, time.monotonic()
                elif time.monotonic() > heard + GAP_LIMIT_S:
                    wrong.append(f"no commit for {GAP_LIMIT_S} s after {commits}")
                    break
        finally:
            guests.end()
        lost = len(run.events("peer_lost"))
        restarted = [line["reason"] for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
        made = run.check(lost=lost)
        print(f"{time.monotonic() - began:.0f} s, {len(made)} outer steps, bits equal on all peers of each; the longest time between two commits {longest_gap(made):.1f} s")
        print(f"guests that ended: {dict(sorted(guests.ended.items()))}; {lost} were lost, {len(run.events('peer_left'))} left, residents restarted {len(restarted)} times")
        for stage, seconds in guests.stages_s.items():
            print(f"  a guest {stage}: {statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s")
        wrong += guests.wrong + [f"a resident was started again: {reason}" for reason in restarted]
        for path in sorted(pathlib.Path(run.env["RESIDENT"]).parent.glob(pathlib.Path(run.env["RESIDENT"]).name + "-*")):
            samples = [json.loads(line) for line in path.read_text().splitlines()]
            path.unlink()
            last = samples[-1]
            print(f"resident {path.name[-1]}: {last['reduces']} reduces of {last['formed']} groups, {len(samples)} samples")
            for key, limit, unit in (("resident", GROWTH, MIB), ("agent_resident", GROWTH, MIB), ("traced", TRACED_GROWTH, 1024), ("descriptors", DESCRIPTORS_MORE, 1), ("agent_descriptors", DESCRIPTORS_MORE, 1)):
                begin, end, grows = judge(samples, key, limit)
                print(f"  {key}: {begin / unit:.1f} to {end / unit:.1f}{ {MIB: ' MiB', 1024: ' KiB', 1: ''}[unit]}")
                if grows:
                    wrong.append(f"{path.name}: {key} grew from {begin} to {end}")
        pathlib.Path(run.env["RESIDENT"] + ".first").unlink(missing_ok=True)
    for line in wrong:
        print(f"WRONG: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
