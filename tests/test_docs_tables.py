"""The tables of the docs are those of the registries."""

from __future__ import annotations

import re

import pytest

from docs_tables import DOCS, EXAMPLES, FILES, TABLES, with_table
from sojourn.simulator import POLICIES
from sojourn.simulator.measures import COLUMNS
from studies.policies import STUDY_POLICIES


def test_the_docs_and_the_example_files_have_what_the_registries_hold() -> None:
    """If not: run `make tables`."""
    for name, (page, made) in TABLES.items():
        text = (DOCS / page).read_text()
        assert with_table(text, name, made()) == text, f"docs/{page}, {name}"
    assert {name: (EXAMPLES / name).read_text() for name in FILES} == {name: made() for name, made in FILES.items()}
    assert [name for name, policy in {**POLICIES, **STUDY_POLICIES}.items() if not policy.about] == []


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the markers of readers must .*, got 0"):
        with_table("# Traces\n", "readers", "")


def test_every_metric_has_a_definition_and_its_source() -> None:
    rows = re.findall(r"^\| (`.+) \| (.+) \| (.+) \|$", (DOCS / "simulator/metrics.md").read_text(), re.MULTILINE)
    defined = [name for names, _, source in rows if source for name in re.findall("`([a-z_]+)`", names)]
    assert sorted(defined) == sorted(COLUMNS)
