"""A bundle's folder is replaced at once: at no moment is there none that a scheduler could load."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sojourn.serving.publishing import publish_files


def _published(target: Path, number: int) -> None:
    publish_files(target, {"MANIFEST.json": str(number).encode()})
    assert (target / "MANIFEST.json").read_text() == str(number)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders are exchanged by a call of Linux")
def test_a_folder_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _published(tmp_path / "served", 0)
    # a rename would leave none for a moment, and a kill there a scheduler without its bundle
    monkeypatch.setattr(Path, "rename", lambda path, target: pytest.fail(f"{path} was renamed"))
    _published(tmp_path / "served", 1)


def test_where_folders_cannot_be_exchanged_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.serving.publishing.exchange", lambda one, other: False)
    for number in range(2):
        _published(tmp_path / "served", number)
