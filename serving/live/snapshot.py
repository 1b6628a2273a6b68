"""A predictor's live history as a folder: owners, categories and running requests, to continue after a restart.

`SNAPSHOT.json` lists its files with their hashes: `state-HASH.json` and `arrays-HASH.npz`. It is
renamed into place last, so a killed writer leaves the former snapshot or the new one. A folder
without it holds no snapshot yet.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sojourn.publishing import sync
from sojourn.serving import checks as document_fields
from sojourn.serving.bundle import HABITS, FolderFiles, read_arrays, write_arrays
from sojourn.serving.checks import LATEST_S
from sojourn.serving.curves import N_AGES, N_BANDS
from sojourn.serving.errors import SnapshotError, shown
from sojourn.serving.inputs import (
    Encoder,
    HistoryCut,
    HistoryState,
    HistoryTerms,
    Receipt,
    checked_array,
    whole_arrays,
    whole_history,
    yielding,
)
from sojourn.serving.live.admitted import Admitted, Refreshed, names_of_refresh
from sojourn.serving.live.recalibration import Recalibration

try:
    import fcntl
except ImportError:  # Windows: a second writer of one folder is not detected there
    fcntl = None  # type: ignore[assignment]

FORMAT_VERSION = 1
MARK = "SNAPSHOT.json"
ENDINGS: Mapping[str, str] = {"state": ".json", "arrays": ".npz"}
N_BYTES_MAX: Mapping[str, int] = {MARK: 1 << 16, "state": 1 << 27, "arrays": 1 << 33}
"""The largest size of each file."""
_OWN = re.compile(r"\.tmp-[0-9a-f]{16}|(state|arrays)-[0-9a-f]{16}\.(json|npz)")
_OF_MOUNTS = "lost+found"
"""A folder at the root of a file system."""
_HASH = re.compile(r"[0-9a-f]{64}")
_FILES = FolderFiles("snapshot", MARK, SnapshotError)
_HELD: set[int] = set()


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """The content of a snapshot: a JSON object, and arrays by name."""

    state: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


def write_snapshot(folder: Path, content: SnapshotContent) -> None:
    """Write a snapshot to a folder in place of the former one; the folder is created if it is missing.

    SnapshotError if the folder holds other files, or another process is writing there. After an
    OSError (for example, no space) the former snapshot is still there.
    """
    _make(folder)
    with _locked(folder):
        _check_own(folder)
        _sweep(folder)  # files of a killed writer
        try:
            hashes = {
                "arrays": _write(folder, "arrays", lambda file: write_arrays(file, content.arrays,
                                                                             is_compressed=False)),
                "state": _write(folder, "state", lambda file: _write_json(file, content.state)),
            }  # fmt: skip
            with _temporary(folder) as (path, file):
                _write_json(file, {"format": "sojourn-history", "format_version": FORMAT_VERSION, "sha256": hashes})
                _flush(file)
                sync(folder)  # the files must be on disk before the mark
                path.replace(folder / MARK)
            sync(folder)
        finally:
            _sweep(folder)


def read_snapshot(folder: Path) -> SnapshotContent | None:
    """The snapshot in a folder, verified; if it is replaced meanwhile, the result is the old or the new one.

    None if none was completed yet: no folder, or only temporary files in it. Else SnapshotError
    with the file and the reason.
    """
    contents = _FILES.whole(folder, _verified)
    if contents is None:
        return None
    state = _FILES.document(contents["state"], "state.json")
    try:
        arrays = read_arrays(contents.pop("arrays"), N_BYTES_MAX["arrays"])
    except ValueError as error:
        raise SnapshotError(f"arrays.npz must hold the history's arrays, got {error}") from error
    return SnapshotContent(state, arrays)


def _verified(root: Path) -> dict[str, bytes] | None:
    if _is_missing(root):
        return None
    with _FILES.opened(root) as folder:
        if not _has_mark(root, folder):
            return None
        mark = _FILES.document(_FILES.read(root, folder, MARK, N_BYTES_MAX[MARK]), MARK)
        names = _names(mark)
        contents = {}
        for part, name in names.items():
            contents[part] = _FILES.read(root, folder, name, N_BYTES_MAX[part])
            digest, expected = hashlib.sha256(contents[part]).hexdigest(), mark["sha256"][part]
            if digest != expected:
                raise SnapshotError(f"{root / name}: sha256 must be {expected} ({MARK}), got {digest}")
    return contents


def _names(mark: Mapping[str, Any]) -> dict[str, str]:
    """File names by part, from the hashes in a mark; SnapshotError if the mark has another format."""
    if mark.get("format") != "sojourn-history" or mark.get("format_version") != FORMAT_VERSION:
        raise SnapshotError(f"{MARK}: format must be sojourn-history, version {FORMAT_VERSION}, got "
                            f"{shown(mark.get('format'))}, version {shown(mark.get('format_version'))}")
    hashes = mark.get("sha256")
    if (not isinstance(hashes, dict) or sorted(hashes) != sorted(ENDINGS)
            or not all(isinstance(value, str) and _HASH.fullmatch(value) for value in hashes.values())):
        raise SnapshotError(f"{MARK}: sha256 must be that of {' and '.join(ENDINGS)}, got {shown(hashes)}")
    return {part: f"{part}-{hashes[part][:16]}{ending}" for part, ending in ENDINGS.items()}


def _is_missing(root: Path) -> bool:
    try:
        root.lstat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise SnapshotError(f"{root} must be a readable folder, got {error.strerror}") from error
    return False


def _has_mark(root: Path, folder: int) -> bool:
    """Whether the folder holds a complete snapshot; SnapshotError if it does not, but holds other files."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise SnapshotError(f"{root} must be a readable folder, got {error.strerror}") from error
    if MARK in names:
        return True
    _check_names(root, names)
    return False


