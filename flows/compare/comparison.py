"""A comparison: the grid's cells run in parallel, resumed where it stopped, then printed, logged and drawn.

A learnt predictor is fitted once for each trace, on its earlier part, whatever policies, loads and seeds it meets. Some
placements are explained for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape

from sojourn.features.creation import build_rows, default_encoder
from sojourn.flows.compare.cells import (
    CellResult,
    CellStore,
    cut_s,
    keep_curves,
    keep_cut,
    kept_curves,
    migration_table,
    run_cell,
    source_of,
    workload_of,
)
from sojourn.flows.compare.grid import Cell, by_workload
from sojourn.flows.compare.settings import OF_PAST, CompareConfig
from sojourn.flows.compare.tables import as_document, cells_table, differences_table, log_comparison, summary_table
from sojourn.flows.console import console, stage, tell_doubts
from sojourn.flows.placement.predictors import Learning, PredictorSpec, fitted_curves
from sojourn.flows.placement.workloads import TraceSpec, known_by
from sojourn.flows.reports.comparison_report import comparison_tables, folder_lines, shortened
from sojourn.flows.retrain.features import stored_features
from sojourn.flows.retrain.ingest import content_hash, ingested_trace
from sojourn.flows.retrain.train import windows
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.workers.dask import NewWorker, local_workers, run_grouped
from sojourn.publishing import whole_file
from sojourn.simulator import Explanation, explain
from sojourn.simulator.experiments import BASELINE, RIVALS, is_rejecting_more, knows_the_future, over_rival
from sojourn.simulator.measures import VIOLATION_SERIES, HostMap, interval_text, signed_text
from sojourn.simulator.page import ComparisonData, Pool, gains_figure, in_hosts

MAIN_LOAD = 0.8
"""Time series are shown of the load nearest to this one."""
_SERIES = ("time_s", "empty_hosts_pct", "bound_empty_hosts_pct", *VIOLATION_SERIES)
_Found = Sequence[tuple[Cell, CellResult]]
N_RANKED = 3
"""Of what was tried on the past, so many are told."""
N_PLACEMENTS = 3
"""Of each cell: the same requests for all."""
MAX_CELLS = 6
"""Cells explained at most: the first with different policies, then the others."""


def run_comparison(config: CompareConfig, tracker: Tracker, cells: Sequence[Cell]) -> tuple[int, dict[str, Any]]:
    """Run the cells that are not finished yet, print and log the whole; returns how many failed, and what was found.

    It is `answers`, lines in hosts and money, and `rows`, the summary's, with None for what is not known.
    """
    choices: list[Choice] = []
    with _workers(config.dask, config.n_workers) as workers:
        if config.preset == OF_PAST:
            choices = chosen_on_past(cells, workers)
            cells = replayed_later(cells, choices)
        found, failed = _finished(cells, workers)
    table = cells_table(found)
    summary = summary_table(table)
    tables = {"cells": table, "summary": summary, "differences": differences_table(table)}
    description: dict[tuple[str, float], str] = {}
    for cell, result in found:
        spec = cell.workload
        description.setdefault((spec.name, spec.load), _described(found, cell, result))
    tell_doubts(dict.fromkeys(line for _, result in found for line in result.about["doubts"]))
    shown = shortened(summary)
    chosen = [choice.words for choice in choices]
    answers = [*chosen, *_in_hosts(found, shown, config.price_per_host_hour)]
    for line in answers:
        console.print()
        console.print(escape(line))
    for printed in comparison_tables(shown, description):
        console.print()
        console.print(printed)
    for line in folder_lines(summary):
        console.print(escape(line), soft_wrap=True)
    if config.page is None:
        console.print("\nAll measures, and figures over time: --page FILE.html", soft_wrap=True)
    with stage("log"):
        trace = cells[0].workload.trace
        traces = dict.fromkeys(cell.workload.trace for cell in cells)
        document = as_document(config.preset, trace, summary, description, about=config.about)
        log_comparison(tracker, config.model_dump(mode="json"), traces, document, summary, tables, not failed,
                       answers)
    if config.picture is not None:
        name, load = next(iter(description))
        rows = shown[(shown["workload"] == name) & (shown["load"] == load)]
        with whole_file(config.picture) as temporary:
            gains_figure(rows, description[name, load]).savefig(temporary, format="png")
        console.print(f"picture  {config.picture}", soft_wrap=True)
    if config.page is not None:
        _write_tables(config.page, tables)
        title = f"{config.preset or 'Comparison'} on {trace.name}"
        title += "" if trace.source.file is not None else ": invented requests, not a cluster's own"
        _write_page(config.page, comparison_data(title, found, table, summary, config.price_per_host_hour))
    return len(failed), {"answers": answers, "rows": json.loads(summary.to_json(orient="records", double_precision=15))}


def _finished(cells: Sequence[Cell], workers: Sequence[NewWorker]) -> tuple[_Found, dict[Cell, str]]:
    """Replay cells; returns what each left, and those that failed, which are told."""
    failed = run_cells(cells, workers)
    store = CellStore(cells[0].workload.trace.store)
    found = [(cell, result) for cell in cells if (result := store.read(cell.key())) is not None]
    for cell, reason in failed.items():
        spec = cell.workload
        words = f"{cell.label} on {spec.name}, load {spec.load:g}, seed {spec.seed}: {reason}"
        console.print(f"[red]✗[/] {escape(words)}")
    if not found:
        raise ValueError(f"at least one cell must succeed, got {len(failed)} that failed")
    return found, failed


@dataclass(frozen=True, slots=True)
class Choice:
    """What gained most on a trace's past at a load. label: as in tables. words: a sentence with the gain."""

    load: float
    label: str
    words: str


