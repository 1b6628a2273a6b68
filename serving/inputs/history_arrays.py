"""The parts of a history as plain arrays, as a bundle carries them: names, owners of whom requests ended, categories.

What is read is checked before it is used; ValueError or KeyError where arrays do not fit together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sojourn.serving.inputs.history_definition import HistoryDefinition, HistoryKey
from sojourn.serving.inputs.owner import OwnerState
from sojourn.serving.inputs.running import Group

LOG_LIFETIME_MAX = 20.0
"""No lifetime has a larger log10 of its seconds."""
Name = tuple[str, ...]


def ended_arrays(prefix: str, owners: Mapping[Name, OwnerState]) -> dict[str, np.ndarray]:
    """Owners of whom requests ended, by name, as arrays; what runs is left out."""
    states = list(owners.values())
    groups = [owner.batch_groups() for owner in states]
    return packed_names(prefix, owners) | {
        f"{prefix}:ended_n": np.array([owner.n_ended for owner in states], np.int64),
        f"{prefix}:last": np.array([owner.last_ended_s for owner in states], np.int64),
        f"{prefix}:group_n": np.array([len(each) for each in groups], np.int64),
        f"{prefix}:group": np.array([group for each in groups for group in each], np.int64).reshape(-1, 3),
        f"{prefix}:recent_n": np.array([len(owner.recent) // 8 for owner in states], np.int64),
        f"{prefix}:recent": np.frombuffer(b"".join(owner.recent for owner in states), np.float64),
    }


def ended_owners(prefix: str, arrays: Mapping[str, np.ndarray], names: Sequence[Name],
                 definition: HistoryDefinition) -> dict[Name, OwnerState]:
    """What `ended_arrays` packed."""
    n = len(names)
    ended_n, last, group_n, group, recent_n = (checked_array(arrays, f"{prefix}:{part}", np.int64)
                                               for part in ("ended_n", "last", "group_n", "group", "recent_n"))
    recent = checked_array(arrays, f"{prefix}:recent", np.float64)
    if (any(array.shape != (n,) for array in (ended_n, last, group_n, recent_n)) or (ended_n < 1).any()
            or (group_n < 0).any() or group.shape != (group_n.sum(), 3)
            or (recent_n < 1).any() or (recent_n > np.minimum(ended_n, definition.window)).any()
            or recent.shape != (recent_n.sum(),) or not (np.abs(recent) <= LOG_LIFETIME_MAX).all()):
        raise ValueError(f"the arrays of history key number {prefix} must fit together")
    owners = {}
    groups = np.split(group, np.cumsum(group_n)[:-1]) if n else []
    recents = np.split(recent, np.cumsum(recent_n)[:-1]) if n else []
    for idx, name in enumerate(names):
        owner = owners[name] = OwnerState(0)
        links = [(latest_s, earliest_s, n_ended) for latest_s, earliest_s, n_ended in groups[idx].tolist()]
        check_groups(prefix, links, int(ended_n[idx]), int(last[idx]), definition.batch_gap_s)
        owner.restore(int(ended_n[idx]), int(last[idx]), links, recents[idx].tobytes(), definition.batch_gap_s)
    return owners


def check_groups(prefix: str, groups: Sequence[Group], n_ended: int, last_ended_s: int, batch_gap_s: int) -> None:
    """ValueError unless these can be the groups of ended requests of an owner's batch."""
    after_s = -math.inf
    for latest_s, earliest_s, n in groups:
        if not after_s < earliest_s <= latest_s or n < 1 or (n == 1 and earliest_s < latest_s):
            raise ValueError(f"{prefix}:group must hold (latest, earliest, count) of groups apart, in order")
        after_s = latest_s + batch_gap_s
    if groups and (groups[-1][0] > last_ended_s or sum(n for _, _, n in groups) > n_ended):
        raise ValueError(f"{prefix}:group must hold only requests that ended, none after the last of them")


def category_moments(prefix: str, arrays: Mapping[str, np.ndarray], names: Sequence[Name]) -> dict[Name, list[float]]:
    """Count and mean of log10 lifetimes (s) of each category by name."""
    moments = checked_array(arrays, f"{prefix}:moments", np.float64)
    if moments.shape != (len(names), 2) or not np.isfinite(moments).all() or not (moments[:, 0] >= 1.0).all():
        raise ValueError(f"{prefix}:moments must be counts >= 1 and means of {len(names)} names")
    return dict(zip(names, moments.tolist(), strict=True))


def overall_of(arrays: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Count and mean of log10 lifetimes (s) of all that ended."""
    overall = checked_array(arrays, "overall", np.float64)
    if overall.shape != (2,) or not np.isfinite(overall).all() or overall[0] < 0.0:
        raise ValueError(f"overall must be a count and a mean, got {overall!r}")
    return float(overall[0]), float(overall[1])


def checked_array(arrays: Mapping[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    """The array of this name; ValueError where it has another type, KeyError where there is none."""
    array = arrays[name]
    if array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)}, got {array.dtype}")
    return array


def names_of(prefix: str, arrays: Mapping[str, np.ndarray], key: HistoryKey,
             definition: HistoryDefinition) -> list[Name]:
    """The owners or categories of a history key, each once, no more than the definition allows."""
    names = unpacked_names(prefix, arrays, len(key.columns))
    if len(set(names)) < len(names):
        raise ValueError(f"{prefix}:text must name each key once")
    if len(names) > definition.n_keys_max:
        raise ValueError(f"history key {key.name!r} must have at most {definition.n_keys_max} values, "
                         f"got {len(names)}")
    return names


def packed_names(prefix: str, names: Iterable[Name]) -> dict[str, np.ndarray]:
    """Names as UTF-8 one after the other, and how long each value of each is."""
    parts = [value.encode(errors="surrogatepass") for name in names for value in name]
    return {
        f"{prefix}:text": np.frombuffer(b"".join(parts), np.uint8),
        f"{prefix}:length": np.array([len(part) for part in parts], np.int64),
    }


def unpacked_names(prefix: str, arrays: Mapping[str, np.ndarray], n_columns: int) -> list[Name]:
    """What `packed_names` packed."""
    text = checked_array(arrays, f"{prefix}:text", np.uint8).tobytes()
    length = checked_array(arrays, f"{prefix}:length", np.int64)
    if (length.ndim != 1 or (length < 0).any() or (length > len(text)).any() or length.sum() != len(text)
            or len(length) % n_columns):
        raise ValueError(f"{prefix}:length must cover {prefix}:text in rows of {n_columns}")
    ends = np.cumsum(length).tolist()
    values = [text[end - size:end].decode(errors="surrogatepass")
              for end, size in zip(ends, length.tolist(), strict=True)]
    return [tuple(values[row:row + n_columns]) for row in range(0, len(values), n_columns)]
