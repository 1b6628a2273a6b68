"""What the page of a comparison is drawn from: tables, time series, maps of hosts, explained placements.

A comparison's answer in hosts, host-hours and money, for a reader who knows the cluster and not the field.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from sojourn.simulator.experiments import (
    BASELINE,
    MORE_REJECTED,
    RIVALS,
    is_rejecting_more,
    knows_the_future,
    over_rival,
)
from sojourn.simulator.measures import HostMap, number_text

MIGRATE = "if requests can migrate live, replay five a day with --policy joint-exact --rectifier value:5,every=1."
"""The next step for who has replayed none."""
HOURS_A_MONTH = 730
"""Of the 8,760 of a year."""
_Row = Mapping[Hashable, Any]
"""Of a summary, with `is_more`: it rejects more than best-fit."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The hosts that were replayed, their number a mean over the seeds. cores_per_host: their mean.
    price_per_host_hour: of one, in the reader's currency; None = unknown. fewest, most: hosts of a seed, if seeds
    have different numbers of them.

    >>> Pool(200, 96.0).n_hosts
    200
    """

    n_hosts: int
    cores_per_host: float
    price_per_host_hour: float | None = None
    fewest: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        price = self.price_per_host_hour
        if price is not None and not 0 < price < math.inf:
            raise ValueError(f"price_per_host_hour must be finite and above 0, got {price!r}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a comparison answers, for a reader who knows the cluster and not the field.

    line: the answer in one line. label: the policy and predictor to try, "" = none. host_hours: of the hosts that are
    empty more, a month, with both ends of the 95 % interval (NaN after one replay); zeros if nothing gains; None if
    there is no answer or the number of hosts is unknown. why: sentences behind the line. next_step: a sentence.
    """

    line: str
    label: str
    host_hours: tuple[float, float, float] | None
    why: tuple[str, ...]
    next_step: str

    def worth(self, price_per_host_hour: float | None) -> str:
        """The answer in host-hours a month, and in money if there is a price.

        >>> Answer("7.0 hosts: try nilas", "nilas", (5110.0, 3650.0, 6570.0), (), "").worth(0.5)
        '5,110 host-hours (node-hours) a month, 95 % interval 3,650 to 6,570; in money 2,555 (1,825 to 3,285) a month \
at 0.5 per host-hour'
        """
        if self.host_hours is None:
            return ""
        month, low, high = self.host_hours
        if not self.label:
            return "0 host-hours (node-hours) a month, and no money at any price"
        text = f"{number_text(month, 0)} host-hours (node-hours) a month"
        if math.isfinite(low):
            text += f", 95 % interval {number_text(low, 0)} to {number_text(high, 0)}"
        if price_per_host_hour is None:
            return text
        return f"{text}; in money {self.money(price_per_host_hour)} a month at {price_per_host_hour:g} per host-hour"

    def money(self, price_per_host_hour: float) -> str:
        """What the host-hours of a month cost, with the interval in brackets."""
        month, low, high = (hours * price_per_host_hour for hours in self.host_hours or (0.0, math.nan, math.nan))
        interval = f" ({number_text(low, 0)} to {number_text(high, 0)})" if math.isfinite(low) else ""
        return f"{number_text(month, 0)}{interval}"


