"""What stands for a trace: its content alone, and its content with the code that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.flows import ingest as ingesting
from sojourn.flows.config import RetrainConfig
from sojourn.flows.ingest import content_hash, input_hash


def _of_file(file: Path, reader: str = "parquet") -> RetrainConfig:
    return RetrainConfig(trace=file, reader=reader)


def test_a_content_is_the_same_under_another_name_reader_or_code(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(content)
    a, b, c = (_of_file(tmp_path / name) for name in "abc")
    assert content_hash(a) == content_hash(b) == content_hash(_of_file(tmp_path / "a", "openb")) != content_hash(c)
    assert len({input_hash(one) for one in (a, b, c, _of_file(tmp_path / "a", "openb"))}) == 4
    made = RetrainConfig(n_requests=2_000, seed=3)
    assert content_hash(made) != content_hash(RetrainConfig(n_requests=2_000, seed=4))
    before = [(content_hash(one), input_hash(one)) for one in (a, made)]
    monkeypatch.setattr(ingesting, "source_hash", lambda *names: "edited")
    for one, (content, whole) in zip((a, made), before, strict=True):
        assert content_hash(one) == content
        assert input_hash(one) != whole


def test_a_folder_is_its_files_wherever_each_stands(tmp_path: Path) -> None:
    for folder, (x, y) in (("first", "12"), ("second", "21"), ("third", "13")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(x)
        (tmp_path / folder / "y").write_text(y)
    first, second, third = (_of_file(tmp_path / name) for name in ("first", "second", "third"))
    assert content_hash(first) == content_hash(second) != content_hash(third)
    assert input_hash(first) != input_hash(second)  # a reader tells its files by their names
