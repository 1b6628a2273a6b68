"""The `fit` and `judge` stages of usage: waves and classes of a grid, and what they are worth on its last days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.gates.gate import Gate
from sojourn.flows.stages.served_waves import ServedWaves, judge_waves, served_waves
from sojourn.models.workload_class import SlotMaxima, fit_classes, judge_newcomers, slot_maxima
from sojourn.serving.usage import N_SLOTS, WorkloadClasses

HOURS = (3, 6, 12, 24)
GATED_HOURS = (3, 6, 12)
N_FOLDS = 5
MUST_WIN = 0.05
"""How much less work classes must leave under-served than one margin for all: less is no more than noise."""
_ROUNDING = 1e-6
_N_DAYS_MIN = 4
_STARTS = (0, 24, 48, 72)


@dataclass(frozen=True, slots=True)
class FittedUsage:
    """What the section is made of: classes by resource, and waves."""

    classes: Mapping[str, WorkloadClasses]
    waves: ServedWaves


def fit_usage(grid: UsageGrid, n_classes: int, seed: int, n_threads: int = 1) -> FittedUsage:
    """Both kinds, of the whole grid. ValueError where no request's day was seen."""
    classes = {}
    for resource in ("cpu",) if grid.mem is None else ("cpu", "mem"):
        model = fit_classes(slot_maxima(grid, resource), n_classes=n_classes, seed=seed)
        if model is not None:
            classes[resource] = model.classes
    if "cpu" not in classes:
        raise ValueError("the series must hold a request whose day was seen (nine tenths of its slots), got none")
    return FittedUsage(classes, served_waves(grid, n_threads))


def judge_usage(grid: UsageGrid, n_classes: int, seed: int, n_threads: int = 1) -> dict[str, float]:
    """Measures on the last days, which the models that are judged have not seen; none where the grid is too short.

    `wave.*`: see `judge_waves`. `class.*h.*`: requests in five parts; classes of four parts, learnt before the last two
    days, predict requests of the fifth as newcomers that begin on the last day but one: under-served work and
    over-reservation of each method.
    """
    return {**judge_waves(grid, n_threads), **_newcomers(slot_maxima(grid), n_classes, seed)}


def usage_gates(scores: Mapping[str, float]) -> tuple[Gate, ...]:
    """A section is promoted if its classes leave clearly less work under-served than one margin for all requests.

    The margin is the simplest rival: the own maximum and one share for all after the same hours, of the same
    over-reservation. Before 12 h the classes must win by MUST_WIN at the upper end of the 95 % interval over
    requests (on white noise and on constants one of 3 h and 6 h stays at 0.98 or above; slow random walks do pass); at
    12 h, they must not lose to it. From 24 h on both are the own maximum, so that no gate could fail.
    """
    gates = []
    for hours in GATED_HOURS:
        found = scores.get(f"class.{hours}h.under_served.combined", np.nan)
        margin = scores.get(f"class.{hours}h.under_served.margin", np.nan)
        worst = scores.get(f"class.{hours}h.worst_ratio_to_margin", np.nan)
        if hours < 12:
            is_passed, rule = worst <= 1.0 - MUST_WIN, f"{100 * MUST_WIN:g} % below"
        else:
            is_passed, rule = found <= margin + _ROUNDING, "at most"
        text = (f"{100 * found:.2f} % of work under-served, {rule} the {100 * margin:.2f} % of one margin for all "
                f"(ratio at most {worst:.2f})")
        if np.isnan(found) or np.isnan(margin) or np.isnan(worst):
            is_passed = False
            text = f"not judged: the series must cover {_N_DAYS_MIN} days, and requests {hours} h of the last two"
        gates.append(Gate(f"under-served after {hours} h", bool(is_passed), text))
    return tuple(gates)


def _newcomers(seen: SlotMaxima, n_classes: int, seed: int) -> dict[str, float]:
    if seen.n_days < _N_DAYS_MIN:
        return {}
    start = (seen.n_days - 2) * N_SLOTS
    part = np.arange(len(seen)) % N_FOLDS
    judged = []
    for fold in range(N_FOLDS):
        others, mine = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        model = fit_classes(seen.before(start, others), n_classes=n_classes, seed=seed) if len(others) else None
        if model is not None and len(mine):
            newcomers = SlotMaxima(seen.request_ids[mine], seen.highest[mine], seen.mean[mine], seen.first_slot)
            judged += [(model, newcomers, start + later) for later in _STARTS]
    found = {}
    for hours in HOURS if judged else ():
        newcomers_found = judge_newcomers(judged, hours)
        for method in newcomers_found.under:
            found[f"class.{hours}h.under_served.{method}"] = newcomers_found.under_served(method)
            found[f"class.{hours}h.over_reserved.{method}"] = newcomers_found.over_reserved(method)
        found[f"class.{hours}h.worst_ratio_to_margin"] = newcomers_found.worst_ratio("combined", "margin")
    return found
