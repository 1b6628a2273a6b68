"""The usage series of a trace: which are periodic, how well a wave fits, and their classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from sojourn.features.usage import (
    UsageGrid,
    UsageProfiles,
    UsageReport,
    UsageStore,
    UsageStream,
    store_usage,
)
from sojourn.models.periodicity import (
    PeriodicitySettings,
    WaveErrors,
    WaveFits,
    fit_waves,
    in_sample_errors,
    next_day_errors,
)
from sojourn.models.workload_class import cluster
from sojourn.serving.usage import DAY_S

HOUR_S = 3600
PERIODS: Sequence[tuple[float, str]] = (
    (2 * HOUR_S, "up to 2 h"), (7 * HOUR_S, "2 to 7 h"), (9 * HOUR_S, "about 8 h"), (11 * HOUR_S, "9 to 11 h"),
    (13 * HOUR_S, "about half a day"), (22 * HOUR_S, "13 to 22 h"), (26 * HOUR_S, "about a day"),
    (6 * DAY_S, "26 h to 6 days"), (8 * DAY_S, "about a week"), (np.inf, "above 8 days"))
"""Upper bound of each class of periods, seconds, and its name."""
N_EXAMPLES = 3
N_SLOTS = 96
_N_NOISE = 200
_MAX_NOISE_STEPS = 1 << 14
"""57 days of 300 s. Noise on longer series has no period either, and would take more memory."""
AT_MEANS = PeriodicitySettings(levels="mean")
"""Levels of the least squared error: the part that the period itself explains."""
WAYS = ("wave", "at_means", "constant", "last_week")
"""The models: a wave between p95 and p5, one at its means, a constant mean, the week before."""
_COVERED = 0.9
"""Share of a day's slots that a series must have for a class, as in `models.workload_class`."""


@dataclass(frozen=True, slots=True)
class UsageDescription:
    """The usage of one trace, reduced to rows that fit in memory.

    source, report: of the stream. step_s, start_s, n_steps: of the waves' grid. timezone: of slots.
    table: one row a series; cpu is a share of the request's reservation:
        `request_id`, `cpu_cores`, `mem_gib`, `n_samples`, `mean`, `p95`, `peak`; `is_periodic`, `period_s`, `phase_s`,
        `duty`, `strength` and the strength that chance reaches, `by_chance` (0 to 1), `reason`;
        `in_sample_` and `next_day_` with each of `WAYS`: NRMSE, lower = better,
        NaN = not judged; next-day is the last 24 hours, by waves of the days before, and
        `next_day_is_periodic`: whether these have a period; `class_id` (-1 = none: less than nine
        tenths of the day have samples).
    fits: of all series, in the order of the store's files, between p95 and p5 as they are served.
    noise_shares: see `noise_shares`.
    centres: float64 (k, 96), of each class the mean of its members' highest use by slot of the local day.
    examples: the grid of up to 3 series, the strongest of each of the commonest periods, by strength;
        example_fits: their waves.
    """

    source: str
    report: UsageReport
    step_s: int
    start_s: int
    n_steps: int
    timezone: str
    table: pd.DataFrame
    noise_shares: tuple[float, float]
    centres: np.ndarray
    fits: WaveFits
    examples: UsageGrid
    example_fits: WaveFits


