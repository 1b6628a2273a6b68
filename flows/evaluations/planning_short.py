"""Histories cut to a few runs, raw or replaced by quantiles of a lifetime model that was fitted before the days."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import known_at, split_by_time
from sojourn.features.trace import Trace
from sojourn.flows.console import Report
from sojourn.flows.evaluations.planner_rows import planner_rows
from sojourn.flows.evaluations.planning_recurring import DAY_S, cut_history, recurring_days
from sojourn.flows.placement.job_table import with_model_history
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, LifetimeModel
from sojourn.serving.inputs import Encoder
from sojourn.simulator.planning import Instance, Limits, PlanSettings, RecurringDay

CUTS = (1, 2, 3, 5)
PLANNER = "cospis-even"
FAMILY = "hazard"


def short_rows(trace: Trace, n_days: int, report: Report, *, limit_s: float = 5.0,
               flexibility_s: int = 3_600) -> pd.DataFrame:
    """One row of `plan_row` for each day and source of durations, in the column `planner`.

    `history N`: the latest N runs. `model`: 25 quantiles of the lifetime that `hazard` predicts, fitted on what had
    ended before the first of the days; its features of a day's jobs are what was known when the day began.
    """
    days = recurring_days(trace, n_days, flexibility_s=flexibility_s)
    encoder = default_encoder(trace)
    model = fitted_before(trace, encoder, trace.begin_s + days[0][0] * DAY_S)
    settings = PlanSettings(limits=Limits(limit_s=limit_s))
    rows: list[dict[str, Any]] = []
    for done, (day, each) in enumerate(days):
        report(done, len(days))
        table = day_curves(trace, encoder, model, each, trace.begin_s + day * DAY_S)
        sources: dict[str, Instance] = {f"history {n}": cut_history(each.instance, n) for n in CUTS}
        sources["history all"] = each.instance
        sources["model"] = with_model_history(each.instance, table, 1 << 30)
        found = planner_rows(each.instance, each.runs, {name: (PLANNER, own) for name, own in sources.items()},
                             settings, "history 1")
        rows += [{"day": day, **row, "planner": name} for name, row in zip(sources, found, strict=True)]
    return pd.DataFrame(rows)


def known_before(trace: Trace, at_s: int, later: pd.DataFrame | None = None) -> Trace:
    """What was known at `at_s`: requests that had begun to run, those that ran on without an end. later: requests of
    the time after it, as submitted, appended without an end."""
    requests = trace.requests[trace.requests["arrival_s"] < at_s].copy()
    requests["submit_s"] = np.minimum(requests["submit_s"], requests["arrival_s"])
    requests["departure_s"] = requests["departure_s"].where(requests["departure_s"] <= at_s)
    horizon_s = at_s
    if later is not None:
        requests = pd.concat([requests, later], ignore_index=True)
        horizon_s = max(at_s, int(later["arrival_s"].max())) + 1
    return Trace(requests, horizon_s, trace.roles, trace.hosts, None, trace.meta)


def fitted_before(trace: Trace, encoder: Encoder, at_s: int) -> LifetimeModel:
    """The family `FAMILY`, fitted on what was known at `at_s`."""
    rows = build_rows(known_before(trace, at_s), encoder)
    split = split_by_time(rows, test_share=0.02)
    return LIFETIME_MODELS[FAMILY]().fit(split.train, split.valid, split.past,
                                         FitSettings(backoff_keys(encoder), n_threads=2, names=rows.names))


def day_curves(trace: Trace, encoder: Encoder, model: LifetimeModel, each: RecurringDay, begin_s: int) -> CurveTable:
    """Lifetime curves of a day's jobs by what was known when it began; their requested starts are known, no end is."""
    later = trace.requests.iloc[each.rows].copy()
    later["arrival_s"] = later["submit_s"]
    later["departure_s"] = np.nan
    if "status" in later:
        later["status"] = -1  # known at the end only
    known = known_before(trace, begin_s, later)
    rows = build_rows(known, encoder)
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    ids = pd.Index(known.requests["request_id"].to_numpy()[rows.idx_request])
    return model.curve_table(everything.take(ids.get_indexer(pd.Index(later["request_id"]))))
