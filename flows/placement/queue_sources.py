"""Run times for a queue from a lifetime family's curves: a quantile or the mean, asked again when it is outlived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sojourn.flows.placement.predictors import Learning, PredictorSpec, fitted_tables
from sojourn.flows.placement.workloads import positions_of
from sojourn.models.curve_table import CurveTable
from sojourn.simulator.predictions import Curves, Held
from sojourn.simulator.queueing import QueueJobs

N_ASKED_MAX = 64
"""Times that one curve is asked; a prediction that is outlived after that doubles."""
MEAN = None


def outlived_curves(table: CurveTable, limit_s: np.ndarray, quantile: float | None = MEAN,
                    ages_s: Sequence[int] = ()) -> Curves:
    """Predicted run times: at uptime 0, and again from the same curve, given the uptime, each time one is outlived.

    limit_s: int64 (n,), seconds; no prediction exceeds it. quantile: of the remaining time, None = its mean. ages_s:
    rising uptimes above 0 at which it is also asked. A prediction lies at least 1 s above the uptime. ValueError names
    a row whose curve answers NaN.

    >>> from sojourn.models.curve_table import HazardTable
    >>> edges = np.array([0.0, 100.5, 1_000.5])
    >>> table = HazardTable.from_hazards(edges, np.array([[0.9, 0.1]]), 5_000.0, edges)
    >>> curves = outlived_curves(table, np.array([4_000]), 0.5)
    >>> curves.uptime_s.tolist(), curves.total_s.tolist()
    ([0, 77, 2914], [77, 2914, 4000])
    """
    rows, uptime_s, limits = np.arange(len(table)), np.zeros(len(table)), np.asarray(limit_s, np.float64)
    ages = np.append(np.asarray(ages_s, np.float64), np.inf)
    asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(rows) and len(asked) < N_ASKED_MAX:
        own = table.take(rows)
        left_s = own.remaining(uptime_s) if quantile is None else own.quantile(quantile, uptime_s)
        if np.isnan(left_s).any():
            raise ValueError(f"a curve must have an answer, got NaN (row {rows[np.argmax(np.isnan(left_s))]})")
        total_s = np.minimum(uptime_s + np.maximum(np.rint(left_s), 1.0), limits[rows])
        asked.append((rows, uptime_s, total_s))
        next_s = np.minimum(total_s, ages[np.searchsorted(ages, uptime_s, side="right")])
        is_left = next_s < limits[rows]
        rows, uptime_s = rows[is_left], next_s[is_left]
    row, uptime, total = (np.concatenate(parts) for parts in zip(*asked, strict=True)) if asked else np.zeros((3, 0))
    order = np.lexsort((uptime, row))
    offsets = np.searchsorted(row[order], np.arange(len(table) + 1))
    return Curves(offsets, uptime[order], total[order])


def queue_source(jobs: QueueJobs, request_ids: pd.Series, table: CurveTable, quantile: float | None = MEAN,
                 ages_s: Sequence[int] = ()) -> Held:
    """A LifetimeSource of jobs from the curves that a family had at their submission: history as recorded.

    request_ids: of the table's rows; ValueError names a job without one. The rest: as `outlived_curves`.
    """
    place = positions_of(pd.Series(jobs.request_ids), request_ids)
    if (place < 0).any():
        raise ValueError(f"every job must have a curve, got none for job {jobs.request_ids[int(np.argmin(place))]}")
    return Held(jobs.request_ids, outlived_curves(table.take(place), jobs.limit_s, quantile, ages_s))


def learnt_curves(jobs: QueueJobs, known: Learning, predictor: PredictorSpec,
                  n_threads: int) -> tuple[QueueJobs, pd.Series, CurveTable]:
    """The jobs submitted in the later part of the trace, and the curves of a family that was learnt on the earlier
    part, for `queue_source`."""
    ids, table, _ = fitted_tables(predictor, known, n_threads)
    return jobs.take(jobs.submission_s >= known.split.test_from_s), ids, table
