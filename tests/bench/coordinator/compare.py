"""What large runs cost the coordinator, and how long a newcomer takes to come in.

First its machine alone: outer steps of ten virtual seconds with a heartbeat of everybody every two, and one member in a hundred lost and
replaced in each. If the work were O(log N), a hundred times as many peers would cost twice as much per event.
Then whole simulated runs with the same churn, judged by the oracle, in outer steps of about a hundred seconds. A newcomer's trainer takes
50 to 200 ms to start there, the fetch of the state 50 to 300 ms, a message 10 to 60 ms each way; who comes while a reduce is under way, which
takes 100 to 400 ms there, waits for its end. Ten thousand peers, of whom one is lost in each second, could not finish one of five seconds: a
loss makes it void.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

STEPS = {100: 200, 1000: 40, 10000: 6}
SCENARIO = """version: 1
scenario: churn-of-one-percent
peers: {peers}
outer_steps: {steps}
network: {{delay: 10ms..60ms}}
timing: {{arrive: 0s..2s, bind: 50ms..200ms, train: 60s..80s, fetch: 50ms..300ms, reduce: 100ms..400ms}}
limits: {{deadline: 120s}}
faults:
  - {{kind: kill, count: {churn}, at: 120s..{until}s}}
  - {{kind: join, count: {churn}, at: 120s..{until}s}}
ends: [done]
"""
SIMULATED_STEPS = {1000: 4, 10000: 2}
STEP_S = 100


def machine(program):
    print(f"{'peers':>6} {'events':>8} {'ns per event':>13} {'against 100':>12} {'of the start':>13}")
    first = None
    for peers, steps in STEPS.items():
        # The best of three: what else runs here only adds.
        runs = [subprocess.run([program, str(peers), str(steps)], capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
        start, step = (min(float(run[i]) for run in runs) for i in (0, 1))
        first = first or step
        print(f"{peers:>6} {runs[0][2]:>8} {step:>13.0f} {step / first:>11.1f}x {start:>13.0f}", flush=True)


def simulated(primectl):
    print(f"\n{'peers':>6} {'steps':>6} {'void':>5} {'joined':>7} {'median':>9} {'p99':>9} {'virtual':>9}")
    for peers, steps in SIMULATED_STEPS.items():
        text = SCENARIO.format(peers=peers, steps=steps, churn=peers // 100 * steps, until=steps * STEP_S)
        with tempfile.TemporaryDirectory() as directory:
            scenario = pathlib.Path(directory) / "churn.yaml"
            scenario.write_text(text)
            done = subprocess.run([primectl, "simulate", scenario, "--seed", "1", "-o", "json"], capture_output=True, text=True, check=False)
        told = json.loads(done.stdout.splitlines()[-1])
        if told["violations"]:
            sys.exit("\n".join(told["violations"]))
        print(f"{peers:>6} {told['outer_steps_committed']:>6} {told['aborted']:>5} {told['joins']:>7} {told['join_p50_s']:>7.2f} s {told['join_p99_s']:>7.2f} s {told['virtual_s']:>7.0f} s", flush=True)


if __name__ == "__main__":
    machine(sys.argv[1])
    simulated(pathlib.Path(sys.argv[1]).parent / "primectl")
