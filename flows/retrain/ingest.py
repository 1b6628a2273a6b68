"""The stage `ingest`: the trace that the settings name, read or made, on disk, cached by the content of its input.

A source that is queried is written into the store once; all that follows reads it from there."""

from __future__ import annotations

import errno
import hashlib
import json
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
from sojourn.flows.settings.trace import LaterFile, TraceSettings, TraceSource, maps_columns, takes_timezone
from sojourn.flows.store.caches import CHECKSUMS, are_whole, note_read, parts_file, source_hash, write_checksums
from sojourn.flows.store.lock import store_lock, use_store
from sojourn.publishing import sync, sync_tree

_REPORT = "report.txt"

RETRY_AFTER_S = (5.0, 30.0, 120.0)
"""Pauses before a database is asked again."""
ROOMS = ("features", "serving", "flows/retrain/ingest.py")
"""What decides a trace."""
S = TypeVar("S", bound=TraceSettings)


@dataclass(frozen=True, slots=True)
class Ingested:
    """A trace on disk: its folder, its name, the hash that stands for its content, and the read report's text.

    content_hash: of its content alone, see `content_hash`; "" where it was not asked for.
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
    """The task `ingest`; a database that does not answer is asked again, 5, 30 and 120 s later.

    That is safe: what was read is kept, and the trace appears, only when it is whole.
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
    """A source's trace in the store; one that is queried is asked each time, for what is new."""
    with store_lock(store):
        use_store(store)  # some commands log nothing before they end: what they write must not be swept meanwhile
    if not is_queried(source):
        content = content_hash(source)
        ingested = replace(ingested_trace(store, source, input_hash(source)), content_hash=content)
        note_read(parts_file(store, source.alone))
        tell_doubts(ingested.report.splitlines())
        return ingested
    (store / "traces").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{source.name}.", dir=store / "traces") as made:
        fresh = _read(source, Path(made) / "trace", parts_file(store, source.alone))
        report = (fresh / _REPORT).read_text()
        hashes = [hashlib.sha256((fresh / name).read_bytes()).hexdigest()
                  for name in ("requests.parquet", "trace.json")]
        content = _sha256(hashes)
        data_hash = _sha256([hashes, source.reader, source.horizon_s, trace_code()])
        folder = store / "traces" / f"{source.name}-{data_hash[:12]}"
        write_checksums(fresh / CHECKSUMS, [path for path in fresh.iterdir() if path.name != CHECKSUMS])
        _publish(fresh, folder)
    note_read(parts_file(store, source.alone))
    tell_doubts(report.splitlines())
    return Ingested(folder, source.name, data_hash, report, content)


def is_queried(source: TraceSource) -> bool:
    """Whether the source's content is known only by asking for it."""
    return source.file is not None and source.reader in READERS and READERS[source.reader].is_queried


def ingested_trace(store: Path, source: TraceSource, data_hash: str) -> Ingested:
    """A source's trace in the store, read now unless it is there whole. data_hash: its `input_hash`.

    Who asks first in a run tells what the report says of refused rows; later ones would only repeat it.
    """
    folder = store / "traces" / f"{source.name}-{data_hash[:12]}"
    if not _is_whole(folder):
        if folder.exists():
            console.print(f"[yellow]![/] the kept trace {escape(folder.name)} is damaged and read anew", soft_wrap=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
            fresh = _read(source, Path(made) / "trace", parts_file(store, source.alone))
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
    """Put a trace in its place, unless another process has: who reads that one must not lose it."""
    sync_tree(fresh)
    while not _is_whole(folder):
        try:
            fresh.rename(folder)
            sync(folder.parent)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        folder.rename(fresh.with_name(uuid.uuid4().hex))  # what is damaged goes with the temporary folder


def input_hash(source: TraceSource) -> str:
    """sha256 hex of what decides the configured trace: its files or the generator's settings, its reader, the code."""
    return _sha256([_content(source), source.reader, source.horizon_s, trace_code(), *_columns(source),
                    *_later(source, input_hash)])


def content_hash(source: TraceSource) -> str:
    """sha256 hex of the configured trace's content alone, whichever code reads it, and whatever its files are called
    unless their names say when they were written.

    Of the synthetic trace: its size and seed, so that no change of the generator makes it another.
    """
    declared = [] if source.horizon_s is None else [f"horizon {source.horizon_s}"]  # it decides who is censored
    is_stamped = source.reader in READERS and READERS[source.reader].is_stamped
    files = sorted(f"{name} {digest}" if is_stamped else digest for name, digest in _content(source))
    return _sha256([*files, *declared, *_columns(source), *_later(source, content_hash)])


def _later(source: TraceSource, hash_of: Callable[[TraceSource], str]) -> list[str]:
    """What a later file adds to what decides the trace."""
    later = source.later
    return [] if later is None else ["later", hash_of(later.source), f"{later.offset_s} {later.is_overlap_allowed}"]


def _columns(source: TraceSource) -> list[str]:
    """What decides how a table's columns are read, besides the table."""
    options = source.columns
    if source.file is None or not takes_timezone(source.reader):
        return []
    if not maps_columns(source.reader):
        return [f"timezone {options.timezone}"]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in options.files(source.file)]
    return [f"columns {' '.join([*options.pairs, *digests])}", f"timezone {options.timezone}"]


def _content(source: TraceSource) -> list[tuple[str, str]]:
    """Name and sha256 hex of each of the trace's files, or of the generator's settings."""
    if source.file is None:
        return [("synthetic", _sha256([source.n_requests, source.seed]))]
    if not source.file.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(source.file)!r}")
    if is_queried(source):
        raise ValueError(f"reader must be one of files that stay, got {source.reader!r}: write its trace once with "
                         "`sojourn trace convert`, and give that with --reader parquet")
    found = []
    for path in sorted(source.file.rglob("*")) if source.file.is_dir() else [source.file]:
        if path.is_file():
            with path.open("rb") as stream:
                found.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return found


def _sha256(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def configured_trace(source: TraceSource, kept: Path | None = None) -> tuple[Trace, ReadReport | None]:
    """The trace, and what was read of its files; None where it is generated.

    kept: file for the parts of a source that grows, of which only what is new or changed is then read. With a later
    file the trace is that of both.
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
    """The settings, with a trace that is queried replaced by its folder in the store; others as they are.

    The folder's name ends in a hash of what the query gave: results on two states of a table are of two traces.
    """
    source = TraceSource(settings.trace, settings.reader, settings.horizon_s, 0, 0)
    if not is_queried(source):
        return settings
    with stage("read"):
        folder = read_into(settings.store, source).folder
    return settings.model_copy(update={"trace": folder, "reader": "parquet", "horizon_s": None})
