"""Scores of submissions: the only scorer. Every figure is computed from a submission's rows and the task's trace.

    python -m bench.evaluate [TASK ...] [--method NAME] [--results FOLDER]

Prints a line for each task, entry and measure. `board` makes the ranks and pages of the same scores.

Intervals come from draws with replacement: of owners in a predict task, since requests of one owner are not
independent; of blocks of time (weeks, or what the task says) in a queue task; of arrangements in a place or end task,
each with all its loads, which the task fixes. The draws are those of the task's seed, the same for every entry, so that
differences and ranks are paired.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bench.submission import (
    RESULTS,
    Entry,
    Placements,
    read_curves,
    read_decisions,
    read_entry,
    read_placements,
    read_starts,
    read_system,
)
from bench.tasks import AGES_S, HORIZONS_S, Task, load_task, owner_codes, task_names
from sojourn.features.split import Examples
from sojourn.models.measures import (
    KaplanMeier,
    OwnerDraws,
    Ranking,
    censoring_curve,
    coarsest_owner,
    interval,
    outliving_weights,
)
from sojourn.simulator import Workload
from sojourn.simulator.measures.stranding import left_when_filled

N_DRAWS = 400
LEAST_RUN_S = 10
"""Runs below this count as so long in a bounded slowdown (Feitelson 2001)."""
N_MOMENTS = 8
"""Times at which stranding is measured."""
MISS = 2.0 / 0.2
"""What a start outside its 80 % interval costs, for each second outside (Gneiting and Raftery 2007, interval score)."""
Reweighed = Callable[[np.ndarray | None], float]
"""A score with each unit counted so many times (None = once)."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the board. better: lower, higher, or the value that is best, such as coverage at 0.8.

    is_ranked: no = each entry was measured on a machine of its own."""

    title: str
    better: str | float
    digits: int = 4
    is_ranked: bool = True

    def losses(self, values: np.ndarray) -> np.ndarray:
        """The same values, so that lower is better."""
        if isinstance(self.better, float):
            return np.abs(values - self.better)
        return values if self.better == "lower" else -values


MEASURES: Mapping[str, Mapping[str, Measure]] = MappingProxyType({
    "predict": MappingProxyType({
        "brier": Measure("Brier over ages", "lower"),
        **{f"brier_{age_s}s": Measure(f"Brier at {age_s} s", "lower") for age_s in AGES_S},
        "brier_seen": Measure("Brier, owners seen before", "lower"),
        "brier_new": Measure("Brier, new owners", "lower"),
        "coverage_80": Measure("share within the 80 % interval", 0.8, 3),
        "ap_long": Measure("AP of long-lived", "higher", 3),
    }),
    "queue": MappingProxyType({
        "slowdown": Measure("mean bounded slowdown", "lower", 2),
        "mean_wait_h": Measure("mean wait, h", "lower", 3),
        "longest_wait_h": Measure("longest wait, h", "lower", 1),
        "eta_coverage": Measure("starts within the 80 % interval", 0.8, 3),
        "eta_score_h": Measure("interval score of the start, h", "lower", 2),
    }),
    "place": MappingProxyType({
        "empty_pct": Measure("empty hosts, %", "higher", 2),
        "above_bound_pct": Measure("hosts in use above the bound, %", "lower", 2),
        "stranded_pct": Measure("stranded, %", "lower", 2),
        "rejected_pct": Measure("rejected, %", "lower", 2),
    }),
    "end": MappingProxyType({
        "empty_pct": Measure("empty hosts, %", "higher", 2),
        "above_bound_pct": Measure("hosts in use above the bound, %", "lower", 2),
        "stranded_pct": Measure("stranded, %", "lower", 2),
        "rejected_pct": Measure("rejected, %", "lower", 2),
        "decision_p50_us": Measure("decision, p50, us", "lower", 0, is_ranked=False),
        "decision_p99_us": Measure("decision, p99, us", "lower", 0, is_ranked=False),
    }),
})
"""Measures of each track; the first one leads."""


@dataclass(frozen=True, slots=True)
class Score:
    """A measure of one entry on one task. value: NaN if it has no such rows. draws: float64 (N_DRAWS,)."""

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        return interval(self.draws)


def evaluate(task: Task, path: Path, n_draws: int = N_DRAWS) -> dict[str, Score]:
    """The scores of a submission's file, by measure; ValueError if it breaks a rule."""
    prepared = (_predict(task, read_curves(path, task)) if task.track == "predict" else
                _queue(task, path) if task.track == "queue" else
                _place(task, read_placements(path, task)) if task.track == "place" else _end(task, path))
    weights = list(_draws(task, n_draws))
    return {name: Score(prepared[name](None), np.array([prepared[name](weight) for weight in weights]))
            if name in prepared else Score(float("nan"), np.full(n_draws, np.nan)) for name in MEASURES[task.track]}


