"""Which owners must stay together: those that share a request, directly or through others."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa


class OwnerGroups:
    """Groups of owners of all owner columns, so that no owner of any column is in two.

    Where finer owners lie within coarser ones, a group is a coarsest owner with all that is in it. Where they do not
    (a program that several users start), groups join; in the worst case all owners are one group. Show it each chunk
    of the trace with `add` before `partitions` is asked; one owner column alone needs none of that.

    >>> groups = OwnerGroups(("user", "app"))
    >>> table = pa.table({"user": ["ann", "bob", "cid"], "app": ["x", "x", "y"]})
    >>> groups.add(table)
    >>> groups.n_groups, len(set(groups.partitions(table, np.arange(3), 1_000)[:2].tolist()))
    (2, 1)
    """

    def __init__(self, owners: tuple[str, ...]) -> None:
        """owners: the owner columns, coarsest first."""
        self.owners = owners
        self._ids: tuple[dict[str, int], ...] = tuple({} for _ in owners)
        self._parent: list[int] = []
        self._names: list[str] = []

    def add(self, table: pa.Table) -> None:
        """Join the owners that stand in one row of the table."""
        ids = self._rows(table, is_new_kept=True)
        if len(self.owners) < 2 or ids.shape[1] == 0:
            return
        first = _first_known(ids)
        for column in ids:
            linked = np.unique(np.stack([first, column])[:, (column >= 0) & (column != first)], axis=1)
            for one, other in linked.T.tolist():
                self._join(one, other)

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return sum(self._root(each) == each for each in range(len(self._parent)))

    def partitions(self, table: pa.Table, idx_request: np.ndarray, n_partitions: int) -> np.ndarray:
        """The partition of each row, int64 (n,) in 0..n_partitions - 1: a hash of its group's first owner.

        A request without an owner has no owner history: its place in the trace, `idx_request`, decides.
        """
        found = np.asarray(idx_request, np.int64) % n_partitions
        if not self.owners:
            return found
        first = _first_known(self._rows(table, is_new_kept=len(self.owners) == 1))
        has_owner = first >= 0
        known, place = np.unique(first[has_owner], return_inverse=True)
        hashed = np.array([_hash(self._names[self._root(each)]) % n_partitions for each in known.tolist()], np.int64)
        found[has_owner] = hashed[place]
        return found

    def _rows(self, table: pa.Table, *, is_new_kept: bool) -> np.ndarray:
        """Ids of the owners in each row, int64 (n_columns, n); -1 where there is none."""
        rows = np.full((len(self.owners), len(table)), -1, np.int64)
        for row, name, ids in zip(rows, self.owners, self._ids, strict=True):
            column = table[name].combine_chunks()
            coded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
            texts = [None if value is None else str(value) for value in coded.dictionary.to_pylist()]
            for text in texts if is_new_kept else ():
                if text is not None and text not in ids:
                    ids[text] = len(self._parent)
                    self._parent.append(len(self._parent))
                    self._names.append(f"{name}\x1f{text}")
            own = np.array([-1 if text is None else ids[text] for text in texts] or [-1], np.int64)
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            row[:] = np.where(codes < 0, -1, own[codes])
        return rows

    def _root(self, each: int) -> int:
        parent = self._parent
        while parent[each] != each:
            parent[each] = parent[parent[each]]
            each = parent[each]
        return each

    def _join(self, one: int, other: int) -> None:
        low, high = sorted((self._root(one), self._root(other)))
        self._parent[high] = low


def _first_known(ids: np.ndarray) -> np.ndarray:
    """The coarsest owner of each row, int64 (n,), -1 where there is none at all."""
    found = np.full(ids.shape[1], -1, np.int64)
    for column in ids[::-1]:
        found = np.where(column >= 0, column, found)
    return found


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=7).digest(), "big")
