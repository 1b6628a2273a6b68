"""Forks in the middle of work: the child finds its locks free, its history whole and the same answers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from made_bundles import Made

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

N_FORKS = 20
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
        owner = predictor._history._owners[0].get(("busy",))
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


IDLE = """
import gc, os, sys
from sojourn.serving import Predictor, forking
for _ in range(3):
    Predictor.load(sys.argv[1])
gc.collect()
predictor = Predictor.load(sys.argv[1])
print(len(forking._LIVE))
child = os.fork()
if not child:
    os._exit(predictor._lock.locked() or predictor._reloading.locked() or forking._LOCK.locked())
print(os.waitpid(child, 0)[1], predictor._lock.locked(), predictor._reloading.locked(), forking._LOCK.locked())
"""


def test_a_fork_leaves_nothing_locked_and_keeps_no_predictor_alive(made: Made) -> None:
    found = subprocess.run([sys.executable, "-c", IDLE, str(made.folders["once"])], capture_output=True, text=True,
                           check=False, timeout=300)
    assert (found.stdout, found.stderr) == ("1\n0 False False False\n", "")