def checked_scores(entry: Entry, task: Task, path: Path | None = None, n_draws: int = N_DRAWS) -> dict[str, Score]:
    """Of an entry's file of a task; ValueError also if it has no error at all and does not say that it knows the
    future. path: another file than that of its folder."""
    path = path or entry.file(task.name)
    scores = evaluate(task, path, n_draws)
    if not entry.knows_future and "brier" in scores and scores["brier"].value == 0.0:
        raise ValueError(f"{path}: the Brier score of an entry with knows_future = false must be above 0, got 0.0: "
                         "each curve is a step at the true end")
    return scores


def entries(folder: Path = RESULTS, method: str | None = None) -> list[Entry]:
    """All entries of a folder of results that have been run, by name; only those of a method, if one is named.

    A folder without files is none: a run that was killed may leave it."""
    if not folder.is_dir() or (method and not (folder / method).is_dir()):
        raise ValueError(f"{folder} must be a folder with a folder of results for {method or 'each method'}, got none")
    found = [read_entry(each, is_new=True) for each in sorted(folder.iterdir())
             if each.is_dir() and any(each.glob("[!.]*")) and method in (None, each.name)]
    return [entry for entry in found if entry.tasks]


# --- predict: rows are requests; each has a curve at each age


@dataclass(frozen=True, slots=True)
class _Truth:
    """What became of the asked requests. owner: codes to draw. is_seen: their owner had a request before the cut."""

    lifetime_s: np.ndarray
    is_event: np.ndarray
    owner: np.ndarray
    is_seen: np.ndarray


def _truth(task: Task) -> _Truth:
    trace, ids = task.trace, task.ids
    idx = np.concatenate([ids.get_indexer(fold.request_ids) for fold in task.folds])
    levels = owner_codes(trace, np.arange(len(trace)))
    owner = coarsest_owner([codes[idx] for codes in levels], len(idx))
    whole = next((codes for codes in levels if np.array_equal(codes[idx], owner)), None)
    is_seen = np.ones(len(idx), bool)
    if whole is not None:
        first_s = np.full(whole.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(first_s, whole[whole >= 0], trace.start_s()[whole >= 0])
        cut_s = np.concatenate([np.full(len(fold.request_ids), fold.cut_s) for fold in task.folds])
        is_seen = (owner >= 0) & (first_s[owner] < cut_s)
    return _Truth(trace.lifetime_s()[idx].astype(np.float64), trace.is_event()[idx], owner, is_seen)


def _predict(task: Task, survival: np.ndarray) -> dict[str, Reweighed]:
    """survival: (n, n_ages, n_horizons). Rows of one age count if the request was observed alive at it."""
    truth = _truth(task)
    n = len(truth.lifetime_s)
    found: dict[str, Reweighed] = {}
    added, n_asked = np.zeros(n), np.zeros(n)
    pits: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    rng = np.random.default_rng(int(task.rules["seed"]))
    for column, age_s in enumerate(AGES_S):
        idx = np.flatnonzero(truth.lifetime_s > age_s)
        place = rng.random(n)[idx]  # the same for every entry, whatever is asked
        if len(idx) == 0:
            continue
        alive = _examples(truth.lifetime_s[idx] - age_s, truth.is_event[idx])
        own = survival[idx, column]
        pits.append((idx, *_pit(own, alive, place)))
        part = _integrated(own, alive)
        if part is not None:
            at_age, n_at_age = np.zeros(n), np.zeros(n)
            at_age[idx], n_at_age[idx] = part, 1.0
            found[f"brier_{age_s}s"] = _ratio(at_age, n_at_age)
            added, n_asked = added + at_age, n_asked + n_at_age
    found["brier"] = _ratio(added, n_asked)
    for name, is_of in (("brier_seen", truth.is_seen), ("brier_new", ~truth.is_seen)):
        if is_of.any():
            found[name] = _ratio(added * is_of, n_asked * is_of)
    return found | {"coverage_80": _coverage(pits), "ap_long": _long_lived(task, survival[:, 0], truth)}


def _examples(lifetime_s: np.ndarray, is_event: np.ndarray) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 0)), (), lifetime_s, is_event, np.zeros(n), np.zeros(n, np.int64), np.arange(n))


