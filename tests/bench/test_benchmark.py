"""The public benchmark: what it refuses, its scores by hand, the search for leaks, and the committed board."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from bench import tasks
from bench.board import BOARD, build, ranks_of
from bench.board import main as board_main
from bench.end_to_end import END_TO_END, Decided, EndQuestion, Plain, question_of, replayed, system
from bench.evaluate import MEASURES, Measure, Score, between, entries, evaluate
from bench.evaluate import main as evaluate_main
from bench.methods import METHODS, PlaceQuestion, Placing, PredictQuestion, Queue, QueueQuestion
from bench.run import LeakFound, find_leak, find_place_leak, find_queue_leak
from bench.run import main as run_main
from bench.submission import (
    RESULTS,
    Starts,
    read_curves,
    read_entry,
    read_placements,
    read_starts,
    write_curves,
    write_placements,
    write_starts,
    write_system,
)
from bench.tasks import AGES_S, BENCH, DATA, HORIZONS_S, Task, load_task, made_future, table_digest, task_names
from sojourn.features import Trace
from sojourn.features.synthetic import synthesize
from sojourn.simulator import Oracle, simulate

SWF = "".join(f"{job:5} {70 * job} -1 {run_s} {size} -1 -1 {size} {limit_s} -1 1 {user} 1 -1 -1 -1 -1 -1\n"
              for job, (run_s, limit_s, size, user) in enumerate(
                  [(300, 600, 2, 1), (50, 900, 1, 2), (200, 900, 3, 1), (90, 200, 1, 3)] * 30, 1))
HEAD = "; UnixStartTime: 749458803\n; MaxProcs: 4\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small task of each track, in a folder with the log that one of them names."""
    made = tmp_path_factory.mktemp("tasks")
    (made / "tiny.swf").write_text(HEAD + SWF)
    digest = hashlib.sha256((HEAD + SWF).encode()).hexdigest()
    words = 'version = 2\n[source]\nwhere = "made"\nlicence = "none"\n'
    (made / "predict-tiny-lite.toml").write_text(
        f'track = "predict"\n{words}reader = "synthetic"\nn_requests = 1500\nseed = 3\ndays = 20\n'
        f'sha256 = "{table_digest(synthesize(1500, seed=3, days=20.0))}"\n'
        "[predict]\ntest_shares = [0.6, 0.8]\nn_requests = 60\nlong_s = 3600\nseed = 5\n")
    (made / "place-tiny-lite.toml").write_text(
        f'track = "place"\n{words}reader = "synthetic"\nn_requests = 1500\nseed = 3\ndays = 20\n'
        f'sha256 = "{table_digest(synthesize(1500, seed=3, days=20.0))}"\n[place]\ntest_share = 0.7\n'
        'curves = "oracle"\nloads = [0.7, 0.9]\nn_arrangements = 2\ncpu_cores = 16\nmem_gib = 64\nseed = 5\n')
    (made / "end-tiny-lite.toml").write_text(
        (made / "place-tiny-lite.toml").read_text().replace('"place"', '"end"').replace("[place]", "[end]")
        .replace('curves = "oracle"\n', ""))
    (made / "queue-tiny-lite.toml").write_text(
        f'track = "queue"\n{words}reader = "swf"\nfiles = [{{ path = "tiny.swf", sha256 = "{digest}" }}]\n'
        "[queue]\ntest_share = 0.5\nwarmup_s = 600\nblock_s = 1200\nseed = 5\n")
    return made


@pytest.fixture(scope="module")
def predict(folder: Path) -> Task:
    return load_task("predict-tiny-lite", folder)


@pytest.fixture(scope="module")
def queue(folder: Path) -> Task:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA, str(folder))
        task = load_task("queue-tiny-lite", folder)
        assert len(task.jobs) == 60 and len(task.before) > 50
        return task


@pytest.fixture(scope="module")
def place(folder: Path) -> Task:
    return load_task("place-tiny-lite", folder)


@pytest.fixture(scope="module")
def end(folder: Path) -> Task:
    return load_task("end-tiny-lite", folder)


