"""`sojourn gain --preset queue`: what it chooses, from what, and what it says."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from made_jobs import swf_log
from sojourn.features.readers import read_trace
from sojourn.features.trace import Trace
from sojourn.flows.cli import app
from sojourn.flows.compare import queues
from sojourn.flows.compare.queues import (
    BASELINE,
    LAST_TWO,
    LIMITS,
    LONGEST_SHARE,
    Part,
    answers_of,
    choose,
    placed,
    queue_part,
)
from sojourn.flows.placement.predictors import parse_predictor
from sojourn.flows.placement.workloads import known_by
from sojourn.simulator import NoisyOracle, Oracle
from sojourn.simulator.queueing import (
    QueueJobs,
    QueueRules,
    RunTimes,
    compare_schedules,
    queue_jobs,
    replay_queue,
    requested,
)

DAY_S = 86_400


def unheard(*_: object) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return read_trace("swf", swf_log(tmp_path_factory.mktemp("log") / "jobs.swf", 1_200, days=14))[0]


@pytest.mark.slow
def test_it_says_hours_saved_and_writes_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = swf_log(tmp_path / "jobs.swf", 1_200, days=14)
    Path("jobs.swf.gz").write_bytes(gzip.compress(b"; MaxProcs: 99\n" + log.read_bytes(), mtime=0))
    done = CliRunner().invoke(app, ["gain", "jobs.swf.gz", "--preset", "queue", "--predictor", "km", "--json",
                                    "--processors", "13", "--page", "page.html", "--picture", "picture.png"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = pd.DataFrame(found["rows"])
    assert (rows["order"].iloc[0], rows["source"].iloc[0], rows["saved_wait_s"].iloc[0]) == ("fcfs", "limits", 0.0)
    assert rows["chosen"].sum() == 1 and {"limits", "last two", "km", "perfect"} <= set(rows["source"])
    assert "jobs.swf.gz, the last" in found["answers"][0] and "on 13 processors" in found["answers"][0]
    assert "chosen on the past" in " ".join(found["answers"])
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    assert "Waiting on jobs.swf.gz" in Path("page.html").read_text()
    assert Path("page.html").read_text().count("data:image/png") == 2, "waits, and a week's schedule"
    assert len(pd.read_csv("page-queues.csv")) == len(rows)
    past = pd.DataFrame(found["past"])
    assert past["chosen"].sum() == 1 and len(past) == 1 + 9 * 3
    assert Path("page.html").read_text().count("<table>") == 2, "the later part, and what was tried on the past"


@pytest.mark.parametrize("predictor", ["oracle", "one-shot:km", "noise:1", "refreshed:hazard", "cox", "no"])
def test_only_families_that_are_served_have_a_place_in_a_queue(predictor: str, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    swf_log(tmp_path / "jobs.swf", 300, days=4)
    done = CliRunner().invoke(app, ["gain", "jobs.swf", "--preset", "queue", "--predictor", predictor])
    assert done.exit_code == 2
    words = " ".join(done.stderr.replace("│", " ").split())
    assert "predictor must be one of km, gbdt-once, " in words
    assert f"online, blend with preset queue, got '{predictor}'" in words


@pytest.mark.parametrize(("words", "message"), [
    (("--preset", "queue", "--policy", "lava"), "policies must not be given with preset queue, which has no hosts"),
    (("--preset", "queue", "--n-seeds", "3"), "n_seeds must not be given with preset queue"),
    (("--processors", "8"), "processors must be given with preset queue only, got"),
])
def test_options_that_would_not_be_read_are_refused(words: tuple[str, ...], message: str, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["gain", *words])
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert message in done.stderr


def test_a_table_with_submissions_is_a_queue_too(trace: Trace) -> None:
    plain = Trace(trace.requests, trace.horizon_s, trace.roles)
    assert len(queue_jobs(plain, n_processors=13)) == len(queue_jobs(trace, n_processors=13)) > 1_000
    with pytest.raises(ValueError, match="trace must have a column of submissions"):
        queue_jobs(Trace(trace.requests.drop(columns="submit_s"), trace.horizon_s), n_processors=13)


def test_the_choice_does_not_see_the_later_part(trace: Trace, tmp_path: Path) -> None:
    """Other run times after the cut leave what was tried on the past as it was, to the last digit."""
    cut_s = int(trace.requests["submit_s"].quantile(0.7))
    is_later = (trace.requests["submit_s"] >= cut_s).to_numpy()
    other = trace.requests.copy()
    run_s = (other["departure_s"] - other["arrival_s"]).to_numpy()
    other["departure_s"] = other["arrival_s"] + np.where(is_later, np.maximum(run_s[::-1], 1), run_s)
    tables = []
    for number, requests in enumerate((trace.requests, other)):
        known = known_by(Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta), cut_s)
        part = queue_part(known, [parse_predictor("km")], (0.3, 0.15), tmp_path / str(number), n_processors=13)
        assert part.jobs.submission_s.max() < cut_s
        tables.append(choose(part, unheard))
    assert tables[0][:2] == tables[1][:2]
    pd.testing.assert_frame_equal(tables[0][2], tables[1][2])


def drawn_part(load: float, seed: int, n: int = 1_500) -> Part:
    """Jobs whose limits say nothing; 1,500 are some two weeks."""
    rng = np.random.default_rng(seed)
    processors = 16
    run_s = np.maximum(rng.lognormal(8.0, 1.0, n).astype(np.int64), 1)
    size = rng.integers(1, 5, n)
    submission_s = np.sort(rng.integers(0, int((run_s * size).sum() / (load * processors)), n))
    jobs = QueueJobs(submission_s, run_s, np.full(n, run_s.max()), size, processors, rng.integers(0, 20, n))
    return Part(jobs, {LIMITS: requested(jobs)})


def test_what_is_chosen_keeps_the_longest_wait() -> None:
    for seed in range(3):
        rules, name, tried = choose(drawn_part(0.9, seed), unheard)
        own = tried[(tried["order"] == rules.order) & (tried["source"] == name) & (
            tried["overtaken_s"].fillna(-1) == (-1 if rules.overtaken_s is None else rules.overtaken_s))]
        assert (own["max_wait_s"] <= LONGEST_SHARE * tried["max_wait_s"].iloc[0]).any()


def test_a_model_is_taken_if_it_is_level_and_not_if_it_is_noise() -> None:
    jobs = drawn_part(0.9, 0, 6_000).jobs
    perfect: dict[str, RunTimes] = {LIMITS: Oracle(jobs)}
    rules, name, _ = choose(Part(jobs, perfect), unheard)
    assert name == LIMITS and rules != BASELINE
    level: dict[str, RunTimes] = {**perfect, LAST_TWO: Oracle(jobs), "model": Oracle(jobs)}
    assert choose(Part(jobs, level), unheard)[:2] == (rules, "model")
    noise: dict[str, RunTimes] = {**perfect, LAST_TWO: Oracle(jobs), "model": NoisyOracle(jobs, 4.0)}
    assert choose(Part(jobs, noise), unheard)[:2] == (rules, LAST_TWO)
    short = drawn_part(0.9, 0).jobs
    assert choose(Part(short, {LIMITS: Oracle(short), "model": Oracle(short)}), unheard)[1] == LIMITS


@pytest.mark.parametrize(("load", "bound_s"), [(0.75, 21_600), (0.9, 43_200)])
def test_the_least_bound_is_taken_unless_it_is_worse(monkeypatch: pytest.MonkeyPatch, load: float,
                                                     bound_s: int) -> None:
    monkeypatch.setattr(queues, "LONGEST_SHARE", 10.0)  # all are fair
    for seed in range(2):
        jobs = drawn_part(load, seed, 6_000).jobs
        rules, _, tried = choose(Part(jobs, {LIMITS: Oracle(jobs)}), unheard)
        assert tried["overtaken_s"].iloc[int(tried["mean_slowdown"].argmin())] == 43_200
        assert rules.overtaken_s == bound_s


def test_an_idle_machine_keeps_what_it_has() -> None:
    rules, name, tried = choose(drawn_part(0.02, 0), unheard)
    assert (rules, name) == (BASELINE, LIMITS) and tried["mean_wait_s"].iloc[0] < 60


def test_a_log_without_its_machine_has_the_processors_that_ran_at_once(trace: Trace, tmp_path: Path) -> None:
    plain = Trace(trace.requests, trace.horizon_s, trace.roles, meta={"submit_column": "submit_s"})
    part = queue_part(plain, [], (0.3, 0.15), tmp_path)
    requests = trace.requests[trace.is_event()]
    times = requests["arrival_s"].to_numpy()
    running = [(requests["cpu_cores"][(requests["arrival_s"] <= at) & (requests["departure_s"] > at)]).sum()
               for at in times.tolist()]
    assert part.jobs.n_processors == max(running)


def test_nobody_s_last_two_are_no_source(trace: Trace, tmp_path: Path) -> None:
    bare = Trace(trace.requests.drop(columns="user"), trace.horizon_s, meta=trace.meta)
    assert list(queue_part(bare, [], (0.3, 0.15), tmp_path, n_processors=13).sources) == [LIMITS]


def test_a_drawn_week_has_each_job_on_free_processors() -> None:
    rng = np.random.default_rng(2)
    n, processors = 300, 9
    run_s = rng.integers(60, 40_000, n)
    jobs = QueueJobs(np.sort(rng.integers(0, 12 * DAY_S, n)), run_s, run_s, rng.integers(1, processors, n), processors)
    schedule = replay_queue(jobs, QueueRules(backfill_order="sjf"), requested(jobs))
    begin_s, end_s = 2 * DAY_S, 9 * DAY_S
    parts = placed(schedule, begin_s, end_s)
    rows = np.array([row for row, _, _ in parts])
    widths = np.bincount(rows, [high - low for _, low, high in parts], minlength=n)
    runs = (schedule.end_s > begin_s) & (schedule.start_s < end_s)
    assert widths.tolist() == np.where(runs, jobs.size, 0).tolist()
    held: list[tuple[int, int, int]] = []
    for row, low, high in parts:
        begun, ended = int(schedule.start_s[row]), int(schedule.end_s[row])
        for processor in range(low, high):
            assert not any(other == processor and begun < until and since < ended for other, since, until in held)
            held.append((processor, begun, ended))
    assert max(high for _, _, high in parts) <= processors


def test_a_model_is_compared_with_the_limits_in_the_same_order() -> None:
    jobs = drawn_part(0.9, 0, 6_000).jobs
    rules = QueueRules("sjf", "sjf")
    pairs: list[tuple[QueueRules, str, RunTimes]] = [
        (BASELINE, LIMITS, requested(jobs)), (rules, LIMITS, requested(jobs)), (rules, "perfect", Oracle(jobs)),
        (rules, "same", requested(jobs))]
    table = compare_schedules(((name, replay_queue(jobs, each, source)) for each, name, source in pairs), warmup_s=0)
    of = [table.assign(chosen=np.arange(4) == row) for row in range(4)]
    for chosen, words in ((2, f"by perfect is {table['order_ratio'].iloc[2]:.2f} ["), (3, "by same is 1.00 [1.00 to")):
        answers = answers_of("log", jobs, of[chosen], of[chosen])
        assert f"In the same order the slowdown {words}" in answers[2]
        assert ("The interval holds 1: the limits may do as well." in answers[2]) == (chosen == 3)
    worse = of[3].assign(order_ratio_low=1.01, order_ratio_high=1.5, saved_wait_s=-7_200.0, saved_wait_s_high=-3_600.0,
                         saved_wait_s_low=-10_800.0)
    answers = answers_of("log", jobs, worse, of[3])
    assert answers[2].endswith("of that by limits. The limits do better here.")
    assert answers[0].endswith("Jobs wait longer than before: keep what you have.")
    assert f": -2.00 h saved [-3.00 to -1.00; 95 %, {table['n_weeks'].iloc[0]} weeks]. The mean" in answers[0]
    without = {f"{name}_{end}": np.nan for name in ("saved_wait_s", "order_ratio") for end in ("low", "high")}
    answers = answers_of("log", jobs, worse.assign(**without), of[3])
    assert len(answers) == 2 and "h saved. The mean" in answers[0]
    assert "keep what you have. Fewer than 4 weeks are counted: there is no interval" in answers[0]
    assert not any(word in " ".join(answers) for word in ("nan", "[-]", "limits do better"))
    lost = worse.assign(saved_wait_s_high=60.0)
    answers = answers_of("log", jobs, lost, of[3])
    assert answers[0].endswith("keep what you have. The interval holds 0: the hours lost may be chance.")
    alone = answers_of("log", jobs, worse.assign(later_owners_pct=np.nan), of[3])
    assert "nan" not in " ".join(alone) and "of the users" not in " ".join(alone)
    idle = answers_of("log", jobs, worse.assign(mean_wait_s=59.0), of[3])
    assert len(idle) == 1 and idle[0].endswith("hardly any job waits, so there is nothing to save.")
    by_limits = answers_of("log", jobs, of[1], of[1].assign(max_wait_s=1.0))
    better = f"In the order sjf, by perfect, it was {table['mean_slowdown'].iloc[2]:.1f}: level within the noise"
    assert len(by_limits) == 2 and better in by_limits[1]
    assert "level within" not in answers_of("log", jobs, of[2], of[2].assign(max_wait_s=1.0))[1]


def test_a_rule_is_not_level_if_it_is_far_worse_whatever_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a few very bad weeks: the interval of its slowdown over that by limits holds 1."""
    jobs = drawn_part(0.9, 0, 6_000).jobs
    rng, week = np.random.default_rng(5), (jobs.submission_s - jobs.submission_s[0]) // (7 * DAY_S)
    is_bad = week == week[3_000]
    guessed_s = np.maximum(np.where(is_bad, rng.permutation(jobs.run_s), 0), jobs.run_s)
    part = Part(jobs, {LIMITS: Oracle(jobs), "model": requested(replace(jobs, limit_s=guessed_s))})
    monkeypatch.setattr(queues, "LONGEST_SHARE", 10.0)  # all are fair
    monkeypatch.setattr(queues, "LEVEL_MOST", np.inf)
    _, name, tried = choose(part, unheard)
    least = tried["mean_slowdown"].min()
    ratio = float(tried.loc[tried["chosen"], "mean_slowdown"].iloc[0]) / least
    assert name == "model" and ratio > 1.0
    monkeypatch.setattr(queues, "LEVEL_MOST", ratio - 0.001)
    _, _, tried = choose(part, unheard)
    assert float(tried.loc[tried["chosen"], "mean_slowdown"].iloc[0]) / least < ratio