def chosen_on_past(cells: Sequence[Cell], workers: Sequence[NewWorker]) -> list[Choice]:
    """Replay all that can be deployed on the past, as it was known when the later part began; the choice of each load.

    It is the highest mean gain, over the seeds, over the rival (`over_rival`), of those that reject
    no more than best-fit, if there is one.
    """
    past = [replace(cell, workload=replace(cell.workload, trace=replace(cell.workload.trace, is_past=True)))
            for cell in cells if cell.predictor is None or not knows_the_future(cell.predictor.name)]
    summary = summary_table(cells_table(_finished(past, workers)[0]))
    shown = shortened(summary)
    choices = []
    for load in dict.fromkeys(summary["load"]):
        of_load = summary[summary["load"] == load].assign(shown=shown["label"], is_more=is_rejecting_more(summary))
        rival, rows = over_rival(of_load)
        rows = rows[rows["label"] != rival].sort_values(["is_more", "gain_pp"], ascending=[True, False], kind="stable")
        if len(rows) == 0:
            raise ValueError(f"on the past at load {load:g} a policy beside {BASELINE} must succeed, got none")
        ranked = [f"{row['shown']} {signed_text(row['gain_pp'])} "
                  f"[{interval_text(row['gain_low_pp'], row['gain_high_pp'])}]" for _, row in rows.iterrows()]
        words = (f"Chosen on the past, load {load:g}: {rows.iloc[0]['shown']}, of {len(rows)}. Gain over {rival} "
                 f"there, pp, with 95 % interval: {'; '.join(ranked[:N_RANKED])}.")
        if not rows.iloc[0]["gain_low_pp"] > 0.0:
            words += " Its gain there is not proven: one in the later part may be chance."
        choices.append(Choice(float(load), str(rows.iloc[0]["label"]), words))
    return choices


def replayed_later(cells: Sequence[Cell], choices: Sequence[Choice]) -> list[Cell]:
    """Of the cells: the rivals, what was chosen at the load, and the same policy with perfect lifetimes."""
    chosen = {(choice.load, choice.label) for choice in choices}
    placings = {(cell.workload.load, cell.placing) for cell in cells if (cell.workload.load, cell.label) in chosen}
    return [cell for cell in cells if cell.label in RIVALS or (cell.workload.load, cell.label) in chosen
            or (cell.predictor == PredictorSpec("oracle") and (cell.workload.load, cell.placing) in placings)]


def run_cells(cells: Sequence[Cell], workers: Sequence[NewWorker]) -> dict[Cell, str]:
    """Replay the cells that are not kept yet, and keep them; returns those that failed, with why."""
    folder = cells[0].workload.trace.store
    store, keys = CellStore(folder), {cell: cell.key() for cell in cells}
    fresh = [cell for cell in cells if store.read(keys[cell]) is None]
    if len(fresh) < len(cells):
        console.print(f"{len(cells) - len(fresh)} of {len(cells)} cells were finished before")
    _ingest(cells)
    workers = workers[: max(len(fresh), 1)]
    failed = _learn(fresh, workers)
    groups = [[(cell, keys[cell]) for cell in group]
              for group in by_workload(cell for cell in fresh if cell not in failed).values()]
    n = sum(map(len, groups))
    with stage("replay") as report:
        report(0, n)
        for done, ((cell, _), reason) in enumerate(run_grouped(groups, run_cell, workers), 1):
            report(done, n)
            if reason is not None:
                failed[cell] = reason if isinstance(reason, str) else f"its worker died: {reason}"
    lost = f"its worker must share the folder {folder}, got no result there"
    failed |= {cell: lost for cell in fresh if cell not in failed and store.read(keys[cell]) is None}
    return {cell: failed[cell] for cell in cells if cell in failed}


