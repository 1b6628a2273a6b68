"""The `ingest` stage: a reader's trace on disk, cached by the content of its input."""

from __future__ import annotations

import errno
import hashlib
import json
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_markdown_artifact
from rich.markup import escape

from sojourn.flows.checksums import are_whole, write_checksums
from sojourn.flows.config import RetrainConfig
from sojourn.flows.configured_trace import configured_trace, trace_code
from sojourn.flows.progress import console, stage, tell_doubts
from sojourn.publishing import sync, sync_tree

CHECKSUMS = "checksums.json"
_REPORT = "report.txt"


@dataclass(frozen=True, slots=True)
class Ingested:
    """A trace on disk: its folder, its name, the hash that stands for its content, and the read report's text."""

    folder: Path
    name: str
    data_hash: str
    report: str


@task(name="ingest")
def ingest(config: RetrainConfig) -> Ingested:
    """Read the configured trace into the store, or find it there."""
    with stage("ingest"):
        ingested = ingested_trace(config, input_hash(config))
    create_markdown_artifact(f"```\n{ingested.report}```", key="read-report",
                             description=f"What was read of {ingested.name}")
    return ingested


def ingested_trace(config: RetrainConfig, data_hash: str) -> Ingested:
    """The configured trace in the store, read now unless it is there whole. data_hash: its `input_hash`."""
    name = "synthetic" if config.trace is None else config.trace.name
    folder = config.store / "traces" / f"{name}-{data_hash[:12]}"
    if not _is_whole(folder):
        if folder.exists():
            console.print(f"[yellow]![/] the kept trace {escape(folder.name)} is damaged and read anew", soft_wrap=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
            fresh = _read(config, Path(made) / "trace")
            write_checksums(fresh / CHECKSUMS, [path for path in fresh.iterdir() if path.name != CHECKSUMS])
            _publish(fresh, folder)
    report = (folder / _REPORT).read_text()
    tell_doubts(report.splitlines())
    return Ingested(folder, name, data_hash, report)


def _read(config: RetrainConfig, folder: Path) -> Path:
    """Read or generate the trace into a new folder, its report beside it."""
    trace, report = configured_trace(config)
    trace.save(folder)
    if report is None:
        (folder / _REPORT).write_text(f"generated  {len(trace):,}\n")
    else:
        report.write_rejected(folder)
        (folder / _REPORT).write_text(report.text() + "\n")
    return folder


def _is_whole(folder: Path) -> bool:
    return are_whole(folder / CHECKSUMS, [folder / _REPORT, folder / "trace.json", folder / "requests.parquet"])


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


def input_hash(config: RetrainConfig) -> str:
    """sha256 hex of what decides the configured trace: its files or the generator's settings, its reader, the code."""
    return _sha256([_content(config), config.reader, config.horizon_s, trace_code(config)])


def content_hash(config: RetrainConfig) -> str:
    """sha256 hex of the configured trace's content alone, whatever its files are called and whichever code reads it.

    Of the synthetic trace: its size and seed, so that no change of the generator makes it another.
    """
    declared = [] if config.horizon_s is None else [f"horizon {config.horizon_s}"]  # it decides who is censored
    return _sha256([*sorted(digest for _, digest in _content(config)), *declared])


def _content(config: RetrainConfig) -> list[tuple[str, str]]:
    """Name and sha256 hex of each of the trace's files, or of the generator's settings."""
    if config.trace is None:
        return [("synthetic", _sha256([config.n_requests, config.seed]))]
    if not config.trace.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(config.trace)!r}")
    found = []
    for path in sorted(config.trace.rglob("*")) if config.trace.is_dir() else [config.trace]:
        if path.is_file():
            with path.open("rb") as stream:
                found.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return found


def _sha256(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