def _ratio(added: np.ndarray, n_asked: np.ndarray) -> Reweighed:
    def measure(weight: np.ndarray | None) -> float:
        of = n_asked if weight is None else weight * n_asked
        total = float((added if weight is None else weight * added).sum())
        return total / float(of.sum()) if of.sum() > 0.0 else float("nan")

    return measure


def _integrated(survival: np.ndarray, alive: Examples) -> np.ndarray | None:
    """Each row's squared error of "still runs after h", float64 (k,), averaged over log h by trapezoids.

    Weighted by inverse probability of censoring (Graf et al. 1999), G of these rows. h: the horizons up to the time
    by which 95 % have ended or are censored; None if fewer than two are.
    """
    last_s = float(np.quantile(alive.lifetime_s, 0.95, method="lower"))
    n_times = sum(horizon_s <= last_s for horizon_s in HORIZONS_S)
    if n_times < 2:
        return None
    step = np.diff(np.log(HORIZONS_S[:n_times]))
    share = (np.append(step, 0.0) + np.append(0.0, step)) / (2.0 * step.sum())
    curve = censoring_curve(alive)
    before = curve.before(alive.lifetime_s)
    total = np.zeros(len(alive))
    for k, horizon_s in enumerate(HORIZONS_S[:n_times]):
        weight, _ = outliving_weights(curve, alive, float(horizon_s), before=before)
        total += share[k] * weight * ((alive.lifetime_s > horizon_s) - survival[:, k]) ** 2
    return total


