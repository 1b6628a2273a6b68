"""Help: every option has a line and says its default, which is the one of the settings; help is there at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.testing import CliRunner

from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.cli import app, imported
from sojourn.flows.commands.table import COMMANDS, Branch, Leaf
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.settings.other_jobs import (
    AnnotateConfig,
    DescribeUsageConfig,
    MonitorConfig,
    PlanConfig,
    RectifyConfig,
    TrainUsageConfig,
)
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.trace import TraceSettings
from sojourn.serving.extender import main as extend

SETTINGS: dict[str, type[BaseModel]] = {
    "train": RetrainConfig, "lab evaluate": RetrainConfig, "lab search": RetrainConfig, "gain": CompareConfig,
    "lab admit": AdmitConfig, "model monitor": MonitorConfig, "usage train": TrainUsageConfig,
    "store clean": TraceSettings, "lab rectify": RectifyConfig, "lab plan": PlanConfig,
    "serve annotate": AnnotateConfig, "usage describe": DescribeUsageConfig,
}  # fmt: skip
_SAID = re.compile(r"\[default: (?P<value>.+)\]$")
TOLD = {("lab evaluate", "family"), ("gain", "n_workers"), ("lab admit", "n_workers"), ("lab rectify", "long_h")}
"""Defaults in other words than the setting's."""


def options(command: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each command's name with each of its parameters."""
    command = typer.main.get_command(app) if command is None else command
    for parameter in command.params:
        yield name, parameter
    for child in getattr(command, "commands", {}):
        yield from options(command.get_command(None, child), f"{name} {child}".strip())


def said(parameter: Any) -> str | None:
    """The default that help says in words."""
    found = _SAID.search(parameter.help or "")
    return None if found is None else found["value"]


ALL = [(name, each) for name, each in options() if each.name != "help"]


def test_every_option_has_a_line_and_a_default() -> None:
    for command, parameter in ALL:
        assert parameter.help, f"{command} {parameter.name} must have a help text"
        if parameter.param_type_name == "argument" or parameter.required or (
                parameter.is_flag and not parameter.secondary_opts):  # a flag is off
            continue
        default = parameter.default
        is_shown = default is not None and default != [] and default != () and parameter.show_default
        assert is_shown or said(parameter) is not None, f"{command} {parameter.name} must say its default"


def test_a_default_in_words_is_the_one_of_the_settings() -> None:
    for command, parameter in ALL:
        words, kind = said(parameter), SETTINGS.get(command)
        name = {"family": "families"}.get(parameter.name, parameter.name)
        field = None if kind is None else kind.model_fields.get(name)
        if words is None or field is None or (command, parameter.name) in TOLD:
            continue
        default = field.get_default(call_default_factory=True)
        if default in (None, PydanticUndefined, (), "synthetic"):
            assert not re.fullmatch(r"[\d.]+", words), (command, name, words)
            continue
        text = " ".join(map(str, default)) if isinstance(default, tuple) else f"{default}"
        text = parameter.opts[0].lstrip("-") if default is True else text.removesuffix(".0")
        assert words.replace("0 to 4", "0 1 2 3 4").partition(":")[0] == text, (command, name)


BY_HAND = {("lab plan", "jobs"), ("lab search", "horizon_s"), ("usage train", "trace")}
"""Arguments, and options of other things: of several traces, or of usage series."""


def test_an_option_of_a_setting_has_the_text_of_the_setting() -> None:
    n_options = 0
    for command, parameter in ALL:
        kind = SETTINGS.get(command)
        field = None if kind is None else kind.model_fields.get(parameter.name)
        if field is not None and (command, parameter.name) not in BY_HAND:
            text = " ".join((field.description or "").split()).partition("`")[0]  # help names options there
            assert parameter.help.startswith(text[:12]), (command, parameter.name, parameter.help, text)
            n_options += 1
    assert n_options > 150


def test_every_option_of_the_extender_has_a_line_and_a_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        extend(["--help"])
    page = " ".join(capsys.readouterr().out.partition("options:")[2].split())
    told = re.split(r" (?=--[a-z-]+ [A-Z_-]+ )", page)[1:]
    assert len(told) > 10
    assert [line for line in told if "(default: " not in line] == []


def test_the_page_shows_the_defaults() -> None:
    shown = " ".join(CliRunner().invoke(app, ["gain", "--help"]).stdout.split())
    assert "[default: 0.8]" in shown and "[default: .sojourn]" in shown
    top = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "Say how many hosts a policy that knows lifetimes would leave empty on a trace" in top
    assert shown.index("--policy") < shown.index("Rare options:") < shown.index("--n-seeds")


def test_the_top_has_nine_entries_and_each_command_one_place() -> None:
    assert len(COMMANDS) == 9
    asked = CliRunner().invoke(app, ["rollback", "m"])
    assert asked.exit_code == 2 and "did you mean sojourn model rollback?" in asked.stderr


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, "sojourn 0.1.0\n")


LEAVES = [(name, leaf) for top, each in COMMANDS.items()
          for name, leaf in (each.commands.items() if isinstance(each, Branch) else [(top, each)])]


@pytest.mark.parametrize(("name", "leaf"), LEAVES)
def test_the_first_sentence_of_a_command_is_the_one_of_its_docstring(name: str, leaf: Leaf) -> None:
    assert " ".join((imported(name, leaf).help or "").partition("\n\n")[0].split()) == leaf.about
