"""The output at the end of a run (tables of models and policies, the gates, the places of results),
and the model card, which is a version's description in MLflow."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from sojourn.flows.console import WIDTH, FittedTable
from sojourn.flows.placement.workloads import Replicated
from sojourn.flows.retrain.gate import DEPLOYABLE
from sojourn.flows.retrain.gates import Difference
from sojourn.flows.retrain.verdict import Promotion, print_gates, print_places
from sojourn.models.lifetime import ALWAYS_TRAINED
from sojourn.models.measures import AGES_S, time_label
from sojourn.simulator.experiments import BASELINE, best_rival, pairing_label
from sojourn.simulator.measures import interval_text, number_text, signed_text

_NUMBERS = {
    "creation.ap_long": "average precision of “long-lived” at creation (higher = better)",
    "age_1h.mae_log10_remaining": "error of the median time left at 1 h, log10 s, of observed ends (lower = better)",
    "creation.coverage_80": "share of ends within the predicted 10 to 90 % (0.8 = calibrated)",
}
_MAX_FEATURES = 30


def models_table(scores: Mapping[str, Mapping[str, float]], against_lookup: Mapping[str, Difference], threshold_s: int,
                 candidate: str, choice: str) -> Table:
    """Families x measures on the test window, the deciding one first. choice: in words."""
    name = time_label(threshold_s)
    caption = ("Brier: of “still running at t” over log time, at creation, 10 min, 1 h and 6 h, weighted for censoring "
               "(lower = better): what is chosen by. 95 % interval: over owners.\n"
               f"AP: average precision of “outlives {name}” (higher = better). MAE: of log10 seconds, of observed ends "
               "only, which favours answers that are too short (lower = better): of the lifetime, and of what remains "
               f"at each age.\nCandidate {choice}")
    columns = [(f"AP\n> {name}", "creation.ap_long"), ("MAE\nlife", "creation.mae_log10_lifetime")]
    columns += [(f"MAE\n{time_label(age_s)}", f"age_{time_label(age_s)}.mae_log10_remaining") for age_s in AGES_S]
    titles = [title for title, _ in columns]
    table = FittedTable("Lifetime models, test window",
                        ("family", "Brier\nages", "against km %\n95 % interval", *titles, ""), caption,
                        least=(titles[2], *reversed(titles[3:]), *reversed(titles[:2])))
    table.columns[-1].justify = "left"
    for family, values in scores.items():
        is_candidate = family == candidate
        cells = [f"{values[key]:.3f}" if key in values else "-" for _, key in columns]
        table.add_row(family, f"{values['ages.ibs']:.4f}" if "ages.ibs" in values else "-",
                      _against(against_lookup.get(family)), *cells,
                      "candidate" if is_candidate else "baseline" if family in ALWAYS_TRAINED else "",
                      style="bold" if is_candidate else None)
    return table


def _against(difference: Difference | None) -> str:
    if difference is None or math.isnan(difference.mean_pct):
        return "-"
    return f"{signed_text(difference.mean_pct, 1)}  {interval_text(difference.low_pct, difference.high_pct, 1, ' ')}"


def print_run(console: Console, tables: list[Table], promotion: Promotion, bundle: str, ui: str) -> None:
    """Print the end of a run: tables, gates, the bundle's folder, the command of the MLflow UI."""
    for table in tables:
        console.print()
        console.print(table)
    print_gates(console, promotion)
    state = f"is now [bold]{promotion.alias}[/]"
    if promotion.is_unchanged:
        state = "stays [bold]champion[/]: this run made the same bytes, so nothing was registered"
    console.print(f"\n{promotion.name} version {promotion.version} {state}")
    print_places(console, promotion, bundle, ui)


def plain_text(tables: Sequence[Table]) -> str:
    """Tables as text, without colours."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, highlight=False)
    for table in tables:
        console.print()
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The inputs of a version.

    choice: of the family, in words. refreshed_s: ages of new predictions for running requests.
    window: the training window, in words. n_past, n_test: requests for training and for judging.
    features: names, in the order of the rows. data_hash: of the trace. code_version: of Sojourn.
    """

    name: str
    family: str
    choice: str
    refreshed_s: Sequence[int]
    trace: str
    window: str
    n_past: int
    n_test: int
    features: Sequence[str]
    data_hash: str
    code_version: str


def version_card(facts: CardFacts, scores: Mapping[str, float], measures: Mapping[str, tuple[float, float, float]],
                 against_lookup: Difference | None, simulation: Replicated | None) -> str:
    """Markdown: main figures with intervals, how to load the model, its inputs, all measures.

    scores: of the test window, by name. measures: some of them with 95 % intervals over owners.
    """
    words = in_words(against_lookup, simulation, facts.family)
    return "\n\n".join([
        *([words] if words else []), f"**{facts.family}** of `{facts.trace}`, {facts.window}.", facts.choice,
        _headline(measures, against_lookup, simulation, facts.family),
        "**Load it**", _loading(facts.name),
        "**Made of**", _made_of(facts),
        "**All measures**, of the test window", _measures(scores, against_lookup),
    ]) + "\n"


