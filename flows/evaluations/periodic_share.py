"""Placement by usage when only some requests are modelled as periodic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from sojourn.flows.evaluations.colocation_runs import Setting
from sojourn.flows.placement.usage_case import UsageCase
from sojourn.simulator.colocation import Colocation, place, violations

SHARES_PCT = tuple(range(0, 101, 10))
POLICIES = ("period-aware", "squares")


def shares_of_periodic(case: UsageCase, waves: np.ndarray, strength: np.ndarray, setting: Setting,
                       seeds: Sequence[int], report: Callable[[int, int], None] | None = None) -> pd.DataFrame:
    """One row for each seed, share, policy and judge: `share_pct`, `judged_by` (`real use` or `waves`), measures.

    waves: float32 (n, n_slots), of all requests. strength: float64 (n,). The share with the greatest strength keeps its
    wave, the others are modelled by its peak; at 0 % `period-aware` is `borg-peak`, and its rows are the baseline.
    """
    n = min(setting.n_requests, len(case))
    rows = []
    for done, seed in enumerate(seeds):
        own = np.sort(np.random.default_rng([0, 1]).choice(len(case), n, replace=False))
        day, wave = case.day[own], waves[own]
        rank = np.argsort(np.argsort(-strength[own], kind="stable"))
        peak = np.broadcast_to(wave.max(axis=1, keepdims=True), wave.shape)
        order, capacity = np.random.default_rng([seed, 2]).permutation(n), setting.capacity(day)
        by_wave = Colocation(wave, setting.n_hosts_full, capacity)
        for share in SHARES_PCT:
            model = np.where((rank < n * share / 100)[:, None], wave, peak)
            colocation = Colocation(day, setting.n_hosts_full, capacity, model=model)
            for policy in POLICIES:
                hosts = place(colocation, policy, order)
                for judge, used in (("real use", colocation.used), ("waves", by_wave.used)):
                    found = violations(used, hosts, setting.n_hosts_full)
                    rows.append({"seed": seed, "share_pct": share, "policy": policy, "judged_by": judge,
                                 "label": f"{policy}, {share} %", **asdict(found), "elapsed_s": 0.0})
        if report is not None:
            report(done + 1, len(seeds))
    return pd.DataFrame(rows)