def exponential(task: Task, mean_s: float = 3_000.0) -> np.ndarray:
    """A curve for every row."""
    of_age = np.exp(-np.array(HORIZONS_S) / mean_s)
    return np.broadcast_to(of_age, (len(task.asked) // len(AGES_S), len(AGES_S), len(HORIZONS_S)))


def changed(path: Path, change: Callable[[list[list[str]]], Any]) -> Path:
    """The file with its cells changed in place."""
    rows = [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    change(rows)
    path.write_bytes(gzip.compress("".join(",".join(row) + "\n" for row in rows).encode()))
    return path


def cell(row: int, column: int, text: str) -> Callable[[list[list[str]]], Any]:
    return lambda rows: rows[row].__setitem__(column, text)


@pytest.mark.parametrize(("change", "words"), [
    (lambda rows: rows.pop(), r"must have a row for each request_id,age_s of the task \(480\), got none for .*,21600"),
    (lambda rows: rows.append(rows[1]), r"row 482: request_id,age_s must be there once, got .*,0 also in row 2"),
    (lambda rows: rows.append(["x", *rows[1][1:]]), r"row 482: request_id,age_s must be one that the task asks of"),
    (cell(1, 1, "60"), r"row 2: request_id,age_s must be one that the task asks of, got .*,60"),
    (lambda rows: rows[0].append("score"), r"row 1: columns must be request_id,age_s,s_10,.* got .*,score"),
    (cell(3, 2, "nan"), r"row 4: s_10 must be a finite number, got 'nan'"),
    (cell(3, 2, "one"), r"row 4: s_10 must be a finite number, got 'one'"),
    (cell(3, 2, "1.01"), r"row 4: s_10 must be from 0 to 1, got 1.01"),
    (cell(3, 20, "-0.1"), r"row 4: s_2592000 must be from 0 to 1, got -0.1"),
    (cell(3, 5, "0.999999"), r"row 4: s_120 must be at most that of the shorter horizon, got 0.999999"),
    (lambda rows: rows[7].pop(), r"row 8: must have 21 cells, got 20"),
])
def test_a_file_of_curves_is_refused_by_file_row_rule_and_value(predict: Task, tmp_path: Path, change: Any,
                                                                words: str) -> None:
    path = tmp_path / "x.csv.gz"
    write_curves(path, predict, exponential(predict))
    assert read_curves(path, predict).shape == (120, 4, 19)
    with pytest.raises(ValueError, match=words) as error:
        read_curves(changed(path, change), predict)
    assert str(path) in str(error.value)


def one_by_one(task: Task) -> Starts:
    """A schedule without two jobs at once, with intervals that hold all waits."""
    jobs = task.jobs
    ends = np.cumsum(jobs.run_s) + jobs.submission_s[-1]
    start_s = ends - jobs.run_s
    return Starts(start_s, np.stack([jobs.submission_s, start_s], axis=1))


@pytest.mark.parametrize(("change", "words"), [
    (lambda rows: rows.pop(5), r"must have a row for each job_id of the task \(60\), got none for"),
    (lambda rows: rows.append(rows[5]), r"row 62: job_id must be there once"),
    (cell(2, 1, "0"), r"row 3: start_s must be at least the job's submission, \d+, got 0 \(job 62\)"),
    (cell(2, 1, "7.5"), r"row 3: start_s must be a whole number of seconds from 0 on, got 7.5"),
    (cell(2, 1, "inf"), r"row 3: start_s must be a finite number, got 'inf'"),
    (cell(2, 2, ""), r"row 3: eta_low_s must be a finite number, got ''"),
    (lambda rows: rows[2].__setitem__(slice(2, 4), rows[2][3:1:-1]), r"row 3: eta_high_s must be at least eta_low_s"),
    (lambda rows: [row.__setitem__(1, rows[60][1]) for row in rows[57:]],
     r"row \d+: processors in use must be at most 4, got 6 at second \d+"),
])
def test_a_schedule_is_refused_by_file_row_rule_and_value(queue: Task, tmp_path: Path, change: Any,
                                                          words: str) -> None:
    path = tmp_path / "x.csv.gz"
    starts = one_by_one(queue)
    write_starts(path, queue, starts)
    assert (read_starts(path, queue).start_s == starts.start_s).all()
    with pytest.raises(ValueError, match=words) as error:
        read_starts(changed(path, change), queue)
    assert str(path) in str(error.value)


def first_fits(task: Task) -> dict[tuple[float, int], np.ndarray]:
    return {key: simulate(workload, "first-fit").host for key, workload in task.workloads.items()}


@pytest.mark.parametrize(("change", "words"), [
    (lambda rows: rows.pop(), r"must have a row for each load,arrangement,request_id of the task \([\d,]+\), got none"),
    (cell(2, 0, "0.8"), r"row 3: load,arrangement,request_id must be one that the task asks of, got 0.8,1,"),
    (cell(2, 3, "99"), r"row 3: host must be a whole number from -1 \(rejected\) to below the number of hosts, got 99"),
    (cell(2, 3, "-1"), r"row 3: host must not be -1 \(rejected\) if a host has room, got -1 with room on host 3"),
    (lambda rows: [row.__setitem__(3, "0") for row in rows[1:]],
     r"row \d+: host must have room for the request, got host 0, which has too little at second \d+"),
])
def test_placements_are_refused_by_file_row_rule_and_value(place: Task, tmp_path: Path, change: Any,
                                                           words: str) -> None:
    path = tmp_path / "x.csv.gz"
    write_placements(path, place, first_fits(place))
    with pytest.raises(ValueError, match=words) as error:
        read_placements(changed(path, change), place)
    assert str(path) in str(error.value)


def test_the_placement_scores_are_those_of_the_simulator(place: Task, tmp_path: Path) -> None:
    """Two programs that count the same: means over loads and arrangements, since each has the same span and hosts."""
    path, results = tmp_path / "x.csv.gz", [simulate(each, "first-fit") for each in place.workloads.values()]
    write_placements(path, place, first_fits(place))
    spans = np.array([len(each.hosts) * (each.trace.horizon_s - each.warmup_s) for each in place.workloads.values()])
    empty = np.array([result.metrics.empty_hosts_pct for result in results])
    bound = np.array([result.bound_empty_hosts_pct for result in results])
    found = evaluate(place, path)
    assert found["empty_pct"].value == pytest.approx(float(empty @ spans / spans.sum()), rel=1e-9)
    above = 100 * float((bound - empty) @ spans / ((100 - bound) @ spans))
    assert found["above_bound_pct"].value == pytest.approx(above, rel=1e-9)
    rejected = sum(result.metrics.n_rejected for result in results)
    assert found["rejected_pct"].value == pytest.approx(
        100 * rejected / sum(result.metrics.n_requests for result in results))


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
    peeking = OwnOracle()
    with pytest.raises(LeakFound, match="another host for request"):
        find_place_leak(peeking, question, peeking.place(question))


@pytest.mark.parametrize("name", ["best-fit", "first-fit"])
def test_policies_that_are_asked_one_by_one_place_as_the_simulators(end: Task, name: str) -> None:
    for workload in end.workloads.values():
        found = replayed(END_TO_END[f"end-{name}"].begin(question_of(end, workload)), workload, end.cut_s)
        assert found.host.tolist() == simulate(workload, name).host.tolist()
        assert (found.each_us > 0.0).all() and len(found.each_us) == len(workload.trace)


@dataclass
class Noting:
    """First fit that notes what it hears of."""

    heard: list[tuple[str, int]]
    inner: Any

    def arrive(self, name: str, request: Any, need: np.ndarray, now_s: int, start_s: int) -> int:
        assert start_s <= now_s and set(request) <= {"cpu_cores", "mem_gib", "disk_gib", "subscription", "deployment",
                                                     "zone", "vm_category"}
        self.heard.append((f"+{name}", now_s))
        return int(self.inner.arrive(name, request, need, now_s, start_s))

    def ended(self, name: str, now_s: int) -> None:
        self.heard.append((f"-{name}", now_s))
        self.inner.ended(name, now_s)


def test_an_agent_hears_of_nothing_before_it_happens(end: Task) -> None:
    workload = end.workloads[0.9, 1]
    agent = Noting([], Plain("", "first-fit").begin(question_of(end, workload)))
    replayed(agent, workload, end.cut_s)
    times_s = [now_s for _, now_s in agent.heard]
    assert times_s == sorted(times_s) and times_s[0] == end.cut_s
    names = workload.trace.requests["request_id"].astype(str)
    departure_s = dict(zip(names, workload.departure_s.tolist(), strict=True))
    ends = {text[1:]: now_s for text, now_s in agent.heard if text[0] == "-"}
    assert ends and all(now_s == end.cut_s + departure_s[name] for name, now_s in ends.items())
    assert (end.past.end_s()[end.past.is_event()] <= end.cut_s).all()
    assert (end.past.start_s() < end.cut_s).all()


class Overfull:
    """Places all on host 0."""

    def begin(self, question: EndQuestion) -> Any:
        return self

    def arrive(self, name: str, request: Any, need: np.ndarray, now_s: int, start_s: int) -> int:
        return 0


def test_an_agent_cannot_place_on_a_host_without_room(end: Task) -> None:
    workload = end.workloads[0.9, 1]
    with pytest.raises(ValueError, match=r"a host must have room for request \d+, got host 0 of \d+"):
        replayed(Overfull().begin(question_of(end, workload)), workload, end.cut_s)


def test_times_of_decisions_are_of_a_named_machine_and_have_no_rank(end: Task, tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASKS", tmp_path)
    for name in ("end-best-fit", "end-first-fit"):
        (tmp_path / "results" / name).mkdir(parents=True)
        config: dict[str, Any] = {
            "method": name, "title": "x", "authors": "x", "division": "closed", "knows_future": False,
            "code": f"bench.methods:METHODS.{name}", "version": 2, "tasks": ["end-tiny-lite"], "checks": {}}
        (tmp_path / "results" / name / "config.json").write_text(json.dumps(config))
        decided = {key: Decided(host, np.full(len(host), 8.0)) for key, host in first_fits(end).items()}
        path = tmp_path / "results" / name / "end-tiny-lite.csv.gz"
        write_placements(path, end, {key: each.host for key, each in decided.items()},
                         {key: each.each_us for key, each in decided.items()})
        with pytest.raises(ValueError, match=r"system.json must say for end-tiny-lite file_sha256, processor, cores"):
            evaluate(end, path)
        write_system(read_entry(path.parent), "end-tiny-lite", system())
    found = evaluate(end, path)
    assert found["decision_p99_us"].value == 8.0 and found["decision_p99_us"].interval == (8.0, 8.0)
    (tmp_path / "results" / "not-run").mkdir()  # its config.json is written before it is run: it stops no board
    begun = config | {"method": "not-run", "tasks": []}
    (tmp_path / "results" / "not-run" / "config.json").write_text(json.dumps(begun))
    text = build([end], tmp_path / "results")
    assert f"{system()['cores']} cores" in text["md"] and "not-run" not in text["md"]
    rows = pd.read_csv(StringIO(text["csv"]))
    is_timed = rows["measure"].str.startswith("decision_")
    assert rows["rank"][is_timed].isna().all() and rows["rank"][~is_timed].notna().all()
    changed(path, cell(1, 4, "7.0"))
    with pytest.raises(ValueError, match=r"system.json: file_sha256 of end-tiny-lite must be [0-9a-f]{64}, got"):
        evaluate(end, path)
    write_system(read_entry(path.parent), "end-tiny-lite", system())
    changed(path, cell(1, 4, "-7.0"))
    write_system(read_entry(path.parent), "end-tiny-lite", system())
    with pytest.raises(ValueError, match=r"row 2: decision_us must be at least 0, got -7.0"):
        evaluate(end, path)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("version", 1, "version must be 2, got 1"), ("method", "y", "method must be the name of its folder, x, got 'y'"),
    ("division", "middle", "division must be one of closed, open, got 'middle'"),
    ("tasks", ["queue-none"], "each of tasks must have a file TASK.csv.gz in the folder, got 'queue-none'"),
    ("knows_future", 1, "knows_future must be a bool, got 1"), ("brier", 0.1, "must have the keys method, title"),
])
def test_an_entry_that_states_something_else_is_refused(tmp_path: Path, key: str, value: object, words: str) -> None:
    config = json.loads((RESULTS / "km" / "config.json").read_text()) | {"method": "x", key: value}
    for name in config["tasks"]:
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / f"{name}.csv.gz").touch()
    if key == "tasks":
        (tmp_path / "x" / "queue-none.csv.gz").unlink()
    (tmp_path / "x" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=words):
        read_entry(tmp_path / "x")


def test_a_task_whose_trace_has_other_bytes_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                       tmp_path: Path) -> None:
    (tmp_path / "tiny.swf").write_text(HEAD + SWF[:-100])
    monkeypatch.setenv(DATA, str(tmp_path))
    with pytest.raises(ValueError, match=r"tiny.swf: sha256 must be [0-9a-f]{64}, got"):
        _ = load_task("queue-tiny-lite", folder).trace
    monkeypatch.delenv(DATA)
    with pytest.raises(ValueError, match=r"queue-tiny-lite: file must be in one of .*SOJOURN_BENCH_DATA"):
        _ = load_task("queue-tiny-lite", folder).trace
    with pytest.raises(ValueError, match=r"task must be one of end-tiny-lite, place-tiny-lite, .* got 'x'"):
        load_task("x", folder)


