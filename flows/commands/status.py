"""`sojourn status`: what a store holds now."""

from __future__ import annotations

import typer

from sojourn.flows.commands.options import StoreFolder, plain_errors


@plain_errors
def status(
    store: StoreFolder = None,
) -> None:
    """Say what the store holds now: champions and their bundles, the last run, what waits, and the disk it takes."""
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.reading import read_store
    from sojourn.flows.versions.store_status import status_lines

    settings = load_settings(StoreSettings, store=store)
    for line in status_lines(settings, read_store(settings)):
        typer.echo(line)
