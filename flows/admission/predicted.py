"""Admission with predicted processing times: quantiles of a lifetime model beside the user's estimate, by what was
known when the day began; and what a machine gains if it learns of ends before the estimate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, decision_times, default_encoder
from sojourn.features.split import Examples, Split, known_at
from sojourn.features.trace import Trace
from sojourn.flows.admission.runs import (
    DAY_S,
    Setting,
    SubmittedJobs,
    jobs_with_deadlines,
    paired_summary,
    setting_deadlines,
    verdict,
)
from sojourn.flows.reports.section import Section
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings
from sojourn.models.served_curves import ServedCurves
from sojourn.serving import load_bundle
from sojourn.serving.inputs import Encoder
from sojourn.simulator.admission import Admission, AdmissionJobs, OfferedJob, admit_predicted, ratio_of
from sojourn.simulator.measures import interval_text, signed_text

TRUE, ESTIMATE, NO_ESTIMATE = "true time", "user estimate", "one day for each"
ESTIMATES = "estimate"
"""In place of a family: no model, but the user's estimate with and without ends that are told."""
NOT_TOLD, TOLD = "estimate, ends not told", "estimate, ends told"
BASES = ("run time", "estimate")
"""What a deadline's slack is a share of."""
Plans = Mapping[str, np.ndarray]
"""By label, what is taken for the processing time of each job, float64 (n,)."""
_MEANS = ("accepted_jobs_pct", "accepted_load_pct", "on_time_pct", "late_load_pct", "late_jobs_pct")
LEGEND = ("On time: core-hours of accepted jobs that ended by their deadline, % of the submitted (higher = better). "
          "Diff.: of that to the user's estimate, percentage points, with the paired 95 % t-interval over days of the "
          "means over draws. Lost: core-hours of accepted jobs that were late, % of the submitted; late: % of the "
          "accepted jobs (both lower = better). Capped: by the user's estimate. Deadline of: whether the slack is a "
          "share of the run time, as in the paper, or of the user's estimate.")

TOLD_LEGEND = ("Accepted: core-hours of accepted jobs, % of the submitted (higher = better). Diff.: to ends that "
               "are not told, percentage points, with the paired 95 % t-interval over days of the means over draws. "
               "Jobs: accepted, % of the jobs. Told: `Admission.ended` at each real end before the planned one. "
               "Deadline of: whether the slack is a share of the run time, as in the paper, or of the user's "
               "estimate.")
VALID_SHARE = 0.15
"""Of the past requests, the latest: what a family chooses its size on."""
_ROW = "row_of_trace"


def plans_of(jobs: SubmittedJobs, quantiles: np.ndarray, shares: Sequence[float], name: str, *,
             is_estimated: bool = True) -> Plans:
    """The user's estimate (a day where there is none), the truth, and the quantiles (n_shares, n) of the model: as they
    are, and capped by the estimate, at which most schedulers end a job.

    is_estimated: whether some job of the trace has an estimate; without any, a day for each is no user's estimate, and
    nothing is capped by it."""
    estimate = np.maximum(np.where(np.isnan(jobs.estimate_s), float(DAY_S), jobs.estimate_s), 1.0)
    labels = [f"{name} p{100 * share:g}" for share in shares]
    plans = {ESTIMATE if is_estimated else NO_ESTIMATE: estimate, TRUE: jobs.processing_s.astype(np.float64),
             **dict(zip(labels, quantiles, strict=True))}
    if not is_estimated:
        return plans
    return {**plans, **{f"{label} capped": np.minimum(row, estimate)
                        for label, row in zip(labels, quantiles, strict=True)}}


def predicted_runs(days: Mapping[int, SubmittedJobs], plans: Mapping[int, Plans], settings: Sequence[Setting],
                   n_draws: int, seed: int, allocation: str, progress: Callable[[int, int], None]) -> pd.DataFrame:
    """A row per setting, basis of deadlines, day, draw and plan; `label` says which plan."""
    bases = BASES if all(ESTIMATE in own for own in plans.values()) else BASES[:1]
    rows, n_done, n_all = [], 0, len(days) * len(settings) * len(bases)
    for setting in settings:
        for basis in bases:
            for day, submitted in days.items():
                rows += _day_rows(submitted, plans[day], setting, basis, day, n_draws, seed, allocation)
                n_done += 1
                progress(n_done, n_all)
    return pd.DataFrame(rows)


