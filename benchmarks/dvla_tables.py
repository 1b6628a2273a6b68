"""The tables of docs/simulator/dvla.md: parts of the preset `dvla`, replayed where they are not kept yet, and printed.

    python -m benchmarks.dvla_tables [synthetic] [READER=PATH ...] [--store FOLDER] [--part NAME ...] [--seeds N]
        [--policy NAME ...] [--predictor NAME ...] [--kept]

Cells are those of `sojourn compare` in the store, under the same keys: what is there is not replayed again, and with
--kept nothing is. A part is a grid of policies x predictors x rectifiers x loads; --policy and --predictor take
some of them. Figures are differences in empty hosts, percentage points, paired by seed, with 95 % t-intervals over the
seeds; beside the paper's figures also in packing density, which is its measure.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.compare.cell_store import CellStore
from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.comparison_tables import cells_table
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.presets import PRESETS
from sojourn.flows.intervals import t_half_width
from sojourn.flows.outside.workers import local_workers
from sojourn.simulator.experiments import BASELINE, label_of

PDRE, VALUE = "pdre:5", "value:5"
RECTIFIERS = ("", PDRE, VALUE)
SWEPT = ("nilas", "joint-fit", "joint-exact", "dapp")
RECALLED = ("nilas", "joint-fit", "joint-exact", "dapp", "dapp-short")
RECALLS = ("recall:0.4", "recall:0.6", "recall:0.8", "recall:1")
OF_OWNERS = ("owner-recall:0.4", "owner-recall:0.6", "owner-recall:0.8", "recall:1")
DVLA = ("dapp", PDRE)
OWN = tuple((policy, rectifier) for rectifier in (PDRE, VALUE)
            for policy in ("nilas-expected", "joint-fit", "joint-exact"))
"""Our pairs; nilas-expected is the weakest of ours, and pdre is DVLA's."""


@dataclass(frozen=True, slots=True)
class Part:
    """Settings of a comparison."""

    predictors: tuple[str, ...]
    policies: tuple[str, ...] = tuple(PRESETS["dvla"].policies)
    loads: tuple[float, ...] = (0.8,)
    start: str = "warm"


PARTS = MappingProxyType({
    "live": Part(("hazard", "oracle", "noise:1")),
    "recall": Part((*RECALLS, *OF_OWNERS[:-1]), RECALLED),
    "loads": Part(("hazard",), SWEPT, (0.6, 0.7, 0.9)),
    "cold": Part(("oracle",), start="cold"),
    "cold-recall": Part((*RECALLS, *OF_OWNERS[:-1]), RECALLED, start="cold"),
})


def some_of(part: Part, policies: Sequence[str] | None, predictors: Sequence[str] | None) -> Part:
    """The part with these of its policies and predictors alone, all where None is given."""
    return replace(part, policies=tuple(each for each in part.policies if policies is None or each in policies),
                   predictors=tuple(each for each in part.predictors if predictors is None or each in predictors))


def cells_of(part: Part, trace: str, store: Path, n_seeds: int) -> list[Cell]:
    """The grid of a part, without the oracle where it is not asked for."""
    reader, _, path = trace.partition("=")
    read: dict[str, Any] = {"reader": reader, "trace": Path(path)} if path else {}
    config = CompareConfig(store=store, policies=part.policies, predictors=part.predictors, rectifiers=(PDRE, VALUE),
                           loads=part.loads, starts=(part.start,), n_seeds=n_seeds, **read)
    asked = {*part.predictors}
    return [cell for cell in config.cells() if cell.predictor is None or cell.predictor.name in asked]


