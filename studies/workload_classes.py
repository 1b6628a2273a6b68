"""Under-served work and over-reservation of newcomers by length of history, per data set, with intervals over requests.

    python -m studies workload-classes DATA [--json FILE] [--pictures FOLDER] [--set NAME ...]

DATA is the folder with `bitbrains-rnd`, `planetlab` and `google-2011-gcd-vms`; a set whose folder is missing is left
out. The surplus's quantile was chosen on bitbrains-july; the others were judged once. Where requests are seen for many
days, they are cut in five parts: classes of four are learnt before a day (8th, 15th, 22nd), and the requests of the
fifth are newcomers that begin at 0:00, 6:00, 12:00 or 18:00 of it. planetlab's series last a day: classes of the days
before. gcd-vms has no dates: classes of the other four parts' day.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.features.usage import UsageGrid, read_usage, store_usage
from sojourn.flows.reports.figures import plain
from sojourn.flows.usage.report import class_figure
from sojourn.models.workload_class import (
    METHODS,
    ClassModel,
    Newcomers,
    SlotMaxima,
    fit_classes,
    judge_newcomers,
    slot_maxima,
)
from sojourn.serving.usage import N_SLOTS
from sojourn.simulator.measures import signed_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHOD_COLOURS = ("#2a6f97", "#d17a22", "#1b7f79", "#8c3b5e")
HOURS = (3, 6, 12, 24, 48)
N_DRAWS, N_FOLDS = 1_000, 5
DAYS, STARTS = (7, 14, 21), (0, 24, 48, 72)
Case = tuple[ClassModel, SlotMaxima, int]


def grid_of(reader: str, path: Path | None, **options: Any) -> UsageGrid:
    """The series of a reader on 5-minute steps."""
    with TemporaryDirectory() as folder:
        return store_usage(read_usage(reader, path or "", **options), Path(folder) / "usage").grid()


def rows(seen: SlotMaxima, kept: np.ndarray) -> SlotMaxima:
    """Some of the requests."""
    return SlotMaxima(seen.request_ids[kept], seen.highest[kept], seen.mean[kept], seen.first_slot)


def parts(seen: SlotMaxima, days: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[Case]:
    """Newcomers of each fifth, by classes of the other four; day 0: of the same day, where there are no dates."""
    part = np.arange(len(seen)) % N_FOLDS
    for day in days:
        for fold in range(N_FOLDS):
            others = np.flatnonzero(part != fold)
            model = fit_classes(seen.before(day * N_SLOTS, others) if day else rows(seen, others))
            if model is not None:
                yield from ((model, rows(seen, part == fold), day * N_SLOTS + start) for start in starts)


def day_by_day(grids: list[UsageGrid]) -> Iterator[Case]:
    """Newcomers of each day from its midnight, by classes of the days before; series of one day each."""
    days = [slot_maxima(grid) for grid in grids]
    for number, today in enumerate(days):
        if number:
            before = days[:number]
            model = fit_classes(SlotMaxima(np.concatenate([day.request_ids for day in before]),
                                           np.concatenate([day.highest for day in before]),
                                           np.concatenate([day.mean for day in before]), 0))
            if model is not None:
                yield model, today, 0


def table(found: Newcomers, seed: int = 0) -> dict[str, Any]:
    """Both measures of each method, and the paired differences of combined's under-served work, percent."""
    rng = np.random.default_rng(seed)
    n = len(found.request_ids)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=N_DRAWS)
    drawn = {name: np.array([found.under_served(name, each) for each in counts]) for name in METHODS}
    result: dict[str, Any] = {"n_requests": n}
    for name in METHODS:
        low, high = np.percentile(100 * drawn[name], [2.5, 97.5])
        result[name] = {"under_served_pct": 100 * found.under_served(name), "low_pct": low, "high_pct": high,
                        "over_reserved_pct": 100 * found.over_reserved(name)}
    for other in ("own", "margin"):
        gap = 100 * (drawn["combined"] - drawn[other])
        low, high = np.percentile(gap, [2.5, 97.5])
        result[f"combined_minus_{other}_pp"] = {
            "value": 100 * (found.under_served("combined") - found.under_served(other)), "low": low, "high": high}
    return result


