"""Results as Markdown, from logged runs: an index with a row per trace, and a page per trace with its answer and study.
Its calibration and each comparison have pages of their own, of at most 250 lines, unless one table is longer.

    python -m studies results docs/results.md [--store FOLDER ...]

The index goes to the file, the pages into the folder of its name. Of several stores the last wins.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sojourn.flows.reports.comparison_report import (
    DEBT_WORDS,
    MEASURE_WORDS,
    PLACED_WORDS,
    USAGE_WORDS,
    ComparisonDocument,
    comparison_markdown,
    gain_interval,
)  # fmt: skip
from sojourn.flows.reports.section import markdown_rows
from sojourn.flows.reports.study_report import (
    ACCURACY_WORDS,
    BASELINE_WORDS,
    CALIBRATION_WORDS,
    DISTRIBUTION_WORDS,
    REFRESH,
    REFRESH_WORDS,
    StudyDocument,
    baseline_rows,
    study_markdown,
)  # fmt: skip
from sojourn.flows.reports.study_report import TITLE as CALIBRATION
from sojourn.flows.settings.retrain import load_config
from sojourn.flows.versions.promotion import read_store
from sojourn.models.measures import time_label
from sojourn.simulator.experiments import is_rejecting_more, knows_the_future
from sojourn.simulator.measures import signed_text

_TITLES = ("trace", "requests", "chosen family", "Brier", "AP, long-lived", "MAE lifetime", "gain with a model, pp",
           "gain with perfect lifetimes, pp")
_HEADLINE_WORDS = (
    "Brier, AP, MAE: difference of the chosen family to the best baseline, with its 95 % interval in brackets. Level: "
    "the interval holds 0. Bold: significant, the interval excludes 0.",
    "Brier: over the ages, or integrated at creation (IBS) where a study is older than that measure (negative = "
    "better). AP: of “outlives the trace's threshold” (positive = better). MAE: of log10 seconds (negative = better).",
    "Gain: empty hosts over best-fit, percentage points, with the 95 % interval of this one cell (positive = better). "
    "It comes from the comparison with most learnt predictors. Shown is the cell with the largest mean gain, of those "
    "that reject no more requests than best-fit. The largest of N is somewhat too high, and its interval does not "
    "correct for the choice.",
)
_PLACEMENT, _MAX_LINES = "placement", 235
"""File of the comparison without a name, and lines of a page below its heading."""
_COLUMNS: Mapping[str, Sequence[str]] = {
    "Accuracy": (*ACCURACY_WORDS, "Families stand in the order of the validation window. Bold: best of the column."),
    "Distribution and owners": DISTRIBUTION_WORDS,
    CALIBRATION: CALIBRATION_WORDS,
    REFRESH: REFRESH_WORDS,
    "Against the baselines": (
        *BASELINE_WORDS, "Intervals: bootstrap over owners; over requests where there are too few owners."),
    "Placement": (*PLACED_WORDS, *MEASURE_WORDS, *USAGE_WORDS, *DEBT_WORDS),
}


def results_pages(studies: Sequence[StudyDocument], comparisons: Sequence[ComparisonDocument],
                  folder: str) -> dict[str, str]:
    """Text by file name: "" is the index, which links to the others as files in `folder`, beside it."""
    by_trace: dict[str, tuple[list[StudyDocument], list[ComparisonDocument]]] = {}
    for study in studies:
        by_trace.setdefault(str(study["trace"]), ([], []))[0].append(study)
    for comparison in sorted(comparisons, key=lambda each: str(each["name"])):
        by_trace.setdefault(str(comparison["trace"]), ([], []))[1].append(comparison)
    pages: dict[str, str] = {}
    rows = []
    for trace, (studies_of, comparisons_of) in sorted(by_trace.items()):
        name = page_name(trace, pages)
        cells = (*_study_cells(studies_of, name), *_gain_cells(comparisons_of, name))
        study_text = "\n".join("\n".join(study_markdown(study)) for study in studies_of)
        pages |= trace_pages(trace, name, folder, cells, study_text,
                             {each["name"]: "\n".join(comparison_markdown(each)) for each in comparisons_of})
        rows.append([cell.replace("](", f"]({folder}/") for cell in (f"[{trace}]({name})", *cells)])
    is_older = not any("blend" in study["scores"] for study in studies)
    return {"": _index(rows, OLDER if is_older else ""), **pages}


def trace_pages(trace: str, name: str, folder: str, cells: Sequence[str], study: str,
                placements: Mapping[str, str]) -> dict[str, str]:
    """A trace's pages by file name, in `folder`: first the one called `name`, which links to the others.

    cells: of the index, without the trace. study, placements: Markdown; placements by name of comparison.
    """
    parts = re.split(r"\n(?=### )", study)
    apart = "\n".join(part for part in parts if part.startswith("### Calibration "))
    further = {"calibration": f"## Calibration on {trace}\n\n{apart}"} if apart else {}
    links, pages = [], {}
    for label, section in [*further.items(), *((label or _PLACEMENT, text) for label, text in placements.items())]:
        title, *texts = _cut(section.replace("\n##", "\n#")[1:])
        for k, text in enumerate(texts, 1):
            file = f"{name.removesuffix('.md')}/{page_name(label + f' {k}' * (k > 1), ())}"
            heading = title + f", part {k}" * (k > 1)
            links.append(f"- [{heading.removeprefix('# ')}]({file})")
            pages[file] = (f"{heading}\n\n[{trace}](../{name}). [What the columns mean](../../{folder}.md#columns)."
                           f"\n\n{text}\n")
    answer = [f"- {title}: {cell}" for title, cell in zip(_TITLES[1:], cells, strict=True) if cell != "-"]
    first = [f"# {trace}", "", f"[All traces](../{folder}.md). [What the columns mean](../{folder}.md#columns).", "",
             *answer, "", *links, "", *(part for part in parts if part not in apart)]
    return {name: "\n".join(first).rstrip() + "\n", **pages}


def _cut(text: str) -> list[str]:
    """The first paragraph, then the rest in pieces that leave a page room; a table stays with what stands above it."""
    title, *parts = re.split(r"\n\n(?=[^|\n])", text.strip())
    pieces = [""]
    for part in parts:
        if pieces[-1] and pieces[-1].count("\n") + part.count("\n") > _MAX_LINES:
            pieces.append("")
        pieces[-1] += "\n\n" * bool(pieces[-1]) + part
    return [title, *pieces]


def write_results(file: Path, studies: Sequence[StudyDocument],
                  comparisons: Sequence[ComparisonDocument]) -> list[Path]:
    """Write the index to `file`, the pages into the folder of its name; the written files.

    file: must end in `.md`. Other files in that folder stay.
    """
    if file.suffix != ".md":
        raise ValueError(f"file must end in .md, got {file.name!r}")
    folder = file.with_suffix("")
    written = []
    for name, text in results_pages(studies, comparisons, folder.name).items():
        written.append(folder / name if name else file)
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text(text)
    return written


def page_name(trace: str, taken: Collection[str]) -> str:
    """A trace's file name, of letters, digits and dashes; a name in use gets a number.

    >>> page_name("CEA-Curie-2011-2.1-cln.swf.gz", ()), page_name("a b", {"a-b.md"})
    ('cea-curie-2011-2-1-cln-swf-gz.md', 'a-b-2.md')
    """
    slug = re.sub(r"[^a-z0-9]+", "-", trace.lower()).strip("-") or "trace"
    names = (f"{slug}{'' if k == 1 else f'-{k}'}.md" for k in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


OLDER = (" These runs are of versions that did not fit `online` and `blend` by default. What is chosen now: [online "
         "and blend](lifetime/online.md#results).")


def _index(rows: Sequence[Sequence[str]], note: str) -> str:
    lines = ["# Results", "",
             "One row a trace; its page has the main tables and links to others. Generated by `python -m studies "
             f"results` from logged runs of `sojourn lab evaluate` and `sojourn gain`; not edited by hand.{note}", "",
             *markdown_rows(_TITLES, rows, n_text=len(_TITLES)), "", *(f"- {line}" for line in _HEADLINE_WORDS), "",
             "## Columns", "", "What the columns of the pages' tables mean.", ""]
    for title, words in _COLUMNS.items():
        lines += [f"### {title}", "", *(f"- {line}" for line in words), ""]
    return "\n".join(lines)


def _study_cells(studies: Sequence[StudyDocument], name: str) -> tuple[str, ...]:
    """Requests, chosen family, and its three main measures against the best baseline."""
    if not studies:
        return ("-",) * 5
    study = studies[0]
    rows = {row[0]: row for row in baseline_rows(study)}
    long = f"AP > {time_label(study['threshold_s'])}"
    brier = next((name for name in ("Brier ages", "IBS") if name in rows), "IBS")
    return (f"{study['n_past'] + study['n_test']:,}", f"[{study['chosen']}]({name}#study)",
            *(_difference(rows.get(name)) for name in (brier, long, "MAE lifetime")))


def _difference(row: Sequence[str] | None) -> str:
    if row is None:
        return "-"
    _, _, _, rival, difference, interval, verdict = row
    name = rival.rsplit(" ", 1)[0]
    return (f"{difference} [{interval}], level with {name}" if verdict == "level"
            else f"**{difference}** [{interval}], {verdict} than {name}")


def _gain_cells(comparisons: Sequence[ComparisonDocument], name: str) -> tuple[str, str]:
    """The largest gains, learnt and with perfect lifetimes, of the comparison with most learnt."""
    folder = name.removesuffix(".md")
    tables = [(f"{folder}/{page_name(comparison['name'] or _PLACEMENT, ())}", _comparable(part["rows"]))
              for comparison in comparisons for part in comparison["workloads"]]
    if not tables:
        return "-", "-"
    target, rows = max(tables, key=lambda table: (len(_learnt(table[1])), len(table[1])))
    return _largest(_learnt(rows), target), _largest([row for row in rows if row["predictor"] == "oracle"], target)


def _comparable(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows with a predictor that reject no more than best-fit."""
    is_more = is_rejecting_more(pd.DataFrame(rows))
    return [row for row, more in zip(rows, is_more, strict=True) if row["predictor"] and not more]


def _learnt(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if not knows_the_future(row["predictor"])]


def _largest(rows: Sequence[Mapping[str, Any]], target: str) -> str:
    if not rows:
        return "-"
    best = max(rows, key=lambda row: float(row["gain_pp"]))
    return (f"{signed_text(best['gain_pp'])} [{gain_interval(best)}], [{best['policy']} ({best['predictor']})]"
            f"({target}), largest of {len(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--store", type=Path, action="append")
    given = parser.parse_args()
    studies: dict[str, StudyDocument] = {}
    comparisons: dict[tuple[str, str], ComparisonDocument] = {}
    stores = given.store or [load_config().store]
    for folder in stores:
        tracker = read_store(load_config(store=folder))
        studies |= {found["trace"]: found for found in tracker.studies()}
        comparisons |= {(found["trace"], found["name"]): found for found in tracker.comparisons()}
    if not studies and not comparisons:
        raise ValueError("the store must hold a study or a comparison (run `sojourn lab evaluate` or `sojourn gain` "
                         f"first), got none in {', '.join(map(str, stores))!r}")
    for written in write_results(given.file, list(studies.values()), list(comparisons.values())):
        print(f"written  {written}")


if __name__ == "__main__":
    main()
