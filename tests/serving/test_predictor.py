"""The predictor: answers, records, refusals, threads, and the replay that training and serving share."""

from __future__ import annotations

import gc
import json
import math
import shutil
import subprocess
import sys
import threading
import weakref
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made, rewrite_schema
from sojourn.models.bundle_writer import table_of
from sojourn.serving import Lifetime, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.curves import lifetime_class
from sojourn.serving.inputs import UNIX_PHASE_S
from sojourn.serving.native import NATIVE

KINDS = pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])
UPTIMES_S = (0.0, 1.0, 60.0, 3_600.0, 86_400.5, 1e7)


@pytest.fixture
def predictor(made: Made) -> Predictor:
    return Predictor.load(made.folders["hazard"])


@KINDS
def test_a_replayed_trace_gives_the_training_rows_to_the_bit(made: Made, kind: str) -> None:
    predictor = Predictor.load(made.folders[kind], is_history_kept=False)
    rows = made.rows
    end_s = rows.arrival_s + rows.lifetime_s
    by_end = [idx for idx in np.argsort(end_s, kind="stable").tolist() if rows.is_event[idx]]
    admitted: list[Lifetime] = []
    for idx, now_s in enumerate(rows.decided_s.tolist()):
        while by_end and end_s[by_end[0]] <= now_s and by_end[0] < idx:
            ended = by_end.pop(0)
            predictor.ended(admitted[ended], int(end_s[ended]))
        admitted.append(predictor.admit(made.request(idx), now_s))
    assert np.array([vm.features for vm in admitted]).tobytes() == rows.features.tobytes()
    assert (predictor._current.served.builder.first is None) == (NATIVE is None)
    table = table_of(predictor._current.served.schema, predictor._current.served.builder.forest, rows.features)
    for uptime_s in UPTIMES_S:
        assert table.remaining(uptime_s).tolist() == [vm.remaining(uptime_s) for vm in admitted]


@KINDS
def test_both_paths_give_the_same_bits(made: Made, kind: str) -> None:
    bundle = load_bundle(made.folders[kind])
    fast = CurveBuilder(bundle.schema, bundle.model)
    slow = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    assert fast.is_compiled
    assert not slow.is_compiled
    for row in [*made.rows.features.tolist(), [math.nan] * made.rows.features.shape[1]]:
        assert fast.curve(row) == slow.curve(row)


def test_admit_records_and_predict_does_not(made: Made, predictor: Predictor) -> None:
    request, now_s = made.request(0) | {"subscription": "fresh"}, made.trace.horizon_s
    asked = [predictor.predict(request, now_s) for _ in range(2)]
    assert [vm.unknown for vm in asked] == [("history of subscription",)] * 2
    vm = predictor.admit(request, now_s)
    assert vm.curve == asked[0].curve
    assert predictor.predict(request, now_s).unknown == ()
    predictor.withdraw(vm)
    again = predictor.predict(request, now_s)
    assert again.unknown == ("history of subscription",)
    assert again.curve == vm.curve


def test_a_prediction_without_a_record_cannot_end(made: Made, predictor: Predictor) -> None:
    vm = predictor.predict(made.request(0), 0)
    with pytest.raises(ValueError, match="vm must be admitted and neither ended nor withdrawn"):
        predictor.ended(vm, 1)
    with pytest.raises(ValueError, match="vm must be admitted and neither ended nor withdrawn"):
        predictor.withdraw(vm)


@pytest.mark.parametrize("first", ["ended", "withdraw"])
@pytest.mark.parametrize("second", ["ended", "withdraw"])
def test_a_request_ends_once(made: Made, predictor: Predictor, first: str, second: str) -> None:
    acts = {"ended": lambda vm: predictor.ended(vm, 10), "withdraw": predictor.withdraw}
    vm = predictor.admit(made.request(0), 0)
    acts[first](vm)
    with pytest.raises(ValueError, match="neither ended nor withdrawn"):
        acts[second](vm)
    counters = predictor.counters
    assert counters["ended"] + counters["withdrawn"] == 1


