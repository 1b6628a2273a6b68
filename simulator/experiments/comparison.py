"""Policies and predictors on one workload, side by side, against best-fit and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import pandas as pd

from sojourn.simulator.engine import Result, named_policy, simulate
from sojourn.simulator.measures import debt, gap_closed_pct, stranding
from sojourn.simulator.policies import Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.workloads import Workload

BASELINE = "best-fit"
Pairing = tuple[str | Policy, str, LifetimeSource | None]
"""Policy (its name, where it is registered), predictor's label, and its source (None for policies that use no
predictions)."""
Progress = Callable[[int, int, str], None]
"""Called before each replay with the number of pairings done, of all pairings, and the pairing's label."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of several pairings on one workload.

    table: one row per pairing, best-fit first, indexed by label; `policy`, `predictor`, `empty_hosts_pct`,
        `gain_pp` (empty hosts above best-fit's, percentage points, higher is better), `gap_closed_pct` (that
        gain as a share of best-fit's distance to the bound; NaN where there is none), `packing_density_pct`,
        `utilisation_cpu_cores_pct` and the like, `n_rejected`, `rejected_pct`, `n_rescores`, `decision_us`,
        `events_per_s`, the fields of `Debt`; where asked for, `stranded_cpu_cores_pct` and the like (see Stranding).
    results: by label, in the table's order.
    bound_empty_hosts_pct: see Result.
    warmup_s, description: the workload's.
    """

    table: pd.DataFrame
    results: dict[str, Result]
    bound_empty_hosts_pct: float
    warmup_s: int
    description: str


def compare(workload: Workload, pairings: Iterable[Pairing], *, progress: Progress | None = None,
            n_stranding_moments: int = 0) -> Comparison:
    """Every pairing replayed on the same workload; best-fit is always among them.

    pairings: (policy or its name, predictor label, source); a label pair may come once. Unknown policies are refused
        before anything runs.
    n_stranding_moments: at how many moments stranding is measured; 0 = not at all, for it takes longer than a replay.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [40, 90],
    ...                       "cpu_cores": [4.0, 4.0], "mem_gib": [8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> compare(workload, [("nilas", "oracle", sim.Oracle(workload))]).table["gain_pp"].to_dict()
    {'best-fit': 0.0, 'nilas (oracle)': 0.0}
    """
    listed = [(BASELINE, "", None), *(pairing for pairing in pairings if pairing[0] != BASELINE)]
    names = [named_policy(policy).name for policy, _, _ in listed]
    labels = [pairing_label(name, predictor) for name, (_, predictor, _) in zip(names, listed, strict=True)]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"pairings must differ in policy or predictor, got {twice!r} twice")
    results: dict[str, Result] = {}
    for done, (label, (policy, _, source)) in enumerate(zip(labels, listed, strict=True)):
        if progress is not None:
            progress(done, len(listed), label)
        results[label] = simulate(workload, policy, source)
    baseline, stranded = results[BASELINE], {}
    if n_stranding_moments:
        stranded = {label: stranding(workload, result, n_moments=n_stranding_moments).columns()
                    for label, result in results.items()}
    rows = [
        {"policy": name, "predictor": predictor, **_figures(results[label], baseline),
         **asdict(debt(workload, results[label])), **stranded.get(label, {})}
        for label, name, (_, predictor, _) in zip(labels, names, listed, strict=True)
    ]
    return Comparison(pd.DataFrame(rows, index=labels), results, baseline.bound_empty_hosts_pct,
                      workload.warmup_s, workload.description)


def pairing_label(policy: str, predictor: str) -> str:
    """How a pairing is called in tables and figures.

    >>> pairing_label("nilas", "oracle")
    'nilas (oracle)'
    """
    return f"{policy} ({predictor})" if predictor else policy


def _figures(result: Result, baseline: Result) -> dict[str, float]:
    metrics = result.metrics
    gain = metrics.empty_hosts_pct - baseline.metrics.empty_hosts_pct
    return {
        "empty_hosts_pct": metrics.empty_hosts_pct,
        "gain_pp": gain,
        "gap_closed_pct": gap_closed_pct(gain, baseline.metrics.empty_hosts_pct, baseline.bound_empty_hosts_pct),
        "packing_density_pct": metrics.packing_density_pct,
        **{f"utilisation_{name}_pct": share for name, share in sorted(metrics.utilisation_pct.items())},
        "n_rejected": metrics.n_rejected,
        "rejected_pct": metrics.rejected_pct,
        "n_rescores": metrics.n_rescores,
        "decision_us": result.decision_us,
        "events_per_s": result.events_per_s,
    }