def _day_rows(submitted: SubmittedJobs, plans: Plans, setting: Setting, basis: str, day: int, n_draws: int, seed: int,
              allocation: str) -> list[dict[str, float | int | str]]:
    n_cores = setting.n_cores or submitted.filled_cores()
    rows: list[dict[str, float | int | str]] = []
    for draw in range(n_draws):
        jobs = jobs_with_deadlines(submitted, setting, seed, day, draw)
        if basis == "estimate":
            jobs = setting_deadlines(jobs, plans[ESTIMATE], setting, seed, day, draw)
        load = jobs.processing_s * jobs.cores
        limit_s = min(jobs.load_s, n_cores * jobs.frame_s)
        for label, planned in plans.items():
            run = admit_predicted(jobs, planned, n_cores, allocation)
            accepted = int(load[run.is_accepted].sum())
            late = int(load[run.is_late].sum())
            n_accepted = int(run.is_accepted.sum())
            rows.append({
                "slack": setting.slack, "basis": basis, "day": day, "draw": draw, "label": label, "n_jobs": len(jobs),
                "n_cores": n_cores, "accepted_jobs_pct": 100 * n_accepted / len(jobs),
                "accepted_load_pct": 100 * accepted / jobs.load_s, "on_time_pct": 100 * (accepted - late) / jobs.load_s,
                "late_load_pct": 100 * late / jobs.load_s,
                "late_jobs_pct": 100 * int(run.is_late.sum()) / max(n_accepted, 1),
                "ratio": ratio_of(limit_s, accepted - late)})
    return rows


