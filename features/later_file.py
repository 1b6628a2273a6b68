"""A trace of two files: the past, for fitting models, and a later one, for judging them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.trace import RESOURCES, SEEN_FROM, SEEN_TO, Trace, moved_times

OVERLAP_MAX = 0.05
"""The largest share of requests of the later file with a start before the past's end, by default."""
KNOWN_MIN = 0.1
"""A doubt is printed if fewer owners of the later file than this share are known in the past."""
TEST_FROM, LATER_FROM = "test_from_s", "later_from_s"
"""Keys of a joined trace's `meta`: the past's end, and the start of the later file's observation if later."""


def with_later(past: Trace, later: Trace, *, offset_s: int | None = None, file_ids: Collection[str] = (),
               is_overlap_allowed: bool = False) -> tuple[Trace, tuple[str, ...]]:
    """One trace of both files on the past's clock, and notes on their requests, a line each.

    offset_s: the later file's begin on the past's clock; None if both have dates. file_ids: owner
    columns, or `request_id`, whose values are valid within one file only; they stay distinct.
    Values of other columns mean the same in both. is_overlap_allowed: see `OVERLAP_MAX`.

    No data of the later file is known before the past's end:

    - A request that runs at the past's end is censored there. The later file's request with the same id, the same
      owners and the same start (or an unknown one) is the same request and has its end. Else it leaves
      observation at the past's end, and its owner's history without an end.
    - A request of the later file that was submitted or began earlier is observed from the past's end on
      (or from the later file's begin, if later): its prediction is at that time, and it enters at its age
      (left truncation). One that had ended by then is dropped.

    Raises ValueError if the clocks do not give the offset, the later file lacks a column or ends
    before the past, or more of its requests than `OVERLAP_MAX` began before the past's end.

    >>> names = ["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]
    >>> one = Trace(pd.DataFrame([[1, 0, 30, 1.0, 1.0], [2, 50, None, 1.0, 1.0]], columns=names), 100)
    >>> two = Trace(pd.DataFrame([[2, -50, 10, 1.0, 1.0], [3, 20, 60, 1.0, 1.0]], columns=names), 80)
    >>> joined, _ = with_later(one, two, offset_s=100)
    >>> joined.requests[["request_id", "arrival_s", "departure_s"]].values.tolist()
    [[1, 0, 30], [2, 50, 110], [3, 120, 160]]
    >>> joined.horizon_s, joined.meta["test_from_s"]
    (180, 100)
    """
    end_s, begin_s = past.horizon_s, _begin(past, later, offset_s)
    horizon_s = begin_s + later.span_s
    if horizon_s <= end_s:
        raise ValueError(f"test must end after the trace's end, second {end_s:,} of the trace's clock, got second "
                         f"{horizon_s:,}")
    from_s = max(end_s, begin_s)
    first, second = _same_columns(past, later)
    second = moved_times(second, begin_s - later.begin_s, past.roles)
    for name in (name for name in file_ids if name in past.roles.columns()):
        second[name] = _with_prefix(first[name], second[name])
    first = first[_known_from_s(first) < end_s].reset_index(drop=True)
    first[SEEN_TO] = pd.array([end_s] * len(first), "Int64")
    first.loc[first["departure_s"].notna(), SEEN_TO] = pd.NA
    first[SEEN_FROM] = pd.array([pd.NA] * len(first), "Int64")
    owners = past.roles.owners
    same_first, same_second = (_same_requests(first, second, owners) if "request_id" not in file_ids
                               else (np.empty(0, np.int64), np.empty(0, np.int64)))
    ends = second["departure_s"].to_numpy("float64", na_value=np.inf)[same_second]
    is_open = first["departure_s"].isna().to_numpy()[same_first] & (ends > end_s)
    pairs, at = same_first[is_open], same_second[is_open]
    first.loc[pairs, "departure_s"] = second["departure_s"].iloc[at].to_numpy()
    first.loc[pairs, SEEN_TO] = pd.NA
    second = second.drop(index=second.index[same_second])

    decided_s = _known_from_s(second)
    is_gone = (second["departure_s"] <= from_s).fillna(False).to_numpy(bool) & (decided_s < from_s)
    is_early = second["arrival_s"].notna().to_numpy() & (decided_s < end_s)
    n_early, share = int(is_early.sum()), float(is_early.mean()) if len(second) else 0.0
    if begin_s < end_s and share > OVERLAP_MAX and not is_overlap_allowed:
        raise ValueError(f"test must begin at the trace's end, second {end_s:,}: at most {OVERLAP_MAX:.0%} of its "
                         f"requests may be earlier, got {share:.1%} ({n_early:,}); --allow-overlap takes them at their "
                         "age at that second, and --test-offset-s says where the file lies")
    second, decided_s = second[~is_gone], decided_s[~is_gone]
    second[SEEN_TO] = pd.array([pd.NA] * len(second), "Int64")
    second[SEEN_FROM] = pd.array(np.where(decided_s < from_s, from_s, 0), "Int64")
    second.loc[decided_s >= from_s, SEEN_FROM] = pd.NA
    second["request_id"] = _ids_apart(first["request_id"], second["request_id"])
    if pd.api.types.is_numeric_dtype(first["request_id"]) != pd.api.types.is_numeric_dtype(second["request_id"]):
        first["request_id"] = first["request_id"].astype(str)
    requests = pd.concat([first, second], ignore_index=True)
    for name in past.roles.owners + past.roles.categories:
        requests[name] = requests[name].astype("category")
    n_lost = int(first[SEEN_TO].notna().sum())
    lines = (f"the trace's end is second {end_s:,}; the test file begins at second {begin_s:,}",
             f"requests of the trace that still ran at its end: {len(pairs):,} followed in the test file by their id, "
             f"{n_lost:,} not",
             f"requests of the test file: {len(second):,}, of which {int(second[SEEN_FROM].notna().sum()):,} began "
             f"before second {from_s:,} and enter at their age; {int(is_gone.sum()):,} that ended before it left out, "
             f"{len(same_second):,} are the trace's own",
             *_owner_lines(first, second, owners))
    meta = {**past.meta, TEST_FROM: end_s, LATER_FROM: from_s, "later_source": str(later.meta.get("source", "")),
            "known_at_end": sorted({*past.meta.get("known_at_end", ()), *later.meta.get("known_at_end", ())})}
    hosts = past.hosts if later.hosts is None else later.hosts
    return Trace(requests, horizon_s, past.roles, hosts, None, meta), lines