def test_every_task_is_read_and_names_its_source() -> None:
    loaded = [load_task(name) for name in task_names()]
    assert {task.track for task in loaded if task.is_lite} == set(MEASURES)
    for task in loaded:
        assert task.about and task.name.startswith(f"{task.track}-")
        for file in task.source.get("files", [{"sha256": task.source.get("sha256")}]):
            assert len(file["sha256"]) == 64


def test_the_brier_score_by_hand(predict: Task, tmp_path: Path) -> None:
    """Without censored rows, each row's weight is 1: the mean over log h of (runs after h - survival) squared."""
    task = replace(predict)
    requests = predict.trace.requests.assign(departure_s=pd.array(predict.trace.end_s(), "Int64"))
    task.__dict__.update(trace=replace(predict.trace, requests=requests), folds=predict.folds)
    path = tmp_path / "x.csv.gz"
    write_curves(path, task, exponential(task))
    survival = read_curves(path, task)[0, 0]  # of 3 decimals
    lifetime_s = task.trace.lifetime_s()[task.ids.get_indexer(pd.Index(task.asked["request_id"].unique()))]
    sums, n_rows = 0.0, 0
    for age_s in AGES_S:
        left_s = np.sort(lifetime_s[lifetime_s > age_s] - age_s)
        times = [h for h in HORIZONS_S if h <= left_s[int(0.95 * (len(left_s) - 1))]]
        at = [((left_s > h) - survival[HORIZONS_S.index(h)]) ** 2 for h in times]
        whole = np.log(times[-1] / times[0])
        for k in range(len(times) - 1):
            sums += float(((at[k] + at[k + 1]) / 2 * np.log(times[k + 1] / times[k]) / whole).sum())
        n_rows += len(left_s)
    assert evaluate(task, path)["brier"].value == pytest.approx(sums / n_rows, rel=1e-12)


