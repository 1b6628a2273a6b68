"""The `promote` stage: register the candidate; move `champion` only if every gate holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from prefect import task

from sojourn.features.split import Examples
from sojourn.flows.config import RetrainConfig
from sojourn.flows.replicas import Replicated
from sojourn.flows.tracking import CHALLENGER, CHAMPION, Tracker
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.bootstrap import OwnerDraws, coarsest_owner, interval
from sojourn.models.measures.errors import log_errors
from sojourn.models.measures.thresholds import AGES_S
from sojourn.models.measures.weighted_mean import weighted_mean
from sojourn.models.parity import n_different_bits
from sojourn.serving.curve_builder import CurveBuilder
from sojourn.serving.forest import Forest

SINGLE_REPLAY_NOISE_PP = 0.8
"""One replay alone wanders by up to this under tiny perturbations (lifetime-placement, What an evaluation shows)."""
N_BOOTSTRAP = 500
MIN_TEST_ENDS = 100
"""Fewer observed ends in the test window than this are no evidence."""
N_PARITY_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of promotion, whether it held, and what was found."""

    name: str
    is_passed: bool
    found: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """The registered version, the alias that it got, and the gates."""

    name: str
    version: int
    alias: str
    gates: tuple[Gate, ...]


def parity_gate(text: str, forest: Forest, rows: np.ndarray, seed: int) -> Gate:
    """The export gives LightGBM's own bits, on real rows and on and beside every threshold."""
    drawn = np.random.default_rng(seed).integers(0, len(rows), N_PARITY_ROWS)
    n_different, n_asked = n_different_bits(text, forest, rows[drawn], seed)
    return Gate("bit parity of the export", n_different == 0, f"{n_different} of {n_asked:,} rows differ")


def size_gate(config: RetrainConfig, n_bytes: int) -> Gate:
    """The forest's file is no larger than configured."""
    return Gate("size of the forest", n_bytes <= config.max_bundle_mb * 1e6,
                f"{n_bytes / 1e6:.2f} MB of at most {config.max_bundle_mb:g}")


def latency_gate(config: RetrainConfig, builder: CurveBuilder, rows: np.ndarray) -> Gate:
    """The median curve is built within the configured time."""
    times = []
    for row in rows[:200]:
        features = row.tolist()
        started = time.perf_counter()
        builder.curve(features)
        times.append(time.perf_counter() - started)
    median_us = 1e6 * float(np.median(times))
    return Gate("time to build a curve", median_us <= config.max_curve_us,
                f"{median_us:.0f} us median of at most {config.max_curve_us:g}")


def accuracy_gate(candidate: CurveTable, other: CurveTable, label: str, test: Examples, owners: Sequence[np.ndarray],
                  seed: int) -> Gate:
    """The candidate's errors at creation and at absolute ages are no worse than another model's, beyond noise.

    Paired by request, resampled by owner (requests of one owner are not independent): owners holds the codes (n,)
    of the owner keys, coarsest first, and the coarsest with enough owners counts. Without owners requests count
    one by one. Fails on a test window too small to say anything.
    """
    name = f"accuracy against {label}"
    if (n_ended := int(test.is_event.sum())) < MIN_TEST_ENDS:
        return Gate(name, False, f"the test window must hold at least {MIN_TEST_ENDS} observed ends, got {n_ended}")
    ended = test.take(test.is_event)
    tables = candidate.take(test.is_event), other.take(test.is_event)
    at_ages: list[tuple[np.ndarray, np.ndarray]] = []
    for age_s in (0, *AGES_S):
        is_asked = (ended.lifetime_s > age_s) & (ended.entry_s <= age_s)
        if is_asked.any():
            left_s = ended.lifetime_s[is_asked] - age_s
            own, others = (np.abs(log_errors(table.take(is_asked).quantile(0.5, float(age_s)), left_s))
                           for table in tables)
            at_ages.append((is_asked, own - others))
    codes = coarsest_owner([owner[test.is_event] for owner in owners], n_ended)
    low, high = interval([
        float(np.mean([weighted_mean(difference, weight[is_asked]) for is_asked, difference in at_ages]))
        for weight in OwnerDraws(codes, N_BOOTSTRAP, seed=seed)])
    return Gate(name, low <= 0.0,
                f"MAE log10 candidate - {label}: 95 % interval {low:+.4f} to {high:+.4f} (below 0 = better)")


def simulation_gates(simulation: Replicated | None, candidate: str, other: str) -> tuple[Gate, ...]:
    """No fewer empty hosts and no more rejections than with another model, beyond noise; fails where not simulated."""
    name = f"empty hosts against nilas ({other})"
    if simulation is None:
        return (Gate(name, False, "not simulated"),)
    labels = f"nilas ({candidate})", f"nilas ({other})"
    mean, low, high = simulation.difference(*labels)
    is_passed = high >= 0.0 if np.isfinite(high) else mean >= -SINGLE_REPLAY_NOISE_PP
    n_own, n_other = (float(simulation.table["n_rejected"].loc[label]) for label in labels)
    return (
        Gate(name, is_passed, f"{mean:+.2f} pp, 95 % interval {low:+.2f} to {high:+.2f} (above 0 = better)"),
        Gate(f"rejections against nilas ({other})", n_own <= n_other + 2.0 * max(n_other, 1.0) ** 0.5,
             f"{n_own:g} a replay, {n_other:g} with the other; two standard deviations of a count may be luck"),
    )


@task(name="promote")
def promote(tracker: Tracker, name: str, source: str, run_id: str, card: str, tags: Mapping[str, str],
            gates: tuple[Gate, ...]) -> Promotion:
    """Register the bundle as a version and set its alias: `champion` if every gate holds, else `challenger`."""
    alias = CHAMPION if all(gate.is_passed for gate in gates) else CHALLENGER
    reasons = {f"gate.{gate.name}": f"{'passed' if gate.is_passed else 'FAILED'}: {gate.found}" for gate in gates}
    version = tracker.register(name, source, run_id, card, {**tags, **reasons})
    tracker.set_alias(name, alias, version)
    return Promotion(name, version, alias, gates)
