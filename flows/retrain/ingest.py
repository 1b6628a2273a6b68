"""The stage `ingest`: the configured trace, read or generated, cached by the content of its input.

A database is queried once, into the store; all later stages read it from there."""

from __future__ import annotations

import errno
import hashlib
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from prefect import Task, task
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State, TaskRun
from rich.markup import escape

from sojourn.features.later_file import with_later
from sojourn.features.partitions import is_in_parts, part_files, write_synthetic_parts
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import READERS, KeptParts, SourceUnavailable, read_trace
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.console import console, stage, tell_doubts
from sojourn.flows.settings.trace import LaterFile, TraceSettings, TraceSource, has_option
from sojourn.flows.store.caches import (
    CHECKSUMS,
    are_whole,
    json_hash,
    note_read,
    parts_file,
    source_hash,
    write_checksums,
)
from sojourn.flows.store.lock import store_lock, use_store
from sojourn.publishing import sync, sync_tree

_REPORT = "report.txt"

RETRY_AFTER_S = (5.0, 30.0, 120.0)
"""Pauses before a database is queried again."""
ROOMS = ("features", "serving", "flows/retrain/ingest.py")
"""The code that makes a trace."""
S = TypeVar("S", bound=TraceSettings)


@dataclass(frozen=True, slots=True)
class Ingested:
    """A trace on disk: its folder, its name, the hash of its inputs, and the read report's text.

    content_hash: of its content alone, see `content_hash`; "" = not computed.
    """

    folder: Path
    name: str
    data_hash: str
    report: str
    content_hash: str = ""


@task(name="ingest")
def ingest(store: Path, source: TraceSource) -> Ingested:
    """Read the configured trace into the store, or find it there."""
    with stage("ingest"):
        ingested = read_into(store, source)
    create_markdown_artifact(f"```\n{ingested.report}```", key="read-report",
                             description=f"What was read of {ingested.name}")
    return ingested


def ingesting(source: TraceSource) -> Task[[Path, TraceSource], Ingested]:
    """The task `ingest`; a database that does not answer is queried again, 5, 30 and 120 s later.

    That is safe: parts and trace appear only when they are whole.
    """
    if not is_queried(source):
        return ingest
    return ingest.with_options(retries=len(RETRY_AFTER_S), retry_delay_seconds=list(RETRY_AFTER_S),
                               retry_condition_fn=is_source_away)


def is_source_away(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether a failed read may succeed later."""
    try:
        state.result()
    except SourceUnavailable:
        return True
    except Exception:
        return False
    return False


def read_into(store: Path, source: TraceSource) -> Ingested:
    """A source's trace in the store; a database is queried each time, for new rows."""
    with store_lock(store):
        use_store(store)  # protects the files of commands that log nothing before they end from cleaning
    if not is_queried(source):
        content = content_hash(source)
        ingested = replace(ingested_trace(store, source, input_hash(source)), content_hash=content)
        note_read(parts_file(store, source.alone))
        tell_doubts(ingested.report.splitlines())
        return ingested
    (store / "traces").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=store / "traces") as temporary:
        fresh = _read(source, Path(temporary) / "trace", parts_file(store, source.alone))
        report = (fresh / _REPORT).read_text()
        hashes = [hashlib.sha256((fresh / name).read_bytes()).hexdigest()
                  for name in ("requests.parquet", "trace.json")]
        content = json_hash(hashes)
        data_hash = json_hash([hashes, source.reader, source.horizon_s, trace_code()])
        folder = store / "traces" / f"{source.name}-{data_hash[:12]}"
        write_checksums(fresh / CHECKSUMS, [path for path in fresh.iterdir() if path.name != CHECKSUMS])
        _publish(fresh, folder)
    note_read(parts_file(store, source.alone))
    tell_doubts(report.splitlines())
    return Ingested(folder, source.name, data_hash, report, content)


def is_queried(source: TraceSource) -> bool:
    """Whether the source's content is known only after a query."""
    return source.file is not None and source.reader in READERS and READERS[source.reader].is_queried


