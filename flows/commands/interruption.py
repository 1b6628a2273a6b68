"""Ctrl-C in a command: one line that says what is kept, in place of a traceback."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from sojourn.flows.commands.exit_codes import INTERRUPTED

P = ParamSpec("P")


def keeps(what: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A decorator: Ctrl-C ends the command with exit code 130 and this line. what: is kept, or is as it was."""

    def decorated(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                command(*args, **kwargs)
            except KeyboardInterrupt:
                typer.echo(f"\ninterrupted: {what}", err=True)
                raise typer.Exit(INTERRUPTED) from None

        return wrapped

    return decorated
