"""A predictor's live history as the content of a snapshot, and back: owners, categories, and what runs by its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.checks import LATEST_S
from sojourn.serving.curves import N_AGES, N_BANDS
from sojourn.serving.errors import SnapshotError, shown
from sojourn.serving.inputs import (
    Admission,
    Encoder,
    HistoryCut,
    HistoryState,
    HistoryTerms,
    checked_array,
    whole_arrays,
    whole_history,
    yielding,
)
from sojourn.serving.live.admitted import Admitted, Refreshed, names_of_refresh
from sojourn.serving.live.recalibration import Recalibration
from sojourn.serving.live.snapshot import SnapshotContent

_RUNNING = ("token", "number", "arrival_s", "version", "unknown")
"""Columns of what runs; version and unknown are places in the lists of `state`."""
_REFRESHED = ("running", "now_s", "version")
"""Columns of what was predicted anew: the row in `running`, then as above. Older snapshots have none of it."""
_RECALIBRATION = "recalibration:"
"""Begins the names of the arrays of a `Recalibration`."""
_MISSING = -1
"""Stands for the length of a history key's values that a request did not give."""
_N_VERSIONS_MAX, _N_FEATURES_MAX = 100_000, 4_096


@dataclass(frozen=True, slots=True)
class LiveHistory:
    """What a predictor goes on from.

    names: the features, in order, that each version in `running` encoded a request to. clock_s: the latest time told.
    recalibration: of the version that it names, or None.
    """

    history: HistoryState
    running: Sequence[Admitted]
    names: Mapping[str, tuple[str, ...]]
    clock_s: int | None
    recalibration: tuple[str, Recalibration] | None = None


def content_of(cut: HistoryCut, encoder: Encoder, running: Sequence[Admitted], names: Mapping[str, tuple[str, ...]],
               clock_s: int | None,
               recalibration: tuple[str, Mapping[str, np.ndarray]] | None = None) -> SnapshotContent:
    """What a snapshot of a cut and of what ran then holds. Takes no lock.

    recalibration: the version that it is of, and `Recalibration.to_arrays`.
    """
    versions: dict[str, int] = {}
    unknowns: dict[tuple[str, ...], int] = {}
    rows = np.empty((len(running), len(_RUNNING)), np.int64)
    for idx, one in yielding(running):
        rows[idx] = (one.admission.token, one.admission.number, one.admission.arrival_s,
                     versions.setdefault(one.version, len(versions)), unknowns.setdefault(one.unknown, len(unknowns)))
    arrays = whole_arrays(cut) | {
        "running": rows, "running:feature": np.concatenate([np.empty(0), *(one.features for one in running)]),
    }  # fmt: skip
    again = [(idx, one.refreshed) for idx, one in enumerate(running) if one.refreshed is not None]
    arrays |= {
        "refreshed": np.array([(idx, own.now_s, versions.setdefault(own.version, len(versions)))
                               for idx, own in again], np.int64).reshape(-1, len(_REFRESHED)),
        "refreshed:feature": np.concatenate([np.empty(0), *(own.features for _, own in again)]),
    }  # fmt: skip
    for idx, key in enumerate(cut.definition.keys):
        arrays |= _packed_keys(idx, len(key.columns), running)
    arrays |= _packed_factors(running)
    if recalibration is not None:
        arrays |= {f"{_RECALIBRATION}{name}": array for name, array in recalibration[1].items()}
    terms = HistoryTerms.of(encoder)
    state = {
        "history": dict(terms.definition), "numbers": sorted(terms.numbers), "phase_s": terms.phase_s,
        "n_admitted": cut.n_admitted, "clock_s": clock_s,
        "versions": [{"version": version, "features": list(names[version])} for version in versions],
        "unknowns": [list(unknown) for unknown in unknowns],
    }  # fmt: skip
    if recalibration is not None:
        state["recalibration"] = recalibration[0]
    return SnapshotContent(state, arrays)


def live_history(content: SnapshotContent, encoder: Encoder, version: str) -> LiveHistory:
    """What a snapshot holds, for a bundle of this encoder and version.

    SnapshotError where it is of another history definition or clock, or its parts do not fit together.
    """
    try:
        return _read(content, encoder, version)
    except SnapshotError:
        raise
    except Exception as error:  # whatever numbers that do not fit make numpy raise
        raise SnapshotError(f"the snapshot must hold a whole history, got {type(error).__name__}: {error}") from error


