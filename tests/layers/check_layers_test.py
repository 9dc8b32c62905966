# Proves that check_layers.py finds each kind of violation, and nothing in a clean house.
import sys
import tempfile
from pathlib import Path

from check_layers import violations
from includes import Tree

CLEAN = {
    "messages/ids.hpp": "#include <cstdint>\n",
    "messages/caf_seam.hpp": "#include <caf/all.hpp>\n",
    "kernels/reduce/reduce.hpp": '#include "messages/ids.hpp"\n',
    "actors/membership/roster.hpp": '#include "messages/ids.hpp"\n',
    "actors/coordinator/coordinator_state.hpp": '#include "actors/membership/roster.hpp"\n',
    "actors/ports.hpp": '#include "messages/ids.hpp"\n',
    "actors/peer/peer_machine.hpp": '#include "messages/ids.hpp"\n',
    "actors/peer/peer_actor.hpp": '#include "messages/caf_seam.hpp"\n#include "actors/peer/peer_machine.hpp"\n',
    "runtime/lanes/lane.cpp": '#include <sys/socket.h>\n#include "actors/ports.hpp"\n',
    "runtime/trainer/model.cpp": "#include <torch/torch.h>\n",
    "runtime/include/prime/session.hpp": '#include "messages/ids.hpp"\n',
    "cli/up.cpp": '#include "runtime/lanes/lane.hpp"\n#include <prime/session.hpp>\n',
    "examples/embed/main.cpp": "#include <prime/session.hpp>\n",
    "python/src/module.cpp": '#include "messages/ids.hpp"\n#include <prime/session.hpp>\n',
    "tests/sim/swarm.cpp": '#include "actors/peer/peer_machine.hpp"\n#include <caf/all.hpp>\n',
}
# (file, its content, a part of the complaint that must come)
DIRTY = (
    ("messages/bad.hpp", '#include "kernels/reduce/reduce.hpp"\n', "messages/ may not include kernels/"),
    ("kernels/bad.cpp", '#include "actors/ports.hpp"\n', "kernels/ may not include actors/"),
    ("kernels/bad.cpp", "#include <torch/torch.h>\n", "torch stays inside its fence"),
    ("actors/peer/bad.cpp", '#include "runtime/lanes/lane.hpp"\n', "actors/ may not include runtime/"),
    ("actors/peer/bad.cpp", '  #  include "../../runtime/lanes/lane.cpp"\n', "actors/ may not include runtime/"),
    ("actors/peer/bad.cpp", "#include <poll.h>\n", "may not touch sockets or files"),
    ("actors/peer/bad.cpp", "#include <prime/session.hpp>\n", "actors/ may not include runtime/"),
    ("actors/peer/bad.cpp", "auto t = std::chrono::system_clock::now();\n", "wall clock"),
    ("messages/bad.hpp", "#include <sys/socket.h>\n", "may not touch sockets or files"),
    ("messages/bad.hpp", "#include <caf/all.hpp>\n", "CAF stays inside its fence"),
    ("actors/coordinator/bad_machine.cpp", "#include <caf/all.hpp>\n", "reaches caf/all.hpp"),
    ("actors/coordinator/bad_machine.hpp", '#include "messages/caf_seam.hpp"\n', "reaches caf/all.hpp"),
    ("actors/membership/bad.cpp", '#include "actors/coordinator/coordinator_state.hpp"\n', "may not know of rounds"),
    ("actors/reduce_worker/schedule.hpp", '#include "actors/peer/peer_actor.hpp"\n', "reaches caf/all.hpp"),
    ("runtime/lanes/bad.cpp", "#include <caf/all.hpp>\n", "CAF stays inside its fence"),
    ("runtime/agent/bad.cpp", "#include <torch/torch.h>\n", "torch stays inside its fence"),
    ("runtime/lanes/bad.cpp", '#include "cli/up.hpp"\n', "runtime/ may not include cli/"),
    ("runtime/lanes/bad.cpp", '#include "tests/sim/swarm.cpp"\n', "runtime/ may not include tests/"),
    ("runtime/lanes/bad.cpp", "#include <cuda_runtime.h>\n", "CUDA stays inside its fence"),
    ("runtime/include/prime/bad.hpp", "#include <nlohmann/json.hpp>\n", "reaches nlohmann/json.hpp"),
    ("runtime/include/prime/bad.hpp", '#include "runtime/lanes/lane.cpp"\n', "may not include a private one"),
    ("cli/bad.cpp", "#include <torch/torch.h>\n", "torch stays inside its fence"),
    ("python/src/bad.cpp", '#include "runtime/lanes/lane.cpp"\n', "python/ may not include runtime/"),
    ("python/src/bad.cpp", '#include "messages/caf_seam.hpp"\n', "python/ may not include messages/"),
    ("tests/runtime/bad.cpp", "auto f = std::async(std::launch::async, [&] {\n  BOOST_TEST(g());\n});\nBOOST_TEST(f.get());\n", "2: only the thread"),
    ("tests/runtime/bad.cpp", "std::jthread t([&] { BOOST_REQUIRE(g()); });\n", "only the thread"),
    ("examples/embed/bad.cpp", '#include "runtime/lanes/lane.cpp"\n', "examples/ may not include runtime/"),
)


def complaints(files):
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(root) / path).write_text(content, encoding="utf-8")
        return list(violations(Tree(root)))


def main():
    failures = [f"a clean house is blamed: {line}" for line in complaints(CLEAN)]
    for path, content, expected in DIRTY:
        found = complaints({**CLEAN, path: content})
        if not any(line.startswith(path + ":") and expected in line for line in found):
            failures.append(f"not found: {path}: {content.strip()}: {expected} (found {found})")
    print("\n".join(failures) if failures else f"{len(DIRTY)} kinds of violation are found, a clean house is not blamed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