def test_an_answer_names_what_the_log_does_not_say(trace: Trace, tmp_path: Path) -> None:
    bare = Trace(trace.requests.assign(requested_s=np.nan), trace.horizon_s, trace.roles,
                 meta={"submit_column": "submit_s"})
    whole = queue_part(trace, [], (0.3, 0.15), tmp_path, n_processors=13)
    assert whole.doubts == ()
    guessed, limits = queue_part(bare, [], (0.3, 0.15), tmp_path).doubts
    assert "Neither the log nor --processors says how many processors the machine has" in guessed
    assert "1,200 of 1,200 jobs have no limit: the longest limit, or run without one, stands for it" in limits
    cut, = queue_part(Trace(trace.requests.assign(requested_s=30.0), trace.horizon_s, trace.roles, meta=trace.meta), [],
                      (0.3, 0.15), tmp_path, n_processors=13).doubts
    assert "jobs ran longer than their limits; their runs are cut there." in cut
    narrow, = queue_part(trace, [], (0.3, 0.15), tmp_path, n_processors=3).doubts
    n_wide = int((trace.requests["cpu_cores"] > 3).sum())
    assert narrow == f"{n_wide} of 1,200 jobs are left out: wider than the machine."


@pytest.mark.slow
def test_a_queue_that_only_the_later_part_has_is_given_a_priority(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [line.split() for line in swf_log(tmp_path / "made.swf", 900, days=12).read_text().splitlines()
            if not line.startswith(";")]
    for at, row in enumerate(rows):
        row[14] = "3" if at > 870 else str(1 + at % 2)  # the queue
    Path("jobs.swf").write_text("; MaxProcs: 13\n" + "".join(f"{' '.join(row)}\n" for row in rows))
    asked = ["gain", "jobs.swf", "--preset", "queue", "--predictor", "km", "--json", "--queue", "1:2"]
    done = CliRunner().invoke(app, [*asked, "--queue", "3:5:9"])
    assert done.exit_code == 0, done.output
    waits = [json.loads(one.stdout)["rows"][0]["mean_wait_s"] for one in (done, CliRunner().invoke(app, asked[:-2]))]
    assert waits[0] != waits[1], "priorities change the queue"
    wrong = CliRunner().invoke(app, [*asked, "--queue", "4:1"])
    assert wrong.exit_code == 2
    assert "queues must be of the trace (1, 2, 3), got '4'" in wrong.stderr
