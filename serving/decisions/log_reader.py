"""Reads a folder of decisions: predictions, ends, and the latest second of each process.

Half-written frames of a killed process are skipped and counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.decisions.log_rows import (
    DECISION_WHOLE,
    DECISIONS,
    END_WHOLE,
    ENDS,
    LOSSES,
    LOST_COUNTS,
    MODEL,
    SESSION,
    SHADOW_WHOLE,
    SHADOWS,
    WITHDRAWAL_WHOLE,
    WITHDRAWALS,
    Frame,
    Skipped,
    frames_of,
    log_files,
)
from sojourn.serving.inputs import counts_unix_s

_LISTS = ("edges", "shares", "grid", "residuals", "thresholds")


@dataclass(frozen=True, slots=True)
class LoggedModel:
    """A version with decisions in the log, from its bundle's schema; see `Schema` and `ModelNumbers`.

    features: names of the encoder's features. owner_keys: names of the owner keys. thresholds:
    uptimes, s, at which a point model's score steps. training: of the schema. reference: of the
    training rows, or None.
    """

    version: str
    family: str
    kind: str
    features: tuple[str, ...]
    phase_s: int
    owner_keys: tuple[str, ...]
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    grid: tuple[float, ...]
    residuals: tuple[float, ...]
    thresholds: tuple[float, ...]
    tail_s: float
    smearing: float
    training: Mapping[str, Any]
    reference: Mapping[str, Any] | None

    @property
    def is_dated(self) -> bool:
        """True if its times are Unix seconds, see `Schema.is_dated`."""
        return counts_unix_s(self.phase_s, self.training)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> LoggedModel:
        """From a model's frame; ValueError, KeyError or TypeError if it is malformed."""
        lists = {name: tuple(float(value) for value in document[name]) for name in _LISTS}
        texts = {name: tuple(str(value) for value in document[name]) for name in ("features", "owner_keys")}
        return cls(str(document["version"]), str(document["family"]), str(document["kind"]), texts["features"],
                   int(document["phase_s"]), texts["owner_keys"], **lists, tail_s=float(document["tail_s"]),
                   smearing=float(document["smearing"]), training=dict(document["training"]),
                   reference=document["reference"])


@dataclass(frozen=True, slots=True)
class DecisionBlock:
    """Decisions of one version, in the order of the files.

    token, number, arrival_s, now_s, session: int64 (n,); a decision's handle is token and number,
    its session an index into `DecisionLog.sessions`. owner: object (n,), tuples with a text or None
    for each of the model's owner keys. request_id, unknown: object (n,), text or None, and tuples
    of text.
    features: float64 (n, number of the model's features). curves: float64 (n, k), rates or raw scores.
    """

    model: LoggedModel
    token: np.ndarray
    number: np.ndarray
    arrival_s: np.ndarray
    now_s: np.ndarray
    session: np.ndarray
    owner: np.ndarray
    request_id: np.ndarray
    unknown: np.ndarray
    features: np.ndarray
    curves: np.ndarray

    def __len__(self) -> int:
        return len(self.token)


