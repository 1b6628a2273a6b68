"""How small a hazard model may be: accuracy against what its first answer costs, by trees x leaves.

    python benchmarks/model_size.py [--store DIR] [--trace FILE:READER]... [--json FILE] [--picture FILE]

Accuracy: mean integrated Brier score on the validation window (the measure that families are chosen by; the test window
is never read) as a share of the 300x63 model's, with a 95 % interval of the paired difference over owners; below 1 =
better. Cost: median time to build one request's curve, ratio beside it, all in this run. Default: the synthetic trace.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from sojourn.features.split import Split
from sojourn.flows.retrain.features import build_features
from sojourn.flows.retrain.ingest import ingest
from sojourn.flows.retrain.train import fit_settings, windows
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.study.search import without_test
from sojourn.models import FitSettings
from sojourn.models.lifetime import HazardModel
from sojourn.models.measures import Assessment, OwnerDraws, assess, choose_threshold, coarsest_owner, interval
from sojourn.serving.forest import varying_walk

SIZES = ((300, 63, 0.03), (150, 63, 0.05), (100, 63, 0.08), (64, 63, 0.1), (40, 63, 0.15), (25, 63, 0.2),
         (100, 31, 0.1), (50, 31, 0.15), (25, 31, 0.25))
"""Trees, leaves and the learning rate that goes with so many trees; the first is the yardstick."""
N_ROWS = 2_000
N_DRAWS = 100


@dataclass(frozen=True)
class Figure:
    """One size on one trace. share: Brier score over the yardstick's (lower is better), low and high its interval."""

    trace: str
    size: str
    n_trees: int
    brier: float
    share: float
    low: float
    high: float
    curve_us: float
    x_cost: float


def briers(assessment: Assessment) -> tuple[float, np.ndarray]:
    """The Brier score over ages of the window and of each draw of owners."""
    return assessment.scores["ages.ibs"], assessment.replicates["ages.ibs"]


def measure(name: str, split: Split, settings: FitSettings) -> list[Figure]:
    threshold_s = choose_threshold(split.train)
    valid = split.valid
    draws = OwnerDraws(coarsest_owner(valid.keys, len(valid)), N_DRAWS, seed=0)
    figures: list[Figure] = []
    yardstick: tuple[float, np.ndarray, float] | None = None
    for n_trees, n_leaves, rate in SIZES:
        model = HazardModel(n_rounds=n_trees)
        params = {"num_leaves": n_leaves, "learning_rate": rate}
        model.fit(split.train, valid, split.past, replace(settings, params=params))
        score, drawn = briers(assess(model.validation_table_, valid, threshold_s, (), draws))
        cost = curve_us(model, valid.features[:N_ROWS])
        yardstick = yardstick or (score, drawn, cost)
        low, high = interval(drawn / yardstick[1])
        figures.append(Figure(name, f"{n_trees}x{n_leaves}", model.boosted_.n_rounds, score, score / yardstick[0], low,
                              high, cost, cost / yardstick[2]))
        print(line(figures[-1]), flush=True)
    return figures


def curve_us(model: HazardModel, features: np.ndarray) -> float:
    """Median over nine runs of the microseconds to score one request at every interval, compiled."""
    grid = np.arange(len(model.axis_.intervals.offsets), dtype=np.float64)
    walk = varying_walk(model.boosted_.forest, grid, model.age_features_)
    rows = np.column_stack([features, np.zeros((len(features), len(model.age_features_) + 1))])
    walk.scores(rows)
    seconds = []
    for _ in range(9):
        started = time.perf_counter()
        walk.scores(rows)
        seconds.append((time.perf_counter() - started) / len(rows))
    return statistics.median(seconds) * 1e6


def line(figure: Figure) -> str:
    return (f"{figure.trace:<28}{figure.size:>8}{figure.n_trees:>7}{figure.brier:>9.4f}{figure.share:>8.3f}"
            f"{figure.low:>8.3f} to {figure.high:.3f}{figure.curve_us:>10.1f}{figure.x_cost:>8.2f}")


def picture(figures: list[Figure], file: Path) -> None:
    """Above the Brier scores of every size, below what its answers cost; the dearest size at the right."""
    import matplotlib.pyplot as plt

    mean_us = {size: statistics.fmean(figure.curve_us for figure in figures if figure.size == size)
               for size in dict.fromkeys(figure.size for figure in figures)}
    sizes = sorted(mean_us, key=mean_us.__getitem__)
    traces = list(dict.fromkeys(figure.trace for figure in figures))
    drawing, (above, below) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained",
                                           height_ratios=(3, 2))
    for number, trace in enumerate(traces):
        chosen = sorted((figure for figure in figures if figure.trace == trace), key=lambda one: sizes.index(one.size))
        places = np.arange(len(chosen)) + (number - (len(traces) - 1) / 2) * 0.12
        shares = np.array([figure.share for figure in chosen])
        lows, highs = np.array([figure.low for figure in chosen]), np.array([figure.high for figure in chosen])
        above.errorbar(places, shares, yerr=np.maximum([shares - lows, highs - shares], 0.0), fmt="o", ms=4, capsize=2,
                       lw=1, label=trace.split(".")[0])
        below.plot(places, [figure.curve_us for figure in chosen], "o", ms=4)
    means = [statistics.geometric_mean(figure.share for figure in figures if figure.size == size) for size in sizes]
    above.plot(range(len(sizes)), means, color="black", lw=1, zorder=0, label="mean of the traces")
    above.axhline(1.0, color="#999999", lw=0.8)
    above.set_ylim(0.93, 1.15)
    above.set_ylabel(f"Brier score over {figures[0].size}'s\n(lower = better)")
    above.set_title("How small a hazard model may be: accuracy on the validation window, and cost", loc="left")
    drawing.legend(*above.get_legend_handles_labels(), frameon=False, ncols=4, fontsize=8, loc="outside lower center")
    below.set_ylim(0.0)
    below.set_ylabel("scores at every interval,\nus a request (lower = better)")
    below.set_xticks(range(len(sizes)), sizes)
    below.set_xlabel("trees at most x leaves")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path(".sojourn"))
    parser.add_argument("--trace", action="append", default=[], help="FILE:READER; may be repeated")
    parser.add_argument("--n-threads", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/model_size.json"))
    parser.add_argument("--picture", type=Path, default=Path(".sojourn/benchmarks/model_size.png"))
    asked = parser.parse_args()
    configs = [RetrainConfig(store=asked.store, n_threads=asked.n_threads)]
    for given in asked.trace:
        file, _, reader = given.rpartition(":")
        configs.append(RetrainConfig(store=asked.store, n_threads=asked.n_threads, trace=Path(file), reader=reader))
    print(f"{'trace':<28}{'size':>8}{'trees':>7}{'Brier':>9}{'share':>8}{'95 % interval':>17}{'curve us':>10}"
          f"{'x cost':>8}")
    figures: list[Figure] = []
    for config in configs:
        ingested = ingest.fn(config.store, config.source)
        features = build_features.fn(config.store, ingested)
        split = windows(features.rows, config.test_share, config.valid_share)
        figures += measure(ingested.name, without_test(split), fit_settings(config, features))
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    picture(figures, asked.picture)


if __name__ == "__main__":
    main()
