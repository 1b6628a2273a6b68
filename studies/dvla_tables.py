"""The tables of docs/simulator/dvla*.md: parts of the study `dvla`, replayed where they are not kept yet, and printed.

    python -m studies dvla-tables [synthetic] [READER=PATH ...] [--store FOLDER] [--part NAME ...] [--seeds N]
        [--policy NAME ...] [--predictor NAME ...] [--alone] [--kept]

Cells are those of `python -m studies dvla` in the store, under the same keys: what is there is not replayed again, and
with --kept nothing is. A part is a grid of policies x predictors x rectifiers x loads; --policy and --predictor take
some of them, and --alone no migrations. Tables have whatever is kept of the traces and parts that are named, with a
column for each trace. Figures are differences in empty hosts, percentage points, paired by seed, with 95 % t-intervals
over the seeds; beside the paper's figures also in packing density, which is its measure.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.compare.cells import CellResult, CellStore
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import cells_table
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.settings.trace import Start
from sojourn.flows.workers.dask import local_workers
from sojourn.simulator.experiments import BASELINE, pairing_label
from sojourn.simulator.measures import interval_text, signed_text
from studies.compare import COMPARISONS

EMPTY, DENSITY = "empty_hosts_pct", "packing_density_pct"
PDRE, VALUE = "pdre:5", "value:5"
RECTIFIERS = ("", PDRE, VALUE)
SWEPT = ("nilas", "nilas-expected", "joint-fit", "joint-exact", "dapp")
RECALLED = ("nilas", "joint-fit", "joint-exact", "dapp", "dapp-short")
RECALLS = ("recall:0.4", "recall:0.6", "recall:0.8", "recall:1")
OF_OWNERS = ("owner-recall:0.4", "owner-recall:0.6", "owner-recall:0.8", "recall:1")
DVLA, DAILY = ("dapp", PDRE), ("dapp-daily", PDRE)
OWN = tuple((policy, rectifier) for rectifier in (PDRE, VALUE)
            for policy in ("nilas-expected", "joint-fit", "joint-exact"))
"""Our pairs; pdre is DVLA's own list. Of DVLA's readings, tags that change at midnight only are the best live ones."""
Placing = tuple[str, str, str]
"""Policy, rectifier and predictor; "" for none."""


@dataclass(frozen=True, slots=True)
class Part:
    """Settings of a comparison."""

    predictors: tuple[str, ...]
    policies: tuple[str, ...] = COMPARISONS["dvla"].policies
    loads: tuple[float, ...] = (0.8,)
    start: Start = "warm"


PARTS = MappingProxyType({
    "live": Part(("hazard", "oracle", "noise:1")),
    "recall": Part((*RECALLS, *OF_OWNERS[:-1]), RECALLED),
    "loads": Part(("hazard",), SWEPT, (0.6, 0.7, 0.9)),
    "cold": Part(("oracle", "noise:1"), start="cold"),
    "cold-recall": Part((*RECALLS, *OF_OWNERS[:-1]), RECALLED, start="cold"),
})


def some_of(part: Part, policies: Sequence[str] | None, predictors: Sequence[str] | None) -> Part:
    """The part with these of its policies and predictors alone, all where None is given."""
    return replace(part, policies=tuple(each for each in part.policies if policies is None or each in policies),
                   predictors=tuple(each for each in part.predictors if predictors is None or each in predictors))


def cells_of(part: Part, trace: str, store: Path, n_seeds: int, rectifiers: tuple[str, ...]) -> list[Cell]:
    """The grid of a part, without the oracle where it is not asked for."""
    reader, _, path = trace.partition("=")
    read: dict[str, Any] = {"reader": reader, "trace": Path(path)} if path else {}
    config = CompareConfig(store=store, policies=part.policies, predictors=part.predictors, rectifiers=rectifiers,
                           loads=part.loads, starts=(part.start,), n_seeds=n_seeds, **read)
    asked = {*part.predictors}
    return [cell for cell in config.cells() if cell.predictor is None or cell.predictor.name in asked]


class Cells:
    """The figures of a trace's cells of one start, by what they are."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._by_cell = {key: own.set_index("seed") for key, own in table.groupby(["load", "label"])}

    def values(self, figure: str, policy: str, rectifier: str, predictor: str, load: float = 0.8) -> pd.Series | None:
        """A figure by seed; None where there is no such cell. Best-fit without migrations asks no predictor."""
        placing = f"{policy} + {rectifier}" if rectifier else policy
        own = self._by_cell.get((load, pairing_label(placing, "" if placing == BASELINE else predictor)))
        return None if own is None else own[figure].astype(float)

    def differs(self, of: Placing, less: Placing = (BASELINE, "", ""), load: float = 0.8,
                figure: str = EMPTY) -> np.ndarray | None:
        """What the first policy, rectifier and predictor has above the other, by seed that has both."""
        one, other = self.values(figure, *of, load), self.values(figure, *less, load)
        both = None if one is None or other is None else (one - other).dropna().to_numpy()
        return None if both is None or len(both) == 0 else both


