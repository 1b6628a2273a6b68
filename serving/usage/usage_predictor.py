"""Answers about use over time for whoever has no lifetime bundle: observations in, expected use out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol

from sojourn.serving.checks import folder_path
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forking import join_forks
from sojourn.serving.reload_gate import ReloadGate
from sojourn.serving.usage.live_usage import LiveUsage
from sojourn.serving.usage.observed_use import N_REQUESTS_MAX
from sojourn.serving.usage.usage_answer import UsageAnswer, answer_of
from sojourn.serving.usage.usage_section import UsageSection, load_usage

N_TEXT_MAX = 512


class UsagePredictor:
    """Expected use of requests by their ids, any text. Safe to use from several threads and across forks.

    What was observed lives in memory: after a restart a request is a newcomer again, until its observation time has
    passed. A fork copies it; the two go on apart.
    """

    def __init__(self, section: UsageSection, n_most: int = N_REQUESTS_MAX) -> None:
        self._live = LiveUsage(section, n_most)
        self._lock = threading.Lock()
        self._reloading = ReloadGate()
        self._folder: Path | None = None
        self._n_dropped = 0
        join_forks(self)

    @classmethod
    def load(cls, folder: str | Path, *, n_most: int = N_REQUESTS_MAX) -> UsagePredictor:
        """Load a usage section; BundleError where it is missing, corrupted or of another version.

        n_most: requests that are observed at once; samples of further ones are dropped and counted.
        """
        predictor = cls(load_usage(folder), n_most)
        predictor._folder = Path(folder).absolute()
        return predictor

    @property
    def version(self) -> str:
        """Of the section that is served."""
        return self._live.section.version

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve what lies in the folder now (default: the one that was loaded); returns its version.

        BundleError where that cannot be served, or has another clock: the old one serves on.
        """
        source = self._folder if folder is None else folder_path(folder, "folder")
        if source is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        with self._reloading:
            section = load_usage(source)
            with self._lock:
                serve_section(self._live, section)
        return section.version

    def observe(self, request_id: str, time_s: int, used: float, mem_used: float | None = None) -> bool:
        """Take a sample of use at a time: shares of the cores, and of the memory, that the request reserved.

        Any order; a sample before the first one lengthens the observation. True where it counts; False where it is
        dropped, since as many requests as allowed are observed already. ValueError for what is no sample.
        """
        name = _text(request_id)
        with self._lock:
            is_taken = self._live.observe(name, time_s, used, mem_used)
            self._n_dropped += not is_taken
        return is_taken

    def usage(self, request_id: str, resource: str = "cpu") -> UsageAnswer:
        """What is expected of a request; of one never heard of, that it uses its reservation."""
        name = _text(request_id)
        with self._lock:
            section, seen = self._live.section, self._live.seen(name, resource)
        return answer_of(section, name, resource, seen)

    def ended(self, request_id: str) -> bool:
        """Forget what was observed of a request; False where that is nothing."""
        with self._lock:
            return self._live.ended(_text(request_id))

    def info(self) -> dict[str, Any]:
        """What is served, how many requests are observed in how many bytes, and how many samples were dropped.

        surplus_rules: by resource, whether classes or hours give the surplus after each of SEEN_S (3, 6 and 12 hours).
        """
        with self._lock:
            section = self._live.section
            return {"version": section.version,
                    "n_classes": {name: len(each) for name, each in section.classes.items()},
                    "surplus_rules": {name: list(section.surplus_rules[name]) for name in section.classes},
                    "n_waves": len(section.rows), "observed_s": section.observed_s, "n_observed": len(self._live),
                    "n_bytes": self._live.n_bytes, "n_dropped": self._n_dropped}

    def before_fork(self) -> None:
        """Wait until no other thread is within an observation or a reload (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child."""
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)


class ServesUsage(Protocol):
    """A predictor that serves a usage section beside something else."""

    @property
    def usage_version(self) -> str | None: ...
    def reload_usage(self, folder: str | Path | None = None) -> str: ...
    def count(self, name: str) -> None: ...


class UsageFollower:
    """What a watcher of a usage section asks, of a predictor that serves more than that."""

    def __init__(self, predictor: ServesUsage) -> None:
        self._predictor = predictor

    @property
    def version(self) -> str:
        """Of the section that is served."""
        return self._predictor.usage_version or ""

    def reload(self, folder: Path) -> str:
        """Serve the folder's section from now on."""
        return self._predictor.reload_usage(folder)

    def count(self, name: str) -> None:
        """One more of what is counted under a name."""
        self._predictor.count(name)


def serve_section(live: LiveUsage, section: UsageSection) -> None:
    """Put a section in the place of another; BundleError where its clock is another."""
    try:
        live.serve(section)
    except ValueError as error:
        raise BundleError(f"usage.json: {error}") from error


def _text(request_id: Any) -> str:
    if not isinstance(request_id, str) or not request_id or len(request_id) > N_TEXT_MAX:
        raise ValueError(f"request_id must be text of 1 to {N_TEXT_MAX} characters, got {shown(request_id)}")
    return request_id
