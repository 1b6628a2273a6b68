"""Gates of promotion, the next steps if one failed, and the gates on placement.

Gates on placement compare empty hosts and rejections of a replay, paired over replicas, with one
other model: by `nilas`, and by the best policy that needs only a model, as a team would deploy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from sojourn.flows.placement.workloads import Replicated
from sojourn.flows.retrain.verdict import Gate, Reason
from sojourn.simulator.experiments import pairing_label
from sojourn.simulator.measures import interval_text, signed_text

REASONS_TAG = "reasons"
"""Tag of a version: why its gates failed."""
_OWN_HOSTS = "--host-cpu-cores, --host-mem-gib"
_MOST_STEPS = 2
DEPLOYABLE = ("nilas", "nilas-expected", "joint-fit")
"""Policies that a scheduler can run with a served model, without an oracle."""
MARGIN_PP = 0.5
"""The most that a version may be worse, in percentage points of empty hosts: a third of the best
policy's gain over best-fit on the synthetic trace and on openb (+1.5 and +1.2 pp), and the
resolution of 5 replicas if placement varies little (docs/gates.md)."""

_STEPS: Mapping[Reason, str] = MappingProxyType({
    Reason.NOT_SIMULATED: "Run it with the simulation (without --no-simulate): no version becomes champion without.",
    Reason.FEW_ENDS: "Record for longer: the test window holds too few observed ends to judge by.",
    Reason.NO_EFFECT: f"Give the hosts of your cluster ({_OWN_HOSTS}) and how full they are (--load): on the simulated "
                      "ones predictions make no difference.",
    Reason.PLACEMENT_NOT_SHOWN: f"Give the hosts of your cluster ({_OWN_HOSTS}), or record for longer: that placement "
                                "loses nothing is not shown on the simulated ones.",
    Reason.LEVEL: "Record for longer, or give columns that say more of a request: the model is not shown to be more "
                  "accurate than what the failed gate compares it with.",
    Reason.OTHER: "See the failed gates: docs/gates.md says what each one asks.",
})  # fmt: skip
"""In the order of the output."""
_HARMLESS = frozenset({Reason.LEVEL, Reason.NOT_SIMULATED, Reason.NO_EFFECT, Reason.PLACEMENT_NOT_SHOWN})
"""The version is not shown to be better, but nothing is wrong with it: a team may serve it."""


def reasons_of(gates: Iterable[Gate]) -> tuple[Reason, ...]:
    """The reasons of failed gates, each once."""
    return tuple(dict.fromkeys(gate.reason for gate in gates if not gate.is_passed))


def as_tag(reasons: Sequence[Reason]) -> str:
    """The reasons as a tag's text, for `of_tag`."""
    return ", ".join(reasons)


def of_tag(text: str) -> tuple[Reason, ...]:
    """The reasons of a tag; none for an old version without the tag.

    >>> of_tag(as_tag((Reason.FEW_ENDS, Reason.OTHER))), of_tag("")
    ((<Reason.FEW_ENDS: 'few ends'>, <Reason.OTHER: 'other'>), ())
    """
    return tuple(Reason(word) for word in text.split(", ") if word in list(Reason))


def next_steps(reasons: Sequence[Reason], name: str, version: int | None = None) -> tuple[str, ...]:
    """The next steps, a sentence each: one or two by the reasons, and how to serve the version if that does no harm.

    name: of the model. version: its number; None = it has none yet.

    >>> for step in next_steps((Reason.LEVEL,), "sojourn-lifetime", 3): print(step)
    Record for longer, or give columns that say more of a request: the model is not shown to be more accurate than what the failed gate compares it with.
    To serve it all the same: sojourn model pull models:/sojourn-lifetime/3 FOLDER, then Predictor.load("FOLDER").
    """  # noqa: E501
    steps = [words for reason, words in _STEPS.items() if reason in reasons][:_MOST_STEPS]
    if reasons and _HARMLESS.issuperset(reasons):
        steps.append(f"To serve it all the same: sojourn model pull models:/{name}/{version or 'VERSION'} FOLDER, "
                     'then Predictor.load("FOLDER").')
    return tuple(steps)