def interval(values: np.ndarray | None) -> str:
    """Mean and 95 % t-interval.

    >>> interval(np.array([1.0, 2.0, 3.0]))
    '+2.00 [-0.48, +4.48]'
    """
    if values is None:
        return "-"
    mean = float(values.mean())
    half = float(t_half_width(values[:, None])[0])
    interval = f" [{interval_text(mean - half, mean + half, between=', ')}]" if len(values) > 1 else ""
    return f"{signed_text(mean)}{interval}"


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], n_titles: int = 1) -> None:
    """Markdown, without the columns and rows in which nothing was replayed. n_titles: columns that name a row."""
    shown = [k for k in range(len(head)) if k < n_titles or any(row[k] != "-" for row in rows)]
    kept = [row for row in rows if any(each != "-" for each in row[n_titles:])]
    if kept:
        print(f"\n{title}\n\n| {' | '.join(head[k] for k in shown)} |\n|{'---|' * len(shown)}")
        for row in kept:
            print(f"| {' | '.join(row[k] for k in shown)} |")


def words(policy: str, rectifier: str) -> str:
    return f"`{policy}`, `{rectifier}`" if rectifier else f"`{policy}`"


def print_gains(traces: Mapping[str, Cells], predictor: str, policies: Sequence[str]) -> None:
    """A few policies with every rectifier over all traces, and all policies."""
    few = [(policy, rectifier, predictor) for policy in (BASELINE, *SWEPT, DAILY[0]) for rectifier in RECTIFIERS]
    for figure, title in ((EMPTY, "Gain over best-fit, pp"), (DENSITY, "Gain over best-fit in packing density, pp")):
        print_table(f"{title}, {predictor}", ("", *traces),
                    [(words(*each[:2]), *(interval(cells.differs(each, figure=figure)) for cells in traces.values()))
                     for each in few[1:]])
    print_table(f"Gain over best-fit, pp, {predictor}, all policies",
                ("", *(f"{name}{f', `{each}`' if each else ''}" for name in traces for each in RECTIFIERS)),
                [(f"`{policy}`", *(interval(cells.differs((policy, each, predictor)))
                                   for cells in traces.values() for each in RECTIFIERS))
                 for policy in (BASELINE, *policies)])


def print_loads(traces: Mapping[str, Cells], policies: Sequence[str], loads: Sequence[float]) -> None:
    placings = [(policy, rectifier, "hazard") for policy in (BASELINE, *policies) for rectifier in RECTIFIERS]
    for name, cells in traces.items():
        print_table(f"Gain over best-fit, pp, by load, hazard, {name}", ("", *(f"{load:g}" for load in loads)),
                    [(words(*each[:2]), *(interval(cells.differs(each, load=load)) for load in loads))
                     for each in placings[1:]])


