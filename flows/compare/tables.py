"""A comparison as tables, and in MLflow.

A row is a replay; means over seeds have paired intervals. In MLflow a comparison is one run with a child for each
workload, load, policy and predictor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn import __version__
from sojourn.flows.compare.cells import CellResult
from sojourn.flows.compare.grid import Cell
from sojourn.flows.placement.workloads import TraceSpec, t_half_width
from sojourn.flows.reports.comparison_report import ComparisonDocument
from sojourn.flows.reports.section import Section
from sojourn.flows.tracking.tracker import COMPARISON, NOTE, SYSTEM, Tracker, run_name, whole_trace
from sojourn.simulator.experiments import BASELINE, RIVALS, best_rival
from sojourn.simulator.measures import gap_closed_pct
from sojourn.simulator.page import gains_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP = ["workload", "load", "policy", "predictor", "label"]
_PAIR = ["workload", "load", "seed"]


def cells_table(found: Sequence[tuple[Cell, CellResult]]) -> pd.DataFrame:
    """One row per replay: what it was, its figures, `gain_pp` over best-fit on the same workload (NaN without), and
    `over_rival_pp`, the same over `rival`: of RIVALS, the one with most empty hosts on the workload, as a mean over the
    seeds, that rejects no more than best-fit.

    A figure that only some replays have, such as a reason for rejections, is 0 in the others where it is a count.
    """
    rows = [{
        "workload": cell.workload.name, "load": cell.workload.load, "seed": cell.workload.seed, "policy": cell.placing,
        "predictor": cell.predictor.name if cell.predictor else "", "label": cell.label, **result.figures,
        **result.times, "events_per_s": result.figures["n_events"] / max(result.times["elapsed_s"], 1e-9),
        **result.about,
    } for cell, result in found]  # fmt: skip
    table = pd.DataFrame(rows)
    _add_moves(table, [cell for cell, _ in found])
    reasons = [str(name) for name in table if str(name).startswith("rejections_")]
    table[reasons] = table[reasons].fillna(0).astype(int)
    rival = table.groupby(_PAIR[:2], sort=False)[["policy", "seed", "empty_hosts_pct", "rejected_pct"]].apply(_rival_of)
    table["rival"] = rival.loc[pd.MultiIndex.from_frame(table[_PAIR[:2]])].to_numpy()
    at = table.columns.get_loc("empty_hosts_pct")
    for name, of in (("over_rival_pp", table["rival"]), ("gain_pp", BASELINE)):
        one = table.loc[table["policy"] == of, [*_PAIR, "empty_hosts_pct"]]
        paired = table[_PAIR].merge(one, on=_PAIR, how="left")["empty_hosts_pct"]
        table.insert(int(at) + 1 if isinstance(at, int) else 0, name, table["empty_hosts_pct"] - paired.to_numpy())
    return table


def _rival_of(replays: pd.DataFrame) -> str:
    """Of one workload and load; a policy counts if it has all seeds that best-fit has."""
    by_policy = replays[replays["policy"].isin(RIVALS)].pivot_table(
        ["empty_hosts_pct", "rejected_pct"], "seed", "policy")
    if BASELINE not in by_policy.get("empty_hosts_pct", ()):
        return BASELINE
    seeds = by_policy["empty_hosts_pct"][BASELINE].dropna().index
    empty, rejected = (by_policy[name].loc[seeds].mean(skipna=False) for name in ("empty_hosts_pct", "rejected_pct"))
    return best_rival(empty, rejected)


def _add_moves(table: pd.DataFrame, cells: Sequence[Cell]) -> None:
    """Where some replays are rectified: `rectifier`; `n_rectified`, the migrations begun after the warm-up; `freed_h`,
    by how many host-hours in use the same policy, predictor and seed does with less; `freed_h_per_migration`, that a
    migration.

    NaN without a rectifier; the last two also without the replay to compare with, the last one without a migration.
    """
    if not any(cell.rectifier for cell in cells):
        return
    place = {cell: k for k, cell in enumerate(cells)}
    n_begun, host_h = (table[name].to_numpy(np.float64) for name in ("n_migrations", "host_h"))
    n_rectified, freed_h = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    each_h = freed_h.copy()
    for k, cell in enumerate(cells):
        if cell.rectifier:
            n_rectified[k] = n_begun[k]
            other = place.get(cell.unrectified)
            if other is not None:
                freed_h[k] = host_h[other] - host_h[k]
                each_h[k] = freed_h[k] / n_rectified[k] if n_rectified[k] > 0 else np.nan
    table["rectifier"] = [cell.rectifier for cell in cells]
    table["n_rectified"], table["freed_h"], table["freed_h_per_migration"] = n_rectified, freed_h, each_h


def summary_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds per workload, load, policy and predictor: see `simulator.page.comparison_data.ComparisonData`.

    >>> cells = pd.DataFrame({"workload": "w", "load": 0.8, "policy": "nilas", "predictor": "oracle",
    ...     "label": "nilas (oracle)", "seed": [0, 1, 2], "empty_hosts_pct": [21.0, 22.0, 23.0],
    ...     "gain_pp": [1.0, 2.0, 3.0], "bound_empty_hosts_pct": [30.0, 30.0, 30.0]})
    >>> summary_table(cells)[["gain_pp", "gain_low_pp", "gain_high_pp", "gap_closed_pct"]].round(3).values.tolist()
    [[2.0, -0.484, 4.484, 20.0]]
    """
    numbers = [str(name) for name in cells.select_dtypes("number") if name not in ("load", "seed")]
    groups = cells.groupby(GROUP, sort=False)
    table = groups[numbers].mean()
    table.insert(0, "n_seeds", groups.size())
    if "rival" in cells:
        table["rival"] = groups["rival"].first()
    paired = cells[cells["gain_pp"].notna()].groupby(GROUP, sort=False)
    table.insert(1, "n_pairs", paired.size().reindex(table.index, fill_value=0))
    for name in ("gain", "over_rival"):
        if f"{name}_pp" in cells:
            known = cells[cells[f"{name}_pp"].notna()].groupby(GROUP, sort=False)[f"{name}_pp"]
            half = known.apply(lambda gains: float(t_half_width(gains.to_numpy()[:, None])[0]))
            table[f"{name}_low_pp"], table[f"{name}_high_pp"] = table[f"{name}_pp"] - half, table[f"{name}_pp"] + half
    # best-fit's own: what it had is what a cell has less its gain
    table["gap_closed_pct"] = pd.Series({group: gap_closed_pct(
        own["gain_pp"], own["empty_hosts_pct"] - own["gain_pp"], own["bound_empty_hosts_pct"])
        for group, own in paired}, dtype=float).reindex(table.index)
    if "freed_h" in cells:  # over all migrations: a mean of the seeds' own ratios would be that of those with few
        sums = cells[cells["freed_h"].notna()].groupby(GROUP, sort=False)[["freed_h", "n_rectified"]].sum()
        table["freed_h_per_migration"] = (sums["freed_h"] / sums["n_rectified"].where(sums["n_rectified"] > 0)).reindex(
            table.index)
    return table.reset_index()