def answer(rows: pd.DataFrame, pool: Pool | None = None) -> Answer:
    """The answer of one workload and load: how many more hosts can be empty than under the rival, and by which policy.

    rows: of a summary, best-fit among them; means over time after the warm-up, intervals over the seeds. pool: its
    hosts; None = the answer is a share of the hosts.

    The rival is the best of RIVALS, which need no lifetimes (`over_rival`). Only what can be deployed
    counts. The best is the largest gain whose interval lies above 0 among those that reject no more than best-fit. A
    gain that rounds to 0.0 hosts (0.00 % of them) is no gain.
    """
    why = (_of_rivals(rows, pool),)
    stay = _instead(rows)
    rival, rows = over_rival(rows.assign(is_more=is_rejecting_more(rows)))
    others = rows[(rows["policy"] != rival) & rows["gain_pp"].notna()]
    if len(others) == 0:
        return Answer(f"No answer: only {BASELINE} was replayed", "", None, (),
                      "replay it beside other policies (--policy).")
    others = others.sort_values("gain_pp", ascending=False, kind="stable")
    is_known = others["predictor"].map(knows_the_future).astype(bool)
    known = _known(others[is_known].to_dict("records"), pool, rival)
    if is_known.all():
        gain = _gain_of(others.iloc[0].to_dict())[0]
        most = "0" if gain <= 0 or _is_zero(gain, pool) else _hosts(gain, pool)
        return Answer(f"At most {most} {'hosts' if pool else 'of the hosts'}, if lifetimes were known; no model was "
                      "replayed yet", "", None, (*why, *known),
                      "the same with --predictor hazard, a model of the trace's earlier part.")
    found = _deployable(others[~is_known].to_dict("records"), pool, why, known, rival, stay)
    if not found.label:
        found = replace(found, why=(*found.why, *_why_not(rows[rows["policy"] == rival], others[is_known],
                                                              others[~is_known & ~others["is_more"]])))
    if "n_rectified" in rows:  # with a rectifier, see `flows.compare.tables`
        return found
    return replace(found, next_step=f"{found.next_step.removesuffix('.')}; {MIGRATE}")


def in_hosts(rows: pd.DataFrame, pool: Pool) -> list[str]:
    """The same as sentences: the answer, its worth, why, and what to do next. None if only best-fit was replayed.

    >>> rows = pd.DataFrame({"policy": ["best-fit", "nilas"], "predictor": ["", "hazard"],
    ...                      "empty_hosts_pct": [30.0, 33.5], "bound_empty_hosts_pct": 36.0,
    ...                      "label": ["best-fit", "nilas (hazard)"],
    ...                      "gain_pp": [0.0, 3.5], "gain_low_pp": [0.0, 2.5], "gain_high_pp": [0.0, 4.5]})
    >>> for line in in_hosts(rows, Pool(200, 96.0, 1.5)):
    ...     print(line)
    7.0 hosts: try nilas (hazard) in place of best-fit.
    That is 5,110 host-hours (node-hours) a month, 95 % interval 3,650 to 6,570; in money 7,665 (5,475 to 9,855) a \
month at 1.5 per host-hour.
    Of 200 hosts of 96 cores, best-fit leaves 60 empty, as a mean over time. Perfect placement could empty at most 12 \
more.
    nilas (hazard) empties 7.0 more, 95 % interval 5.0 to 9.0.
    Next: try it on a part of your hosts; if requests can migrate live, replay five a day with --policy joint-exact \
--rectifier value:5,every=1.
    """
    if not ((rows["policy"] != BASELINE) & rows["gain_pp"].notna()).any():
        return []
    result = answer(rows, pool)
    worth = [f"That is {result.worth(pool.price_per_host_hour)}."] if result.host_hours is not None else []
    return [f"{result.line}.", *worth, *result.why, f"Next: {result.next_step}"]


def _instead(rows: pd.DataFrame) -> str:
    """What to do where lifetimes bring nothing: the rival, if its own gain over best-fit is not chance."""
    rival, _ = over_rival(rows)
    own = rows[rows["policy"] == rival].iloc[0]
    is_proven = rival != BASELINE and float(own["gain_low_pp"]) > 0.0
    return f"place by {rival}, which needs no lifetimes" if is_proven else f"keep {BASELINE}"


def _of_rivals(rows: pd.DataFrame, pool: Pool | None) -> str:
    """What the rival leaves empty, what the other rivals leave, and the bound."""
    rival, _ = over_rival(rows)
    own = rows[rows["policy"] == rival].iloc[0]
    empty = float(own["empty_hosts_pct"])
    others = rows[rows["policy"].isin(set(RIVALS) - {rival})]
    beside = "".join(f", {row['policy']} {_hosts(float(row['empty_hosts_pct']), pool)}"
                     for row in others.to_dict("records"))
    most = float(own.get("bound_empty_hosts_pct", math.nan)) - empty
    bound = f"{beside}."
    if math.isfinite(most):
        bound += f" Perfect placement could empty at most {_hosts(max(most, 0.0), pool)} more."
    if pool is None:
        return f"{rival} leaves {_hosts(empty, pool)} of the hosts empty, as a mean over time{bound}"
    seeds = "" if pool.fewest == pool.most else f" (mean of the seeds, which have {pool.fewest:,} to {pool.most:,})"
    noun = "host" if pool.n_hosts == 1 else "hosts"
    return (f"Of {pool.n_hosts:,} {noun} of {pool.cores_per_host:g} cores{seeds}, {rival} leaves "
            f"{_hosts(empty, pool)} empty, as a mean over time{bound}")


