"""Processes decisions off the scheduler's path: a thread lets a shadow answer them, and writes them to a log.

The scheduler's thread only appends a tuple to a queue: no lock, no encoding, no file. If the disk
fails, pending frames are kept and tried again, the queue fills up, and further decisions are
counted as lost. The shadow is a challenger that answers the same requests as the champion; only the
differences are kept.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.answers import Current, Served
from sojourn.serving.bundle import load_bundle
from sojourn.serving.checks import folder_path
from sojourn.serving.curves import Curve, HazardCurve, lifetime_class
from sojourn.serving.decisions.log_rows import (
    LOSSES,
    LOST_COUNTS,
    SESSION,
    Decision,
    Frame,
    LogFile,
    LogSettings,
    curve_rows,
    decision_frame,
    end_frame,
    model_frame,
    owner_text,
    shadow_frame,
    withdrawal_frame,
)
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import Parsed
from sojourn.serving.live import N_RUNNING_MAX, Counters, LiveHabits, LiveRequests

N_QUEUED_MAX = 20_000
"""The most decisions, ends and withdrawals in the queue; further ones are lost, and counted."""
N_AT_ONCE = 1_024
"""The most of them in one frame."""
_N_YIELD = 8
"""After so many shadow answers, other threads get a turn."""
_DECISION, _END, _WITHDRAWAL = range(3)
Count = Callable[[str, int], None]


class _Pending(NamedTuple):
    """A frame that is not written yet, the version whose model it needs, and its number of decisions."""

    content: bytes
    served: Served | None = None
    n_decisions: int = 0


@dataclass(slots=True)
class _Lost:
    """Number of lost records by kind, and their first and last second."""

    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    from_s: float = math.inf
    to_s: float = -math.inf


class Recorder:
    """A queue and the thread that empties it every `flush_s`. count: adds to one of the predictor's counters.

    `decided`, `ended` and `withdrawn` may be called from any thread. The predictor handles its forks.
    """

    def __init__(self, count: Count, *, folder: Path | None = None, settings: LogSettings | None = None,
                 shadow: Shadow | None = None, running: Iterable[tuple[int, int]] = ()) -> None:
        self.shadow = shadow
        self.folder = folder
        self._count = count
        self._settings = LogSettings() if settings is None else settings
        self._owner = owner_text(self._settings.owner_key)
        self._queue: deque[tuple[int, Any]] = deque()
        self._running = [*running]
        self._lost = _Lost()
        self._pending: list[_Pending] = []
        self._known: set[str] = set()  # versions whose models the current file holds
        self._file = None if folder is None else LogFile(folder, self._settings)
        self._begin_thread()
        atexit.register(_close, weakref.ref(self))

    def decided(self, decision: tuple[Any, ...]) -> None:
        """Queue an admission; decision: the fields of a `Decision`."""
        if len(self._queue) < N_QUEUED_MAX:
            self._queue.append((_DECISION, decision))
        else:
            self._lose(_DECISION, decision[2])

    def ended(self, token: int, number: int, end_s: int, began_s: int) -> None:
        """Queue the end of a request."""
        if len(self._queue) < N_QUEUED_MAX:
            self._queue.append((_END, (token, number, end_s, began_s)))
        else:
            self._lose(_END, end_s)

    def withdrawn(self, token: int, number: int, clock_s: int) -> None:
        """Queue the withdrawal of an admission."""
        if len(self._queue) < N_QUEUED_MAX:
            self._queue.append((_WITHDRAWAL, (token, number, clock_s)))
        else:
            self._lose(_WITHDRAWAL, clock_s)

    def flush(self) -> bool:
        """Answer and write all that was queued so far; False if the disk failed (the rest is kept and tried again)."""
        with self._working:
            return self._work()

    def close(self) -> None:
        """Flush, close the file and end the thread. May be called twice."""
        self._is_over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.flush()
        with self._working:
            if self._file is not None:
                try:
                    self._file.close()
                except OSError:
                    self._count("log_errors", 1)

    def after_fork_in_child(self) -> None:
        """Continue as a new session: the parent writes what is queued, and keeps the running requests."""
        self._queue, self._pending, self._lost = deque(), [], _Lost()
        self._running, self._known = [], set()
        if self._file is not None:
            self._file.abandon()
        if not self._is_over.is_set():
            self._begin_thread()

    def _begin_thread(self) -> None:
        self._working = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=_run, args=(weakref.ref(self), self._is_over, self._settings.flush_s),
                                        name="sojourn-decisions", daemon=True)
        self._thread.start()

    def try_to_flush(self) -> None:
        """`flush` for the thread: never raises, since the scheduler and the next flush continue."""
        try:
            self.flush()
        except Exception:  # tried again later
            self._count("log_errors", 1)

    def _lose(self, what: int, time_s: int) -> None:
        losses = self._lost
        losses.from_s, losses.to_s = min(losses.from_s, time_s), max(losses.to_s, time_s)
        losses.counts[what] += 1
        self._count("decisions_lost", 1)

    def _work(self) -> bool:
        """Empty the queue; the caller holds `_working`."""
        if not self._written():
            return False
        n_left = len(self._queue)
        while n_left > 0:
            items = [self._queue.popleft() for _ in range(min(n_left, N_AT_ONCE))]
            n_left -= len(items)
            self._prepare(items)
            if not self._written():
                return False
        return True

    def _prepare(self, items: list[tuple[int, Any]]) -> None:
        """Turn items of the queue into pending frames, with the shadow's answers."""
        decisions = [Decision._make(item) for kind, item in items if kind == _DECISION]
        if self._file is not None:
            for group in _alike(decisions):
                self._add(decision_frame(group, self._owner), group[0].served, len(group))
        if self.shadow is not None:
            self._add_shadow(self.shadow, items)
        if self._file is None:
            return
        ends = [item for kind, item in items if kind == _END]
        withdrawals = [item for kind, item in items if kind == _WITHDRAWAL]
        if ends:
            self._add(end_frame(ends))
        if withdrawals:
            self._add(withdrawal_frame(withdrawals))
        if any(self._lost.counts):
            losses, self._lost = self._lost, _Lost()
            times = {"from_s": int(losses.from_s), "to_s": int(losses.to_s)}
            self._add(Frame(LOSSES, dict(zip(LOST_COUNTS, losses.counts, strict=True)) | times, np.zeros((0, 0))))

    def _add_shadow(self, shadow: Shadow, items: list[tuple[int, Any]]) -> None:
        """Let the shadow answer decisions and learn of ends, in their order."""
        answered, champion_s, shadow_s, failed = [], [], [], 0
        for idx, (kind, item) in enumerate(items):
            if kind != _DECISION:
                shadow.over(item[1], item[2:] if kind == _END else ())
                continue
            one = Decision._make(item)
            try:
                curve = shadow.answer(one)
                shadow_s.append(curve.remaining(0.0))
                champion_s.append(one.curve.remaining(0.0))
                answered.append(one._replace(served=shadow.served, curve=curve))
            except Exception:  # a shadow may fail in any way; the champion has answered
                failed += 1
            if idx % _N_YIELD == 0:
                time.sleep(0)  # let the scheduler's thread run
        if failed:
            self._count("shadow_errors", failed)
        if answered:
            self._count("shadow_predictions", len(answered))
            self._count("shadow_class_changes", shadow.differences.add(champion_s, shadow_s))
            if self._file is not None:
                frame = shadow_frame(shadow.served, [one.admission for one in answered], curve_rows(answered))
                self._add(frame, shadow.served)

    def _add(self, frame: Frame, served: Served | None = None, n_decisions: int = 0) -> None:
        self._pending.append(_Pending(frame.packed(), served, n_decisions))

    def _written(self) -> bool:
        """Write the pending frames; False if the disk fails, and nothing is lost then."""
        if self._file is None or not self._pending:
            return True
        needed = {one.served.version: one.served for one in self._pending if one.served is not None}
        try:
            self._file.append(lambda is_new: self._content(needed, is_new))
        except OSError:
            self._count("log_errors", 1)
            return False
        self._running = []
        self._count("decisions_logged", sum(one.n_decisions for one in self._pending))
        self._pending = []
        return True

    def _content(self, needed: Mapping[str, Served], is_new: bool) -> bytes:
        """The session's frame if the file is new, the models that the file lacks, and the pending frames."""
        frames = []
        if is_new:
            self._known = set()
            session = "" if self._file is None else self._file.session
            document = {"session": session, "running": self._running, "epoch_s": self._settings.epoch_s}
            frames.append(Frame(SESSION, document, np.zeros((0, 0))))
        fresh = [served for version, served in needed.items() if version not in self._known]
        frames += map(model_frame, fresh)
        self._known |= {served.version for served in fresh}
        return b"".join([*(frame.packed() for frame in frames), *(one.content for one in self._pending)])


