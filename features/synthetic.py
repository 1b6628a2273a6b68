"""The embedded synthetic trace: seeded, vectorised, calibrated to published VM lifetimes.

`LifetimeMixtures` are the distributions of its lifetimes: mixtures of two lognormals, in closed
form. `Drift` is a known change of its lifetimes from some time on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.describe import peak_demand
from sojourn.features.trace import DAY_S, Roles, Trace

WEEK_S = 7 * DAY_S
START_UNIX_S = 1_704_067_200
"""Time 0: Monday 2024-01-01 00:00 UTC."""
SHORT, MIXED, LONG, BURST = range(4)
KINDS = ("short", "mixed", "long", "burst")
_GRID_S = 300
_CATEGORIES = pd.Index(["delay-insensitive", "interactive", "unknown"])
_GIB_PER_CORE = np.array([2.0, 4.0, 8.0])


@dataclass(frozen=True, slots=True)
class SyntheticParameters:
    """All constants of the generator; constants per kind are in the order short, mixed, long, burst.

    A deployment is of one kind. Short requests live minutes, long ones days; a mixed one ends
    within minutes or lives for hours to days, and its features do not show which; a burst starts
    many requests at once, most of which live for hours and some for days.

    kind_shares: of the requests that arrive in the window; with a last share of 0 there are no bursts.
    median_s, between_spread, within_spread: lognormal lifetimes; the spreads (log units) are between
        deployments and between the requests of one.
    mixed_short_median_s, mixed_long_beta: the short mode of mixed requests, and the beta
    distribution of the share of the other mode over deployments.
    burst_stay_share, burst_stay_median_s: the requests of a burst that stay.
    habit_kept: share of deployments with their subscription's usual kind.
    deployment_life_days: mean of the exponential time in which a deployment creates requests.
    drift_per_week, change_share: spread of the slopes of a deployment's log lifetime, and the share
    of deployments with one sudden change.
    """

    kind_shares: tuple[float, float, float, float] = (0.712, 0.24, 0.014, 0.034)
    median_s: tuple[float, float, float, float] = (380.0, 144_000.0, 259_200.0, 21_600.0)
    between_spread: tuple[float, float, float, float] = (0.65, 0.6, 0.6, 0.4)
    within_spread: tuple[float, float, float, float] = (0.55, 0.7, 0.7, 0.4)
    short_median_cap_s: float = 1_200.0
    mixed_short_median_s: float = 330.0
    mixed_long_beta: tuple[float, float] = (2.0, 6.0)
    burst_stay_share: float = 0.1
    burst_stay_median_s: float = 172_800.0
    requests_per_deployment: float = 40.0
    deployments_per_subscription: float = 4.0
    habit_kept: float = 0.75
    deployment_life_days: float = 30.0
    popularity_spread: float = 0.8
    drift_per_week: float = 0.12
    change_share: float = 0.15
    diurnal_amplitude: float = 0.45
    diurnal_peak_hour: float = 14.0
    weekend_level: float = 0.6
    bursts_per_day: float = 1.5
    burst_length_s: float = 5_400.0
    burst_size_spread: float = 0.4
    cores: tuple[int, ...] = (1, 2, 4, 8, 16)
    core_shares: tuple[tuple[float, ...], ...] = (
        (0.35, 0.40, 0.18, 0.06, 0.01), (0.30, 0.45, 0.20, 0.05, 0.00),
        (0.25, 0.40, 0.25, 0.10, 0.00), (0.00, 0.20, 0.40, 0.30, 0.10))
    shape_kept: float = 0.8
    memory_shares: tuple[float, float, float] = (0.35, 0.5, 0.15)
    n_zones: int = 3
    unknown_start_share: float = 0.02
    warm_days: float = 28.0
    host_cores: float = 96.0
    host_mem_gib: float = 384.0
    host_load: float = 0.8


def synthesize(n_requests: int = 60_000, *, seed: int = 0, days: float = 28.0,
               parameters: SyntheticParameters | None = None, drifts: tuple[Drift, ...] = ()) -> Trace:
    """A trace of exactly `n_requests` requests over `days` days; the same arguments give the same bytes.

    About 1 % of the requests run at time 0 (negative arrival, a few of unknown start); those that outlive
    the horizon are censored. Owners: subscription, deployment (a key within it); categories: zone,
    vm_category; number: disk_gib. Hosts: of one size, as many that the peak demand is `host_load`
    of the capacity. drifts: changes of the lifetimes; before the first one the trace is the same as
    without. ValueError for n_requests below 1, days below 1, a negative seed.

    >>> trace = synthesize(2000, seed=7)
    >>> len(trace), trace.span_s, trace.roles.owners
    (2000, 2419200, ('subscription', 'deployment'))
    >>> bool((trace.lifetime_s() < 3600).mean() > 0.8)
    True
    """
    return synthesize_with_truth(n_requests, seed=seed, days=days, parameters=parameters, drifts=drifts)[0]


def synthesize_with_truth(n_requests: int = 60_000, *, seed: int = 0, days: float = 28.0,
                          parameters: SyntheticParameters | None = None,
                          drifts: tuple[Drift, ...] = ()) -> tuple[Trace, LifetimeMixtures]:
    """The trace of `synthesize`, and the distribution of each request's lifetime.

    It is all that can be known at a request's creation: its deployment's habit at that time and, for a burst, the
    lifetimes of its requests. The mode of a mixed or burst request is random, and so is its time. The lifetime of a
    request that runs at 0 is from this distribution above its age.

    >>> trace, truth = synthesize_with_truth(2000, seed=7)
    >>> within_an_hour = trace.lifetime_s() < 3600
    >>> round(float(within_an_hour.mean()), 3), round(float(1 - truth.survival(3600.0).mean()), 3)
    (0.882, 0.88)
    """
    if n_requests < 1:
        raise ValueError(f"n_requests must be at least 1, got {n_requests!r}")
    if not 1 <= days <= 3650:
        raise ValueError(f"days must be between 1 and 3650, got {days!r}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed!r}")
    settings = SyntheticParameters() if parameters is None else parameters
    horizon_s = int(days * DAY_S)
    warm_s = int(settings.warm_days * DAY_S)
    rng = np.random.default_rng(seed)
    table, truth = _requests(rng, settings, n_requests, warm_s, horizon_s, drifts)
    # More requests than needed were drawn; a random sample keeps the distributions.
    sample = np.sort(rng.choice(len(table), n_requests, replace=False))
    table, truth = table.iloc[sample].reset_index(drop=True), truth.take(sample)
    table.insert(0, "request_id", np.arange(n_requests, dtype=np.int64))
    for name in ("subscription", "deployment", "zone", "vm_category"):
        table[name] = table[name].cat.remove_unused_categories()
    roles = Roles(("subscription", "deployment"), ("zone", "vm_category"), ("disk_gib",))
    meta = {"source": "synthetic", "licence": "Apache-2.0", "seed": seed,
            "parameters": asdict(settings)}
    if drifts:
        meta["drifts"] = [asdict(drift) for drift in drifts]
    trace = Trace(table, horizon_s, roles, meta=meta).moved(START_UNIX_S, START_UNIX_S)
    # A trace sorts unknown starts first; ids are in the former order.
    truth = truth.take(trace.requests["request_id"].to_numpy())
    return replace(trace, hosts=_hosts(trace, settings)), truth


def _requests(rng: np.random.Generator, settings: SyntheticParameters, n: int, warm_s: int, horizon_s: int,
              drifts: tuple[Drift, ...]) -> tuple[pd.DataFrame, LifetimeMixtures]:
    """At least `n` requests that run in [0, horizon): `n` arrivals there and those that run at 0; and their truth."""
    shares = np.array(settings.kind_shares) / np.sum(settings.kind_shares)
    owners = _deployments(rng, settings, int(n * (1 + warm_s / horizon_s)), warm_s, horizon_s)
    intensity = _intensity(settings, warm_s, horizon_s)
    parts = []
    # Separately before and after 0, so that the trace has the exact share of each kind.
    for low_s, high_s in ((-warm_s, 0), (0, horizon_s)):
        total = round(n * (high_s - low_s) / horizon_s)
        counts = np.diff(np.floor(np.concatenate([[0.0], shares.cumsum()]) * total + 0.5).astype(np.int64))
        for kind in (SHORT, MIXED, LONG):
            deployment, at_s = _steady(rng, owners, kind, int(counts[kind]), intensity, low_s, high_s)
            parts.append((deployment, at_s, np.zeros(len(deployment))))
        parts.append(_bursts(rng, settings, owners, int(counts[BURST]), intensity, low_s, high_s))
    owner, arrival, level = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if new := [drift for drift in drifts if drift.shape == "owners"]:
        owners, owner = _with_new_owners(rng.spawn(1)[0], settings, owners, owner, arrival, new)
    truth = _mixtures(settings, owners, owner, arrival, level)
    if drifts:
        truth = LifetimeMixtures(truth.weight, truth.log_median + log_factor(drifts, arrival)[:, None], truth.spread)
    lifetime = _lifetimes(rng, truth, owners["kind"].to_numpy()[owner])
    start_s = np.floor(arrival).astype(np.int64)
    end_s = start_s + lifetime
    is_kept = (end_s > 0) & (start_s < horizon_s)
    order = np.flatnonzero(is_kept)
    order = order[np.argsort(start_s[order], kind="stable")]
    owner, start_s, end_s = owner[order], start_s[order], end_s[order]
    is_unknown = (start_s < 0) & (rng.random(len(order)) < settings.unknown_start_share)
    cores, memory = _shapes(rng, settings, owners, owner)
    zone = np.where(rng.random(len(order)) < 0.9, owners["zone"].to_numpy()[owner],
                    rng.integers(settings.n_zones, size=len(order)))
    table = pd.DataFrame({
        "arrival_s": pd.Series(start_s, dtype="Int64").mask(is_unknown),
        "departure_s": pd.Series(end_s, dtype="Int64").mask(end_s > horizon_s),
        "cpu_cores": cores,
        "mem_gib": memory,
        "subscription": _categorical("s", owners["subscription"].to_numpy()[owner]),
        "deployment": _categorical("d", owner),
        "zone": _categorical("z", zone),
        "vm_category": pd.Categorical.from_codes(owners["category"].to_numpy()[owner], _CATEGORIES),
        "disk_gib": owners["disk_gib"].to_numpy()[owner],
    })
    return table, truth.take(order)


def _deployments(rng: np.random.Generator, settings: SyntheticParameters, n: int, warm_s: int,
                 horizon_s: int) -> pd.DataFrame:
    """One row per deployment: its kind, active time, popularity and habits."""
    n_deployments = max(8, round(n / settings.requests_per_deployment))
    n_subscriptions = max(2, round(n_deployments / settings.deployments_per_subscription))
    subscription = rng.integers(n_subscriptions, size=n_deployments)
    shares = _deployment_shares(settings)
    usual = rng.choice(len(KINDS), size=n_subscriptions, p=shares)
    random_kind = rng.choice(len(KINDS), size=n_deployments, p=shares)
    kind = np.where(rng.random(n_deployments) < settings.habit_kept, usual[subscription], random_kind)
    kind[:len(KINDS)] = np.arange(len(KINDS))
    life_s = settings.deployment_life_days * DAY_S
    # Starts are uniform from three lifetimes before 0, so that at any time as many end as begin.
    born_s = rng.uniform(-warm_s - 3 * life_s, horizon_s, n_deployments)
    ends_s = born_s + rng.exponential(life_s, n_deployments)
    born_s[:len(KINDS)], ends_s[:len(KINDS)] = -warm_s, horizon_s
    spread = np.array(settings.between_spread)[kind]
    level = spread * (0.7 * rng.standard_normal(n_subscriptions)[subscription]
                      + np.sqrt(1 - 0.7**2) * rng.standard_normal(n_deployments))
    is_changing = rng.random(n_deployments) < settings.change_share
    likely = np.array([[0.6, 0.1, 0.3], [0.3, 0.3, 0.4], [0.1, 0.6, 0.3], [0.5, 0.1, 0.4]]).cumsum(axis=1)
    core_shares = np.array(settings.core_shares).cumsum(axis=1)[kind]
    return pd.DataFrame({
        "subscription": subscription,
        "kind": kind,
        "from_s": np.maximum(born_s, -warm_s),
        "to_s": np.minimum(ends_s, horizon_s),
        "weight": np.exp(settings.popularity_spread * rng.standard_normal(n_deployments)),
        "level": level,
        "drift": settings.drift_per_week * rng.standard_normal(n_deployments),
        "change_s": np.where(is_changing, rng.uniform(-warm_s, horizon_s, n_deployments), np.inf),
        "level_after": level + spread * rng.standard_normal(n_deployments),
        "long_share": rng.beta(*settings.mixed_long_beta, n_deployments),
        "long_share_after": rng.beta(*settings.mixed_long_beta, n_deployments),
        "idx_cores": _draw(rng, core_shares),
        "idx_memory": rng.choice(3, size=n_deployments, p=settings.memory_shares),
        "zone": rng.integers(settings.n_zones, size=n_subscriptions)[subscription],
        "category": _draw(rng, likely[kind]),
        "disk_gib": np.exp2(rng.integers(4, 9, size=n_deployments) + 2 * (kind == LONG)).astype(np.float64),
    })


def _draw(rng: np.random.Generator, cumulative: np.ndarray) -> np.ndarray:
    """One index per row of `cumulative` (shape (n, k), rows rising to 1), int64, shape (n,)."""
    index = (rng.random(len(cumulative))[:, None] > cumulative).sum(axis=1)
    return np.asarray(index.clip(max=cumulative.shape[1] - 1), np.int64)


def _deployment_shares(settings: SyntheticParameters) -> np.ndarray:
    """Share of deployments per kind, from the square root of the requests' shares, so that rare
    kinds have owners, too."""
    shares = np.sqrt(np.array(settings.kind_shares))
    return np.asarray(shares / shares.sum())


def _intensity(settings: SyntheticParameters, warm_s: int, horizon_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Times (s) and the cumulative demand up to each, from 0 to 1: daily and weekly waves."""
    edge_s = np.arange(-warm_s, horizon_s + _GRID_S, _GRID_S, dtype=np.float64)
    middle_s = edge_s[:-1] + _GRID_S / 2
    hour = (middle_s % DAY_S) / 3600
    wave = 1 + settings.diurnal_amplitude * np.cos((hour - settings.diurnal_peak_hour) * (2 * np.pi / 24))
    wave *= np.where(middle_s % WEEK_S >= 5 * DAY_S, settings.weekend_level, 1.0)
    total = np.concatenate([[0.0], wave.cumsum()])
    return edge_s, total / total[-1]


