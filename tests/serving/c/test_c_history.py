"""The encoder and the owner history in C: Python's bits over long streams of events, and answers to bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made
from made_c import CHistory, needs_c
from sojourn.serving import Bundle, load_bundle
from sojourn.serving.inputs import Encoder, HistoryState, Lookup, Receipt, key_code

pytestmark = needs_c
DOCS = Path(__file__).resolve().parents[3] / "docs" / "serving" / "c.md"
CORE = Path(__file__).resolve().parents[3] / "serving" / "c" / "core"
GIVEN = {"cpu_cores": [0.0, 0.5, 2.0, 4.0, 0.1, 1e-7, 123456.75], "requested_s": [10.0, 600.0, 3_600.0, 1e12]}
TEXTS = ("", "a", "ü-\u20ac-\U0001f600", "0", "x" * 200, "\x00", "a b")
STEPS_S = (0, 0, 1, 30, 250, 299, 300, 301, 900, 20_000, -1, -299, -700, -30_000)
"""The batch's gap is 300 s; clocks go back, too."""


def bits(values: Any) -> bytes:
    """The bytes of doubles; each NaN alike."""
    array = np.array(values, np.float64)
    return np.where(np.isnan(array), np.nan, array).tobytes()


def drawn(rng: np.random.Generator, encoder: Encoder, n_owners: int) -> dict[str, Any]:
    """A request of one of so many owners; some values are not given, some columns are missing."""
    request: dict[str, Any] = {}
    for column in encoder.numbers:
        if rng.random() < 0.95:
            request[column] = float(rng.choice(GIVEN.get(column, [1.0, 2.5, 1e16, 3e-5])))
    owner = int(rng.integers(n_owners))
    for column in encoder.names:
        if rng.random() < 0.97:
            request[column] = str(rng.choice(TEXTS)) if rng.random() < 0.05 else f"{column[0]}{owner // 3}"
    return request


def replayed(rng: np.random.Generator, bundle: Bundle, in_c: CHistory, n: int, now_s: int, n_owners: int,
             n_open: int) -> dict[str, int]:
    """Both sides over n rows of one stream; each row has the same bits. The result counts what happened."""
    encoder, state = bundle.schema.encoder, bundle.history
    running: dict[int, tuple[Receipt, int]] = {}
    counts = dict.fromkeys(("admitted", "ended", "withdrawn", "started", "full"), 0)
    for row in range(n):
        now_s += int(rng.choice(STEPS_S))
        request = drawn(rng, encoder, n_owners)
        parsed = encoder.parse(request)
        assert in_c.read(request) == 1
        found = in_c.encoded(now_s + 0.25)
        assert bits(found) == bits(encoder.encode(parsed, now_s, state)), row
        draw, last = rng.random(), -1
        if draw < 0.75:
            last = in_c.admit(now_s)
            if len(running) == n_open:
                assert last == -1
                counts["full"] += 1
            else:
                running[last] = (state.admit(parsed.keys, now_s), now_s)
                counts["admitted"] += 1
        if running and rng.random() < (0.78 if row % 2_000 > 900 else 0.5):
            one = last if draw < 0.1 and last >= 0 else int(rng.choice(list(running)))
            receipt, began_s = running.pop(one)
            end_s = max(now_s, began_s + int(rng.choice([0, 1, 59, 4_000])))
            if rng.random() < 0.3:
                state.withdraw(receipt)
                assert in_c.withdraw(one) == 1 and in_c.withdraw(one) == 0
                counts["withdrawn"] += 1
            else:
                if rng.random() < 0.3:
                    began_s = int(rng.integers(began_s, end_s + 1))
                    assert in_c.started(one, float(began_s)) == 1
                    counts["started"] += 1
                state.ended(receipt, end_s, began_s)
                assert in_c.ended(one, float(end_s)) == 1 and in_c.ended(one, float(end_s)) == 0
                counts["ended"] += 1
    return counts


def changed(bundle: Bundle, with_lookup: bool = False, **changes: Any) -> Bundle:
    """The bundle with a definition of its history that differs, and a lookup table of some of its owners."""
    encoder = bundle.schema.encoder
    definition = replace(encoder.history, **changes)
    history = HistoryState(definition)
    if definition.window >= encoder.history.window and definition.batch_gap_s == encoder.history.batch_gap_s:
        history = HistoryState.from_arrays(definition, bundle.history.to_arrays())
    lookup = None
    if with_lookup:
        lookup = Lookup((0, 1), ({key_code(("u1",)): 1, key_code(("s2",)): 2}, {key_code(("d3",)): 3}))
    fresh = Encoder(encoder.numbers, encoder.names, definition, encoder.phase_s, lookup)
    return replace(bundle, schema=replace(bundle.schema, encoder=fresh),
                   history=history)


@pytest.mark.parametrize(("seed", "n_keys", "n_owners", "changes"), [
    (1, 150_000, 40, {}), (2, 100, 400, {"n_keys_max": 200}), (3, 150_000, 6, {"instant_s": 60}),
    (4, 90, 300, {"category_memory": 5, "prior_strength": 0.5, "batch_gap_s": 0, "window": 1}),
])
def test_a_stream_of_events_has_the_bits_of_python(made: Made, tmp_path: Path, seed: int, n_keys: int, n_owners: int,
                                                   changes: dict[str, Any]) -> None:
    """n_keys: kept of each key; if there are more owners than that, the oldest makes room all the time."""
    bundle = changed(load_bundle(made.folders["once"]), **changes)
    in_c = CHistory(tmp_path, bundle, n_keys, 60)
    bundle = changed(bundle, n_keys_max=min(n_keys, bundle.history.definition.n_keys_max))  # what Python keeps
    counts = replayed(np.random.default_rng(seed), bundle, in_c, 2_500, 2_500_000, n_owners, 60)
    assert min(counts.values()) > 50, counts