class Cells:
    """The figures of cells by what they are."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self._by_cell = {key: own.set_index("seed") for key, own in table.groupby(["load", "label"])}

    def values(self, figure: str, load: float, policy: str, rectifier: str, predictor: str) -> pd.Series | None:
        """A figure by seed; None where there is no such cell. Best-fit without migrations asks no predictor."""
        placing = f"{policy} + {rectifier}" if rectifier else policy
        predictor = "" if placing == BASELINE else predictor
        own = self._by_cell.get((load, label_of(placing, predictor)))
        return None if own is None else own[figure].astype(float)

    def differs(self, of: tuple[str, str, str], less: tuple[str, str, str] = (BASELINE, "", ""), load: float = 0.8,
                figure: str = "empty_hosts_pct") -> np.ndarray | None:
        """What the first policy, rectifier and predictor has above the other, by seed."""
        one, other = self.values(figure, load, *of), self.values(figure, load, *less)
        if one is None or other is None:
            return None
        both = (one - other).dropna().to_numpy()
        return both if len(both) else None


def interval(values: np.ndarray | None, digits: int = 2) -> str:
    """Mean and 95 % t-interval.

    >>> interval(np.array([1.0, 2.0, 3.0]))
    '+2.00 [-0.48, +4.48]'
    """
    if values is None:
        return "-"
    mean = float(values.mean())
    if len(values) < 2:
        return f"{mean:+.{digits}f}"
    half = float(t_half_width(values[:, None])[0])
    return f"{mean:+.{digits}f} [{mean - half:+.{digits}f}, {mean + half:+.{digits}f}]"


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Markdown; rows in which nothing was replayed are left out."""
    kept = [row for row in rows if any(each != "-" for each in row[1:])]
    if not kept:
        return
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in kept:
        print(f"| {' | '.join(row)} |")


def print_gains(cells: Cells, predictors: Sequence[str], policies: Sequence[str], load: float = 0.8) -> None:
    for predictor in predictors:
        print_table(
            f"Gain over best-fit, pp, {predictor}, load {load:g}", ("policy", "no migrations", PDRE, VALUE),
            [(f"`{policy}`", *(interval(cells.differs((policy, each, predictor), load=load)) for each in RECTIFIERS))
             for policy in (BASELINE, *policies)])


def print_recalls(cells: Cells, policies: Sequence[str]) -> None:
    for words, predictors in (("of single requests", RECALLS), ("of whole owners", OF_OWNERS)):
        for figure, unit in (("packing_density_pct", "packing density"), ("empty_hosts_pct", "empty hosts")):
            rows = []
            for policy in policies:
                for rectifier in RECTIFIERS:
                    gains = [cells.differs((policy, rectifier, each), figure=figure) for each in predictors]
                    rise = cells.differs((policy, rectifier, predictors[-1]), (policy, rectifier, predictors[0]),
                                         figure=figure)
                    rows.append((f"`{policy}`{f', `{rectifier}`' if rectifier else ''}", *map(interval, gains),
                                 interval(rise)))
            print_table(f"Recall {words}: gain over best-fit, {unit}, pp",
                        ("", "40 %", "60 %", "80 %", "100 %", "100 % less 40 %"), rows)


ALONE = (
    ("groups (`dapp-weighted` less `dapp-ungrouped`)", "0.34", ("dapp-weighted", PDRE), ("dapp-ungrouped", PDRE)),
    ("PDRE (`dapp-short` with and without)", "0.31", ("dapp-short", PDRE), ("dapp-short", "")),
    ("daily tags (`dapp-short` less `dapp-events`)", "0.21", ("dapp-short", PDRE), ("dapp-events", PDRE)),
    ("event tags (`dapp-short` less `dapp-daily`)", "0.14", ("dapp-short", PDRE), ("dapp-daily", PDRE)),
    ("weighted mean in place of the longest", "+0.5 or -0.2", ("dapp-weighted", PDRE), ("dapp-max", PDRE)),
    ("tags that are always right", "", ("dapp-exact", PDRE), ("dapp-short", PDRE)),
    ("algorithm 1 by figure 9 (14 days) in place of 20", "", ("dapp-figure-9", PDRE), ("dapp-short", PDRE)),
    ("a new group every day in place of algorithm 1", "", ("dapp-timer", PDRE), ("dapp-weighted", PDRE)),
    ("a symmetric score", "", ("dapp-symmetric", PDRE), ("dapp-short", PDRE)),
    ("a long request may open a host", "", ("dapp-opens", PDRE), ("dapp-short", PDRE)),
    ("classes of weeks in place of up to a year", "", ("dapp-short", PDRE), ("dapp", PDRE)),
)
SEQUENCE = (
    ("whole: `dapp-weighted` with PDRE", "2.00", ("dapp-weighted", PDRE)),
    ("less groups", "1.66", ("dapp-ungrouped", PDRE)),
    ("less PDRE", "1.35", ("dapp-ungrouped", "")),
    ("less daily tags", "1.14", ("dapp-ungrouped-events", "")),
    ("less event tags: best-fit", "1.00", (BASELINE, "")),
)
"""The paper's figures: total and what each part takes away, second-hand; the sums are ours."""


