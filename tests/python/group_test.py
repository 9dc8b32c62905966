"""prime.Group between real processes: values, parity, waits of every kind, and each misuse with the text of its error."""

import re
import signal
import unittest

from programs import Programs, has, main

TORCH = has("torch", "numpy")


def only(said):
    """What all ranks said alike."""
    assert len(set(said)) == 1, said
    return said[0]


@unittest.skipUnless(TORCH, "there are no wheels torch and numpy")
class Values(Programs):
    def test_the_mean_of_torch_and_numpy_in_place_and_beside_with_equal_digests(self):
        said = only(self.all_of("""
import numpy, torch
with prime.Group.form(**options) as group:
    assert (group.rank, group.size) == (rank, 3)
    mine = torch.full((3, 1000, 100), float(rank), requires_grad=True)
    where = mine.data_ptr()
    info = group.reduce(mine)
    assert mine.data_ptr() == where and torch.equal(mine.detach(), torch.ones(3, 1000, 100))
    array = numpy.arange(1000, dtype=numpy.int64) * (rank + 1)
    total = numpy.zeros_like(array)
    second = group.reduce(array, total, op="sum", tag=7)
    assert (total == numpy.arange(1000) * 6).all() and (array == numpy.arange(1000) * (rank + 1)).all()
    half = torch.full((10,), float(rank), dtype=torch.bfloat16)
    group.reduce(half, op="max")
    assert half.tolist() == [2.0] * 10
    shared = group.empty((300, 300), torch.float32)
    shared += rank
    out = group.empty((300, 300), "float32")
    group.reduce(shared, out, weights=[0, 1, 3])
    assert (out == 1.75).all()
    mine = torch.tensor([float(rank)])
    group.broadcast(mine, source=2)
    assert mine.item() == 2
    coarse = torch.linspace(-1, 1, 10_000) * (rank + 1)
    residual = torch.zeros(10_000)
    third = group.reduce(coarse, codec="int4", residual=residual)
    assert residual.abs().sum() > 0 and third.wire_bytes_sent > 0 and third.elapsed_s > 0
    finer = torch.linspace(-1, 1, 10_000) * (rank + 1)
    fourth = group.reduce(finer, codec="int4", result_codec="none")
    assert fourth.wire_bytes_sent > third.wire_bytes_sent
    print(info.digest, second.digest, third.digest, fourth.digest)
""", 3))
        self.assertRegex(said, r"^(?:[0-9a-f]{32}\s){4}$")

    def test_awaited_in_asyncio_and_as_futures_in_any_order(self):
        only(self.all_of("""
import asyncio, concurrent.futures, torch
async def main(group):
    tensors = [torch.full((50_000,), float(rank + tag)) for tag in range(40)]
    order = range(40) if rank == 0 else range(39, -1, -1)
    waits = {tag: group.reduce_async(tensors[tag], tag=tag) for tag in order}
    async def one(tag):
        return await waits[tag]
    infos = await asyncio.gather(*(one(tag) for tag in range(40)))
    for tag in range(40):
        assert torch.equal(tensors[tag], torch.full((50_000,), tag + 0.5)), tag
    return [info.digest for info in infos]
with prime.Group.form(**options) as group:
    digests = asyncio.run(main(group), debug=False)
    futures = [group.reduce_async(torch.ones(10), tag=tag).future() for tag in range(5)]
    assert len(concurrent.futures.wait(futures, timeout=60).done) == 5
    again = group.reduce_async(torch.ones(10))
    again.wait()
    assert again.done() and again.future().result(60).digest == again.wait().digest
    print(digests)
""", 2))

    def test_a_tensor_of_more_than_2_gib(self):
        self.all_of("""
import torch
memory = {line.split()[0]: int(line.split()[1]) for line in open("/proc/meminfo")}
if memory["MemAvailable:"] < 12 << 20:
    sys.exit(print("skipped: too little memory"))
with prime.Group.form(**options) as group:
    large = torch.full(((2 << 30) + 4096,), 3, dtype=torch.uint8)
    group.reduce(large, op="sum")
    assert large[-1] == 3 and large.data_ptr() and int(large[::1 << 20].sum(dtype=torch.int64)) == 3 * len(large[::1 << 20])
""", 1)