def _check_names(folder: Path, names: Iterable[str]) -> None:
    others = sorted(name for name in names if name not in (MARK, _OF_MOUNTS) and not _OWN.fullmatch(name))
    if others:
        raise SnapshotError(f"{folder} must be new, empty or a folder of snapshots only, got {shown(others[0])} "
                            f"there")


def _make(folder: Path) -> None:
    """Create the folder if it is missing, and flush it to disk."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise SnapshotError(f"{folder} must be a folder, got something else there") from error
    sync(folder.parent)


def _check_own(folder: Path) -> None:
    """SnapshotError if the folder holds other files or a snapshot of another format: do not write there."""
    _check_names(folder, (path.name for path in folder.iterdir()))
    mark = _mark(folder)
    if mark is not None:
        _names(mark)


def _mark(folder: Path) -> dict[str, Any] | None:
    """The folder's mark; None if there is none, or it cannot be read."""
    try:
        with _FILES.opened(folder) as opened:
            return _FILES.document(_FILES.read(folder, opened, MARK, N_BYTES_MAX[MARK]), MARK)
    except SnapshotError:
        return None


def _sweep(folder: Path) -> None:
    """Remove files that are not of the snapshot; if the mark exists but cannot be read, remove nothing."""
    mark = _mark(folder)
    if mark is None and (folder / MARK).exists():
        return
    in_use = set() if mark is None else {*_names(mark).values()}
    for path in folder.iterdir():
        if _OWN.fullmatch(path.name) and path.name not in in_use:
            path.unlink()


def _write(folder: Path, part: str, write: Callable[[BinaryIO], object]) -> str:
    """Write a file, flush it to disk and name it by its hash; returns the hash."""
    with _temporary(folder) as (path, file):
        write(file)
        _flush(file)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        path.replace(folder / f"{part}-{digest[:16]}{ENDINGS[part]}")
    return digest


