"""Owns what is made of the records of rounds: the check of each line, the figures of a round, the table and the JSON.

A record is one round of one system: when it was started, whom it lost and who joined, memory, and a line for each outer step of each peer:
`step` counts them in the run, `begun`, `trained` and `resumed` are seconds on the machine's clock (its own inner steps begin; are done; it can train
on from the average), `members` are those whose work is in the average, `contributed` says whether its own is, `digest` is of its parameters.
"""

import json
import statistics

PEERS = 3
INNER_STEPS = 20
TOKENS = 16 * 128 * INNER_STEPS  # of one contribution
FIELDS = {"peer": str, "step": int, "begun": float, "trained": float, "resumed": float, "members": int, "contributed": bool, "digest": str}
MIB = 1 << 20

# name, what it is, digits, whether more is better (None: not a ratio)
ROWS = [
    ("tokens_per_s", "tokens/s of the three", 0, True),
    ("training_tokens_per_s", "tokens/s of one peer while it trains", 0, True),
    ("idle_percent", "share of its time that a peer does not train, %", 1, None),
    ("waiting_percent", "of that: it waits for a later one, %", 1, None),
    ("sync_ms", "what the synchronisation costs the last to arrive, ms", 0, False),
    ("pss_mib", "memory for each peer, shared pages divided (PSS), MiB", 0, False),
    ("rss_mib", "memory for each peer, resident (RSS), MiB", 0, False),
    ("first_step_s", "from the start to the first outer step, s", 1, False),
    ("equal", "outer steps after which all digests are equal", None, None),
    ("kill_s", "SIGKILL of a peer to the next outer step of the others, s", 1, False),
    ("kill_wait_s", "of that: a survivor waits, its inner steps done, s", 2, False),
    ("join_s", "start of a new peer to its first contribution, s", 1, False),
]


class Damaged(ValueError):
    pass


