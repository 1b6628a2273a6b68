"""The model card: what MLflow shows as a version's description. The verdict and the gates stand before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.flows.gates.accuracy_gate import Difference
from sojourn.flows.gates.simulation_gate import DEPLOYABLE
from sojourn.flows.placement.replicas import Replicated
from sojourn.models.measures import time_label
from sojourn.simulator.experiments import pairing_label

_NUMBERS = {
    "creation.ap_long": "average precision of “long-lived” at creation (higher = better)",
    "age_1h.mae_log10_remaining": "error of the median time left at 1 h, log10 s, of observed ends (lower = better)",
    "creation.coverage_80": "share of ends within the predicted 10 to 90 % (0.8 = calibrated)",
    "age_1h.coverage_90": "share of ends by the predicted 90 % quantile, among those alive at 1 h (0.9 = calibrated)",
}
_MAX_FEATURES = 40


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a version was made of.

    choice: why this family, in words. refreshed_s: ages at which running requests are predicted anew. window: which
    requests trained it. n_past, n_test: requests that trained and judged it. features: names, in the order of the
    rows. data_hash: of the trace. code_version: of Sojourn.
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
    """Markdown: some figures with their intervals, how to load, what it was made of, and all measures.

    scores: of the test window, by name. measures: some of them with their 95 % interval over owners.
    """
    return "\n\n".join([
        f"**{facts.family}** of `{facts.trace}`, {facts.window}.", facts.choice,
        _headline(measures, against_lookup, simulation, facts.family),
        "**Load it**", _loading(facts.name),
        "**Made of**", _made_of(facts),
        "**All measures**, of the test window", _measures(scores, against_lookup),
    ]) + "\n"


def _headline(measures: Mapping[str, tuple[float, float, float]], against_lookup: Difference | None,
              simulation: Replicated | None, family: str) -> str:
    rows = []
    if against_lookup is not None:
        rows.append(("Brier score over ages against `km`, % (below 0 = better)",
                     f"{against_lookup.mean_pct:+.1f}",
                     f"{against_lookup.low_pct:+.1f} to {against_lookup.high_pct:+.1f}", "owners"))
    for name, title in _NUMBERS.items():
        if name in measures:
            value, low, high = measures[name]
            rows.append((title, f"{value:.3f}", f"{low:.3f} to {high:.3f}" if np.isfinite(low) else "-", "owners"))
    if simulation is not None:
        table = simulation.table
        best = max(DEPLOYABLE, key=lambda policy: float(table["gain_pp"].loc[pairing_label(policy, family)]))
        gain, low, high, n_replicas = (float(table[name].loc[pairing_label(best, family)])
                                       for name in ("gain_pp", "gain_low_pp", "gain_high_pp", "n_seeds"))
        rows.append((f"empty hosts over best-fit, `{best}`, best of {len(DEPLOYABLE)} policies, pp (higher = better)",
                     f"{gain:+.2f}", f"{low:+.2f} to {high:+.2f}" if np.isfinite(low) else "-",
                     f"{n_replicas:.0f} replicas"))
    lines = [f"| {title} | {value} | {interval} | {over} |" for title, value, interval, over in rows]
    return "\n".join(["| test window | value | 95 % interval | over |", "|---|---|---|---|", *lines])


def _loading(name: str) -> str:
    return (f"```python\nfrom sojourn.serving import Predictor\npredictor = Predictor.load(\".sojourn/bundles/{name}\")"
            f"  # microseconds, in the scheduler\n\nimport mlflow\n"
            f"model = mlflow.pyfunc.load_model(\"models:/{name}@champion\")  # a table at a time\n```\n\n"
            f"C99: `sojourn export-c .sojourn/bundles/{name} --output FOLDER --name sojourn_lifetime`")


def _made_of(facts: CardFacts) -> str:
    names = [f"`{name}`" for name in facts.features[:_MAX_FEATURES]]
    if len(facts.features) > _MAX_FEATURES:
        names.append(f"{len(facts.features) - _MAX_FEATURES} more")
    anew = ", ".join(map(time_label, facts.refreshed_s))
    return "\n".join([
        *([f"- running requests: predicted anew at {anew}"] if anew else []),
        f"- requests: {facts.n_past:,} trained it, {facts.n_test:,} later ones judged it",
        f"- data {facts.data_hash[:12]}, Sojourn {facts.code_version}",
        f"- features ({len(facts.features)}): {', '.join(names)}"])


def _measures(scores: Mapping[str, float], against_lookup: Difference | None) -> str:
    decides = [("ages.ibs", "**Brier score over ages** (lower = better)")]
    others = [(name, f"{name} (of observed ends)" if ".mae_" in name and not name.endswith("_ipcw") else name)
              for part in ("sim", "creation", "age_") for name in sorted(scores) if name.startswith(part)]
    rows = [f"| {title} | {scores[name]:.4g} |" for name, title in decides + others if name in scores]
    if against_lookup is not None:
        rows.insert(1, f"| its difference to km, %, with 95 % interval | {against_lookup.mean_pct:+.1f}  "
                       f"{against_lookup.low_pct:+.1f} {against_lookup.high_pct:+.1f} |")
    return "\n".join(["| measure | value |", "|---|---|", *rows])