def predicted_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over days by slack, basis and plan; `gain_pp`: load on time above that of the baseline, percentage points,
    with `low` and `high`, the paired 95 % t-interval over days. The baseline is the user's estimate; without any in the
    trace, a day for each job."""
    within = ("slack", "basis")
    days = runs.groupby([*within, "label", "day"], sort=False)[list(_MEANS)].mean().reset_index()
    return paired_summary(days, within, ("day",), _baseline(runs["label"]), "on_time_pct", "gain_pp", _MEANS)


def _baseline(labels: pd.Series) -> str:
    return ESTIMATE if (labels == ESTIMATE).any() else NO_ESTIMATE


def predicted_section(summary: pd.DataFrame, caption: str) -> Section:
    """The summary as a table."""
    rows, baseline = [], _baseline(summary["label"])
    for row in summary.to_dict("records"):
        has_interval = row["label"] != baseline and not np.isnan(row["low"])
        rows.append((f"{row['slack']:g}", row["basis"], row["label"], f"{row['on_time_pct']:.1f}",
                     "-" if row["label"] == baseline else signed_text(row["gain_pp"], 1),
                     interval_text(row["low"], row["high"], 1, " ") if has_interval else "-",
                     "baseline" if row["label"] == baseline else verdict(-row["high"], -row["low"]),
                     f"{row['accepted_load_pct']:.1f}", f"{row['late_load_pct']:.1f}", f"{row['late_jobs_pct']:.1f}"))
    titles = ("slack", "deadline of", "planned by", "on time %", "diff. pp", "interval", "verdict", "accepted %",
              "lost %", "late %")
    return Section("Admission by predicted processing times", caption, titles, tuple(rows), 3, LEGEND)


def told_runs(days: Mapping[int, SubmittedJobs], settings: Sequence[Setting], n_draws: int, seed: int, allocation: str,
              progress: Callable[[int, int], None]) -> pd.DataFrame:
    """A row per setting, basis of deadlines, day, draw and label: a machine that plans by the user's estimate and is
    told nothing, one that is told each real end before it, and one that knows the true times.

    A job that outlives its estimate is over at its planned end; one without an estimate is planned for a day."""
    rows: list[dict[str, float | int | str]] = []
    n_all = len(days) * len(settings) * n_draws
    for setting in settings:
        for day, submitted in days.items():
            estimate_s = np.ceil(plans_of(submitted, np.empty((0, len(submitted))), (), "")[ESTIMATE]).astype(np.int64)
            n_cores = setting.n_cores or submitted.filled_cores()
            for draw in range(n_draws):
                of_run_time = jobs_with_deadlines(submitted, setting, seed, day, draw)
                of_estimate = setting_deadlines(of_run_time, estimate_s, setting, seed, day, draw)
                for basis, jobs in zip(BASES, (of_run_time, of_estimate), strict=True):
                    for label, planned_s in ((NOT_TOLD, estimate_s), (TOLD, estimate_s), (TRUE, jobs.processing_s)):
                        is_in = _accepted(jobs, planned_s, Admission(n_cores, allocation), is_told=label == TOLD)
                        load = int((jobs.processing_s * jobs.cores)[is_in].sum())
                        rows.append({"slack": setting.slack, "basis": basis, "day": day, "draw": draw, "label": label,
                                     "n_jobs": len(jobs), "n_cores": n_cores,
                                     "accepted_load_pct": 100 * load / jobs.load_s,
                                     "accepted_jobs_pct": 100 * float(is_in.mean())})
                progress(len(rows) // (len(BASES) * 3), n_all)
    return pd.DataFrame(rows)


def _accepted(jobs: AdmissionJobs, planned_s: np.ndarray, machine: Admission, *, is_told: bool) -> np.ndarray:
    """Which jobs the machine accepts, bool (n,), offered one by one with planned in place of true times."""
    is_in = np.zeros(len(jobs), bool)
    saved_s: dict[str, int] = {}
    for row in jobs.order().tolist():
        submission_s, name = int(jobs.submission_s[row]), str(row)
        if is_told:
            _tell_ends(machine, saved_s, submission_s)
        answer = machine.offer(OfferedJob(submission_s, int(planned_s[row]), int(jobs.cores[row]),
                                   int(jobs.deadline_s[row]), name))
        is_in[row] = answer.is_accepted
        saved_s[name] = max(int(planned_s[row] - jobs.processing_s[row]), 0)
    return is_in


def _tell_ends(machine: Admission, saved_s: Mapping[str, int], until_s: int) -> None:
    """Tell all real ends up to a time, the first one first: each lets others begin, and so end, earlier.

    saved_s: by name, how long before its planned end a job ends."""
    while True:
        ends = [(each.end_s - saved_s[each.name], each.name) for each in machine.running() if saved_s[each.name]]
        end_s, name = min(ends, default=(until_s + 1, ""))
        if end_s > until_s:
            return
        machine.ended(name, end_s)


def told_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over days by slack, basis and label; `gain_pp`: accepted load above that without told ends, with `low` and
    `high`, the paired 95 % t-interval over days."""
    within, means = ("slack", "basis"), ("accepted_load_pct", "accepted_jobs_pct")
    days = runs.groupby([*within, "label", "day"], sort=False)[list(means)].mean().reset_index()
    return paired_summary(days, within, ("day",), NOT_TOLD, "accepted_load_pct", "gain_pp", means)


def told_section(summary: pd.DataFrame, caption: str) -> Section:
    """The summary as a table."""
    rows = []
    for row in summary.to_dict("records"):
        is_base = row["label"] == NOT_TOLD
        has_interval = not is_base and not np.isnan(row["low"])
        rows.append((f"{row['slack']:g}", row["basis"], row["label"], f"{row['accepted_load_pct']:.1f}",
                     "-" if is_base else signed_text(row["gain_pp"], 1),
                     interval_text(row["low"], row["high"], 1, " ") if has_interval else "-",
                     "baseline" if is_base else verdict(-row["high"], -row["low"]),
                     f"{row['accepted_jobs_pct']:.1f}"))
    titles = ("slack", "deadline of", "planned by", "accepted %", "diff. pp", "interval", "verdict", "jobs %")
    return Section("Admission with ends that are told", caption, titles, tuple(rows), 3, TOLD_LEGEND)


