"""The `build_features` stage: feature rows with owner history, cached as one Parquet file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from prefect import task

from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.trace import Trace
from sojourn.flows.code_version import source_hash
from sojourn.flows.config import RetrainConfig
from sojourn.flows.ingest import Ingested
from sojourn.flows.progress import Report, console, stage
from sojourn.flows.whole_file import whole_file
from sojourn.models.bundle_writer import packed_arrays
from sojourn.serving.encoder import Encoder
from sojourn.serving.history import HistoryState

BUILT_BY = ("sojourn.features.creation", "sojourn.serving")
"""An edit of these modules makes kept features stale."""
_LABELS = ("decided_s", "arrival_s", "lifetime_s", "is_event", "idx_request")


@task(name="build_features")
def build_features(config: RetrainConfig, ingested: Ingested) -> tuple[Trace, Encoder, FeatureRows, HistoryState]:
    """The trace, its encoder, its feature rows, and the owner history as it stands at the trace's end."""
    with stage("build_features") as report:
        return stored_features(config, ingested, report)


def stored_features(config: RetrainConfig, ingested: Ingested,
                    report: Report | None = None) -> tuple[Trace, Encoder, FeatureRows, HistoryState]:
    """What `build_features` gives, out of the store or built now."""
    trace = Trace.load(ingested.folder)
    encoder = default_encoder(trace)
    code = source_hash(*BUILT_BY)
    file = config.store / "features" / f"{ingested.name}-{ingested.data_hash[:12]}-{code[:8]}.parquet"
    history_file = file.with_suffix(".history.npz")
    cached = _cached(file, history_file, encoder)
    if cached is not None:
        rows, state = cached
    else:
        state = HistoryState(encoder.history)
        rows = build_rows(trace, encoder, state, report)
        write_rows(rows, file)
        with whole_file(history_file) as temporary:
            temporary.write_bytes(packed_arrays(state.to_arrays()))
    return trace, encoder, rows, state


def _cached(file: Path, history_file: Path, encoder: Encoder) -> tuple[FeatureRows, HistoryState] | None:
    """The rows and history of an earlier run; None where there are none or they are damaged: they are built anew."""
    if not (file.is_file() and history_file.is_file()):
        return None
    try:
        with np.load(io.BytesIO(history_file.read_bytes()), allow_pickle=False) as arrays:
            state = HistoryState.from_arrays(encoder.history, dict(arrays))
        return read_rows(file), state
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        console.print(f"[yellow]![/] cached features are damaged and built anew: {error}", soft_wrap=True)
        return None


def write_rows(rows: FeatureRows, file: Path) -> None:
    """Write feature rows as one Parquet file; a reader sees the whole file or none."""
    columns: dict[str, np.ndarray] = {f"x:{name}": rows.features[:, idx] for idx, name in enumerate(rows.names)}
    columns |= {f"key:{name}": codes for name, codes in zip(rows.key_names, rows.keys, strict=True)}
    columns |= {name: getattr(rows, name) for name in _LABELS}
    with whole_file(file) as temporary:
        pd.DataFrame(columns).to_parquet(temporary, index=False)


def read_rows(file: Path) -> FeatureRows:
    """Feature rows that `write_rows` wrote; ValueError where the file is not that."""
    table = pd.read_parquet(file)
    columns = [str(name) for name in table]
    names = tuple(name[2:] for name in columns if name.startswith("x:"))
    keys = tuple(name[4:] for name in columns if name.startswith("key:"))
    if not names or any(label not in table for label in _LABELS):
        raise ValueError(f"{file} must hold feature rows, got the columns {json.dumps(columns[:8])}")
    return FeatureRows(
        np.ascontiguousarray(table[[f"x:{name}" for name in names]].to_numpy(np.float64)), names,
        tuple(table[f"key:{name}"].to_numpy(np.int64) for name in keys), keys,
        *(table[label].to_numpy() for label in _LABELS),
    )  # fmt: skip
