"""The history at the trace's end, put together from the partitions' owners and the shared pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sojourn.features.partitions.owner_replay import PartitionRows
from sojourn.serving.inputs import HistoryDefinition, HistoryState


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
    """The history of the whole trace, without what runs, as `HistoryState.from_arrays` would give it.

    shared: the categories' (`SharedHistory.state`). partitions: see `owner_arrays`. A table keeps the owners whose
    latest arrivals are latest, as it does when they come one after the other.
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
    """The arrays of one owner key: those of the partitions in the order of the latest arrivals."""
    def joined(name: str) -> np.ndarray:
        return np.concatenate([each[f"{place}:{name}"] for each in partitions])

    latest, is_ended = joined("latest"), joined("is_ended")
    is_kept = np.ones(len(latest), bool)
    if len(latest) > n_max:
        is_kept = latest >= np.partition(latest, len(latest) - n_max)[len(latest) - n_max]
    ended = np.flatnonzero(is_ended)
    order = np.argsort(latest[ended], kind="stable")
    order = order[is_kept[ended[order]]]
    found = {name: joined(name)[order] for name in _BY_OWNER}
    found["length"], found["text"] = _in_order(joined("length"), joined("text"), order, n_columns)
    for name in ("group", "recent"):
        counts = joined(f"{name}_n")
        found[f"{name}_n"], found[name] = counts[order], _rows_in_order(counts, joined(name), order)
    return found


def _in_order(length: np.ndarray, text: np.ndarray, order: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Names of `n_columns` parts in another order."""
    by_name = length.reshape(-1, n_columns)
    return by_name[order].reshape(-1), _rows_in_order(by_name.sum(axis=1), text, order)


def _rows_in_order(counts: np.ndarray, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Of consecutive pieces of `counts` rows each, those in `order`, one after the other."""
    starts = np.cumsum(counts) - counts
    taken = counts[order]
    offset = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
    return np.asarray(rows[np.repeat(starts[order], taken) + offset])