def read_steps(text, where):
    """The steps of a file of lines; the last line may be one that is just being written."""
    steps = []
    whole = text[:text.rfind("\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            step = json.loads(line)
        except json.JSONDecodeError as why:
            raise Damaged(f"{where}:{number}: no JSON: {why}") from why
        check_step(step, f"{where}:{number}")
        steps.append(step)
    return steps


def check_step(step, where):
    if not isinstance(step, dict):
        raise Damaged(f"{where}: not an object")
    for field, kind in FIELDS.items():
        if field not in step:
            raise Damaged(f"{where}: no field `{field}`")
        if type(step[field]) is not kind:
            raise Damaged(f"{where}: `{field}` is {step[field]!r}, not of type {kind.__name__}")
    if not step["begun"] <= step["trained"] <= step["resumed"]:
        raise Damaged(f"{where}: its times do not follow one another")


def check_record(record):
    for field in ("system", "started", "steps", "memory"):
        if field not in record:
            raise Damaged(f"a record without `{field}`")
    for index, step in enumerate(record["steps"]):
        check_step(step, f"{record['system']}, step {index}")


def by_step(steps):
    rounds = {}
    for step in steps:
        rounds.setdefault(step["step"], []).append(step)
    return dict(sorted(rounds.items()))


def steady(record):
    """The outer steps in which all three took part, after the first of them, until somebody is killed; runs of the same members only."""
    until = record.get("killed", {}).get("at", float("inf"))
    before = [step for step in record["steps"] if step["resumed"] < until]
    whole = [group for group in by_step(before).values() if len(group) == PEERS and all(s["contributed"] for s in group)]
    return whole[1:]


def throughput(whole, steps):
    """Tokens of all that was contributed, over the time in which it was: rounds that a peer missed count with what they brought."""
    first, last = (max(step["resumed"] for step in group) for group in (whole[0], whole[-1]))
    counted = [step for step in steps if step["contributed"] and first < step["resumed"] <= last]
    return len(counted) * TOKENS / (last - first)


def waiting(group):
    last = max(step["trained"] for step in group)
    return sum(last - step["trained"] for step in group) / sum(step["resumed"] - step["begun"] for step in group)


def idle(group):
    return 1 - sum(step["trained"] - step["begun"] for step in group) / sum(step["resumed"] - step["begun"] for step in group)


def sync(group):
    last = max(group, key=lambda step: step["trained"])
    return last["resumed"] - last["trained"]


def after_kill(record):
    """The next step of each survivor that is an average of more than its own work; nothing while one has none."""
    at, victim = record["killed"]["at"], record["killed"]["peer"]
    survivors = {step["peer"] for step in record["steps"]} - {victim, record.get("joined", {}).get("peer")}
    firsts = []
    for peer in survivors:
        later = [s for s in record["steps"] if s["peer"] == peer and s["resumed"] > at and s["members"] > 1]
        if not later:
            return []
        firsts.append(min(later, key=lambda step: step["resumed"]))
    return firsts


def after_join(record):
    own = [s["resumed"] for s in record["steps"] if s["peer"] == record["joined"]["peer"] and s["contributed"] and s["members"] > 1]
    return min(own) - record["joined"]["at"] if own else None


def equal_digests(steps):
    """How many of the outer steps that several peers took left all of them with the same digest."""
    shared = [group for group in by_step(steps).values() if len(group) > 1]
    return sum(len({step["digest"] for step in group}) == 1 for group in shared), len(shared)


def figures(record):
    """Of one round; a figure that it has not is None."""
    check_record(record)
    found = dict.fromkeys(name for name, *_ in ROWS)
    steps, whole = record["steps"], steady(record)
    if steps:
        found["first_step_s"] = min(step["resumed"] for step in steps) - record["started"]
        found["equal"] = equal_digests(steps)
    if len(whole) > 1 and record["memory"]:  # else it stuck before it had trained for as long as was asked for
        found["tokens_per_s"] = throughput(whole, steps)
        found["training_tokens_per_s"] = statistics.median(TOKENS / (s["trained"] - s["begun"]) for group in whole for s in group)
        found["idle_percent"] = 100 * statistics.mean(map(idle, whole))
        found["waiting_percent"] = 100 * statistics.mean(map(waiting, whole))
        found["sync_ms"] = 1e3 * statistics.median(map(sync, whole))
    if record["memory"]:
        for kind in ("pss", "rss"):
            found[f"{kind}_mib"] = statistics.mean(peer[kind] for peer in record["memory"].values()) / MIB
    if "killed" in record and (firsts := after_kill(record)):
        found["kill_s"] = max(step["resumed"] for step in firsts) - record["killed"]["at"]
        found["kill_wait_s"] = max(step["resumed"] - step["trained"] for step in firsts)
    if "joined" in record:
        found["join_s"] = after_join(record)
    return found


def together(rounds):
    """Of the rounds of one system: the median of each figure, and the sum of the counts."""
    found = {}
    for name, _, digits, _ in ROWS:
        values = [one[name] for one in rounds if one[name] is not None]
        if not values:
            found[name] = None
        elif digits is None:
            found[name] = tuple(map(sum, zip(*values)))
        else:
            found[name] = statistics.median(values)
    return found


def cell(name, mine, ours):
    digits, ratio = next((digits, better) for row, _, digits, better in ROWS if row == name)
    if mine is None:
        return "none"
    if digits is None:
        return f"{mine[0]} of {mine[1]}"
    shown = f"{mine:,.{digits}f}".replace(",", " ")
    if ratio is None or ours is None or ours is mine or not ours:
        return shown
    times = mine / ours
    return f"{shown} ({times:.2f})" if times < 10 else f"{shown} ({times:.0f})"


def table(results, failures):
    """Markdown: a column for each system, ours first, in brackets its ratio to ours; then why others are not in it."""
    systems = list(results)
    ours = results.get("us", {})
    lines = ["| | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
    for name, what, *_ in ROWS:
        lines.append(f"| {what} | " + " | ".join(cell(name, results[system][name], ours.get(name)) for system in systems) + " |")
    return "\n".join(lines + [f"\n{system}: {why}" for system, why in failures.items()])