def differences_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Any two labels on the same workloads: mean difference in empty hosts, pp, and its paired 95 % t-interval.

    Positive: `label` leaves more hosts empty than `other`, which is better.
    """
    parts = []
    for (workload, load), group in cells.groupby(["workload", "load"], sort=False):
        by_seed = group.pivot_table("empty_hosts_pct", "label", "seed").loc[group["label"].unique()]
        one, other = np.triu_indices(len(by_seed), 1)
        values, labels = by_seed.to_numpy(np.float64), by_seed.index.to_numpy()
        n_seeds, mean, half = _paired(values[one] - values[other])
        part = pd.DataFrame({
            "workload": workload, "load": load, "label": labels[one], "other": labels[other], "n_seeds": n_seeds,
            "difference_pp": mean, "difference_low_pp": mean - half, "difference_high_pp": mean + half})
        parts.append(part[n_seeds > 0])
    return pd.concat(parts, ignore_index=True)


def _paired(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row of differences (n_pairs, n_seeds), NaN where a seed lacks one of the two: how many seeds have both,
    their mean, and half of its 95 % t-interval.
    """
    is_there = ~np.isnan(differences)
    n_seeds = is_there.sum(axis=1)
    mean, half = np.full((2, len(differences)), np.nan)
    for mask in np.unique(is_there[n_seeds > 0], axis=0):  # nearly always one: a preset has a million pairs
        rows = (is_there == mask).all(axis=1)
        own = differences[rows][:, mask].T
        mean[rows], half[rows] = own.mean(axis=0), t_half_width(own)
    return n_seeds, mean, half


def as_document(preset: str | None, trace: TraceSpec, summary: pd.DataFrame,
                description: Mapping[tuple[str, float], str], *, about: str = "") -> dict[str, Any]:
    """What `python -m studies results` writes a section from; JSON values only.

    name: of the preset, or "". about: what it compares, as a sentence. workloads: one per workload and load:
        `workload`, `load`, `description`, and the summary's `rows`.
    """
    # of the table, not of the JSON: to_json rounds a load
    own = {key: summary[(summary["workload"] == key[0]) & (summary["load"] == key[1])] for key in description}
    workloads = [{"workload": key[0], "load": key[1], "description": text,
                  "rows": json.loads(own[key].to_json(orient="records", double_precision=15))}
                 for key, text in description.items()]
    return {**_origin(preset or "", about, trace), "workloads": workloads}