def test_unknown_inputs_are_answered_and_reported(made: Made, predictor: Predictor) -> None:
    vm = predictor.predict({"cpu_cores": 2, "zone": "never-seen", "subscription": "nobody"}, 0)
    assert set(vm.not_given) == {"mem_gib", "disk_gib", "requested_s", "deployment", "vm_category"}
    assert {"zone", "subscription"} <= set(vm.not_seen)
    assert vm.unknown == (*vm.not_given, *(f"history of {key}" for key in vm.not_seen))
    # a column and a history key may share a name: which of them is unknown is told
    assert "zone" in predictor.predict({}, 0).not_given and predictor.predict({}, 0).not_seen == ()
    assert repr(vm).startswith("Lifetime(mean ") and f"; version {vm.version}; not given: mem_gib, " in repr(vm)
    assert "; not seen: " in repr(vm) and "zone" in repr(vm).partition("not seen: ")[2]
    assert 0.0 <= vm.remaining(0) < math.inf
    assert vm.lifetime_class(0) == lifetime_class(vm.remaining(0))


def test_refusals_name_what_is_wrong(made: Made, predictor: Predictor) -> None:
    request = made.request(0)
    with pytest.raises(ValueError, match=r"column must .*, got 'colour'"):
        predictor.admit({"colour": "red"}, 0)
    with pytest.raises(ValueError, match="cpu_cores must be a number, got 'two'"):
        predictor.admit(request | {"cpu_cores": "two"}, 0)
    for now_s in (math.nan, math.inf, "1", None, datetime(2026, 11, 1), True, np.array([1, 2]), 2**70):
        with pytest.raises(ValueError, match="now_s must be seconds or a datetime with a time zone, got"):
            predictor.admit(request, now_s)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"arrival_s must be <= now_s \(5\), got 6"):
        predictor.admit(request, 5, arrival_s=6)
    vm = predictor.admit(request, 100)
    with pytest.raises(ValueError, match="now_s must be >= the arrival 100, got 99"):
        predictor.ended(vm, 99)
    predictor.ended(vm, 100)
    with pytest.raises(ValueError, match="uptimes_s must have 1 elements, got 2"):
        predictor.remaining_many([request], [0.0, 1.0], 0)


BAD_UPTIMES: tuple[Any, ...] = (math.nan, math.inf, -math.inf, -1.0, -1e-9, "60", b"60", None, [60.0], 1j, 10**400,
                                True, False, np.bool_(True))


@KINDS
def test_a_bad_uptime_is_named(made: Made, kind: str) -> None:
    predictor = Predictor.load(made.folders[kind])
    vm = predictor.predict(made.request(0), 0)
    for bad in BAD_UPTIMES:
        for call in (vm.remaining, vm.next_change, vm.lifetime_class, lambda uptime_s: vm.quantile(0.5, uptime_s),
                     lambda uptime_s: vm.survival(60.0, uptime_s),
                     lambda uptime_s: predictor.remaining_many([made.request(0)], [uptime_s], 0)):
            with pytest.raises(ValueError, match="uptime_s must be finite and >= 0, got"):
                call(bad)
        with pytest.raises(ValueError, match="horizon_s must be finite and >= 0, got"):
            vm.survival(bad, 0.0)
    shares: tuple[Any, ...] = (0.0, 1.0, math.nan, "0.5", None)
    for bad in shares:
        with pytest.raises(ValueError, match="q must be between 0 and 1, got"):
            vm.quantile(bad, 0.0)
    assert predictor.counters["errors"] == len(BAD_UPTIMES)