def _read(content: SnapshotContent, encoder: Encoder, version: str) -> LiveHistory:
    state, arrays = content.state, content.arrays
    own = HistoryTerms.of(encoder)
    known = frozenset(document_fields.texts(state["numbers"], "numbers", document_fields.N_COLUMNS_MAX))
    definition = document_fields.history_fields(state["history"])
    if definition.keys() != own.definition.keys():
        raise SnapshotError(f"state.json: history must have the fields {', '.join(own.definition)}")
    clash = HistoryTerms(definition, known, _whole(state["phase_s"], "phase_s")).clash(own, "the snapshot")
    if clash:
        raise SnapshotError(f"version {version}: {clash}")
    n_admitted = _whole(state["n_admitted"], "n_admitted")
    clock_s = None if state["clock_s"] is None else _whole(state["clock_s"], "clock_s")
    names = {}
    for one in document_fields.sequence(state["versions"], "versions", _N_VERSIONS_MAX):
        names[document_fields.text(one["version"], "version")] = document_fields.texts(one["features"], "features",
                                                                                       _N_FEATURES_MAX)
    n_columns = document_fields.N_COLUMNS_MAX + document_fields.N_KEYS_MAX
    unknowns = [document_fields.texts(one, "unknown", n_columns)
                for one in document_fields.sequence(state["unknowns"], "unknowns", len(arrays["running"]))]
    history = whole_history(encoder.history, n_admitted, arrays)
    running = _running(arrays, history, list(names.items()), unknowns, n_admitted)
    recalibration = None
    if "recalibration" in state:
        parts = {name.removeprefix(_RECALIBRATION): array for name, array in arrays.items()
                 if name.startswith(_RECALIBRATION)}
        recalibration = document_fields.text(state["recalibration"], "recalibration"), Recalibration.from_arrays(parts)
    return LiveHistory(history, running, names, clock_s, recalibration)


