"""The gates of promotion: what a candidate must show before it becomes champion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.gates.accuracy_gate import Difference, Jury, better_gate, is_more_accurate, not_worse_gate
from sojourn.flows.gates.bundle_gates import (
    following_gate,
    latency_gate,
    parity_gate,
    size_gate,
    table_latency_gate,
    table_parity_gate,
)
from sojourn.flows.gates.gate import Gate
from sojourn.flows.gates.known_at_creation import SUSPECTS, known_gate, suspects
from sojourn.flows.gates.simulation_gate import is_better_placed, simulation_gates
from sojourn.flows.settings.retrain import GateSettings
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.candidate import Candidate
from sojourn.flows.stages.champion import BEST_PLACED, ITSELF, MOST_ACCURATE, Rival, Rivals
from sojourn.flows.stages.judge import LOOKUP, Evaluation
from sojourn.flows.stages.train import Training
from sojourn.models.bundle_writer import table_of
from sojourn.models.lifetime import LifetimeModel
from sojourn.models.measures import BrierOverAges, OwnerDraws, card_measures
from sojourn.models.parity import learner_scores
from sojourn.serving.bundle import Bundle, RefreshModel
from sojourn.serving.forest import Forest, read_forest

N_CARD_DRAWS = 200
"""Draws of owners for the intervals of a model card."""


@dataclass(frozen=True, slots=True)
class CheckedGates:
    """The gates, the tags of the best versions so far (`flows.stages.champion`), and each family set against `km`.

    against_champion: None where there is no champion that can be compared. measures: what the candidate's card shows,
    each with its 95 % interval over owners.
    """

    gates: tuple[Gate, ...]
    tags: dict[str, str]
    against_lookup: dict[str, Difference]
    against_champion: Difference | None
    measures: dict[str, tuple[float, float, float]]


def check_gates(settings: GateSettings, features: Features, training: Training, evaluation: Evaluation,
                candidate: Candidate, rivals: Rivals, served_folder: Path | None = None) -> CheckedGates:
    """Every gate of a candidate: its file, its speed, its accuracy, its placement and its columns.

    Against `km` it must be better; against the champion and the best version so far no worse than by a margin. A
    candidate `km` is not compared with itself: it must be better than one curve for all requests. served_folder: of the
    champion's bundle, which predictors watch.
    """
    trained, test, encoder = training.of(training.candidate), training.split.test, features.encoder
    exported = trained.model.export()
    if exported is None:
        raise ValueError(f"the candidate must be servable, got {trained.family}")
    asked = suspects(features.trace, encoder, features.rows, trained.model, training.split, settings.confirmed_columns,
                     settings.seed)
    bundle, builder = candidate.bundle, candidate.builder
    scores = learner_scores(exported, bundle.schema.numbers.lookup)
    served = bundle.schema.encoder.with_row(test.features, test.keys)
    if exported.lookup is not None and exported.lookup.is_all:
        gates = [table_parity_gate(trained.model.curve_table(test), builder, served),
                 table_latency_gate(builder, served)]
    else:
        gates = [parity_gate(scores, builder.forest, _parity_rows(bundle, served, test), settings.seed),
                 latency_gate(settings.max_curve_ratio, scores, builder, served)]
    n_bytes = len(bundle.model) + (0 if exported.lookup is None else exported.lookup.hazards.nbytes)
    if bundle.refresh is not None:
        gates.append(_refresh_parity(bundle.refresh, training, settings.seed))
        n_bytes += len(bundle.refresh.model)
    gates.insert(1, size_gate(settings.max_bundle_mb, n_bytes))
    following = None if served_folder is None else following_gate(served_folder, bundle)
    if following is not None:
        gates.append(following)
    if rivals.reason:
        gates.append(Gate("comparison with the champion", False, rivals.reason))
    jury = Jury.of(test, encoder.history, settings.seed)
    own = evaluation.briers[trained.family]
    n_of_requests = len(encoder.feature_names()) + len(exported.age_features)
    lookup = evaluation.briers[LOOKUP]
    against = {family: jury.difference(brier, lookup) for family, brier in evaluation.briers.items()
               if family != LOOKUP}
    if trained.family == LOOKUP:
        gates.append(better_gate(own, _pooled(trained.model, test), "one curve for all", jury))
    else:
        gates.append(with_stumps(better_gate(own, lookup, LOOKUP, jury, against.get(trained.family)), builder.forest,
                                 n_of_requests))
    tags: dict[str, str] = dict.fromkeys((MOST_ACCURATE, BEST_PLACED), ITSELF)
    best = dict(rivals.best)
    against_champion = None
    for rival in rivals.found:
        if rival.is_in_accuracy:
            other = _brier(rival, test)
            found = jury.difference(own, other)
            gates.append(not_worse_gate(own, other, rival.label, jury, found))
            if rival.version == rivals.champion:
                against_champion = found
            if rival.version == best[MOST_ACCURATE] and not is_more_accurate(own, other, jury, found):
                tags[MOST_ACCURATE] = str(rival.version)
        if rival.is_in_placement:
            gates += simulation_gates(evaluation.simulation, trained.family, rival.label)
            if rival.version == best[BEST_PLACED] and not is_better_placed(evaluation.simulation, trained.family,
                                                                           rival.label):
                tags[BEST_PLACED] = str(rival.version)
    if not rivals.found and trained.family != LOOKUP:
        gates += simulation_gates(evaluation.simulation, trained.family, LOOKUP)
    gates.append(known_gate(asked, settings.confirmed_columns))
    if asked:
        tags[SUSPECTS] = ", ".join(suspect.column for suspect in asked)
    draws = OwnerDraws(jury.owner_codes, N_CARD_DRAWS, seed=settings.seed)
    measures = card_measures(trained.model.curve_table(test), test, training.threshold_s, draws)
    return CheckedGates(tuple(gates), tags, against, against_champion, measures)


def _refresh_parity(refresh: RefreshModel, training: Training, seed: int) -> Gate:
    """Of the model for running requests: on the test rows as they stood at its ages, else on those that it learnt."""
    learnt = training.refreshing
    exported = learnt.refresh.export()
    assert exported is not None
    assert learnt.rows is not None
    asked = next(aged for aged in map(learnt.rows.examples, (training.split.test, training.split.past)) if len(aged))
    kind, numbers = refresh.schema.curves, refresh.schema.numbers
    rows = kind.forest_rows(numbers.age_features, asked.features, kind.spread(numbers, asked.lifetime_s))
    forest = read_forest(refresh.model, refresh.schema.n_features)
    gate = parity_gate(learner_scores(exported.exported), forest, rows, seed)
    return replace(gate, name="bit parity of the export for running requests")


def _pooled(model: LifetimeModel, test: Examples) -> BrierOverAges:
    """Of the curve that a lookup table has for requests without any key of its own."""
    unknown = tuple(np.full(len(test), -1) for _ in test.keys)
    return BrierOverAges.of(model.curve_table(replace(test, keys=unknown)), test)


def _parity_rows(bundle: Bundle, features: np.ndarray, test: Examples) -> np.ndarray:
    """Rows as the forest reads them, each test row at one age. features: as the bundle's encoder gives them."""
    schema, kind = bundle.schema, bundle.schema.curves
    return kind.forest_rows(schema.numbers.age_features, features, kind.spread(schema.numbers, test.lifetime_s))


def _brier(rival: Rival, test: Examples) -> BrierOverAges:
    schema, rows = rival.bundle.schema, rival.rows
    features = schema.encoder.with_row(rows.features[test.idx_row], [codes[test.idx_row] for codes in rows.keys])
    table = table_of(schema, rival.builder.forest, features)
    return BrierOverAges.of(table, test)


def with_stumps(gate: Gate, forest: Forest, n_of_requests: int) -> Gate:
    """The gate, its finding extended where the forest gives all requests the same answer.

    n_of_requests: the first features are of the request, those after them of its age. A tree that LightGBM could not
    split is a node with two equal leaves.
    """
    sides = [np.where(side < 0, forest.leaves[np.where(side < 0, ~side, 0)], np.nan)
             for side in (forest.on_true, forest.on_false)]
    if ((sides[0] != sides[1]) & (forest.feature < n_of_requests)).any():
        return gate
    return replace(gate, found=f"{gate.found}. The forest has no split on what is known of a request: all get the same "
                               "answer")
