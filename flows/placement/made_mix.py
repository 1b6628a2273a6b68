"""A made mix of services and batch requests: the daily services and nocturnal batch of the CTCL paper's section V-A."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sojourn.flows.placement.batch_usage import BatchUsage
from sojourn.simulator.elastic import BatchRequests, MixedWorkload, Services

INTERVAL_S = 900
_N_PER_DAY = 96
_MS = 1000


@dataclass(frozen=True, slots=True)
class MixParameters:
    """All constants of the made mix. What the paper measures in Alibaba's trace is quoted beside each.

    n_services, n_batch, n_days: 8 days. n_shapes: kinds of services, each with one daily profile.
    service_cores, service_gib_per_core: sizes are drawn of these.
    cpu_level: mean CPU use over the reservation, of a service, low and high ("very low, 9.5 % on average").
    mem_level: of the memory ("80.6 %"). day_swing: trough over peak of the daily profile. noise: log spread of an
        interval. spike_share, spike: of the intervals, and the share of the reservation that is added.
    batch_cores, batch_gib_per_core: asked for. n_templates: kinds of batch requests; a kind's durations are lognormal
        around its own median.
    median_s, template_spread, duration_spread: of the durations, log units; longest_s: no duration is above it.
    use: what a batch request uses over what it asks for.
    night_weight: arrivals at night over those at day, per hour ("nocturnal"); last_day: of the last day over the others
        ("almost no batches").
    """

    n_services: int = 400
    n_batch: int = 100_000
    n_days: int = 8
    n_shapes: int = 20
    service_cores: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    service_gib_per_core: tuple[float, ...] = (2.0, 4.0, 4.0, 8.0)
    cpu_level: tuple[float, float] = (0.03, 0.16)
    mem_level: tuple[float, float] = (0.65, 0.95)
    day_swing: tuple[float, float] = (0.2, 0.8)
    noise: float = 0.15
    spike_share: float = 0.003
    spike: float = 0.3
    late_share: float = 0.3
    batch_cores: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    batch_gib_per_core: tuple[float, ...] = (0.5, 1.0, 2.0)
    n_templates: int = 60
    median_s: float = 300.0
    template_spread: float = 1.0
    duration_spread: float = 0.5
    longest_s: float = 14_400.0
    use: BatchUsage = field(default_factory=BatchUsage)
    night_weight: float = 2.0
    last_day: float = 0.05


def made_mix(rng: np.random.Generator, parameters: MixParameters | None = None) -> MixedWorkload:
    """Services and batch requests drawn from `rng`; 8 days of 15 min by default.

    >>> mix = made_mix(np.random.default_rng(0), MixParameters(n_services=3, n_batch=5))
    >>> len(mix.services), len(mix.batch), mix.services.n_intervals
    (3, 5, 768)
    """
    settings = MixParameters() if parameters is None else parameters
    services = _services(rng, settings)
    batch = _batch(rng, settings)
    return MixedWorkload(services, batch, INTERVAL_S,
                         f"made mix: {len(services)} services, {len(batch)} batch requests, {settings.n_days} days")


def _services(rng: np.random.Generator, settings: MixParameters) -> Services:
    n, n_intervals = settings.n_services, settings.n_days * _N_PER_DAY
    shapes = _shapes(rng, settings)
    shape = rng.integers(settings.n_shapes, size=n)
    cores = rng.choice(settings.service_cores, n)
    gib = cores * rng.choice(settings.service_gib_per_core, n)
    level = rng.uniform(*settings.cpu_level, size=n)
    daily = np.tile(shapes[shape], (1, settings.n_days))
    noise = np.exp(settings.noise * rng.standard_normal((n, n_intervals)))
    spikes = (rng.random((n, n_intervals)) < settings.spike_share) * rng.exponential(settings.spike, (n, n_intervals))
    cpu = np.minimum(level[:, None] * daily * noise + spikes, 1.2)
    drift = np.cumsum(0.002 * rng.standard_normal((n, n_intervals)), axis=1)
    mem = np.clip(rng.uniform(*settings.mem_level, size=n)[:, None] + drift + 0.02 * (daily - 1), 0.05, 1.0)
    reserved = np.stack([cores * 1000, gib * 1024], axis=1)
    used = np.stack([cpu, mem], axis=2) * reserved[:, None, :]
    is_late = rng.random(n) < settings.late_share
    first = np.where(is_late, rng.integers(max(n_intervals - _N_PER_DAY, 1), size=n), 0)
    used[np.arange(n_intervals) < first[:, None]] = 0.0
    return Services(np.rint(reserved).astype(np.int64), np.rint(used).astype(np.int64), first.astype(np.int64),
                    np.full(n, n_intervals), np.full(n, -1))


def _shapes(rng: np.random.Generator, settings: MixParameters) -> np.ndarray:
    """Daily CPU profiles with mean 1, float64 (n_shapes, 96): high in a window of the day, most of them by day."""
    hour = np.arange(_N_PER_DAY) / _N_PER_DAY * 24
    shapes = np.empty((settings.n_shapes, _N_PER_DAY))
    for k in range(settings.n_shapes):
        middle, width = rng.normal(15.0, 3.0) % 24, rng.uniform(4.0, 12.0)
        away = np.abs((hour - middle + 12) % 24 - 12)
        busy = 1 / (1 + np.exp((away - width / 2) / 0.7))
        trough = rng.uniform(*settings.day_swing)
        shapes[k] = trough + (1 - trough) * busy
        shapes[k] /= shapes[k].mean()
    return shapes


def _batch(rng: np.random.Generator, settings: MixParameters) -> BatchRequests:
    n, k = settings.n_batch, settings.n_templates
    hours = np.arange(settings.n_days * 24)
    weight = np.where((hours % 24 >= 21) | (hours % 24 < 9), settings.night_weight, 1.0)
    weight[hours >= (settings.n_days - 1) * 24] *= settings.last_day
    hour = rng.choice(hours, n, p=weight / weight.sum())
    arrival_ms = np.sort((hour + rng.random(n)) * 3600 * _MS).astype(np.int64)
    template = rng.integers(k, size=n)
    medians = settings.median_s * np.exp(settings.template_spread * rng.standard_normal(k))
    duration_s = np.minimum(medians[template] * np.exp(settings.duration_spread * rng.standard_normal(n)),
                            settings.longest_s)
    cores = rng.choice(settings.batch_cores, k)
    gib = cores * rng.choice(settings.batch_gib_per_core, k)
    requested = np.stack([cores * 1000, gib * 1024], axis=1)[template]
    duration_ms = np.rint(duration_s * _MS).astype(np.int64)
    limit_s = np.minimum(medians * np.exp(3 * settings.duration_spread), settings.longest_s)  # of 99.9 % of the runs
    longest_ms = np.rint(limit_s * _MS).astype(np.int64)
    used, peak, peak_ms = settings.use.draw(rng, requested, duration_ms)
    return BatchRequests(arrival_ms, duration_ms, np.rint(requested).astype(np.int64),
                         np.rint(used).astype(np.int64), np.rint(peak).astype(np.int64), peak_ms, longest_ms[template],
                         np.full(n, -1))
