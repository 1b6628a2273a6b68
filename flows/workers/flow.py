"""A flow with a store: a Prefect flow that finds a server, or brings its own, which ends with it, and opens the store.

What can be known before any work is checked first: the trace is there, the tracking store answers, artifacts can be
kept. Prefect's start and MLflow's database take half a minute on a busy machine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from prefect import Flow

from sojourn.flows.console import stage
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import SharedSettings, TraceSettings
from sojourn.flows.store.lock import model_lock
from sojourn.flows.tracking.client import TrackingError, ask, check_place
from sojourn.flows.tracking.databases import check_database
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import open_store
from sojourn.flows.workers.prefect import prefect_server
from sojourn.inflated import inflated

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
READ_UP_TO_BYTES = 4_000_000
"""A trace of this size is read in a second or two: whether its reader takes it is known at once."""
_TEXT_OF_GZIP = 10
"""So many times as large is the text of a compressed table, about."""
_taken: set[tuple[object, ...]] = set()
"""Reader, how it reads, and path, size and time of change of each file: traces that this process has read already."""


class StoreFlow(Flow[P, R]):
    """A flow of which the first argument is its settings, or several, of which the first name the store.

    is_writer: a run holds the lock of its settings' model, and is refused before Prefect starts if another one has it.
    """

    is_writer = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        settings = next(iter((*args, *kwargs.values())))
        several = settings if isinstance(settings, Sequence) else [settings]
        for each in several:
            if not isinstance(each, TraceSettings):
                raise ValueError(f"a flow's first argument must be its settings, got {each!r}")
            check_before_work(each)
        first: Any = several[0]
        with model_lock(first.store, first.registered_name) if self.is_writer else nullcontext():
            return self._served(settings, several, *args, **kwargs)

    def _served(self, settings: Any, several: Sequence[TraceSettings], *args: Any, **kwargs: Any) -> Any:
        """The run, with Prefect's server and the cluster that it needs."""
        if not isinstance(several[0], SharedSettings) or several[0].dask is None:
            with prefect_server(several[0].store):
                return super().__call__(*args, **kwargs)
        from sojourn.flows.workers.dask import cluster

        with cluster(several[0].dask) as address, prefect_server(several[0].store):
            found = [each.model_copy(update={"dask": address}) for each in several]
            given: Any = found if isinstance(settings, Sequence) else found[0]
            run: Callable[..., Any] = super().__call__
            return run(given, *args[1:], **kwargs) if args else run(**{**kwargs, next(iter(kwargs)): given})


def store_flow(name: str, *, is_writer: bool = False,
               ) -> Callable[[Callable[Concatenate[S, Tracker, P], R]], StoreFlow[Concatenate[S, P], R]]:
    """A decorator: the function as a flow of that name, which is called without its tracker.

    The store is opened when a run begins, and its tracker handed in after the settings. is_writer: the run holds the
    lock of the settings' model, whose champion is then in `bundles`. TrackingError naming what to do if the tracking
    store goes away.
    """

    def decorated(function: Callable[Concatenate[S, Tracker, P], R]) -> StoreFlow[Concatenate[S, P], R]:
        @wraps(function)
        def opened(settings: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            first: Any = settings[0] if isinstance(settings, Sequence) else settings
            with stage("open the store"):
                tracker = open_store(first, (first.registered_name,) if is_writer else ())
            try:
                return function(settings, tracker, *args, **kwargs)
            except TrackingError as error:
                raise TrackingError(f"{error}; start it again once that answers: what {first.store} has in its "
                                    "caches is not made again", error.code) from error

        signature = inspect.signature(function, eval_str=True)  # Prefect would look for their names here
        own = [each for place, each in enumerate(signature.parameters.values()) if place != 1]
        opened.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        made = StoreFlow(opened, name=name, log_prints=False, persist_result=False)
        made.is_writer = is_writer
        return made

    return decorated


def check_before_work(settings: TraceSettings) -> None:
    """OSError or ValueError where a run would end with it later: its trace, store, artifacts or workers.

    A monitor needs a store that is there, and makes none.
    """
    if isinstance(settings, MonitorConfig) and settings.mlflow_uri.database is not None:
        check_database(settings.mlflow_uri.database)
    if settings.trace is not None:
        _check_trace(settings.reader, settings.trace, settings.reading)
    if isinstance(settings, RetrainConfig) and settings.later_file is not None:
        later = settings.later_file
        _check_trace(later.reader, later.file, later.columns.keywords(), "test")
    if settings.tracking_uri is not None:
        ask(settings.tracking_uri)
    if settings.artifacts is not None:
        check_place(settings.mlflow_uri, settings.artifacts)


def _check_trace(reader: str, trace: Path, reading: Mapping[str, Any], what: str = "trace") -> None:
    from sojourn.features.readers import READERS, check_sql, read_trace

    if not trace.exists():
        raise FileNotFoundError(f"{what} must be a file or folder, got {str(trace)!r}")
    files = [path for path in trace.rglob("*") if path.is_file()] if trace.is_dir() else [trace]
    if not any(map(_holds_bytes, files)):
        found = "a folder without a file that holds any" if trace.is_dir() else "an empty file"
        raise ValueError(f"{what} must hold requests, got {found}: {str(trace)!r}")
    if reader in READERS and READERS[reader].is_queried:
        check_sql(trace)
        return
    is_of_requests = reader in READERS  # the others read usage series, for presets that place by usage
    if not is_of_requests or sum(map(_text_bytes, files)) > READ_UP_TO_BYTES:
        return
    state = (reader, repr(reading), *((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files))
    if state not in _taken:  # a command and its flow both ask
        read_trace(reader, trace, **reading)
        _taken.add(state)


def _text_bytes(path: Path) -> int:
    """How large a file is, about, were it not compressed."""
    return path.stat().st_size * (_TEXT_OF_GZIP if path.suffix == ".gz" else 1)


def _holds_bytes(path: Path) -> bool:
    if path.stat().st_size == 0:
        return False
    try:
        with inflated(path) as source:
            return bool(source.read(1))
    except (OSError, ValueError):  # damaged: for the reader to say
        return True
