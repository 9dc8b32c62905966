# Owns the check that every file stays on the floor that DESIGN §2 gives it. Exits 1 and names each arrow that points up.
import fnmatch
import re
import sys

from includes import Tree

# What each floor may include. tests/ may include everything.
ARROWS = {
    "messages": {"messages"},
    "kernels": {"kernels", "messages"},
    "actors": {"actors", "kernels", "messages"},
    "runtime": {"runtime", "actors", "kernels", "messages"},
    "cli": {"cli", "runtime", "actors", "kernels", "messages"},
    "examples": {"examples"},
    "python": {"python"},
}
LOWER_FLOORS = ("messages/*", "kernels/*", "actors/*")
PUBLIC = "runtime/include/prime/*"
# What is outside of the house sees the public headers, and of messages/ those that they publish (cmake/prime_install.cmake installs them).
FACES = ("examples", "python")
PUBLISHED = ("messages/data_identity.hpp", "messages/data_types.hpp", "messages/errors.hpp", "messages/ids.hpp", "messages/result.hpp")
# Pure by DESIGN §2 ("decide apart from act"): no CAF, not even through another header.
MACHINES = ("actors/*_machine.*", "actors/*/schedule*")
# Membership knows of no rounds and no trainers (DESIGN §6): what has those is built on it.
MEMBERSHIP = ("actors/membership/*",)
ON_MEMBERSHIP = ("actors/coordinator/*", "actors/peer/*", "actors/reduce_worker/*")

TORCH = ("torch/*", "ATen/*", "c10/*")
CAF = ("caf/*",)
JSON = ("nlohmann/*",)
WORLD = ("sys/socket.h", "sys/un.h", "sys/epoll.h", "sys/stat.h", "sys/mman.h", "netinet/*", "arpa/*", "netdb.h", "poll.h", "unistd.h", "fcntl.h",
         "fstream", "filesystem", "openssl/*")
# What may be included directly only inside a fence, and where the fence stands.
FENCES = (
    ("torch", TORCH, ("runtime/trainer/*", "tests/golden/*", "tests/bench/*", "tests/runtime/trainer/*")),
    ("CAF", CAF, ("messages/caf_seam.hpp", "messages/actors.hpp", "actors/*", "runtime/net/basp*", "runtime/agent/*", "cli/*", "tests/*")),
    ("CUDA", ("cuda*", "cub/*", "nccl*"), ("*.cu", "*.cuh", "tests/*")),
)
# The log of Boost.Test belongs to one thread: what another thread finds is returned to it and judged there.
THREAD = re.compile(r"\b(?:std::(?:async|jthread(?: \w+)?|thread(?: \w+)?)|members\.all|emplace_back(?=\(\[))[({]")
WALL_CLOCK = re.compile(r"\bsystem_clock\b|\bgettimeofday\b|\bstd::time\(")


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def direct_violations(path, includes):
    floor = path.split("/")[0]
    for number, target, name in includes:
        target_floor = target.split("/")[0] if target else None
        public = target is not None and matches(target, (PUBLIC,))
        if target_floor and floor in ARROWS and target_floor not in ARROWS[floor] and not (floor in FACES and (public or matches(target, PUBLISHED))):
            yield number, f"{floor}/ may not include {target_floor}/ ({name})"
        if matches(path, (PUBLIC,)) and target_floor == "runtime" and not public:
            yield number, f"a public header may not include a private one ({name})"
        if matches(path, MEMBERSHIP) and target is not None and matches(target, ON_MEMBERSHIP):
            yield number, f"membership may not know of rounds or trainers ({name})"
        if matches(path, LOWER_FLOORS) and matches(name, WORLD):
            yield number, f"{floor}/ may not touch sockets or files ({name})"
        for what, headers, fence in FENCES:
            if matches(name, headers) and not matches(path, fence):
                yield number, f"{what} stays inside its fence ({name})"


def reached_violations(path, tree):
    forbidden = ()
    if matches(path, (PUBLIC,)):
        forbidden = CAF + TORCH + JSON
    elif matches(path, MACHINES):
        forbidden = CAF + TORCH
    for name, chain in tree.reach(path).items() if forbidden else ():
        if matches(name, forbidden):
            yield 1, f"reaches {name} through {' -> '.join(chain)}"


def judged_in_threads(text):
    for start in THREAD.finditer(text):
        depth, end = 1, start.end()
        while depth and end < len(text):
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[end], 0)
            end += 1
        yield from (text.count("\n", 0, start.end() + check.start()) + 1 for check in re.finditer(r"\bBOOST_", text[start.end():end]))


def violations(tree):
    for path, text in tree.texts.items():
        found = [*direct_violations(path, tree.includes[path]), *reached_violations(path, tree)]
        if matches(path, LOWER_FLOORS):
            lines = enumerate(text.splitlines(), start=1)
            found += [(number, "the wall clock is for runtime/ only") for number, line in lines if WALL_CLOCK.search(line)]
        if matches(path, ("tests/*",)):
            found += [(number, "only the thread of a test may use BOOST_*") for number in judged_in_threads(text)]
        yield from (f"{path}:{number}: {what}" for number, what in found)


def main():
    tree = Tree(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(violations(tree))
    print("\n".join(found) if found else f"{len(tree.texts)} files keep to their floors")
    return 1 if found or not tree.texts else 0


if __name__ == "__main__":
    sys.exit(main())
