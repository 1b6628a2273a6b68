"""Feature rows with the owner history at the trace's end: built, and as one Parquet file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows
from sojourn.features.trace import Trace
from sojourn.flows.store.code_version import source_hash
from sojourn.publishing import whole_file
from sojourn.serving.inputs import Encoder, HistoryState

ROOMS = ("features", "serving", "flows/stages/feature_rows.py", "flows/stages/build_features.py")
"""What decides feature rows."""
_LABELS = ("decided_s", "arrival_s", "lifetime_s", "is_event", "idx_request")


def feature_code() -> str:
    """sha256 hex of the code that decides feature rows."""
    return source_hash(*ROOMS)


def made_rows(trace: Trace, encoder: Encoder,
              report: Callable[[int, int], None] | None = None) -> tuple[FeatureRows, HistoryState]:
    """The rows of a trace's requests, and the owner history as it stands at its end."""
    state = HistoryState(encoder.history)
    return build_rows(trace, encoder, state, report), state


def write_rows(rows: FeatureRows, file: Path, row: np.ndarray | None = None) -> None:
    """Write feature rows as one Parquet file; a reader sees the whole file or none.

    row: int64 (n,), the place of each in the whole trace, where these are the rows of a partition.
    """
    columns: dict[str, np.ndarray] = {f"x:{name}": rows.features[:, idx] for idx, name in enumerate(rows.names)}
    columns |= {f"key:{name}": codes for name, codes in zip(rows.key_names, rows.keys, strict=True)}
    columns |= {name: getattr(rows, name) for name in _LABELS}
    columns |= {} if row is None else {"row": row}
    table = pd.DataFrame(columns)
    table.attrs["begin_s"] = rows.begin_s
    with whole_file(file) as temporary:
        table.to_parquet(temporary, index=False)


def read_rows(file: Path) -> FeatureRows:
    """Feature rows that `write_rows` wrote; ValueError where the file is not that."""
    table = pd.read_parquet(file)
    columns = [str(name) for name in table]
    names = tuple(name[2:] for name in columns if name.startswith("x:"))
    keys = tuple(name[4:] for name in columns if name.startswith("key:"))
    if not names or any(label not in table for label in _LABELS) or "begin_s" not in table.attrs:
        raise ValueError(f"{file} must hold feature rows, got the columns {json.dumps(columns[:8])}")
    return FeatureRows(
        np.ascontiguousarray(table[[f"x:{name}" for name in names]].to_numpy(np.float64)), names,
        tuple(table[f"key:{name}"].to_numpy(np.int64) for name in keys), keys,
        *(table[label].to_numpy() for label in _LABELS), begin_s=int(table.attrs["begin_s"]),
    )  # fmt: skip
