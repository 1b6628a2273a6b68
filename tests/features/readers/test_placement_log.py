"""The extender's own log read back: placements and ends of a made cluster, over restarts, and what was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from learnt_bundle import learn_trace
from made_pods import maker
from sojourn.features import Trace
from sojourn.features.readers import read_trace
from sojourn.serving import Predictor
from sojourn.serving.extender.calls import ExtenderCalls
from sojourn.serving.extender.nodes import Drains, Nodes, PodColumns
from sojourn.serving.inputs import clock_zero_s

HOURS = 8
WEEK_S = 604_800


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trace, list[Any]]:
    """A bundle trained on the first hours of a made cluster, its trace, and the cluster's pods."""
    made = maker()
    folder = tmp_path_factory.mktemp("recorded")
    pods = made.cluster(0.5, 16, 0)
    watch = folder / "watch.json"
    until_s = made.START_S + HOURS * 3_600
    watch.write_text("".join(made.event_line(kind, seen) for kind, seen in made.watch(pods, until_s)))
    trace, _ = read_trace("kubernetes", watch)
    return learn_trace(trace, folder, {"num_leaves": 4, "learning_rate": 0.3}).folder, trace, pods


class Extender:
    """One process of an extender that logs, and is told of all pods at given times."""

    def __init__(self, bundle: Path, log: Path, epoch_s: int | None = None) -> None:
        self.now_s = 0
        self.predictor = Predictor.load(bundle)
        self.predictor.log_to(log, epoch_s=epoch_s)
        epoch_s = clock_zero_s(self.predictor.encoder.phase_s) if epoch_s is None else epoch_s
        nodes = Nodes(self.predictor, PodColumns.of(self.predictor.encoder), epoch_s=epoch_s, n_pods_max=10_000)
        self.calls = ExtenderCalls(nodes, Drains("x"), epoch_s=epoch_s, clock=lambda: self.now_s)

    def tell(self, pods: list[Any], now_s: int) -> None:
        self.now_s = now_s
        made = maker()
        seen = [made.seen_at(pod, now_s) for pod in pods if pod.created_s <= now_s < made._gone_s(pod)]
        assert self.calls.running({"items": seen})[0] == 200

    def stop(self) -> None:
        self.predictor.stop_logging()


def test_a_trained_column_is_read_of_a_pod_as_in_training(recorded: tuple[Path, Trace, list[Any]]) -> None:
    bundle, trace, pods = recorded
    made = maker()
    columns = PodColumns.of(Predictor.load(bundle).encoder)
    rows = trace.requests.set_index("request_id")
    assert {"namespace", "controller", "kind", "image", "restart_policy", "cpu_cores", "gpu"} <= columns.sources.keys()
    n_seen = 0
    for each in pods:
        if each.uid in rows.index:
            request = columns.request(made.seen_at(each, each.created_s))  # as the scheduler asks, before it is placed
            assert request == {column: rows[column].to_dict()[each.uid] for column in request}
            n_seen += 1
    assert n_seen == len(trace)


def test_the_log_gives_the_pods_that_were_placed_and_their_ends(recorded: tuple[Path, Trace, list[Any]],
                                                                tmp_path: Path) -> None:
    bundle, _, pods = recorded
    begin_s = maker().START_S + HOURS * 3_600
    extender = Extender(bundle, tmp_path / "log")
    for minute in range(0, 121, 10):
        extender.tell(pods, begin_s + 60 * minute)
    extender.stop()
    trace, report = read_trace("kubernetes", tmp_path / "log")
    assert trace.meta["start_unix_s"] == begin_s and trace.roles.owners == ("namespace", "controller")
    assert report.n_read == report.n_kept + report.n_joined + report.n_refused
    assert not trace.roles.categories and any("has no categories" in note for note in report.notes)
    rows, n_batch = trace.requests.set_index("request_id"), 0
    for each in pods:
        if each.uid not in rows.index:
            continue
        row = rows.loc[each.uid]
        assert row["arrival_s"] == each.started_s and row["cpu_cores"] == each.workload.cores
        if each.is_batch and each.ended_s <= begin_s + 7_200:
            assert row["departure_s"] == each.ended_s
            n_batch += 1
        elif each.ended_s > begin_s + 7_200:
            assert pd.isna(row["departure_s"])
    assert n_batch > 10


