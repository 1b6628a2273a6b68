"""What kept things are kept under: all code that decides them, and none that only draws."""

from __future__ import annotations

from pathlib import Path

from made_imports import imported_by
from sojourn.flows.code_version import DRAWS, source_files
from sojourn.flows.grid import LEARNT_BY, REPLAYED_BY

KEEPS = ("sojourn.flows.replay", "sojourn.flows.learning", "sojourn.flows.build_features", "sojourn.simulator")
DECIDED_ELSEWHERE = (
    "sojourn.features.readers", "sojourn.features.report",  # in the hash of the data
    "sojourn.flows.ingest", "sojourn.flows.config", "sojourn.flows.cell_store", "sojourn.flows.whole_file",
    "sojourn.flows.code_version", "sojourn.flows.progress", "sojourn.flows.intervals",
)  # fmt: skip


def test_what_only_draws_is_left_out_and_imported_by_nothing_that_is_kept() -> None:
    everything = set(Path(source_files("sojourn.simulator.engine")[0]).parent.glob("*.py"))
    drawn = everything.difference(source_files("sojourn.simulator"))
    assert {"page.py", "page_table.py", "pictures.py", "colours.py"} <= {path.name for path in drawn}
    imported = imported_by(*KEEPS)
    assert not [path for path in imported if any(path.match(name) for name in DRAWS)]
    assert {"engine.py", "_loop.py", "lava.py", "host_map.py", "km.py"} <= {path.name for path in imported}


def test_an_edit_of_whatever_decides_a_replay_makes_it_anew() -> None:
    packages = {path for path in imported_by("sojourn.flows.replay") if path.name == "__init__.py"}
    hashed = source_files(*REPLAYED_BY, *LEARNT_BY, *DECIDED_ELSEWHERE)
    assert not imported_by("sojourn.flows.replay").difference(hashed, packages)
