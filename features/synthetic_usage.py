"""CPU usage series for requests of a synthetic trace: daily, weekly, 4-hourly and aperiodic, with their truth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace

STEP_S = 300
SHAPES = ("daily", "weekly", "4-hourly", "aperiodic")
PERIOD_S = (86_400, 604_800, 14_400)
"""Periods of the periodic shapes, in the order of SHAPES."""
_OWNER, _REQUEST = 1, 2
_MOST = 0.95
"""The highest peak, so that noise is rarely cut at 1."""


@dataclass(frozen=True, slots=True)
class UsageParameters:
    """All constants of the usage generator; constants per shape are in the order of SHAPES.

    An owner (the finest owner column) has one shape, with its period's phase, duty, peak and trough; its requests
    follow it with their own levels (`level_spread`, log units) and phases (`phase_spread`, of the period).

    shape_shares: of the owners. duty: minimum and maximum share of the period above the middle
        between trough and peak. phase, owner_phase_spread: the middle of the first busy time after
        0, and its spread between owners, of the period (0.58 of a day = 14:00, 0.357 of a week =
        Wednesday 12:00 if time 0 is a Monday). edge: length of the rise and of the fall, as a share
        of the shorter of busy and quiet time (1 = a triangle).
    step_hours: mean length of an aperiodic series' levels, exponential.
    noise, spike_share, spike: spread of a sample, and the share of samples that carry an exponential surplus.
    change_share, change_after_s: share of the requests observed at least so long with one change of
    regime, in the middle six tenths of their time: new peak, trough and phase.
    """

    shape_shares: tuple[float, float, float, float] = (0.4, 0.15, 0.15, 0.3)
    duty: tuple[tuple[float, float], ...] = ((0.3, 0.55), (0.6, 0.72), (0.2, 0.5))
    phase: tuple[float, float, float] = (14 / 24, 2.5 / 7, 0.5)
    owner_phase_spread: tuple[float, float, float] = (0.08, 0.03, 0.29)
    phase_spread: float = 0.02
    edge: float = 0.6
    peak: tuple[float, float] = (0.35, 0.85)
    trough_of_peak: tuple[float, float] = (0.1, 0.5)
    level_spread: float = 0.1
    step_hours: float = 7.0
    noise: tuple[float, float] = (0.02, 0.06)
    spike_share: float = 0.003
    spike: float = 0.15
    change_share: float = 0.25
    change_after_s: int = 2 * 86_400


@dataclass(frozen=True, slots=True)
class _Truth:
    """The parameters of a series; see `synthesize_usage`. NaN = missing."""

    usage_shape: str
    period_s: float
    phase_s: float
    duty: float
    peak: float
    trough: float
    noise: float = np.nan
    change_s: float = np.nan
    phase_after_s: float = np.nan
    peak_after: float = np.nan
    trough_after: float = np.nan


def with_usage(trace: Trace, n_usage: int, *, seed: int = 0, parameters: UsageParameters | None = None,
               progress: Callable[[int, int], None] | None = None) -> tuple[Trace, pd.DataFrame]:
    """`trace` with the usage of the `n_usage` requests observed longest, and its truth.

    The requests get the column `usage_shape` (missing without a series). It has no role, since a model must not read
    the answer; `meta["known_at_end"]` lists it. Truth and progress: see `synthesize_usage`. ValueError for n_usage
    below 1 or above the number of requests, and as in `synthesize_usage`.

    >>> from sojourn.features.synthetic import synthesize
    >>> trace, truth = with_usage(synthesize(1000, seed=7, days=7), 3)
    >>> trace.usage["request_id"].nunique(), trace.requests["usage_shape"].notna().sum().item()
    (3, 3)
    """
    if not 1 <= n_usage <= len(trace):
        raise ValueError(f"n_usage must be between 1 and the {len(trace)} requests, got {n_usage!r}")
    observed_s = trace.end_s() - np.maximum(trace.start_s(), trace.begin_s)
    longest = np.sort(np.argsort(-observed_s, kind="stable")[:n_usage])
    ids = trace.requests["request_id"].to_numpy()[longest]
    usage, truth = synthesize_usage(trace, ids, seed=seed, parameters=parameters, progress=progress)
    shape = pd.Series(pd.NA, index=trace.requests.index, dtype=pd.CategoricalDtype(list(SHAPES)))
    shape.iloc[longest] = truth["usage_shape"].to_numpy()
    settings = UsageParameters() if parameters is None else parameters
    meta = {**trace.meta, "usage": f"made up, every {STEP_S} s", "usage_seed": seed,
            "usage_parameters": asdict(settings), "known_at_end": [*trace.meta.get("known_at_end", ()), "usage_shape"]}
    return replace(trace, requests=trace.requests.assign(usage_shape=shape), usage=usage, meta=meta), truth


def synthesize_usage(trace: Trace, request_ids: Iterable[int | str], *, seed: int = 0,
                     parameters: UsageParameters | None = None,
                     progress: Callable[[int, int], None] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Usage and truth of the given requests; each has its own random stream, independent of the others.

    Usage: `request_id`, `time_s` (int64, the multiples of 300 after the trace's begin, from the
    request's start to before its end), `cpu_frac` (float64, 0 to 1), in the order of request_ids.

    Truth, one row per request: `request_id`, `usage_shape`, `period_s`, `phase_s` (the middle of a busy time), `duty`,
    `peak`, `trough`, `noise` (spread of a sample), and, if the regime changes, `change_s`, `phase_after_s`,
    `peak_after` and `trough_after`. An aperiodic series has no period, phase or duty; its levels are uniform between
    trough and peak. progress: called with (done, total) after each series.

    ValueError for an unknown or duplicate id, and a negative seed.

    >>> from sojourn.features.synthetic import synthesize
    >>> usage, truth = synthesize_usage(synthesize(1000, seed=7), [1, 2])
    >>> usage.columns.tolist(), truth["usage_shape"].tolist()
    (['request_id', 'time_s', 'cpu_frac'], ['weekly', '4-hourly'])
    """
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed!r}")
    settings = UsageParameters() if parameters is None else parameters
    clock_s, trace = trace.begin_s, trace.since_begin()
    ids = pd.Index(list(request_ids))
    if ids.has_duplicates:
        raise ValueError(f"request_ids must be unique, got {ids[ids.duplicated()].tolist()[0]!r} twice")
    rows = pd.Index(trace.requests["request_id"]).get_indexer(ids)
    if (rows < 0).any():
        raise ValueError(f"request_ids must be in the trace, got {ids[rows < 0].tolist()[0]!r}")
    owner = trace.requests[trace.roles.owners[-1]] if trace.roles.owners else trace.requests["request_id"]
    owners = owner.iloc[rows].astype(str).tolist()
    from_s = -(-np.maximum(trace.start_s()[rows], 0) // STEP_S) * STEP_S
    end_s = trace.end_s()[rows]
    series, truths = [], []
    for request_id, name, begin_s, stop_s in zip(ids.tolist(), owners, from_s.tolist(), end_s.tolist(), strict=True):
        time_s = np.arange(begin_s, stop_s, STEP_S, dtype=np.int64)
        habit = _habit(_stream(seed, _OWNER, name), settings)
        rng = _stream(seed, _REQUEST, str(request_id))
        truth = _varied(rng, habit, settings, begin_s, stop_s)
        series.append((time_s + clock_s, _sample(rng, truth, settings, time_s)))
        truths.append({"request_id": request_id, **asdict(_move_clock(truth, clock_s))})
        if progress is not None:
            progress(len(truths), len(ids))
    lengths = [len(time_s) for time_s, _ in series]
    empty = np.empty(0, np.int64)
    usage = pd.DataFrame({"request_id": ids.to_numpy().repeat(lengths),
                          "time_s": np.concatenate([empty, *(time_s for time_s, _ in series)]),
                          "cpu_frac": np.concatenate([empty.astype(np.float64), *(share for _, share in series)])})
    table = pd.DataFrame(truths, columns=["request_id", *(field.name for field in fields(_Truth))])
    return usage, table.astype({"usage_shape": pd.CategoricalDtype(list(SHAPES))})


def _stream(seed: int, purpose: int, name: str) -> np.random.Generator:
    """A generator for each seed, purpose and name; Python's hash() differs between processes."""
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.random.default_rng([seed, purpose, *np.frombuffer(digest, "<u4").tolist()])


def _habit(rng: np.random.Generator, settings: UsageParameters) -> _Truth:
    shares = np.array(settings.shape_shares)
    idx = int(rng.choice(len(SHAPES), p=shares / shares.sum()))
    peak = rng.uniform(*settings.peak)
    trough = peak * rng.uniform(*settings.trough_of_peak)
    if SHAPES[idx] == "aperiodic":
        return _Truth(SHAPES[idx], np.nan, np.nan, np.nan, peak, trough)
    phase = settings.phase[idx] + settings.owner_phase_spread[idx] * rng.standard_normal()
    return _Truth(SHAPES[idx], PERIOD_S[idx], phase * PERIOD_S[idx], rng.uniform(*settings.duty[idx]), peak, trough)


def _varied(rng: np.random.Generator, habit: _Truth, settings: UsageParameters, begin_s: int, stop_s: int) -> _Truth:
    """A request's truth: its owner's habit with other levels and phase (0 to period), and perhaps a change."""
    scale = np.exp(settings.level_spread * rng.standard_normal())
    phase_s = (habit.phase_s + settings.phase_spread * rng.standard_normal() * habit.period_s) % habit.period_s
    peak = min(habit.peak * scale, _MOST)
    truth = replace(habit, phase_s=phase_s, peak=peak, trough=peak * habit.trough / habit.peak,
                    noise=rng.uniform(*settings.noise))
    # Always drawn, so that the noise after them does not depend on them.
    is_changing, place, turn = rng.random() < settings.change_share, rng.uniform(0.2, 0.8), rng.uniform(-0.25, 0.25)
    factor, is_less = rng.uniform(0.4, 0.7), rng.random() < 0.5
    if not is_changing or stop_s - begin_s < settings.change_after_s:
        return truth
    factor = factor if is_less or peak / factor > _MOST else 1 / factor
    return replace(truth, change_s=float(round(begin_s + place * (stop_s - begin_s))), peak_after=truth.peak * factor,
                   trough_after=truth.trough * factor, phase_after_s=(phase_s + turn * truth.period_s) % truth.period_s)


def _move_clock(truth: _Truth, by_s: int) -> _Truth:
    """The same truth on a clock that reads `by_s` more."""
    return replace(truth, phase_s=(truth.phase_s + by_s) % truth.period_s, change_s=truth.change_s + by_s,
                   phase_after_s=(truth.phase_after_s + by_s) % truth.period_s)


def _sample(rng: np.random.Generator, truth: _Truth, settings: UsageParameters, time_s: np.ndarray) -> np.ndarray:
    """The series at `time_s` (shape (n,)), 0 to 1, float64, shape (n,)."""
    is_after = time_s >= truth.change_s  # False if it is NaN
    peak = np.where(is_after, truth.peak_after, truth.peak)
    trough = np.where(is_after, truth.trough_after, truth.trough)
    if truth.usage_shape == "aperiodic":
        busy = _steps(rng, settings, len(time_s))
    else:
        phase_s = np.where(is_after, truth.phase_after_s, truth.phase_s)
        busy = _pulse((time_s - phase_s) / truth.period_s, truth.duty, settings.edge)
    share = trough + (peak - trough) * busy + truth.noise * rng.standard_normal(len(time_s))
    is_spike = rng.random(len(time_s)) < settings.spike_share
    return np.asarray(np.clip(share + is_spike * rng.exponential(settings.spike, len(time_s)), 0.0, 1.0))


def _pulse(cycle: np.ndarray, duty: float, edge: float) -> np.ndarray:
    """A trapezium from 0 to 1 around each whole `cycle`, above 1/2 for `duty` of the period."""
    away = np.abs(cycle - np.round(cycle))
    return np.asarray(np.clip(0.5 + (duty / 2 - away) / (edge * min(duty, 1 - duty)), 0.0, 1.0))


def _steps(rng: np.random.Generator, settings: UsageParameters, n: int) -> np.ndarray:
    """Uniform levels that hold for exponential times, as jobs come and go, shape (n,)."""
    is_new = rng.random(n) < STEP_S / (settings.step_hours * 3600)
    return np.asarray(rng.random(n + 1)[is_new.cumsum()])
