"""Policies and predictors on one workload, side by side, against best-fit and the bound.

Tables of gains have caveats: predictors that can't be deployed, more rejections than best-fit, few
hosts or seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from sojourn.simulator.engine import Result, named_policy, simulate
from sojourn.simulator.measures import debt, gap_closed_pct, stranding
from sojourn.simulator.policies import Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.workloads import Workload

BASELINE = "best-fit"
RIVALS = (BASELINE, "first-fit", "first-in-use")
"""Policies without lifetimes. What lifetimes bring is a gain over the best of them on the trace."""
Pairing = tuple[str | Policy, str, LifetimeSource | None]
"""Policy (or a registered one's name), the predictor's label, and its source (None without one)."""
Progress = Callable[[int, int, str], None]
"""Called before each replay with the number of pairings done, of all pairings, and the pairing's label."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of several pairings on one workload.

    table: one row per pairing, best-fit first, indexed by label; `policy`, `predictor`,
        `empty_hosts_pct`, `gain_pp` (empty hosts above best-fit's, percentage points, higher is
        better), `gap_closed_pct` (that gain as a share of best-fit's distance to the bound; NaN if
        that is 0), `packing_density_pct`, `utilisation_cpu_cores_pct` and the like, `n_rejected`,
        `rejected_pct`, `n_rescores`, `decision_us`, `events_per_s`, the fields of `Debt`; with
        n_stranding_moments also `stranded_cpu_cores_pct` and the like (see Stranding).
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

    pairings: (policy or its name, predictor label, source), without duplicates of policy and label.
        Unknown policies are refused before the first replay.
    n_stranding_moments: number of times at which stranding is measured; 0 = none, as it is slow.

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
    """The name of a pairing in tables and figures.

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


FEW_HOSTS, FEW_SEEDS = 30, 5
"""Below these a figure has a caveat: one host is more than 3 % of the pool, and an interval over
few seeds is wide and assumes that they are normally distributed."""
MORE_REJECTED = f"rejects more than {BASELINE}"
_KNOWING = ("oracle", "noise", "recall", "truth")
"""Predictors made from a trace's future, or from its generator; they can't be deployed."""
_SAME = ("workload", "load", "seed")


def knows_the_future(predictor: str) -> bool:
    """Whether a predictor can't be deployed; "" is a policy without one.

    >>> [knows_the_future(text) for text in ("", "hazard", "one-shot:oracle", "noise:1", "bundle:truth")]
    [False, False, True, True, False]
    """
    return predictor.removeprefix("one-shot:").replace(" ", ":").split(":")[0] in _KNOWING


def is_rejecting_more(rows: pd.DataFrame) -> pd.Series:
    """Whether each row rejects more than best-fit on the same workload, load and seed; bool.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "a", "b"], "rejected_pct": [0.5, 0.5, 0.6]})
    >>> is_rejecting_more(rows).tolist()
    [False, False, True]
    """
    if "rejected_pct" not in rows:
        return pd.Series(False, rows.index)
    keys = [name for name in _SAME if name in rows]
    baseline = rows["rejected_pct"].astype(float).where(rows["policy"] == BASELINE)
    of_baseline = baseline.groupby([rows[name] for name in keys]).transform("first") if keys else baseline.max()
    return rows["rejected_pct"].astype(float) > of_baseline


def best_rival(empty: pd.Series, rejected: pd.Series) -> str:
    """Of RIVALS, the one with most empty hosts that rejects no more than best-fit, which must be there.

    empty, rejected: by policy, as means over the same replays; gains over best-fit do for empty hosts, too.

    >>> best_rival(pd.Series([20.0, 25.0, 23.0], RIVALS), pd.Series([0.1, 0.2, 0.1], RIVALS))
    'first-in-use'
    """
    fair = [name for name in RIVALS if name in empty and rejected[name] <= rejected[BASELINE]]
    return max(fair, key=lambda name: float(empty[name]), default=BASELINE)


def over_rival(rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The rival, and the rows with their gains over it in place of those over best-fit: what lifetimes bring.

    rows: one workload and load, with `rival` and `over_rival_pp` (see `flows.compare.tables`); without them, or if
    nothing else was replayed, the rival is best-fit, and the rows are as they were. The other RIVALS are left out.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "first-fit", "a"], "gain_pp": [0.0, 1.0, 3.0],
    ...                      "rival": "first-fit", "over_rival_pp": [-1.0, 0.0, 2.0]})
    >>> rival, others = over_rival(rows)
    >>> rival, others["policy"].tolist(), others["gain_pp"].tolist()
    ('first-fit', ['first-fit', 'a'], [0.0, 2.0])
    """
    is_other = ~rows["policy"].isin(RIVALS)
    if "rival" not in rows or not is_other.any():
        return BASELINE, rows
    rival = str(rows["rival"].iloc[0])
    over = {f"gain{end}_pp": rows[f"over_rival{end}_pp"] for end in ("", "_low", "_high") if f"gain{end}_pp" in rows}
    return rival, rows.assign(**over)[is_other | (rows["policy"] == rival)]


