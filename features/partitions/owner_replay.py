"""The rows of one partition: its owners' history replayed, put beside what the shared pass gave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, key_codes, parsed_requests, replayed_rows
from sojourn.serving.inputs import CLOCK_FEATURES, Encoder, HistoryState

ROW = "row"
"""Column of a partition: the place of a request in the order of decision of the whole trace."""
NEW, SHARED = "new:", "x:"
"""Columns of a partition begin so: whether the owner is new to a key's table; a feature of the shared pass."""
LABELS = ("decided_s", "arrival_s", "end_s", "is_event", "idx_request")
_NEVER_S = np.iinfo(np.int64).max
_UNBOUNDED = 2**62 - 1


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The feature rows of a partition, and its owners as they stand at the end.

    row: int64 (n,), rising, see ROW. history: of the owner keys alone. """

    rows: FeatureRows
    row: np.ndarray
    history: HistoryState


def owner_replay(partition: pd.DataFrame, encoder: Encoder, begin_s: int = 0) -> PartitionRows:
    """The features of a partition's requests, equal to the bit to those of the whole trace's replay.

    partition: the encoder's columns, ROW, LABELS, and those that begin with NEW and SHARED; rows in the order of
    decision. It must hold all requests of each of its owners. begin_s: of the trace.
    """
    definition = encoder.history
    idx_owners = [idx for idx, key in enumerate(definition.keys) if key.kind == "owner"]
    own = replace(definition, keys=tuple(definition.keys[idx] for idx in idx_owners), n_keys_max=_UNBOUNDED)
    own_encoder = Encoder(encoder.numbers, encoder.names, own, encoder.phase_s)
    parsed = list(parsed_requests(partition, encoder))
    owners = [each._replace(keys=tuple([each.keys[idx] for idx in idx_owners])) for each in parsed]
    is_new = np.stack([partition[f"{NEW}{definition.keys[idx].name}"].to_numpy(bool) for idx in idx_owners], axis=1
                      ) if idx_owners else np.zeros((len(parsed), 0), bool)
    history = HistoryState(own)

    def forget(idx: int) -> None:
        for place in np.flatnonzero(is_new[idx]).tolist():
            history.forget(place, owners[idx].keys[place])

    decided_s, arrival_s, end_s, is_event, idx_request = (partition[name].to_numpy() for name in LABELS)
    made = replayed_rows(own_encoder, history, owners, decided_s.tolist(), arrival_s.tolist(),
                         np.where(is_event, end_s, _NEVER_S).tolist(), forget)
    names = encoder.feature_names()
    features = np.empty((len(parsed), len(names)))
    made_at = {name: idx for idx, name in enumerate(own_encoder.feature_names())}
    n_creation = len(encoder.numbers) + len(CLOCK_FEATURES)
    for idx, name in enumerate(names):
        is_made = idx < n_creation or name in made_at
        features[:, idx] = made[:, made_at[name]] if is_made else partition[f"{SHARED}{name}"].to_numpy()
    keys = tuple(key_codes([each.keys[idx] for each in parsed]) for idx in range(len(definition.keys)))
    rows = FeatureRows(features, names, keys, tuple(key.name for key in definition.keys), decided_s, arrival_s,
                       end_s - arrival_s, is_event, idx_request, begin_s=begin_s)
    return PartitionRows(rows, partition[ROW].to_numpy(np.int64), history)