def test_right_curves_cover_and_narrow_ones_do_not(predict: Task, tmp_path: Path) -> None:
    task, rng = replace(predict), np.random.default_rng(1)
    requests = predict.trace.requests
    start_s = predict.trace.start_s()
    end_s = start_s + np.ceil(rng.exponential(3_000.0, len(requests))).astype(np.int64) + 1
    end_s = np.maximum(end_s, predict.trace.begin_s)
    requests = requests.assign(departure_s=pd.array(end_s, "Int64"))
    task.__dict__.update(trace=replace(predict.trace, requests=requests, horizon_s=int(end_s.max())),
                         folds=predict.folds)
    found = {}
    for name, survival in (("right", exponential(task)), ("narrow", exponential(task) > np.exp(-1.0))):
        write_curves(tmp_path / "x.csv.gz", task, survival)
        found[name] = evaluate(task, tmp_path / "x.csv.gz")
    low, high = found["right"]["coverage_80"].interval
    assert low < 0.8 < high and high - low < 0.2
    assert found["narrow"]["coverage_80"].value < 0.3
    assert found["right"]["brier"].value < found["narrow"]["brier"].value


def test_survival_between_horizons_is_linear_in_the_log_of_the_time() -> None:
    row = np.linspace(0.9, 0.0, len(HORIZONS_S))[None]
    middle_s = np.sqrt((1 + 30) * (1 + 60)) - 1.0
    assert between(row, np.array([middle_s]))[0] == pytest.approx((row[0, 1] + row[0, 2]) / 2)
    assert between(row, np.array([0.0]))[0] == 1.0


