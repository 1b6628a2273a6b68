"""A comparison in MLflow: one run for it, a child per workload, load, policy and predictor; figures, tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from sojourn import __version__
from sojourn.flows.compare.presets import PRESETS
from sojourn.flows.outside.data_window import whole_trace
from sojourn.flows.outside.tracked_names import COMPARISON
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.placement.workload_spec import TraceSpec
from sojourn.flows.reports.comparison_report import FoundComparison
from sojourn.flows.reports.figures import draw_gains
from sojourn.flows.reports.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_document(preset: str | None, trace: TraceSpec, summary: pd.DataFrame,
                description: Mapping[tuple[str, float], str]) -> dict[str, Any]:
    """What `sojourn results` writes a section from; JSON values only.

    name: of the preset, or "". workloads: one per workload and load: `workload`, `load`, `description`, and the
        summary's `rows`.
    """
    # of the table, not of the JSON: to_json rounds a load
    own = {key: summary[(summary["workload"] == key[0]) & (summary["load"] == key[1])] for key in description}
    workloads = [{"workload": key[0], "load": key[1], "description": text,
                  "rows": json.loads(own[key].to_json(orient="records", double_precision=15))}
                 for key, text in description.items()]
    return {**_origin(preset, trace), "workloads": workloads}


def log_comparison(tracker: Tracker, params: Mapping[str, Any], traces: Iterable[TraceSpec], found: FoundComparison,
                   summary: pd.DataFrame, tables: Mapping[str, pd.DataFrame], is_whole: bool) -> None:
    """Log a comparison. params: all its settings. traces: that were replayed. tables: CSV artifacts by name, `cells`
    among them. is_whole: no cell failed; else the run is marked as failed.

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
        tracker.end(run, "FINISHED" if is_whole else "FAILED")


def log_sections(tracker: Tracker, preset: str | None, params: Mapping[str, Any], trace: TraceSpec,
                 sections: Sequence[Section], tables: Mapping[str, pd.DataFrame],
                 figures: Mapping[str, Figure] = MappingProxyType({}), *, about: str | None = None) -> None:
    """Log an evaluation that is no grid: its printed sections for `sojourn results`, tables as CSV, figures as PNG.

    about: what it is, as a sentence without its stop, where `preset` is a command of its own and no preset.
    """
    own = {} if about is None else {"about": f"{about}. "}
    found = {**_origin(None if about else preset, trace), "name": preset or "", **own, "workloads": [],
             "sections": [asdict(section) for section in sections]}
    data = [whole_trace(trace.source, trace.name, trace.data_hash)]
    with tracker.run(_run_name(found), _tags(found), data=data) as run:
        _log_found(tracker, run, params, found, tables, figures)


def _log_found(tracker: Tracker, run: str, params: Mapping[str, Any], found: FoundComparison,
               tables: Mapping[str, pd.DataFrame], figures: Mapping[str, Figure]) -> None:
    tracker.log(run, params)
    for stem, figure in figures.items():
        tracker.log_figure(run, figure, f"{stem}.png")
    for stem, table in tables.items():
        tracker.log_text(run, table.to_csv(index=False), f"{stem}.csv")
    tracker.log_text(run, json.dumps(found, indent=1, sort_keys=True) + "\n", f"{COMPARISON}.json")


def _origin(preset: str | None, trace: TraceSpec) -> dict[str, Any]:
    """What was compared, on which data, by which code."""
    name = preset or ""
    return {"name": name, "about": _about(name), "trace": trace.name, "data_hash": trace.data_hash,
            "code_version": __version__}


def _run_name(found: FoundComparison) -> str:
    return f"compare {found['trace']} {found['name']}".rstrip()


def _tags(found: FoundComparison) -> dict[str, str]:
    return {"kind": COMPARISON, "trace": found["trace"], "comparison": found["name"],
            "data_hash": found["data_hash"][:12], "code_version": found["code_version"]}


def _by_seed(cells: pd.DataFrame, params: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    own = cells[(cells[list(params)] == pd.Series(params)).all(axis=1)].set_index("seed")
    numbers = own.select_dtypes("number").drop(columns="load")
    return {int(str(seed)): {f"seed/{name}": float(value) for name, value in row.items()}
            for seed, row in numbers.iterrows()}


def _about(preset: str) -> str:
    """The preset as a sentence, with a space after it; "" for none. Only its first letter becomes a capital."""
    return f"{PRESETS[preset].about[0].upper()}{PRESETS[preset].about[1:]}. " if preset else ""


def gains_figure(summary: pd.DataFrame, title: str) -> Figure:
    """Gain over best-fit of each policy and predictor, pp, with 95 % intervals: rows of one workload and load."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.8 + 0.26 * len(summary)), layout="constrained")
    draw_gains(figure.add_subplot(), summary)
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color="#444444")
    return figure
