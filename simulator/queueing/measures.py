"""How long jobs waited: of all, by size and length, and of one schedule against another, with paired intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from sojourn.simulator.queueing.jobs import QueueJobs
from sojourn.simulator.queueing.replay import QueueRules, RunTimes, Schedule, replay_queue
from sojourn.simulator.whole_numbers import check_setting

LEAST_RUN_S = 10
"""Runs below this count as so long in a bounded slowdown (Feitelson 2001)."""
DAY_S, WEEK_S = 86_400, 7 * 86_400
N_WEEKS_MIN = 4
"""With fewer weeks an interval from weeks that are drawn again would be far too short: there is none."""
LATER_S = 60
"""An owner whose mean wait grows by more waits longer than before."""
SIZES = {"1": 1, "2 to 8": 8, "9 to 64": 64, "above 64": np.inf}
"""The largest size of each class, processors."""
LENGTHS_S = {"to 10 min": 600, "to 1 h": 3_600, "to 6 h": 21_600, "above 6 h": np.inf}
"""The longest run time of each class."""


def bounded_slowdown(schedule: Schedule) -> np.ndarray:
    """max(1, (wait + run) / max(run, 10 s)), float64 (n,); lower = better.

    >>> from sojourn.simulator.queueing import requested
    >>> jobs = QueueJobs(np.array([0, 0]), np.array([40, 5]), np.array([40, 5]), np.array([1, 1]), 1)
    >>> bounded_slowdown(replay_queue(jobs, QueueRules(), requested(jobs))).tolist()
    [1.0, 4.5]
    """
    run_s = schedule.jobs.run_s
    return np.maximum((schedule.wait_s + run_s) / np.maximum(run_s, LEAST_RUN_S), 1.0)


def counted(jobs: QueueJobs, warmup_s: int = 0) -> np.ndarray:
    """Jobs that are submitted at least `warmup_s` after the first one, bool (n,)."""
    check_setting(warmup_s, 0, "warmup_s")
    return np.asarray(jobs.submission_s >= jobs.submission_s[:1].sum() + warmup_s)


def queue_measures(schedule: Schedule, warmup_s: int = 0) -> dict[str, float]:
    """Measures of the counted jobs; lower is better but for utilisation. NaN without jobs.

    n_jobs; mean_, p95_, p99_ and max_wait_s; mean_ and p99_slowdown (bounded). utilisation_pct: of the machine, from
    the first counted submission to the last one (to the last end if there is only one second of submissions).
    promised_pct: jobs with a reservation; broken_pct: of these, those that started after it; mean_delay_s: start less
    the first reservation, over these, negative = earlier.

    >>> from sojourn.simulator.queueing import requested
    >>> jobs = QueueJobs(np.array([0, 0, 20]), np.array([40, 5, 5]), np.array([40, 5, 5]), np.array([1, 1, 1]), 1)
    >>> found = queue_measures(replay_queue(jobs, QueueRules(), requested(jobs)))
    >>> [round(found[name], 2) for name in ("mean_wait_s", "mean_slowdown", "utilisation_pct", "broken_pct")]
    [21.67, 2.83, 100.0, 0.0]
    """
    rows = counted(schedule.jobs, warmup_s)
    if not rows.any():
        return dict.fromkeys(_NAMES, float("nan")) | {"n_jobs": 0.0}
    wait_s, slowdown = schedule.wait_s[rows], bounded_slowdown(schedule)[rows]
    is_promised = schedule.reservation_s[rows] >= 0
    delay_s = pd.Series((schedule.start_s - schedule.reservation_s)[rows][is_promised])  # its mean may be NaN
    p95_s, p99_s = np.quantile(wait_s, (0.95, 0.99)).tolist()
    values = (len(wait_s), wait_s.mean(), p95_s, p99_s, wait_s.max(), slowdown.mean(), np.quantile(slowdown, 0.99),
              _utilisation_pct(schedule, rows), 100.0 * is_promised.mean(), 100.0 * (delay_s > 0).mean(),
              delay_s.mean())
    return {name: float(value) for name, value in zip(_NAMES, values, strict=True)}


_NAMES = ("n_jobs", "mean_wait_s", "p95_wait_s", "p99_wait_s", "max_wait_s", "mean_slowdown", "p99_slowdown",
          "utilisation_pct", "promised_pct", "broken_pct", "mean_delay_s")


def _utilisation_pct(schedule: Schedule, rows: np.ndarray) -> float:
    submission_s = schedule.jobs.submission_s[rows]
    begin, end = int(submission_s[0]), int(submission_s[-1])
    end = end if end > begin else int(schedule.end_s.max())
    busy_s = np.maximum(np.minimum(schedule.end_s, end) - np.maximum(schedule.start_s, begin), 0)
    return float(100.0 * (busy_s * schedule.jobs.size).sum() / (schedule.jobs.n_processors * (end - begin)))


def measures_by_class(schedule: Schedule, warmup_s: int = 0) -> pd.DataFrame:
    """Waits by class of size and of length (run time): rows indexed by (`by`, `class`), without empty classes; columns
    `n_jobs`, `mean_wait_s`, `p95_wait_s`, `mean_slowdown`.

    >>> from sojourn.simulator.queueing import requested
    >>> jobs = QueueJobs(np.array([0, 0]), np.array([40, 5]), np.array([40, 5]), np.array([1, 2]), 2)
    >>> measures_by_class(replay_queue(jobs, QueueRules(), requested(jobs)))["mean_wait_s"].to_dict()
    {('size', '1'): 0.0, ('size', '2 to 8'): 40.0, ('length', 'to 10 min'): 20.0}
    """
    jobs = schedule.jobs
    table = pd.DataFrame({"wait_s": schedule.wait_s, "slowdown": bounded_slowdown(schedule)})
    for by, classes, values in (("size", SIZES, jobs.size), ("length", LENGTHS_S, jobs.run_s)):
        table[by] = pd.cut(values, [0.0, *classes.values()], labels=list(classes))
    groups = {by: table[counted(jobs, warmup_s)].groupby(by, observed=True) for by in ("size", "length")}
    return pd.concat({by: group.agg(n_jobs=("wait_s", "size"), mean_wait_s=("wait_s", "mean"),
                                    p95_wait_s=("wait_s", lambda waits: waits.quantile(0.95)),
                                    mean_slowdown=("slowdown", "mean")) for by, group in groups.items()},
                     names=["by", "class"])


def compare_queues(jobs: QueueJobs, rules: Sequence[QueueRules], sources: Mapping[str, RunTimes], *,
                   warmup_s: int = WEEK_S, n_resamples: int = 2_000, seed: int = 0) -> pd.DataFrame:
    """Each rule with each source on the same jobs: a row each, the first one is the baseline.

    Columns: those of the rules, `source`, those of `queue_measures`, and against the first row `slowdown_ratio` (mean
    bounded slowdown over the first row's, lower = better) and `saved_wait_s` (mean wait below the first row's, higher
    = better), each with `_low` and `_high`: a 95 % interval. `order_ratio`, `_low`, `_high`: of mean bounded slowdowns,
    too, against the first row with the same rules. The weeks of submission are drawn again with replacement, the same
    for both rows of a pair; NaN with fewer than N_WEEKS_MIN whole ones (`n_weeks`; one may lack a day), and in the
    first row.
    `later_owners_pct`: owners whose mean wait is more than a minute longer than in the first row, lower = better; NaN
    without owners.

    warmup_s: jobs of the first so many seconds are replayed and not counted.

    >>> from sojourn.simulator import Oracle
    >>> from sojourn.simulator.queueing import requested
    >>> jobs = QueueJobs(np.array([0, 1, 2]), np.array([10, 10, 5]), np.array([10, 10, 50]), np.array([3, 4, 1]), 4)
    >>> table = compare_queues(jobs, [QueueRules()], {"requested": requested(jobs), "oracle": Oracle(jobs)}, warmup_s=0)
    >>> table[["source", "mean_wait_s", "saved_wait_s"]].values.tolist()
    [['requested', 9.0, 0.0], ['oracle', 3.0, 6.0]]
    """
    if not rules or not sources:
        raise ValueError(f"rules and sources must not be empty, got {len(rules)} and {len(sources)}")
    return compare_schedules(((name, replay_queue(jobs, rule, source)) for rule in rules
                              for name, source in sources.items()),
                             warmup_s=warmup_s, n_resamples=n_resamples, seed=seed)


def compare_schedules(schedules: Iterable[tuple[str, Schedule]], *, warmup_s: int = WEEK_S, n_resamples: int = 2_000,
                      seed: int = 0) -> pd.DataFrame:
    """The table of `compare_queues`, of schedules of the same jobs, each with the name of its source; one at a time."""
    found: list[dict[str, Any]] = []
    first: _Week | None = None
    of_rules: dict[QueueRules, _Week] = {}
    draws: np.ndarray = np.zeros((0, 0))
    for name, schedule in schedules:
        own = _Week.of(schedule, warmup_s)
        if first is None:
            first, n = own, len(own.n)
            submission_s = schedule.jobs.submission_s[counted(schedule.jobs, warmup_s)]
            n_weeks = (int(np.ptp(submission_s)) + DAY_S) // WEEK_S if n else 0
            draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), n_resamples) \
                if n_weeks >= N_WEEKS_MIN else np.zeros((0, n))
        same = of_rules.setdefault(schedule.rules, own)
        in_order = _against(own.sums, same.sums, same.n, draws if own is not same else draws[:0])
        found.append({**asdict(schedule.rules), "source": name, **queue_measures(schedule, warmup_s),
                      "n_weeks": n_weeks,
                      **_against(own.sums, first.sums, first.n, draws if own is not first else draws[:0]),
                      **{f"order_ratio{end}": in_order[f"slowdown_ratio{end}"] for end in ("", "_low", "_high")},
                      "later_owners_pct": 100.0 * float((own.owners_s > first.owners_s + LATER_S).mean())
                      if len(own.owners_s) else float("nan")})
    return pd.DataFrame(found)


@dataclass(frozen=True, slots=True)
class _Week:
    """Sums by week, float64 (2, n_weeks), of bounded slowdowns and waits of the counted jobs; jobs by week; mean waits
    of the owners, seconds."""

    sums: np.ndarray
    n: np.ndarray
    owners_s: np.ndarray

    @classmethod
    def of(cls, schedule: Schedule, warmup_s: int) -> _Week:
        jobs, rows = schedule.jobs, counted(schedule.jobs, warmup_s)
        _, week = np.unique((jobs.submission_s[rows] - jobs.submission_s[:1].sum()) // WEEK_S, return_inverse=True)
        sums = [np.bincount(week, values[rows]) for values in (bounded_slowdown(schedule), schedule.wait_s)]
        owner = np.asarray(jobs.owner)[rows]
        waits_s = pd.Series(schedule.wait_s[rows])[owner >= 0].groupby(owner[owner >= 0]).mean()
        return cls(np.stack(sums), np.bincount(week), waits_s.to_numpy())


def _against(sums: np.ndarray, baseline: np.ndarray, n_of_week: np.ndarray, draws: np.ndarray) -> dict[str, float]:
    """sums, baseline: float64 (2, n_weeks), of bounded slowdowns and waits. draws: (k, n_weeks), how often each week
    was drawn."""
    def figures(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own, first, n = weight @ sums.T, weight @ baseline.T, weight @ n_of_week
        return own[:, 0] / first[:, 0], (first[:, 1] - own[:, 1]) / n

    with np.errstate(invalid="ignore"):
        whole = figures(np.ones((1, len(n_of_week))))
    row: dict[str, float] = {}
    for name, value, drawn in zip(("slowdown_ratio", "saved_wait_s"), whole, figures(draws), strict=True):
        low, high = np.quantile(drawn, (0.025, 0.975)) if len(drawn) else (np.nan, np.nan)
        row |= {name: float(value[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
    return row