def describe_usage(stream: UsageStream, *, step_s: int = 300, n_classes: int = 20, folder: Path | None = None,
                   seed: int = 0, progress: Callable[[int, int], None] | None = None) -> UsageDescription:
    """Store the stream, fit a wave to each series and cluster their days.

    step_s: of the grid. n_classes: the most. folder: of the store; None = a temporary one. seed: of
    the clustering. progress: called with (done, total) in hundredths: half for reading, half for
    fits. ValueError as of `store_usage`, `fit_waves` and `cluster`.
    """
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes!r}")

    def from_percent(before: int) -> Callable[[int, int], None]:
        return lambda done, total: progress(before + 50 * done // max(total, 1), 100) if progress else None

    with TemporaryDirectory() as temporary:
        store = store_usage(stream, folder or Path(temporary) / "usage", progress=from_percent(0))
        parts, all_fits, n_done, total = [], [], 0, stream.report().n_series
        start_s = n_steps = 0
        for grid in store.grids(step_s):
            all_fits.append(fit_waves(grid))
            parts.append(_rows(grid, all_fits[-1]))
            n_done += len(grid)
            start_s, n_steps = grid.start_s, grid.cpu.shape[1]
            from_percent(50)(n_done, total)
        table = pd.concat(parts, ignore_index=True)
        profiles = store.profiles(N_SLOTS)
        table = table.merge(_of_samples(profiles), on="request_id", validate="one_to_one")
        class_id, centres = _classes(profiles, n_classes, seed)
        table = table.merge(pd.DataFrame({"request_id": profiles.request_ids, "class_id": class_id}), on="request_id")
        table = table.sort_values(["is_periodic", "strength"], ascending=False, kind="stable").reset_index(drop=True)
        examples = _examples(store, table, step_s)
    return UsageDescription(stream.source, stream.report(), step_s, start_s, n_steps, stream.clock.timezone, table,
                            noise_shares(examples, seed), centres, _all(all_fits), examples, fit_waves(examples))


def period_names(period_s: pd.Series) -> pd.Series:
    """The class of each period, ordered from short to long.

    >>> period_names(pd.Series([86_400.0, 600.0])).tolist()
    ['about a day', 'up to 2 h']
    """
    bounds = [0.0, *(bound for bound, _ in PERIODS)]
    return pd.cut(period_s, bounds, labels=[name for _, name in PERIODS])


def noise_shares(grid: UsageGrid, seed: int = 0) -> tuple[float, float]:
    """Shares of 200 series of white noise and 200 random walks that the fit calls periodic, 0 to 1.

    They have the steps of the grid, of a longer one its first 16,384.

    >>> from sojourn.serving.usage import DayClock
    >>> noise_shares(UsageGrid(np.array([1]), np.zeros((1, 288), np.float32), None, np.ones(1), np.ones(1), 0, 300,
    ...                        DayClock()))
    (0.015, 0.0)
    """
    n_steps = min(grid.cpu.shape[1], _MAX_NOISE_STEPS)
    white = np.random.default_rng(seed).normal(size=(_N_NOISE, n_steps)).astype(np.float32)
    ones = np.ones(_N_NOISE)

    def share(values: np.ndarray) -> float:
        noise = UsageGrid(np.arange(_N_NOISE), values, None, ones, ones, grid.start_s, grid.step_s, grid.clock)
        return float(fit_waves(noise).is_periodic.mean())

    return share(white), share(white.cumsum(axis=1))


def _rows(grid: UsageGrid, fits: WaveFits) -> pd.DataFrame:
    columns = {
        "request_id": grid.request_ids, "cpu_cores": grid.cpu_cores, "mem_gib": grid.mem_gib,
        "is_periodic": fits.is_periodic, "period_s": fits.period_s, "phase_s": fits.phase_s, "duty": fits.duty,
        "strength": fits.strength, "by_chance": fits.by_chance, "reason": fits.reason_text()}
    at_means = fit_waves(grid, AT_MEANS)
    columns |= _errors("in_sample", in_sample_errors(grid, fits), in_sample_errors(grid, at_means))
    last_s = grid.start_s + grid.step_s * grid.cpu.shape[1] - DAY_S  # the last 24 hours
    if last_s - grid.start_s >= DAY_S:
        columns |= _errors("next_day", next_day_errors(grid, last_s), next_day_errors(grid, last_s, AT_MEANS))
    else:
        columns |= {f"next_day_{way}": np.full(len(grid), np.nan) for way in WAYS}
        columns["next_day_is_periodic"] = np.zeros(len(grid), bool)
    return pd.DataFrame(columns)


def _errors(label: str, served: WaveErrors, at_means: WaveErrors) -> dict[str, np.ndarray]:
    errors = (served.wave, at_means.wave, served.constant, served.last_week)
    return {f"{label}_{way}": error for way, error in zip(WAYS, errors, strict=True)} | {
        f"{label}_is_periodic": served.is_periodic}


def _all(fits: Sequence[WaveFits]) -> WaveFits:

    def of(name: str) -> np.ndarray:
        return np.concatenate([getattr(each, name) for each in fits])

    return WaveFits(of("request_ids"), of("peak"), of("trough"), of("period_s"), of("phase_s"), of("duty"),
                    of("strength"), of("magnitude"), of("by_chance"), of("reason"), of("nrmse"))


def _of_samples(profiles: UsageProfiles) -> pd.DataFrame:
    return pd.DataFrame({"request_id": profiles.request_ids, "n_samples": profiles.count.sum(1),
                         "mean": profiles.average, "p95": profiles.quantiles[:, 2], "peak": profiles.peak})


def _classes(profiles: UsageProfiles, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class of each request, int64 (n,), -1 = none, and the centres.

    A slot without samples counts as the row's highest use.
    """
    class_id = np.full(len(profiles), -1)
    is_seen = ~np.isnan(profiles.maximum)
    is_used = is_seen.mean(1) >= _COVERED
    if not is_used.any():
        return class_id, np.zeros((0, profiles.n_slots))
    days = np.where(is_seen, profiles.maximum, profiles.peak[:, None]).astype(np.float64)
    clusters = cluster(days[is_used], n_classes, seed=seed)
    class_id[is_used] = clusters.ids[clusters.labels]
    return class_id, clusters.centres


def _examples(store: UsageStore, table: pd.DataFrame, step_s: int) -> UsageGrid:
    """The strongest series of each of the commonest periods; if there are none, the busiest."""
    periodic = table[table["is_periodic"]]
    if periodic.empty:
        chosen = table.sort_values("mean", ascending=False, kind="stable").head(1)
    else:
        name = period_names(periodic["period_s"])
        common = name.value_counts(sort=False).sort_values(ascending=False, kind="stable").index[:N_EXAMPLES]
        chosen = pd.concat([periodic[name == each].head(1) for each in common])
        chosen = chosen.sort_values("strength", ascending=False, kind="stable")
    return store.grid(chosen["request_id"].tolist(), step_s)
