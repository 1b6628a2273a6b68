"""The shared pass over all requests, the partitions by owner, and the joined history.

`SharedHistory` is the pass: means of categories, and removed owners. `OwnerGroups` are owners that
share a request, directly or through others, and must stay in one partition. `owner_replay` gives
the rows of one partition. `merged_history` is the history at the trace's end.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.creation import FeatureRows, decision_times, key_codes, parsed_requests, replayed_rows
from sojourn.features.trace import Trace
from sojourn.serving.inputs import CLOCK_FEATURES, Encoder, HistoryDefinition, HistoryState, Receipt


class SharedHistory:
    """One pass over all requests in the order of decision, chunk by chunk; it holds the running
    requests. Besides categories it has each owner key's table of `n_keys_max` names, without their history.
    """

    def __init__(self, encoder: Encoder) -> None:
        keys = encoder.history.keys
        self._encoder = encoder
        self.definition = encoder.history
        self._idx_categories = [idx for idx, key in enumerate(keys) if key.kind == "category"]
        self._idx_owners = [idx for idx, key in enumerate(keys) if key.kind == "owner"]
        self.state = HistoryState(replace(encoder.history, keys=tuple(keys[idx] for idx in self._idx_categories)))
        self._tables: list[OrderedDict[tuple[str, ...], None]] = [OrderedDict() for _ in self._idx_owners]
        self._running: list[tuple[int, int, int, Receipt]] = []
        self._n = 0

    def replay(self, chunk: RequestChunk) -> tuple[np.ndarray, np.ndarray]:
        """The chunk's category features and whether its owners are new to the table of their key.

        float64 (n, n_features of the category keys), in the definition's order; bool (n,
        n_owner_keys). A new owner has no earlier request, or was removed meanwhile.
        """
        state, running, n_keys_max = self.state, self._running, self._encoder.history.n_keys_max
        features = np.empty((len(chunk), len(state.definition.feature_names())))
        is_new = np.zeros((len(chunk), len(self._idx_owners)), bool)
        times = zip(chunk.decided_s.tolist(), chunk.arrival_s.tolist(), chunk.end_s.tolist(), chunk.is_event.tolist(),
                    strict=True)
        requests = parsed_requests(chunk.table.to_pandas(), self._encoder)
        for idx, ((now_s, arrival_s, end_s, is_event), parsed) in enumerate(zip(times, requests, strict=True)):
            while running and running[0][0] <= now_s:
                ended_s, _, began_s, admission = heapq.heappop(running)
                state.ended(admission, ended_s, began_s)
            keys = tuple([parsed.keys[each] for each in self._idx_categories])
            features[idx] = state.features(keys, now_s)
            admission = state.admit(keys, now_s)
            if is_event and end_s <= now_s:  # ended within the second of its decision: later requests see it
                state.ended(admission, end_s, arrival_s)
            elif is_event:
                heapq.heappush(running, (end_s, self._n, arrival_s, admission))
            self._n += 1
            for place, (table, each) in enumerate(zip(self._tables, self._idx_owners, strict=True)):
                key = parsed.keys[each]
                if key is None:
                    continue
                if key in table:
                    table.move_to_end(key)
                    continue
                is_new[idx, place] = True
                if len(table) >= n_keys_max:
                    table.popitem(last=False)
                table[key] = None
        return features, is_new

    def finish(self) -> None:
        """Record the ends after the last decision."""
        while self._running:
            ended_s, _, began_s, admission = heapq.heappop(self._running)
            self.state.ended(admission, ended_s, began_s)


def owner_arrays(partition: PartitionRows) -> dict[str, np.ndarray]:
    """A partition's owners as plain arrays: `HistoryState.to_arrays`, and the latest arrival of each.

    `N:latest`: int64, by owner key, the row in the whole trace of each owner's latest arrival, in the order of the
    arrivals. `N:is_ended`: uint8, whether one of its requests ended; those owners are in the other arrays.
    """
    history = partition.history
    cut = history.cut()
    arrays = history.to_arrays()
    for idx in range(len(history.definition.keys)):
        numbers = np.array([cut.order[owner.slot] for owner in cut.owners[idx]], np.int64)
        by_arrival = np.argsort(numbers, kind="stable")
        arrays[f"{idx}:latest"] = partition.row[numbers[by_arrival]]
        arrays[f"{idx}:is_ended"] = np.array([owner.n_ended > 0 for owner in cut.owners[idx]], np.uint8)[by_arrival]
    history.release()
    return arrays


def merged_history(definition: HistoryDefinition, shared: HistoryState,
                   partitions: Sequence[Mapping[str, np.ndarray]]) -> HistoryState:
    """The history of the whole trace, without running requests, as from `HistoryState.from_arrays`.
    shared: of the categories (`SharedHistory.state`). partitions: see `owner_arrays`. A table keeps
    the owners with the latest arrivals, as in a replay.
    """
    arrays: dict[str, np.ndarray] = {"overall": shared.to_arrays()["overall"]}
    n_owner = n_category = 0
    of_categories = shared.to_arrays()
    for idx, key in enumerate(definition.keys):
        if key.kind == "category":
            prefix, n_category = f"{n_category}:", n_category + 1
            arrays |= {f"{idx}:{name.removeprefix(prefix)}": array for name, array in of_categories.items()
                       if name.startswith(prefix)}
        else:
            arrays |= {f"{idx}:{name}": array
                       for name, array in _owners(n_owner, len(key.columns), definition.n_keys_max, partitions).items()}
            n_owner += 1
    return HistoryState.from_arrays(definition, arrays)


_BY_OWNER = ("ended_n", "last")


def _owners(place: int, n_columns: int, n_max: int,
            partitions: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of one owner key over all partitions, in the order of the latest arrivals."""
    def concatenated(name: str) -> np.ndarray:
        return np.concatenate([each[f"{place}:{name}"] for each in partitions])

    latest, is_ended = concatenated("latest"), concatenated("is_ended")
    is_kept = np.ones(len(latest), bool)
    if len(latest) > n_max:
        is_kept = latest >= np.partition(latest, len(latest) - n_max)[len(latest) - n_max]
    ended_owners = np.flatnonzero(is_ended)
    order = np.argsort(latest[ended_owners], kind="stable")
    order = order[is_kept[ended_owners[order]]]
    arrays = {name: concatenated(name)[order] for name in _BY_OWNER}
    arrays["length"], arrays["text"] = _in_order(concatenated("length"), concatenated("text"), order, n_columns)
    for name in ("group", "recent"):
        counts = concatenated(f"{name}_n")
        arrays[f"{name}_n"], arrays[name] = counts[order], _rows_in_order(counts, concatenated(name), order)
    return arrays


