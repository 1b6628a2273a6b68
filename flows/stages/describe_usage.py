"""What the usage series of a trace are: which are periodic, how well a wave fits, and which classes there are."""

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
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves
from sojourn.models.workload_class import cluster
from sojourn.serving.usage import DAY_S

HOUR_S = 3600
PERIODS: Sequence[tuple[float, str]] = (
    (2 * HOUR_S, "up to 2 h"), (7 * HOUR_S, "2 to 7 h"), (9 * HOUR_S, "about 8 h"), (11 * HOUR_S, "9 to 11 h"),
    (13 * HOUR_S, "about half a day"), (22 * HOUR_S, "13 to 22 h"), (26 * HOUR_S, "about a day"),
    (6 * DAY_S, "26 h to 6 days"), (8 * DAY_S, "about a week"), (np.inf, "above 8 days"))
"""Upper bound of each class of periods, seconds, and what it is called."""
N_EXAMPLES = 3
N_SLOTS = 96
_WEEK_S = 7 * DAY_S
_COVERED = 0.9
"""Share of a day's slots that a series must have for a class, as in `models.workload_class`."""


@dataclass(frozen=True, slots=True)
class UsageDescription:
    """The usage of one trace, reduced to rows that fit in memory.

    source, report: of the stream. step_s, start_s, n_steps: of the grid that waves were fitted to. timezone: of slots.
    table: one row a series; cpu is a share of what the request reserved:
        `request_id`, `cpu_cores`, `mem_gib`, `n_samples`, `mean`, `p95`, `peak`; `is_periodic`, `period_s`, `phase_s`,
        `duty`, `strength` (0 to 1), `reason`; `nrmse_wave`, `nrmse_shape` (the same wave
        at the means of its busy and quiet time), `nrmse_mean` (a constant mean), `nrmse_week` (the value a
        week before; NaN where the grid is shorter than eight days), all in-sample, lower = better; `class_id` (-1 =
        none: less than nine tenths of the day seen).
    centres: float64 (k, 96), of each class the mean of its members' highest use by slot of the local day.
    examples: the grid of up to 3 series, the strongest of each of the commonest periods; fits: their waves.
    """

    source: str
    report: UsageReport
    step_s: int
    start_s: int
    n_steps: int
    timezone: str
    table: pd.DataFrame
    centres: np.ndarray
    examples: UsageGrid
    fits: WaveFits


