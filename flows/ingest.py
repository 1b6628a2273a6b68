"""The `ingest` stage: a reader's trace on disk, cached by the content of its input."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_markdown_artifact

from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.code_version import source_hash
from sojourn.flows.config import RetrainConfig
from sojourn.flows.progress import stage


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
    """The configured trace in the store, read now unless it is there. data_hash: its `input_hash`."""
    name = "synthetic" if config.trace is None else config.trace.name
    folder = config.store / "traces" / f"{name}-{data_hash[:12]}"
    report_file = folder / "report.txt"
    if not report_file.is_file():
        temporary = folder / ".report.txt"
        if config.trace is None:
            trace = synthesize(config.n_requests, seed=config.seed)
            trace.save(folder)
            temporary.write_text(f"generated  {len(trace):,}\n")
        else:
            trace, report = read_trace(config.reader, config.trace)
            trace.save(folder)
            report.write_rejected(folder)
            temporary.write_text(report.text() + "\n")
        temporary.replace(report_file)
    return Ingested(folder, name, data_hash, report_file.read_text())


def input_hash(config: RetrainConfig) -> str:
    """sha256 hex of what decides the configured trace: its files or the generator's settings, its reader, the code."""
    code = source_hash("sojourn.features.readers", "sojourn.features.synthetic", "sojourn.features.trace",
                       "sojourn.features.report")
    return _sha256([_content(config), config.reader, code])


def content_hash(config: RetrainConfig) -> str:
    """sha256 hex of the configured trace's content alone, whatever its files are called and whichever code reads it.

    Of the synthetic trace: its size and seed, so that no change of the generator makes it another.
    """
    return _sha256(sorted(digest for _, digest in _content(config)))


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
