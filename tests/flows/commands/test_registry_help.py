"""The help of the commands names what the registries hold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from typer.testing import CliRunner

from sojourn.features.readers import READERS
from sojourn.flows.cli import app
from sojourn.flows.compare.settings import PRESETS
from sojourn.models import LIFETIME_MODELS
from sojourn.models.lifetime import SEARCH_SPACES
from sojourn.simulator import POLICIES, WORKLOADS


def _help(command: str) -> str:
    """The help of a command, in one line."""
    found = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=5_000)
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


@pytest.mark.parametrize(("command", "words", "names"), [
    *((command, "How to read the trace: {}.", READERS)
      for command in ("train", "lab evaluate", "gain", "check", "trace describe", "trace convert")),
    ("gain", "Recipe: {}.", WORKLOADS),
    ("gain", "Policy: {}. Best-fit is always among them. Repeat for several.", POLICIES),
    ("gain", "A named comparison: {}. Other options replace its settings.", PRESETS),
    ("lab evaluate", "Families to compare: {}.", LIFETIME_MODELS),
    ("lab search", "The family whose hyperparameters are searched: {}.", SEARCH_SPACES),
])  # fmt: skip
def test_the_help_names_what_the_registry_holds(command: str, words: str, names: Iterable[str]) -> None:
    assert words.format(", ".join(names)) in _help(command)