def ingested_trace(store: Path, source: TraceSource, data_hash: str) -> Ingested:
    """A source's trace in the store, read unless it is there whole. data_hash: its `input_hash`."""
    folder = store / "traces" / f"{source.name}-{data_hash[:12]}"
    if not _is_whole(folder):
        if folder.exists():
            console.print(f"[yellow]![/] the kept trace {escape(folder.name)} is damaged and read anew", soft_wrap=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            fresh = _read(source, Path(temporary) / "trace", parts_file(store, source.alone))
            write_checksums(fresh / CHECKSUMS, [path for path in fresh.iterdir() if path.name != CHECKSUMS])
            _publish(fresh, folder)
    return Ingested(folder, source.name, data_hash, (folder / _REPORT).read_text())


def _read(source: TraceSource, folder: Path, kept: Path | None) -> Path:
    """Read or generate the trace into a new folder, its report beside it. kept: see `configured_trace`."""
    if source.is_in_parts:
        write_synthetic_parts(folder, source.n_requests, source.seed)
        (folder / _REPORT).write_text(f"generated  {source.n_requests:,}\n")
        return folder
    trace, report = configured_trace(source, kept)
    trace.save(folder)
    if report is None:
        (folder / _REPORT).write_text(f"generated  {len(trace):,}\n")
    else:
        report.write_rejected(folder)
        (folder / _REPORT).write_text(report.text() + "\n")
    return folder


def _is_whole(folder: Path) -> bool:
    files = part_files(folder) if is_in_parts(folder) else [folder / "requests.parquet"]
    return are_whole(folder / CHECKSUMS, [folder / _REPORT, folder / "trace.json", *files])


def _publish(fresh: Path, folder: Path) -> None:
    """Put a trace in its place, unless another process has: its readers must not lose it."""
    sync_tree(fresh)
    while not _is_whole(folder):
        try:
            fresh.rename(folder)
            sync(folder.parent)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        folder.rename(fresh.with_name(uuid.uuid4().hex))  # the damaged one is removed with the temporary folder


def input_hash(source: TraceSource) -> str:
    """sha256 hex of the configured trace's inputs: files or generator's settings, reader, code."""
    return json_hash([_content(source), source.reader, source.horizon_s, trace_code(), *_columns(source),
                    *_later(source, input_hash)])


def content_hash(source: TraceSource) -> str:
    """sha256 hex of the configured trace's content alone, without the code and the names of files,
    unless these hold the times of writing.

    Of the synthetic trace: its size and seed, so the hash does not depend on the generator's code.
    """
    declared = [] if source.horizon_s is None else [f"horizon {source.horizon_s}"]  # it decides what is censored
    is_stamped = source.reader in READERS and READERS[source.reader].is_stamped
    files = sorted(f"{name} {digest}" if is_stamped else digest for name, digest in _content(source))
    return json_hash([*files, *declared, *_columns(source), *_later(source, content_hash)])


def _later(source: TraceSource, hash_of: Callable[[TraceSource], str]) -> list[str]:
    later = source.later
    return [] if later is None else ["later", hash_of(later.source), f"{later.offset_s} {later.is_overlap_allowed}"]


def _columns(source: TraceSource) -> list[str]:
    """The inputs of reading a table's columns, besides the table."""
    options = source.columns
    if source.file is None or not has_option(source.reader, "timezone"):
        return []
    if not has_option(source.reader, "columns"):
        return [f"timezone {options.timezone}"]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in options.files(source.file)]
    return [f"columns {' '.join([*options.pairs, *digests])}", f"timezone {options.timezone}"]


def _content(source: TraceSource) -> list[tuple[str, str]]:
    """Name and sha256 hex of each of the trace's files, or of the generator's settings."""
    if source.file is None:
        return [("synthetic", json_hash([source.n_requests, source.seed]))]
    if not source.file.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(source.file)!r}")
    if is_queried(source):
        raise ValueError(f"reader must be one of files that stay, got {source.reader!r}: write its trace once with "
                         "`sojourn trace convert`, and give that with --reader parquet")
    hashes = []
    for path in sorted(source.file.rglob("*")) if source.file.is_dir() else [source.file]:
        if path.is_file():
            with path.open("rb") as stream:
                hashes.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return hashes


def configured_trace(source: TraceSource, kept: Path | None = None) -> tuple[Trace, ReadReport | None]:
    """The trace, and the report on its files; None if it is generated.

    kept: file for the parts of a source that grows; then only new or changed parts are read. With a
    later file the trace is of both.
    """
    if source.later is not None:
        return _of_two_files(source, source.later, kept)
    if source.file is None:
        return synthesize(source.n_requests, seed=source.seed), None
    if kept is not None and READERS[source.reader].is_growing:
        return read_trace(source.reader, source.file, horizon_s=source.horizon_s,
                          kept=KeptParts(kept, trace_code()), is_shrunk_allowed=source.is_shrunk_allowed)
    return read_trace(source.reader, source.file, horizon_s=source.horizon_s, **source.columns.keywords())


def _of_two_files(source: TraceSource, later: LaterFile, kept: Path | None) -> tuple[Trace, ReadReport]:
    past, of_past = configured_trace(source.alone, kept)
    test, of_test = configured_trace(later.source)
    assert of_past is not None
    assert of_test is not None  # neither is generated
    joined, lines = with_later(past, test, offset_s=later.offset_s, file_ids=READERS[source.reader].file_ids,
                               is_overlap_allowed=later.is_overlap_allowed)
    return joined, of_past.joined(of_test, len(joined), lines)


def trace_code() -> str:
    """sha256 hex of the code that makes traces: readers and generator."""
    return source_hash(*ROOMS)


def with_kept_trace(settings: S) -> S:
    """The settings, with a queried trace replaced by its folder in the store; others unchanged.

    The folder's name ends in a hash of the query's result: two states of a table are two traces.
    """
    source = TraceSource(settings.trace, settings.reader, settings.horizon_s, 0, 0)
    if not is_queried(source):
        return settings
    with stage("read"):
        folder = read_into(settings.store, source).folder
    return settings.model_copy(update={"trace": folder, "reader": "parquet", "horizon_s": None})
