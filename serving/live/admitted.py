"""The requests that a predictor has admitted and whose end was not reported, each by a random identity."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.answers import Lifetime
from sojourn.serving.errors import shown
from sojourn.serving.inputs import ROW, Admission

_ID = re.compile(r"([0-9a-f]{16})-(0|[1-9][0-9]{0,18})")


N_RUNNING_MAX = 500_000
"""Requests that are held as running, at 2,700 bytes each (1.35 GB); what was admitted first is dropped beyond it."""
N_DROPPED_AT_ONCE = 5_000
"""So many are dropped at once, since an owner's batch is counted again each time."""


class Refreshed(NamedTuple):
    """A later prediction of it. encoded, n_before, version: as of `Admitted`, at `now_s`, by that version's model for
    running requests."""

    now_s: int
    encoded: np.ndarray
    n_before: int
    version: str

    @property
    def features(self) -> np.ndarray:
        """The request as it was encoded then, float64."""
        return self.encoded[self.n_before:]


class Admitted(NamedTuple):
    """One of them: what it takes to end it, and to make its handle again.

    encoded: float64, the request as the forest read it, behind `n_before` numbers of its curve. version: of the model
    that read it. unknown: what of the request it had not seen, at its latest prediction. refreshed: that one, where
    it is not the admission's. factors: with which the admission's curve was recalibrated, or None.
    """

    admission: Admission
    encoded: np.ndarray
    n_before: int
    unknown: tuple[str, ...]
    version: str
    refreshed: Refreshed | None = None
    factors: np.ndarray | None = None

    @property
    def features(self) -> np.ndarray:
        """The encoded request, float64."""
        return self.encoded[self.n_before:]


def names_of_refresh(names: tuple[str, ...]) -> tuple[str, ...]:
    """What a version whose encoder gives these features encodes a running request to: the same without the row of a
    lookup table."""
    return tuple(name for name in names if name != ROW)


class LiveRequests:
    """All of them. A handle, a copy of it or its id name the same one; for one thread at a time."""

    def __init__(self) -> None:
        self._by_number: dict[int, Admitted] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def numbered(self, number: int) -> Admitted | None:
        """The one of this number, or None."""
        return self._by_number.get(number)

    def all(self) -> list[Admitted]:
        """In the order of their admissions."""
        return list(self._by_number.values())

    def too_many(self) -> list[Admitted]:
        """Those to be dropped, admitted first, if there are more than N_RUNNING_MAX; none otherwise.

        All curves of a model end at one age, so that they have outlived their ends by the most.
        """
        if len(self._by_number) <= N_RUNNING_MAX:
            return []
        return list(islice(self._by_number.values(), min(N_DROPPED_AT_ONCE, len(self._by_number) - 1)))

    def enter(self, one: Admitted) -> None:
        """Take one in, or in its own place as it is now."""
        self._by_number[one.admission.number] = one

    def remove(self, one: Admitted) -> None:
        """Forget one that has ended or is withdrawn."""
        del self._by_number[one.admission.number]

    def find(self, vm: Any, token: int) -> Admitted:
        """The one that a handle or an id names; ValueError where it does not run here, or never did.

        token: of those that are admitted now.
        """
        named = _identity(vm)
        one = self._by_number.get(named[1])
        if one is not None and one.admission.token == named[0]:
            return one
        if named[0] == token:
            raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
        raise ValueError("vm must be admitted by this predictor, got one of another, or of before a restart or fork, "
                         "that does not run here")


def _identity(vm: Any) -> tuple[int, int]:
    """Token and number of a handle or an id."""
    if isinstance(vm, Lifetime):
        if vm.admission is None:
            raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
        return vm.admission.token, vm.admission.number
    found = _ID.fullmatch(vm) if isinstance(vm, str) else None
    if found is None:
        raise ValueError(f"vm must be a Lifetime or the id of one, got {shown(vm)}")
    return int(found[1], 16), int(found[2])
