"""Owns several machines on one: network namespaces joined by a switch of their own. Needs root; all is gone when the context ends."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

# Of every machine, to the others.
DEVICE = "wire"


class Failed(Exception):
    pass


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def address(machine):
    return f"10.77.0.{machine + 1}"


def address6(machine):
    return f"fd77::{machine + 1}"


def switch_name():
    return f"prime-{os.getpid()}-switch"


def partition(*islands):
    """Only machines of the same island hear each other from now on; connections are not closed by it, as no cut cable closes one."""
    for number, island in enumerate(islands):
        for machine in island:
            run("ip", "-n", switch_name(), "link", "set", f"port{machine}", "master", f"island{number}")


def heal(count):
    partition(range(count))


def drop_between(names, a, b):
    """What these two send to each other is lost from now on, and neither is told: it goes to a card that nobody has."""
    for here, there in ((a, b), (b, a)):
        run("ip", "-n", names[here], "neighbour", "replace", address(there), "lladdr", "02:00:00:00:00:00", "dev", DEVICE, "nud", "permanent")


def inside(name, *words):
    """The command line that runs `words` on that machine."""
    return ["ip", "netns", "exec", name, *map(str, words)]


def add_address(name, text):
    run("ip", "-n", name, "address", "add", text, "dev", DEVICE)


def swallow(name, host):
    """What the machine sends to that address is lost from now on."""
    run("ip", "-n", name, "neighbour", "replace", host, "lladdr", "02:00:00:00:00:00", "dev", DEVICE, "nud", "permanent")


# What a firewall has under it; other ports are as if there was none, since they are those of answers, too.
FIREWALLED = "7000-7999"


def ask_rules_first(name, family="-4"):
    """The kernel asks the table of what is local first, wherever a packet is from; from now on after rules of a lower number than 30."""
    with contextlib.suppress(Failed):
        run("ip", "-n", name, family, "rule", "add", "pref", 30, "lookup", "local")
        run("ip", "-n", name, family, "rule", "del", "pref", 0)


def let_in_only(name, *ports):
    """Of the ports FIREWALLED, these alone are open to others from now on; what is sent to another one is lost, and nobody is told."""
    for family in ("-4", "-6"):
        with contextlib.suppress(Failed):
            while True:
                run("ip", "-n", name, family, "rule", "del", "pref", 10)
        with contextlib.suppress(Failed):
            run("ip", "-n", name, family, "rule", "del", "pref", 20)
        ask_rules_first(name, family)
        for port in ports:
            run("ip", "-n", name, family, "rule", "add", "pref", 10, "iif", DEVICE, "ipproto", "tcp", "dport", port, "lookup", "local")
        run("ip", "-n", name, family, "rule", "add", "pref", 20, "iif", DEVICE, "ipproto", "tcp", "dport", FIREWALLED, "blackhole")


def shut_for(name, machine, port):
    """What that machine alone sends to the port is lost from now on."""
    ask_rules_first(name)
    run("ip", "-n", name, "rule", "add", "pref", 5, "iif", DEVICE, "from", address(machine), "ipproto", "tcp", "dport", port, "blackhole")


def swallow_large_packets(machine, mtu):
    """To and from that machine: what is larger is lost, and neither end is told. Both take their own device for as wide as ever."""
    run("ip", "-n", switch_name(), "link", "set", f"port{machine}", "mtu", mtu)


def send_single_packets(name):
    """No device is handed more than one packet at a time: one that is left to be cut up later passes where a large one is lost."""
    run("ip", "-n", name, "link", "set", DEVICE, "gso_max_segs", 1)


@contextlib.contextmanager
def known_as(name, host, address_of_host):
    """The machine's /etc/hosts has this line, as `ip netns exec` mounts it."""
    place = pathlib.Path("/etc/netns") / name
    place.mkdir(parents=True)
    try:
        (place / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{address_of_host} {host}\n")
        yield name
    finally:
        shutil.rmtree(place)


@contextlib.contextmanager
def mapped_port(name, outside, inside_port):
    """Who connects to the machine's port `outside` is led to its port `inside_port`, as by a router."""
    program = pathlib.Path(__file__).with_name("port_map.py")
    process = subprocess.Popen(inside(name, sys.executable, "-B", program, outside, inside_port), stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # it listens
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def machines(count, ipv6=False, wired=True, bridge=None):
    """Names of `count` namespaces, each with DEVICE of address(its index), or with `ipv6` of address6 alone, and a loopback of its own, and no
    way to anywhere else. `bridge` is the name and the address of a device that each has before it, as programs for containers make one."""
    names = [f"prime-{os.getpid()}-{index}" for index in range(count)]
    switch = switch_name()
    with contextlib.ExitStack() as undo:
        for name in [switch, *names]:
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "del", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for island in ("island0", "island1"):
            run("ip", "-n", switch, "link", "add", island, "type", "bridge")
            run("ip", "-n", switch, "link", "set", island, "up")
        for index, name in enumerate(names):
            if bridge:
                run("ip", "-n", name, "link", "add", bridge[0], "type", "bridge")
                run("ip", "-n", name, "address", "add", bridge[1], "dev", bridge[0])
                run("ip", "-n", name, "link", "set", bridge[0], "up")
            run("ip", "-n", switch, "link", "add", f"port{index}", "type", "veth", "peer", "name", DEVICE, "netns", name)
            run("ip", "-n", switch, "link", "set", f"port{index}", "master", "island0", "up")
            if ipv6:
                run("ip", "-n", name, "address", "add", f"{address6(index)}/64", "dev", DEVICE, "nodad")
            else:
                run("ip", "-n", name, "address", "add", f"{address(index)}/24", "dev", DEVICE)
            if wired:
                run("ip", "-n", name, "link", "set", DEVICE, "up")
        yield names


def cable_address(machine):
    return f"10.78.0.{machine + 1}"


def narrow(names, a, b, mbit):
    """What machine `a` sends to machine `b` passes at this rate from now on."""
    run("tc", "-n", names[a], "qdisc", "replace", "dev", f"to{b}", "root", "tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "400ms")


@contextlib.contextmanager
def cabled(count):
    """Names of `count` namespaces with a cable of its own between each two, so that each way of each pair can be made narrow by itself.
    A machine has one address, cable_address(its index), whatever cable leads to it."""
    names = [f"prime-{os.getpid()}-c{index}" for index in range(count)]
    with contextlib.ExitStack() as undo:
        for index, name in enumerate(names):
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "del", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "address", "add", f"{cable_address(index)}/32", "dev", "lo")
        for a in range(count):
            for b in range(a + 1, count):
                run("ip", "-n", names[a], "link", "add", f"to{b}", "type", "veth", "peer", "name", f"to{a}", "netns", names[b])
                for here, there in ((a, b), (b, a)):
                    run("ip", "-n", names[here], "link", "set", f"to{there}", "up")
                for here, there in ((a, b), (b, a)):
                    run("ip", "-n", names[here], "route", "add", f"{cable_address(there)}/32", "dev", f"to{there}", "src", cable_address(here))
        yield names


def why_not():
    """Why such a test cannot run here, or nothing."""
    try:
        with machines(1):
            return None
    except (Failed, OSError) as problem:
        return f"no network namespaces here: {problem}"
