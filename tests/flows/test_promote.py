"""The gates of promotion: what passes, what does not, and the reason given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.features.split import Examples
from sojourn.flows.promote import accuracy_gate, simulation_gates
from sojourn.flows.replicas import Replicated
from sojourn.models.curve_table import OnceTable


def _test_rows(n: int = 400, n_owners: int = 40, each_s: float = 1_000.0) -> tuple[Examples, list[np.ndarray]]:
    lifetime_s = np.full(n, each_s)
    owner = np.arange(n) % n_owners
    return Examples(np.zeros((n, 1)), (owner,), lifetime_s, np.ones(n, bool), np.zeros(n), np.zeros(n, np.int64),
                    np.arange(n)), [owner]


def _predicted(log10_s: np.ndarray) -> OnceTable:
    return OnceTable(log10_s, 1.0, np.zeros(201))


def test_a_worse_model_fails_and_the_same_model_passes() -> None:
    rows, owners = _test_rows()
    right, wrong = _predicted(np.full(400, 3.0)), _predicted(np.full(400, 4.0))
    assert accuracy_gate(right, right, "km", rows, owners, 0).is_passed
    assert accuracy_gate(right, wrong, "km", rows, owners, 0).is_passed
    gate = accuracy_gate(wrong, right, "km", rows, owners, 0)
    assert not gate.is_passed and gate.name == "accuracy against km"
    assert "95 % interval +1." in gate.found  # a factor of ten at creation; more once 600 s are over


def test_noise_is_resampled_by_owner_not_by_request() -> None:
    # worse by 0.1 for 13 owners of 20, better by 0.1 for 7, each the same for all its 20 requests: no evidence
    # (+0.03, standard error 0.02), though it would be from 400 independent requests (standard error 0.005)
    rows, owners = _test_rows(400, 20, 500.0)
    mixed = _predicted(np.log10(500.0) + np.where(owners[0] < 13, 0.3, 0.1))
    even = _predicted(np.full(400, np.log10(500.0) + 0.2))
    assert accuracy_gate(mixed, even, "km", rows, owners, 0).is_passed
    assert not accuracy_gate(mixed, even, "km", rows, [np.arange(400)], 0).is_passed
    assert not accuracy_gate(mixed, even, "km", rows, [], 0).is_passed
    # a key with fewer owners than are worth resampling gives way to the next, finer one
    few = [np.zeros(400, np.int64), *owners]
    assert accuracy_gate(mixed, even, "km", rows, few, 0) == accuracy_gate(mixed, even, "km", rows, owners, 0)


def test_a_test_window_that_shows_nothing_fails() -> None:
    rows, owners = _test_rows(99, 33)
    same = _predicted(np.full(99, 3.0))
    gate = accuracy_gate(same, same, "km", rows, owners, 0)
    assert (gate.is_passed, gate.found) == (
        False, "the test window must hold at least 100 observed ends, got 99")


def _simulated(own_pp: list[float], other_pp: list[float], own_rejected: float, other_rejected: float) -> Replicated:
    labels = ["nilas (hazard)", "nilas (km)"]
    table = pd.DataFrame({"n_rejected": [own_rejected, other_rejected]}, index=labels)
    return Replicated(table, np.array([own_pp, other_pp]).T, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("own_pp", "own_rejected", "passed"), [
    ([1.0, 1.1, 0.9], 0.0, (True, True)),
    ([0.1, -0.1, 0.0], 2.0, (True, True)),  # beside 0, two may be luck
    ([-1.0, -1.1, -0.9], 0.0, (False, True)),
    ([1.0, 1.1, 0.9], 3.0, (True, False)),  # empty hosts bought with refused requests
])
def test_placement_must_not_get_worse(own_pp: list[float], own_rejected: float, passed: tuple[bool, bool]) -> None:
    gates = simulation_gates(_simulated(own_pp, [0.0, 0.0, 0.0], own_rejected, 0.0), "hazard", "km")
    assert tuple(gate.is_passed for gate in gates) == passed


def test_what_was_not_simulated_is_no_champion() -> None:
    (gate,) = simulation_gates(None, "hazard", "km")
    assert (gate.is_passed, gate.found) == (False, "not simulated")
