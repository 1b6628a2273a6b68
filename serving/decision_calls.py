"""What a predictor does with its decisions beside answering: it logs them, and has a shadow answer them, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.serving.answers import Served
from sojourn.serving.bundle import load_bundle
from sojourn.serving.checks import folder_path
from sojourn.serving.counters import Counted
from sojourn.serving.decisions import LogSettings, Recorder, Shadow
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import HistoryState
from sojourn.serving.live import LiveRequests
from sojourn.serving.watch import Watch, WatchEvent


class _ShadowFollower:
    """What a watcher asks of a predictor's shadow."""

    def __init__(self, predictor: DecisionCalls) -> None:
        self._predictor = predictor

    @property
    def version(self) -> str:
        return str(self._predictor.shadow()["version"] or "")

    def reload(self, folder: Path) -> str:
        return self._predictor.reload_shadow(folder)

    def count(self, name: str) -> None:
        self._predictor.count(name)


class DecisionCalls(Counted):
    """The calls of `Predictor` about its decisions; its lock and running requests are the predictor's."""

    _history: HistoryState
    _running: LiveRequests
    _served: Served
    _recorder: Recorder | None
    _shadow: Shadow | None
    _shadow_folder: Path | None
    _shadow_reason: str

    def log_to(self, folder: str | Path, *, owner_key: bytes | None = None, flush_s: float = 1.0,
               file_mib: float = 64.0, file_s: float = 86_400.0, keep_mib: float = 16_384.0,
               keep_s: float = 400.0 * 86_400.0) -> None:
        """Log each admission from now on, and how it ended, to files in a folder; see docs/monitoring.md.

        A thread writes them, every `flush_s`; a killed process loses what came after the last write. A disk that fails
        costs decisions that are counted (`decisions_lost`), never an answer. Several processes may log to one folder.
        The settings are those of `LogSettings`. A log that was begun before is ended. ValueError for a wrong setting.
        """
        settings = LogSettings(owner_key, flush_s, file_mib, file_s, keep_mib, keep_s)
        self._record(folder_path(folder, "folder").absolute(), settings)

    def stop_logging(self) -> None:
        """Write what was decided so far, and log no further; without a log, nothing."""
        if self._recorder is not None and self._recorder.folder is not None:
            self._record(None, None)

    def flush_decisions(self) -> bool:
        """Have the shadow answer, and the log hold, all that was decided so far; False where the disk failed."""
        recorder = self._recorder
        return True if recorder is None else recorder.flush()

    def reload_shadow(self, folder: str | Path | None = None) -> str:
        """Have the bundle that lies in the folder now (default: the one that was loaded) answer as the shadow.

        Returns its version. BundleError where it is missing, corrupted, or of another history definition or clock than
        the champion: the shadow from before, or none, goes on. Differences are counted from 0.
        """
        source = self._shadow_folder if folder is None else folder_path(folder, "folder").absolute()
        if source is None:
            raise ValueError("folder must be given, since this predictor has no shadow, got None")
        try:
            served = Served.of(load_bundle(source)).following(self._served)
            if served.instant_s != self._served.instant_s:
                raise BundleError(f"schema.json: a shadow's instant_s must be that of the champion, whose features it "
                                  f"is given ({self._served.instant_s}), got {served.instant_s}")
        except Exception as error:
            self.count("shadow_errors")
            self._shadow_reason = str(error)
            raise
        self._shadow_folder, self._shadow_reason = source, ""
        with self._lock:
            self._shadow = Shadow(served, self._served)
            own = {*served.encoder.columns()} - {*self._served.encoder.columns()}
            self._served = replace(self._served, retired=self._served.retired | own)
        recorder = self._recorder
        if recorder is None:
            self._record(None, None)
        else:
            recorder.flush()
            recorder.shadow = self._shadow
        return served.version

    def shadow(self) -> Mapping[str, Any]:
        """The shadow's version (None where there is none), why it is refused, and how far it is from the champion.

        log10_ratio: 50, 90 and 99 % quantiles of |log10(shadow / champion)| of `remaining` at creation, as the upper
        edge of its bin, which is 10^0.05 = 12 % wide (the first reaches from 0 to 0.001, the last holds all above 10);
        NaN before the first answer. Class changes and errors are among `counters`.
        """
        one = self._shadow
        quantiles = {} if one is None else {share: one.differences.quantile(share) for share in (0.5, 0.9, 0.99)}
        return {"version": None if one is None else one.served.version, "reason": self._shadow_reason,
                "log10_ratio": quantiles}

    def _shadow_watch(self, interval_s: float, on_event: Callable[[WatchEvent], object] | None) -> Watch | None:
        """A watcher of the shadow's folder; None where there is none."""
        folder = self._shadow_folder
        return None if folder is None else Watch(_ShadowFollower(self), folder, interval_s, on_event)

    def _record(self, folder: Path | None, settings: LogSettings | None) -> None:
        """Replace the recorder; what the former one holds is written first."""
        with self._lock:
            former, shadow = self._recorder, self._shadow
            running = [(one.admission.token, one.admission.number) for one in self._running.all()]
            is_needed = folder is not None or shadow is not None
            self._recorder = Recorder(self.count, folder=folder, settings=settings, shadow=shadow,
                                      running=running) if is_needed else None
        if former is not None:
            former.close()