def describe_usage(stream: UsageStream, *, step_s: int = 300, n_classes: int = 20, folder: Path | None = None,
                   seed: int = 0, progress: Callable[[int, int], None] | None = None) -> UsageDescription:
    """Store the stream, fit a wave to each series and cluster their days.

    step_s: of the grid. n_classes: at most so many. folder: where the store stays; None = it is temporary. seed: of the
    clustering. progress: called with (done, total) in hundredths as the work goes on: half for reading, half for fits.

    Refused with ValueError: what `store_usage`, `fit_waves` and `cluster` refuse.
    """
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes!r}")

    def tell(before: int) -> Callable[[int, int], None]:
        return lambda done, total: progress(before + 50 * done // max(total, 1), 100) if progress else None

    with TemporaryDirectory() as temporary:
        store = store_usage(stream, folder or Path(temporary) / "usage", progress=tell(0))
        parts, n_done, total = [], 0, stream.report().n_series
        start_s = n_steps = 0
        for grid in store.grids(step_s):
            parts.append(_rows(grid))
            n_done += len(grid)
            start_s, n_steps = grid.start_s, grid.cpu.shape[1]
            tell(50)(n_done, total)
        table = pd.concat(parts, ignore_index=True)
        profiles = store.profiles(N_SLOTS)
        table = table.merge(_of_samples(profiles), on="request_id", validate="one_to_one")
        class_id, centres = _classes(profiles, n_classes, seed)
        table = table.merge(pd.DataFrame({"request_id": profiles.request_ids, "class_id": class_id}), on="request_id")
        table = table.sort_values(["is_periodic", "strength"], ascending=False, kind="stable").reset_index(drop=True)
        examples = _examples(store, table, step_s)
    return UsageDescription(stream.source, stream.report(), step_s, start_s, n_steps, stream.clock.timezone, table,
                            centres, examples, fit_waves(examples))


def period_names(period_s: pd.Series) -> pd.Series:
    """The class of each period, ordered from short to long.

    >>> period_names(pd.Series([86_400.0, 600.0])).tolist()
    ['about a day', 'up to 2 h']
    """
    bounds = [0.0, *(bound for bound, _ in PERIODS)]
    return pd.cut(period_s, bounds, labels=[name for _, name in PERIODS])


def _rows(grid: UsageGrid) -> pd.DataFrame:
    """The waves and errors of one grid, a row a request."""
    fits, at_means = fit_waves(grid), fit_waves(grid, PeriodicitySettings(levels="mean"))
    return pd.DataFrame({
        "request_id": grid.request_ids, "cpu_cores": grid.cpu_cores, "mem_gib": grid.mem_gib,
        "is_periodic": fits.is_periodic, "period_s": fits.period_s, "phase_s": fits.phase_s, "duty": fits.duty,
        "strength": fits.strength, "reason": fits.reason_text(), "nrmse_wave": fits.nrmse,
        "nrmse_shape": np.where(fits.is_periodic, at_means.nrmse, errors_of_mean(grid.cpu)),
        "nrmse_mean": errors_of_mean(grid.cpu), "nrmse_week": errors_of_lag(grid.cpu, _WEEK_S // grid.step_s)})


def errors_of_mean(values: np.ndarray) -> np.ndarray:
    """In-sample NRMSE of each row's own mean, float64 (n,): root of the mean squared error over greatest minus least.

    NaN where a row is constant or has no sample. Lower = better.

    >>> errors_of_mean(np.array([[0.0, 1.0, 0.0, 1.0], [0.5, 0.5, 0.5, np.nan]])).tolist()
    [0.5, nan]
    """
    return _errors(values, values - _mean(values)[:, None])


def errors_of_lag(values: np.ndarray, n_steps: int) -> np.ndarray:
    """NRMSE of the value `n_steps` before, over the steps that have both, float64 (n,); scaled as `errors_of_mean`.

    NaN where the series is not longer than that by a seventh, or no step has both.

    >>> errors_of_lag(np.array([[0.0, 1.0, 0.0, 1.0, 1.0]]), 2).round(3).tolist()
    [0.577]
    """
    if values.shape[1] < n_steps + max(n_steps // 7, 1):
        return np.full(len(values), np.nan)
    return _errors(values, values[:, n_steps:].astype(np.float64) - values[:, :-n_steps])


def _errors(values: np.ndarray, off: np.ndarray) -> np.ndarray:
    is_seen = ~np.isnan(values)
    most = np.where(is_seen, values, -np.inf).max(1)
    least = np.where(is_seen, values, np.inf).min(1)
    spread = np.where(np.isfinite(most) & (most > least), most.astype(np.float64) - least, np.nan)
    return np.sqrt(_mean(np.square(off))) / spread


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean of the numbers of each row, float64 (n,), NaN where there is none."""
    is_seen = ~np.isnan(values)
    n = is_seen.sum(1)
    total = np.where(is_seen, values, 0.0).sum(1, dtype=np.float64)
    return np.divide(total, n, out=np.full(len(values), np.nan), where=n > 0)


def _of_samples(profiles: UsageProfiles) -> pd.DataFrame:
    return pd.DataFrame({"request_id": profiles.request_ids, "n_samples": profiles.count.sum(1),
                         "mean": profiles.average, "p95": profiles.quantiles[:, 2], "peak": profiles.peak})


def _classes(profiles: UsageProfiles, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class of each request, int64 (n,), -1 = none, and the centres; a slot not seen counts as the row's highest."""
    class_id = np.full(len(profiles), -1)
    is_seen = ~np.isnan(profiles.maximum)
    is_used = is_seen.mean(1) >= _COVERED
    if not is_used.any():
        return class_id, np.zeros((0, profiles.n_slots))
    days = np.where(is_seen, profiles.maximum, profiles.peak[:, None]).astype(np.float64)
    found = cluster(days[is_used], n_classes, seed=seed)
    class_id[is_used] = found.ids[found.labels]
    return class_id, found.centres


def _examples(store: UsageStore, table: pd.DataFrame, step_s: int) -> UsageGrid:
    """The strongest series of each of the commonest periods; where none is periodic, the busiest series."""
    periodic = table[table["is_periodic"]]
    if periodic.empty:
        chosen = table.sort_values("mean", ascending=False, kind="stable").head(1)
    else:
        name = period_names(periodic["period_s"])
        common = name.value_counts(sort=False).sort_values(ascending=False, kind="stable").index[:N_EXAMPLES]
        chosen = pd.concat([periodic[name == each].head(1) for each in common])
    return store.grid(chosen["request_id"].tolist(), step_s)
