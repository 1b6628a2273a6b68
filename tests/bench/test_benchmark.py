"""The public benchmark: what it refuses, its scores by hand, and the committed board."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench import tasks
from bench.board import BOARD, build, ranks_of
from bench.end_to_end import END_TO_END, Decided, EndQuestion, Plain, question_of, replayed, system
from bench.evaluate import MEASURES, Measure, Score, between, evaluate
from bench.methods import HOUR_FIT
from bench.submission import (
    RESULTS,
    Starts,
    read_curves,
    read_entry,
    read_placements,
    read_starts,
    write_curves,
    write_decisions,
    write_placements,
    write_starts,
    write_system,
)
from bench.tasks import (
    AGES_S,
    DATA,
    HORIZONS_S,
    VERSION,
    Task,
    load_task,
    task_names,
)
from sojourn.simulator import Oracle, simulate


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
    (lambda rows: rows.pop(), r"must have a row for each request_id of the task \([\d,]+\), got none"),
    (cell(2, 0, "x"), r"row 3: request_id must be one that the task asks of, got x"),
    (lambda rows: rows[0].reverse(), r"row 1: columns must be request_id,host_0.7_0,host_0.9_0,host_0.7_1,host_0.9_1"),
    (cell(2, 4, "99"), r"row 3: host_0.9_1 must be a whole number from -1 \(rejected\) to below the number of hosts"),
    (cell(2, 2, "-1"), r"host_0.9_0, row 3: host must not be -1 \(rejected\) if a host has room, got -1 with room on"),
    (lambda rows: [row.__setitem__(1, "0") for row in rows[1:]],
     r"host_0.7_0, row \d+: host must have room for the request, got host 0, which has too little at second \d+"),
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


def test_a_full_pool_may_reject_and_the_file_says_so(place: Task, tmp_path: Path) -> None:
    """Two hosts for the later part: most are rejected, and no other file with one rejection more is valid."""
    task, path = replace(place), tmp_path / "x.csv.gz"
    few = {key: replace(each, hosts=each.hosts.iloc[:2]) for key, each in place.workloads.items()}
    task.__dict__.update(trace=place.trace, workloads=few)
    hosts = {key: simulate(each, "first-fit").host for key, each in few.items()}
    assert (hosts[0.7, 0] < 0).sum() > 20
    write_placements(path, task, hosts)
    assert all((found == hosts[key]).all() for key, found in read_placements(path, task).items())
    placed = np.flatnonzero(hosts[0.9, 1] >= 0)
    for at in placed[[0, 7, -1]].tolist():
        more = hosts | {(0.9, 1): np.where(np.arange(len(few[0.9, 1].need)) == at, -1, hosts[0.9, 1])}
        write_placements(path, task, more)
        with pytest.raises(ValueError, match=r"host_0.9_1, row \d+: host must not be -1 .* with room on host"):
            read_placements(path, task)


def test_an_arrangement_is_drawn_with_all_its_loads(place: Task, tmp_path: Path) -> None:
    task, path = replace(place), tmp_path / "x.csv.gz"
    of_one = {key: each for key, each in place.workloads.items() if key[1] == 0}
    task.__dict__.update(trace=place.trace, workloads=of_one)
    write_placements(path, task, {key: simulate(each, "first-fit").host for key, each in of_one.items()})
    for score in evaluate(task, path).values():
        assert score.draws.min() == score.draws.max() == score.value  # one arrangement: nothing else can be drawn


def test_the_hour_fit_extends_a_host_by_an_hour_or_the_least(place: Task) -> None:
    workload = place.workloads[0.9, 1]
    host, end_s, free = simulate(workload, HOUR_FIT, Oracle(workload)).host, workload.departure_s, workload.capacity
    n_long = 0
    for row, now_s in enumerate(workload.placed_s.tolist()):
        runs = (host[:row] >= 0) & (end_s[:row] > now_s)
        left = free.copy()
        np.subtract.at(left, host[:row][runs], workload.need[:row][runs])
        exit_s = np.full(len(free), -1)
        np.maximum.at(exit_s, host[:row][runs], end_s[:row][runs])
        fitting = (left >= workload.need[row]).all(axis=1)
        longer_s = end_s[row] - exit_s
        in_use = np.flatnonzero(fitting & (exit_s >= 0))
        within = in_use[longer_s[in_use] <= 3_600]
        n_long += len(in_use) > 0 and len(within) == 0
        wanted = (within[0] if len(within) else in_use[np.argmin(longer_s[in_use])] if len(in_use) else
                  np.argmax(fitting) if fitting.any() else -1)
        assert host[row] == wanted
    assert n_long > 5


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
            "code": f"bench.methods:METHODS.{name}", "version": VERSION, "tasks": ["end-tiny-lite"], "checks": {}}
        (tmp_path / "results" / name / "config.json").write_text(json.dumps(config))
        decided = {key: Decided(host, np.full(len(host), 8.0)) for key, host in first_fits(end).items()}
        path = tmp_path / "results" / name / "end-tiny-lite.csv.gz"
        write_decisions(path, end, {key: each.host for key, each in decided.items()},
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
    ("version", 2, "version must be 3, got 2"), ("method", "y", "method must be the name of its folder, x, got 'y'"),
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
    (tmp_path / "tiny.swf").write_text((folder / "tiny.swf").read_text()[:-100])
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


@pytest.mark.slow
def test_the_committed_board_is_what_the_committed_entries_score() -> None:
    texts = build([task for task in map(load_task, task_names()) if task.is_lite], RESULTS)
    committed, found = pd.read_csv(BOARD / "lite.csv"), pd.read_csv(StringIO(texts["csv"]))
    pd.testing.assert_frame_equal(found, committed, rtol=1e-5)
    assert found.groupby("task")["method"].nunique().drop("end-synthetic-lite").min() >= 7
