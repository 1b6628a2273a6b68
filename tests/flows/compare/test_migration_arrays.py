"""Tables of migrations as a kept cell's arrays, and back."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from sojourn.flows.compare.cells import CellResult, CellStore, migration_arrays, migration_table


def test_a_table_comes_back_with_ids_as_text(tmp_path: Path) -> None:
    table = pd.DataFrame({"planner": ["pdre", "drain"], "planned_s": [86_400, 172_800], "request_id": [7, 8],
                          "from_host": ["a", "b"], "to_host": [1.5, 2.5], "freed_h": [3.25, math.nan]})
    store = CellStore(tmp_path)
    store.write("key", CellResult({}, {}, {}, {"time_s": table["planned_s"].to_numpy(), **migration_arrays(table)}))
    kept = store.read("key")
    assert kept is not None
    found = migration_table(kept.arrays)
    assert found is not None
    pd.testing.assert_frame_equal(found.astype({"request_id": object}), table.assign(
        request_id=["7", "8"], to_host=["1.5", "2.5"]), check_dtype=False)
    assert [name for name, values in migration_arrays(table).items() if values.dtype == object] == []


def test_none_and_an_empty_one_differ() -> None:
    assert migration_table(migration_arrays(None)) is None
    found = migration_table(migration_arrays(pd.DataFrame({"planned_s": [], "request_id": []})))
    assert found is not None
    assert len(found) == 0