def _write_json(file: BinaryIO, document: Mapping[str, Any]) -> None:
    file.write((json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[tuple[Path, Any]]:
    path = folder / f".tmp-{secrets.token_hex(8)}"
    with path.open("x+b") as file:
        yield path, file


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder until this writer ends, killed or not; SnapshotError if another process holds the lock."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    _HELD.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SnapshotError(f"{folder} must be written by one predictor at a time, got another that is "
                                f"writing") from error
        yield
    finally:
        _HELD.discard(descriptor)
        os.close(descriptor)


def _close_in_child() -> None:
    """Else a child would keep the lock of a killed parent."""
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

_RUNNING = ("token", "number", "arrival_s", "version", "unknown")
"""Columns of running requests; version and unknown are indices into lists of `state`."""
_REFRESHED = ("running", "now_s", "version")
"""Columns of refreshed requests: the row in `running`, then as above. Missing in older snapshots."""
_RECALIBRATION = "recalibration:"
"""Prefix of the names of a `Recalibration`'s arrays."""
_MISSING = -1
"""The length of a history key's values if the request did not give them."""
_N_VERSIONS_MAX, _N_FEATURES_MAX = 100_000, 4_096


@dataclass(frozen=True, slots=True)
class LiveHistory:
    """The state from which a predictor continues.

    names: feature names, in order, by version in `running`. clock_s: the latest time of a call.
    is_by_starts: see `OnlineRecalibration`. recalibration: a version and its recalibration, or None. habits: arrays of
    `LiveHabits`, or None.
    """

    history: HistoryState
    running: Sequence[Admitted]
    names: Mapping[str, tuple[str, ...]]
    clock_s: int | None
    is_by_starts: bool = False
    recalibration: tuple[str, Recalibration] | None = None
    habits: Mapping[str, np.ndarray] | None = None


def content_of(cut: HistoryCut, encoder: Encoder, running: Sequence[Admitted], names: Mapping[str, tuple[str, ...]],
               clock_s: int | None, is_by_starts: bool = False,
               recalibration: tuple[str, Mapping[str, np.ndarray]] | None = None,
               habits: Mapping[str, np.ndarray] | None = None) -> SnapshotContent:
    """The content of a snapshot, from a cut of the history and the requests that ran then; takes no lock.

    recalibration: its version, and `Recalibration.to_arrays`. habits: `LiveHabits.to_arrays`.
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
    arrays["started"] = np.array([-LATEST_S if one.started_s is None else one.started_s for one in running], np.int64)
    again = [(idx, one.refreshed) for idx, one in enumerate(running) if one.refreshed is not None]
    arrays |= {
        "refreshed": np.array([(idx, one_refreshed.now_s, versions.setdefault(one_refreshed.version, len(versions)))
                               for idx, one_refreshed in again], np.int64).reshape(-1, len(_REFRESHED)),
        "refreshed:feature": np.concatenate([np.empty(0), *(one_refreshed.features for _, one_refreshed in again)]),
    }  # fmt: skip
    for idx, key in enumerate(cut.definition.keys):
        arrays |= _packed_keys(idx, len(key.columns), running)
    arrays |= _packed_factors(running)
    if recalibration is not None:
        arrays |= {f"{_RECALIBRATION}{name}": array for name, array in recalibration[1].items()}
    arrays |= {f"{HABITS}{name}": array for name, array in (habits or {}).items()}
    terms = HistoryTerms.of(encoder)
    state = {
        "history": dict(terms.definition), "numbers": sorted(terms.numbers), "phase_s": terms.phase_s,
        "n_admitted": cut.n_admitted, "clock_s": clock_s, "is_by_starts": is_by_starts,
        "versions": [{"version": version, "features": list(names[version])} for version in versions],
        "unknowns": [list(unknown) for unknown in unknowns],
    }  # fmt: skip
    if recalibration is not None:
        state["recalibration"] = recalibration[0]
    return SnapshotContent(state, arrays)


def live_history(content: SnapshotContent, encoder: Encoder, version: str) -> LiveHistory:
    """The live history of a snapshot, for a bundle of this encoder and version.

    SnapshotError if its history definition or clock differ, or its parts do not fit together.
    """
    try:
        return _read(content, encoder, version)
    except SnapshotError:
        raise
    except Exception as error:  # numpy may raise anything for numbers that do not fit
        raise SnapshotError(f"the snapshot must hold a whole history, got {type(error).__name__}: {error}") from error


def _read(content: SnapshotContent, encoder: Encoder, version: str) -> LiveHistory:
    state, arrays = content.state, content.arrays
    terms = HistoryTerms.of(encoder)
    number_columns = frozenset(document_fields.texts(state["numbers"], "numbers", document_fields.N_COLUMNS_MAX))
    definition = document_fields.history_fields(state["history"])
    if definition.keys() != terms.definition.keys():
        raise SnapshotError(f"state.json: history must have the fields {', '.join(terms.definition)}")
    clash = HistoryTerms(definition, number_columns, _whole(state["phase_s"], "phase_s")).clash(terms, "the snapshot")
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
    habits = {name.removeprefix(HABITS): array for name, array in arrays.items() if name.startswith(HABITS)}
    return LiveHistory(history, running, names, clock_s, state.get("is_by_starts") is True, recalibration,
                       habits or None)


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
    n_features = np.array([len(features_of) for _, features_of in names], np.int64)[version]
    ends = np.cumsum(n_features).tolist()
    if features.shape != (n_features.sum(),):
        raise ValueError(f"running:feature must be {n_features.sum()} numbers, got shape {features.shape}")
    keys = [_unpacked_keys(idx, len(key.columns), arrays, len(rows))
            for idx, key in enumerate(history.definition.keys)]
    refreshed = _refreshed(arrays, names, len(rows)) if "refreshed" in arrays else {}
    factors = _unpacked_factors(arrays, len(rows)) if "given:place" in arrays else {}
    started_s = checked_array(arrays, "started", np.int64) if "started" in arrays else np.full(len(rows), -LATEST_S)
    if started_s.shape != (len(rows),) or (started_s >= LATEST_S).any() or (
            (started_s != -LATEST_S) & (started_s < arrival_s)).any():
        raise ValueError(f"started must be seconds after the admission or {-LATEST_S}, one for each that runs")
    running = []
    for idx, row in yielding(rows.tolist()):
        admission = Receipt(row[0], row[1], tuple(features_of[idx] for features_of in keys), row[2])
        encoded = features[ends[idx] - n_features[idx]:ends[idx]].copy()  # a view would keep all of them alive
        running.append(Admitted(admission, encoded, 0, unknowns[row[4]], names[row[3]][0], refreshed.get(idx),
                                factors.get(idx), int(started_s[idx]) if started_s[idx] > -LATEST_S else None))
    return running


def _refreshed(arrays: Mapping[str, np.ndarray], names: Sequence[tuple[str, tuple[str, ...]]],
               n_running: int) -> dict[int, Refreshed]:
    rows = checked_array(arrays, "refreshed", np.int64)
    features = checked_array(arrays, "refreshed:feature", np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(_REFRESHED):
        raise ValueError(f"refreshed must have {len(_REFRESHED)} columns, got shape {rows.shape}")
    of, now_s, version = rows.T
    if (((of < 0) | (of >= n_running) | (now_s <= -LATEST_S) | (now_s >= LATEST_S) | (version < 0)
         | (version >= len(names))).any() or (np.diff(of) <= 0).any()):
        raise ValueError(f"refreshed must be rows of {', '.join(_REFRESHED)} within their bounds, in their order")
    n_features = np.array([len(names_of_refresh(features_of)) for _, features_of in names], np.int64)[version]
    ends = np.cumsum(n_features).tolist()
    if features.shape != (n_features.sum(),):
        raise ValueError(f"refreshed:feature must be {n_features.sum()} numbers, got shape {features.shape}")
    return {row[0]: Refreshed(row[1], features[end - n:end].copy(), 0, names[row[2]][0])
            for row, end, n in zip(rows.tolist(), ends, n_features.tolist(), strict=True)}


def _packed_factors(running: Sequence[Admitted]) -> dict[str, np.ndarray]:
    """The factors of recalibrated curves: each table once, and for rows of `running` the index of their table."""
    tables: dict[int, tuple[int, np.ndarray]] = {}
    places = []
    for idx, one in yielding(running):
        if one.factors is not None:
            place, _ = tables.setdefault(id(one.factors), (len(tables), one.factors))
            places.append((idx, place))
    factors = np.concatenate([np.empty((0, N_BANDS)), *(table for _, table in tables.values())])
    return {"given:factors": factors, "given:place": np.array(places, np.int64).reshape(-1, 2)}


def _unpacked_factors(arrays: Mapping[str, np.ndarray], n_running: int) -> dict[int, np.ndarray]:
    tables = checked_array(arrays, "given:factors", np.float64)
    places = checked_array(arrays, "given:place", np.int64)
    if tables.shape[1:] != (N_BANDS,) or len(tables) % N_AGES or not ((tables > 0.0) & np.isfinite(tables)).all():
        raise ValueError(f"given:factors must be above 0, finite and of shape (m x {N_AGES}, {N_BANDS})")
    by_place = list(tables.reshape(-1, N_AGES, N_BANDS))
    if (places.ndim != 2 or places.shape[1] != 2 or (places < 0).any() or (places[:, 0] >= n_running).any()
            or (places[:, 1] >= len(by_place)).any()):
        raise ValueError("given:place must be rows of what runs and places of given:factors, within their bounds")
    return {row: by_place[place] for row, place in places.tolist()}


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
