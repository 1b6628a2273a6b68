"""Forks in the middle of work: the child finds its locks free, its history whole and the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from numba.core.compiler_lock import global_compiler_lock

from made_bundles import Made, refreshing
from made_usage import made_section
from sojourn.serving import forking
from sojourn.serving.watch import ReloadGate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

N_FORKS = 20
DEADLINE_S = 60.0
FORKS = """
import os, signal, sys, threading
from sojourn.serving import Predictor
folder, other, n_forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
predictor = Predictor.load(folder)
request = {"cpu_cores": 2.0, "mem_gib": 8.0, "subscription": "asked", "zone": "z0"}
busy = request | {"subscription": "busy"}
answers = {}
for source in (other, folder):
    predictor.reload(source)
    vm = predictor.predict(request, 10**7)
    answers[vm.version] = str(vm.features), vm.remaining(60.0)
is_over = threading.Event()

def admit():
    while not is_over.is_set():
        predictor.withdraw(predictor.admit(busy, 10**7))

def reload():
    while not is_over.is_set():
        predictor.reload(other)
        predictor.reload(folder)

def count():
    while not is_over.is_set():
        predictor.counters

threads = [threading.Thread(target=act) for act in (admit, admit, reload, count)]
for thread in threads:
    thread.start()
bad = 0
for _ in range(n_forks):
    child = os.fork()
    if not child:
        signal.alarm(60)  # a lock that nobody will give back ends the child
        vm = predictor.admit(request, 10**7)
        same = (str(vm.features), vm.remaining(60.0)) == answers[vm.version]
        predictor.reload(other)
        again = predictor.predict(request, 10**7 + 1)
        owner = predictor._open.history._owners[0].get(("busy",))
        running = owner and owner.running
        whole = running is None or running.sum_s == sum(running.arrivals.values())
        same &= again.version == predictor.version
        predictor.ended(vm, 10**7 + 9)
        os._exit(not (same and whole))
    _, status = os.waitpid(child, 0)
    bad += status != 0
is_over.set()
for thread in threads:
    thread.join()
print(bad, predictor.counters["reload_errors"])
"""


@pytest.mark.slow
def test_children_forked_in_the_middle_of_work_answer_the_same(made: Made) -> None:
    arguments = [str(made.folders["hazard"]), str(made.folders["uptime"]), str(N_FORKS)]
    found = subprocess.run([sys.executable, "-c", FORKS, *arguments], capture_output=True, text=True, check=False,
                           timeout=300)
    assert (found.returncode, found.stdout, found.stderr) == (0, "0 0\n", "")


def test_a_fork_waits_for_the_reload_under_way_and_for_no_other() -> None:
    """Reloads back to back: the next one begins after the fork, however soon it asks."""
    gate, done = ReloadGate(), []
    is_first_in, may_end = threading.Event(), threading.Event()

    def first() -> None:
        with gate:
            is_first_in.set()
            may_end.wait(DEADLINE_S)
            done.append("first")

    def fork() -> None:
        gate.before_fork()
        done.append("fork")
        gate.after_fork(is_child=False)

    def later() -> None:
        with gate:
            done.append("later")

    threads = [threading.Thread(target=act) for act in (first, fork, later, later)]
    threads[0].start()
    assert is_first_in.wait(DEADLINE_S)
    threads[1].start()
    while not gate._n_forking:  # it waits
        threads[1].join(0.001)
    for thread in threads[2:]:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert done == ["first", "fork", "later", "later"]


STARVED = """
import os, sys, threading
from sojourn.serving import Predictor, predictor as module
predictor = Predictor.load(sys.argv[1])
bundle, begun, begun_in_fork = module.load_bundle(sys.argv[1]), 0, []
served = module.Served.of(bundle)
wait = threading.Event()

def load(folder):
    global begun
    begun += 1
    wait.wait(0.001)  # a reload that takes its time, without holding the interpreter
    return bundle

module.load_bundle = load
module.Served.of = lambda _: served
is_over = threading.Event()

def reload():
    while not is_over.is_set():
        predictor.reload()

threads = [threading.Thread(target=reload) for _ in range(3)]
for thread in threads:
    thread.start()
most = 0
for _ in range(50):
    before = begun
    child = os.fork()
    if not child:
        os._exit(0)
    most = max(most, begun - before)
    os.waitpid(child, 0)
is_over.set()
for thread in threads:
    thread.join()
print(most)
"""


@pytest.mark.slow
def test_reloads_back_to_back_do_not_keep_a_fork_waiting(made: Made) -> None:
    """Few reloads begin between a fork's call and its end: as many as get in before the call is heard."""
    found = subprocess.run([sys.executable, "-c", STARVED, str(made.folders["once"])], capture_output=True, text=True,
                           check=False, timeout=300)
    assert found.stderr == ""
    assert int(found.stdout) < 30