@dataclass(frozen=True, slots=True)
class ShadowBlock:
    """The answers of one version as the shadow. token, number: int64 (n,); curves: float64 (n, k)."""

    model: LoggedModel
    token: np.ndarray
    number: np.ndarray
    curves: np.ndarray


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of a process that are missing in its log; ends of requests that ran then may be missing, too.

    from_s: no end is missing before it; -inf = unknown. to_s: ends of requests decided up to then
    may be missing. heard_s: the first second in the log afterwards, else `to_s`. n: how many; what:
    a key of `LOSS_WORDS`.
    """

    from_s: float
    to_s: float
    heard_s: float
    n: int
    what: str


LOSS_WORDS = {"records": "records that the predictor could not write", "stretches": "damaged or cut stretches",
              "files": "missing files"}
"""Kinds of losses and their texts."""


@dataclass(slots=True)
class SessionLog:
    """The log of one process.

    clock_s: its latest second. running: handles of requests that ran at its start. losses: its
    missing records, in the order of the files. epoch_s: Unix time at its clock's 0; None if it was not given.
    """

    name: str
    clock_s: float = -math.inf
    running: frozenset[tuple[int, int]] = frozenset()
    losses: list[Loss] = field(default_factory=list)
    epoch_s: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """The whole log of a folder.

    ends: int64 (m, 4): token, number, end, start; withdrawals: int64 (m, 3): token, number, time.
    skipped: half-written or damaged parts. n_lost: records that a process could not write. n_later:
    records after `until_s`. n_unnamed: decisions and shadow answers without their model's frame.
    """

    decisions: tuple[DecisionBlock, ...]
    shadows: tuple[ShadowBlock, ...]
    ends: np.ndarray
    withdrawals: np.ndarray
    sessions: tuple[SessionLog, ...]
    n_files: int
    skipped: Skipped
    n_lost: int
    n_later: int
    n_unnamed: int
    n_missing: int
    """Missing files between others of their process; files removed by retention do not count."""


def read_log(folder: str | Path, until_s: float = math.inf) -> DecisionLog:
    """The log of a folder up to `until_s` (seconds on the predictor's clock).

    A missing or empty folder gives an empty log.
    """
    reading = _Reading(until_s)
    files = log_files(Path(folder))
    for path in _in_order(files):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # removed meanwhile by retention
            continue
        reading.begin_file(path.name)
        n_places = reading.skipped.n_places
        for frame in frames_of(content, reading.skipped):
            n_places = reading.miss(n_places)
            reading.take(frame)
            n_places = reading.miss(n_places)
        reading.miss(n_places)
    return reading.log(len(files))


def _in_order(files: Sequence[Path]) -> list[Path]:
    """By session, then by number: the clock time in their names may have been set back."""
    sessions: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for path in files:
        _, _, session, place = path.name.split("-")
        sessions[session].append((place, path))
    return [path for places in sessions.values() for _, path in sorted(places)]


class _Batches:
    """One session's frames by batches: decisions first, then shadows, ends, withdrawals, of the same seconds.

    If one of them is missing, ends may be missing from the batch's first second on.
    """

    _ORDER = (DECISIONS, SHADOWS, ENDS, WITHDRAWALS, LOSSES)

    def __init__(self) -> None:
        self.place: int | None = None
        self.clock_s = self.before_s = -math.inf
        self._step = len(self._ORDER)
        self._versions: set[str] = set()

    def begin(self) -> None:
        """Start another batch: nothing up to the clock is missing."""
        self.before_s, self._step = self.clock_s, 0
        self._versions = set()

    def take(self, frame: Frame, times_s: np.ndarray) -> None:
        """Add a frame with records of these seconds."""
        step = self._ORDER.index(frame.kind)
        version = str(frame.document.get("version", ""))
        is_repeated = step == self._step and step > 0 if frame.kind != DECISIONS else (
            version in self._versions and len(times_s) > 0 and float(times_s.min()) >= self.clock_s)
        if step < self._step or (is_repeated and frame.kind != SHADOWS):
            self.begin()
        self._step = step
        if frame.kind == DECISIONS:
            self._versions.add(version)
        if len(times_s):
            self.clock_s = max(self.clock_s, float(times_s.max()))


class _Reading:
    """The state of reading."""

    def __init__(self, until_s: float) -> None:
        self.skipped = Skipped()
        self._until_s = until_s
        self._models: dict[str, LoggedModel] = {}
        self._decisions: dict[str, list[tuple[Frame, np.ndarray, int]]] = defaultdict(list)
        self._shadows: dict[str, list[Frame]] = defaultdict(list)
        self._ends: list[np.ndarray] = []
        self._withdrawals: list[np.ndarray] = []
        self._sessions: dict[str, SessionLog] = {}
        self._session = SessionLog("")
        self._batches: dict[str, _Batches] = defaultdict(_Batches)
        self._n_lost = self._n_later = self._n_missing = 0

    def begin_file(self, name: str) -> None:
        """Take the session from the file name, in case the first frame is damaged."""
        _, _, session, place = name.removesuffix(".log").split("-")
        self._session = self._sessions.setdefault(session, SessionLog(session))
        batches = self._batches[session]
        batches.begin()  # a batch is never in two files
        n_missing = 0 if batches.place is None else int(place) - batches.place - 1
        batches.place = int(place)
        if n_missing > 0:
            self._n_missing += n_missing
            self._lose(n_missing, "files")

    def miss(self, n_places: int) -> int:
        """Record that parts are missing here if there are more than `n_places`; returns how many there are."""
        if self.skipped.n_places > n_places:
            self._lose(self.skipped.n_places - n_places, "stretches")
        return self.skipped.n_places

    def take(self, frame: Frame) -> None:
        """Add a frame; if its content does not fit its type, count it as damaged."""
        try:
            self._take(frame)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.skipped.n_places += 1

    def log(self, n_files: int) -> DecisionLog:
        """The whole log; blocks by version."""
        sessions = list(self._sessions.values())
        decisions = [_block(self._models[version], frames) for version, frames in sorted(self._decisions.items())
                     if version in self._models]
        shadows = [_shadow_block(self._models[version], frames) for version, frames in sorted(self._shadows.items())
                   if version in self._models]
        n_unnamed = sum(len(rows) for version, frames in self._decisions.items() if version not in self._models
                        for _, rows, _ in frames)
        n_unnamed += sum(len(frame.numbers) for version, frames in self._shadows.items() if version not in self._models
                         for frame in frames)
        return DecisionLog(tuple(decisions), tuple(shadows), _joined(self._ends, len(END_WHOLE)),
                           _joined(self._withdrawals, len(WITHDRAWAL_WHOLE)), tuple(sessions), n_files, self.skipped,
                           self._n_lost, self._n_later, n_unnamed, self._n_missing)

    def _take(self, frame: Frame) -> None:
        document = frame.document
        if frame.kind == SESSION:
            running = frozenset((int(token), int(number)) for token, number in document["running"])
            epoch_s = document.get("epoch_s")  # former logs have none
            self._session.running |= running
            self._session.epoch_s = None if epoch_s is None else int(epoch_s)
        elif frame.kind == MODEL:
            model = LoggedModel.of(document)
            self._models[model.version] = model
        elif frame.kind == DECISIONS:
            self._take_decisions(frame)
        elif frame.kind == SHADOWS:
            self._shadows[str(document["version"])].append(frame)
            self._batches[self._session.name].take(frame, np.zeros(0))
        elif frame.kind == ENDS:
            self._ends.append(self._known(frame, _whole(frame, len(END_WHOLE)), 2))
        elif frame.kind == WITHDRAWALS:
            self._withdrawals.append(self._known(frame, _whole(frame, len(WITHDRAWAL_WHOLE)), 2))
        elif frame.kind == LOSSES:
            self._take_losses(frame)

    def _take_losses(self, frame: Frame) -> None:
        document = frame.document
        n_lost = sum(int(document[name]) for name in LOST_COUNTS)
        from_s, to_s = float(document["from_s"]), float(document["to_s"])
        self._batches[self._session.name].take(frame, np.zeros(0))
        if from_s <= self._until_s:
            self._n_lost += n_lost
            self._session.losses.append(Loss(from_s, to_s, to_s, n_lost, "records"))

    def _lose(self, n: int, what: str) -> None:
        """Record a loss at this place of the session's files, unless it is after `until_s`."""
        batches = self._batches[self._session.name]
        if batches.before_s <= self._until_s:
            self._session.losses.append(Loss(batches.before_s, batches.clock_s, batches.clock_s, n, what))

    def _take_decisions(self, frame: Frame) -> None:
        document, whole = frame.document, _whole(frame, len(DECISION_WHOLE))
        texts = ("owner", "id", "unknown")
        if any(len(document[name]) != len(whole) for name in texts) or not isinstance(document["n_features"], int):
            raise ValueError("a decision frame must have a text for each row")
        is_known = whole[:, 3] <= self._until_s
        self._n_later += int((~is_known).sum())
        self._tell(frame, whole[:, 3], is_known)
        session = [*self._sessions].index(self._session.name)
        self._decisions[str(document["version"])].append((frame, np.flatnonzero(is_known), session))

    def _known(self, frame: Frame, whole: np.ndarray, column: int) -> np.ndarray:
        is_known = whole[:, column] <= self._until_s
        self._n_later += int((~is_known).sum())
        self._tell(frame, whole[:, column], is_known)
        return whole[is_known]

    def _tell(self, frame: Frame, times_s: np.ndarray, is_known: np.ndarray) -> None:
        session = self._session
        self._batches[session.name].take(frame, times_s)
        known_s = times_s[is_known]
        if len(known_s):
            session.losses = [replace(one, heard_s=float(known_s.min())) if one.heard_s == one.to_s
                              and known_s.min() > one.to_s else one for one in session.losses]
            session.clock_s = max(session.clock_s, float(known_s.max()))


def _whole(frame: Frame, n: int) -> np.ndarray:
    if frame.numbers.shape[1] < n:
        raise ValueError(f"a frame must have at least {n} columns")
    return np.ascontiguousarray(frame.numbers[:, :n]).view(np.int64)


def _joined(parts: Sequence[np.ndarray], n: int) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros((0, n), np.int64)


def _block(model: LoggedModel, frames: Sequence[tuple[Frame, np.ndarray, int]]) -> DecisionBlock:
    n, n_own = len(DECISION_WHOLE), len(model.features)
    fitting = [(frame, rows, session) for frame, rows, session in frames if frame.document["n_features"] == n_own]
    numbers = np.concatenate([frame.numbers[rows] for frame, rows, _ in fitting])
    whole = np.ascontiguousarray(numbers[:, :n]).view(np.int64)
    ids = _texts([frame.document["id"][row] for frame, rows, _ in fitting for row in rows.tolist()])
    owner, unknown = (_texts([tuple(frame.document[name][row]) for frame, rows, _ in fitting for row in rows.tolist()])
                      for name in ("owner", "unknown"))
    session = np.concatenate([np.full(len(rows), place) for _, rows, place in fitting])
    token, number, arrival_s, now_s = (whole[:, place].copy() for place in range(n))
    return DecisionBlock(model, token, number, arrival_s, now_s, session, owner, ids, unknown,
                         numbers[:, n:n + n_own].copy(), numbers[:, n + n_own:].copy())


def _shadow_block(model: LoggedModel, frames: Sequence[Frame]) -> ShadowBlock:
    n = len(SHADOW_WHOLE)
    numbers = np.concatenate([frame.numbers for frame in frames])
    whole = np.ascontiguousarray(numbers[:, :n]).view(np.int64)
    return ShadowBlock(model, whole[:, 0].copy(), whole[:, 1].copy(), numbers[:, n:].copy())


def _texts(values: Sequence[Any]) -> np.ndarray:
    column = np.empty(len(values), object)
    for idx, value in enumerate(values):  # one by one, since numpy would make a table of tuples
        column[idx] = value
    return column