def test_the_queue_scores_by_hand(queue: Task, tmp_path: Path) -> None:
    starts = one_by_one(queue)
    write_starts(tmp_path / "x.csv.gz", queue, starts)
    jobs = queue.jobs
    rows = [k for k in range(60) if jobs.submission_s[k] >= queue.cut_s + 600]
    waits = [int(starts.start_s[k] - jobs.submission_s[k]) for k in rows]
    slowdowns = [max(1.0, (wait + jobs.run_s[k]) / max(jobs.run_s[k], 10)) for wait, k in zip(waits, rows, strict=True)]
    found = evaluate(queue, tmp_path / "x.csv.gz")
    assert found["slowdown"].value == pytest.approx(float(np.mean(slowdowns)))
    assert found["longest_wait_h"].value == max(waits) / 3_600
    assert found["eta_coverage"].value == 1.0
    assert found["eta_score_h"].value == pytest.approx(float(np.mean(waits)) / 3_600)
    late = replace(starts, eta_s=np.asarray(starts.eta_s) - np.array([0, 60]) * (starts.start_s > jobs.submission_s)[
        :, None])
    write_starts(tmp_path / "x.csv.gz", queue, late)
    found = evaluate(queue, tmp_path / "x.csv.gz")  # each starts 60 s late: 60 s narrower, 10 x 60 s of cost
    assert found["eta_score_h"].value == pytest.approx((float(np.mean(waits)) + 9 * 60) / 3_600)
    write_starts(tmp_path / "x.csv.gz", queue, Starts(starts.start_s))
    assert np.isnan(evaluate(queue, tmp_path / "x.csv.gz")["eta_coverage"].value)