def log_comparison(tracker: Tracker, params: Mapping[str, Any], traces: Iterable[TraceSpec], found: ComparisonDocument,
                   summary: pd.DataFrame, tables: Mapping[str, pd.DataFrame], is_whole: bool,
                   answers: Sequence[str] = ()) -> None:
    """Log a comparison. params: all its settings. traces: that were replayed. tables: CSV artifacts by name, `cells`
    among them. is_whole: no cell failed; else the run is marked as failed. answers: a line for each workload and load,
    for the run's description.

    A child has the means over the seeds, and under `seed/` those of each seed, with the seed as the step.
    """
    tags, data = _tags(found), [whole_trace(trace.source, trace.name, trace.data_hash) for trace in traces]
    with tracker.run(_run_name(found), tags, data=data) as run:
        for row in summary.to_dict("records"):
            cell = {key: row[key] for key in ("workload", "load", "policy", "predictor")}
            words = f"{row['label']}, {row['workload']}, load {row['load']:g}"
            with tracker.run(words, {**tags, "kind": "cells"}, run, data) as child:
                tracker.log(child, cell, {str(key): value for key, value in row.items()
                                          if key not in cell and not isinstance(value, str)})
                tracker.log_by_step(child, _by_seed(tables["cells"], cell))
        figures = {}
        for part in found["workloads"]:
            rows = summary[(summary["workload"] == part["workload"]) & (summary["load"] == part["load"])]
            stem = part["workload"].replace(", ", "-").replace(" ", "-")
            figures[f"gains-{stem}-load-{part['load']:g}"] = gains_figure(rows, part["description"])
        _log_found(tracker, run, params, found, tables, figures)
        page = params.get("page")
        tracker.tag(run, NOTE, "\n\n".join([*answers, *([f"Page: `{page}`"] if page else [])]))
        tracker.end(run, "FINISHED" if is_whole else "FAILED")


def log_sections(tracker: Tracker, preset: str | None, params: Mapping[str, Any], trace: TraceSpec,
                 sections: Sequence[Section], tables: Mapping[str, pd.DataFrame],
                 figures: Mapping[str, Figure] = MappingProxyType({}), *, about: str | None = None) -> None:
    """Log an evaluation that is no grid: its printed sections, tables as CSV, figures as PNG.

    about: what it is, as a sentence without its stop, if `preset` is a command; a study says it itself.
    """
    found = {**_origin(preset or "", f"{about}. " if about else "", trace), "workloads": [],
             "sections": [asdict(section) for section in sections]}
    data = [whole_trace(trace.source, trace.name, trace.data_hash)]
    with tracker.run(_run_name(found), _tags(found), data=data) as run:
        _log_found(tracker, run, params, found, tables, figures)


def _log_found(tracker: Tracker, run: str, params: Mapping[str, Any], found: ComparisonDocument,
               tables: Mapping[str, pd.DataFrame], figures: Mapping[str, Figure]) -> None:
    tracker.log(run, params)
    for stem, figure in figures.items():
        tracker.log_figure(run, figure, f"{stem}.png")
    for stem, table in tables.items():
        tracker.log_text(run, table.to_csv(index=False), f"{stem}.csv")
    tracker.log_text(run, json.dumps(found, indent=1, sort_keys=True) + "\n", f"{SYSTEM}/{COMPARISON}.json")


def _origin(name: str, about: str, trace: TraceSpec) -> dict[str, Any]:
    """What was compared, on which data, by which code."""
    return {"name": name, "about": about, "trace": trace.name, "data_hash": trace.data_hash,
            "code_version": __version__}


def _run_name(found: ComparisonDocument) -> str:
    return run_name(found["trace"], datetime.now(UTC).date(), before=found["name"] or "compare")


def _tags(found: ComparisonDocument) -> dict[str, str]:
    return {"kind": COMPARISON, "trace": found["trace"], "comparison": found["name"],
            "data_hash": found["data_hash"][:12], "code_version": found["code_version"]}


def _by_seed(cells: pd.DataFrame, params: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    own = cells[(cells[list(params)] == pd.Series(params)).all(axis=1)].set_index("seed")
    numbers = own.select_dtypes("number").drop(columns="load")
    return {int(str(seed)): {f"seed/{name}": float(value) for name, value in row.items()}
            for seed, row in numbers.iterrows()}
