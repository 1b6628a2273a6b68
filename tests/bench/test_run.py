"""What `bench.run` does: an entrant's method, its errors, and the search for leaks."""

from __future__ import annotations

import contextlib
import gzip
import json
import multiprocessing
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from bench import run as run_module
from bench import tasks
from bench.board import main as board_main
from bench.evaluate import checked_scores, entries, evaluate
from bench.evaluate import main as evaluate_main
from bench.methods import METHODS, PlaceQuestion, Placing, PredictQuestion, Queue, QueueQuestion
from bench.run import (
    LeakFound,
    answers_of,
    find_leak,
    find_place_leak,
    find_queue_leak,
    made_ends,
    method_of,
    placed,
    scheduled,
    search,
)
from bench.run import main as run_main
from bench.submission import RESULTS, Entry, Starts, read_entry, write_curves
from bench.tasks import AGES_S, BENCH, DATA, HORIZONS_S, Task, load_task, made_future
from sojourn.features import Trace
from sojourn.simulator import Oracle, simulate


@dataclass(frozen=True)
class OwnOracle:
    """NILAS by the true ends of the workload that it gets, instead of the task's curves."""

    def place(self, question: PlaceQuestion) -> np.ndarray:
        return simulate(question.workload, "nilas", Oracle(question.workload)).host


def test_the_search_for_leaks_in_a_placement(place: Task) -> None:
    workload = place.workloads[0.9, 1]
    question = PlaceQuestion(workload, place.curves(workload))
    for policy in ("nilas", "best-fit"):
        method: Any = Placing("", policy)  # reads the task's curves, which stay
        find_place_leak(method, question, method.place(question))
    assert len({made_ends(workload, workload.warmup_s, seed).resources for seed in range(9)}) == 1  # whatever is made
    peeking = OwnOracle()
    with pytest.raises(LeakFound, match="another host for request"):
        find_place_leak(peeking, question, peeking.place(question))


@dataclass(frozen=True)
class Peeking:
    """A predictor that adds to km what it should not know."""

    kind: str

    def predict(self, question: PredictQuestion) -> np.ndarray:
        trace, fold = question.trace, question.fold
        ids = trace.requests["request_id"].astype(str)
        place = pd.Index(ids).get_indexer(fold.request_ids)
        if self.kind == "own end":  # each request's lifetime
            mean_s = trace.lifetime_s()[place].astype(np.float64) + 1.0
        elif self.kind == "labels of the test window":
            is_late = (trace.start_s() >= fold.cut_s) & (trace.start_s() < fold.until_s)
            mean_s = np.full(len(place), trace.lifetime_s()[is_late].mean())
        elif self.kind == "what is asked of later":
            mean_s = np.full(len(place), float(trace.requests["cpu_cores"].iloc[place[-1]]) + trace.horizon_s % 7)
        else:
            past = trace.is_event() & (trace.end_s() <= fold.cut_s)
            mean_s = np.full(len(place), trace.lifetime_s()[past].mean())
        curves = np.exp(-np.array(HORIZONS_S)[None] / mean_s[:, None])
        return np.repeat(curves[:, None], len(AGES_S), axis=1)


_KEPT: dict[int, np.ndarray] = {}