def rejection_words(labels: Sequence[str]) -> str:
    """The sentence about pairings that reject more than best-fit; "" for none.

    >>> rejection_words(["nilas (km)"])
    'More requests rejected than by best-fit: nilas (km). Part of the empty hosts may be work that was not taken.'
    """
    if not labels:
        return ""
    return (f"More requests rejected than by {BASELINE}: {', '.join(labels)}. Part of the empty hosts may be work that "
            "was not taken.")


def deployable_words(rows: pd.DataFrame) -> str:
    """The sentence if no deployable pairing beats the rival (`over_rival`), or none significantly; else "".

    rows: one workload and load; with `gain_low_pp` if there are several seeds.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "a", "b"], "predictor": ["", "km", "oracle"],
    ...                      "gain_pp": [0.0, 0.2, 3.0], "gain_low_pp": [0.0, -0.1, 2.0]})
    >>> deployable_words(rows)
    'Nothing deployable is significantly better than best-fit.'
    """
    rival, rows = over_rival(rows)
    deployable = rows[(rows["policy"] != rival) & ~rows["predictor"].map(knows_the_future).astype(bool)]
    if len(deployable) == 0:
        return ""
    if (deployable["gain_pp"] <= 0).all():
        return f"Nothing deployable beats {rival}."
    low_pp = deployable["gain_low_pp"].astype(float) if "gain_low_pp" in deployable else pd.Series(dtype=float)
    is_level = low_pp.notna().any() and not (low_pp > 0).any()
    return f"Nothing deployable is significantly better than {rival}." if is_level else ""


def evidence_words(n_hosts: float | None, n_seeds: int) -> str:
    """The sentence about few hosts or seeds; "" if there are enough. n_hosts: None = not known.

    >>> evidence_words(14.0, 3)
    'Only 14 hosts and 3 seeds: differences of a point or two may be chance.'
    >>> evidence_words(871.0, 5)
    ''
    """
    few = [f"{n_hosts:,.0f} host{'s' * (n_hosts != 1)}"] if n_hosts is not None and n_hosts < FEW_HOSTS else []
    few += [f"{n_seeds} seed{'s' * (n_seeds != 1)}"] if n_seeds < FEW_SEEDS else []
    return f"Only {' and '.join(few)}: differences of a point or two may be chance." if few else ""


def evidence_of(rows: pd.DataFrame) -> str:
    """`evidence_words` for rows of one workload and load; "" if they have no `n_seeds`."""
    if "n_seeds" not in rows:
        return ""
    n_hosts = float(rows["n_hosts"].min()) if "n_hosts" in rows else math.nan
    return evidence_words(None if math.isnan(n_hosts) else n_hosts, int(rows["n_seeds"].min()))


def caveats(rows: pd.DataFrame) -> list[str]:
    """All sentences below a table. rows: one workload and load, with policy, predictor and gain."""
    is_more = is_rejecting_more(rows)
    labels = [pairing_label(*pair) for pair in rows.loc[is_more, ["policy", "predictor"]].itertuples(index=False)]
    return [words for words in (deployable_words(rows), rejection_words(labels), evidence_of(rows)) if words]