def between(survival: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """The survival of each row at its own time, float64 (n,): linear in log(1 + time) between the horizons.

    At 0 it is 1, and after the last horizon it stays.

    >>> row = np.linspace(0.95, 0.05, len(HORIZONS_S))[None]
    >>> [round(float(between(row, np.array([time_s]))[0]), 3) for time_s in (0.0, 10.0, 1e9)]
    [1.0, 0.95, 0.05]
    """
    grid = np.log1p(np.array((0, *HORIZONS_S), np.float64))
    values = np.concatenate([np.ones((len(survival), 1)), survival], axis=1)
    at = np.log1p(np.clip(time_s, 0.0, HORIZONS_S[-1]))
    right = np.clip(np.searchsorted(grid, at), 1, len(grid) - 1)
    share = (at - grid[right - 1]) / (grid[right] - grid[right - 1])
    rows = np.arange(len(survival))
    return np.asarray(values[rows, right - 1] * (1.0 - share) + values[rows, right] * share)


def _pit(survival: np.ndarray, alive: Examples, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - survival at the end or the censoring, float64 (k,), and is_event. An end lies anywhere in its second, and
    anywhere in a jump there: the randomised PIT of Czado, Gneiting and Held (2009)."""
    low = 1.0 - between(survival, np.maximum(alive.lifetime_s - 0.5, 0.0))
    high = 1.0 - between(survival, alive.lifetime_s + 0.5)
    return np.where(alive.is_event, low + place * (high - low), high), alive.is_event


def _coverage(pits: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Reweighed:
    """The share of ends between the 10 % and the 90 % quantile, under censoring (Kaplan-Meier over PIT values)."""
    idx, value, is_event = (np.concatenate(column) for column in zip(*pits, strict=True))
    over = KaplanMeier.of(value, is_event, np.full(len(value), -1.0))

    def measure(weight: np.ndarray | None) -> float:
        left = over.survival_at(np.array([0.1, 0.9]), None if weight is None else weight[idx])
        return float(left[0] - np.nan_to_num(left[1]))

    return measure


def _long_lived(task: Task, survival: np.ndarray, truth: _Truth) -> Reweighed:
    """Average precision at creation of "runs longer than `long_s`", which must be a horizon."""
    long_s = int(task.rules["long_s"])
    rows = _examples(truth.lifetime_s, truth.is_event)
    of_row, _ = outliving_weights(censoring_curve(rows), rows, float(long_s))
    ranking = Ranking.of(truth.lifetime_s > long_s, survival[:, HORIZONS_S.index(long_s)])
    return lambda weight: ranking.curve(of_row if weight is None else of_row * weight).average_precision()


# --- queue: rows are blocks of time


def _counted_blocks(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the jobs that count, and the block of each, from 0 on; both int64."""
    submission_s = task.jobs.submission_s - task.cut_s
    idx = np.flatnonzero(submission_s >= int(task.rules["warmup_s"]))
    _, block = np.unique(submission_s[idx] // int(task.rules["block_s"]), return_inverse=True)
    return idx, block


def _queue(task: Task, path: Path) -> dict[str, Reweighed]:
    starts, jobs = read_starts(path, task), task.jobs
    idx, block = _counted_blocks(task)
    run_s, start_s = jobs.run_s[idx], starts.start_s[idx]
    wait_s = start_s - jobs.submission_s[idx]
    n = np.bincount(block).astype(np.float64)
    longest = np.zeros(len(n))
    np.maximum.at(longest, block, wait_s / 3_600)
    slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, LEAST_RUN_S), 1.0)
    found: dict[str, Reweighed] = {
        "slowdown": _ratio(np.bincount(block, slowdown), n),
        "mean_wait_h": _ratio(np.bincount(block, wait_s / 3_600), n),
        "longest_wait_h": lambda weight: float(longest[slice(None) if weight is None else weight > 0.0].max())}
    if starts.eta_s is not None:
        low, high = starts.eta_s[idx].T
        outside_s = np.maximum(low - start_s, 0) + np.maximum(start_s - high, 0)
        found |= {"eta_coverage": _ratio(np.bincount(block, outside_s == 0), n),
                  "eta_score_h": _ratio(np.bincount(block, (high - low + MISS * outside_s) / 3_600), n)}
    return found


# --- place: rows are loads and arrangements


def _end(task: Task, path: Path) -> dict[str, Reweighed]:
    read_system(path)
    hosts, times_us = read_decisions(path, task)
    each_us = list(times_us.values())

    def percentile(share: float) -> Reweighed:
        def measure(weight: np.ndarray | None) -> float:
            n_times = np.ones(len(each_us), np.int64) if weight is None else weight.astype(np.int64)
            drawn = [times for times, n in zip(each_us, n_times.tolist(), strict=True) for _ in range(n)]
            return float(np.quantile(np.concatenate(drawn), share))

        return measure

    return _place(task, hosts) | {"decision_p50_us": percentile(0.5), "decision_p99_us": percentile(0.99)}


def _place(task: Task, hosts: Placements) -> dict[str, Reweighed]:
    found = []
    for key, host in hosts.items():
        workload = task.workloads[key]
        placed_s, end_s = workload.placed_s, workload.departure_s
        is_placed = host >= 0
        used_s = _in_use_s(host[is_placed], placed_s[is_placed], end_s[is_placed], workload)
        time_s = np.append(workload.demand.time_s, workload.trace.horizon_s)
        length_s = np.maximum(np.diff(np.maximum(time_s, workload.warmup_s)), 0)
        room = workload.capacity[0]  # all hosts have one shape
        fewest = np.ceil(workload.demand.amount[:, room > 0] / room[room > 0]).max(axis=1)
        span_s = float(workload.trace.horizon_s - workload.warmup_s) * len(workload.hosts)
        is_late = placed_s >= workload.warmup_s
        found.append((span_s - used_s, span_s, float((fewest * length_s).sum()), float((is_late & ~is_placed).sum()),
                      float(is_late.sum()), stranded_share(workload, host, int(task.rules["seed"]))))
    empty_s, span_s, bound_s, rejected, n_late, stranded = 100.0 * np.array(found).T
    return {"empty_pct": _ratio(empty_s, span_s / 100.0), "rejected_pct": _ratio(rejected, n_late / 100.0),
            "above_bound_pct": _ratio(span_s - empty_s - bound_s, bound_s / 100.0),
            "stranded_pct": _ratio(stranded, np.ones(len(stranded)))}


def stranded_share(workload: Workload, host: np.ndarray, seed: int) -> float:
    """The share of the binding resource, 0..1, that no request could use (LAVA, section 2.3), a mean over moments.

    At N_MOMENTS times, evenly from the warm-up to the horizon, the hosts are filled with requests that had arrived,
    drawn again and again in an order of the seed, by best fit, until none fits; what is free then is stranded.
    """
    moments = []
    for time_s in np.linspace(workload.warmup_s, workload.trace.horizon_s - 1, N_MOMENTS).astype(np.int64).tolist():
        runs = (host >= 0) & (workload.placed_s <= time_s) & (time_s < workload.departure_s)
        free, n_running = workload.capacity.copy(), np.bincount(host[runs], minlength=len(workload.capacity))
        np.subtract.at(free, host[runs], workload.need[runs])
        moments.append((time_s, free, n_running, [seed, time_s]))
    return float(left_when_filled(workload, moments)[:, 1, 0].mean())  # the first resource is the binding one


def _in_use_s(host: np.ndarray, placed_s: np.ndarray, end_s: np.ndarray, workload: Workload) -> float:
    """Host-seconds between the warm-up and the horizon in which a host holds a request."""
    begin_s, horizon_s = workload.warmup_s, workload.trace.horizon_s
    from_s, to_s = np.clip(placed_s, begin_s, horizon_s), np.clip(end_s, begin_s, horizon_s)
    total = 0
    for each in np.unique(host):
        order = np.flatnonzero(host == each)
        order = order[np.argsort(from_s[order], kind="stable")]
        last = np.maximum.accumulate(np.append(begin_s, to_s[order]))
        total += int(np.maximum(to_s[order] - np.maximum(from_s[order], last[:-1]), 0).sum())
    return float(total)


def _draws(task: Task, n_draws: int) -> Iterator[np.ndarray]:
    """How often each row of a task counts in each draw."""
    unit = (_truth(task).owner if task.track == "predict" else
            np.array([arrangement for _, arrangement in task.workloads]) if task.track in ("place", "end") else
            np.arange(int(_counted_blocks(task)[1].max()) + 1))
    return iter(OwnerDraws(unit, n_draws, seed=int(task.rules["seed"])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scores; 1 if a submission is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="*", help="default: all lite tasks")
    parser.add_argument("--method", help="only this one; default: all of the folder")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    n_refused = 0
    try:
        found = entries(asked.results, asked.method)
        tasks = [load_task(name) for name in asked.task or [name for name in task_names() if name.endswith("-lite")]]
    except ValueError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    for task in tasks:
        for entry in found:
            if task.name not in entry.tasks:
                continue
            try:
                scores = checked_scores(entry, task)
            except ValueError as error:
                n_refused += 1
                print(f"refused: {error}", file=sys.stderr)
                continue
            for measure, score in scores.items():
                low, high = score.interval
                print(f"{task.name:28}{entry.method:20}{measure:16}{score.value:12.4f}  {low:12.4f} to {high:.4f}")
    return int(n_refused > 0)


if __name__ == "__main__":
    sys.exit(main())