def _steady(rng: np.random.Generator, owners: pd.DataFrame, kind: int, n: int,
            intensity: tuple[np.ndarray, np.ndarray], low_s: int,
            high_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Deployment (row of `owners`) and arrival (s) of `n` requests of one kind that arrive in [low, high).

    Each arrives while its deployment is active.
    """
    edge_s, total = intensity
    from_s = owners["from_s"].clip(lower=low_s).to_numpy()
    to_s = owners["to_s"].clip(upper=high_s).to_numpy()
    of_kind = np.flatnonzero((owners["kind"].to_numpy() == kind) & (to_s > from_s))
    low = np.interp(from_s[of_kind], edge_s, total)
    high = np.interp(to_s[of_kind], edge_s, total)
    weight = owners["weight"].to_numpy()[of_kind] * (high - low)
    pick = rng.choice(len(of_kind), size=n, p=weight / weight.sum())
    at = low[pick] + rng.random(n) * (high - low)[pick]
    return of_kind[pick], np.interp(at, total, edge_s)


def _bursts(rng: np.random.Generator, settings: SyntheticParameters, owners: pd.DataFrame, n: int,
            intensity: tuple[np.ndarray, np.ndarray], low_s: int,
            high_s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deployment, arrival (s) and its burst's log level of `n` requests; bursts begin in [low, high)."""
    n_bursts = max(1, round(settings.bursts_per_day * (high_s - low_s) / DAY_S))
    deployment, begin_s = _steady(rng, owners, BURST, n_bursts, intensity, low_s, high_s)
    size = np.exp(settings.burst_size_spread * rng.standard_normal(n_bursts))
    burst = rng.choice(n_bursts, size=n, p=size / size.sum())
    arrival_s = begin_s[burst] + settings.burst_length_s * rng.beta(2, 3, n)
    level = 0.3 * rng.standard_normal(n_bursts)
    return deployment[burst], np.minimum(arrival_s, high_s - 1.0), level[burst]


def _with_new_owners(rng: np.random.Generator, settings: SyntheticParameters, owners: pd.DataFrame,
                     owner: np.ndarray, arrival_s: np.ndarray, drifts: list[Drift]) -> tuple[pd.DataFrame, np.ndarray]:
    """Deployments including new ones of the drifts, and the deployment of each request."""
    moved = owner.copy()
    for drift in drifts:
        is_moved = (owners["kind"].to_numpy()[moved] == SHORT) & (arrival_s >= drift.from_day * DAY_S)
        is_moved &= rng.random(len(moved)) < drift.share
        n_new = max(4, round(is_moved.sum() / settings.requests_per_deployment))
        fresh = owners.iloc[rng.integers(len(owners), size=n_new)].reset_index(drop=True)
        fresh["subscription"] = owners["subscription"].max() + 1 + np.arange(n_new) // 4
        fresh["kind"], fresh["from_s"], fresh["drift"], fresh["change_s"] = MIXED, drift.from_day * DAY_S, 0.0, np.inf
        few, many = settings.mixed_long_beta
        fresh["long_share"] = rng.beta(many, few, n_new)  # mostly long, unlike the others
        moved[is_moved] = len(owners) + rng.integers(n_new, size=int(is_moved.sum()))
        owners = pd.concat([owners, fresh], ignore_index=True)
    return owners, moved


def _mixtures(settings: SyntheticParameters, owners: pd.DataFrame, owner: np.ndarray, arrival_s: np.ndarray,
              level: np.ndarray) -> LifetimeMixtures:
    """Each request's lifetime distribution, from its owner's habit at the time of arrival.

    The second mode is the short one of mixed requests and the long one of bursts; else its weight is 0.
    """
    names = ("kind", "from_s", "level", "drift", "change_s", "level_after", "long_share", "long_share_after")
    habits = {name: owners[name].to_numpy()[owner] for name in names}
    is_mixed, is_burst = habits["kind"] == MIXED, habits["kind"] == BURST
    is_after = arrival_s >= habits["change_s"]
    usual = np.log(np.array(settings.median_s))[habits["kind"]] + level
    usual += np.where(is_after, habits["level_after"], habits["level"])
    usual += habits["drift"] * (arrival_s - habits["from_s"]) / WEEK_S
    usual = np.where(habits["kind"] == SHORT, np.minimum(usual, np.log(settings.short_median_cap_s)), usual)
    brief = np.log(settings.mixed_short_median_s) + 0.3 * habits["level"]
    second = np.where(is_mixed, brief, np.where(is_burst, np.log(settings.burst_stay_median_s), usual))
    long_share = np.where(is_after, habits["long_share_after"], habits["long_share"])
    stay_share = np.where(is_burst, settings.burst_stay_share, 0.0)
    weight = np.column_stack([np.where(is_mixed, long_share, 1.0 - stay_share),
                              np.where(is_mixed, 1.0 - long_share, stay_share)])
    return LifetimeMixtures(weight, np.column_stack([usual, second]), np.array(settings.within_spread)[habits["kind"]])


def _lifetimes(rng: np.random.Generator, truth: LifetimeMixtures, kind: np.ndarray) -> np.ndarray:
    is_brief = (kind == MIXED) & (rng.random(len(truth)) >= truth.weight[:, 0])
    is_staying = (kind == BURST) & (rng.random(len(truth)) < truth.weight[:, 1])
    log_median = np.where(is_brief | is_staying, truth.log_median[:, 1], truth.log_median[:, 0])
    noise = truth.spread * rng.standard_normal(len(truth))
    return np.asarray(np.maximum(np.exp(log_median + noise), 1.0), np.int64)


def _shapes(rng: np.random.Generator, settings: SyntheticParameters, owners: pd.DataFrame,
            owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cores and GiB per request: its deployment's usual shape, or a neighbouring size."""
    usual = owners["idx_cores"].to_numpy()[owner]
    beside = usual + rng.choice([-1, 1], size=len(owner))
    is_usual = rng.random(len(owner)) < settings.shape_kept
    index = np.where(is_usual, usual, beside).clip(0, len(settings.cores) - 1)
    cores = np.asarray(np.array(settings.cores, np.float64)[index])
    return cores, cores * _GIB_PER_CORE[owners["idx_memory"].to_numpy()[owner]]


def _categorical(letter: str, codes: np.ndarray) -> pd.Categorical[str]:
    used, index = np.unique(codes, return_inverse=True)
    return pd.Categorical.from_codes(index, pd.Index([f"{letter}{code}" for code in used]))


def _hosts(trace: Trace, settings: SyntheticParameters) -> pd.DataFrame:
    """Equal hosts, as many that the peak of the binding resource is `host_load` of the capacity."""
    n_hosts = 1
    for name, size in (("cpu_cores", settings.host_cores), ("mem_gib", settings.host_mem_gib)):
        n_hosts = max(n_hosts, int(np.ceil(peak_demand(trace, name) / (size * settings.host_load))))
    return pd.DataFrame({"host_id": np.arange(n_hosts, dtype=np.int64), "cpu_cores": settings.host_cores,
                         "mem_gib": settings.host_mem_gib})


@dataclass(frozen=True, slots=True)
class LifetimeMixtures:
    """All that can be known of each lifetime at its request's creation: a mixture of two lognormals.

    weight: float64 (n, 2), of a request's two modes; rows sum to 1. log_median: float64 (n, 2), of seconds.
    spread: float64 (n,), log units, above 0, the same for both modes. The generator truncates
    lifetimes to whole seconds, at least 1; these distributions are before that.

    >>> one = LifetimeMixtures(np.array([[1.0, 0.0]]), np.log([[60.0, 60.0]]), np.array([0.5]))
    >>> one.survival(60.0).round(3).tolist(), one.remaining_s(0.0).round(2).tolist()
    ([0.5], [67.99])
    """

    weight: np.ndarray
    log_median: np.ndarray
    spread: np.ndarray

    def __len__(self) -> int:
        return len(self.spread)

    def take(self, idx: np.ndarray) -> LifetimeMixtures:
        """The distributions at `idx`, in that order."""
        return LifetimeMixtures(self.weight[idx], self.log_median[idx], self.spread[idx])

    def survival(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """P(T > u), float64 (n,). uptime_s: at least 0, one for all or one each."""
        return np.asarray(np.exp(self._log_reached(uptime_s)).sum(axis=1))

    def remaining_s(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[T - u | T > u], float64 seconds (n,), however small P(T > u) is."""
        log_reached = self._log_reached(uptime_s)
        reached = np.exp(log_reached - log_reached.max(axis=1, keepdims=True))
        return np.asarray((reached * self._remaining_of_ways(uptime_s)).sum(axis=1) / reached.sum(axis=1))

    def overhang_s(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[max(T - u, 0)], float64 seconds (n,): not rising in u."""
        return self.survival(uptime_s) * self.remaining_s(uptime_s)

    def _log_reached(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """Log probability, (n, 2), that a request has this mode and outlives the uptime."""
        from scipy.special import log_ndtr

        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight) + log_ndtr(self._standard(uptime_s)))

    def _remaining_of_ways(self, uptime_s: np.ndarray | float) -> np.ndarray:
        """E[T - u | T > u] of each mode, (n, 2).

        With d = (m - log u) / s it is u (M(d + s) / M(d) - 1), M(x) = Phi(x) / phi(x), from the partial expectation of
        the lognormal, e^(m + s^2 / 2) Phi(d + s). Beyond the median both M are of moderate size, while Phi alone would
        give 0 / 0; before it they are unbounded, so the partial expectation is used directly.
        """
        from scipy.special import erfcx, ndtr

        uptime = _column(uptime_s)
        standard, spread = self._standard(uptime_s), self.spread[:, None]
        is_late = standard < 0.0
        early, late = np.where(is_late, 0.0, standard), np.where(is_late, standard, -1.0)
        mean = np.exp(self.log_median + spread**2 / 2)
        before = mean * ndtr(early + spread) / ndtr(early) - uptime
        after = uptime * (erfcx(-(late + spread) / np.sqrt(2)) / erfcx(-late / np.sqrt(2)) - 1.0)
        return np.asarray(np.where(is_late, after, before))

    def _standard(self, uptime_s: np.ndarray | float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray((self.log_median - np.log(_column(uptime_s))) / self.spread[:, None])


def _column(uptime_s: np.ndarray | float) -> np.ndarray:
    uptimes = np.asarray(uptime_s, np.float64)
    return uptimes[:, None] if uptimes.ndim else uptimes


SHAPES = ("step", "ramp", "spike", "owners")


@dataclass(frozen=True, slots=True)
class Drift:
    """One change of a synthetic trace, by the time of arrival.

    shape: step = lifetimes times `factor` from `from_day` on; ramp = the same, reached over `days` (linear in log
    units); spike = for `days` only; owners = from then on a `share` of the short-lived requests is from new
    subscriptions with mixed deployments, which mostly live for hours to days. ValueError for an unknown shape, a factor
    that is not positive, a ramp or spike without days, a share outside (0, 1).
    """

    shape: str
    from_day: float
    factor: float = 2.0
    days: float = 0.0
    share: float = 0.3

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(SHAPES)}, got {self.shape!r}")
        if not (self.factor > 0.0 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be above 0 and finite, got {self.factor!r}")
        if self.shape in ("ramp", "spike") and not self.days > 0.0:
            raise ValueError(f"days of a {self.shape} must be above 0, got {self.days!r}")
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"share must be between 0 and 1, got {self.share!r}")


def log_factor(drifts: Iterable[Drift], arrival_s: np.ndarray) -> np.ndarray:
    """What the drifts add to the log lifetime of requests that arrive at `arrival_s`, float64 (n,).

    >>> ramp = Drift("ramp", from_day=1.0, days=2.0, factor=4.0)
    >>> np.exp(log_factor([ramp], np.array([0.0, 1.0, 2.0, 5.0]) * 86_400)).round(3).tolist()
    [1.0, 1.0, 2.0, 4.0]
    """
    total = np.zeros(len(arrival_s))
    for drift in drifts:
        since_days = np.asarray(arrival_s, np.float64) / DAY_S - drift.from_day
        if drift.shape == "step":
            share = (since_days >= 0.0).astype(np.float64)
        elif drift.shape == "ramp":
            share = np.clip(since_days / drift.days, 0.0, 1.0)
        elif drift.shape == "spike":
            share = ((since_days >= 0.0) & (since_days < drift.days)).astype(np.float64)
        else:
            continue
        total += math.log(drift.factor) * share
    return total
