"""The history as one table of numbers, a row for each owner and category: what compiled code reads."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np

from sojourn.serving.inputs.owner import OWNER_FEATURES, UNKNOWN_OWNER
from sojourn.serving.jitable import register_jitable

UNKNOWN = 0
"""The slot of all that is not known: of an owner that never arrived, a category of which none has ended."""
_ROW = Struct(f"={len(OWNER_FEATURES)}d")
_HEAD = Struct("=6d")
_MOMENTS = Struct("=2d")
_N_SLOTS = 64


class HistoryRows:
    """Rows by slot, with room that doubles and slots that are used again.

    values: float64 (n, 15); an owner's row is its `OwnerState.head` and `OwnerState.ended_part`, a category's
    begins with its count and its mean. order: by slot, which of two entries of a table is evicted first: the lower.
    """

    def __init__(self) -> None:
        self.values = np.zeros((_N_SLOTS, len(OWNER_FEATURES)))
        self.order = array("q", bytes(8 * _N_SLOTS))
        self._bytes = memoryview(self.values).cast("B")  # type: ignore[arg-type]
        self._free: list[int] = []
        self._n = UNKNOWN
        self.write(self.new(), UNKNOWN_OWNER)

    def new(self) -> int:
        """A slot to write to."""
        if self._free:
            return self._free.pop()
        if self._n == len(self.values):
            grown = np.zeros((2 * self._n, len(OWNER_FEATURES)))  # not concatenated: rows not yet used take no memory
            grown[:self._n] = self.values
            self.values = grown
            self.order.frombytes(bytes(8 * self._n))
            self._bytes = memoryview(self.values).cast("B")  # type: ignore[arg-type]
        self._n += 1
        return self._n - 1

    def free(self, slot: int) -> None:
        """Give a slot back."""
        self._free.append(slot)

    def of(self, slot: int) -> list[float]:
        """The row of a slot."""
        return list(_ROW.unpack_from(self._bytes, slot * _ROW.size))

    def write(self, slot: int, row: Sequence[float]) -> None:
        """Set an owner's row."""
        _ROW.pack_into(self._bytes, slot * _ROW.size, *row)

    def write_head(self, slot: int, head: Sequence[float]) -> None:
        """Set the first 6 numbers of an owner's row."""
        _HEAD.pack_into(self._bytes, slot * _ROW.size, *head)

    def write_moments(self, slot: int, moments: Sequence[float]) -> None:
        """Set a category's count and mean."""
        _MOMENTS.pack_into(self._bytes, slot * _ROW.size, *moments)


@register_jitable
def fill_category_features(row: Sequence[float], overall: float, prior_strength: float, window: int, values: Any,
                           at: int) -> None:
    """Write a category's features into values[at:]: log1p of its count up to the window, its mean drawn to the overall.

    row: begins with the count and the mean of log10 lifetimes (s).
    """
    n = row[0]
    values[at] = math.log1p(min(n, window))
    values[at + 1] = (n * row[1] + prior_strength * overall) / (n + prior_strength) if n > 0.0 else overall
