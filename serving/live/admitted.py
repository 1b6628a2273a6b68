"""The requests that a predictor has admitted and whose end was not reported, by a random identity."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.answers import Lifetime
from sojourn.serving.errors import shown
from sojourn.serving.inputs import ROW, Receipt

_ID = re.compile(r"([0-9a-f]{16})-(0|[1-9][0-9]{0,18})")


N_RUNNING_MAX = 500_000
"""The most running requests, at 2,700 bytes each (1.35 GB); the earliest admissions are dropped beyond it."""
N_DROPPED_AT_ONCE = 5_000
"""So many are dropped at once, since an owner's batch is counted again each time."""


class Refreshed(NamedTuple):
    """A later prediction of a request, at `now_s`, by the model for running requests of `version`.

    encoded, n_before: as in `Admitted`.
    """

    now_s: int
    encoded: Any
    n_before: int
    version: str

    @property
    def features(self) -> np.ndarray:
        """The request as it was encoded then, float64."""
        return np.frombuffer(self.encoded)[self.n_before:]


class Admitted(NamedTuple):
    """A running request: all that is needed to end it, and to rebuild its handle.

    encoded: float64, `n_before` numbers of its curve, then the features as the forest read them: an array, or the
    extension's curve.
    version: of the model that read them. unknown: inputs that this model had not seen, at the
    latest prediction. refreshed: the latest prediction, if it is not that of the admission.
    factors: recalibrated the curve of the admission, or None. started_s: the second at which it
    began to run, if it was reported at its admission or later.
    """

    admission: Receipt
    encoded: Any
    n_before: int
    unknown: tuple[str, ...]
    version: str
    refreshed: Refreshed | None = None
    factors: np.ndarray | None = None
    started_s: int | None = None

    @property
    def began_s(self) -> int:
        """The second from which its uptime counts: its reported start, or else its admission."""
        return self.admission.arrival_s if self.started_s is None else self.started_s

    @property
    def features(self) -> np.ndarray:
        """The encoded request, float64."""
        return np.frombuffer(self.encoded)[self.n_before:]


def names_of_refresh(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a running request's features, from those of a new one: without the row of a lookup table."""
    return tuple(name for name in names if name != ROW)


class LiveRequests:
    """All running requests, each named by its handle, a copy of it or its id; for one thread at a time."""

    def __init__(self) -> None:
        self._by_number: dict[int, Admitted] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def numbered(self, number: int) -> Admitted | None:
        """The request with this number, or None."""
        return self._by_number.get(number)

    def all(self) -> list[Admitted]:
        """In the order of their admissions."""
        return list(self._by_number.values())

    def too_many(self) -> list[Admitted]:
        """The earliest admissions, to be dropped, if there are more than N_RUNNING_MAX requests; else none.

        All curves of a model end at one age, so these have outlived their ends by the most.
        """
        if len(self._by_number) <= N_RUNNING_MAX:
            return []
        return list(islice(self._by_number.values(), min(N_DROPPED_AT_ONCE, len(self._by_number) - 1)))

    def enter(self, one: Admitted) -> None:
        """Add a request, or replace its former entry."""
        self._by_number[one.admission.number] = one

    def remove(self, one: Admitted) -> None:
        """Remove a request that has ended or is withdrawn."""
        del self._by_number[one.admission.number]

    def find(self, vm: Any, token: int) -> Admitted:
        """The request that a handle or an id names; ValueError if it does not run here.

        token: of current admissions.
        """
        identity = _identity(vm)
        one = self._by_number.get(identity[1])
        if one is not None and one.admission.token == identity[0]:
            return one
        if identity[0] == token:
            raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
        raise ValueError("vm must be admitted by this predictor, got one of another, or of before a restart or fork, "
                         "that does not run here")


def _identity(vm: Any) -> tuple[int, int]:
    if isinstance(vm, Lifetime):
        if vm.admission is None:
            raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
        return vm.admission.token, vm.admission.number
    match = _ID.fullmatch(vm) if isinstance(vm, str) else None
    if match is None:
        raise ValueError(f"vm must be a Lifetime or the id of one, got {shown(vm)}")
    return int(match[1], 16), int(match[2])
