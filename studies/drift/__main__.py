"""Drift: the detector table, the simulated year and real logs; `python -m studies drift table|year|logs|show`.

Results are kept as JSON in the folder, one file for each part, so that a broken-off run goes on where it was. `show`
prints the tables of docs/drift.md from what is there and draws its two figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.flows.placement.workloads import t_half_width
from studies.drift.figures import table_figure, year_figure
from studies.drift.logs import run_logs
from studies.drift.table import SCALED, run_table
from studies.drift.year import run_years


def main() -> None:
    """Run or show a part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("table", "year", "logs", "show"))
    parser.add_argument("--folder", type=Path, default=Path(".sojourn/drift"), help="where results are kept")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the real logs are")
    parser.add_argument("--new", type=int, default=1_000, help="run at most so many new years or logs")
    parser.add_argument("--figures", type=Path, default=Path("docs"), help="where `show` draws")
    asked = parser.parse_args()
    if asked.part == "table":
        run_table(asked.folder, list(SCALED))
    elif asked.part == "year":
        run_years(asked.folder, asked.new)
    elif asked.part == "logs":
        run_logs(asked.folder, asked.data, asked.new)
    else:
        table = run_table(asked.folder, []) if (asked.folder / "table.json").is_file() else None
        if table:
            print_table(table)
            table_figure(table, asked.figures / "drift_table.png")
        if years := run_years(asked.folder, 0):
            print_years(years)
            if {year["kind"] for year in years} == {"control", "drifts"}:
                year_figure(years, asked.figures / "drift_year.png")
        print_logs(run_logs(asked.folder, asked.data, 0))


def print_table(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Both halves as Markdown."""
    for part in ("default", "equal"):
        print(f"\n{part}\n| detector | threshold | none | none, autocorrelated | step | ramp | spike | "
              "step, autocorrelated |\n|---|---|---|---|---|---|---|---|")
        for name, row in sorted(table[part].items(), key=lambda item: list(SCALED).index(item[0])):
            cells = [f"{row[truth]['alarms_per_year']:.2f} ± {row[truth]['half_width']:.2f}"
                     for truth in ("none", "none, autocorrelated")]
            for truth in ("step", "ramp", "spike", "step, autocorrelated"):
                found = row[truth]
                cells.append(f"{_day(found['median_days'])} / {_day(found['p90_days'])}, "
                             f"{100 * found['share_within_7_days']:.0f} %")
            print(f"| `{name}` | {row.get('threshold', 0):.3g} | " + " | ".join(cells) + " |")


def _day(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _mean(values: Sequence[float], digits: int = 2) -> str:
    half = float(t_half_width(np.asarray(values, np.float64)[:, None])[0])
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def print_years(years: Sequence[Mapping[str, Any]]) -> None:
    """Each rule's year, mean and 95 % t-interval over seeds; and the monitor's delays."""
    for kind in ("control", "drifts"):
        own = [year for year in years if year["kind"] == kind]
        if not own:
            continue
        print(f"\n{kind}, {len(own)} seeds\n| rule | alarms | trained | Brier x 1000 | coverage % | "
              "Brier - timer x 1000 |\n|---|---|---|---|---|---|")
        for rule in own[0]["rules"]:
            each = [year["rules"][rule] for year in own]
            gap = [1_000 * (year["rules"][rule]["brier"] - year["rules"]["timer"]["brier"]) for year in own]
            print(f"| {rule} | {_mean([len(run['alarms']) for run in each], 1)} | "
                  f"{_mean([len(run['trained']) for run in each], 1)} | "
                  f"{_mean([1_000 * run['brier'] for run in each])} | "
                  f"{_mean([100 * run['coverage'] for run in each], 1)} | {_mean(gap)} |")
    for year in years:
        alarms = year["rules"]["monitor"]["alarms"]
        print(year["kind"], year["seed"], "alarms on days", alarms,
              {name: [day - begin + 1 for day in alarms if begin <= day < begin + 56] for name, begin in
               year["begins"].items()})


def print_logs(logs: Sequence[Mapping[str, Any]]) -> None:
    """Each log under each rule."""
    print("\n| log | days | requests | rule | alarms | trained | Brier x 1000 | coverage % |\n"
          "|---|---|---|---|---|---|---|---|")
    for log in logs:
        for rule, each in log["rules"].items():
            print(f"| {log['log']} | {log['days']} | {log['n']:,} | {rule} | {len(each['alarms'])} | "
                  f"{len(each['trained'])} | "
                  f"{1_000 * each['brier']:.2f} | {100 * each['coverage']:.1f} |")
        print(json.dumps({name: [round(1_000 * value, 2) for value in values]
                          for name, values in log["differences"].items()}))


if __name__ == "__main__":
    main()
