"""Which row of a lookup table a request reads: that of its finest history key that has one, found where it is parsed.

The row is one more number of the request (`lookup:row`), so that all that keeps encoded requests keeps it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ROW = "lookup:row"
"""The feature's name. It stands after the request's own numbers."""
N_ROWS_MAX = 1 << 18
"""Rows of a table at most. A row takes the 30 observed ends of its key, so that a trace of millions stays below it."""
_N_CODE_BYTES = 7


def key_code(key: Sequence[str]) -> int:
    """The 56-bit code that stands for a key's text in any trace.

    >>> key_code(("ann",))
    55862035216343730
    """
    text = "\x1f".join(key).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_N_CODE_BYTES).digest(), "big")


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """positions: of the history keys, coarse to fine. rows: for each of them the row of each key's code, from 1.

    Row 0 is of all requests: who has no key with a row of its own reads it.

    >>> lookup = Lookup((0, 1), ({key_code(("lab",)): 1}, {key_code(("ann",)): 2}))
    >>> [lookup.row(keys) for keys in ((("lab",), ("ann",)), (("lab",), ("bob",)), (None, None))]
    [2.0, 1.0, 0.0]
    """

    positions: tuple[int, ...]
    rows: tuple[Mapping[int, int], ...]

    @property
    def n_rows(self) -> int:
        """Rows of the table, that of all requests included."""
        return 1 + sum(map(len, self.rows))

    def row(self, keys: Sequence[tuple[str, ...] | None]) -> float:
        """The row of a request with these history keys, None where one is missing."""
        for position, rows in zip(reversed(self.positions), reversed(self.rows), strict=True):
            key = keys[position]
            if key is not None and rows and (found := rows.get(key_code(key))) is not None:
                return float(found)
        return 0.0

    def rows_of(self, codes: Sequence[np.ndarray], n: int) -> np.ndarray:
        """Rows of n requests, int64 (n,). codes: of each history key, int64 (n,), -1 where missing."""
        chosen = np.zeros(n, np.int64)
        for position, rows in zip(self.positions, self.rows, strict=True):  # finer keys come later and win
            hit = np.array([rows.get(code, 0) for code in codes[position].tolist()], np.int64)
            chosen = np.where(hit > 0, hit, chosen)
        return chosen

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As plain arrays: of each row from 1 its key's place in `positions` and its code, int64."""
        found = sorted((row, place, code) for place, rows in enumerate(self.rows) for code, row in rows.items())
        return {"places": np.array([place for _, place, _ in found], np.int64),
                "codes": np.array([code for _, _, code in found], np.int64)}

    @classmethod
    def from_arrays(cls, positions: tuple[int, ...], places: np.ndarray, codes: np.ndarray) -> Lookup:
        """What `to_arrays` gave; ValueError where it is something else."""
        for name, array in (("places", places), ("codes", codes)):
            if array.ndim != 1 or array.dtype != np.int64 or len(array) != len(places):
                raise ValueError(f"{name} must be whole numbers, one a row, got {array.dtype} of shape {array.shape}")
        if len(codes) >= N_ROWS_MAX:
            raise ValueError(f"rows must be at most {N_ROWS_MAX}, got {len(codes) + 1}")
        if ((places < 0) | (places >= len(positions)) | (codes < 0) | (codes >= 1 << 8 * _N_CODE_BYTES)).any():
            raise ValueError(f"places must be below {len(positions)} and codes of {8 * _N_CODE_BYTES} bits")
        rows: list[dict[int, int]] = [{} for _ in positions]
        for row, (place, code) in enumerate(zip(places.tolist(), codes.tolist(), strict=True), 1):
            rows[place][code] = row
        if sum(map(len, rows)) < len(codes):
            raise ValueError("codes must name each key once")
        return cls(positions, tuple(rows))
