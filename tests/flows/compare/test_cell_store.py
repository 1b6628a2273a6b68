"""Kept results: the same when read, and none where a bit has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sojourn.flows.compare.cells import CellResult, CellStore

RESULT = CellResult({"empty_hosts_pct": 100 / 3, "n_events": 7, "gap": float("nan")}, {"elapsed_s": 0.1},
                    {"description": "d \u2013 e", "n_hosts": 2},
                    {"time_s": np.arange(3), "names": np.array(["a", "bc"])})


def _is_same(found: CellResult) -> bool:
    return (repr((found.figures, found.times, found.about)) == repr((RESULT.figures, RESULT.times, RESULT.about))
            and found.arrays.keys() == RESULT.arrays.keys()
            and all(np.array_equal(array, RESULT.arrays[name]) for name, array in found.arrays.items()))


def _flipped(file: Path) -> Iterator[int]:
    """The file with one bit the other way round: each eleventh, which comes by all eight of a byte."""
    whole = file.read_bytes()
    for k in range(0, 8 * len(whole), 11):
        changed = bytearray(whole)
        changed[k // 8] ^= 1 << k % 8
        file.write_bytes(changed)
        yield k
    file.write_bytes(whole)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    assert store.read("k") is None
    store.write("k", RESULT)
    found = store.read("k")
    assert found is not None
    assert _is_same(found)


def test_no_changed_bit_is_read_as_a_result(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    store.write("k", RESULT)
    assert not [k for k in _flipped(tmp_path / "cells" / "k.npz") if store.read("k") is not None]
    for k in _flipped(tmp_path / "cells" / "k.json"):
        found = store.read("k")
        assert found is None or _is_same(found), k  # a blank may become another blank


@pytest.mark.parametrize("text", ["", "[]", "1", '"k"', "null", "{}", '{"key": "k"}'])
def test_a_document_of_another_kind_is_no_result(tmp_path: Path, text: str) -> None:
    store = CellStore(tmp_path)
    store.write("k", RESULT)
    (tmp_path / "cells" / "k.json").write_text(text)
    assert store.read("k") is None
