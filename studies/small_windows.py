"""Which family to take on little data: short stretches of a trace's training part, by the rule of the choice.

    python -m studies small-windows [--store DIR] [--trace FILE:READER]... [--json FILE]

Of each stretch 70 % are fitted and chosen on (the last 15 % of them validate); at least 800 requests after it score.
No request of the test window is read. A figure is by how much the Brier score over ages of the family that is taken
lies above that of the best one, mean over stretches, %: lower = better. `lowest`: the lowest validation score. `rule`:
`flows.retrain.train`. `reversed`: the same with the order of simplicity turned around. Default: the synthetic trace.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.retrain.features import build_features
from sojourn.flows.retrain.ingest import ingest
from sojourn.flows.retrain.train import fit_settings, simplest_within_error, windows
from sojourn.flows.settings.retrain import load_config
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.measures import BrierOverAges, OwnerDraws, drawn_owners
from sojourn.serving.inputs import HistoryDefinition

FAMILIES = ("km", "gbdt-once", "gbdt-uptime", "hazard")
STRETCHES = ((40, 20), (150, 14), (600, 10), (2_500, 4))
"""Requests of a stretch, and how many of them, spread over the training part."""
PAST_SHARE, TRAIN_SHARE, N_SCORED_MIN = 0.7, 0.85, 800


def stretches(past: Examples, n: int, n_stretches: int) -> Iterator[tuple[Examples, Examples, Examples, Examples]]:
    """Train, validation, both together, and what follows, of stretches of n requests in the order of arrival."""
    order = np.argsort(past.arrival_s, kind="stable")
    n_past = int(n * PAST_SHARE)
    n_train, n_all = int(n_past * TRAIN_SHARE), n_past + max(N_SCORED_MIN, n // 2)
    for start in np.linspace(0, max(len(order) - n_all, 0), n_stretches).astype(int):
        own = order[start:start + n_all]
        yield tuple(past.take(own[low:high])  # type: ignore[misc]
                    for low, high in ((0, n_train), (n_train, n_past), (0, n_past), (n_past, n_all)))


def excesses(past: Examples, n: int, n_stretches: int, settings: FitSettings,
             history: HistoryDefinition) -> tuple[dict[str, list[float]], Counter[str]]:
    """By rule and by family: excess over the best family of each stretch, %; and what the rule took."""
    found: dict[str, list[float]] = defaultdict(list)
    taken: Counter[str] = Counter()
    for train, valid, both, later in stretches(past, n, n_stretches):
        chosen_on: dict[str, BrierOverAges] = {}
        scores: dict[str, float] = {}
        for family in FAMILIES:
            try:
                model = LIFETIME_MODELS[family]().fit(train, valid, both, settings)
            except ValueError:  # no observed end to learn from
                continue
            chosen_on[family] = BrierOverAges.of(model.validation_table_, valid)
            scores[family] = BrierOverAges.of(model.curve_table(later), later).score()
        if not chosen_on or not np.isfinite(list(scores.values())).all():
            continue
        backwards = {family: -LIFETIME_MODELS[family].complexity for family in chosen_on}
        places = {family: LIFETIME_MODELS[family].complexity for family in chosen_on}
        draws = OwnerDraws(drawn_owners(valid, history)[0], seed=0)
        picks = {"lowest": min(chosen_on, key=lambda family: np.nan_to_num(chosen_on[family].score(), nan=np.inf)),
                 "rule": simplest_within_error(chosen_on, places, draws)[0],
                 "reversed": simplest_within_error(chosen_on, backwards, draws)[0],
                 **{family: family for family in chosen_on}}
        taken[picks["rule"]] += 1
        for name, family in picks.items():
            found[name].append(100.0 * (scores[family] / min(scores.values()) - 1.0))
    return found, taken


def line(n: int, found: Mapping[str, list[float]], names: tuple[str, ...]) -> str:
    return f"{n:>8}{len(found['rule']):>11}" + "".join(f"{np.mean(found[name]):>13.1f}" for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path(".sojourn"))
    parser.add_argument("--trace", action="append", default=[], help="FILE:READER; may be repeated")
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/small_windows.json"))
    options = parser.parse_args()
    names = ("lowest", "rule", "reversed", *FAMILIES)
    pooled: dict[int, dict[str, list[float]]] = {n: defaultdict(list) for n, _ in STRETCHES}
    asked = [name.rpartition(":") for name in options.trace]
    configs = ([load_config(store=options.store, n_threads=1, trace=Path(file), reader=reader)
                for file, _, reader in asked] or [load_config(store=options.store, n_threads=1)])
    for config in configs:
        ingested = ingest.fn(config.store, config.source)
        features = build_features.fn(config.store, ingested)
        past = windows(features.rows, config.test_share, config.valid_share).past
        for n, n_stretches in STRETCHES:
            found, taken = excesses(past, n, n_stretches, fit_settings(config, features),
                                    features.encoder.history)
            print(f"{ingested.name}, {n} requests: taken {dict(taken)}", flush=True)
            for each, values in found.items():
                pooled[n][each] += values
    print(f"\n{'requests':>8}{'stretches':>11}" + "".join(f"{name:>13}" for name in names))
    for n, found in pooled.items():
        print(line(n, found, names))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({str(n): found for n, found in pooled.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