def in_words(against_lookup: Difference | None, simulation: Replicated | None, family: str) -> str:
    """The two figures that matter most, as sentences: how exact the predictions are, and what a scheduler gains."""
    words = []
    if against_lookup is not None and math.isfinite(against_lookup.mean_pct):
        better = "better" if against_lookup.mean_pct < 0 else "worse"
        sure = against_lookup.low_pct > 0 or against_lookup.high_pct < 0
        words.append(f"Its predictions are {number_text(abs(against_lookup.mean_pct), 0)} % {better} than a table of "
                     f"past lifetimes (`km`){'' if sure else ', which may be chance'}.")
    if simulation is not None:
        best, gain, low, high, rival = _best_gain(simulation, family)
        sure = low > 0 or high < 0
        more = "more" if gain > 0 else "fewer"
        without = "" if rival == BASELINE else ", the best policy without predictions"
        words.append(f"With it `{best}` leaves {number_text(abs(gain))} % of the hosts {more} empty than {rival}"
                     f"{without}{'' if sure else ', which may be chance'}.")
    return " ".join(words)


def _best_gain(simulation: Replicated, family: str) -> tuple[str, float, float, float, str]:
    """The best deployable policy, its gain over the rival (`best_rival`), pp, and its interval; and the rival."""
    gains = simulation.table["gain_pp"]
    rival = best_rival(gains, simulation.table["rejected_pct"])
    best = max(DEPLOYABLE, key=lambda policy: float(gains[pairing_label(policy, family)]))
    return best, *simulation.difference(pairing_label(best, family), rival), rival


def _headline(measures: Mapping[str, tuple[float, float, float]], against_lookup: Difference | None,
              simulation: Replicated | None, family: str) -> str:
    rows = []
    if against_lookup is not None:
        rows.append(("Brier score over ages against `km`, % (below 0 = better)",
                     signed_text(against_lookup.mean_pct, 1),
                     interval_text(against_lookup.low_pct, against_lookup.high_pct, 1), "owners"))
    for name, title in _NUMBERS.items():
        if name in measures:
            value, low, high = measures[name]
            rows.append((title, f"{value:.3f}", f"{low:.3f} to {high:.3f}" if np.isfinite(low) else "-", "owners"))
    if simulation is not None:
        best, gain, low, high, rival = _best_gain(simulation, family)
        n_replicas = simulation.n_pairs(pairing_label(best, family), rival)
        rows.append((f"empty hosts over {rival}, `{best}`, best of {len(DEPLOYABLE)} policies, pp (higher = better)",
                     signed_text(gain), interval_text(low, high), f"{n_replicas} replicas"))
    lines = [f"| {title} | {value} | {interval} | {over} |" for title, value, interval, over in rows]
    return "\n".join(["| test window | value | 95 % interval | over |", "|---|---|---|---|", *lines])


def _loading(name: str) -> str:
    return (f"```python\nfrom sojourn.serving import Predictor\npredictor = Predictor.load(\".sojourn/bundles/{name}\")"
            f"  # microseconds, in the scheduler\n\nimport mlflow\n"
            f"model = mlflow.pyfunc.load_model(\"models:/{name}@champion\")  # a table at a time\n```\n\n"
            f"C99: `sojourn model export-c .sojourn/bundles/{name} --output FOLDER --name sojourn_lifetime`")


def _made_of(facts: CardFacts) -> str:
    names = [f"`{name}`" for name in facts.features[:_MAX_FEATURES]]
    if len(facts.features) > _MAX_FEATURES:
        names.append(f"{len(facts.features) - _MAX_FEATURES} more")
    ages = ", ".join(map(time_label, facts.refreshed_s))
    return "\n".join([
        *([f"- running requests: predicted anew at {ages}"] if ages else []),
        f"- requests: {facts.n_past:,} trained it, {facts.n_test:,} later ones judged it",
        f"- data {facts.data_hash[:12]}, Sojourn {facts.code_version}",
        f"- features ({len(facts.features)}): {', '.join(names)}"])


def _measures(scores: Mapping[str, float], against_lookup: Difference | None) -> str:
    decides = [("ages.ibs", "**Brier score over ages** (lower = better)")]
    others = [(name, f"{name} (of observed ends)" if ".mae_" in name and not name.endswith("_ipcw") else name)
              for part in ("sim", "creation", "age_") for name in sorted(scores) if name.startswith(part)]
    rows = [f"| {title} | {scores[name]:.4g} |" for name, title in decides + others if name in scores]
    if against_lookup is not None:
        rows.insert(1, f"| its difference to km, %, with 95 % interval | {signed_text(against_lookup.mean_pct, 1)}  "
                       f"{signed_text(against_lookup.low_pct, 1)} {signed_text(against_lookup.high_pct, 1)} |")
    return "\n".join(["| measure | value |", "|---|---|", *rows])
