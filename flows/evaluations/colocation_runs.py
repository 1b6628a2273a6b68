"""Runs of placement by usage: policies with their models on samples of requests in many orders, and their means."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from sojourn.flows.placement.usage_case import UsageCase
from sojourn.flows.placement.usage_models import USAGE_MODELS
from sojourn.flows.placement.workloads import t_half_width
from sojourn.simulator.colocation import COLOCATION_POLICIES, Colocation, place, violations

VMS_PER_HOST = 10
"""Of a single day: as of 2,000 days of VMs on 200 hosts."""
MEASURES = ("host_rate_pct", "request_rate_pct", "severity_pct", "host_severity_pct", "request_severity_pct",
            "used_pct")


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy and the model that it reads; an oracle's model is the real use."""

    policy: str
    model: str

    @property
    def label(self) -> str:
        """As in tables."""
        return self.policy if COLOCATION_POLICIES[self.policy].is_oracle else f"{self.policy}:{self.model}"


@dataclass(frozen=True, slots=True)
class Setting:
    """How many hosts, and how large: so that the mean use of all requests is `used_share` of `n_hosts_full` hosts.

    n_requests: drawn of a case, all of them where it has no more. n_hosts: by default n_hosts_full.
    """

    n_requests: int
    n_hosts_full: int
    n_hosts: int = 0
    used_share: float = 0.5

    def capacity(self, day: np.ndarray) -> float:
        """Of a host, in the unit of use."""
        return float(day.mean(axis=1, dtype=np.float64).sum()) / self.n_hosts_full / self.used_share


def run_orders(case: UsageCase, setting: Setting, entries: Sequence[Entry], seeds: Sequence[int],
               report: Callable[[int, int], None] | None = None, *, is_redrawn: bool = True) -> pd.DataFrame:
    """One row for each seed and entry: `seed`, `policy`, `model`, `label`, the measures, `elapsed_s` of the placement.

    is_redrawn: a seed draws the requests as well as their order; else all seeds place those that seed 0 draws.
    """
    rows = []
    for done, seed in enumerate(seeds):
        drawn = np.random.default_rng([seed if is_redrawn else 0, 1])
        n = min(setting.n_requests, len(case))
        own = case.take(np.sort(drawn.choice(len(case), n, replace=False)))
        order = np.random.default_rng([seed, 2]).permutation(n)
        models: dict[str, Colocation] = {}
        for entry in entries:
            if entry.model not in models:
                models[entry.model] = Colocation(own.day, setting.n_hosts or setting.n_hosts_full,
                                                 setting.capacity(own.day), model=USAGE_MODELS[entry.model](own))
            colocation = models[entry.model]
            started = time.perf_counter()
            hosts = place(colocation, entry.policy, order, seed)
            elapsed_s = time.perf_counter() - started
            found = violations(colocation.used, hosts, colocation.n_hosts)
            rows.append({"seed": seed, **asdict(entry), "label": entry.label, **asdict(found), "elapsed_s": elapsed_s})
        if report is not None:
            report(done + 1, len(seeds))
    return pd.DataFrame(rows)


def run_days(cases: Sequence[UsageCase], entries: Sequence[Entry], seeds: Sequence[int],
             report: Callable[[int, int], None] | None = None) -> pd.DataFrame:
    """One row for each case and entry: `day` (its date, or its name), `month` ("all" without dates),
    `n_requests`, `label`, and `severity_pct`, the mean over the seeds, which order the requests.

    Each day by itself: all its requests, on a host for every VMS_PER_HOST of them, used to half.
    """
    parts = []
    for done, case in enumerate(cases):
        setting = Setting(len(case), max(round(len(case) / VMS_PER_HOST), 2))
        runs = run_orders(case, setting, entries, seeds, is_redrawn=False)
        means = runs.groupby("label", sort=False)["severity_pct"].mean().reset_index()
        parts.append(means.assign(day=case.date or case.name, month=case.date[:7] or "all",
                                  n_requests=len(case)))
        if report is not None:
            report(done + 1, len(cases))
    return pd.concat(parts, ignore_index=True)


def order_means(runs: pd.DataFrame, baseline: str, by: Sequence[str] = ("label",), *,
                within: Sequence[str] | None = None) -> pd.DataFrame:
    """Means over seeds with 95 % t-intervals, and the ratio to the baseline label with its paired interval.

    `severity_ratio` and `request_rate_ratio` are ratios R of means; their intervals are those of the mean of
    y - R x over the mean of x, the linearised variance of a ratio of paired means (Cochran, Sampling Techniques,
    section 6.3). The baseline of a row has the same values of the columns `within`, by default of all of `by` but the
    label. Columns end in _low and _high.

    >>> runs = pd.DataFrame({"seed": [0, 1] * 2, "label": ["b", "b", "a", "a"],
    ...                      **{name: [2.0, 4.0, 1.0, 2.0] for name in MEASURES}, "elapsed_s": 0.0})
    >>> order_means(runs, "b").set_index("label")["severity_ratio"].tolist()
    [1.0, 0.5]
    """
    others = [name for name in by if name != "label"] if within is None else within
    rows = []
    for key, own in runs.groupby(list(by), sort=False):
        row = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        is_base = runs["label"] == baseline
        for name in others:
            is_base &= runs[name] == row[name]
        base = runs[is_base].set_index("seed")
        own = own.set_index("seed")
        row["n_seeds"] = len(own)
        values = own[[*MEASURES, "elapsed_s"]]
        half = t_half_width(values.to_numpy(np.float64))
        for name, mean, width in zip(values.columns, values.mean().tolist(), half.tolist(), strict=True):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = mean, mean - width, mean + width
        for name in ("severity", "request_rate"):
            reference = base[f"{name}_pct"]
            paired = reference.reindex(own.index).to_numpy(np.float64)
            mean = float(paired.mean())
            ratio = float(own[f"{name}_pct"].mean()) / mean if mean else np.nan
            width = float(t_half_width((own[f"{name}_pct"].to_numpy(np.float64) - ratio * paired)[:, None])[0])
            row[f"{name}_ratio"] = ratio
            row[f"{name}_ratio_low"] = ratio - width / mean if mean else np.nan
            row[f"{name}_ratio_high"] = ratio + width / mean if mean else np.nan
        rows.append(row)
    return pd.DataFrame(rows)