def print_ablations(cells: Cells, predictors: Sequence[str]) -> None:
    for predictor in predictors:
        rows = [(what, paper or " ", *(interval(cells.differs((*one, predictor), (*other, predictor), figure=figure))
                                       for figure in ("packing_density_pct", "empty_hosts_pct")))
                for what, paper, one, other in ALONE]
        rows += [(what, paper, *(interval(cells.differs((*one, predictor), figure=figure))
                                 for figure in ("packing_density_pct", "empty_hosts_pct")))
                 for what, paper, one in SEQUENCE]
        print_table(f"Ablations, {predictor}: alone, then in sequence as gain over best-fit",
                    ("", "paper, density", "density, pp", "empty hosts, pp"),
                    [row for row in rows if row[2] != "-"])


def print_targets(cells: Cells) -> None:
    oracle, rows = ("nilas", "", "oracle"), []
    bar = cells.differs(oracle)
    for policy, rectifier in (DVLA, *OWN):
        own = (policy, rectifier, "hazard")
        gain = cells.differs(own)
        share = "-" if gain is None or bar is None else f"{100 * gain.mean() / bar.mean():.0f} %"
        rows.append((f"`{policy}`, `{rectifier}`", interval(gain), interval(cells.differs(own, (*DVLA, "hazard"))),
                     share, interval(cells.differs(own, oracle)), *(
                         _mean(cells.values(each, 0.8, *own)) for each in ("stranded_hosts_pct", "n_rejected"))))
    rows.append(("`nilas`, oracle, no migrations", interval(bar), "-", "100 %", "-", *(
        _mean(cells.values(each, 0.8, *oracle)) for each in ("stranded_hosts_pct", "n_rejected"))))
    rows.append(("best-fit, no migrations", "-", "-", "-", "-", *(
        _mean(cells.values(each, 0.8, BASELINE, "", "")) for each in ("stranded_hosts_pct", "n_rejected"))))
    print_table("Live (hazard) against DVLA and oracle NILAS", (
        "", "gain, pp", "less DVLA", "of oracle NILAS", "less oracle NILAS", "stranded, %", "rejected"), rows)


def _mean(values: pd.Series | None) -> str:
    return "-" if values is None else f"{values.mean():.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--store", type=Path, default=Path(".sojourn"))
    parser.add_argument("--part", action="append", choices=tuple(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--predictor", action="append")
    parser.add_argument("--kept", action="store_true")
    asked = parser.parse_args()
    for trace in asked.traces:
        for name, whole in PARTS.items():
            if asked.part and name not in asked.part:
                continue
            part = some_of(whole, asked.policy, asked.predictor)
            grid = cells_of(part, trace, asked.store, asked.seeds)
            failed = {} if asked.kept else run_cells(grid, local_workers(1))
            store = CellStore(asked.store)
            found = [(cell, kept) for cell in grid if (kept := store.read(cell.key())) is not None]
            print(f"\n## {trace}, {name}: {len(found)} of {len(grid)} cells, {len(failed)} failed", flush=True)
            for reason in dict.fromkeys(failed.values()):
                print(f"failed: {reason}")
            if not found:
                continue
            for text in dict.fromkeys(kept.about["description"] for _, kept in found):
                print(text)
            cells = Cells(cells_table(found))
            if "recall" in name:
                print_recalls(cells, part.policies)
                continue
            for load in part.loads:
                print_gains(cells, part.predictors, part.policies, load)
            if name in ("live", "cold"):
                print_ablations(cells, part.predictors)
            if name == "live":
                print_targets(cells)


if __name__ == "__main__":
    main()