LITTLE_LEFT = 0.95
"""A rival that empties this share of what can be empty leaves little to gain."""


def _why_not(rivals: pd.DataFrame, known: pd.DataFrame, learnt: pd.DataFrame) -> list[str]:
    """Why nothing is gained: the rival is dense, or the ends of requests are not predicted well enough."""
    rival = rivals.iloc[0]
    empty, most = float(rival["empty_hosts_pct"]), float(rival.get("bound_empty_hosts_pct", math.nan))
    if most > 0.0 and empty >= LITTLE_LEFT * most:
        return [f"Of the hosts that could be empty, {rival['policy']} already leaves {100.0 * empty / most:.0f} % so: "
                "there is little to gain."]
    of_future, gain = known["gain_pp"].max(), learnt["gain_pp"].max()
    if of_future > 0.0 and gain < of_future:
        return [f"Predictions bring {max(100.0 * gain / of_future, 0.0):.0f} % of what the trace's own future would: "
                "they do not tell well enough when requests end."]
    return []


def _known(ranked: Sequence[_Row], pool: Pool | None, rival: str) -> list[str]:
    if not ranked:
        return []
    gain, low, high = _gain_of(ranked[0])
    if gain <= 0:
        return [f"Nothing empties more than {rival} with the trace's own future known, either."]
    amount = f"less than {_least(pool)}" if _is_zero(gain, pool) else _hosts(gain, pool)
    between = "" if _is_zero(gain, pool) else _between(low, high, pool)
    return [f"With the trace's own future known, {ranked[0]['label']} would empty {amount} more{between}."]


def _deployable(ranked: Sequence[_Row], pool: Pool | None, why: tuple[str, ...], known: Sequence[str],
                rival: str, stay: str) -> Answer:
    """ranked: what can be deployed, the largest gain first. stay: what to do if nothing of it gains."""
    fair = [row for row in ranked if not row["is_more"]]
    proven = [row for row in fair if _gain_of(row)[1] > 0 and not _is_zero(_gain_of(row)[0], pool)]
    best = next(iter(proven or fair or ranked))
    label = str(best["label"])
    gain, low, high = _gain_of(best)
    between = _between(low, high, pool)
    hours = None if pool is None else HOURS_A_MONTH * pool.n_hosts / 100.0
    nothing = Answer(f"0 hosts: {stay}", "", None if hours is None else (0.0, 0.0, 0.0), why, f"{stay}.")
    if gain <= 0:
        rule = f" and rejects no more than {BASELINE}" if any(row["is_more"] for row in ranked) else ""
        said = f"Nothing that can be deployed today{rule} empties more hosts than {rival}."
        return replace(nothing, why=(*why, said, *known))
    if best["is_more"]:
        said = (f"{label} emptied {_hosts(gain, pool)} more{between}, but it {MORE_REJECTED}: part of the empty "
                "hosts may be work that was not taken.")
        return replace(nothing, why=(*why, said, *known))
    if _is_zero(gain, pool):
        said = f"The best that can be deployed, {label}, empties less than {_least(pool)} more."
        return replace(nothing, why=(*why, said, *known))
    if low <= 0:
        said = (f"Nothing that can be deployed today is proven better than {rival}: the best, {label}, emptied "
                f"{_hosts(gain, pool)} more{between}, which may be chance.")
        more = f"{stay}, or replay more seeds (--n-seeds) for a narrower interval."
        return replace(nothing, why=(*why, said, *known), next_step=more)
    amount = f"{_hosts(gain, pool)} {'hosts' if pool else 'of the hosts'}"
    month = None if hours is None else (gain * hours, low * hours, high * hours)
    said = f"{label} empties {_hosts(gain, pool)} more{'' if rival == BASELINE else f' than {rival}'}{between}."
    if not math.isfinite(low):
        return Answer(f"{amount} in one replay: replay more seeds before you try {label}", label, month,
                      (*why, said, *known), "replay more seeds (--n-seeds): one tells nothing of chance.")
    return Answer(f"{amount}: try {label} in place of {rival}", label, month, (*why, said, *known),
                  "try it on a part of your hosts.")


