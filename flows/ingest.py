"""The `ingest` stage: a reader's trace on disk, cached by the content of its input."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from prefect import task
from prefect.artifacts import create_markdown_artifact

from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.code_version import source_hash
from sojourn.flows.config import RetrainConfig
from sojourn.flows.progress import stage

_CHUNK = 1 << 20


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
    """sha256 hex of what decides the configured trace: its files' content or the generator's settings, and the code."""
    digest = hashlib.sha256()
    if config.trace is None:
        digest.update(json.dumps(["synthetic", config.n_requests, config.seed]).encode())
    else:
        digest.update(config.reader.encode())
        if not config.trace.exists():
            raise FileNotFoundError(f"trace must be a file or folder, got {str(config.trace)!r}")
        files = sorted(config.trace.rglob("*")) if config.trace.is_dir() else [config.trace]
        for path in files:
            if path.is_file():
                digest.update(path.name.encode())
                with path.open("rb") as stream:
                    while chunk := stream.read(_CHUNK):
                        digest.update(chunk)
    digest.update(source_hash("sojourn.features.readers", "sojourn.features.synthetic", "sojourn.features.trace",
                              "sojourn.features.report").encode())
    return digest.hexdigest()
