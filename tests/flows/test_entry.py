"""The program where libraries are missing: one line that says what to install, and exit code 2."""

from __future__ import annotations

import pytest
import typer

from made_program import OF_PIPELINE, run_without
from sojourn.flows.cli import app
from sojourn.flows.commands.table import first_page

HOW = "in a checkout of Sojourn, pip install"


@pytest.mark.parametrize(("arguments", "message"), [
    ((), f"sojourn needs typer, which is not installed: {HOW} '.[pull]' (for model pull, predict and export-c) or "
         "'.[pipeline]' (for all commands)"),
    (("model", "pull", "models:/a@b", "x"), f"sojourn model pull needs typer, which is not installed: {HOW} '.[pull]'"),
    (("train",), f"sojourn train needs typer, which is not installed: {HOW} '.[pipeline]'"),
])  # fmt: skip
def test_the_base_installation_says_what_is_missing(arguments: tuple[str, ...], message: str) -> None:
    assert run_without(("typer", "pydantic", "mlflow", *OF_PIPELINE), *arguments) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize("n_columns", [20, 60, 80, 101, 300])
def test_the_first_page_is_the_one_of_typer_and_needs_no_library(n_columns: int,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(n_columns))
    assert run_without(("typer", "pydantic", "typing"), "--help") == (0, f"{first_page(n_columns)}\n", "")
    command = typer.main.get_command(app)
    assert command.get_help(command.make_context("sojourn", [], resilient_parsing=True)) == first_page(n_columns)


def test_the_extender_needs_two_libraries_for_http_alone() -> None:
    code, out, error = run_without(("typer", "pydantic", "mlflow", *OF_PIPELINE), "serve", "extender", "--help")
    assert (code, error) == (0, "")
    assert out.startswith("usage: sojourn serve extender [-h]")
    code, out, error = run_without(("uvicorn",), "serve", "extender", "--help")
    assert (code, out) == (2, "")
    assert error == f"error: sojourn serve extender needs uvicorn, which is not installed: {HOW} '.[serve]'\n"


@pytest.mark.parametrize("arguments", [("check", "."), ("trace", "describe", "."), ("lab", "evaluate"),
                                       ("store", "ui")])
def test_other_commands_name_their_extra(arguments: tuple[str, ...]) -> None:
    code, _, error = run_without(OF_PIPELINE, *arguments)
    assert code == 2
    assert error.startswith(f"error: sojourn {arguments[0]} needs ")
    assert error.endswith(f", which is not installed: {HOW} '.[pipeline]'\n")
    assert error.count("\n") == 1