def _gain_of(row: _Row) -> tuple[float, float, float]:
    return float(row["gain_pp"]), float(row["gain_low_pp"]), float(row["gain_high_pp"])


def _least(pool: Pool | None) -> str:
    """The smallest amount that does not round to zero."""
    return "0.05 of a host" if pool else "0.005 % of the hosts"


def _is_zero(share_pct: float, pool: Pool | None) -> bool:
    return float(_hosts(share_pct, pool).removesuffix(" %").replace(",", "")) == 0.0


def _hosts(share_pct: float, pool: Pool | None) -> str:
    """A share of the pool as a number of hosts: whole from 10 on, tenths below. Without a pool, the share."""
    if pool is None:
        return f"{number_text(share_pct)} %"
    hosts = share_pct / 100.0 * pool.n_hosts
    return number_text(hosts, 0 if abs(hosts) >= 10.0 else 1)


def _between(low: float, high: float, pool: Pool | None) -> str:
    if not math.isfinite(low):
        return ""
    return f", 95 % interval {_hosts(low, pool)} to {_hosts(high, pool)}"


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """Policies and predictors on the same workloads, as a page shows them.

    title: a line. description: the main workload's, one line.
    cells: one row per replay, in this order: `workload`, `load`, `seed`, `policy`, `predictor` ("" = none), `label`,
        then its metrics (`empty_hosts_pct`, `bound_empty_hosts_pct`, `gain_pp`, `packing_density_pct`,
        `rejected_pct`, ...).
    summary: one row per workload, load, policy and predictor: `label`, `n_seeds`, the mean of each metric,
        `gain_pp` with `gain_low_pp` and `gain_high_pp` (empty hosts over best-fit's of the same seed, percentage
        points, higher is better; paired 95 % t-interval over the seeds, NaN for one seed), `rival` and the same over it
        as `over_rival_pp` (may be missing), `gap_closed_pct` (mean gain as a share of best-fit's mean distance to the
        bound). The gain, its interval and the gap are of the `n_pairs` seeds at which best-fit was replayed too, the
        other means of all `n_seeds`.
    series: by label, of the first seed and the main load: `time_s`, `empty_hosts_pct`, `bound_empty_hosts_pct`;
        if usage is known also `violated_hosts_pct` and `excess_pct` (see `measures.usage_series`).
    host_maps: by label, of the same replays; may be empty.
    decisions: explained placements, one mapping each; may be empty. `policy`, `predictor`, `request` (its plain
        values), `time_s`, `chosen` (host id or None), `columns` (a `name` and a `meaning` per scorer, in order),
        `hosts` (each host's id, why it is excluded or "", then its scores, lower is better).
    warmup_s: seconds at the start of the series that metrics leave out.
    main_load: the load of the series and of what is shown first; None = the first in `summary`.
    migrations: by label, of the same replays, those of a rectifier as `Result.migrations` with ids as text; may be
        empty.
    pool: its hosts, in which the page gives the answer; None = as a share of the hosts.

    >>> nothing = pd.DataFrame()
    >>> ComparisonData("two policies", "none", nothing, nothing, {}, {}, [], 0).title
    'two policies'
    """

    title: str
    description: str
    cells: pd.DataFrame
    summary: pd.DataFrame
    series: Mapping[str, pd.DataFrame]
    host_maps: Mapping[str, HostMap]
    decisions: list[dict[str, Any]]
    warmup_s: int
    main_load: float | None = None
    pool: Pool | None = None
    migrations: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def at_main_load(self, workload: str | None = None) -> pd.DataFrame:
        """Rows of `summary` of one workload (None = the first) at the main load, or the first load that it has.

        >>> summary = pd.DataFrame({"workload": ["trace"] * 2, "load": [0.6, 0.8], "gain_pp": [1.0, 2.0]})
        >>> data = ComparisonData("two loads", "", summary, summary, {}, {}, [], 0, main_load=0.8)
        >>> data.at_main_load()["gain_pp"].tolist()
        [2.0]
        """
        rows = self.summary[self.summary["workload"] == (workload or self.summary["workload"].iloc[0])]
        loads = rows["load"].tolist()
        return rows[rows["load"] == (self.main_load if self.main_load in loads else loads[0])]