@dataclass(frozen=True, slots=True)
class ProcessingPredictor:
    """Answers about the jobs of a trace. from_s: the days that it may be asked about begin then or later; all that it
    was fitted on was known by then. table: the lifetime curves of examples of some rows."""

    trace: Trace
    encoder: Encoder
    table: Callable[[FeatureRows, Examples], CurveTable]
    from_s: int

    def quantiles(self, rows: np.ndarray, day_start_s: int, shares: Sequence[float]) -> np.ndarray:
        """Processing times that shares of such jobs do not exceed, float64 (n_shares, n), at least 1 s.

        rows: of `trace.requests`, int64 (n,): jobs that are submitted from day_start_s on. What is read of the trace is
        what had ended by then, and what jobs said at their submission; no end on the day itself.

        Refused with ValueError: a day that begins before from_s, and jobs that were submitted before the day.
        """
        if day_start_s < self.from_s:
            raise ValueError(f"day_start_s must be at least {self.from_s}, when the predictor's data end, got "
                             f"{day_start_s!r}")
        submitted = decision_times(self.trace)[rows]
        if (submitted < day_start_s).any():
            raise ValueError(f"rows must be submitted at {day_start_s} or later, got {int(submitted.min())}")
        known = as_known(self.trace, day_start_s, rows)
        built = build_rows(known, self.encoder)
        place = np.full(len(self.trace), -1)
        place[known.requests[_ROW].to_numpy(np.int64)[built.idx_request]] = np.arange(len(built))
        asked = known_at(built, np.ones(len(built), bool), None, is_late_entry=False).take(place[rows])
        table = self.table(built, asked)
        return np.array([np.maximum(table.quantile(share, 0.0), 1.0) for share in shares])


def as_known(trace: Trace, cut_s: int, rows: np.ndarray) -> Trace:
    """The trace as it was known at cut_s, and the requests `rows` without their ends: what had not ended by then still
    runs, what had not begun began when it was submitted."""
    submitted = decision_times(trace)
    is_kept = submitted < cut_s
    is_kept[rows] = True
    requests = trace.requests.loc[is_kept].copy()
    requests[_ROW] = np.flatnonzero(is_kept)
    has_ended = trace.is_event()[is_kept] & (trace.end_s()[is_kept] <= cut_s)
    has_begun = trace.start_s()[is_kept] <= cut_s
    requests["departure_s"] = requests["departure_s"].where(has_ended)
    requests["arrival_s"] = requests["arrival_s"].where(has_begun, submitted[is_kept])
    return Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta)


def fitted_predictor(trace: Trace, family: str, from_s: int, *, n_threads: int = 2,
                     seed: int = 0) -> ProcessingPredictor:
    """A lifetime family fitted on what was known at from_s. ValueError for an unknown family, or too short a past."""
    if family not in LIFETIME_MODELS:
        raise ValueError(f"predict must be estimate, bundle:FOLDER or one of {', '.join(LIFETIME_MODELS)}, got "
                         f"{family!r}")
    encoder = default_encoder(trace)
    built = build_rows(as_known(trace, from_s, np.empty(0, np.int64)), encoder)
    if len(built) < 100:
        raise ValueError(f"the trace must have at least 100 requests before second {from_s}, got {len(built)}")
    decided = np.sort(built.decided_s)
    valid_from_s = int(decided[int(len(decided) * (1 - VALID_SHARE))])
    is_train = built.decided_s < valid_from_s
    everything = np.ones(len(built), bool)
    split = Split(known_at(built, is_train, valid_from_s), known_at(built, ~is_train, from_s),
                  known_at(built, everything, from_s), known_at(built, ~everything, None), valid_from_s, from_s)
    settings = FitSettings(backoff_keys(encoder), n_threads, seed, names=built.names)
    model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
    return ProcessingPredictor(trace, encoder, lambda _, asked: model.curve_table(asked), from_s)


def bundle_predictor(trace: Trace, folder: str, from_s: int, content_hash: str) -> ProcessingPredictor:
    """A served model. ValueError if it was trained on this trace (by content_hash) after from_s, or does not say."""
    bundle = load_bundle(folder)
    training = bundle.schema.training
    if not {"content_hash", "to_s"} <= training.keys():
        raise ValueError("a bundle must name its training data by `content_hash` and `to_s`, got one without them")
    if training["content_hash"] == content_hash and int(training["to_s"]) > from_s:
        raise ValueError(f"a bundle must be trained on requests before second {from_s} of this trace, got one trained "
                         f"on all before second {training['to_s']}")
    return ProcessingPredictor(trace, bundle.schema.encoder,
                               lambda rows, asked: ServedCurves(bundle, rows, from_s).at(asked.idx_row), from_s)
