"""The planners, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning._mixed_integer import solve_mixed_integer
from sojourn.simulator.planning.bounds import energetic_bound
from sojourn.simulator.planning.greedy import Board, descend, even_out, one_pass
from sojourn.simulator.planning.job import Instance
from sojourn.simulator.planning.problem import MAX_CELLS, Problem
from sojourn.simulator.planning.samples import ESTIMATORS, Samples, drawn_pairs, estimated
from sojourn.simulator.planning.schedule import Schedule
from sojourn.simulator.planning.search import Searched, held, search
from sojourn.simulator.planning.windows import easiest_windows, windows_of

ALPHA_STEP = 0.1
"""By how much alpha is raised where no schedule exists."""

_FRESH = 1
"""Samples that `cospis-even` draws beside each of the solver's: moves of single jobs are cheap, and more samples
generalise better."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """n_samples: K. alpha: share of samples that may break deadlines and dependencies, 0 to 1. estimator: of planners
    that have one. limits: of the search. Defaults are the paper's (section 5.2)."""

    n_samples: int = 25
    alpha: float = 0.4
    estimator: str = "p50"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {self.n_samples!r}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be from 0 to 1, got {self.alpha!r}")
        if self.estimator not in ESTIMATORS:
            raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {self.estimator!r}")


_Draw = Callable[[Instance, PlanSettings], Samples]
_Search = Callable[[Problem, Limits, float], Searched]


@dataclass(frozen=True, slots=True)
class Planner:
    """A way to plan a day. samples: what it believes of durations and usage. search: how it looks for starts, or None
    for the requested ones. is_sampled: whether it has K samples and alpha. estimator: fixed by the name, or None."""

    name: str
    about: str
    samples: _Draw
    search: _Search | None
    is_sampled: bool = True
    estimator: str | None = None

    def plan(self, instance: Instance, settings: PlanSettings | None = None) -> Schedule:
        """The schedule of a day; always one, and `reason` says what it is not."""
        return _planned(self, instance, settings or PlanSettings())


def _pairs(instance: Instance, settings: PlanSettings) -> Samples:
    return drawn_pairs(instance, settings.n_samples, np.random.default_rng(settings.limits.seed))


def _estimate(instance: Instance, settings: PlanSettings) -> Samples:
    return estimated(instance, settings.estimator)


def _sampled_durations(instance: Instance, settings: PlanSettings) -> Samples:
    """Durations drawn, usage by the estimator, as the paper's version of SORU (section 5.2)."""
    drawn, usage = _pairs(instance, settings), _estimate(instance, settings).usage
    return Samples(drawn.durations, np.ascontiguousarray(np.broadcast_to(usage, drawn.usage.shape)))


def _one_pass(problem: Problem, limits: Limits, until_s: float) -> Searched:
    return _moved(problem, replace(limits, n_moves=0), until_s)


def _moved(problem: Problem, limits: Limits, until_s: float) -> Searched:
    windows = easiest_windows(problem)
    if not windows.is_feasible:
        return Searched(None, "infeasible", np.inf)
    floor = energetic_bound(problem)
    board = one_pass(problem, windows)
    starts = descend(board, floor, limits.seed, _moves(limits, problem), until_s) + problem.origin
    bound = float(problem.prices @ floor)
    return Searched(starts, "optimal" if problem.cost_of(starts) <= bound else "heuristic", bound)