def test_a_logged_start_that_cannot_be_is_when_the_pod_was_learnt_of(recorded: tuple[Path, Trace, list[Any]],
                                                                     tmp_path: Path) -> None:
    """As an extender logged that took year 1 for a start."""
    predictor = Predictor.load(recorded[0])
    predictor.log_to(tmp_path / "log")
    zero_s = clock_zero_s(predictor.encoder.phase_s)
    now_s = maker().START_S + HOURS * 3_600 - zero_s
    for name, arrival_s in (("year 1", -62_135_596_800 - zero_s), ("plain", now_s - 60)):
        vm = predictor.admit({"cpu_cores": 1.0}, now_s, arrival_s=arrival_s, request_id=name)
        predictor.ended(vm, now_s + 600)
    predictor.stop_logging()
    rows = read_trace("kubernetes", tmp_path / "log")[0].requests.set_index("request_id")
    assert (rows["departure_s"] - rows["arrival_s"]).to_dict() == {"year 1": 600, "plain": 660}


def test_what_ended_between_two_processes_is_drawn_between_them(recorded: tuple[Path, Trace, list[Any]],
                                                                tmp_path: Path) -> None:
    bundle, _, pods = recorded
    begin_s = maker().START_S + HOURS * 3_600
    going = [each for each in pods if each.started_s < begin_s and each.ended_s > begin_s + 3 * 3_600]
    for n_left, hour in ((0, 0), (3, 2)):  # three pods are gone when the second process begins
        extender = Extender(bundle, tmp_path / "log")
        for minute in (0, 30):
            extender.tell(going[n_left:], begin_s + 3_600 * hour + 60 * minute)
        extender.stop()
    trace, report = read_trace("kubernetes", tmp_path / "log")
    rows = trace.requests.set_index("request_id")
    n_of_node = sum(each.workload.kind == "DaemonSet" for each in going)
    assert len(trace) == len(going) - n_of_node  # the others are placed anew, and are the same requests
    gone = rows[rows["departure_s"].notna()]
    assert set(gone.index) == {each.uid for each in going[:3] if each.workload.kind != "DaemonSet"}
    assert ((gone["departure_s"] > begin_s) & (gone["departure_s"] <= begin_s + 7_200)).all()
    assert any("between two processes of the extender" in note for note in report.notes)


@pytest.mark.parametrize("epochs_s", [(-WEEK_S, -WEEK_S), (-WEEK_S, None), (-WEEK_S, -3 * WEEK_S)])
def test_each_process_is_read_on_the_clock_that_it_was_given(
        recorded: tuple[Path, Trace, list[Any]], tmp_path: Path, epochs_s: tuple[int | None, ...]) -> None:
    bundle, _, pods = recorded
    begin_s = maker().START_S + HOURS * 3_600
    for hour, epoch_s in enumerate(epochs_s):
        extender = Extender(bundle, tmp_path / "log", epoch_s)
        for minute in (0, 30, 59):
            extender.tell(pods, begin_s + 3_600 * hour + 60 * minute)
        extender.stop()
    trace, _ = read_trace("kubernetes", tmp_path / "log")
    assert trace.meta["start_unix_s"] == begin_s
    rows = trace.requests.set_index("request_id")
    ended = [each for each in pods if each.uid in rows.index and each.is_batch and each.ended_s <= begin_s + 2 * 3_540
             and each.started_s >= begin_s]
    assert len(ended) > 5
    for each in ended:
        assert rows.loc[each.uid, "arrival_s"] == each.started_s
    assert (rows["departure_s"].dropna() <= begin_s + 2 * 3_600).all()


def test_a_damaged_log_loses_what_it_cannot_tell(recorded: tuple[Path, Trace, list[Any]], tmp_path: Path) -> None:
    bundle, _, pods = recorded
    begin_s = maker().START_S + HOURS * 3_600
    extender = Extender(bundle, tmp_path / "log")
    for minute in (0, 30, 60):
        extender.tell(pods, begin_s + 60 * minute)
        extender.predictor.flush_decisions()
    extender.stop()
    whole = len(read_trace("kubernetes", tmp_path / "log")[0])
    file = next((tmp_path / "log").glob("decisions-*.log"))
    content = bytearray(file.read_bytes())
    content[-300:-280] = bytes(20)
    file.write_bytes(content)
    trace, report = read_trace("kubernetes", tmp_path / "log")
    assert trace.is_event().all() and len(trace) < whole  # nothing is taken to run on that may have ended unseen
    assert report.refused["end may be among lost records"] > 0
    assert any(note.startswith("check: 1 damaged or cut stretches") for note in report.notes)


def test_an_empty_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "decisions-1772344800000-0123456789abcdef-000000.log").write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{tmp_path}: must hold at least one placement, got none in 1 files"):
        read_trace("kubernetes", tmp_path)
