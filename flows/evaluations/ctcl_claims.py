"""What the CTCL paper claims beside what the replays show, each claim reproduced or refuted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section

BEST = "ctcl 20c-24h"
STEPS = ("k8s", "k8s + types", "k8s + types, no margin", "k8s + types, no margin, order",
         "ctcl own maximum 24h", BEST)
"""From k8s to ctcl, one rule after the other: its machine types, no margin above what was seen, its
order of eviction, idle room for batch requests in place of smaller reservations, classes."""
_ALONE = "k8s + order"
_STEP_TITLES = ("algorithm", "cluster: step", "cluster: total", "price", "rescheduled", "wait s")
_STEP_LEGEND = ("Each line takes over one more rule of ctcl's: machine types, no margin, order of eviction, "
                "idle room in place of smaller reservations, classes. Cluster: change of the mean size, % of "
                f"k8s's; the steps add up to the last total. {_ALONE} is k8s with ctcl's order of eviction and "
                "nothing else. Price, rescheduled: change in % of k8s's. Wait: as in table IV. Paired by "
                "seed, ± half of the 95 % interval.")
_TITLES = ("claim", "against", "paper", "ours", "wait s", "verdict")
_LEGEND = ("Change of the paper's best case, ctcl 20c-24h, in % of the other's figure, paired by seed, ± half of the "
           "95 % interval. Reproduced: in the paper's direction, at least as large, and the interval excludes 0; "
           "smaller: in its direction, and the interval excludes 0; refuted: neither. Wait: ours/theirs, "
           "from a batch request's arrival to the begin of the run that ended; the paper has none. trace is a "
           "stand-in, a fixed pool of the default type, where the trace does not record its machines and runs.")


@dataclass(frozen=True, slots=True)
class Claim:
    """A change in % that the paper reports of `of` against `base`; negative = lower is claimed."""

    words: str
    column: str
    base: str
    paper_pct: float
    of: str = BEST


CLAIMS = (
    Claim("mean cluster size", "n_machines", "trace", -40.0),
    Claim("mean cluster size", "n_machines", "k8s", -37.0),
    Claim("largest cluster", "most_machines", "trace", 100 * (777 / 952 - 1)),
    Claim("largest cluster", "most_machines", "k8s", 100 * (777 / 933 - 1)),
    Claim("CPU utilisation", "cpu_pct", "trace", 100 * (65 / 39 - 1)),
    Claim("memory utilisation", "mem_pct", "trace", 100 * (87 / 78 - 1)),
    Claim("rescheduled", "n_rescheduled", "trace", 100 * (1894 / 210503 - 1)),
    Claim("rescheduled", "n_rescheduled", "k8s", 100 * (1894 / 30422 - 1)),
    Claim("rescheduled by k8s", "n_rescheduled", "trace", 100 * (30422 / 210503 - 1), "k8s"),
    Claim("mean cost", "mean_cost_s", "trace", 100 * (170 / 214 - 1)),
    Claim("rescheduled after 24 h in place of 12 h", "n_rescheduled", "ctcl 20c-12h", 100 * (1894 / 1968 - 1)),
    Claim("rescheduled with 20 classes in place of 10", "n_rescheduled", "ctcl 10c-24h", 100 * (1894 / 2316 - 1)),
)
"""Of tables IV and V, and of section V-C (cluster size)."""


def claims_section(replays: pd.DataFrame, caption: str) -> Section:
    """One line for each of CLAIMS, and "none rescheduled twice". replays: one row for each algorithm and seed."""
    by_name = {str(name): own.sort_values("seed") for name, own in replays.groupby("algorithm", sort=False)}
    lines = []
    for claim in CLAIMS:
        ours = change_pct(by_name[claim.of], by_name[claim.base], claim.column)
        mean, half = float(ours.mean()), float(t_half_width(ours[:, None])[0])
        lines.append((claim.words, claim.base, f"{claim.paper_pct:+.0f} %", f"{mean:+.1f} ± {half:.1f} %",
                      "/".join(f"{by_name[name]['mean_wait_s'].mean():.0f}" for name in (claim.of, claim.base)),
                      verdict(mean, half, claim.paper_pct)))
    twice = by_name[BEST]["n_multi_rescheduled"].to_numpy(np.float64)
    extent = f"{twice.mean():.0f} ({twice.min():.0f} to {twice.max():.0f})"
    lines.append(("rescheduled more than once", "-", "0", extent, "-", "reproduced" if not twice.any() else "refuted"))
    return Section("Claims of the paper", caption, _TITLES, tuple(lines), 2, _LEGEND)


def steps_section(replays: pd.DataFrame, caption: str) -> Section:
    """What ctcl's difference to k8s in cluster size is made of, step by step. replays: as of claims_section."""
    by_name = {str(name): own.sort_values("seed") for name, own in replays.groupby("algorithm", sort=False)}
    base = by_name[STEPS[0]]
    lines = []
    for name, before in ((_ALONE, None), *zip(STEPS, (None, *STEPS[:-1]), strict=True)):
        own = by_name[name]
        total = change_pct(own, base, "n_machines")
        step = None if before is None else total - change_pct(by_name[before], base, "n_machines")
        figures = (step, *(None if name == STEPS[0] else change_pct(own, base, column)
                           for column in ("n_machines", "price_per_h", "n_rescheduled")))
        lines.append((name, *map(_pct, figures), f"{own['mean_wait_s'].mean():.1f}"))
    return Section("From k8s to ctcl", caption, _STEP_TITLES, tuple(lines), 1, _STEP_LEGEND)


def _pct(changes: np.ndarray | None) -> str:
    if changes is None:
        return "-"
    mean, half = float(changes.mean()), float(t_half_width(changes[:, None])[0])
    if np.isnan(mean):
        return "-"
    return f"{mean:+.1f}" if np.isnan(half) else f"{mean:+.1f} ± {half:.1f}"


def change_pct(of: pd.DataFrame, base: pd.DataFrame, column: str) -> np.ndarray:
    """Change in % of the base's figure, seed by seed; NaN where that is 0.

    >>> one, two = (pd.DataFrame({"seed": [0], "x": [value]}) for value in (3.0, 4.0))
    >>> change_pct(one, two, "x").tolist()
    [-25.0]
    """
    whole = base[column].to_numpy(np.float64)
    part = of[column].to_numpy(np.float64)
    return np.asarray(100 * np.divide(part - whole, whole, out=np.full(len(whole), np.nan), where=whole != 0))


def verdict(mean: float, half: float, paper_pct: float) -> str:
    """Of a change of `mean` ± `half` % where the paper has `paper_pct`.

    >>> [verdict(mean, 1.0, -40.0) for mean in (-45.0, -10.0, -0.5, 3.0)]
    ['reproduced', 'smaller', 'refuted', 'refuted']
    """
    if np.isnan(mean):
        return "not testable: the base is 0"
    sign = np.sign(paper_pct)
    if sign * mean <= 0 or sign * mean - half <= 0:
        return "refuted"
    return "reproduced" if sign * mean >= sign * paper_pct else "smaller"