def test_equal_entries_share_a_rank_and_a_missing_score_has_none() -> None:
    one, two = Score(0.7, np.array([0.7, 0.75])), Score(0.9, np.array([0.9, 0.8]))
    nothing = Score(float("nan"), np.full(2, np.nan))
    assert ranks_of({"a": one, "b": two, "c": one, "d": nothing}, Measure("coverage", 0.8)) == {
        "a": (1, 1, 2), "b": (1, 1, 1), "c": (1, 1, 2)}
    assert ranks_of({"a": one, "b": two}, Measure("AP", "higher"))["b"] == (1, 1, 1)


def test_a_random_entry_is_ranked_below_kaplan_meier(tmp_path: Path) -> None:
    name = "predict-nasa-lite"
    task = load_task(name)
    scores = {"km": evaluate(task, RESULTS / "km" / f"{name}.csv.gz")}
    for seed in range(1):
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.random((len(task.asked), len(HORIZONS_S))), axis=1)[:, ::-1]
        write_curves(tmp_path / "x.csv.gz", task, rows)
        scores[f"random {seed}"] = evaluate(task, tmp_path / "x.csv.gz")
    for measure in ("brier", "ap_long"):
        ranks = ranks_of({each: score[measure] for each, score in scores.items()}, MEASURES["predict"][measure])
        assert ranks["km"][0] == 1 and all(ranks[each][0] > 1 for each in scores if each != "km")
    assert ranks_of({each: score["brier"] for each, score in scores.items()},
                    MEASURES["predict"]["brier"])["km"] == (1, 1, 1)


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


@pytest.mark.parametrize("kind", ["own end", "labels of the test window", "what is asked of later", "nothing"])
def test_the_search_for_leaks_in_a_predictor(predict: Task, kind: str) -> None:
    method, fold = Peeking(kind), predict.folds[0]
    survival = method.predict(PredictQuestion(predict.trace, fold))
    if kind == "nothing":
        find_leak(method, predict, fold, survival, 0)
        return
    with pytest.raises(LeakFound, match="predict-tiny-lite: an answer must not change with what happens later"):
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


def test_an_outsider_runs_a_method_and_sees_it_on_the_board(
        folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the code and the config.json of the README."""
    readme = (BENCH / "README.md").read_text()
    (code,), (config,) = (re.findall(rf"```{kind}\n(.*?)```", readme, re.S) for kind in ("python", "json"))
    (tmp_path / "my_method.py").write_text(code)
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
    assert evaluate_main(["predict-tiny-lite", "--results", str(results)]) == 0
    assert "my-method           brier" in capsys.readouterr().out
    assert board_main(["--results", str(results), "--out", str(board)]) == 0
    assert "| my-method | 1 |" in (board / "lite.md").read_text()
    assert "<td>fcfs</td>" in (board / "lite.html").read_text()
    path = results / "my-method" / "predict-tiny-lite.csv.gz"
    changed(path, cell(1, 2, "0.6"))
    assert not read_entry(results / "my-method").is_checked("predict-tiny-lite")  # the file is no longer the run's
    changed(path, cell(1, 2, "2"))
    assert board_main(["--results", str(results), "--out", str(board)]) == 1
    assert "row 2: s_10 must be from 0 to 1, got 2.0" in capsys.readouterr().err


@pytest.mark.slow
def test_the_committed_board_is_what_the_committed_entries_score() -> None:
    texts = build([task for task in map(load_task, task_names()) if task.is_lite], RESULTS)
    committed, found = pd.read_csv(BOARD / "lite.csv"), pd.read_csv(StringIO(texts["csv"]))
    pd.testing.assert_frame_equal(found, committed, rtol=1e-5)
    assert found.groupby("task")["method"].nunique().drop("end-synthetic-lite").min() >= 7
