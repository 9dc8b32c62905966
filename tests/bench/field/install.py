"""Owns the virtual environment of the others: what pip gets of them from the index, with the torch that is there, and why something is not there."""

import importlib.metadata
import importlib.util
import json
import pathlib
import subprocess
import sys

# The versions that the peers of this folder are written for.
WANTED = {"torchft": "torchft==0.2.0", "hivemind": "hivemind==1.1.12"}
PCCL = "pypccl"  # PCCL's own name for its Python package; `pccl` is another project's
SAID = 160


def pip(python, *words):
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-color", "--progress-bar", "off", "--quiet", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def reason(done):
    lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.startswith("ERROR")] or done.stderr.strip().splitlines()
    return lines[-1].removeprefix("ERROR: ")[:SAID] if lines else f"exit code {done.returncode}"


def version_of(python, name):
    """The version of what can be imported; else the last that it said."""
    done = subprocess.run([str(python), "-c", f"import importlib.metadata, {name}; print(importlib.metadata.version('{name}'))"], capture_output=True,
                          text=True, check=False)
    return (done.stdout.strip(), None) if done.returncode == 0 else (None, done.stderr.strip().splitlines()[-1][:SAID])


def lend_torch(environment):
    """The torch that runs this script, and what it needs, by a path file: no second download of it. Its constraint for pip."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        return []
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "torch_of_the_checkout.pth").write_text(f"{pathlib.Path(torch.origin).parents[1]}\n")
    constraint = environment / "constraints.txt"
    version = importlib.metadata.version("torch")
    constraint.write_text(f"torch=={version}\n")
    return ["-c", constraint]


def prepare(environment, names, say):
    """Versions of what is there, and reasons of what is not, by name."""
    python = environment / "bin" / "python"
    if not python.exists():
        say(f"making {environment}")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    constraint = lend_torch(environment)
    versions, failures = {}, {}
    for name in names:
        version, _ = version_of(python, name)
        if version != WANTED[name].partition("==")[2]:
            say(f"installing {WANTED[name]}")
            done = pip(python, *constraint, WANTED[name])
            version, why = version_of(python, name) if done.returncode == 0 else (None, f"pip could not install {WANTED[name]}: {reason(done)}")
            if why:
                failures[name] = why
        if name not in failures:
            versions[name] = version
    versions["torch"] = version_of(python, "torch")[0]
    return python, versions, failures


def pccl(python):
    """Why there is no row of it."""
    done = pip(python, "--no-deps", "--only-binary", ":all:", "--dry-run", PCCL)
    if done.returncode != 0:
        return f"not measured: {reason(done)}"
    return f"not measured: the index has {PCCL}, for which there is no peer in tests/bench/field"


def save(path, *what):
    path.write_text(json.dumps(what))


def load(path):
    python, versions, failures = json.loads(path.read_text())
    return pathlib.Path(python), versions, failures