def _owner_lines(first: pd.DataFrame, second: pd.DataFrame, owners: Sequence[str]) -> list[str]:
    """A line on the coarsest owner: if few are known, names may have another form, or it is another cluster."""
    if not owners or second[owners[0]].notna().sum() == 0:
        return []
    owner_names = second[owners[0]].dropna()
    n_known = int((pd.Index(first[owners[0]].dropna().unique()).get_indexer(pd.Index(owner_names)) >= 0).sum())
    doubt = "check: " if n_known < KNOWN_MIN * len(owner_names) else ""
    return [f"{doubt}requests of the test file whose {owners[0]} the trace knows: {n_known:,} of {len(owner_names):,}"]


def test_from_s(meta: Mapping[str, Any]) -> int | None:
    """The past's end of a joined trace, from its meta; None for a trace of one file.

    >>> test_from_s({"test_from_s": 100}), test_from_s({})
    (100, None)
    """
    time_s = meta.get(TEST_FROM)
    return None if time_s is None else int(time_s)


def _begin(past: Trace, later: Trace, offset_s: int | None) -> int:
    if not (past.is_dated and later.is_dated):
        if offset_s is None:
            undated = [name for name, trace in (("trace", past), ("test", later)) if not trace.is_dated]
            raise ValueError(f"test_offset_s must be given where a file has no dates ({' and '.join(undated)}), got "
                             "none: --test-offset-s SECONDS says where the test file's begin lies on the trace's "
                             f"clock, which ends at {past.horizon_s:,}")
        return int(offset_s)
    if offset_s is not None and int(offset_s) != later.begin_s:
        raise ValueError("test_offset_s must be left out where both files are dated: their dates say "
                         f"{later.begin_s:,}, got {offset_s!r}")
    return later.begin_s