@unittest.skipUnless(TORCH, "there are no wheels torch and numpy")
class Misuse(Programs):
    def test_each_has_its_name_and_text(self):
        for program, wanted in (
            ("group.reduce(torch.ones(4, 4).t())", "the input is not contiguous"),
            ("group.reduce(torch.ones(3, dtype=torch.complex64))", "the input is of a type that is not known here"),
            ("group.reduce(torch.ones(3, dtype=torch.bool))", "the input is of a type that is not known here"),
            ("group.reduce('text')", "the input is no tensor that can be written to"),
            ("group.reduce(torch.ones(3), torch.ones(4))", "input and output differ: 3 of f32, 4 of f32"),
            ("group.reduce(torch.ones(3), torch.ones(3, dtype=torch.float64))", "input and output differ: 3 of f32, 3 of f64"),
            ("t = torch.ones(9); group.reduce(t[:6], t[3:])", "the input overlaps the output"),
            ("group.reduce(torch.ones(3), op='mean')", "`mean` is no operator; there are: sum, avg, prod, min, max"),
            ("group.reduce(torch.ones(3), codec='größe')", "`größe` is no codec"),
            ("group.reduce(torch.ones(3), weights=[1, 2])", "2 weights for 1 members"),
            ("group.reduce(torch.ones(3), timeout=-1)", "a timeout of -1"),
            ("group.reduce(torch.ones(3), residual=torch.ones(2))", "a residual is of f32"),
            ("group.broadcast(torch.ones(3), source=1)", "a source of 1 in a group of 1"),
            ("group.close(); group.reduce(torch.ones(3))", "the group is closed"),
            ("prime.Group.form(rank=0, members=['127.0.0.1:1'], key='short')", "a key of fewer than 16 characters"),
            ("prime.Group.form(rank=3, members=['127.0.0.1:1'], key='a secret of the tests')", "rank 3 of a group of 1"),
        ):
            with self.subTest(program):
                (said,) = self.all_of(f"""
import torch
group = prime.Group.form(**options)
try:
    {program}
    print("no error")
except prime.Error as error:
    assert (error.name, error.code, error.kind, error.exit_code, error.hint) == ("Usage", "PR0101", "user", 2, "see docs/PYTHON.md"), error.hint
    print(error)
""", 1)
                self.assertIn(wanted, said)

    def test_what_a_codec_cannot_carry_is_refused_and_the_input_is_as_it_was(self):
        said = self.all_of("""
import torch
with prime.Group.form(**options) as group:
    bad = torch.ones(1000)
    if rank == 0:
        bad[7] = float("nan")
    try:
        group.reduce(bad, codec="int8")
    except prime.Error as error:
        assert bad[8] == 1 and bad.isnan().sum() == (rank == 0)
        print(error.name)
""", 2)
        self.assertEqual(sorted(said), ["LaneBroken\n", "NonFiniteValue\n"])

    def test_who_waits_for_a_reduce_may_be_cancelled_and_another_still_hears_of_it(self):
        self.all_of("""
import asyncio, torch
async def main():
    with prime.Group.form(**options) as group:
        reduction = group.reduce_async(torch.full((10,), float(rank)))
        async def waits():
            await reduction
        waiter = asyncio.create_task(waits())
        await asyncio.sleep(0)
        waiter.cancel()
        try:
            await waiter
        except asyncio.CancelledError:
            pass
        info = await reduction
        assert info.digest in repr(info), repr(info)
asyncio.run(main(), debug=False)
""", 2)

    def test_members_that_disagree_are_told(self):
        for mine, theirs in (("torch.ones(10)", "torch.ones(11)"), ("torch.ones(10)", "torch.ones(10, dtype=torch.float64)")):
            said = only(self.all_of(f"""
import torch
with prime.Group.form(**options) as group:
    try:
        group.reduce({mine} if rank else {theirs})
    except prime.Error as error:
        print(error.name)
""", 2))
            self.assertEqual(said, "ReduceMismatch\n")

    def test_after_fork_it_is_refused_by_name_and_the_parent_goes_on(self):
        (said,) = self.all_of("""
import torch
group = prime.Group.form(**options)
flight = group.reduce_async(torch.ones(3))
child = os.fork()
if child == 0:
    for call in (lambda: group.reduce(torch.ones(3)), flight.wait, group.close):
        try:
            call()
        except prime.Error as error:
            print(error)
    del group, flight
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
group.reduce(torch.ones(3))
group.close()
print("went on")
""", 1)
        self.assertEqual(len(re.findall(r"a (?:group|reduce) cannot be used after fork: this is process \d+, it belongs to process \d+", said)), 3, said)
        self.assertIn("went on", said)


