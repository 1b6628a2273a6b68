"""The `fit` and `judge` stages of usage: waves and classes of a grid, and what they are worth on its last days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.gates.gate import Gate
from sojourn.models.periodicity import WaveFits, fit_waves
from sojourn.models.workload_class import SlotMaxima, fit_classes, judge_newcomers, slot_maxima
from sojourn.serving.usage import DAY_S, N_SLOTS, WAVE_COLUMNS, WorkloadClasses

HOURS = (3, 6, 12, 24)
N_FOLDS = 5
_N_DAYS_MIN = 4
_STARTS = (0, 24, 48, 72)
_RUNNING_S = 3_600
"""A request with a sample within so long before the grid's end still runs there."""


@dataclass(frozen=True, slots=True)
class FittedUsage:
    """What the section is made of: classes by resource, and waves float64 (m, 10) of the requests that still run.

    fits: of all requests, for the figures.
    """

    classes: Mapping[str, WorkloadClasses]
    request_ids: list[str]
    waves: np.ndarray
    fits: WaveFits


def fit_usage(grid: UsageGrid, n_classes: int, seed: int, n_threads: int = 1) -> FittedUsage:
    """Both kinds, of the whole grid. ValueError where no request's day was seen."""
    classes = {}
    for resource in ("cpu",) if grid.mem is None else ("cpu", "mem"):
        model = fit_classes(slot_maxima(grid, resource), n_classes=n_classes, seed=seed)
        if model is not None:
            classes[resource] = model.classes
    if "cpu" not in classes:
        raise ValueError("the series must hold a request whose day was seen (nine tenths of its slots), got none")
    fits = fit_waves(grid, n_threads=n_threads)
    n_last = max(1, _RUNNING_S // grid.step_s)
    runs = np.flatnonzero((~np.isnan(grid.cpu[:, -n_last:])).any(axis=1) & np.isfinite(fits.peak))
    return FittedUsage(classes, [str(name) for name in grid.request_ids[runs].tolist()], wave_rows(fits, runs),
                       fits)


def wave_rows(fits: WaveFits, rows: np.ndarray) -> np.ndarray:
    """The waves of some rows as a section holds them, float64 (m, 10); aperiodic rows without a second wave."""
    first = np.stack([getattr(fits, name)[rows] for name in WAVE_COLUMNS], axis=1)
    second = np.full_like(first, np.nan)
    if fits.second is not None:
        has = fits.is_periodic[rows] & fits.second.is_periodic[rows]
        second[has] = np.stack([getattr(fits.second, name)[rows[has]] for name in WAVE_COLUMNS], axis=1)
    return np.hstack([first, second])


def judge_usage(grid: UsageGrid, n_classes: int, seed: int, n_threads: int = 1) -> dict[str, float]:
    """Measures on the last days, which the models that are judged have not seen; none where the grid is too short.

    `wave.next_day.*`: median NRMSE of the last day (root mean square error over the range of the days before) of the
    waves, a constant mean, the day before and the week before. `class.*h.*`: requests in five parts; classes of four
    parts, learnt before the last two days, predict requests of the fifth as newcomers that begin on the last day but
    one: under-served work and over-reservation of each method.
    """
    return {**_waves_next_day(grid, n_threads), **_newcomers(slot_maxima(grid), n_classes, seed)}


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


def _waves_next_day(grid: UsageGrid, n_threads: int) -> dict[str, float]:
    n_day = DAY_S // grid.step_s
    n_steps = grid.cpu.shape[1]
    if n_steps < 3 * n_day:
        return {}
    past, last = grid.cpu[:, :-n_day].astype(np.float64), grid.cpu[:, -n_day:].astype(np.float64)
    fits = fit_waves(replace(grid, cpu=grid.cpu[:, :-n_day], mem=None), n_threads=n_threads)
    is_used = (~np.isnan(past)).mean(axis=1) > 0.5
    is_used &= (~np.isnan(last)).mean(axis=1) > 0.5
    spread = np.full(len(grid), np.nan)
    spread[is_used] = np.nanmax(past[is_used], axis=1) - np.nanmin(past[is_used], axis=1)
    rows = np.flatnonzero(spread > 0.0)
    if not len(rows):
        return {}
    last, past = last[rows], past[rows]
    times_s = grid.time_s()[-n_day:]
    predicted = {"wave": np.stack([fits.waves(int(row)).at(times_s) for row in rows]),
                 "mean": np.repeat(np.nanmean(past, axis=1)[:, None], n_day, axis=1), "day_before": past[:, -n_day:]}
    if n_steps >= 8 * n_day:
        predicted["week_before"] = past[:, -7 * n_day:-6 * n_day]
    found = {}
    for name, values in predicted.items():
        error = np.square(values - last)
        n_both = (~np.isnan(error)).sum(axis=1)
        mean = np.where(n_both > 0, np.nansum(error, axis=1) / np.maximum(n_both, 1), np.nan)
        found[f"wave.next_day.nrmse.{name}"] = float(np.nanmedian(np.sqrt(mean) / spread[rows]))
    return {**found, "wave.share_periodic": float(fits.is_periodic.mean())}


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
