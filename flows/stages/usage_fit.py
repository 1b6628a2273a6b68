"""The `choose`, `judge` and `fit` stages of usage: waves and classes of a grid, and their worth on its last days.

The last two days are judged, and nothing that is judged there was chosen or learnt of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.gates.gate import Gate
from sojourn.flows.stages.served_waves import ServedWaves, judge_waves, served_waves
from sojourn.models.workload_class import ClassModel, SlotMaxima, fit_classes, judge_newcomers, slot_maxima
from sojourn.serving.usage import BY_HOURS, CLASSES, N_SLOTS, SEEN_S, WorkloadClasses

HOURS = (3, 6, 12, 24)
GATED_HOURS = (3, 6, 12)
N_FOLDS = 5
MUST_WIN = 0.05
"""How much less work what is served must leave under-served than one margin for all: less is no more than noise."""
GAIN_MIN = 0.005
"""The share of all work by which it must be less: slow random walks gain up to 0.002 (docs/usage.md)."""
_ROUNDING = 1e-6
_N_DAYS_MIN = 4
_N_DAYS_JUDGED = 2
_STARTS = (0, 24, 48, 72)
_N_STARTS_MAX = 8
"""Of one request while rules are chosen."""
Rules = Mapping[str, tuple[str, ...]]
"""By resource: the surplus rule at each length of observation, of SURPLUS_RULES."""
_Case = tuple[ClassModel, SlotMaxima, int]


@dataclass(frozen=True, slots=True)
class FittedUsage:
    """What the section is made of: classes by resource, and waves."""

    classes: Mapping[str, WorkloadClasses]
    waves: ServedWaves


def choose_rules(grid: UsageGrid, n_classes: int, seed: int) -> Rules:
    """Which surplus is served at each length of observation: the class-free one, unless that of classes wins.

    What lies before the two days that are judged is cut in two: classes of four fifths of the requests, learnt in the
    first half, predict the others in the second half. Classes win if they leave less work under-served than the
    class-free surplus of the same over-reservation, at the upper end of a 95 % interval over requests. Class-free where
    less than four days lie before the judged ones.
    """
    rules = {}
    for resource in _resources(grid):
        seen = slot_maxima(grid, resource)
        known = seen.before(max(seen.n_days - _N_DAYS_JUDGED, 1) * N_SLOTS)
        n_later = max(known.n_days // 2, _N_DAYS_JUDGED)
        first = known.n_days - n_later
        judged: list[_Case] = []
        if first >= _N_DAYS_MIN - _N_DAYS_JUDGED:
            starts = [day * N_SLOTS + later for day in range(first, known.n_days - 1) for later in _STARTS]
            step = -(-len(starts) // _N_STARTS_MAX) | 1  # odd, so that every time of the day is among them
            judged = _newcomers(known, first * N_SLOTS, starts[::step], n_classes, seed)
        rules[resource] = tuple(CLASSES if judged and judge_newcomers(judged, seen_s // 3600).worst_ratio(
            "combined", "hours") < 1.0 - _ROUNDING else BY_HOURS for seen_s in SEEN_S)
    return rules


def fit_usage(grid: UsageGrid, rules: Rules, n_classes: int, seed: int, n_threads: int = 1) -> FittedUsage:
    """Both kinds, of the whole grid, with the surplus by `rules`. ValueError where no request's day was seen."""
    classes = {}
    for resource in _resources(grid):
        model = fit_classes(slot_maxima(grid, resource), n_classes=n_classes, seed=seed)
        if model is not None:
            classes[resource] = model.by(rules[resource]).classes
    if "cpu" not in classes:
        raise ValueError("the series must hold a request whose day was seen (nine tenths of its slots), got none")
    return FittedUsage(classes, served_waves(grid, n_threads))


def judge_usage(grid: UsageGrid, rules: Rules, n_classes: int, seed: int, n_threads: int = 1) -> dict[str, float]:
    """Measures on the last days, which the models that are judged have not seen; none where the grid is too short.

    `wave.*`: see `judge_waves`. `class.*h.*`: requests in five parts; classes of four parts, learnt before the last two
    days, predict requests of the fifth as newcomers that begin on the last day but one: under-served work and
    over-reservation of each method; `combined` is what is served by `rules`.
    """
    seen = slot_maxima(grid)
    found = judge_waves(grid, n_threads)
    if seen.n_days < _N_DAYS_MIN:
        return found
    start = (seen.n_days - _N_DAYS_JUDGED) * N_SLOTS
    judged = [(model.by(rules["cpu"]), newcomers, begin) for model, newcomers, begin in _newcomers(
        seen, start, [start + later for later in _STARTS], n_classes, seed)]
    for hours in HOURS if judged else ():
        newcomers_found = judge_newcomers(judged, hours)
        for method in newcomers_found.under:
            found[f"class.{hours}h.under_served.{method}"] = newcomers_found.under_served(method)
            found[f"class.{hours}h.over_reserved.{method}"] = newcomers_found.over_reserved(method)
        found[f"class.{hours}h.worst_ratio_to_margin"] = newcomers_found.worst_ratio("combined", "margin")
    return found


def usage_gates(scores: Mapping[str, float]) -> tuple[Gate, ...]:
    """A section is promoted if what it serves leaves clearly less work under-served than one margin for all requests.

    The margin is the simplest rival: the own maximum and one share for all after the same hours, of the same
    over-reservation. Before 12 h it must lose by MUST_WIN at the upper end of the 95 % interval over requests, and by
    GAIN_MIN of all work; at 12 h, it must not win. From 24 h on both are the own maximum, so that no gate could fail.
    """
    gates = []
    for hours in GATED_HOURS:
        found = scores.get(f"class.{hours}h.under_served.combined", np.nan)
        margin = scores.get(f"class.{hours}h.under_served.margin", np.nan)
        worst = scores.get(f"class.{hours}h.worst_ratio_to_margin", np.nan)
        if hours < 12:
            is_passed = worst <= 1.0 - MUST_WIN and found <= margin - GAIN_MIN
            rule = f"{100 * MUST_WIN:g} % and {100 * GAIN_MIN:g} points below"
        else:
            is_passed, rule = found <= margin + _ROUNDING, "at most"
        text = (f"{100 * found:.2f} % of work under-served, {rule} the {100 * margin:.2f} % of one margin for all "
                f"(ratio at most {worst:.2f})")
        if np.isnan(found) or np.isnan(margin) or np.isnan(worst):
            is_passed = False
            text = f"not judged: the series must cover {_N_DAYS_MIN} days, and requests {hours} h of the last two"
        gates.append(Gate(f"under-served after {hours} h", bool(is_passed), text))
    return tuple(gates)


def _newcomers(seen: SlotMaxima, learnt_until: int, starts: Iterable[int], n_classes: int, seed: int) -> list[_Case]:
    """Requests of each fifth, the columns at which they begin, and classes of the other four learnt before a column."""
    part = np.arange(len(seen)) % N_FOLDS
    judged = []
    for fold in range(N_FOLDS):
        others, mine = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        model = None
        if len(others) and len(mine):
            model = fit_classes(seen.before(learnt_until, others), n_classes=n_classes, seed=seed)
        if model is not None:
            newcomers = SlotMaxima(seen.request_ids[mine], seen.highest[mine], seen.mean[mine], seen.first_slot)
            judged += [(model, newcomers, start) for start in starts]
    return judged


def _resources(grid: UsageGrid) -> tuple[str, ...]:
    return ("cpu",) if grid.mem is None else ("cpu", "mem")