def test_a_bad_value_names_its_column(made: Made, predictor: Predictor) -> None:
    request = made.request(0)
    values: tuple[tuple[str, Any], ...] = (
        ("cpu_cores", math.inf), ("cpu_cores", -math.inf), ("cpu_cores", "2"), ("cpu_cores", True),
        ("cpu_cores", [2.0]), ("cpu_cores", 10**400), ("zone", 1.5), ("zone", ["z0"]), ("zone", b"z0"))
    for column, value in values:
        with pytest.raises(ValueError, match=f"^{column} must be .*, got"):
            predictor.predict(request | {column: value}, 0)
    requests: tuple[Any, ...] = (None, 7, "request", [("cpu_cores", 2.0)])
    for bad in requests:
        with pytest.raises(ValueError, match="request must be a mapping from columns to values, got"):
            predictor.predict(bad, 0)
    columns: tuple[Any, ...] = ("colour", "", 7, None, ("cpu_cores",))
    for stranger in columns:
        with pytest.raises(ValueError, match=r"column must be one of cpu_cores, .*, got"):
            predictor.predict({stranger: 1.0}, 0)
    vm = predictor.predict(request | {"cpu_cores": None, "zone": math.nan}, 0)
    assert {"cpu_cores", "zone"} <= set(vm.unknown)  # what is missing is not wrong


def test_a_column_that_few_training_requests_had_is_not_named_where_it_is_missing(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.folders["hazard"], tmp_path / "b")
    shares = {"cpu_cores": 1.0, "mem_gib": 0.5, "vm_category": 0.49, "zone": 0.1, "subscription": "few", "other": 0.0}
    rewrite_schema(tmp_path / "b", lambda schema: schema["training"].update(given_shares=shares))
    told, silent = Predictor.load(made.folders["hazard"]), Predictor.load(tmp_path / "b")
    n_before, lacking = 0, {}
    for request in map(made.request, range(300)):
        lacking = {name: value for name, value in request.items() if name not in ("vm_category", "zone")}
        n_before = told.counters["unknowns"]
        if told.predict(lacking, 0).not_seen == ():  # its owners ran before, so that nothing else is unknown
            break
    assert set(told.predict(lacking, 0).unknown) == {"vm_category", "zone"}
    assert told.counters["unknowns"] == n_before + 2
    assert silent.predict(lacking, 0).not_given == () and silent.counters["unknowns"] == 0
    silent.remaining_many([lacking], [0.0], 0)
    assert silent.counters["unknowns"] == 0
    # half of the training requests and more, and what the bundle says nothing of, is named; answers stay the same
    assert {"mem_gib", "subscription"} <= set(silent.predict({}, 0).not_given)
    assert silent.predict(lacking, 0).remaining(0) == told.predict(lacking, 0).remaining(0)
    rewrite_schema(tmp_path / "b", lambda schema: schema["training"].update(given_shares=[0.1]))
    assert set(Predictor.load(tmp_path / "b").predict(lacking, 0).not_given) == {"vm_category", "zone"}


def test_a_size_below_0_is_refused_and_counted(made: Made, predictor: Predictor) -> None:
    for call in (predictor.predict, predictor.admit):
        with pytest.raises(ValueError, match=r"^mem_gib must .*, got -8.0"):
            call(made.request(0) | {"mem_gib": -8.0}, 0)
    with pytest.raises(ValueError, match=r"cpu_cores must .*, got nan"):
        predictor.remaining_many([made.request(0) | {"cpu_cores": math.nan}], [0.0], 0)
    assert predictor.counters["errors"] == 3 and predictor.running() == []


def test_what_is_no_handle_is_named(made: Made, predictor: Predictor) -> None:
    calls: tuple[Any, ...] = (lambda vm: predictor.ended(vm, 0), predictor.withdraw, predictor.explain)
    for call in calls:
        for bad in (None, "vm", 7):
            with pytest.raises(ValueError, match=r"vm must be a Lifetime(, got| or the id of one, got)"):
                call(bad)


