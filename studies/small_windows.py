"""Which family to take on little data: short stretches of a trace's training part, by the rule of the choice.

    python -m studies small-windows [READER=PATH | synthetic:SEED ...] [--json FILE]

A stretch is a trace of its own: nothing before it is known. 70 % of it are fitted and chosen on (the last 15 % of them
validate); at least 800 requests after it score. No request of the test window is read. A figure is by how much the
Brier score over ages of the family that is taken lies above that of the best one, mean over stretches, % (lower =
better). `lowest`: the lowest validation score. `rule`: that of `flows.retrain.train`, without its look at coverage.
`all compared`: the same, if families with residuals of the validation window are compared there. `hazard first`: and if
`blend` stands behind `hazard`, `km` and `gbdt-once`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sojourn.features import Trace
from sojourn.features.creation import decision_times
from sojourn.flows.retrain.train import Trained, comparable
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models import LIFETIME_MODELS
from sojourn.models.measures import BrierOverAges, OwnerDraws, coarsest_owner, first_within_error
from studies.later_parts import learning, of_name

FAMILIES = ("km", "gbdt-once", "hazard", "online", "blend")
STRETCHES = ((150, 8), (600, 6), (2_500, 4), (10_000, 3))
"""Requests of a stretch, and how many of them, spread over the training part."""
PAST_SHARE, N_SCORED_MIN = 0.7, 800


def stretches(trace: Trace, n: int, n_stretches: int) -> Iterator[tuple[float, Trace]]:
    """Traces of n requests, in the order of decision, with what follows; and the share that follows."""
    order = np.argsort(decision_times(trace), kind="stable")
    order = order[:int(0.7 * len(order))]
    n_past = int(n * PAST_SHARE)
    n_all = n_past + max(N_SCORED_MIN, n // 2)
    for start in np.linspace(0, len(order) - n_all, n_stretches).astype(int) if n_all <= len(order) else ():
        part = trace.requests.iloc[np.sort(order[start:start + n_all])].reset_index(drop=True)
        yield 1.0 - n_past / n_all, replace(trace, requests=part, usage=None)


def excesses(config: RetrainConfig, part: Trace) -> tuple[dict[str, float], str] | None:
    """By rule and by family: excess over the best family, %; and what the rule took. None without enough ends."""
    try:
        _, split, settings = learning(config, part)
    except ValueError:  # too few requests with a known start, or no observed end
        return None
    fitted: list[Trained] = []
    scores: dict[str, float] = {}
    for family in FAMILIES:
        model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
        settings = replace(settings, fitted={**settings.fitted, family: model})
        brier = BrierOverAges.of(model.validation_table_, split.valid)
        fitted.append(Trained(family, model, 0.0, {"ages.ibs": brier.score()}, brier))
        scores[family] = BrierOverAges.of(model.curve_table(split.test), split.test).score()
    if not np.isfinite(list(scores.values())).all():
        return None
    draws = OwnerDraws(coarsest_owner(list(split.valid.keys), len(split.valid)), seed=0)
    places = {family: LIFETIME_MODELS[family].place for family in FAMILIES}

    def taken(families: list[Trained], own: Mapping[str, int]) -> str:
        return first_within_error({one.family: one.brier for one in families}, own, draws)[0]

    picks = {"lowest": min(fitted, key=lambda one: np.nan_to_num(one.choice_score, nan=np.inf)).family,
             "rule": taken(comparable(fitted, split.valid), places), "all compared": taken(fitted, places),
             "hazard first": taken(fitted, {**places, "blend": places["online"]}),
             **{family: family for family in FAMILIES}}
    best = min(scores.values())
    return {name: 100.0 * (scores[family] / best - 1.0) for name, family in picks.items()}, picks["rule"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", default=["synthetic:0"], help="READER=PATH or synthetic:SEED")
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/small_windows.json"))
    options = parser.parse_args()
    pooled: dict[int, dict[str, list[float]]] = {n: defaultdict(list) for n, _ in STRETCHES}
    for name in options.traces:
        config, trace = of_name(name)
        for n, n_stretches in STRETCHES:
            taken: Counter[str] = Counter()
            for share, part in stretches(trace, n, n_stretches):
                found = excesses(config.model_copy(update={"test_share": share}), part)
                if found is not None:
                    taken[found[1]] += 1
                    for each, value in found[0].items():
                        pooled[n][each].append(value)
            print(f"{name}, {n} requests: taken {dict(taken)}", flush=True)
    names = ("lowest", "rule", "all compared", "hazard first", *FAMILIES)
    print(f"\n{'requests':>8}{'stretches':>11}" + "".join(f"{name:>13}" for name in names))
    for n, values in ((n, values) for n, values in pooled.items() if values):
        print(f"{n:>8}{len(values['rule']):>11}" + "".join(f"{np.mean(values[name]):>13.1f}" for name in names))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({str(n): found for n, found in pooled.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
