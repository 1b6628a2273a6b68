"""`sojourn results`: pages of what studies and comparisons found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.options import plain_errors


@plain_errors
def results(
    file: Annotated[Path, typer.Argument(help="Markdown file to write, `.md`: the index. The pages go beside it, into "
                                              "the folder of the same name.")],
    store: Annotated[list[Path] | None, typer.Option(
        help="Folder of all stores; repeat for several, of which the last wins. [default: .sojourn]")] = None,
) -> None:
    """Write an index of all traces, and a page a trace with its latest study and comparisons, from logged runs."""
    from sojourn.flows.reports.results_pages import write_results
    from sojourn.flows.settings.retrain import load_config
    from sojourn.flows.versions.reading import read_store

    studies: dict[str, Any] = {}
    comparisons: dict[tuple[str, str], Any] = {}
    stores = store or [load_config().store]
    for folder in stores:
        tracker = read_store(load_config(store=folder))
        studies |= {found["trace"]: found for found in tracker.studies()}
        comparisons |= {(found["trace"], found["name"]): found for found in tracker.comparisons()}
    if not studies and not comparisons:
        raise ValueError("the store must hold a study or a comparison (run `sojourn evaluate` or `sojourn compare` "
                         f"first), got none in {', '.join(map(str, stores))!r}")
    for written in write_results(file, list(studies.values()), list(comparisons.values())):
        typer.echo(f"written  {written}")
