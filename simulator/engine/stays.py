"""When which request held room on which host, in a replay or in its part so far; and when hosts were empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.simulator.loop import NOT_PLACED
from sojourn.simulator.rectification import Spells


class Stays:
    """From when to when each request held room on which host, migrations in between."""

    def __init__(self, begun: np.ndarray, requests: np.ndarray, duration_s: int, *, from_s: int = 0,
                 until_s: int | None = None) -> None:
        """begun: int64 (n, 3), row, target and begin of all migrations, by their begin. requests: the loop's. from_s:
        requests that ended by then are left out. until_s: the time that the replay has reached; None = its end.
        """
        ends_s = requests["ends_s"] if until_s is None else np.minimum(requests["ends_s"], until_s)
        rows = np.flatnonzero((requests["first_host"] != NOT_PLACED) & (ends_s > from_s))
        since_s = (requests["arrival_s"] + requests["wait_s"])[rows]
        host, to_s = requests["first_host"][rows].copy(), ends_s[rows].copy()
        begun = begun[np.isin(begun[:, 0], rows)]
        further = np.zeros((len(begun), 4), np.int64)
        last = {int(row): int(np.searchsorted(rows, row)) for row in set(begun[:, 0].tolist())}
        for k, (row, target, begun_s) in enumerate(begun.tolist()):
            end_s, at = int(ends_s[row]), last[row]
            if at < len(rows):
                to_s[at] = min(end_s, begun_s + duration_s)
            else:
                further[at - len(rows), 3] = min(end_s, begun_s + duration_s)
            further[k] = row, target, begun_s, end_s
            last[row] = len(rows) + k
        self._row = np.append(rows, further[:, 0])
        host = np.append(host, further[:, 1])
        since_s = np.append(since_s, further[:, 2])
        order = np.lexsort((since_s, host))
        self._host, self._row = host[order], self._row[order]
        self._from_s, self._to_s = since_s[order], np.append(to_s, further[:, 3])[order]

    def of(self, host: int, but: Sequence[int] = ()) -> np.ndarray:
        """Stays on a host, int64 (n, 2), from and to, by the first; but: without those of these requests."""
        own = slice(*np.searchsorted(self._host, [host, host + 1]))
        stays = np.stack([self._from_s[own], self._to_s[own]], axis=1)
        return np.asarray(stays[~np.isin(self._row[own], list(but))])

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Host, begin and end of all stays, by host and then by begin; int64 (n,)."""
        return self._host, self._from_s, self._to_s

    def empty_spells(self, now_s: int) -> Spells:
        """When hosts that had been in use were empty, up to now."""
        if len(self._host) == 0:
            return Spells(self._host, self._host, self._host)
        far_s = now_s + 1  # keeps hosts apart, so that one running maximum serves all
        emptied_s = np.maximum.accumulate(self._host * far_s + self._to_s) - self._host * far_s
        is_last = np.append(self._host[1:] != self._host[:-1], True)
        used_s = np.where(is_last, now_s, np.append(self._from_s[1:], now_s))
        is_spell = used_s > emptied_s
        return Spells(self._host[is_spell], emptied_s[is_spell], used_s[is_spell])


def gaps(stays: np.ndarray, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """The spans of a time in which no stay holds; stays by their begin, int64 (n, 2)."""
    stays = stays[(stays[:, 1] > from_s) & (stays[:, 0] < to_s)]
    ends = np.maximum.accumulate(np.append(from_s, stays[:, 1]))
    begins = np.append(stays[:, 0], max(to_s, from_s))
    return [(int(end), int(begin)) for end, begin in zip(ends, begins, strict=True) if begin > end]
