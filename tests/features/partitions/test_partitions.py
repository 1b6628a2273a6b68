"""Partitions by owner give the rows and the history of the whole, to the bit; what crosses owners is not lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.partitions import (
    OwnerGroups,
    PartitionRows,
    SharedHistory,
    chunks_of,
    merged_history,
    owner_arrays,
    owner_replay,
    partition_tables,
)
from sojourn.features.synthetic import synthesize
from sojourn.serving.inputs import Encoder, HistoryState


def _tangled(n: int = 1_500) -> Trace:
    """Users start programs of each other, some rows name no user or no program, and jobs wait before they begin."""
    rng = np.random.default_rng(3)
    arrival_s = np.sort(rng.integers(0, 40_000, n))
    user, app = rng.integers(60, size=n), rng.integers(200, size=n)
    app = np.where(rng.random(n) < 0.97, user * 200 + app, app)
    end_s = arrival_s + rng.integers(0, 9_000, n)
    table = pd.DataFrame({
        "request_id": np.arange(n), "arrival_s": arrival_s,
        "departure_s": pd.Series(end_s, dtype="Int64").mask(end_s > 42_000),
        "submit_s": arrival_s - rng.integers(0, 3_000, n), "cpu_cores": rng.integers(1, 4, n).astype(float),
        "mem_gib": 4.0, "user": pd.Series(user, dtype="Int64").mask(rng.random(n) < 0.05),
        "app": pd.Series([f"a{each}" for each in app]).mask(rng.random(n) < 0.05),
        "queue": rng.choice(["long", "short", "test"], n),
    })  # fmt: skip
    return Trace(table, 42_000, Roles(("user", "app"), ("queue",)))


def _by_partitions(trace: Trace, encoder: Encoder, n_partitions: int,
                   n_at_once: int) -> tuple[FeatureRows, HistoryState, list[PartitionRows]]:
    groups = OwnerGroups(trace.roles.owners)
    for chunk in chunks_of(trace, encoder.columns(), n_at_once):
        groups.add(chunk.table)
    shared = SharedHistory(encoder)
    tables: dict[int, list[pa.Table]] = {}
    for part, table in partition_tables(chunks_of(trace, encoder.columns(), n_at_once), groups, shared, n_partitions):
        tables.setdefault(part, []).append(table)
    shared.finish()
    found = [owner_replay(pa.concat_tables(each).to_pandas(), encoder, trace.begin_s) for each in tables.values()]
    history = merged_history(encoder.history, shared.state, [owner_arrays(each) for each in found])
    order = np.argsort(np.concatenate([each.row for each in found]), kind="stable")
    return FeatureRows.joined([each.rows for each in found], order), history, found


@pytest.mark.parametrize("n_keys_max", [150_000, 12])
@pytest.mark.parametrize("trace", [synthesize(2_000, seed=1), _tangled()], ids=["nested", "tangled"])
def test_partitions_give_the_rows_and_the_history_of_the_whole(trace: Trace, n_keys_max: int) -> None:
    encoder = default_encoder(trace)
    encoder = replace(encoder, history=replace(encoder.history, n_keys_max=n_keys_max))
    state = HistoryState(encoder.history)
    whole = build_rows(trace, encoder, state)
    rows, history, found = _by_partitions(trace, encoder, n_partitions=5, n_at_once=400)
    assert len(found) > 2
    np.testing.assert_array_equal(rows.features.view(np.int64), whole.features.view(np.int64))
    for name in ("decided_s", "arrival_s", "lifetime_s", "is_event", "idx_request"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(whole, name))
    for own, other in zip(rows.keys, whole.keys, strict=True):
        np.testing.assert_array_equal(own, other)
    assert (rows.names, rows.key_names, rows.begin_s) == (whole.names, whole.key_names, trace.begin_s)
    mine, theirs = history.to_arrays(), state.to_arrays()
    assert {name: array.tobytes() for name, array in mine.items()} == {
        name: array.tobytes() for name, array in theirs.items()}


def test_an_owner_in_two_partitions_would_be_seen() -> None:
    """The rows differ where a group is torn apart: the comparison above can fail."""
    trace = _tangled()
    encoder = default_encoder(trace)
    groups = OwnerGroups(())  # as if no request had an owner: the place in the trace decides
    tables: dict[int, list[pa.Table]] = {}
    shared = SharedHistory(encoder)
    for part, table in partition_tables(chunks_of(trace, encoder.columns()), groups, shared, 2):
        tables.setdefault(part, []).append(table)
    torn = [owner_replay(pa.concat_tables(each).to_pandas(), encoder) for each in tables.values()]
    order = np.argsort(np.concatenate([each.row for each in torn]), kind="stable")
    rows = FeatureRows.joined([each.rows for each in torn], order)
    assert not np.array_equal(rows.features, build_rows(trace, encoder).features, equal_nan=True)


def test_owners_that_share_a_request_are_one_group() -> None:
    groups = OwnerGroups(("user", "app"))
    first = pa.table({"user": ["ann", "bob", None, None], "app": ["x", "y", "z", None]})
    groups.add(first)
    assert groups.n_groups == 3
    groups.add(pa.table({"user": ["bob"], "app": ["x"]}))  # bob joins ann's group
    assert groups.n_groups == 2
    found = groups.partitions(first, np.array([0, 1, 2, 7]), 100)
    assert found[0] == found[1] != found[2]
    assert found[3] == 7