def data_sets(data: Path) -> dict[str, Callable[[], tuple[list[Case], tuple[int, ...]]]]:
    """How each set's newcomers are made, and the lengths of history that can be judged."""
    sets: dict[str, Callable[[], tuple[list[Case], tuple[int, ...]]]] = {}
    bitbrains, planetlab, gcd = data / "bitbrains-rnd", data / "planetlab", data / "google-2011-gcd-vms"

    def months(month: str, resource: str) -> tuple[list[Case], tuple[int, ...]]:
        seen = slot_maxima(grid_of("bitbrains", bitbrains, month=month), resource)
        return list(parts(seen, DAYS, STARTS)), HOURS

    if bitbrains.is_dir():
        for name, month in (("july", "2013-7"), ("august", "2013-8")):
            for resource in ("cpu", "mem"):
                sets[f"bitbrains-{name}-{resource}"] = partial(months, month, resource)
    if planetlab.is_dir():
        days = ("20110303", "20110306", "20110309", "20110322", "20110325", "20110403", "20110409", "20110411",
                "20110412", "20110420")
        sets["planetlab-cpu"] = lambda: (list(day_by_day([grid_of("planetlab", planetlab, day=day) for day in days])),
                                         HOURS[:3])
    if gcd.is_dir():
        sets["gcd-vms-cpu"] = lambda: (list(parts(slot_maxima(grid_of("gcd-vms", gcd)), (0,), (0,))), HOURS[:3])
    sets["synthetic-cpu"] = lambda: (list(parts(slot_maxima(grid_of("synthetic", None, n_usage=600)), (7, 14), STARTS)),
                                     HOURS)
    return sets


def main() -> None:
    """Measure, print Markdown, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    parser.add_argument("--set", action="append", dest="names", help="only this set; repeat")
    given = parser.parse_args()
    found: dict[str, dict[int, Any]] = {}
    for name, make in data_sets(given.data).items():
        if given.names and name not in given.names:
            continue
        started = time.perf_counter()
        cases, hours = make()
        found[name] = {each: table(judge_newcomers(cases, each)) for each in hours}
        print(f"\n{name}, {time.perf_counter() - started:.0f} s\n\n| history | requests | "
              + " | ".join(METHODS) + " | combined - own, pp | combined - margin, pp |")
        print("|" + "---|" * (4 + len(METHODS)))
        for each, row in found[name].items():
            cells = [f"{row[m]['under_served_pct']:.2f} / {row[m]['over_reserved_pct']:.1f}" for m in METHODS]
            gaps = [f"{signed_text(gap['value'])} [{signed_text(gap['low'])}, {signed_text(gap['high'])}]" for gap in (
                row["combined_minus_own_pp"], row["combined_minus_margin_pp"])]
            print(f"| {each} h | {row['n_requests']} | " + " | ".join([*cells, *gaps]) + " |", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    if given.pictures:
        _draw(given.data, given.pictures, found)


def _newcomer_figure(rows: Mapping[str, Mapping[int, Mapping[str, tuple[float, float]]]]) -> Figure:
    """Under-served work against over-reservation of each method, a panel a data set, % both; lower left = better.

    rows: data set -> hours of history -> method -> (under-served, over-reserved), shares.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(rows), 4.2), layout="constrained")
    panels = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, (name, by_hours) in zip(panels, rows.items(), strict=True):
        methods = list(next(iter(by_hours.values())))
        for method, colour in zip(methods, _METHOD_COLOURS, strict=False):
            under, over = (np.array([by_hours[hours][method][i] for hours in by_hours]) * 100 for i in (0, 1))
            axes.plot(over, under, color=colour, marker="o", markersize=4, linewidth=1, label=method)
            for hours, x, y in zip(by_hours, over, under, strict=True):
                if hours == min(by_hours):
                    axes.annotate(f"{hours} h", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=8)
        axes.set_xlabel("over-reserved, % of the reservation")
        axes.set_ylabel("under-served, % of work")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_title(name, loc="left")
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
    return figure


def _draw(data: Path, folder: Path, found: dict[str, dict[int, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = {name: {hours: {method: (row[method]["under_served_pct"] / 100, row[method]["over_reserved_pct"] / 100)
                            for method in ("own", "class", "combined", "margin")} for hours, row in by_hours.items()}
             for name, by_hours in found.items() if name.endswith("cpu")}
    _newcomer_figure(shown).savefig(folder / "newcomers.png", dpi=110)
    grid = grid_of("bitbrains", data / "bitbrains-rnd", month="2013-8")
    models = {resource: fit_classes(slot_maxima(grid, resource)) for resource in ("cpu", "mem")}
    classes = {resource: model.classes for resource, model in models.items() if model is not None}
    class_figure(classes, "bitbrains, August 2013").savefig(folder / "classes.png", dpi=110)


if __name__ == "__main__":
    main()
