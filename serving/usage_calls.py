"""What a predictor does with a usage section: observations in, expected use out, and other sections in its place."""

from __future__ import annotations

from pathlib import Path

from sojourn.serving.answers import Lifetime
from sojourn.serving.checks import folder_path
from sojourn.serving.counters import Counted
from sojourn.serving.inputs import HistoryState
from sojourn.serving.live import LiveRequests
from sojourn.serving.usage import LiveUsage, UsageAnswer, answer_of, load_usage, serve_section
from sojourn.serving.watch import ReloadGate


class UsageCalls(Counted):
    """The calls of `Predictor` about use over time; its lock and running requests are the predictor's."""

    _reloading: ReloadGate
    _history: HistoryState
    _running: LiveRequests
    _usage: LiveUsage | None
    _usage_folder: Path | None

    def reload_usage(self, folder: str | Path | None = None) -> str:
        """Serve the usage section that lies in the folder now (default: the one that was loaded); returns its version.

        What was observed goes on. BundleError where the section is missing, corrupted or of another clock, ValueError
        where none was loaded: the old one serves on.
        """
        live, source = self._with_usage(), self._usage_folder if folder is None else folder_path(folder, "folder")
        if source is None:
            raise ValueError("folder must be given, since this predictor loaded no usage section, got None")
        with self._reloading:
            try:
                section = load_usage(source)
                with self._lock:
                    serve_section(live, section)
                    self._counts["reloads"] += 1
            except Exception:
                self.count("reload_errors")
                raise
        return section.version

    def observe(self, vm: Lifetime | str, time_s: int, used: float, mem_used: float | None = None) -> bool:
        """Take a sample of what a request used at a time; False where it is dropped (see `counters`).

        vm: the handle or id of a running request, or the trace's id of one that the usage section has a wave of.
        used, mem_used: shares of the cores, and of the memory, that it reserved. Samples may come in any order. What
        was observed is forgotten when the request ends; it is not part of a snapshot.
        ValueError for what is no sample, for a request that does not run, or where no usage section was loaded.
        """
        try:
            live = self._with_usage()
            with self._lock:
                is_taken = live.observe(self._usage_id(live, vm), time_s, used, mem_used)
                self._counts["observations" if is_taken else "observations_dropped"] += 1
        except ValueError:
            self.count("errors")
            raise
        return is_taken

    def usage(self, vm: Lifetime | str, resource: str = "cpu") -> UsageAnswer:
        """What a request is expected to use, by what was observed of it and what the usage section knows.

        vm: as for `observe`. resource: `cpu` or `mem`. ValueError as there.
        """
        try:
            live = self._with_usage()
            with self._lock:
                request_id = self._usage_id(live, vm)
                section, seen = live.section, live.seen(request_id, resource)
            return answer_of(section, request_id, resource, seen)
        except ValueError:
            self.count("errors")
            raise

    def forget_usage(self, request_id: str) -> bool:
        """Forget what was observed of a request that was never admitted here; False where that is nothing."""
        with self._lock:
            return self._with_usage().ended(request_id)

    @property
    def usage_version(self) -> str | None:
        """The version of the usage section that is served; None where there is none."""
        live = self._usage
        return None if live is None else live.section.version

    def _with_usage(self) -> LiveUsage:
        if self._usage is None:
            raise ValueError("usage must be given to Predictor.load for what is asked here, got None")
        return self._usage

    def _usage_id(self, live: LiveUsage, vm: Lifetime | str) -> str:
        """The id that a request is observed by; the lock is held."""
        if isinstance(vm, str) and vm in live.section.rows:
            return vm
        return self._running.find(vm, self._history.token).admission.id
