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
N_FOLDS = 5
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
    """A section is promoted where its classes leave less work under-served than the own maximum before 12 h, and never
    more."""
    gates = []
    for hours in HOURS:
        found = scores.get(f"class.{hours}h.under_served.combined", np.nan)
        own = scores.get(f"class.{hours}h.under_served.own", np.nan)
        is_less = found < own or found == own == 0.0
        is_passed = is_less if hours < 12 else found <= own
        rule = "below" if hours < 12 else "at most"
        text = f"{100 * found:.2f} % of work under-served, {rule} the own maximum's {100 * own:.2f} %"
        if np.isnan(found) or np.isnan(own):
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
    return found