def best_policy(simulation: Replicated, candidate: str, other: str) -> str:
    """The deployable policy with the highest gain, summed over both models' sources.

    The random error of the sum is uncorrelated with that of the difference in the gate. The highest
    gain of one model alone would be biased upwards, and so would the difference.
    """
    gain = simulation.table["gain_pp"]
    return max(DEPLOYABLE, key=lambda policy: float(
        gain[pairing_label(policy, candidate)] + gain[pairing_label(policy, other)]))


def judged_pairs(simulation: Replicated, candidate: str, others: list[str]) -> list[tuple[str, str]]:
    """The pairs of cells that the gates compare: labels of the candidate's and of the other's."""
    pairs = [(pairing_label(policy, candidate), pairing_label(policy, other))
             for other in others for policy in ("nilas", best_policy(simulation, candidate, other))]
    return list(dict.fromkeys(pairs))


def simulation_gates(simulation: Replicated | None, candidate: str, other: str) -> tuple[Gate, ...]:
    """No fewer empty hosts, by nilas and the best deployable policy; no more rejections.

    candidate, other: labels of their lifetime sources. Empty hosts pass if the whole interval of
    the paired difference is above minus the margin, or predictions make no difference in replays.
    """
    names = f"empty hosts by nilas against {other}", f"empty hosts by the best policy against {other}"
    if simulation is None:
        return tuple(Gate(name, False, "not simulated", Reason.NOT_SIMULATED) for name in names)
    best = best_policy(simulation, candidate, other)
    gates = [_empty_hosts(name, simulation, policy, candidate, other)
             for name, policy in zip(names, ("nilas", best), strict=True)]
    counts = {policy: (_rejected(simulation, policy, candidate), _rejected(simulation, policy, other))
              for policy in dict.fromkeys(("nilas", best))}
    is_passed = all(n_rejected <= n_other + 2.0 * max(n_other, 1.0) ** 0.5 for n_rejected, n_other in counts.values())
    finding = "; ".join(f"{policy} {n_rejected:g} a replay, {n_other:g} with {other}"
                        for policy, (n_rejected, n_other) in counts.items())
    return (*gates, Gate(f"rejections against {other}", is_passed,
                         f"{finding} (two standard deviations of a count may be chance)"))


def is_better_placed(simulation: Replicated | None, candidate: str, other: str) -> bool:
    """Whether more empty hosts are shown for the best deployable policy: the interval is above 0."""
    if simulation is None:
        return False
    policy = best_policy(simulation, candidate, other)
    return simulation.difference(pairing_label(policy, candidate), pairing_label(policy, other))[1] > 0.0


def _empty_hosts(name: str, simulation: Replicated, policy: str, candidate: str, other: str) -> Gate:
    mean, low, high = simulation.difference(pairing_label(policy, candidate), pairing_label(policy, other))
    if not _has_effect(simulation, policy):
        finding = (f"{policy} {signed_text(mean)} pp; not shown: predictions make no difference in the replay, "
                   f"{policy} leaves the same hosts empty with every prediction")
        return Gate(name, False, finding, Reason.NO_EFFECT)
    if not np.isfinite(low):
        return Gate(name, False, f"{policy} {signed_text(mean)} pp; not shown: one replay has no interval",
                    Reason.PLACEMENT_NOT_SHOWN)
    is_passed = low > -MARGIN_PP
    verdict = "" if is_passed else "; fewer" if high < 0.0 else "; not shown"
    n = simulation.n_pairs(pairing_label(policy, candidate), pairing_label(policy, other))
    finding = (f"{policy} {signed_text(mean)} pp, 95 % interval {interval_text(low, high)} (over {n} replicas: small "
               f"moves of this one trace), to lie above {-MARGIN_PP:g}{verdict}")
    return Gate(name, is_passed, finding, Reason.OTHER if high < 0.0 else Reason.PLACEMENT_NOT_SHOWN)


def _has_effect(simulation: Replicated, policy: str) -> bool:
    """Whether the policy's cells, one per prediction, differ in any replica. If even km's and the
    model's predictions lead to the same placements (the pool is always full, or has room for all),
    a difference of 0 is no evidence."""
    cells = simulation.gain_pp[:, [label.startswith(f"{policy} (") for label in simulation.table.index]]
    return bool((np.nanmax(cells, axis=1) > np.nanmin(cells, axis=1)).any())


def _rejected(simulation: Replicated, policy: str, predictor: str) -> float:
    return float(simulation.table["n_rejected"].loc[pairing_label(policy, predictor)])
