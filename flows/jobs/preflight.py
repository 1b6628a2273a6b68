"""What can be known before any work is done: the trace is there, the tracking store answers, artifacts can be kept.

Before Prefect starts and MLflow makes its database, which take half a minute on a busy machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sojourn.flows.outside.mlflow_database import check_database
from sojourn.flows.outside.tracking_client import ask
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import TraceSettings
from sojourn.inflated import inflated

READ_UP_TO_BYTES = 4_000_000
"""A trace of this size is read in a second or two: whether its reader takes it is known at once."""
_TEXT_OF_GZIP = 10
"""So many times as large is the text of a compressed table, about."""
_taken: set[tuple[object, ...]] = set()
"""Reader, how it reads, and path, size and time of change of each file: traces that this process has read already."""


def check_before_work(settings: TraceSettings) -> None:
    """OSError or ValueError where a run would end with it later: its trace, store, artifacts or workers.

    A monitor needs a store that is there, and makes none.
    """
    if isinstance(settings, RetrainConfig) and settings.dask is None and settings.n_fit_workers > 1:
        raise ValueError(f"n_fit_workers must be 1 without dask, got {settings.n_fit_workers}")
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
        from sojourn.flows.outside.run_artifacts import check_place  # its MLflow is loaded for this alone

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
    if state not in _taken:  # a command and its job both ask
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
