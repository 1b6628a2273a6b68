"""Feature rows: what a requests table must have, and the same bits from plain Python and from compiled code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from made_instants import instant_trace
from made_limits import limited_trace
from sojourn.features import Trace, creation, refreshed
from sojourn.features.creation import build_rows, default_encoder, parsed_requests
from sojourn.features.refreshed import refreshed_rows, with_instants_apart
from sojourn.features.synthetic import synthesize
from sojourn.serving.inputs import Encoder, HistoryKey, HistoryState


def test_a_table_without_a_column_that_the_model_reads_is_refused_by_name() -> None:
    trace = synthesize(50, seed=5)
    encoder = default_encoder(trace)
    assert len(list(parsed_requests(trace.requests, encoder))) == len(trace.requests)
    with pytest.raises(ValueError, match="each column that the model reads, got none of mem_gib"):
        list(parsed_requests(trace.requests.drop(columns="mem_gib"), encoder))


def _crowded(n: int) -> Trace:
    """Many requests in the same few seconds, some without an owner, some that end in the second of their decision."""
    trace = instant_trace(n, 0.5, 4)
    rng = np.random.default_rng(0)
    start_s = trace.requests["arrival_s"].to_numpy() // 130_000
    users = np.array(["ann", "bob", None], object)[rng.integers(0, 3, n)]
    return replace(trace, requests=trace.requests.assign(
        arrival_s=start_s, departure_s=pd.array(start_s + rng.integers(0, 6, n), "Int64"), user=users))


def _with_category(encoder: Encoder, **changes: Any) -> Encoder:
    """The encoder with its first owner's column read as a category, too."""
    column = encoder.history.keys[0].columns
    keys = (*encoder.history.keys, HistoryKey("also", column, "category"))
    return replace(encoder, history=replace(encoder.history, keys=keys, **changes))


def _both_ways(trace: Trace, encoder: Encoder, ages_s: tuple[int, ...],
               monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes, bytes, int]]:
    """Rows, the state after them, and rows of running requests, by compiled code and by plain Python."""
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr(creation, "COMPILED_FROM", least)
        monkeypatch.setattr(refreshed, "COMPILED_FROM", least)
        state = HistoryState(encoder.history)
        rows = build_rows(trace, encoder, state)
        assert build_rows(trace, encoder).features.tobytes() == rows.features.tobytes()
        aged = refreshed_rows(trace, encoder, rows, ages_s)
        found.append((rows.features.tobytes(), state.rows.values.tobytes(), aged.features.tobytes(), len(aged)))
    return found


TRACES: dict[str, tuple[Callable[[], Trace], tuple[int, ...]]] = {
    "synthetic": (lambda: synthesize(1_500, seed=2), (60, 3_600)),
    "with limits": (lambda: limited_trace(1_200, 3), (60, 3_600)),
    "one second": (lambda: _crowded(400), (1, 2)),
}


@pytest.mark.parametrize("instant_s", [None, 1])
@pytest.mark.parametrize("name", TRACES)
def test_compiled_features_have_the_bits_of_the_replay(name: str, instant_s: int | None,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    made, ages_s = TRACES[name]
    trace = made()
    encoder = _with_category(default_encoder(trace), window=3, category_memory=50)
    encoder = encoder if instant_s is None else with_instants_apart(encoder, instant_s)
    compiled, plain = _both_ways(trace, encoder, ages_s, monkeypatch)
    assert plain[3] > 100
    assert compiled == plain


def test_a_table_that_removes_owners_is_replayed_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = synthesize(600, seed=2)
    encoder = _with_category(default_encoder(trace), n_keys_max=5)
    compiled, plain = _both_ways(trace, encoder, (600,), monkeypatch)
    assert compiled == plain != _both_ways(trace, _with_category(default_encoder(trace)), (600,), monkeypatch)[0]
