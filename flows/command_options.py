"""What the commands share: options, and bad input told in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

P = ParamSpec("P")

READER_HELP = ("How to read the trace: alibaba-2018, alibaba-2018-containers, azure-flavors, azure-packing, "
               "azure-vm, bitbrains, dlrm, google-2011, openb, parquet, planetlab, surf, swf.")
Store = Annotated[Path, typer.Option(help="Folder of all stores.")]
Reader = Annotated[str, typer.Option(help=READER_HELP)]


def plain_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Bad input ends with one line on standard error and exit code 2."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            typer.echo(f"error: {_first_problem(error)}", err=True)
            raise typer.Exit(2) from error

    return wrapped


def _first_problem(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):  # name the setting, the rule and the value
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "value_error":  # our own, which names all three
            return str(first["msg"]).removeprefix("Value error, ")
        return f"{place} must be valid: {first['msg']}, got {first.get('input')!r}"
    return str(error)