def _alike(decisions: list[Decision]) -> list[list[Decision]]:
    """Decisions by version and length of their row."""
    groups: dict[tuple[str, int], list[Decision]] = {}
    for one in decisions:
        groups.setdefault((one.served.version, one.n_before), []).append(one)
    return list(groups.values())


def _close(recorder: weakref.ref[Recorder]) -> None:
    one = recorder()
    if one is not None:
        one.close()


def _run(recorder: weakref.ref[Recorder], is_over: threading.Event, flush_s: float) -> None:
    while not is_over.wait(flush_s):
        one = recorder()
        if one is None:
            return
        one.try_to_flush()
        del one


_EDGES = np.concatenate([[0.0], np.logspace(-3.0, 1.0, 81)])
"""Bins of |log10 ratio|, 20 for a factor of ten: the upper edge is 1.12 x the lower one, and is the quantile."""


class ShadowDifferences:
    """The distance of a shadow's first answers from the champion's: a histogram of |log10 ratio|, and class changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = np.zeros(len(_EDGES), np.int64)
        self._n_changes = 0

    def add(self, champion_s: Sequence[float], shadow_s: Sequence[float]) -> int:
        """Count pairs of remaining seconds at creation; returns the number of pairs with different lifetime classes."""
        ratio = np.abs(np.log10(np.maximum(shadow_s, 1.0)) - np.log10(np.maximum(champion_s, 1.0)))
        n_changes = sum(lifetime_class(one) != lifetime_class(other)
                        for one, other in zip(champion_s, shadow_s, strict=True))
        with self._lock:
            self._counts += np.bincount(np.minimum(np.searchsorted(_EDGES, ratio), len(_EDGES) - 1),
                                        minlength=len(_EDGES))
            self._n_changes += n_changes
        return n_changes

    def quantile(self, share: float) -> float:
        """|log10 ratio| that a share of the pairs does not exceed; NaN before the first.

        >>> differences = ShadowDifferences()
        >>> differences.add([100.0, 100.0, 4_000.0], [100.0, 100.0, 400.0])
        1
        >>> differences.quantile(0.5), differences.quantile(0.9)
        (0.0, 1.0)
        """
        with self._lock:
            total = np.cumsum(self._counts)
        if total[-1] == 0:
            return math.nan
        return float(_EDGES[np.searchsorted(total, share * total[-1])].round(12))


class Shadow:
    """Answers decisions again by another version.

    For one thread at a time, not the scheduler's. It uses the champion's history and clock
    features, since both have one history definition. extra_columns: numbers that only the shadow
    reads; requests may give them.
    """

    def __init__(self, served: Served, champion: Served) -> None:
        self.served = served
        self.differences = ShadowDifferences()
        self.extra_columns = tuple(column for column in served.encoder.numbers
                                   if column not in champion.encoder.numbers)
        self._places: dict[str, list[tuple[bool, int]] | None] = {}  # by the champion's version
        self._habits = None if served.habits is None else LiveHabits(served.schema, served.habits)

    def answer(self, one: Decision) -> Curve:
        """The shadow's curve of a request. ValueError if one of its extra columns holds no number,
        or if the champion, reloaded since, reads instant ends in another way."""
        champion = one.served
        if champion.version not in self._places:
            self._places[champion.version] = self._places_in(champion)
        places = self._places[champion.version]
        features = one.answer[one.n_before:].tolist()
        if places is not None:
            numbers = self.served.encoder.parse(dict(zip(self.extra_columns, one.extra, strict=False))).numbers
            features = [features[place] if is_champions else numbers[place] for is_champions, place in places]
        self.served.encoder.set_row(features, one.admission.keys)
        curve = self.served.builder.curve(features)
        if self._habits is None or not isinstance(curve, HazardCurve):
            return curve
        numbers = tuple(features[:len(self.served.encoder.numbers)])
        mixed, given = self._habits.answer(curve, Parsed(numbers, one.admission.keys, ()), one.now_s)
        self._habits.follow(one.admission.number, given, one.admission.arrival_s, one.now_s)
        if len(self._habits) > N_RUNNING_MAX:  # as in the predictor: their ends were not reported
            self._habits.forget(self._habits.oldest)
        return mixed

    def over(self, number: int, times_s: Sequence[int]) -> None:
        """Learn that a request ended (times_s: its end and its start), or was withdrawn (none)."""
        if self._habits is not None:
            if times_s:
                self._habits.ended(number, *times_s)
            else:
                self._habits.forget(number)

    def _places_in(self, champion: Served) -> list[tuple[bool, int]] | None:
        """For each feature (True, index in the champion's features) or (False, index in the shadow's numbers).

        None if all agree.
        """
        if self.served.instant_s != champion.instant_s:
            raise ValueError(f"a shadow's instant_s must be that of the champion ({champion.instant_s}), got "
                             f"{self.served.instant_s}")
        names, champion_names = self.served.encoder.feature_names(), champion.encoder.feature_names()
        if names == champion_names:
            return None
        at = {name: place for place, name in enumerate(champion_names)}
        return [(name in at, at.get(name, place)) for place, name in enumerate(names)]


class Decisions:
    """The log of a predictor's decisions, and the shadow that answers them, too.

    recorder: None without both. Takes the predictor's lock to replace it or the shadow; `decided`
    reads them without the lock. A watcher of the shadow's folder reloads it.
    """

    def __init__(self, counters: Counters, current: Current, running: LiveRequests) -> None:
        self.recorder: Recorder | None = None
        self.shadow: Shadow | None = None
        self.folder: Path | None = None
        """The shadow's folder."""
        self._reason = ""
        self._counters, self._current, self._running = counters, current, running
        self.count = counters.count

    @property
    def version(self) -> str:
        """The shadow's version; empty without one."""
        return "" if self.shadow is None else self.shadow.served.version

    def log_to(self, folder: Path | None, settings: LogSettings | None) -> None:
        """Replace the recorder; the former one writes its queue first. Without a folder, only the shadow continues."""
        with self._counters.lock:
            former, shadow = self.recorder, self.shadow
            running = [(one.admission.token, one.admission.number) for one in self._running.all()]
            is_needed = folder is not None or shadow is not None
            self.recorder = Recorder(self.count, folder=folder, settings=settings, shadow=shadow,
                                     running=running) if is_needed else None
        if former is not None:
            former.close()

    def reload(self, folder: str | Path | None = None) -> str:
        """See `Predictor.reload_shadow`."""
        source = self.folder if folder is None else folder_path(folder, "folder").absolute()
        if source is None:
            raise ValueError("folder must be given, since this predictor has no shadow, got None")
        current = self._current
        try:
            served = Served.of(load_bundle(source)).following(current.served)
            if served.instant_s != current.served.instant_s:
                raise BundleError(f"schema.json: a shadow's instant_s must be that of the champion, whose features it "
                                  f"is given ({current.served.instant_s}), got {served.instant_s}")
        except Exception as error:
            self.count("shadow_errors")
            self._reason = str(error)
            raise
        self.folder, self._reason = source, ""
        with self._counters.lock:
            self.shadow = Shadow(served, current.served)
            retired = {*served.encoder.columns()} - {*current.served.encoder.columns()}
            current.served = replace(current.served, retired=current.served.retired | retired)
        if self.recorder is None:
            self.log_to(None, None)
        else:
            self.recorder.flush()
            self.recorder.shadow = self.shadow
        return served.version

    def comparison(self) -> Mapping[str, Any]:
        """See `Predictor.shadow`."""
        one = self.shadow
        quantiles = {} if one is None else {share: one.differences.quantile(share) for share in (0.5, 0.9, 0.99)}
        return {"version": self.version or None, "reason": self._reason, "log10_ratio": quantiles}