def _evened(problem: Problem, limits: Limits, until_s: float) -> Searched:
    began_s = time.monotonic()
    found = search(problem, limits, began_s + 0.7 * (until_s - began_s))
    if found.starts is None:
        return found
    own = problem.samples
    n_fresh = max(min(_FRESH, MAX_CELLS // problem.n_cells - 1), 0) * len(own)  # 0 where memory has no room
    fresh = drawn_pairs(problem.instance, max(n_fresh, 1), np.random.default_rng([limits.seed, 1]))
    fresh = Samples(fresh.durations[:n_fresh], fresh.usage[:n_fresh])
    samples = Samples(np.concatenate((own.durations, fresh.durations)), np.concatenate((own.usage, fresh.usage)))
    wide = Problem(problem.instance, samples)
    kept = np.flatnonzero(~wide.is_broken(found.starts))
    board = Board(wide, windows_of(wide, kept if len(kept) else np.arange(len(own))))
    for job, start in enumerate((found.starts - wide.origin).tolist()):
        board.put(job, start)
    starts = even_out(board, limits.seed, _moves(limits, problem), until_s) + wide.origin
    return Searched(starts, found.status, found.bound)


def _moves(limits: Limits, problem: Problem) -> int:
    """Enough that more of them hardly helps, on the days of 5.4 and on logs."""
    return min(limits.n_moves, max(20_000, 400 * len(problem)))


def _det(estimator: str) -> Planner:
    return Planner(f"det-{estimator}", f"CP-SAT on one sample: {estimator.upper()} of durations and usage", _estimate,
                   search, is_sampled=False, estimator=estimator)


PLANNERS: Mapping[str, Planner] = MappingProxyType({planner.name: planner for planner in (
    Planner("none", "the requested starts", _pairs, None),
    Planner("greedy", "one pass over the jobs, each where it raises the peak least", _pairs, _one_pass),
    Planner("descent", "greedy, then single jobs are moved while the peak falls; no solver; ours", _pairs, _moved),
    *(_det(estimator) for estimator in ESTIMATORS),
    Planner("cospis", "CP-SAT on K samples of pairs, of which a share alpha may break deadlines", _pairs, search),
    Planner("cospis-even", "as cospis, then jobs move while the peak of some sample falls and none rises; ours", _pairs,
            _evened),
    Planner("milp", "mixed-integer program on one sample, by HiGHS; for some 30 jobs", _estimate, solve_mixed_integer,
            is_sampled=False),
    Planner("soru-peak", "as cospis with usage by an estimator", _sampled_durations, search),
)})
"""In the order of tables. `none` is what peak reduction is measured against."""


def planner(name: str) -> Planner:
    """The planner of that name."""
    if name not in PLANNERS:
        raise ValueError(f"planner must be one of {', '.join(PLANNERS)}, got {name!r}")
    return PLANNERS[name]


def _planned(self: Planner, instance: Instance, settings: PlanSettings) -> Schedule:
    began_s = time.monotonic()
    limits = settings.limits
    if self.estimator is not None:
        settings = replace(settings, estimator=self.estimator)
    samples = self.samples(instance, settings)
    asked = settings.alpha if self.is_sampled else 0.0
    alpha, reason = asked, ""
    if self.search is None:
        found = Searched(None, "unknown", 0.0)
    else:
        alphas = [asked, *np.arange(asked + ALPHA_STEP, 0.95, ALPHA_STEP).round(6)] if self.is_sampled else [asked]
        for alpha in alphas:
            problem = Problem(instance, samples, _floor(len(samples), alpha))
            found = self.search(problem, limits, began_s + limits.limit_s)
            if found.status != "infeasible":
                break
        if alpha > asked and found.starts is not None:
            reason = f"no schedule keeps {_kept(len(samples), asked)} samples: alpha was raised to {alpha:g}"
        elif found.starts is None:
            what = "no schedule keeps deadlines and dependencies" if found.status == "infeasible" else \
                f"no schedule was found in {limits.limit_s:g} s"
            most = f" with alpha up to {alpha:g}" if self.is_sampled else f" of {settings.estimator.upper()}"
            reason = f"{what}{most}: requested starts were kept"
    problem = Problem(instance, samples, _floor(len(samples), alpha))
    is_requested = found.starts is None
    starts = instance.baseline if found.starts is None else held(problem, found.starts, limits.seed)
    objective = problem.cost_of(starts)
    bound = min(found.bound if np.isfinite(found.bound) else 0.0, objective)
    return Schedule(
        self.name, starts, problem.peak_of(starts) * instance.unit, "requested" if is_requested else found.status,
        objective, bound, 100.0 * (objective - bound) / max(objective, 1), float(alpha) if self.is_sampled else None,
        100.0 * float(problem.is_broken(starts).mean()), int(np.abs(starts - instance.baseline).sum()),
        time.monotonic() - began_s, reason)


def _floor(n_samples: int, alpha: float) -> int:
    """floor(K x alpha), as if alpha were exact."""
    return int(np.floor(n_samples * alpha + 1e-9))


def _kept(n_samples: int, alpha: float) -> str:
    return f"{n_samples - _floor(n_samples, alpha)} of {n_samples}"
