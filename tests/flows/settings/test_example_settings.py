"""The example files: as they stand they set nothing; with each line taken, they are the defaults."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from settings_text import described
from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.settings.trace import TraceSettings

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KINDS: dict[str, type[TraceSettings]] = {"retrain.toml": RetrainConfig, "compare.toml": CompareConfig}
_LINE = re.compile(r"^#(\w+ = .+?)(  # not set)?$", re.MULTILINE)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SOJOURN_")]:
        monkeypatch.delenv(name)


def _lines(name: str, *, is_set: bool) -> list[str]:
    return [line for line, mark in _LINE.findall((EXAMPLES / name).read_text()) if bool(mark) != is_set]


@pytest.mark.parametrize("name", KINDS)
def test_as_it_stands_it_sets_nothing(name: str) -> None:
    assert load_settings(KINDS[name], EXAMPLES / name).model_dump() == KINDS[name]().model_dump()


@pytest.mark.parametrize("name", KINDS)
def test_its_values_are_the_defaults(name: str, tmp_path: Path) -> None:
    taken = tmp_path / name
    taken.write_text("\n".join(_lines(name, is_set=True)))
    loaded = load_settings(KINDS[name], taken)
    assert loaded.model_dump() == KINDS[name]().model_dump()
    assert len(loaded.model_fields_set) > 10


@pytest.mark.parametrize("name", KINDS)
def test_its_examples_are_possible_values(name: str) -> None:
    examples = tomllib.loads("\n".join(_lines(name, is_set=False)))
    for setting, value in examples.items():
        kind: Any = KINDS[name].model_fields[setting].annotation
        TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_there(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert [line.partition(" = ")[0] for line, _ in _LINE.findall(text)] == list(described(KINDS[name]))


@pytest.mark.parametrize("kind", [*KINDS.values(), AdmitConfig, MonitorConfig, TrainUsageConfig])
def test_every_setting_says_what_it_is(kind: type[TraceSettings]) -> None:
    assert [name for name, text in described(kind).items() if not text] == []