def _ingest(cells: Sequence[Cell]) -> None:
    """Read each trace file, and tell of its refused rows: here only, for workers find what was read in the store."""
    for spec in dict.fromkeys(cell.workload.trace for cell in cells):
        if spec.source.file is not None:
            with stage("ingest"):
                ingested = ingested_trace(spec.store, spec.source, spec.data_hash)
            tell_doubts(ingested.report.splitlines())


def _learn(cells: Sequence[Cell], workers: Sequence[NewWorker]) -> dict[Cell, str]:
    """Cut the trace and fit what learns from it, once per trace; returns the cells that this leaves without."""
    wanted: dict[TraceSpec, dict[str, PredictorSpec]] = {}
    for cell in cells:
        learnt = wanted.setdefault(cell.workload.trace, {})
        if cell.predictor is not None and cell.predictor.is_learnt:
            learnt.setdefault(cell.predictor.learnt_name, cell.predictor)
    later = [cell for cell in cells if cell.workload.start == "warm"]
    if not later:
        return {}

    jobs = [[(spec, tuple(wanted[spec].values()))] for spec in dict.fromkeys(cell.workload.trace for cell in later)]
    task = partial(learn, n_threads=max(len(workers) // len(jobs), 1))
    reasons: dict[tuple[TraceSpec, str], str] = {}
    with stage("learn") as report:
        report(0, len(jobs))
        for done, ((spec, _), outcome) in enumerate(run_grouped(jobs, task, workers), 1):
            report(done, len(jobs))
            failures = outcome if isinstance(outcome, dict) else dict.fromkeys(["", *wanted[spec]], f"died: {outcome}")
            reasons |= {(spec, name): reason for name, reason in failures.items()}
    keys = {cell: (cell.workload.trace, cell.predictor.learnt_name if cell.predictor else "") for cell in later}
    return {cell: reasons.get(key) or reasons[key[0], ""] for cell, key in keys.items()
            if key in reasons or (key[0], "") in reasons}


def comparison_data(title: str, found: _Found, cells: pd.DataFrame, summary: pd.DataFrame,
                    price_per_host_hour: float | None = None) -> ComparisonData:
    """What a page is drawn from; the series are of the first start and seed at the load nearest to MAIN_LOAD."""
    specs = [cell.workload for cell, _ in found if cell.workload.start == found[0][0].workload.start]
    spec = min(specs, key=lambda one: abs(one.load - MAIN_LOAD))
    shown = {cell.label: result for cell, result in found if cell.workload == spec}
    about = next(iter(shown.values())).about
    series = {label: pd.DataFrame({name: result.arrays[name] for name in _SERIES if name in result.arrays})
              for label, result in shown.items()}
    maps = {label: _host_map(result.arrays) for label, result in shown.items()}
    migrations = {label: table for label, result in shown.items()
                  if (table := migration_table(result.arrays)) is not None}
    cells_shown = [cell for cell, _ in found if cell.workload == spec]
    unlearnt = _learn(cells_shown, local_workers(1))  # where all cells were kept, their curves need not be
    for cell, reason in unlearnt.items():
        console.print(f"[yellow]![/] {escape(f'{cell.label} is not explained: {reason}')}")
    with stage("explain"):
        decisions = explained([cell for cell in cells_shown if cell not in unlearnt])
    pool = _pool(found, spec.name, spec.load, price_per_host_hour)
    described = next(_described(found, cell, result) for cell, result in found if cell.workload == spec)
    return ComparisonData(title, described, cells, summary, series, maps, decisions, int(about["warmup_s"]), spec.load,
                          pool, migrations)


def _in_hosts(found: _Found, summary: pd.DataFrame, price_per_host_hour: float | None) -> list[str]:
    """The answer in hosts, a line for each workload and load."""
    lines = []
    for name, load in dict.fromkeys((cell.workload.name, cell.workload.load) for cell, _ in found):
        rows = summary[(summary["workload"] == name) & (summary["load"] == load)]
        said = in_hosts(rows, _pool(found, name, load, price_per_host_hour))
        lines.append(f"{name}, load {load:g}: {' '.join(said)}")
    return lines


def _described(found: _Found, cell: Cell, result: CellResult) -> str:
    """What a cell was replayed on, and that other seeds have other numbers of hosts, where they have."""
    spec = cell.workload
    pool = _pool(found, spec.name, spec.load, None)
    others = "" if pool.fewest == pool.most else (
        f" (seed {spec.seed}, which figures over time are of; the seeds have {pool.fewest:,} to {pool.most:,} hosts)")
    return f"{result.about['description']}; {spec.begins}{others}"


def _pool(found: _Found, name: str, load: float, price_per_host_hour: float | None) -> Pool:
    """The mean over the seeds."""
    abouts = [result.about for cell, result in found if (cell.workload.name, cell.workload.load) == (name, load)]
    n_hosts, cores = (np.array([float(about[key]) for about in abouts]) for key in ("n_hosts", "cores_per_host"))
    return Pool(round(n_hosts.mean()), float(cores.mean()), price_per_host_hour, int(n_hosts.min()), int(n_hosts.max()))


def _host_map(arrays: Mapping[str, np.ndarray]) -> HostMap:
    classes = HostMap(arrays["map_time_s"], arrays["map_lifetime_class"])
    if "map_state" not in arrays:
        return classes
    return replace(classes, state=arrays["map_state"], state_names=tuple(arrays["map_state_names"].tolist()))


@contextmanager
def _workers(dask: str | None, n_workers: int) -> Iterator[list[NewWorker]]:
    if dask is None:
        yield local_workers(n_workers)
        return
    from sojourn.flows.workers.dask import cluster, dask_workers

    with cluster(dask) as address, dask_workers(address) as workers:
        yield workers


def _write_tables(page: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(page.with_name(f"{page.stem}-{name}.csv"), index=False)


def _write_page(path: Path, data: ComparisonData) -> None:
    from sojourn.simulator.page import write_page

    write_page(path, data)
    console.print(f"page     {path}", soft_wrap=True)


def learn(asked: tuple[TraceSpec, Sequence[PredictorSpec]], n_threads: int) -> dict[str, str]:
    """Fit and keep what is not kept yet; returns why by `learnt_name` for those that failed, "" for the trace."""
    trace, predictors = asked
    missing = [one for one in predictors if kept_curves(trace, one) is None]
    if not missing and None not in (cut_s(trace), cut_s(trace.whole)):
        return {}
    try:
        ingested = ingested_trace(trace.store, trace.source, trace.data_hash)
        features = stored_features(trace.store, ingested)
        known_trace, encoder, rows = features.trace, features.encoder, features.rows
        split = windows(rows, trace.test_share, trace.valid_share)
        keep_cut(trace.whole, split.test_from_s)
        if trace.is_past:
            known_trace = known_by(known_trace, split.test_from_s)
            encoder = default_encoder(known_trace)
            rows = build_rows(known_trace, encoder)
            split = windows(rows, trace.test_share, trace.valid_share)
            keep_cut(trace, split.test_from_s)
        known = Learning(known_trace, content_hash(trace.source), encoder, rows, split, trace.source.seed)
    except Exception as error:  # not all of them survive the way to another process
        return {"": f"{type(error).__name__}: {error}"}
    failed = {}
    for predictor in missing:
        try:
            keep_curves(trace, predictor, *fitted_curves(predictor, known, n_threads))
        except Exception as error:
            failed[predictor.learnt_name] = f"{type(error).__name__}: {error}"
    return failed


def explained(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Placements as the page takes them (see `simulator.page.comparison_data`); the cells are of one workload.

    The requests are spread over the time after the warm-up, drawn by the workload's seed.
    """
    cells = [cell for cell in cells if not cell.rectifier]  # the same decisions in another pool
    if not cells:
        return []
    spec = cells[0].workload
    workload = workload_of(spec)
    rows = np.flatnonzero(workload.placed_s >= workload.warmup_s)
    drawn = np.sort(np.random.default_rng(spec.seed).choice(rows, min(N_PLACEMENTS, len(rows)), replace=False))
    first = list({cell.policy: cell for cell in reversed(cells)}.values())[::-1]
    chosen = [*first, *(cell for cell in cells if cell not in first)][:MAX_CELLS]
    found = []
    for cell in (cell for cell in cells if cell in chosen):
        source = None if cell.predictor is None else source_of(spec, cell.predictor)
        for row in drawn.tolist():
            request_id: Any = workload.request_ids[row]
            found.append(_as_document(cell, explain(workload, cell.policy, source, request_id)))
    return found


def _as_document(cell: Cell, explanation: Explanation) -> dict[str, Any]:
    request = {"request_id": str(explanation.request_id), **explanation.need}
    if explanation.remaining_s is not None:
        request["predicted to remain, s"] = explanation.remaining_s
    table = explanation.table.astype(object).where(explanation.table.notna(), None)
    return {
        "policy": cell.policy, "predictor": cell.predictor.name if cell.predictor else "", "request": request,
        "time_s": explanation.time_s, "chosen": explanation.host_id,
        "columns": [{"name": name, "meaning": meaning} for name, meaning in explanation.meanings.items()],
        "hosts": table.to_numpy().tolist(),
    }  # fmt: skip