def _in_order(length: np.ndarray, text: np.ndarray, order: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    by_name = length.reshape(-1, n_columns)
    return by_name[order].reshape(-1), _rows_in_order(by_name.sum(axis=1), text, order)


def _rows_in_order(counts: np.ndarray, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Consecutive pieces of `counts` rows each, concatenated in another order."""
    starts = np.cumsum(counts) - counts
    lengths = counts[order]
    offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(rows[np.repeat(starts[order], lengths) + offset])


ROW = "row"
"""Column of a partition: the index of a request in the order of decision of the whole trace."""
NEW, SHARED = "new:", "x:"
"""Prefixes of a partition's columns: whether the owner is new to a key's table; a feature of the shared pass."""
LABELS = ("decided_s", "arrival_s", "end_s", "is_event", "idx_request")
_NEVER_S = np.iinfo(np.int64).max
_UNBOUNDED = 2**62 - 1


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The feature rows of a partition, and its owners at the end.

    row: int64 (n,), rising, see ROW. history: of the owner keys alone. """

    rows: FeatureRows
    row: np.ndarray
    history: HistoryState


def owner_replay(partition: pd.DataFrame, encoder: Encoder, begin_s: int = 0) -> PartitionRows:
    """The features of a partition's requests, equal to the bit to those of the whole trace's replay.

    partition: the encoder's columns, ROW, LABELS, and those with the prefixes NEW and SHARED; rows in the order of
    decision. It must hold all requests of each of its owners. begin_s: of the trace.
    """
    definition = encoder.history
    idx_owners = [idx for idx, key in enumerate(definition.keys) if key.kind == "owner"]
    by_owner = replace(definition, keys=tuple(definition.keys[idx] for idx in idx_owners), n_keys_max=_UNBOUNDED)
    own_encoder = Encoder(encoder.numbers, encoder.names, by_owner, encoder.phase_s)
    parsed = list(parsed_requests(partition, encoder))
    owners = [each._replace(keys=tuple([each.keys[idx] for idx in idx_owners])) for each in parsed]
    is_new = np.stack([partition[f"{NEW}{definition.keys[idx].name}"].to_numpy(bool) for idx in idx_owners], axis=1
                      ) if idx_owners else np.zeros((len(parsed), 0), bool)
    history = HistoryState(by_owner)

    def forget(idx: int) -> None:
        for place in np.flatnonzero(is_new[idx]).tolist():
            history.forget(place, owners[idx].keys[place])

    decided_s, arrival_s, end_s, is_event, idx_request = (partition[name].to_numpy() for name in LABELS)
    replayed = replayed_rows(own_encoder, history, owners, decided_s.tolist(), arrival_s.tolist(),
                             np.where(is_event, end_s, _NEVER_S).tolist(), forget)
    names = encoder.feature_names()
    features = np.empty((len(parsed), len(names)))
    made_at = {name: idx for idx, name in enumerate(own_encoder.feature_names())}
    n_creation = len(encoder.numbers) + len(CLOCK_FEATURES)
    for idx, name in enumerate(names):
        is_made = idx < n_creation or name in made_at
        features[:, idx] = replayed[:, made_at[name]] if is_made else partition[f"{SHARED}{name}"].to_numpy()
    keys = tuple(key_codes([each.keys[idx] for each in parsed]) for idx in range(len(definition.keys)))
    rows = FeatureRows(features, names, keys, tuple(key.name for key in definition.keys), decided_s, arrival_s,
                       end_s - arrival_s, is_event, idx_request, begin_s=begin_s)
    return PartitionRows(rows, partition[ROW].to_numpy(np.int64), history)


class OwnerGroups:
    """Groups of owners of all owner columns; no owner of any column is in two groups. If finer
    owners are within coarser ones, a group is a coarsest owner with its finer ones. If not (a
    program that several users start), groups join; in the worst case all owners are one group.
    `add` each chunk of the trace before `partitions`; a single owner column does not need it.

    >>> groups = OwnerGroups(("user", "app"))
    >>> table = pa.table({"user": ["ann", "bob", "cid"], "app": ["x", "x", "y"]})
    >>> groups.add(table)
    >>> groups.n_groups, len(set(groups.partitions(table, np.arange(3), 1_000)[:2].tolist()))
    (2, 1)
    """

    def __init__(self, owners: tuple[str, ...]) -> None:
        self.owners = owners
        self._ids: tuple[dict[str, int], ...] = tuple({} for _ in owners)
        self._parent: list[int] = []
        self._names: list[str] = []

    def add(self, table: pa.Table) -> None:
        """Join the owners in each row of the table."""
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
        """Number of groups."""
        return sum(self._root(each) == each for each in range(len(self._parent)))

    def partitions(self, table: pa.Table, idx_request: np.ndarray, n_partitions: int) -> np.ndarray:
        """The partition of each row, int64 (n,) in 0..n_partitions - 1: a hash of its group's first owner.

        A request without an owner has no owner history: its index in the trace, `idx_request`, decides.
        """
        partition = np.asarray(idx_request, np.int64) % n_partitions
        if not self.owners:
            return partition
        first = _first_known(self._rows(table, is_new_kept=len(self.owners) == 1))
        has_owner = first >= 0
        distinct, place = np.unique(first[has_owner], return_inverse=True)
        hashes = np.array([_hash(self._names[self._root(each)]) % n_partitions for each in distinct.tolist()], np.int64)
        partition[has_owner] = hashes[place]
        return partition

    def _rows(self, table: pa.Table, *, is_new_kept: bool) -> np.ndarray:
        """Ids of the owners in each row, int64 (n_columns, n); -1 where missing."""
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
            id_of_code = np.array([-1 if text is None else ids[text] for text in texts] or [-1], np.int64)
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            row[:] = np.where(codes < 0, -1, id_of_code[codes])
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
    """The coarsest owner of each row, int64 (n,), -1 where there is none."""
    owner = np.full(ids.shape[1], -1, np.int64)
    for column in ids[::-1]:
        owner = np.where(column >= 0, column, owner)
    return owner


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=7).digest(), "big")


