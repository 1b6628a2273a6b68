"""Eight threads admit, end and predict while another reloads a hundred times: no error, no torn answer, no loss."""

from __future__ import annotations

import itertools
import threading
from collections import Counter, UserDict
from collections.abc import KeysView
from dataclasses import replace
from typing import Any

import pytest

from made_bundles import Made
from sojourn.serving import Lifetime, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder, Served

N_THREADS, N_RELOADS, N_OPERATIONS = 8, 100, 200_000
N_CHECKED = 4
"""One handle in this many is compared with the answers of the version it names."""


@pytest.mark.slow
def test_nothing_is_torn_or_lost_while_models_are_swapped(made: Made) -> None:
    folders = [made.folders[kind] for kind in ("once", "hazard", "uptime")]
    versions = {bundle.version: Served.of(bundle) for bundle in map(load_bundle, folders)}
    predictor = Predictor.load(folders[0])
    requests = [[made.request(idx) | {"subscription": f"s{number}", "deployment": f"d{number}"} for idx in range(50)]
                for number in range(N_THREADS)]  # each thread keeps the time order of its own owners
    done: list[Counter[str]] = [Counter() for _ in range(N_THREADS)]
    errors: list[BaseException] = []
    is_over = threading.Event()

    def check(vm: Lifetime) -> None:
        assert vm.curve == versions[vm.version].builder.curve(vm.features)

    def work(number: int) -> None:
        mine = done[number]
        running: list[Lifetime] = []
        for step in itertools.count():
            if sum(mine.values()) >= N_OPERATIONS // N_THREADS and is_over.is_set():
                return
            request, now_s = requests[number][step % 50], 10**7 + 400 * step
            vm = predictor.admit(request, now_s)
            running.append(vm)
            mine["admit"] += 1
            if step % N_CHECKED == 0:
                check(vm)
            if step % 3 == 0:
                predictor.predict(request, now_s)
                mine["predict"] += 1
            if step % 3 == 1:
                predictor.withdraw(running.pop())
                mine["withdraw"] += 1
            elif len(running) >= 5:
                predictor.ended(running.pop(0), now_s + 60)
                mine["end"] += 1

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for number in range(1, N_RELOADS + 1):
        predictor.reload(folders[number % len(folders)])
    is_over.set()
    for thread in threads:
        thread.join()
    assert errors == []
    total = sum(done, Counter())
    assert sum(total.values()) >= N_OPERATIONS
    counters = predictor.counters
    assert {name: counters[name] for name in ("predictions", "ended", "withdrawn", "errors", "reloads",
                                              "reload_errors")} == {
        "predictions": total["admit"] + total["predict"], "ended": total["end"], "withdrawn": total["withdraw"],
        "errors": 0, "reloads": N_RELOADS, "reload_errors": 0}
    running = [owner.running for owner in predictor._open.history._owners[0].values() if owner.running is not None]
    assert sum(len(each.arrivals) for each in running) == total["admit"] - total["end"] - total["withdraw"]
    assert all(each.sum_s == sum(each.arrivals.values()) for each in running)


def in_two_steps(served: Served, made: Made) -> Served:
    """The version of `hazard` that encodes a request in Python, and then asks ONNX Runtime."""
    model = load_bundle(made.folders["hazard"]).model
    return replace(served, builder=CurveBuilder(served.schema, model, is_compiled=False))


def test_a_call_under_way_keeps_the_version_it_began_with(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload that falls between encoding and walking the forest, which are one step in C, changes neither curve
    nor version."""
    predictor = Predictor.load(made.folders["hazard"])
    expected = predictor.predict(made.request(3), 10**7)
    began = in_two_steps(predictor._current.served, made)
    predictor._current.served = began
    build = began.builder.curve

    def reloading(features: list[float]) -> object:
        predictor.reload(made.folders["uptime"])
        return build(features)

    monkeypatch.setattr(began.builder, "curve", reloading)
    vm = predictor.predict(made.request(3), 10**7)
    assert predictor.version != began.version
    assert (vm.version, vm.curve) == (expected.version, expected.curve)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_batch_is_of_one_version(made: Made, is_compiled: bool) -> None:
    """A reload that falls between two of its requests changes none of its answers."""
    predictor = Predictor.load(made.folders["hazard"])
    if not is_compiled:
        predictor._current.served = in_two_steps(predictor._current.served, made)
    requests, uptimes_s = [made.request(idx) for idx in range(200)], [60.0] * 200
    expected = predictor.remaining_many(requests, uptimes_s, 10**7)

    class Reloading(UserDict[str, Any]):
        def keys(self) -> KeysView[str]:
            predictor.reload(made.folders["uptime"])
            return super().keys()

    asked = [*requests[:100], Reloading(requests[100]), *requests[101:]]
    assert predictor.remaining_many(asked, uptimes_s, 10**7).tolist() == expected.tolist()
    assert predictor.remaining_many(requests, uptimes_s, 10**7).tolist() != expected.tolist()


def test_predictions_go_on_while_a_bundle_is_loaded(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading holds no lock that a prediction needs: here it waits for one to be made."""
    predictor = Predictor.load(made.folders["hazard"])
    is_loading, is_answered = threading.Event(), threading.Event()
    of = Served.of

    def slow(bundle: object) -> Served:
        is_loading.set()
        assert is_answered.wait(60.0)
        return of(bundle)  # type: ignore[arg-type]

    monkeypatch.setattr(Served, "of", slow)
    thread = threading.Thread(target=predictor.reload, args=(made.folders["uptime"],))
    thread.start()
    assert is_loading.wait(60.0)
    vm = predictor.admit(made.request(0), 10**7)
    predictor.ended(vm, 10**7 + 5)
    assert predictor.counters["ended"] == 1
    is_answered.set()
    thread.join()
    assert predictor.counters["reloads"] == 1
