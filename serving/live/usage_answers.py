"""The usage section of a predictor: samples in, expected use out, and reloads of the section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sojourn.serving.checks import folder_path
from sojourn.serving.inputs import Receipt
from sojourn.serving.live.counters import Counters
from sojourn.serving.live.open_requests import OpenRequests
from sojourn.serving.usage import LiveUsage, UsageAnswer, answer_of, load_usage, serve_section
from sojourn.serving.watch import ReloadGate


class UsageAnswers:
    """The usage section of a predictor, if any, and the samples of the open requests.

    Each call but `ended` takes the predictor's lock. A watcher of the section's folder reloads it.
    """

    def __init__(self, counters: Counters, reloading: ReloadGate) -> None:
        self.live: LiveUsage | None = None
        self.folder: Path | None = None
        self._counters, self._reloading = counters, reloading
        self.count = counters.count

    @property
    def version(self) -> str:
        """The version of the served section; empty if there is none."""
        return "" if self.live is None else self.live.section.version

    def load(self, folder: str | Path) -> None:
        """Load the section of a folder; BundleError if it cannot be served."""
        self.live = LiveUsage(load_usage(folder))
        self.folder = folder_path(folder, "usage").absolute()

    def reload(self, folder: str | Path | None = None) -> str:
        """See `Predictor.reload_usage`."""
        live, source = self._served(), self.folder if folder is None else folder_path(folder, "folder")
        if source is None:
            raise ValueError("folder must be given, since this predictor loaded no usage section, got None")
        with self._reloading:
            try:
                section = load_usage(source)
                with self._counters.lock:
                    serve_section(live, section)
                    self._counters.n["reloads"] += 1
            except Exception:
                self.count("reload_errors")
                raise
        return section.version

    def observe(self, opened: OpenRequests, vm: Any, time_s: int, used: float, mem_used: float | None) -> bool:
        """See `Predictor.observe`."""
        live = self._served()
        with self._counters.lock:
            is_taken = live.observe(_id(live, opened, vm), time_s, used, mem_used)
            self._counters.n["observations" if is_taken else "observations_dropped"] += 1
        return is_taken

    def answer(self, opened: OpenRequests, vm: Any, resource: str) -> UsageAnswer:
        """See `Predictor.usage`."""
        live = self._served()
        with self._counters.lock:
            request_id = _id(live, opened, vm)
            section, samples = live.section, live.seen(request_id, resource)
        return answer_of(section, request_id, resource, samples)

    def forget(self, request_id: str) -> bool:
        """See `Predictor.forget_usage`."""
        with self._counters.lock:
            return self._served().ended(request_id)

    def ended(self, admission: Receipt) -> None:
        """Delete the samples of a request that has ended; the caller holds the lock."""
        if self.live is not None:
            self.live.ended(admission.id)

    def _served(self) -> LiveUsage:
        if self.live is None:
            raise ValueError("usage must be given to Predictor.load for what is asked here, got None")
        return self.live


def _id(live: LiveUsage, opened: OpenRequests, vm: Any) -> str:
    """The id under which a request's samples are stored; the caller holds the lock."""
    return vm if isinstance(vm, str) and vm in live.section.rows else opened.find(vm).admission.id