class Cheat(Peeking):
    """Predictors that a search with one moment and the same object did not find, and a clean one that keeps things."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        object.__setattr__(self, "kept", {})

    def predict(self, question: PredictQuestion) -> np.ndarray:
        fold = question.fold
        if self.kind == "reads":
            load_task("queue-nasa-lite")
        if self.kind == "dies" and multiprocessing.parent_process():
            os._exit(3)
        if self.kind in ("reads", "clean", "dies"):
            return Peeking("nothing").predict(question)
        if self.kind == "a day ahead":
            return Peeking("nothing").predict(replace(question, fold=replace(fold, cut_s=fold.cut_s + 86_400)))
        kept: dict[int, np.ndarray] = self.__dict__["kept"] if self.kind == "object" else _KEPT
        return kept.setdefault(fold.cut_s, Peeking("own end").predict(question))


CHEATS = {kind: Cheat(kind) for kind in ("clean", "a day ahead", "object", "module", "reads", "dies")}


@pytest.mark.parametrize(("kind", "words"), [
    ("clean", ""), ("a day ahead", "another one for request"),
    *(pytest.param(kind, words, marks=pytest.mark.slow) for kind, words in (
        ("object", "another one for request"), ("module", "another one for request"),
        ("reads", "a method must read nothing .* opens queue-nasa-lite.toml"),
        ("dies", "the process of the search for leaks must answer, got"))),
])
def test_the_search_for_leaks_has_a_process_of_its_own(predict: Task, kind: str, words: str) -> None:
    code = f"{__name__}:CHEATS.{kind}"
    method = method_of(code)
    answers = answers_of(method, predict)
    if kind in ("object", "module"):  # the same object keeps what it answered first
        find_leak(method, predict, predict.folds[0], answers[0], 0)
    if not words:
        search(code, predict, answers)
        return
    with pytest.raises(ValueError, match=words) as error:
        search(code, predict, answers)
    assert isinstance(error.value, LeakFound) == (kind != "dies")


@pytest.mark.parametrize("name", ["queue", pytest.param("place", marks=pytest.mark.slow)])
def test_what_reads_the_log_or_knows_the_ends_is_found_in_its_own_process(
        request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(DATA, str(folder))
    task, code = request.getfixturevalue(name), f"{__name__}:{'READER' if name == 'queue' else 'OWN'}"
    with pytest.raises(LeakFound, match="opens tiny.swf" if name == "queue" else "another host for request"):
        search(code, task, answers_of(method_of(code), task))


class Reader:
    """First come, first served, by a method that looks at the log and hides what comes of it."""

    def schedule(self, question: QueueQuestion) -> Starts:
        with contextlib.suppress(ValueError):
            (Path(os.environ[DATA]) / "tiny.swf").read_text()
        return cast(Queue, METHODS["fcfs"]).schedule(question)


READER, OWN = Reader(), OwnOracle()


def test_an_entry_without_error_is_refused_unless_it_knows_the_future(predict: Task, tmp_path: Path) -> None:
    lifetime_s = predict.trace.lifetime_s()[predict.ids.get_indexer(pd.Index(predict.asked["request_id"].unique()))]
    left_s = lifetime_s[:, None] - np.array(AGES_S)
    steps = left_s[:, :, None] > np.array(HORIZONS_S)
    write_curves(tmp_path / "x.csv.gz", predict, steps)
    entry = Entry(tmp_path, "x", "x", "x", "open", "x", False, (), {})
    assert evaluate(predict, tmp_path / "x.csv.gz")["brier"].value == 0.0
    with pytest.raises(ValueError, match=r"x.csv.gz: the Brier score of an entry with knows_future = false must be ab"):
        checked_scores(entry, predict, tmp_path / "x.csv.gz")
    assert checked_scores(replace(entry, knows_future=True), predict, tmp_path / "x.csv.gz")["brier"].value == 0.0
    write_curves(tmp_path / "x.csv.gz", predict, np.where(np.arange(len(steps))[:, None, None] == 0, 0.5, steps))
    assert 0.0 < checked_scores(entry, predict, tmp_path / "x.csv.gz", 0)["brier"].value < 0.01


@pytest.mark.parametrize("kind", ["own end", "labels of the test window", "what is asked of later", "nothing"])
def test_the_search_for_leaks_in_a_predictor(predict: Task, kind: str) -> None:
    method, fold = Peeking(kind), predict.folds[0]
    survival = method.predict(PredictQuestion(predict.trace, fold))
    if kind == "nothing":
        find_leak(method, predict, fold, survival, 0)
        return
    with pytest.raises(LeakFound, match="an answer must not change with what happens later"):
        find_leak(method, predict, fold, survival, 0)


def test_the_future_is_made_up_and_the_past_is_not(predict: Task) -> None:
    trace, at_s = predict.trace, predict.folds[1].cut_s
    made = made_future(trace, at_s, 1)
    assert made.requests["request_id"].tolist() == trace.requests["request_id"].tolist()
    is_past = trace.is_event() & (trace.end_s() <= at_s)
    assert (made.end_s()[is_past] == trace.end_s()[is_past]).all() and (made.end_s()[~is_past] > at_s).all()
    is_begun = trace.start_s() <= at_s
    assert (made.start_s()[is_begun] == trace.start_s()[is_begun]).all()
    assert (made.start_s()[~is_begun] > at_s).all() and (made.lifetime_s() != trace.lifetime_s())[~is_past].mean() > 0.9
    columns = ["subscription", "cpu_cores"]
    pd.testing.assert_frame_equal(made.requests.loc[is_begun, columns], trace.requests.loc[is_begun, columns])


@pytest.mark.parametrize(("name", "is_leaking"), [("easy-plus-plus", False), ("easy", False), ("easy-oracle", True)])
def test_the_search_for_leaks_in_a_queue(queue: Task, name: str, is_leaking: bool) -> None:
    question = QueueQuestion(queue.jobs, queue.before, queue.known, queue.cut_s)
    method: Any = METHODS[name]
    starts = method.schedule(question)
    if not is_leaking:
        find_queue_leak(method, question, starts)
        return
    with pytest.raises(LeakFound, match="another start or interval for job"):
        find_queue_leak(method, question, starts)


@dataclass(frozen=True)
class ByLaterUsers:
    """First come, first served, but it waits for as long as the table of requests has a certain user at its end."""

    def schedule(self, question: QueueQuestion) -> Starts:
        starts = cast(Queue, METHODS["fcfs"]).schedule(question)
        users = question.known.requests["user"].astype(str).iloc[-20:]
        return Starts(starts.start_s + 3_600 * int("".join(users)[-15:]) % 1_009)


def test_a_queue_policy_that_reads_who_comes_later_is_found(queue: Task) -> None:
    question = QueueQuestion(queue.jobs, queue.before, queue.known, queue.cut_s)
    method = ByLaterUsers()
    with pytest.raises(LeakFound, match="another start or interval for job"):
        find_queue_leak(method, question, method.schedule(question))


def test_what_a_queue_policy_gets_ends_at_the_cut(queue: Task) -> None:
    known, later = queue.known, queue.known.requests["submit_s"] >= queue.cut_s
    assert known.requests["departure_s"][later].isna().all() and later.sum() == 60
    assert (known.end_s()[known.is_event()] <= queue.cut_s).all()
    assert (known.requests["arrival_s"][later] == known.requests["submit_s"][later]).all()
    assert (np.asarray(queue.before.recorded_end_s) <= queue.cut_s).all()
    assert isinstance(known, Trace) and "status" not in known.requests


def with_first_chance(path: Path, text: str) -> None:
    head, first, *rest = gzip.decompress(path.read_bytes()).decode().split("\n")
    cells = first.split(",")
    path.write_bytes(gzip.compress("\n".join([head, ",".join([*cells[:2], text, *cells[3:]]), *rest]).encode()))


def test_an_outsider_runs_a_method_and_sees_it_on_the_board(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the code and the config.json of the README."""
    readme = (BENCH / "README.md").read_text()
    codes, (config,) = (re.findall(rf"```{kind}\n(.*?)```", readme, re.S) for kind in ("python", "json"))
    (tmp_path / "my_method.py").write_text("\n".join(codes))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(DATA, str(folder))
    monkeypatch.setattr(tasks, "TASKS", folder)
    results, board = tmp_path / "results", tmp_path / "board"
    (results / "my-method").mkdir(parents=True)
    (results / "my-method" / "config.json").write_text(config)
    assert run_main(["my-method", "--results", str(results)]) == 0
    assert run_main(["fcfs", "--no-check", "--results", str(results)]) == 0
    assert run_main(["fcfs", "queue-none", "--results", str(results)]) == 1
    assert "predict-tiny-lite               0." in (printed := capsys.readouterr().out) and "no leak found" in printed
    assert [entry.is_checked(entry.tasks[0]) for entry in entries(results)] == [False, True]
    assert evaluate_main(["--method", "my-method", "--results", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "my-method           brier" in printed and "fcfs" not in printed
    assert board_main(["--results", str(results), "--out", str(board)]) == 0
    assert "| my-method | 1 |" in (board / "lite.md").read_text()
    assert "<td>fcfs</td>" in (board / "lite.html").read_text()
    path = results / "my-method" / "predict-tiny-lite.csv.gz"
    with_first_chance(path, "0.6")
    assert not read_entry(results / "my-method").is_checked("predict-tiny-lite")  # the file is no longer the run's
    with_first_chance(path, "2")
    assert board_main(["--results", str(results), "--out", str(board)]) == 1
    assert "row 2: s_10 must be from 0 to 1, got 2.0" in capsys.readouterr().err


def test_the_examples_of_queue_and_place_do_what_they_say(queue: Task, place: Task, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    codes = re.findall(r"```python\n(.*?)```", (BENCH / "README.md").read_text(), re.S)
    assert len(codes) == 3 and all(len(code.splitlines()) <= 20 for code in codes)
    (tmp_path / "my_examples.py").write_text("\n".join(codes))
    monkeypatch.syspath_prepend(tmp_path)
    question = QueueQuestion(queue.jobs, queue.before, queue.known, queue.cut_s)
    fcfs = cast(Queue, METHODS["fcfs"]).schedule(question)
    assert scheduled(method_of("my_examples:in_order"), question).start_s.tolist() == fcfs.start_s.tolist()
    for workload in place.workloads.values():
        found = placed(method_of("my_examples:first_fit"), PlaceQuestion(workload, place.curves(workload)))
        assert found.tolist() == simulate(workload, "first-fit").host.tolist()


class Wrong:
    """Methods whose answers or code are wrong."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, question: PredictQuestion) -> Any:
        return self.answer(question)


WRONG = {
    "raises": Wrong(lambda question: 1 / 0), "text": Wrong(lambda question: "x"),
    "shape": Wrong(lambda question: [0.5]),
    "above": Wrong(lambda question: np.full((len(question.fold.request_ids), len(AGES_S), len(HORIZONS_S)), 1.5)),
    "rises": Wrong(lambda question: np.tile(np.linspace(0.1, 0.9, len(HORIZONS_S)), (60, len(AGES_S), 1))),
}


@pytest.mark.parametrize(("code", "words"), [
    ("my_none:x", "my-method: code must be MODULE:OBJECT that Python can import here, got 'my_none:x': ModuleNotFound"),
    ("WRONG.raises", "predict-tiny-lite: the entry's own code must answer, got ZeroDivisionError: division by zero"),
    ("WRONG.text", "predict-tiny-lite: what predict gives must be numbers, got could not convert"),
    ("WRONG.shape", r"predict-tiny-lite: what predict gives must have the shape \(60, 4, 19\), got \(1,\)"),
    ("WRONG.above", r"what predict gives must be from 0 to 1, got 1.5 for request \S+ at age 0 s after 10 s more"),
    ("WRONG.rises", r"my-method/predict-tiny-lite.refused.csv.gz, row 2: s_30 must be at most that of the shorter"),
])
def test_an_error_of_an_entry_is_one_line_and_its_own_traceback(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str,
        words: str) -> None:
    monkeypatch.setattr(tasks, "TASKS", folder)
    (tmp_path / "my-method").mkdir()
    config = json.loads((RESULTS / "km" / "config.json").read_text())
    config |= {"method": "my-method", "code": code if ":" in code else f"{__name__}:{code}", "tasks": [], "checks": {}}
    (tmp_path / "my-method" / "config.json").write_text(json.dumps(config))
    assert run_main(["my-method", "--results", str(tmp_path)]) == 1
    line, *more = capsys.readouterr().err.splitlines()
    assert re.search(f"^refused: .*{words}", line)
    assert bool(more) == (code in ("my_none:x", "WRONG.raises"))
    if more:
        assert more[0] == "This is the traceback of the entry's code:" and "Error: " in more[-1]
    assert (tmp_path / "my-method" / "predict-tiny-lite.refused.csv.gz").is_file() == (code == "WRONG.rises")
    if code == "WRONG.raises":
        assert run_main(["my-method", "queue-tiny-lite", "--results", str(tmp_path)]) == 1
        assert "a method of this track must have schedule, got none" in capsys.readouterr().err
        (tmp_path / "my-method" / "config.json").write_text("[1]")
        for main, words in ((run_main, "my-method"), (evaluate_main, "--method=my-method"), (board_main, "")):
            asked = [words] if words else ["--out", str(tmp_path / "board")]
            assert main([*asked, "--results", str(tmp_path)]) == 1
            said = capsys.readouterr().err
            assert said.startswith("refused: ") and "config.json must have the keys method, title" in said
            assert said.endswith("got a list\n")


@dataclass(frozen=True)
class Both:
    """Two tracks in one object."""

    def predict(self, question: PredictQuestion) -> np.ndarray:
        return Peeking("nothing").predict(question)

    def place(self, question: PlaceQuestion) -> np.ndarray:
        return Placing("", "best-fit").place(question)


BOTH = Both()


def test_two_runs_of_an_entry_at_once_lose_nothing(folder: Path, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASKS", folder)
    (tmp_path / "both").mkdir()
    config = json.loads((RESULTS / "km" / "config.json").read_text())
    config |= {"method": "both", "code": f"{__name__}:BOTH", "tasks": [], "checks": {}}
    (tmp_path / "both" / "config.json").write_text(json.dumps(config))
    names = ["place-tiny-lite", "predict-tiny-lite"]
    with ThreadPoolExecutor(4) as pool:
        ends = [pool.submit(run_main, ["both", name, "--results", str(tmp_path), "--no-check"]) for name in names * 2]
        assert [end.result() for end in ends] == [0, 0, 0, 0]
    assert read_entry(tmp_path / "both").tasks == tuple(names)
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        "config.json", *(f"{name}.csv.gz" for name in names)]


def test_a_run_that_ends_in_its_middle_stops_no_board(folder: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "TASKS", folder)
    (tmp_path / "killed-before-its-first-file").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "search", killed)
        with pytest.raises(KeyboardInterrupt):
            run_main(["best-fit", "place-tiny-lite", "--results", str(tmp_path)])
    assert (tmp_path / "best-fit" / "place-tiny-lite.refused.csv.gz").is_file()
    assert entries(tmp_path) == []
    assert run_main(["best-fit", "place-tiny-lite", "--results", str(tmp_path), "--no-check"]) == 0
    assert [entry.method for entry in entries(tmp_path)] == ["best-fit"]
    assert not (tmp_path / "best-fit" / "place-tiny-lite.refused.csv.gz").exists()
