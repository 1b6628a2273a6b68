"""Writes docs/simulator/admission_results.md and its pictures from what `sojourn admit --sweep` and `--predict` wrote.

    python benchmarks/admission_page.py --sweep NAME=FOLDER ... --predict NAME=FOLDER ... [--pictures NAME]

A verdict of several traces is not formed: each stands by itself.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.admission_claims import LEGEND, RATIO_LEGEND, claim_verdict, ratios_section
from sojourn.flows.evaluations.admission_paper_figures import paper_figures
from sojourn.flows.evaluations.admission_predicted import LEGEND as PREDICTED_LEGEND
from sojourn.flows.evaluations.admission_predicted import predicted_section, predicted_summary
from sojourn.flows.reports.section import markdown_rows

DOCS = Path(__file__).resolve().parents[1] / "docs" / "simulator"
TARGET = {"greedy balanced": (1.372, 1.321, 1.253), "greedy best-fit": (1.358, 1.254, 1.154),
          "threshold best-fit": (2.041, 1.411, 1.169)}
"""Ratios of an earlier prototype at slack 0.1, 0.5 and 0.9, on days of such logs that it does not name."""


def claims_table(folders: dict[str, Path]) -> list[str]:
    """A row a finding, a column a trace: difference, interval, verdict."""
    tables = {name: pd.read_csv(folder / "claims.csv").set_index("claim") for name, folder in folders.items()}
    rows = []
    for claim in next(iter(tables.values())).index:
        cells = []
        for table in tables.values():
            row = table.loc[claim]
            difference, low, high = float(row["difference"]), float(row["low"]), float(row["high"])
            shown = "" if np.isnan(difference) else f"{difference:+.3f} "
            span = "" if np.isnan(low) else f"({low:+.3f} {high:+.3f}) "
            cells.append(f"{shown}{span}{claim_verdict(low, high)}")
        rows.append((str(claim), *cells))
    return markdown_rows(("finding", *tables), rows, len(tables) + 1)


def target_table(runs: pd.DataFrame) -> tuple[list[str], float, float]:
    """Ratios of sequential jobs with the most cores beside the targets; the largest difference of best-fit and
    threshold, and of balanced."""
    own = runs[(runs["limit"] == 1) & (runs["share"] == 1.6)]
    means = own.groupby(["label", "slack"])["ratio"].mean().to_dict()
    rows, differences = [], {}
    for label, target in TARGET.items():
        found = [means[label, slack] for slack in (0.1, 0.5, 0.9)]
        differences[label] = max(abs(a - b) for a, b in zip(found, target, strict=True))
        rows.append((label, *(f"{a:.3f} ({b:.3f})" for a, b in zip(found, target, strict=True)),
                     f"{differences[label]:.3f}"))
    others = max(differences["greedy best-fit"], differences["threshold best-fit"])
    return (markdown_rows(("rule", "slack 0.1", "slack 0.5", "slack 0.9", "largest difference"), rows, 1), others,
            differences["greedy balanced"])


def named(given: list[str]) -> dict[str, Path]:
    """NAME=FOLDER, by name."""
    return {each.partition("=")[0]: Path(each.partition("=")[2]) for each in given}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", action="append", default=[])
    parser.add_argument("--predict", action="append", default=[])
    parser.add_argument("--pictures", default="RICC")
    parser.add_argument("--target", default="RICC")
    given = parser.parse_args()
    sweeps, predicted = named(given.sweep), named(given.predict)
    lines = ["# Admission: results", "",
             "Written by `benchmarks/admission_page.py` from `sojourn admit TRACE --sweep` and `--predict`. Rules and "
             "words: [admission](admission.md).", "", "## What the paper found", "",
             f"{LEGEND} The days of a trace are the ten with the most jobs (google: one part of a day, 5.7 h, so that "
             "there is no interval). The interval does not cover other traces.", "", *claims_table(sweeps), "",
             "## Ratios beside the target", ""]
    table, others, balanced = target_table(pd.read_csv(sweeps[given.target] / "admission.csv"))
    lines += [f"Sequential jobs of {given.target}, the ten days with the most of them, 1.6 times as many cores as "
              "each day's load fills, ten draws. In brackets: the target, from an earlier prototype on days that it "
              "does not name. These days and cores were chosen because they come near it. Best-fit and threshold are "
              f"within {others:.3f} of it, balanced within {balanced:.3f}.", "", *table, "", "## Figures", "",
              f"Figures 2 to 8 of the paper, of {given.pictures}: the day with the most jobs. Blue: best-fit is "
              "better.", ""]
    for stem, figure in paper_figures(pd.read_csv(sweeps[given.pictures] / "figures.csv")).items():
        name = f"admission_{stem.replace('-', '_')}.png"
        figure.savefig(DOCS / name, dpi=100, format="png")
        lines += [f"![{stem.replace('-', ' ')}]({name})", ""]
    lines += ["## Ratios by limit and cores", "", f"{RATIO_LEGEND} Cores: share of those that the day's load fills, "
              "and their mean number. They are at least the widest job's.", ""]
    for name, folder in sweeps.items():
        section = ratios_section(pd.read_csv(folder / "admission.csv"), name, "")
        lines += [f"### {name}", "", *markdown_rows(section.titles, section.rows, section.n_text), ""]
    lines += ["## By predicted processing times", "", f"{PREDICTED_LEGEND} The days are the ten with the most jobs of "
              "the last 30 % of the jobs; the model knows the days before the first of them, and of each day what had "
              "ended when it began.", ""]
    for name, folder in predicted.items():
        section = predicted_section(predicted_summary(pd.read_csv(folder / "admission.csv")), "")
        lines += [f"### {name}, hazard", "", *markdown_rows(section.titles, section.rows, section.n_text), ""]
    wrapped = [line if line.startswith(("|", "#", "!")) else "\n".join(textwrap.wrap(line, 118)) for line in lines]
    (DOCS / "admission_results.md").write_text("\n".join(wrapped).rstrip() + "\n")
    print(f"written to {DOCS / 'admission_results.md'}")


if __name__ == "__main__":
    main()
