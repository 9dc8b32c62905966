"""Calls the programs that tests of this folder compare."""

import subprocess

LIMIT_S = 900  # a guard against hangs, never an expectation of speed


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} {command[1]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