def _running(arrays: Mapping[str, np.ndarray], history: HistoryState, names: Sequence[tuple[str, tuple[str, ...]]],
             unknowns: Sequence[tuple[str, ...]], n_admitted: int) -> list[Admitted]:
    rows = checked_array(arrays, "running", np.int64)
    features = checked_array(arrays, "running:feature", np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(_RUNNING):
        raise ValueError(f"running must have {len(_RUNNING)} columns, got shape {rows.shape}")
    token, number, arrival_s, version, unknown = rows.T
    if ((token < 0) | (number < 0) | (number >= n_admitted) | (arrival_s <= -LATEST_S) | (arrival_s >= LATEST_S)
            | (version < 0) | (version >= len(names)) | (unknown < 0) | (unknown >= len(unknowns))).any():
        raise ValueError(f"running must be rows of {', '.join(_RUNNING)} within their bounds")
    if len(np.unique(number)) < len(number):
        raise ValueError("running must name each admission once")
    n_features = np.array([len(own) for _, own in names], np.int64)[version]
    ends = np.cumsum(n_features).tolist()
    if features.shape != (n_features.sum(),):
        raise ValueError(f"running:feature must be {n_features.sum()} numbers, got shape {features.shape}")
    keys = [_unpacked_keys(idx, len(key.columns), arrays, len(rows))
            for idx, key in enumerate(history.definition.keys)]
    refreshed = _refreshed(arrays, names, len(rows)) if "refreshed" in arrays else {}
    factors = _unpacked_factors(arrays, len(rows)) if "given:place" in arrays else {}
    running = []
    for idx, row in yielding(rows.tolist()):
        admission = Admission(row[0], row[1], tuple(own[idx] for own in keys), row[2])
        encoded = features[ends[idx] - n_features[idx]:ends[idx]].copy()  # a view would keep all of them alive
        running.append(Admitted(admission, encoded, 0, unknowns[row[4]], names[row[3]][0], refreshed.get(idx),
                                factors.get(idx)))
    return running


def _refreshed(arrays: Mapping[str, np.ndarray], names: Sequence[tuple[str, tuple[str, ...]]],
               n_running: int) -> dict[int, Refreshed]:
    """What was predicted anew, by its row in `running`."""
    rows = checked_array(arrays, "refreshed", np.int64)
    features = checked_array(arrays, "refreshed:feature", np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(_REFRESHED):
        raise ValueError(f"refreshed must have {len(_REFRESHED)} columns, got shape {rows.shape}")
    of, now_s, version = rows.T
    if (((of < 0) | (of >= n_running) | (now_s <= -LATEST_S) | (now_s >= LATEST_S) | (version < 0)
         | (version >= len(names))).any() or (np.diff(of) <= 0).any()):
        raise ValueError(f"refreshed must be rows of {', '.join(_REFRESHED)} within their bounds, in their order")
    n_features = np.array([len(names_of_refresh(own)) for _, own in names], np.int64)[version]
    ends = np.cumsum(n_features).tolist()
    if features.shape != (n_features.sum(),):
        raise ValueError(f"refreshed:feature must be {n_features.sum()} numbers, got shape {features.shape}")
    return {row[0]: Refreshed(row[1], features[end - n:end].copy(), 0, names[row[2]][0])
            for row, end, n in zip(rows.tolist(), ends, n_features.tolist(), strict=True)}


def _packed_factors(running: Sequence[Admitted]) -> dict[str, np.ndarray]:
    """The factors that curves were recalibrated with, each table once: rows of `running` and places of tables."""
    tables: dict[int, tuple[int, np.ndarray]] = {}
    places = []
    for idx, one in yielding(running):
        if one.factors is not None:
            place, _ = tables.setdefault(id(one.factors), (len(tables), one.factors))
            places.append((idx, place))
    found = np.concatenate([np.empty((0, N_BANDS)), *(table for _, table in tables.values())])
    return {"given:factors": found, "given:place": np.array(places, np.int64).reshape(-1, 2)}


def _unpacked_factors(arrays: Mapping[str, np.ndarray], n_running: int) -> dict[int, np.ndarray]:
    """Factors by row in `running`."""
    tables = checked_array(arrays, "given:factors", np.float64)
    places = checked_array(arrays, "given:place", np.int64)
    if tables.shape[1:] != (N_BANDS,) or len(tables) % N_AGES or not ((tables > 0.0) & np.isfinite(tables)).all():
        raise ValueError(f"given:factors must be above 0, finite and of shape (m x {N_AGES}, {N_BANDS})")
    own = list(tables.reshape(-1, N_AGES, N_BANDS))
    if (places.ndim != 2 or places.shape[1] != 2 or (places < 0).any() or (places[:, 0] >= n_running).any()
            or (places[:, 1] >= len(own)).any()):
        raise ValueError("given:place must be rows of what runs and places of given:factors, within their bounds")
    return {row: own[place] for row, place in places.tolist()}


def _packed_keys(idx: int, n_columns: int, running: Sequence[Admitted]) -> dict[str, np.ndarray]:
    parts: list[bytes] = []
    lengths: list[int] = []
    for _, one in yielding(running):
        key = one.admission.keys[idx]
        if key is None:
            lengths += [_MISSING] * n_columns
            continue
        values = [value.encode(errors="surrogatepass") for value in key]
        parts += values
        lengths += map(len, values)
    return {f"running:{idx}:text": np.frombuffer(b"".join(parts), np.uint8),
            f"running:{idx}:length": np.array(lengths, np.int64)}  # fmt: skip


def _unpacked_keys(idx: int, n_columns: int, arrays: Mapping[str, np.ndarray],
                   n: int) -> list[tuple[str, ...] | None]:
    text = checked_array(arrays, f"running:{idx}:text", np.uint8).tobytes()
    length = checked_array(arrays, f"running:{idx}:length", np.int64)
    table = length.reshape(n, n_columns)
    is_missing = (table == _MISSING).all(axis=1)
    if ((table < 0) & ~is_missing[:, None]).any() or (length > len(text)).any() or (
            np.maximum(length, 0).sum() != len(text)):
        raise ValueError(f"running:{idx}:length must cover running:{idx}:text in rows of {n_columns}")
    ends = np.cumsum(np.maximum(length, 0)).tolist()
    values = [text[end - max(size, 0):end].decode(errors="surrogatepass")
              for end, size in zip(ends, length.tolist(), strict=True)]
    return [None if missing else tuple(values[row * n_columns:(row + 1) * n_columns])
            for row, missing in enumerate(is_missing.tolist())]


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -LATEST_S < value < LATEST_S:
        raise ValueError(f"{name} must be a whole number, got {shown(value)}")
    return value
