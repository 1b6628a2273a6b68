"""`sojourn extender`: a bundle behind HTTP, for Kubernetes."""

from __future__ import annotations

import typer


def extender(context: typer.Context) -> None:
    """Serve a bundle as a Kubernetes scheduler extender, on the loopback interface by default."""
    from sojourn.serving.extender import main

    raise typer.Exit(main(context.args, "sojourn extender"))
