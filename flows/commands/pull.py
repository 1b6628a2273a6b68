"""`sojourn pull`: a registered version's bundle into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors


@plain_errors
def pull(
    uri: Annotated[str, typer.Argument(help="models:/NAME@ALIAS or models:/NAME/VERSION.")],
    folder: Annotated[Path, typer.Argument(help="Folder that a predictor loads; published whole, by renaming.")],
    is_followed: Annotated[bool, typer.Option("--follow", help="Pull again whenever the alias moves.")] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between two looks at the alias.")] = 30.0,
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI names a server instead. [default: .sojourn]")] = None,
) -> None:
    """Bring a registered version's bundle into a folder, if a predictor can serve it."""
    from sojourn.flows.outside.pull import ModelUri, find_version, follow_until_interrupted
    from sojourn.flows.outside.pull import pull as run
    from sojourn.flows.settings.store import StoreSettings, load_settings

    wanted = ModelUri.parse(uri)
    if is_followed and wanted.alias is None:
        raise ValueError(f"--follow must be given an alias (a version never changes), got {uri!r}")
    if not 0.0 < interval_s < 1e6:
        raise ValueError(f"interval_s must be above 0 and below 1e6, got {interval_s!r}")
    config = load_settings(StoreSettings, store=store)
    from sojourn.flows.versions.reading import read_store

    tracker = read_store(config, is_asked=not is_followed)
    if is_followed:
        follow_until_interrupted(tracker, wanted, folder, interval_s, typer.echo)
    else:
        typer.echo(f"pulled   {run(tracker, wanted.name, find_version(tracker, wanted), folder)}\nfolder   {folder}")
