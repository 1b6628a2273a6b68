"""What a run prints at its end: tables of models and policies, the gates, where the result lies."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sojourn.flows.gates.accuracy_gate import Difference
from sojourn.flows.outside.tracked_names import CHAMPION
from sojourn.flows.stages.promote import Promotion
from sojourn.models.lifetime import ALWAYS_TRAINED
from sojourn.models.measures import AGES_S, time_label


def models_table(scores: Mapping[str, Mapping[str, float]], against_lookup: Mapping[str, Difference], threshold_s: int,
                 candidate: str, choice: str) -> Table:
    """Families x measures on the test window, what decides first, the candidate marked. choice: why it is, in words."""
    name = time_label(threshold_s)
    table = Table(title="Lifetime models, test window", title_justify="left", caption_justify="left",
                  caption="Brier: of “still running at t” over log time, at creation, 10 min, 1 h and 6 h, weighted "
                          "for censoring (lower = better): what is chosen by. 95 % interval: over owners.\n"
                          f"AP: average precision of “outlives {name}” (higher = better). MAE: of log10 seconds, of "
                          "observed ends only, which favours answers that are too short (lower = better): of the "
                          "lifetime, and of what remains at each age.\n"
                          f"Candidate {choice}")
    table.add_column("family", no_wrap=True)
    columns = [(f"AP\n> {name}", "creation.ap_long"), ("MAE\nlife", "creation.mae_log10_lifetime")]
    columns += [(f"MAE\n{time_label(age_s)}", f"age_{time_label(age_s)}.mae_log10_remaining") for age_s in AGES_S]
    table.add_column("Brier\nages", justify="right", no_wrap=True)
    table.add_column("against km %\n95 % interval", justify="right", min_width=12)
    for title, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for family, values in scores.items():
        is_candidate = family == candidate
        cells = [f"{values[key]:.3f}" if key in values else "-" for _, key in columns]
        table.add_row(family, f"{values['ages.ibs']:.4f}" if "ages.ibs" in values else "-",
                      _against(against_lookup.get(family)), *cells,
                      "candidate" if is_candidate else "baseline" if family in ALWAYS_TRAINED else "",
                      style="bold" if is_candidate else None)
    return table


def _against(found: Difference | None) -> str:
    if found is None or math.isnan(found.mean_pct):
        return "-"
    return f"{found.mean_pct:+.1f}  {found.low_pct:+.1f} {found.high_pct:+.1f}"








def print_run(console: Console, tables: list[Table], promotion: Promotion, bundle: str, ui: str) -> None:
    """The end of a run: tables, gates, where the bundle is, and how to open the MLflow UI."""
    for table in tables:
        console.print()
        console.print(table)
    _print_gates(console, promotion)
    state = f"is now [bold]{promotion.alias}[/]"
    if promotion.is_unchanged:
        state = "stays [bold]champion[/]: this run made the same bytes, so nothing was registered"
    console.print(f"\n{promotion.name} version {promotion.version} {state}")
    _print_places(console, promotion, bundle, ui)


def print_standing(console: Console, tables: str, promotion: Promotion, left: str, ended: str, bundle: str,
                   ui: str) -> None:
    """The end of a run that had nothing to do: what the finished run printed, and that its result stands.

    left: why the version was rolled back, "" where it was not. ended: when that run ended.
    """
    console.print(tables, markup=False, soft_wrap=True)
    _print_gates(console, promotion)
    state = f"stays {promotion.alias}"
    if left and promotion.alias != CHAMPION:
        state = f"was rolled back ({left}) and stays so"
    console.print(f"\nnothing has changed since the run that ended {ended}: trace, code and settings are the same "
                  "(--again trains all the same)", soft_wrap=True)
    console.print(f"{promotion.name} version {promotion.version} {state}", markup=False, soft_wrap=True)
    _print_places(console, promotion, bundle, ui)


def plain_text(tables: Sequence[Table]) -> str:
    """Tables as text of 120 columns, without colours."""
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False)
    for table in tables:
        console.print()
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _print_places(console: Console, promotion: Promotion, bundle: str, ui: str) -> None:
    """Where the result lies, and what to do next."""
    console.print(f"bundle     {bundle}", soft_wrap=True)
    console.print(f"MLflow UI  {ui}", soft_wrap=True)
    for idx, step in enumerate(promotion.next_steps):
        console.print(f"{'' if idx else 'next':<11}{escape(step)}", soft_wrap=True)


def _print_gates(console: Console, promotion: Promotion) -> None:
    console.print()
    for gate in promotion.gates:
        mark = "[green]✓[/]" if gate.is_passed else "[red]✗[/]"
        console.print(f"{mark} {escape(gate.name)}: {escape(gate.found)}")