def _same_columns(past: Trace, later: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables with the past's columns; models of the past do not read others."""
    needed = (*past.resources, *past.roles.columns())
    missing = [name for name in needed if name not in later.requests and name not in RESOURCES]
    if missing:
        raise ValueError(f"test must have the trace's columns, got none called {missing[0]!r}: give --test-reader, or "
                         "map its columns")
    first, second = past.requests.copy(), later.requests.copy()
    for name in past.resources:
        if name not in second:  # a file without GPUs
            second[name] = 0.0
    if "submit_s" in first or "submit_s" in second:
        for table, trace in ((first, past), (second, later)):
            if "submit_s" not in table:
                table["submit_s"] = trace.start_s()
    for name in past.roles.owners + past.roles.categories:
        first[name], second[name] = _as_names(first[name], second[name])
    for name in past.roles.numbers:
        first[name], second[name] = (pd.to_numeric(column, errors="coerce") for column in (first[name], second[name]))
    names = [name for name in first if name in second]
    return first[names], second[names]


def _as_names(one: pd.Series, other: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Both columns as text if their types differ or are categories: 7 and 7.0 (in a column with
    missing values) are one name."""
    if one.dtype == other.dtype and not isinstance(one.dtype, pd.CategoricalDtype):
        return one, other
    return _as_text(one), _as_text(other)


def _as_text(column: pd.Series) -> pd.Series:
    values = column.astype(object)
    return values.where(column.notna(), None).map(
        lambda value: str(int(value)) if isinstance(value, float) and value.is_integer() else str(value),
        na_action="ignore")


def _with_prefix(one: pd.Series, other: pd.Series) -> pd.Series:
    """The second column with a prefix, so that no value is in the first."""
    prefix = _free_prefix(one.dropna().astype(str).unique())
    return _as_text(other).map(lambda value: f"{prefix}{value}", na_action="ignore")


def _free_prefix(values: Iterable[str]) -> str:
    """A prefix of none of these values."""
    texts, prefix = list(values), "test:"
    while any(value.startswith(prefix) for value in texts):
        prefix = f"test:{prefix}"
    return prefix


def _ids_apart(one: pd.Series, other: pd.Series) -> pd.Series:
    """The second file's ids, with a prefix where the first file has them, or if types differ."""
    is_number = [pd.api.types.is_numeric_dtype(column) for column in (one, other)]
    ids = pd.Index(one.astype(str))
    text = other.astype(str)
    if is_number[0] == is_number[1] and not text.isin(ids).any():
        return other
    return text.where(~text.isin(ids), _free_prefix(ids) + text)


def _known_from_s(requests: pd.DataFrame) -> np.ndarray:
    """The first known time of a request, int64 (n,); an unknown start is before all."""
    start = requests["arrival_s"].fillna(np.iinfo(np.int64).min // 2).to_numpy(np.int64)
    return np.minimum(start, requests["submit_s"].to_numpy(np.int64)) if "submit_s" in requests else start


def _same_requests(first: pd.DataFrame, second: pd.DataFrame, owners: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of requests in both tables: the same id and owners, and the same start or an unknown one."""
    at = pd.Index(first["request_id"].astype(str)).get_indexer(pd.Index(second["request_id"].astype(str)))
    there = np.flatnonzero(at >= 0)
    one, other = first.iloc[at[there]], second.iloc[there]
    starts = [table["arrival_s"].to_numpy("float64", na_value=np.nan) for table in (one, other)]
    is_same = np.isnan(starts[1]) | (starts[0] == starts[1])
    for name in owners:
        is_same &= one[name].astype(str).to_numpy() == other[name].astype(str).to_numpy()
    return at[there][is_same], there[is_same]