def print_recalls(traces: Mapping[str, Cells], policies: Sequence[str]) -> None:
    """Gains by recall, and the paired rise from 40 to 100 %."""
    for figure, unit in ((DENSITY, "packing density"), (EMPTY, "empty hosts")):
        rows = [(f"{name}, {kind}, {words(policy, rectifier)}",
                 *(interval(cells.differs((policy, rectifier, each), figure=figure)) for each in predictors),
                 interval(cells.differs((policy, rectifier, predictors[-1]), (policy, rectifier, predictors[0]),
                                        figure=figure)))
                for name, cells in traces.items() for kind, predictors in (("requests", RECALLS), ("owners", OF_OWNERS))
                for policy in policies for rectifier in RECTIFIERS]
        print_table(f"Gain over best-fit by recall, {unit}, pp",
                    ("trace, what is missed, policy", "40 %", "60 %", "80 %", "100 %", "100 % less 40 %"), rows)


ALONE = (
    ("groups (`dapp-weighted` less `dapp-ungrouped`)", "0.34", ("dapp-weighted", PDRE), ("dapp-ungrouped", PDRE)),
    ("PDRE (`dapp-short` with and without)", "0.31", ("dapp-short", PDRE), ("dapp-short", "")),
    ("daily tags (`dapp-short` less `dapp-events`)", "0.21", ("dapp-short", PDRE), ("dapp-events", PDRE)),
    ("event tags (`dapp-short` less `dapp-daily`)", "0.14", ("dapp-short", PDRE), ("dapp-daily", PDRE)),
    ("weighted mean in place of the longest", "+0.5, -0.2", ("dapp-weighted", PDRE), ("dapp-max", PDRE)),
    ("tags that are always right", "", ("dapp-exact", PDRE), ("dapp-short", PDRE)),
    ("an observation of 14 days in place of 20", "", ("dapp-figure-9", PDRE), ("dapp-short", PDRE)),
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
"""What a part is worth, and what is left; the paper's figures are second-hand, and what is left is our subtraction."""


def print_ablations(traces: Mapping[str, Cells], predictor: str) -> None:
    columns = [(cells, figure) for cells in traces.values() for figure in (DENSITY, EMPTY)]
    head = [f"{name}, {unit}" for name in traces for unit in ("density", "empty hosts")]
    rows = [(what, paper, *(interval(cells.differs((*one, predictor), (*other, predictor), figure=figure))
                            for cells, figure in columns)) for what, paper, one, other in ALONE]
    print_table(f"A part of DVLA alone, pp, {predictor}", ("", "paper, density", *head), rows, 2)
    rows = [(what, paper, *(interval(cells.differs((*one, predictor), figure=figure)) for cells, figure in columns))
            for what, paper, one in SEQUENCE]
    print_table(f"One part less after another: gain over best-fit, pp, {predictor}", ("", "paper, density", *head),
                rows, 2)


def print_targets(traces: Mapping[str, Cells]) -> None:
    """Pairs with the live model beside DVLA's and beside NILAS with perfect lifetimes."""
    perfect = ("nilas", "", "oracle")
    own = [(policy, rectifier, "hazard") for policy, rectifier in OWN]
    dvla, daily = (*DVLA, "hazard"), (*DAILY, "hazard")
    for reading in (dvla, daily):
        print_table(f"Less {words(*reading[:2])}, pp, hazard", ("", *traces), [
            (words(*each[:2]), *(interval(cells.differs(each, reading)) for cells in traces.values())) for each in own])
    both = [(each or "none", ("joint-exact", each, "hazard"), ("joint-fit", each, "hazard")) for each in RECTIFIERS]
    print_table("`joint-exact` less `joint-fit`, pp, hazard", ("migrations", *traces), [
        (each, *(interval(cells.differs(one, other)) for cells in traces.values())) for each, one, other in both])
    print_table("Less NILAS with perfect lifetimes and no migrations, pp, and the share of its gain", ("", *traces), [
        (words(*each[:2]), *(_share(cells, each, perfect) for cells in traces.values()))
        for each in (dvla, daily, *own)])


def print_stranded(traces: Mapping[str, Cells], predictor: str) -> None:
    """Stranded hosts by both readings, and rejections."""
    placings = [(BASELINE, "", ""), ("nilas", "", "oracle"), (*DVLA, predictor), (*DAILY, predictor),
                *((*pair, predictor) for pair in OWN)]
    for figure, title in (("stranded_hosts_pct", "Stranded, % of the hosts in use"),
                          ("stranded_hosts_whole_pct", "Stranded by all use, % of the hosts in use"),
                          ("n_rejected", "Rejected requests")):
        rows = [(f"{words(*each[:2])}, {each[2] or 'none'}",
                 *(_mean(cells.values(figure, *each)) for cells in traces.values())) for each in placings]
        print_table(f"{title}, mean of the seeds, {predictor}", ("", *traces), rows)


def _share(cells: Cells, placing: Placing, perfect: Placing) -> str:
    """The difference, and the share of the perfect one's gain over the seeds that have all three."""
    three = [cells.values(EMPTY, *each) for each in (placing, perfect, (BASELINE, "", ""))]
    if any(each is None for each in three):
        return "-"
    own, best, base = pd.concat([each for each in three if each is not None], axis=1).dropna().to_numpy().T
    whole = float((best - base).mean())
    share = f", {100 * (own - base).mean() / whole:.0f} %" if whole > 0 else ""
    return f"{interval(own - best)}{share}"


def _mean(values: pd.Series | None) -> str:
    return "-" if values is None else f"{values.mean():.1f}"


def name_of(trace: str) -> str:
    """A column's head.

    >>> name_of("swf=data/SDSC-BLUE-2000-4.2-cln.swf.gz"), name_of("openb=data")
    ('SDSC-BLUE', 'openb')
    """
    reader, _, path = trace.partition("=")
    return Path(path).name.split("-20")[0] if reader == "swf" else reader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--store", type=Path, default=Path(".sojourn"))
    parser.add_argument("--part", action="append", choices=tuple(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--predictor", action="append")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--kept", action="store_true")
    asked = parser.parse_args()
    store, parts = CellStore(asked.store), {name: PARTS[name] for name in asked.part or PARTS}
    starts: dict[str, dict[str, Cells]] = {"warm": {}, "cold": {}}
    for trace in asked.traces:
        found: dict[str, list[tuple[Cell, CellResult]]] = {"warm": [], "cold": []}
        for name, whole in parts.items():
            part = some_of(whole, asked.policy, asked.predictor)
            grid = cells_of(part, trace, asked.store, asked.seeds, () if asked.alone else (PDRE, VALUE))
            failed = {} if asked.kept else run_cells(grid, local_workers(1))
            own = [(cell, kept) for cell in grid if (kept := store.read(cell.key())) is not None]
            print(f"{trace}, {name}: {len(own)} of {len(grid)} cells, {len(failed)} failed", flush=True)
            for reason in dict.fromkeys(failed.values()):
                print(f"failed: {reason}")
            found[part.start] += own
        for start, own in found.items():
            if own:
                print(*dict.fromkeys(f"{start}: {kept.about['description']}" for _, kept in own), sep="\n")
                cells = {cell.key(): (cell, kept) for cell, kept in own}  # parts overlap
                starts[start][name_of(trace)] = Cells(cells_table(list(cells.values())))
    for start, traces in starts.items():
        if traces:
            print(f"\n{start} start")
        for predictor in PARTS["live"].predictors:
            print_stranded(traces, predictor)
            print_gains(traces, predictor, PARTS["live"].policies)
            print_ablations(traces, predictor)
        print_recalls(traces, RECALLED)
    print_loads(starts["warm"], SWEPT, (0.6, 0.7, 0.8, 0.9))
    print_targets(starts["warm"])


if __name__ == "__main__":
    main()