REQUESTS_PER_PARTITION = 250_000


def partition_count(n_requests: int) -> int:
    """The number of partitions of a trace of so many requests; it depends on nothing else.

    >>> partition_count(1_000), partition_count(1_000_000)
    (2, 4)
    """
    return max(2, -(-n_requests // REQUESTS_PER_PARTITION))


def partition_tables(chunks: Iterable[RequestChunk], groups: OwnerGroups, shared: SharedHistory,
                     n_partitions: int) -> Iterator[tuple[int, pa.Table]]:
    """For each chunk, each partition and the table of its requests; `owner_replay` takes all tables
    of one partition. groups: after `add` of all chunks. shared: replays each chunk; `finish` it afterwards.
    """
    keys = shared.definition.keys
    owners = [key.name for key in keys if key.kind == "owner"]
    categories = [name for key in keys if key.kind == "category" for name in key.feature_names()]
    n_before = 0
    for chunk in chunks:
        features, is_new = shared.replay(chunk)
        table = chunk.table
        columns = {ROW: np.arange(n_before, n_before + len(chunk)), "decided_s": chunk.decided_s,
                   "arrival_s": chunk.arrival_s, "end_s": chunk.end_s, "is_event": chunk.is_event,
                   "idx_request": chunk.idx_request}
        columns |= {f"{NEW}{name}": is_new[:, place] for place, name in enumerate(owners)}
        columns |= {f"{SHARED}{name}": features[:, place] for place, name in enumerate(categories)}
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        n_before += len(chunk)
        part = groups.partitions(chunk.table, chunk.idx_request, n_partitions)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(n_partitions + 1)).tolist()
        for place in range(n_partitions):
            if bounds[place] < bounds[place + 1]:
                yield place, table.take(pa.array(order[bounds[place]:bounds[place + 1]]))


N_AT_ONCE = 250_000


@dataclass(frozen=True, slots=True)
class RequestChunk:
    """Requests of known start, in the order of decision.

    table: the columns that an encoder reads, with pandas' metadata. decided_s, arrival_s, end_s: int64 (n,); end_s is
    the horizon where `is_event` is False. idx_request: int64 (n,), the index in the trace.
    """

    table: pa.Table
    decided_s: np.ndarray
    arrival_s: np.ndarray
    end_s: np.ndarray
    is_event: np.ndarray
    idx_request: np.ndarray

    def __len__(self) -> int:
        return len(self.decided_s)


def chunks_of(trace: Trace, columns: tuple[str, ...], n_at_once: int = N_AT_ONCE) -> Iterator[RequestChunk]:
    """The requests of a trace in chunks of up to `n_at_once`, in the order in which `build_rows` replays them.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [5, 6], "departure_s": [9, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 8.0]})
    >>> [(chunk.decided_s.tolist(), chunk.end_s.tolist()) for chunk in chunks_of(Trace(table, 10), ("cpu_cores",), 1)]
    [([5], [9]), ([6], [10])]
    """
    idx_request = np.flatnonzero(trace.is_start_known())
    decided_s = decision_times(trace)
    order = idx_request[np.argsort(decided_s[idx_request], kind="stable")]
    start_s, end_s, is_event = trace.start_s(), trace.end_s(), trace.is_event()
    table = pa.Table.from_pandas(trace.requests[list(columns)], preserve_index=False)
    for first in range(0, len(order), n_at_once):
        idx = order[first:first + n_at_once]
        yield RequestChunk(table.take(pa.array(idx)), decided_s[idx], start_s[idx], end_s[idx], is_event[idx], idx)
