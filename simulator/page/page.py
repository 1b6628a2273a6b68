"""A comparison as one HTML page without outside resources: tables, figures, maps, explanations."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from sojourn.simulator.experiments import BASELINE, MORE_REJECTED, evidence_of, knows_the_future
from sojourn.simulator.measures import VIOLATION_SERIES
from sojourn.simulator.page.comparison_data import ComparisonData
from sojourn.simulator.page.figures import (
    CUT,
    MORE,
    colours_of,
    distribution_figure,
    empty_hosts_figure,
    gain_figure,
    host_map_figure,
    sweep_figure,
    sweeps,
    violations_figure,
)
from sojourn.simulator.page.headline import (
    WORDS_OF_PAGE,
    answer_html,
    compared,
    count,
    covers,
    leaves_out,
    picture_html,
)
from sojourn.simulator.page.table import WORDS, boxed, html_table, migration_sections, shown_decision


def write_page(path: str | Path, data: ComparisonData) -> Path:
    """Write the comparison's page; the same data give the same bytes.

    It is one file of about 5 MB, with plotly. It loads nothing else, as its policy forbids that.

    Refused with ValueError: a summary without rows or without best-fit, series of labels that it
    lacks, classes and states of hosts that have no name, explained hosts with a wrong number of
    scores.

    >>> import tempfile, pandas as pd
    >>> summary = pd.DataFrame({"workload": "trace", "load": 0.8, "policy": ["best-fit"], "predictor": "",
    ...                         "label": "best-fit", "n_seeds": 1, "empty_hosts_pct": 30.0, "gain_pp": 0.0,
    ...                         "gain_low_pp": 0.0, "gain_high_pp": 0.0})
    >>> data = ComparisonData("Best fit", "", summary.assign(seed=0), summary, {}, {}, [], 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder) / "page.html", data).read_text()[:15]
    '<!doctype html>'
    """
    from plotly.offline import get_plotlyjs

    if len(data.summary) == 0 or BASELINE not in set(data.at_main_load()["policy"]):
        raise ValueError(f"summary must hold {BASELINE} at the main load, got {len(data.summary)} rows without it")
    unknown = sorted(set(data.series) - set(data.at_main_load()["label"]))
    if unknown:
        raise ValueError(f"series must be of labels in the summary at the main load, got {unknown[0]!r}")
    figures, main = _figures(data), data.at_main_load()
    script_data = {
        "figures": figures,
        "maps": {label: host_map_figure(host_map, data.warmup_s) for label, host_map in data.host_maps.items()},
        "decisions": [shown_decision(decision) for decision in data.decisions],
    }
    folder = resources.files("sojourn.simulator.page")
    text = {name: folder.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js")}
    target = Path(path)
    target.write_text(Template(text["page.html"]).substitute(
        title=html.escape(data.title), compared=html.escape(compared(data)),
        answer=answer_html(main, data.pool), picture=picture_html(main, data.pool), covers=_items(covers(data)[1:]),
        leaves_out=_items(leaves_out(main)),
        sections="\n".join(_sections(data, figures)), css=text["page.css"], js=text["page.js"],
        data=_json(script_data), plotly=get_plotlyjs(),
    ), "utf-8")  # fmt: skip
    return target


def _figures(data: ComparisonData) -> dict[str, Any]:
    """Every figure of the page by the id of its place, in the order of the page."""
    figures: dict[str, Any] = {}
    colour_of = colours_of(data.summary["policy"], BASELINE)
    for k, workload in enumerate(dict.fromkeys(data.summary["workload"])):
        rows = data.at_main_load(workload)
        if (rows["policy"] != BASELINE).any():
            figures[f"gain-{k}"] = gain_figure(rows, colour_of)
    if data.series:
        figures["empty-hosts"] = empty_hosts_figure(data, colour_of)
        figures["distribution"] = distribution_figure(data, colour_of)
    for name in _known_violations(data):
        figures[f"violations-{name.removesuffix('_pct')}"] = violations_figure(data, colour_of, name)
    for sweep in sweeps(data):
        figures[f"sweep-{sweep.name}"] = sweep_figure(sweep, colour_of)
    return figures


def _sections(data: ComparisonData, figures: Mapping[str, Any]) -> list[str]:
    is_other = data.summary["load"] != data.at_main_load()["load"].iloc[0]
    is_known = data.summary["predictor"].map(knows_the_future)
    ranked = data.summary.assign(is_other=is_other, is_known=is_known).sort_values(
        ["workload", "is_other", "load", "is_known", "gain_pp"], ascending=[True, True, True, True, False],
        kind="stable")
    sections = [_section(
        "Summary", "Means over the seeds, after the warm-up; first what can be deployed, then what knows the future. "
        "Gain: empty hosts over best-fit's of the same seed, with the 95 % interval over the seeds; bold where it "
        "excludes 0. Click a header to sort.",
        boxed(html_table(ranked), "summary")), *_gain_sections(data, figures)]
    if "empty-hosts" in figures:
        sections.append(_section(
            "Empty hosts over time", "First seed, higher is better; the warm-up (shaded) counts in no mean. Bound: all "
            "but the fewest hosts that total demand needs at that time. Choose lines by their names.",
            _plot("empty-hosts")))
        sections.append(_section(
            "How many hosts are empty for how much of the time", "First seed, after the warm-up: the share of the time "
            "with at least so many hosts empty; a line farther to the right is better, a steep one is steady.",
            _plot("distribution")))
    violated = [name for name in figures if name.startswith("violations-")]
    if violated:
        sections.append(_section("Violations over time", _violation_words(data), "".join(map(_plot, violated))))
    if data.host_maps:
        sections.append(_section(
            "Hosts over time", "First seed. One row per host, the most often empty on top. A host's lifetime class is "
            "that of the request that stays longest from then on.",
            '<p class="choice"><label>of <select id="map-label"></select></label> '
            '<label id="map-by-box">coloured by <select id="map-by"></select></label></p>'
            '<ul class="legend" id="map-legend"></ul>' + _plot("map")))
    for sweep in sweeps(data):
        sections.append(_section(
            sweep.title, "Empty hosts over best-fit's, higher is better; bands are 95 % intervals over the seeds.",
            _plot(f"sweep-{sweep.name}")))
    moved = migration_sections(data)
    if moved:
        sections.append(_section("Migrations that free hosts", WORDS, moved))
    if data.decisions:
        sections.append(_section(
            "Why this host?", "Sampled placements. Scores are compared from the left, lower is better, the host with "
            "the lowest index first where all are equal; bold: where a host first differs from the chosen one.",
            '<p class="choice"><label>placement <select id="decision"></select></label></p>'
            '<div id="decision-box"></div>'))
    if len(data.cells):
        cells = data.cells.sort_values(["workload", "load", "seed"], kind="stable")
        sections.append(_section("Every replay", "", f"<details><summary>{count(len(cells), 'replay')}</summary>"
                                 f"{boxed(html_table(cells), 'cells')}</details>", "screen"))
    words = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in WORDS_OF_PAGE.items())
    return [*sections, _section("Words", "", f"<dl>{words}</dl>")]


def _known_violations(data: ComparisonData) -> list[str]:
    """Names of the series of violations that every label has."""
    return [name for name in VIOLATION_SERIES if data.series and all(name in own for own in data.series.values())]


def _violation_words(data: ComparisonData) -> str:
    none = [label for label, own in data.series.items() if not own["excess_pct"].any()]
    words = ("First seed, lower is better. A host is above capacity while its requests use more cores than it has. "
             "Requests without a usage series count as using none.")
    if len(none) == len(data.series):
        return f"{words} No host was ever above capacity."
    return f"{words} Never above capacity: {', '.join(none)}." if none else words


def _gain_sections(data: ComparisonData, figures: Mapping[str, Any]) -> list[str]:
    workloads = list(dict.fromkeys(data.summary["workload"]))
    sections = []
    for k, workload in enumerate(workloads):
        figure = figures.get(f"gain-{k}")
        if figure is None:
            continue
        words = (f"On {workload} at {100 * data.at_main_load(workload)['load'].iloc[0]:g} % peak load. Empty hosts in "
                 "percentage points (pp), higher is better, with 95 % intervals where there are several seeds. Pale: "
                 "knows the future. No policy that places every request can pass the bound. "
                 f"{evidence_of(data.at_main_load(workload))}").strip()
        if any(text.startswith(CUT) for text in figure["layout"]["yaxis"]["ticktext"]):
            words += f" {CUT.strip()}: the bar goes on to the left."
        if any(MORE in text for text in figure["layout"]["yaxis"]["ticktext"]):
            words += f" {MORE.strip()}: it {MORE_REJECTED}."
        name = f": {workload}" if len(workloads) > 1 else ""
        sections.append(_section(f"Gain over best-fit{name}", words, _plot(f"gain-{k}")))
    return sections


def _section(title: str, words: str, body: str, kind: str = "") -> str:
    """kind: `screen` = not printed."""
    paragraph = f"<p>{html.escape(words)}</p>" if words else ""
    return f"<section{f' class={kind}' if kind else ''}><h2>{html.escape(title)}</h2>{paragraph}{body}</section>"


def _plot(name: str) -> str:
    return f'<div class="plot" id="plot-{name}"></div>'


def _items(lines: list[str]) -> str:
    return "".join(f"<li>{html.escape(line)}</li>" for line in lines)


def _json(value: object) -> str:
    """JSON for a script element: no text in it can close the element."""
    return json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
