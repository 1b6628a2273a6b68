"""Splits by time: only data known at the cut, and none after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.features.creation import FeatureRows


@dataclass(frozen=True, slots=True)
class Examples:
    """Feature rows with survival labels as known at one moment.

    features: float64 (n, n_features). keys: int64 codes (n,) of each history key. lifetime_s: float64 (n,), at least 1.
    is_event: bool (n,), False = censored. entry_s: float64 (n,), the age at which the request came under observation
    (0: from its start). arrival_s: int64 (n,). idx_row: int64 (n,), the row of the FeatureRows. begin_s: of the trace.
    """

    features: np.ndarray
    keys: tuple[np.ndarray, ...]
    lifetime_s: np.ndarray
    is_event: np.ndarray
    entry_s: np.ndarray
    arrival_s: np.ndarray
    idx_row: np.ndarray
    begin_s: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.features)

    def take(self, idx: np.ndarray) -> Examples:
        """The examples at `idx` (int64 positions or a bool mask)."""
        return Examples(self.features[idx], tuple(key[idx] for key in self.keys), self.lifetime_s[idx],
                        self.is_event[idx], self.entry_s[idx], self.arrival_s[idx], self.idx_row[idx],
                        begin_s=self.begin_s)

    def without_features(self) -> Examples:
        """The same examples for what reads labels alone: `take` then copies no features. Shape (n, 0)."""
        return replace(self, features=self.features[:, :0])


@dataclass(frozen=True, slots=True)
class Split:
    """Three windows by decision time, and the moments between them (seconds).

    train: decided before `valid_from_s`, labels as known then. valid: decided before `test_from_s`, labels as
    known then. past: both together, labels as known at `test_from_s` (for the final fit). test: the rest.
    """

    train: Examples
    valid: Examples
    past: Examples
    test: Examples
    valid_from_s: int
    test_from_s: int


def split_by_time(rows: FeatureRows, test_share: float = 0.3, valid_share: float = 0.15, *, from_s: int = 0,
                  test_from_s: int | None = None) -> Split:
    """Split by decision time: the last `test_share` of requests test, `valid_share` of the rest validates.

    A request that runs at a cut is censored there; one that was decided but did not yet run is
    dropped. Raises ValueError if a window would be empty.

    from_s: start of the training window. Shares are of the requests decided from then on. A request
    that was decided before is in `train` if it still ran then, from its age at that moment on (left
    truncation), since its earlier time, and ended requests, are outside the window. Feature rows do
    not change: the history at a decision is of all times before it.

    test_from_s: start of the test window instead of its share: in a trace of two files, the end of the first.
    """
    for name, share in (("test_share", test_share), ("valid_share", valid_share)):
        if not 0.0 < share < 1.0:
            raise ValueError(f"{name} must be between 0 and 1, got {share!r}")
    is_taken = rows.decided_s >= from_s if from_s > rows.begin_s else np.ones(len(rows), bool)
    if test_from_s is not None:
        is_taken &= rows.decided_s < test_from_s
    decided = np.sort(rows.decided_s[is_taken])
    n = len(decided)
    if n < 10:
        since = f" decided from second {from_s} on" if from_s > rows.begin_s else ""
        raise ValueError(f"a trace must have at least 10 requests with a known start{since} to be split, got {n}")
    if test_from_s is None:
        test_from_s = int(decided[int(n * (1.0 - test_share))])
    n_past = int(np.searchsorted(decided, test_from_s))
    valid_from_s = int(decided[int(n_past * (1.0 - valid_share))])
    is_train = rows.decided_s < valid_from_s
    is_past = rows.decided_s < test_from_s
    split = Split(
        known_at(rows, is_train, valid_from_s, from_s=from_s),
        known_at(rows, is_past & ~is_train, test_from_s, from_s=from_s),
        known_at(rows, is_past, test_from_s, from_s=from_s), known_at(rows, ~is_past, None), valid_from_s, test_from_s,
    )  # fmt: skip
    for name in ("train", "valid", "test"):
        if len(getattr(split, name)) == 0:
            raise ValueError(f"the {name} window must hold requests, got none: the windows are cut at seconds "
                             f"{valid_from_s} and {test_from_s} of decision (many requests may share one). Requests "
                             "that ended before the trace's begin, or began after their window's end, are in no window")
    return split


def known_at(rows: FeatureRows, is_taken: np.ndarray, cut_s: int | None, *, is_late_entry: bool = True,
             from_s: int = 0) -> Examples:
    """The chosen rows with labels as known at `cut_s` (None: at the trace's end).

    from_s: at least the trace's begin. is_late_entry: requests that ran before `from_s`, or before
    their prediction, enter at their age then, and those that ended before are dropped; False keeps
    all chosen rows, for predictions instead of labels.
    """
    from_s = max(from_s, rows.begin_s)
    end_s = rows.arrival_s + rows.lifetime_s
    is_event = rows.is_event.copy()
    if cut_s is not None:
        is_event &= end_s <= cut_s
        end_s = np.minimum(end_s, cut_s)
        is_taken = is_taken & (rows.arrival_s < cut_s)
    lifetime_s = np.maximum(end_s - rows.arrival_s, 1).astype(np.float64)
    entry_s = np.maximum(np.maximum(rows.decided_s, from_s) - rows.arrival_s, 0).astype(np.float64)
    if is_late_entry:
        is_taken = is_taken & (entry_s < lifetime_s)
    idx = np.flatnonzero(is_taken)
    has_gaps = len(idx) == 0 or idx[-1] - idx[0] + 1 != len(idx)  # without gaps the features are a view
    features = rows.features[idx if has_gaps else slice(idx[0], idx[-1] + 1)]
    return Examples(features, tuple(key[idx] for key in rows.keys), lifetime_s[idx], is_event[idx], entry_s[idx],
                    rows.arrival_s[idx], idx, begin_s=rows.begin_s)
