"""`sojourn gain --preset queue`: hours of waiting that an order of the queue and predicted run times save where
parallel jobs wait for processors. What to take is chosen on the log's past; the later part is replayed with it.

Predictors are in the loop: they learn of an end when the replay ends the job."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.markup import escape

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.trace import Trace
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.predictors import Learning, LiveRunTimes, PredictorSpec, learnt_bundle, parse_predictor
from sojourn.flows.placement.workloads import known_by
from sojourn.flows.reports.section import Section, pngs, section_page
from sojourn.flows.retrain.features import Features, stored_features
from sojourn.flows.retrain.ingest import ingested_trace
from sojourn.flows.retrain.train import windows
from sojourn.flows.tracking.tracker import Tracker
from sojourn.publishing import whole_file
from sojourn.simulator import Oracle
from sojourn.simulator.measures import interval_text
from sojourn.simulator.queueing import (
    LEFT_OUT,
    N_WEEKS_MIN,
    LastTwo,
    QueueJobs,
    QueueRules,
    QueueSetting,
    RunTimes,
    Schedule,
    compare_schedules,
    counted,
    measures_by_class,
    parse_queue,
    queue_jobs,
    queue_names,
    replay_queue,
    requested,
    says_processors,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAY_S, WEEK_S, HOUR_S = 86_400, 7 * 86_400, 3_600
BASELINE, SHORTEST = QueueRules(), QueueRules(backfill_order="sjf")
CANDIDATES = tuple(QueueRules(order, second, overtaken_s=hours * HOUR_S)
                   for order, second in (("fcfs", "sjf"), ("wfp3", "saf"), ("sjf", "sjf")) for hours in (3, 6, 12))
"""What is tried on the past, each with every source of run times that can be deployed."""
LONGEST_SHARE = 1.1
"""What is chosen has a longest wait of at most this share of the baseline's on the past."""
LEVEL_MOST = 1.5
"""What is level with the least mean slowdown on the past is at most so many times as high, whatever the interval."""
LIMITS, LAST_TWO, PERFECT = "limits", "last two", "perfect"
LEGEND = ("Wait: mean, 95th percentile, longest (lower = better). Slowdown: mean of (wait + run) / run, runs below "
          "10 s count as 10 s, at least 1 (lower = better). Saved: mean wait below the first row's, with its 95 % "
          "interval over weeks (higher = better). Later: users whose mean wait is more than a minute longer than in "
          "the first row. Run times: limits, as the users gave them; last two, the mean of the user's last two; of a "
          "model, the median given the run so far. Bound: a job comes first once later ones had so many hours of the "
          "whole machine since its submission. Predictors learn of an end when the replay ends the job.")
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Part:
    """The later part of a log as a queue. jobs: of it. sources: what predicts run times and can be deployed, by name;
    it was learnt on what came before. doubts: sentences, what makes the log a weaker one."""

    jobs: QueueJobs
    sources: Mapping[str, RunTimes]
    doubts: tuple[str, ...] = ()

    @property
    def warmup_s(self) -> int:
        """A replay begins with an empty machine: so long is not counted."""
        return min(WEEK_S, int(self.jobs.submission_s[-1] - self.jobs.submission_s[0]) // 4)


def queue_part(trace: Trace, families: Sequence[PredictorSpec], shares: tuple[float, float], folder: Path, *,
               n_processors: int | None = None, queues: Mapping[str, QueueSetting] | None = None,
               features: Features | None = None, seed: int = 0) -> Part:
    """The later part of a trace that has submissions. shares: of its requests, the later part, and of the earlier part
    what chooses a model's size. folder: for the models. n_processors: default: the log's MaxProcs, else the most that
    ran at once. queues: as of `queue_jobs`. features: of the trace, if they were made."""
    encoder = default_encoder(trace) if features is None else features.encoder
    rows = build_rows(trace, encoder) if features is None else features.rows
    split = windows(rows, *shares)
    known = Learning(trace, "", encoder, rows, split, seed)
    guessed = _processors(trace) if n_processors is None else None
    everything = queue_jobs(trace, n_processors=n_processors or guessed, queues=queues)
    is_later = everything.submission_s >= split.test_from_s
    jobs = everything.take(is_later)
    if len(jobs) == 0:
        raise ValueError("trace must have jobs that ended in its later part, got none")
    sources: dict[str, RunTimes] = {LIMITS: requested(jobs)}
    if (np.asarray(jobs.owner) >= 0).any():
        sources[LAST_TWO] = LastTwo(everything.take(~is_later))
    for family in families:
        bundle = learnt_bundle(folder / family.kind, family, known, 2)
        sources[family.name] = LiveRunTimes(bundle, trace.requests, 0.5)
    return Part(jobs, sources, tuple(_doubts(everything, guessed is not None)))


def _doubts(jobs: QueueJobs, is_guessed: bool) -> Iterator[str]:
    """jobs: all of the log. is_guessed: nobody said how many processors there are."""
    n, counts, least = len(jobs), dict(jobs.counts), 0.01 * len(jobs)
    if is_guessed:
        yield (f"Neither the log nor --processors says how many processors the machine has: {jobs.n_processors:,} is "
               "the most that ran at once. On a larger one jobs wait less.")
    if (n_missing := counts["limit missing"]) > least:
        yield (f"{n_missing:,} of {n:,} jobs have no limit: the longest limit, or run without one, stands for it. With "
               "limits of their own the baseline would do better.")
    if (n_cut := counts["cut at the limit"]) > least:
        yield f"{n_cut:,} of {n:,} jobs ran longer than their limits; their runs are cut there."
    left = {rule: counts[rule] for rule in LEFT_OUT if counts[rule]}
    if (n_left := sum(left.values())) > least:
        rules = ", ".join(f"{rule}{f' {count:,}' if len(left) > 1 else ''}" for rule, count in left.items())
        yield f"{n_left:,} of {n + n_left:,} jobs are left out: {rules}."


def _processors(trace: Trace) -> int | None:
    """The most processors in use at once, of a log that does not say how many there are; None if it does."""
    if says_processors(trace):
        return None
    is_run = trace.is_event() & trace.is_start_known()
    size = np.ceil(trace.requests["cpu_cores"].to_numpy(np.float64)[is_run])
    time_s = np.concatenate([trace.end_s()[is_run], trace.start_s()[is_run]])
    change = np.concatenate([-size, size])[np.argsort(time_s, kind="stable")]  # ends first
    return int(max(np.cumsum(change).max(initial=0.0), size.max(initial=1.0)))


def is_fair(tried: pd.DataFrame) -> np.ndarray:
    """Whether the longest wait of each row is at most LONGEST_SHARE of that of the first one, the baseline; bool."""
    longest_s = tried["max_wait_s"].to_numpy()
    return np.asarray(longest_s <= LONGEST_SHARE * longest_s[0])


def choose(part: Part, progress: Any) -> tuple[QueueRules, str, pd.DataFrame]:
    """The rules and the source to take; the baseline if none has a lower mean slowdown. The table: all that were tried,
    the baseline first.

    Level is what is fair (`is_fair`), if the 95 % interval of its mean slowdown over the least one holds 1, and it is
    at most LEVEL_MOST times as high. Of those that are level a model is taken before the last two, and these before
    limits, since limits stay as good as they were, and what learns knows more later on; then the least bound, since the
    longest wait of a past says little of the next one; then the least slowdown. With fewer than N_WEEKS_MIN weeks there
    is no interval, so only the least is level. The table's `chosen` is True in the row that is taken."""
    pairs = [(BASELINE, LIMITS), *((rules, name) for rules in CANDIDATES for name in part.sources)]
    schedules: list[tuple[str, Schedule]] = []
    for done, (rules, name) in enumerate(pairs):
        progress(done, len(pairs))
        schedules.append((name, replay_queue(part.jobs, rules, part.sources[name])))
    table = compare_schedules(schedules, warmup_s=part.warmup_s)
    slowdown = table["mean_slowdown"].to_numpy()
    fair = np.flatnonzero(is_fair(table) & (slowdown < slowdown[0]))
    best = 0
    if len(fair):
        fair = fair[np.argsort(slowdown[fair], kind="stable")]
        against = compare_schedules([schedules[row] for row in fair], warmup_s=part.warmup_s)
        is_level = (against["slowdown_ratio_low"] <= 1.0) & (against["slowdown_ratio"] <= LEVEL_MOST)
        level, learns = [fair[0], *fair[is_level.to_numpy()]], {LIMITS: 2, LAST_TWO: 1}
        best = min(level, key=lambda row: (learns.get(pairs[row][1], 0), pairs[row][0].overtaken_s))
    return (*pairs[best], table.assign(**{_CHOSEN: np.arange(len(pairs)) == best}))


def run_queue_gain(config: CompareConfig, tracker: Tracker) -> dict[str, Any]:
    """Choose on the past, replay the later part, print, draw and log; returns `answers` and `rows`."""
    families = [parse_predictor(text) for text in config.predictors]
    spec = config.trace_specs()[config.seeds[0]]
    with stage("ingest"):
        features = stored_features(spec.store, ingested_trace(spec.store, spec.source, spec.data_hash))
    shares, queues = (spec.test_share, spec.valid_share), dict(map(parse_queue, config.queues))
    with tempfile.TemporaryDirectory() as folder:
        with stage("learn"):
            later = queue_part(features.trace, families, shares, Path(folder) / "later", features=features,
                               n_processors=config.processors, queues=queues)
            known = known_by(features.trace, int(later.jobs.submission_s[0]))
            names = set(queue_names(known.requests)) if queues else set()
            past = queue_part(known, families, shares, Path(folder) / "past", n_processors=later.jobs.n_processors,
                              queues={name: each for name, each in queues.items() if name in names})
        with stage("choose on the past") as report:
            rules, name, tried = choose(past, report)
        pairs = dict.fromkeys([(BASELINE, LIMITS), (SHORTEST, LIMITS), *((rules, each) for each in later.sources)])
        sources: dict[str, RunTimes] = {**later.sources, PERFECT: Oracle(later.jobs)}
        schedules: list[tuple[str, Schedule]] = []
        with stage("replay") as report:
            for done, (each, source) in enumerate([*pairs, (rules, PERFECT)]):
                report(done, len(pairs) + 1)
                schedules.append((source, replay_queue(later.jobs, each, sources[source])))
    table = compare_schedules(schedules, warmup_s=later.warmup_s)
    table[_CHOSEN] = [source == name and schedule.rules == rules for source, schedule in schedules]
    answers = [*answers_of(spec.name, later.jobs, table, tried), *later.doubts]
    section = section_of("Waiting", f"{spec.name}, later part", later, table)
    for line in answers:
        console.print()
        console.print(escape(line))
    console.print()
    console.print(section)
    labelled = [(f"{words_of(one.rules)}, {source}", one) for is_chosen, (source, one) in zip(
        table[_CHOSEN], schedules, strict=True) if is_chosen or one is schedules[0][1]]
    figure, week = waits_figure(labelled, later.warmup_s), week_figure(labelled, later.warmup_s)
    if config.picture is not None:
        with whole_file(config.picture) as temporary:
            figure.savefig(temporary, format="png", dpi=110)
        console.print(f"picture  {config.picture}", soft_wrap=True)
    if config.page is not None:
        with whole_file(config.page) as temporary:
            temporary.write_text(section_page(f"Waiting on {spec.name}", " ".join(answers), [
                section, section_of("Tried on the past", f"{spec.name}, before the later part", past, tried)],
                                              pngs({"waits": figure, "week": week})))
        table.to_csv(config.page.with_name(f"{config.page.stem}-queues.csv"), index=False)
        console.print(f"page     {config.page}", soft_wrap=True)
    with stage("log"):
        log_sections(tracker, config.preset, config.model_dump(mode="json"), spec, [section],
                     {"queues": table, "past": tried}, {"waits": figure, "week": week}, about="hours of waiting")
    return {"answers": answers, **{key: json.loads(one.to_json(orient="records", double_precision=15))
                                   for key, one in (("rows", table), ("past", tried))}}


def words_of(rules: QueueRules) -> str:
    """The orders, and the guard or the bound (overtaken_s), as in tables.

    >>> words_of(QueueRules()), words_of(QueueRules("wfp3", "saf", guard_s=172_800))
    ('fcfs', 'wfp3, saf, guard 2 d')
    >>> words_of(QueueRules("sjf", "sjf", overtaken_s=21_600))
    'sjf, bound 6 h'
    """
    guards = [] if rules.guard_s is None else [f"guard {rules.guard_s / DAY_S:g} d"]
    guards += [] if rules.overtaken_s is None else [f"bound {rules.overtaken_s / HOUR_S:g} h"]
    return ", ".join([*dict.fromkeys((rules.order, rules.backfill_order)), *guards])


def _rules_of(row: Mapping[Any, Any] | pd.Series[Any]) -> QueueRules:
    guards = (None if pd.isna(row[name]) else int(row[name]) for name in ("guard_s", "overtaken_s"))
    return QueueRules(row["order"], row["backfill_order"], row["backfilling"], *guards)


def answers_of(name: str, jobs: QueueJobs, table: pd.DataFrame, tried: pd.DataFrame) -> list[str]:
    """Sentences. table: of the later part, tried: of the past; the baseline first, one row is `chosen`."""
    first, found = table.iloc[0], table[table[_CHOSEN]].iloc[0]
    past, before = tried[tried[_CHOSEN]].iloc[0], tried.iloc[0]
    hours = {key: f"{row['mean_wait_s'] / HOUR_S:.2f} h" for key, row in (("first", first), ("found", found))}
    days = (jobs.submission_s[-1] - jobs.submission_s[0]) / DAY_S
    head = (f"{name}, the last {len(jobs):,} jobs ({days:,.0f} days) on {jobs.n_processors:,} processors: first come, "
            f"first served with EASY backfilling by the users' limits, a job waits {hours['first']}")
    if first["mean_wait_s"] < 60.0:
        return [f"{head}: hardly any job waits, so there is nothing to save."]
    if found.name == 0:
        return [f"{head}. On the past none of {len(tried) - 1} others was better without longer waits: keep it."]
    saved = interval_text(found["saved_wait_s_low"] / HOUR_S, found["saved_wait_s_high"] / HOUR_S, missing="")
    later, is_lost = found["later_owners_pct"], found["saved_wait_s"] < 0.0
    interval = f" [{saved}; 95 %, {found['n_weeks']} weeks]" if saved else ""
    lines = [f"{head}; in the order {words_of(_rules_of(found))}, by {found['source']}, {hours['found']}: "
             f"{found['saved_wait_s'] / HOUR_S:+.2f} h saved{interval}. The mean slowdown is "
             f"{found['mean_slowdown']:.1f} in place of {first['mean_slowdown']:.1f}, the longest wait "
             f"{found['max_wait_s'] / DAY_S:.1f} days in place of {first['max_wait_s'] / DAY_S:.1f}"
             + ("." if pd.isna(later) else f"; {later:.0f} % of the users wait longer than before."),
             f"It was chosen on the past, of {len(tried) - 1}: there the slowdown was {past['mean_slowdown']:.1f} in "
             f"place of {before['mean_slowdown']:.1f}."]
    fair = tried[is_fair(tried)]
    best = fair.iloc[int(fair["mean_slowdown"].argmin())]
    if best["mean_slowdown"] < 0.98 * past["mean_slowdown"]:
        lines[1] += (f" In the order {words_of(_rules_of(best))}, by {best['source']}, it was "
                     f"{best['mean_slowdown']:.1f}: level within the noise, and of what is level what learns goes "
                     "first, then the least bound.")
    if is_lost:
        lines[0] += " Jobs wait longer than before: keep what you have."
    if not saved:
        lines[0] += f" Fewer than {N_WEEKS_MIN} weeks are counted: there is no interval, and it may all be chance."
    elif found["saved_wait_s_low"] <= 0.0 <= found["saved_wait_s_high"]:
        lines[0] += f" The interval holds 0: the hours {'lost' if is_lost else 'saved'} may be chance."
    if found["source"] != LIMITS and not pd.isna(found["order_ratio_low"]):
        lines.append(f"In the same order the slowdown by {found['source']} is {found['order_ratio']:.2f} "
                     f"[{found['order_ratio_low']:.2f} to {found['order_ratio_high']:.2f}] of that by limits.")
        if not found["order_ratio_high"] < 1.0:
            lines[-1] += (" The interval holds 1: the limits may do as well." if found["order_ratio_low"] <= 1.0 else
                          " The limits do better here.")
    if not past["slowdown_ratio_high"] < 1.0:
        lines[1] += " Its gain there is not proven."
    return lines


def section_of(title: str, about: str, part: Part, table: pd.DataFrame) -> Section:
    """The table for the terminal and the page. about: the data, in words."""
    rows = []
    for row in table.to_dict("records"):
        saved = "-" if pd.isna(row["saved_wait_s_low"]) else interval_text(row["saved_wait_s_low"] / HOUR_S,
                                                                           row["saved_wait_s_high"] / HOUR_S, 2, " ")
        later = row["later_owners_pct"]
        rows.append((words_of(_rules_of(row)) + " *" * bool(row[_CHOSEN]), str(row["source"]),
                     *(f"{row[key] / HOUR_S:,.2f}" for key in ("mean_wait_s", "p95_wait_s")),
                     f"{row['max_wait_s'] / DAY_S:,.1f}", f"{row['mean_slowdown']:,.1f}",
                     f"{row['saved_wait_s'] / HOUR_S:+.2f}", saved, "-" if pd.isna(later) else f"{later:.0f}"))
    left = ", ".join(f"{rule}: {n:,}" for rule, n in part.jobs.counts.items() if n)
    caption = (f"{about}: {table['n_jobs'].iloc[0]:,.0f} jobs in {table['n_weeks'].iloc[0]} whole weeks are counted, "
               f"after {part.warmup_s / DAY_S:.1f} days of warm-up. * = chosen on the past."
               f"{f' Changed or left out: {left}.' if left else ''}")
    titles = ("order", "run times", "wait h", "p95 h", "longest d", "slow- down", "saved h", "95 %", "later %")
    return Section(title, caption, titles, tuple(rows), 2, LEGEND)


def waits_figure(schedules: Sequence[tuple[str, Schedule]], warmup_s: int) -> Figure:
    """Mean wait by size of job, and processors that waiting jobs ask for over time; the first one is the baseline."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    sizes, over_time = figure.subplots(1, 2, width_ratios=(2, 3))
    for k, (label, schedule) in enumerate(schedules):
        colour, jobs = ("#8c8c8c", "#1b7f79")[min(k, 1)], schedule.jobs
        by_size = measures_by_class(schedule, warmup_s).loc["size"]
        place = np.arange(len(by_size)) + (k - (len(schedules) - 1) / 2) * 0.4
        sizes.bar(place, by_size["mean_wait_s"] / HOUR_S, 0.36, color=colour)
        sizes.set_xticks(np.arange(len(by_size)), by_size.index.tolist(), fontsize=8)
        time_s = np.concatenate([jobs.submission_s, schedule.start_s])
        order = np.argsort(time_s, kind="stable")
        queued = np.cumsum(np.concatenate([jobs.size, -jobs.size])[order])
        edges = np.linspace(time_s.min(), time_s.max() + 1, 201)
        levels = np.append(0, queued)[np.searchsorted(time_s[order], edges[:-1], side="right")]
        over_time.step((edges[:-1] - edges[0]) / DAY_S, levels / jobs.n_processors, where="post", color=colour, lw=1.0,
                       label=label)
    sizes.set_xlabel("processors of the job")
    sizes.set_ylabel("mean wait, h (lower = better)")
    over_time.set_xlabel("days")
    over_time.set_ylabel("waiting jobs' processors,\nas a multiple of the machine")
    over_time.legend(frameon=False, fontsize=8)
    for axes in (sizes, over_time):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def week_figure(schedules: Sequence[tuple[str, Schedule]], warmup_s: int) -> Figure:
    """The week whose mean wait in the first schedule is nearest to that of all, a panel each: processors over time,
    jobs coloured by their wait. A job is drawn on the lowest free processors; white is idle."""
    from matplotlib import colors
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    first = schedules[0][1]
    from_s, is_counted = int(first.jobs.submission_s[0]) + warmup_s, counted(first.jobs, warmup_s)
    week, wait_s = (first.jobs.submission_s[is_counted] - from_s) // WEEK_S, first.wait_s[is_counted]
    n_jobs = np.bincount(week)
    means_s = np.bincount(week, wait_s) / np.maximum(n_jobs, 1)
    begin_s = from_s + WEEK_S * int(np.where(n_jobs > 0, np.abs(means_s - wait_s.mean()), np.inf).argmin())
    figure = Figure(figsize=(9.0, 2.6 * len(schedules) + 0.8), layout="constrained")
    norm = colors.BoundaryNorm([0, 1 / 60, 1, 6, 24, 72], 256, extend="max")
    for axes, (label, schedule) in zip(np.atleast_1d(figure.subplots(len(schedules), 1, sharex=True)), schedules,
                                       strict=True):
        jobs, corners, waited_h = schedule.jobs, [], []
        for row, low, high in placed(schedule, begin_s, begin_s + WEEK_S):
            left, right = np.clip((np.array([schedule.start_s[row], schedule.end_s[row]]) - begin_s) / DAY_S, 0.0, 7.0)
            corners.append([(left, low), (right, low), (right, high), (left, high)])
            waited_h.append(schedule.wait_s[row] / HOUR_S)
        drawn = PolyCollection(corners, array=np.array(waited_h), cmap="viridis_r", norm=norm, antialiaseds=False)
        axes.add_collection(drawn)
        axes.set(xlim=(0.0, 7.0), ylim=(0, jobs.n_processors), ylabel="processors")
        axes.set_title(label, fontsize=9, loc="left")
    axes.set_xlabel("days of the week whose mean wait is nearest to that of all weeks")
    bar = figure.colorbar(drawn, ax=figure.axes, ticks=[0, 1 / 60, 1, 6, 24, 72])
    bar.set_ticklabels(["0", "1 min", "1 h", "6 h", "1 d", "3 d"])
    bar.set_label("the job waited (shorter = better)")
    return figure


def placed(schedule: Schedule, begin_s: int, end_s: int) -> list[tuple[int, int, int]]:
    """Row, first processor and the one after the last, of each part of each job that runs in a span of time. A job
    takes the lowest processors that are free, in as many parts as these have."""
    size, found = schedule.jobs.size, []
    is_free = np.ones(schedule.jobs.n_processors, bool)
    held: list[tuple[int, int, np.ndarray]] = []
    runs = np.flatnonzero((schedule.end_s > begin_s) & (schedule.start_s < end_s))
    for row in runs[np.argsort(schedule.start_s[runs], kind="stable")].tolist():
        while held and held[0][0] <= schedule.start_s[row]:
            is_free[heappop(held)[2]] = True
        taken = np.flatnonzero(is_free)[:size[row]]
        is_free[taken] = False
        heappush(held, (int(schedule.end_s[row]), row, taken))
        for part in np.split(taken, np.flatnonzero(np.diff(taken) > 1) + 1):
            found.append((row, int(part[0]), int(part[-1]) + 1))
    return found