@pytest.mark.parametrize(("requests", "uptimes_s", "message"), [
    (None, [0.0], "requests must be a sequence, got None"),
    ("ab", [0.0], "requests must be a sequence, got 'ab'"),
    ([{}], 0.0, "uptimes_s must be a sequence, got 0.0"),
    ([{}], None, "uptimes_s must be a sequence, got None"),
    ([{}], [0.0, 1.0], "uptimes_s must have 1 elements, got 2"),
    ([{}, 7], [0.0, 1.0], "request must be a mapping from columns to values, got 7"),
    ([{}], ["7"], "uptime_s must be finite and >= 0, got '7'"),
])  # fmt: skip
def test_a_bad_batch_is_named_and_counted_once(predictor: Predictor, requests: Any, uptimes_s: Any,
                                               message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predictor.remaining_many(requests, uptimes_s, 0)
    assert predictor.counters["errors"] == 1


def test_an_empty_batch_has_no_answers(predictor: Predictor) -> None:
    assert predictor.remaining_many([], [], 0).shape == (0,)
    assert predictor.remaining_many([{}], np.array([60]), 0).shape == (1,)


def test_every_refused_call_counts_as_an_error(made: Made, predictor: Predictor) -> None:
    request = made.request(0)
    vm = predictor.admit(request, 100)
    refused: list[Any] = [
        lambda: predictor.admit(request, "1.5"),  # type: ignore[arg-type]
        lambda: predictor.admit(request, 5, arrival_s=6),
        lambda: predictor.predict({"colour": 1}, 0),
        lambda: predictor.ended(vm, 99),
        lambda: predictor.withdraw(predictor.predict(request, 0)),
    ]
    for number, call in enumerate(refused, 1):
        with pytest.raises(ValueError):
            call()
        assert predictor.counters["errors"] == number
    predictor.ended(vm, 100)  # none of them took the handle's admission


def test_serving_logs_nothing_and_keeps_numpys_generator(made: Made, predictor: Predictor,
                                                         caplog: pytest.LogCaptureFixture,
                                                         capfd: pytest.CaptureFixture[str]) -> None:
    before = str(np.random.get_state())  # noqa: NPY002
    with caplog.at_level(0):
        vm = predictor.admit(made.request(0), 0)
        predictor.ended(vm, 60)
        predictor.explain(vm)
        predictor.reload()
        with pytest.raises(ValueError):
            predictor.reload("nowhere")
    assert (caplog.text, *capfd.readouterr()) == ("", "", "")
    assert str(np.random.get_state()) == before  # noqa: NPY002


def test_a_job_that_waited_has_lived_from_its_start(made: Made, predictor: Predictor) -> None:
    request = made.request(0) | {"subscription": "queue"}
    vm = predictor.admit(request, 1_000)
    with pytest.raises(ValueError, match=r"arrival_s must .*, got 999"):
        predictor.ended(vm, 1_600, arrival_s=999)
    with pytest.raises(ValueError, match=r"now_s must .*, got 1600"):
        predictor.ended(vm, 1_600, arrival_s=1_601)
    predictor.ended(vm, 1_600, arrival_s=1_500)  # waited 500 s, ran 100 s
    encoder = predictor.encoder
    row = encoder.encode(encoder.parse(request), 1_600, predictor._open.history)
    features = dict(zip(encoder.feature_names(), row, strict=True))
    assert features["subscription:last"] == 2.0  # log10(100)


def test_counters_count(made: Made, predictor: Predictor) -> None:
    known = made.request(len(made.rows) - 1)
    vms = [predictor.admit(known, 10**7 + idx) for idx in range(3)]
    predictor.predict({}, 10**7)
    predictor.ended(vms[0], 10**7 + 9)
    predictor.withdraw(vms[1])
    with pytest.raises(ValueError):
        predictor.predict({"colour": 1}, 0)
    counters = predictor.counters
    assert {name: counters[name] for name in ("predictions", "ended", "withdrawn", "errors")} == {
        "predictions": 4, "ended": 1, "withdrawn": 1, "errors": 1}
    assert counters["unknowns"] >= 1


def test_a_clock_that_steps_back_is_counted(made: Made, predictor: Predictor) -> None:
    """Each time is taken as it is told: ages are at least a second, and an end before its arrival is refused."""
    request = made.request(0)
    late = predictor.admit(request, 1_000)
    early = predictor.admit(request, 400)  # back by 600 s
    predictor.admit(request, 450, arrival_s=10)  # on from there
    predictor.predict(request, 5)  # a question records nothing
    predictor.remaining_many([request], [0.0], 5)
    assert predictor.counters["clock_steps_back"] == 1
    with pytest.raises(ValueError, match=r"now_s must .*, got 500"):
        predictor.ended(late, 500)
    predictor.ended(early, 449)
    assert predictor.counters["clock_steps_back"] == 2
    predictor.ended(late, 1_001)
    assert predictor.counters["clock_steps_back"] == 2


@pytest.mark.parametrize("kind", ["uptime", "once"])
def test_the_answer_holds_until_its_next_change(made: Made, kind: str) -> None:
    """A point model's stays the same to the last second before; a one-shot prediction's total does, then it doubles."""
    predictor = Predictor.load(made.folders[kind])
    n_same = n_all = 0
    for row in range(40):
        vm, uptime_s = predictor.predict(made.request(row), 10**7), 0.0
        for _ in range(30):
            change_s = vm.next_change(uptime_s)
            if change_s > 9e7:  # an answer is at most three years
                break
            ages_s = [uptime_s, (uptime_s + change_s) // 2.0, change_s - 1.0]
            shift = 1.0 if kind == "once" else 0.0
            assert len({vm.remaining(age_s) + shift * age_s for age_s in ages_s if age_s >= uptime_s}) == 1
            n_same += vm.remaining(change_s) + shift * change_s == vm.remaining(uptime_s) + shift * uptime_s
            n_all += 1
            uptime_s = change_s
    assert n_all > 300
    # a point model's answer is often the same again: the docs say so
    assert n_same == 0 if kind == "once" else 0.2 * n_all < n_same < n_all


def test_a_version_that_is_replaced_is_freed_at_once(made: Made) -> None:
    """Without waiting for the garbage collector, which may never look at what is old: forest, masks, session."""
    predictor = Predictor.load(made.folders["hazard"])
    gc.collect()
    gc.disable()
    try:
        for kind in ("uptime", "once", "hazard", "once"):
            vm = predictor.predict(made.request(0), 0)
            builder = predictor._current.served.builder
            parts = [weakref.ref(part) for part in (builder, builder._onnx)]
            del builder
            predictor.reload(made.folders[kind])
            assert [part() for part in parts] == [None, None]
            assert vm.remaining(60.0) >= 0.0
    finally:
        gc.enable()


def test_running_requests_are_restored_after_a_restart(made: Made) -> None:
    request = made.request(3)
    live = Predictor.load(made.folders["uptime"], is_history_kept=False)
    for arrival_s in (0, 200, 500):
        live.admit(request, arrival_s)
    restarted = Predictor.load(made.folders["uptime"], is_history_kept=False)
    for arrival_s in (0, 200, 500):
        vm = restarted.admit(request, 9_000, arrival_s=arrival_s)
        assert vm.arrival_s == arrival_s
    assert restarted.predict(request, 9_000).curve == live.predict(request, 9_000).curve


@KINDS
def test_a_batch_is_the_single_answers(made: Made, kind: str) -> None:
    predictor = Predictor.load(made.folders[kind])
    requests: list[Any] = [*(made.request(idx) for idx in range(150)), {}, {"subscription": "nobody"}]
    served = predictor._current.served
    edges_s = (0.0, 0.5, 1e4, 1e12, *served.schema.numbers.edges, *served.builder.thresholds)
    uptimes_s = [abs(edge_s) for edge_s in (edges_s * 152)[:152]]
    expected = [predictor.predict(request, 0).remaining(uptime_s)
                for request, uptime_s in zip(requests, uptimes_s, strict=True)]
    counts = predictor.counters
    assert counts["unknowns"] >= 2
    assert predictor.remaining_many(requests, uptimes_s, 0).tolist() == expected
    assert predictor.counters == {name: 2 * n for name, n in counts.items()}


def in_threads(n: int, act: Any) -> list[BaseException]:
    """Run act(0), ..., act(n - 1) at once; what they raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(n)

    def run(number: int) -> None:
        barrier.wait()
        try:
            act(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_admit_and_end_without_loss(made: Made, predictor: Predictor) -> None:
    n_threads, n_each = 4, 100
    requests = [made.request(idx) for idx in range(n_threads)]

    def work(number: int) -> None:
        for step in range(n_each):
            vm = predictor.admit(requests[number] | {"subscription": "shared"}, 10**7 + step)
            assert vm.remaining(0) >= 0.0
            predictor.ended(vm, 10**7 + step + 50)

    assert in_threads(n_threads, work) == []
    counters = predictor.counters
    assert counters["predictions"] == counters["ended"] == n_threads * n_each
    shared = predictor._open.history._owners[0][("shared",)]
    assert (shared.n_ended, shared.running) == (n_threads * n_each, None)


def test_a_handle_of_another_predictor_is_refused(made: Made, predictor: Predictor) -> None:
    """Its admission's number may be one of this predictor's own, even for the same owner."""
    other = Predictor.load(made.folders["once"], is_history_kept=False)
    theirs = other.admit(made.request(0), 10**7)
    predictor.admit(made.request(0), 10**7)
    before = predictor._open.history.to_arrays()
    with pytest.raises(ValueError, match=r"vm must .*, got one of another"):
        predictor.ended(theirs, 10**7 + 9)
    with pytest.raises(ValueError, match=r"vm must .*, got one of another"):
        predictor.withdraw(theirs)
    assert {name: array.tobytes() for name, array in predictor._open.history.to_arrays().items()} == {
        name: array.tobytes() for name, array in before.items()}
    other.ended(theirs, 10**7 + 9)


def test_only_one_thread_can_end_a_request(made: Made, predictor: Predictor) -> None:
    vm = predictor.admit(made.request(0), 0)
    errors = in_threads(8, lambda number: predictor.ended(vm, 10))
    assert len(errors) == 7
    assert all(isinstance(error, ValueError) for error in errors)
    assert predictor.counters["ended"] == 1


EXTENSION = "sojourn.serving.native.compiled"
BARE = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BANNED or name == sys.argv[2]:
            raise ImportError(name + " is blocked")
BANNED = {"numba", "llvmlite", "pandas", "pyarrow", "lightgbm", "scipy", "sklearn", "sksurv", "mlflow", "prefect",
          "onnx", "matplotlib", "plotly", "pydantic", "rich", "dask"}
sys.meta_path.insert(0, Blocker())
from sojourn.serving import Predictor
folder, request, uptimes = json.loads(sys.argv[1])
predictor = Predictor.load(folder)
vm = predictor.admit(request, 20_000_000)
print(json.dumps([predictor.info()["is_compiled"], [vm.remaining(u) for u in uptimes], vm.survival(60, 60),
                  vm.quantile(0.9, 60), vm.next_change(60) if vm.next_change(60) < 1e300 else None]))
assert not BANNED & {name.split(".")[0] for name in sys.modules}
assert not {"sojourn.models", "sojourn.features", "sojourn.simulator", "sojourn.flows"} & set(sys.modules)
"""


@pytest.mark.parametrize("is_native", [True, False])
@KINDS
def test_numpy_and_onnxruntime_are_enough(made: Made, kind: str, is_native: bool) -> None:
    """In a process where nothing else can be imported, with and without the extension, and to the same bits."""
    request = {name: value.item() if isinstance(value, np.generic) else value
               for name, value in made.request(11).items()}
    arguments = json.dumps([str(made.folders[kind]), request, UPTIMES_S])
    found = subprocess.run([sys.executable, "-c", BARE, arguments, "" if is_native else EXTENSION],
                           capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    vm = Predictor.load(made.folders[kind]).admit(request, 20_000_000)
    change_s = vm.next_change(60)
    assert json.loads(found.stdout) == [
        is_native and NATIVE is not None, [vm.remaining(uptime_s) for uptime_s in UPTIMES_S], vm.survival(60, 60),
        vm.quantile(0.9, 60), change_s if change_s < 1e300 else None]


def test_a_time_on_another_clock_than_the_traces_is_refused(made: Made, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.folders["hazard"], tmp_path / "undated"))
    rewrite_schema(folder, lambda schema: schema.update(training={"history_to_s": 2_419_200}))
    predictor = Predictor.load(folder)
    assert predictor.info()["clock"] == "the training trace's own"
    vm = predictor.admit(made.request(0), 2_419_200)
    request = made.request(0)
    for ask in (predictor.admit, predictor.predict, lambda asked, now_s: predictor.remaining_many([asked], [0], now_s)):
        ask(request, 2_419_200 + 10 * 31_557_600)
        with pytest.raises(ValueError, match=r"on the own clock of the training trace, which has no dates and "
                                             r"ends at 2419200; got 1795000000"):
            ask(request, 1_795_000_000)
    with pytest.raises(ValueError, match="now_s must be seconds on the own clock of the training trace"):
        predictor.ended(vm, 1_795_000_000)  # would teach the owner's history a lifetime of 57 years
    with pytest.raises(ValueError, match="now_s must be seconds on the own clock of the training trace"):
        predictor.predict(request, datetime(2026, 11, 1, tzinfo=UTC))
    predictor.ended(vm, 2_419_300)


def _dated(made: Made, tmp_path: Path) -> Predictor:
    folder = Path(shutil.copytree(made.folders["hazard"], tmp_path / "dated"))
    rewrite_schema(folder, lambda schema: schema.update(
        phase_s=UNIX_PHASE_S, training={"history_to_s": 1_792_419_200, "start_unix_s": 1_790_000_000}))
    return Predictor.load(folder)


def test_a_model_of_a_dated_trace_takes_unix_time_in_any_form(made: Made, tmp_path: Path) -> None:
    predictor, request = _dated(made, tmp_path), made.request(0)
    assert predictor.info()["clock"] == "Unix seconds"
    at = datetime(2026, 11, 1, 13, 30, tzinfo=timezone(timedelta(hours=2)))
    forms: tuple[Any, ...] = (1_793_532_600, 1_793_532_600.9, np.int64(1_793_532_600), np.float64(1_793_532_600.5), at)
    answers = [predictor.predict(request, now_s) for now_s in forms]
    assert {one.arrival_s for one in answers} == {1_793_532_600}
    assert len({one.remaining(0) for one in answers}) == 1
    names = predictor.encoder.feature_names()  # 2026-11-01 11:30 UTC was a Sunday
    assert [answers[0].features[names.index(name)] for name in ("hour", "weekday")] == [11.5, 6.0]
    vm = predictor.admit(request, at, arrival_s=at - timedelta(hours=1))
    assert vm.arrival_s == 1_793_532_600 - 3_600
    predictor.ended(vm, at + timedelta(seconds=30))
    predictor.predict(request, 2_420_000_000)  # 2046: no model is too old for a clock that is known


@pytest.mark.parametrize("now_s", [2_419_200, 0, -1, 1_793_532_600_000, 1e18])
def test_a_model_of_a_dated_trace_refuses_other_clocks_and_units(made: Made, tmp_path: Path, now_s: float) -> None:
    predictor = _dated(made, tmp_path)
    vm = predictor.admit(made.request(0), 1_793_532_600)
    for ask in (partial(predictor.admit, made.request(0)), partial(predictor.ended, vm),
                partial(predictor.refresh, vm)):
        with pytest.raises(ValueError, match="now_s must be"):
            ask(now_s)
