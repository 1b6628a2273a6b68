"""The gates on placement: empty hosts and rejections of a replay, paired over replicas, against one other model.

Asked of `nilas`, and of the policy that a team would deploy: the best of those that need nothing but a model.
"""

from __future__ import annotations

import numpy as np

from sojourn.flows.gates.gate import Gate, Reason
from sojourn.flows.placement.replicas import Replicated
from sojourn.simulator.experiments import pairing_label

DEPLOYABLE = ("nilas", "nilas-expected", "joint-fit")
"""Policies that a scheduler can run with a served model, without an oracle."""
MARGIN_PP = 0.5
"""By how many percentage points of empty hosts a version may be worse: a third of what the best policy brings over
best-fit on the synthetic trace and on openb (+1.5 and +1.2 pp), and what 5 replicas can tell where placement is calm
(docs/gates.md)."""


def best_policy(simulation: Replicated, own: str, other: str) -> str:
    """The deployable policy with the highest gain, summed over both models' sources.

    By the sum: its random error is uncorrelated with that of the difference that is judged. The highest gain of one
    model alone would be biased upwards, and the difference with it.
    """
    gain = simulation.table["gain_pp"]
    return max(DEPLOYABLE, key=lambda policy: float(
        gain[pairing_label(policy, own)] + gain[pairing_label(policy, other)]))


def judged_pairs(simulation: Replicated, own: str, others: list[str]) -> list[tuple[str, str]]:
    """The cells that the gates compare: labels of the candidate's and of the other's."""
    pairs = [(pairing_label(policy, own), pairing_label(policy, other))
             for other in others for policy in ("nilas", best_policy(simulation, own, other))]
    return list(dict.fromkeys(pairs))


def simulation_gates(simulation: Replicated | None, own: str, other: str) -> tuple[Gate, ...]:
    """No fewer empty hosts, by nilas and by the best deployable policy, and no more rejections; fails where not shown.

    own, other: labels of the candidate's and the other's lifetime source. Empty hosts pass where the whole interval
    of the paired difference lies above minus the margin, unless the replay cannot tell predictions apart.
    """
    names = f"empty hosts by nilas against {other}", f"empty hosts by the best policy against {other}"
    if simulation is None:
        return tuple(Gate(name, False, "not simulated", Reason.NOT_SIMULATED) for name in names)
    best = best_policy(simulation, own, other)
    gates = [_empty_hosts(name, simulation, policy, own, other)
             for name, policy in zip(names, ("nilas", best), strict=True)]
    counts = {policy: (_rejected(simulation, policy, own), _rejected(simulation, policy, other))
              for policy in dict.fromkeys(("nilas", best))}
    is_passed = all(n_own <= n_other + 2.0 * max(n_other, 1.0) ** 0.5 for n_own, n_other in counts.values())
    found = "; ".join(f"{policy} {n_own:g} a replay, {n_other:g} with {other}"
                      for policy, (n_own, n_other) in counts.items())
    return (*gates, Gate(f"rejections against {other}", is_passed,
                         f"{found} (two standard deviations of a count may be chance)"))


def is_better_placed(simulation: Replicated | None, own: str, other: str) -> bool:
    """True where more empty hosts are shown by the best deployable policy: the interval lies above 0."""
    if simulation is None:
        return False
    policy = best_policy(simulation, own, other)
    return simulation.difference(pairing_label(policy, own), pairing_label(policy, other))[1] > 0.0


def _empty_hosts(name: str, simulation: Replicated, policy: str, own: str, other: str) -> Gate:
    mean, low, high = simulation.difference(pairing_label(policy, own), pairing_label(policy, other))
    if not _has_effect(simulation, policy):
        found = (f"{policy} {mean:+.2f} pp; not shown: predictions make no difference in the replay, {policy} leaves "
                 "the same hosts empty with every prediction")
        return Gate(name, False, found, Reason.NO_EFFECT)
    if not np.isfinite(low):
        return Gate(name, False, f"{policy} {mean:+.2f} pp; not shown: one replay has no interval",
                    Reason.PLACEMENT_NOT_SHOWN)
    is_passed = low > -MARGIN_PP
    verdict = "" if is_passed else "; fewer" if high < 0.0 else "; not shown"
    n = simulation.n_pairs(pairing_label(policy, own), pairing_label(policy, other))
    found = (f"{policy} {mean:+.2f} pp, 95 % interval {low:+.2f} to {high:+.2f} (over {n} replicas: small moves of "
             f"this one trace), to lie above {-MARGIN_PP:g}{verdict}")
    return Gate(name, is_passed, found, Reason.OTHER if high < 0.0 else Reason.PLACEMENT_NOT_SHOWN)


def _has_effect(simulation: Replicated, policy: str) -> bool:
    """Whether the policy's cells, one a prediction, differ in any replica. Where even km's and the model's predictions
    place alike (a pool that is always full, or has room for all), a difference of 0 is no evidence."""
    cells = simulation.gain_pp[:, [label.startswith(f"{policy} (") for label in simulation.table.index]]
    return bool((np.nanmax(cells, axis=1) > np.nanmin(cells, axis=1)).any())


def _rejected(simulation: Replicated, policy: str, predictor: str) -> float:
    return float(simulation.table["n_rejected"].loc[pairing_label(policy, predictor)])