IDLE = """
import gc, os, sys
from sojourn.serving import Predictor, forking
for _ in range(3):
    Predictor.load(sys.argv[1])
gc.collect()
predictor = Predictor.load(sys.argv[1])
print(len(forking._LIVE))
def is_held():
    predictor.reload()
    return any(lock.locked() for lock in (predictor._lock, predictor._reloading._free._lock, forking._LOCK))
child = os.fork()
if not child:
    os._exit(is_held())
print(os.waitpid(child, 0)[1], is_held())
"""


def test_a_fork_leaves_nothing_locked_and_keeps_no_predictor_alive(made: Made) -> None:
    found = subprocess.run([sys.executable, "-c", IDLE, str(made.folders["once"])], capture_output=True, text=True,
                           check=False, timeout=300)
    assert (found.stdout, found.stderr) == ("1\n0 False\n", "")


def test_a_fork_waits_until_nothing_is_compiled() -> None:
    """A child would find numba's lock held by a thread that it does not have."""
    done = []
    is_compiling, may_end = threading.Event(), threading.Event()

    def compile_slowly() -> None:
        with global_compiler_lock:
            is_compiling.set()
            may_end.wait(DEADLINE_S)
            done.append("compiled")

    def fork() -> None:
        forking._before()
        done.append("forked")
        forking._after(is_child=False)

    threads = [threading.Thread(target=act) for act in (compile_slowly, fork)]
    threads[0].start()
    assert is_compiling.wait(DEADLINE_S)
    threads[1].start()
    threads[1].join(0.05)
    may_end.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert done == ["compiled", "forked"]
    assert global_compiler_lock._lock.acquire(blocking=False)  # it was given back
    global_compiler_lock._lock.release()


COMPILED_LATER = """
import os, sys
from numba.core.dispatcher import Dispatcher
from sojourn.serving import CurvePool, HostExits, Predictor
loaded, compile_one = [], Dispatcher.compile

def compile_and_note(self, signature):
    loaded.append(self.py_func.__name__)
    return compile_one(self, signature)

Dispatcher.compile = compile_and_note

def ask(folder, usage, is_recalibrated, now_s):
    predictor = Predictor.load(folder, usage=usage, recalibrate=is_recalibrated)
    pool, exits = CurvePool(), HostExits(2)
    assert "remaining_rows" in loaded and "host_exits" in loaded  # it is noted
    loaded.clear()
    request = {"cpu_cores": 2.0, "mem_gib": 8.0, "subscription": "s1", "requested_s": 7_200.0}
    predictor.predict(request, now_s)
    first = predictor.admit(request, now_s)
    predictor.remaining_many([request] * 3, [0.0, 1.0, 60.0], now_s)
    for idx in range(70):
        predictor.ended(predictor.admit(request, now_s + idx), now_s + idx + 300)
    predictor.withdraw(predictor.admit(request, now_s + 400))
    vms = [first, predictor.handle(first.id), predictor.admit(request, now_s + 400),
           predictor.refresh(first, now_s + 7_200), predictor.handle(first.id)]
    for vm in vms:
        vm.remaining(60.0), vm.quantile(0.9, 60.0), vm.survival(60.0, 60.0), vm.next_change(60.0), vm.lifetime_class()
        predictor.explain(vm)
        slot = pool.add(vm)
        pool.remaining([slot], [60.0]), pool.quantile(0.9, [slot], [60.0])
        pool.survival(60.0, [slot], [60.0]), pool.next_change([slot], [60.0])
        exits.place(1, vm), exits.at(now_s + 8_000), exits.at(now_s), exits.leave(vm)
    pool.remaining_all(now_s + 8_000)
    predictor.observe(first, now_s + 60, 0.5)
    predictor.usage(first).peak(now_s, now_s + 60)
    predictor.reload()
    predictor.predict(request, now_s + 500)
    print(os.path.basename(folder), is_recalibrated, loaded, flush=True)

for folder in sys.argv[3:]:
    for is_recalibrated in (False, True):
        child = os.fork()  # each begins with nothing compiled
        if not child:
            ask(folder, sys.argv[1], is_recalibrated, int(sys.argv[2]))
            os._exit(0)
        os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_the_load(made: Made, tmp_path: Path) -> None:
    """Whatever is asked of a predictor, a pool and hosts: all compiled code was loaded when they were made."""
    kinds = ["hazard", "hazard-limit", "uptime", "once"]
    folders = [*(made.folders[kind] for kind in kinds), refreshing(made, tmp_path / "refreshing"),
               refreshing(made, tmp_path / "refreshing-limit", kind="hazard-limit")]
    arguments = [str(made_section(tmp_path / "usage")), str(made.trace.horizon_s), *map(str, folders)]
    found = subprocess.run([sys.executable, "-c", COMPILED_LATER, *arguments], capture_output=True, text=True,
                           check=False, timeout=600)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines() == [f"{folder.name} {is_on} []" for folder in folders for is_on in (False, True)]
