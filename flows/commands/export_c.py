"""`sojourn export-c`: a bundle's model in C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors


@plain_errors
def export_c(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    name: Annotated[str, typer.Option(help="Begins both file names and every identifier.")] = "sojourn_lifetime",
) -> None:
    """Write a bundle's model as a C99 source file and its header, for schedulers that are not Python."""
    from sojourn.serving import load_bundle
    from sojourn.serving.c import c_source

    for file in c_source(load_bundle(bundle), name).write(output):
        typer.echo(f"written  {file}")
