"""`sojourn rectify`: today's live migrations that free hosts, from a snapshot of a pool, with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors


@plain_errors
def rectify(
    snapshot: Annotated[Path, typer.Argument(
        help="Folder with the tables hosts and requests, CSV or Parquet.")],
    bundle: Annotated[Path, typer.Option(help="Bundle folder: the model that predicts.")],
    budget: Annotated[int, typer.Option(help="Migrations at most.")] = 5,
    rectifier: Annotated[str, typer.Option(help="What plans them: {rectifiers}.")] = "value",
    long_h: Annotated[float, typer.Option(help="Of pdre: hours from which on a predicted stay is long.")] = 24.0,
    now_s: Annotated[int | None, typer.Option(
        help="The snapshot's time, whole seconds on the training trace's clock. [default: its end]")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write the list to. [default: none]")] = None,
) -> None:
    """Rectify a pool: today's live migrations that free hosts; which host each frees, when, and with what chance."""
    from sojourn.simulator.rectification import RECTIFIERS, Rectify

    asked = Rectify(rectifier, budget, long_s=round(3_600 * long_h))  # refuses what is wrong before files are read
    from sojourn.flows.placement.snapshot import read_snapshot
    from sojourn.flows.reports.rectify_table import migrations_table, nothing_words, print_migrations
    from sojourn.serving import Predictor

    predictor = Predictor.load(bundle)
    if now_s is None:
        now_s = int(predictor.info()["training"].get("history_to_s", 0))
    pool = read_snapshot(snapshot, predictor, now_s)
    table = migrations_table(pool, RECTIFIERS[rectifier](pool.view, asked.budget, asked.long_s))
    if pool.n_unknown:
        typer.echo(f"warning: of {pool.n_unknown} of {len(pool.request_ids)} requests the model does not know all that "
                   "it reads", err=True)
    if len(table) == 0:
        typer.echo(nothing_words(pool, budget))
    else:
        print_migrations(table)
    if out is not None:
        from sojourn.publishing import whole_file

        with whole_file(out) as temporary:
            table.to_csv(temporary, index=False)