@unittest.skipUnless(TORCH, "there are no wheels torch and numpy")
class Waits(Programs):
    WAITS = """
import torch
group = prime.Group.form(**options)
tensor = torch.ones(100_000)
if rank == 1:
    open("there", "w").close()
    time.sleep(1000)
try:
    open("waits", "w").close()
    group.reduce(tensor)
except KeyboardInterrupt:
    print("interrupted")
    began = time.monotonic()
    del tensor
    group.close()
"""

    def test_ctrl_c_ends_a_wait_at_once(self):
        waiting, other = self.group(self.WAITS, 2, LIMIT="600")
        self.until("there")
        self.until("waits")
        waiting.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(waiting), "interrupted\n")
        other.kill()

    def test_an_exception_that_a_notebook_sends_to_a_thread_ends_its_wait(self):
        (said,) = [self.finish(each) for each in self.group("""
import ctypes, threading, torch
options["members"].append("127.0.0.1:1")  # nobody
group = prime.Group.form(**{**options, "timeout": 600})
seen = []
begun = threading.Event()
def train():
    try:
        begun.set()
        group.reduce(torch.ones(3))
    except KeyboardInterrupt as error:
        seen.append(type(error).__name__)
thread = threading.Thread(target=train)
thread.start()
begun.wait()
ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
thread.join()
group.close()
print(seen)
""", 1)]
        self.assertEqual(said, "['KeyboardInterrupt']\n")

    def test_other_threads_run_while_one_waits_and_a_wait_has_a_limit(self):
        (said,) = self.all_of("""
import threading, torch
options["members"].append("127.0.0.1:1")  # nobody
with prime.Group.form(**{**options, "timeout": 600}) as group:
    flight = group.reduce_async(torch.ones(3))
    thread = threading.Thread(target=lambda: print("ran"))
    thread.start()
    try:
        flight.wait(0.3)
    except TimeoutError as error:
        print(error)
    assert not flight.done()
    flight.cancel()
    try:
        flight.wait()
    except prime.Error as error:
        print(error.name)
""", 1)
        self.assertEqual(sorted(said.split("\n")), ["", "LaneBroken", "ran", "the reduce still runs"])

    def test_a_dropped_reduce_keeps_its_tensor_until_it_has_ended(self):
        self.all_of("""
import gc, sys, torch, weakref
options["members"].append("127.0.0.1:1")  # nobody
group = prime.Group.form(**{**options, "timeout": 600})
tensor = torch.ones(1_000_000)
flight = group.reduce_async(tensor)
held = sys.getrefcount(tensor.untyped_storage())
del flight, tensor
gc.collect()
group.close()
""", 1)

    def test_what_interrupts_a_tensor_while_it_is_asked_for_its_memory_is_not_lost(self):
        self.all_of("""
class Interrupted:
    def __dlpack__(self, **kwargs):
        raise KeyboardInterrupt
options["members"].append("127.0.0.1:1")  # nobody
group = prime.Group.form(**{**options, "timeout": 600})
try:
    group.reduce(Interrupted())
except KeyboardInterrupt:
    group.close()
else:
    raise AssertionError
""", 1)

    def test_no_wait_begins_when_the_interpreter_is_about_to_end(self):
        self.all_of("""
import torch
from prime_runtime import _prime
options["members"].append("127.0.0.1:1")  # nobody
group = prime.Group.form(**{**options, "timeout": 600})
_prime._close()
try:
    group.reduce(torch.ones(3))
except SystemExit as ends:
    assert str(ends) == "the interpreter ends"
else:
    raise AssertionError
""", 1)

    def test_the_interpreter_ends_while_a_thread_waits(self):
        self.all_of("""
import threading, torch
options["members"].append("127.0.0.1:1")  # nobody
group = prime.Group.form(**{**options, "timeout": 600})
threading.Thread(target=group.reduce, args=(torch.ones(3),), daemon=True).start()
time.sleep(0.2)
""", 1)


@unittest.skipUnless(TORCH, "there are no wheels torch and numpy")
class Losses(Programs):
    def test_a_killed_member_is_news_and_those_that_are_left_form_a_group(self):
        first, second, third = self.group("""
import torch
group = prime.Group.form(**options)
group.reduce(torch.ones(3))
if rank == 1:
    open("there", "w").close()
    time.sleep(1000)
mine = torch.full((200_000,), float(rank))
try:
    group.reduce(mine)
except prime.Error as error:
    assert error.name in ("PeerLost", "LaneBroken"), error
    assert torch.equal(mine, torch.full((200_000,), float(rank)))
    group = group.reform()
assert (group.rank, group.size) == (rank // 2, 2)
print(group.reduce(mine).digest, mine[0].item())
group.close()
""", 3)
        self.until("there")
        second.kill()
        self.assertRegex(only([self.finish(first), self.finish(third)]), r"^[0-9a-f]{32} 1\.0\n$")

    def test_who_answers_for_a_moment_after_its_death_is_no_survivor(self):
        self.one("""
import socket, threading, types
import prime_runtime as prime
lives, dies = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
members = ["127.0.0.1:1", *(f"127.0.0.1:{each.getsockname()[1]}" for each in (lives, dies))]
threading.Timer(0.5, dies.close).start()
assert prime.Group.survivors(types.SimpleNamespace(rank=0, size=3, members=members)) == [0, 1]
""")

    def test_where_nobody_is_gone_no_group_is_formed_of_the_rest(self):
        said = self.all_of("""
import torch
with prime.Group.form(**options) as group:
    group.reduce(torch.ones(3))
    try:
        group.reform()
    except prime.Error as error:
        print(error)
    group.reduce(torch.ones(3))
""", 2)
        for each in said:
            self.assertIn("every member still answers, so no group is formed of the rest", each)


class Package(Programs):
    def test_torch_is_imported_only_by_who_wants_it(self):
        self.assertEqual(self.one("import sys, prime_runtime; print([name for name in ('torch', 'numpy') if name in sys.modules])"), "[]\n")

    def test_an_error_is_pickled_whole(self):
        self.assertEqual(self.one("""
import pickle, prime_runtime as prime
try:
    prime.Group.form(rank=1, members=["127.0.0.1:1"], key="a secret of the tests")
except prime.Error as error:
    other = pickle.loads(pickle.dumps(error))
    print(vars(other) == vars(error) and str(other) == str(error))
"""), "True\n")


if __name__ == "__main__":
    main()
