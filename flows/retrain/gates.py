"""The gates of promotion: the conditions for a candidate to become champion.

Accuracy is the Brier score over ages, paired by owner, against one other model. The gate needs
proof: the whole interval must be below the margin, so a small test window with its wide interval
promotes nothing. Other gates check the bundle's bits, its size and its speed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.retrain.features import Features
from sojourn.flows.retrain.gate import is_better_placed, simulation_gates
from sojourn.flows.retrain.honest_columns import SUSPECTS, known_gate, suspects
from sojourn.flows.retrain.judge import BEST_PLACED, ITSELF, LOOKUP, MOST_ACCURATE, Candidate, Evaluation, Rival, Rivals
from sojourn.flows.retrain.train import Training
from sojourn.flows.retrain.verdict import Gate, Reason
from sojourn.flows.settings.retrain import GateSettings
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import LifetimeModel, Scores
from sojourn.models.measures import BrierOverAges, OwnerDraws, card_measures, drawn_owners, interval, limits_of
from sojourn.models.parity import curve_cost, curve_us, learner_scores, n_different_scores
from sojourn.models.served_curves import ServedCurves
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle, RefreshModel, load_bundle
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import Forest, read_forest
from sojourn.serving.inputs import HistoryDefinition, HistoryTerms
from sojourn.simulator.measures import interval_text, signed_text

MARGIN_PCT = 2.0
"""The most that a version may be worse than the champion and than the best so far, % of its score.

A new fit of the same rows moves the score by 0.2 to 0.5 %, and its interval reaches to 0.6 % on the
synthetic trace (30,000 test requests) and to 1.6 % on openb (2,200): a smaller margin could not be
shown there. Of the model's lead over km, 21 % and 9 %, at most a fifth is at risk (docs/gates.md).
"""
N_ERRORS = 3.0
"""Standard errors by which a version must stay within the margin. A candidate on the bound passes
once in 740 tries: in a year of weekly ones, one passes with a probability of 7 %; with 95 %
intervals it would be 73 %."""
N_BOOTSTRAP = 500
MIN_TEST_ENDS = 100
"""Fewer observed ends in the test window are no evidence, with any interval."""
COVERED_PCT = 85.0, 95.0
"""Of the requests, %: so many must the 90 % quantile cover."""
N_CARD_DRAWS = 200
"""Draws of owners for the intervals of a model card."""
N_PARITY_ROWS = 50_000
N_CURVES = 200
"""Curves timed by the latency gate."""
_PARITY_UPTIMES_S = (0.0, 600.0, 21_600.0, 1e6)
_NO_LEARNER = "the family must export `text` or `scores`, by which its learner can be asked; got neither"


@dataclass(frozen=True, slots=True)
class Difference:
    """A model's score over another's, minus one, %, below 0 = better; interval, standard error."""

    mean_pct: float
    low_pct: float
    high_pct: float
    error_pct: float


@dataclass(frozen=True, slots=True)
class Jury:
    """The test window's n rows. is_event: bool (n,). owner_codes: int64 (n,), equal = same owner.

    seed: of the draws of owners.
    """

    is_event: np.ndarray
    owner_codes: np.ndarray
    seed: int

    @classmethod
    def of(cls, test: Examples, history: HistoryDefinition, seed: int) -> Jury:
        """The test window by its coarsest owner key with enough owners; else by single requests."""
        return cls(test.is_event, drawn_owners(test, history)[0], seed)

    @property
    def drawn(self) -> str:
        """The units of an interval, in words: the number of owners, or of requests."""
        n = len(np.unique(self.owner_codes))
        return f"{n:,} {'requests' if n == len(self.owner_codes) else 'owners'}"

    def difference(self, candidate: BrierOverAges, other: BrierOverAges) -> Difference:
        """The difference of the scores of two models on these rows, owners drawn with replacement."""
        draws = OwnerDraws(self.owner_codes, N_BOOTSTRAP, seed=self.seed)
        drawn = np.array([_excess_pct(candidate, other, weight) for weight in draws])
        return Difference(_excess_pct(candidate, other), *interval(drawn), float(drawn.std()))


def better_gate(candidate: BrierOverAges, other: BrierOverAges, label: str, jury: Jury,
                difference: Difference | None = None) -> Gate:
    """Passed if the candidate is shown to be better than the other: the 95 % interval is below 0.

    candidate, other: their scores on the jury's rows. difference: of both, if it is known already.
    """
    difference = difference or jury.difference(candidate, other)
    return _gate(label, candidate, other, jury, difference, difference.high_pct < 0.0, "must lie below 0",
                 Reason.OTHER if difference.low_pct > 0.0 else Reason.LEVEL)


def not_worse_gate(candidate: BrierOverAges, other: BrierOverAges, label: str, jury: Jury,
                   difference: Difference | None = None) -> Gate:
    """Passed if the candidate is shown to be less than MARGIN_PCT worse than an earlier version.

    By N_ERRORS standard errors: of many weekly candidates at 95 % one passes by chance.
    """
    difference = difference or jury.difference(candidate, other)
    bound = difference.mean_pct + N_ERRORS * difference.error_pct
    return _gate(label, candidate, other, jury, difference, bound < MARGIN_PCT,
                 f"with {N_ERRORS:g} standard errors {signed_text(bound, 1)}, must lie below {MARGIN_PCT:+g}")


def is_more_accurate(candidate: BrierOverAges, other: BrierOverAges, jury: Jury,
                     difference: Difference | None = None) -> bool:
    """Whether the candidate is shown to be better than the most accurate version and replaces it."""
    difference = difference or jury.difference(candidate, other)
    return difference.mean_pct + N_ERRORS * difference.error_pct < 0.0 and int(jury.is_event.sum()) >= MIN_TEST_ENDS


def _gate(label: str, candidate: BrierOverAges, other: BrierOverAges, jury: Jury, difference: Difference,
          is_shown: bool, rule: str, reason: Reason = Reason.OTHER) -> Gate:
    name = f"accuracy against {label}"
    if (n_ended := int(jury.is_event.sum())) < MIN_TEST_ENDS:
        return Gate(name, False, f"the test window must hold at least {MIN_TEST_ENDS} observed ends, got {n_ended}",
                    Reason.FEW_ENDS)
    if math.isnan(candidate.score()) or math.isnan(other.score()):
        return Gate(name, False, "the test window must hold requests that can be followed for 30 s, got none: there is "
                                 "no Brier score of them")
    verdict = "" if is_shown else "; worse" if difference.low_pct > 0.0 else "; not shown"
    return Gate(name, is_shown,
                f"Brier over ages {candidate.score():.4f} against {other.score():.4f}: "
                f"{signed_text(difference.mean_pct, 1)} %, "
                f"95 % interval {interval_text(difference.low_pct, difference.high_pct, 1)} "
                f"(over {jury.drawn}), {rule}{verdict}", reason)


def coverage_gate(measures: Mapping[str, tuple[float, float, float]], prefix: str, age: str, jury: Jury) -> Gate:
    """Failed if the whole 95 % interval of the 90 % quantile's coverage lies outside COVERED_PCT.

    measures: of `card_measures`, by their prefix of the age. Not judged with few ends: a failure at creation only,
    since few requests of a trace may reach a later age.
    """
    name, missing = f"coverage of the quantile 0.9 at {age}", (math.nan,) * 3
    n_ended = int(measures.get(f"{prefix}.n_ends", (0,))[0])
    value, low, high = (100.0 * each for each in measures.get(f"{prefix}.coverage_90_at_2pct", missing))
    if n_ended < MIN_TEST_ENDS or math.isnan(low):
        return Gate(name, age != "creation", f"not judged: at least {MIN_TEST_ENDS} observed ends are needed, and "
                                             "requests that are followed to their quantile", Reason.FEW_ENDS)
    exact = f"{100.0 * measures.get(f'{prefix}.coverage_90', missing)[0]:.1f}"
    to_second = "" if exact == f"{value:.1f}" else f" ({exact} to the second)"
    return Gate(name, high >= COVERED_PCT[0] and low <= COVERED_PCT[1],
                f"{value:.1f} %{to_second}, 95 % interval {low:.1f} to {high:.1f} (over {jury.drawn}, {n_ended:,} "
                f"ends), must reach into {COVERED_PCT[0]:g} to {COVERED_PCT[1]:g}")


def _excess_pct(candidate: BrierOverAges, other: BrierOverAges, weight: np.ndarray | None = None) -> float:
    """The first score above the second, %; NaN if the second is not above 0."""
    base = other.score(weight)
    return 100.0 * (candidate.score(weight) / base - 1.0) if base > 0.0 else float("nan")


@dataclass(frozen=True, slots=True)
class CheckedGates:
    """The gates, the tags of the best versions (`flows.retrain.judge`), each family against `km`.

    against_champion: None if no champion can be compared. measures: those of the candidate's card,
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

    It must be better than `km`, and worse than the champion and the best version so far by at most
    a margin. A candidate `km` must be better than one curve for all requests. served_folder: of the
    champion's bundle, which predictors watch.
    """
    trained, test, encoder = training.of(training.candidate), training.split.test, features.encoder
    exported = trained.model.export()
    if exported is None:
        raise ValueError(f"the candidate must be servable, got {trained.family}")
    suspicious = suspects(features.trace, encoder, features.rows, trained.model, training.split,
                          settings.confirmed_columns, settings.seed, settings.n_threads)
    bundle, builder = candidate.bundle, candidate.builder
    scores = learner_scores(exported, bundle.schema.numbers.lookup)
    served = bundle.schema.encoder.with_row(test.features, test.keys)
    table = trained.served(test, features.rows.decided_s)
    if exported.habits is not None and scores is None:  # counts alone: no trees, and no learner
        curves = ServedCurves(bundle, features.rows, training.split.test_from_s).at(test.idx_row)
        gates = [habit_parity_gate(table, curves), table_latency_gate(builder, served)]
    elif exported.lookup is not None and exported.lookup.is_all:
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
    brier = evaluation.briers[trained.family]
    names = encoder.feature_names()
    n_of_requests = len(names) + len(exported.age_features)
    lookup = evaluation.briers[LOOKUP]
    against = {family: jury.difference(brier, lookup) for family, brier in evaluation.briers.items()
               if family != LOOKUP}
    if trained.family == LOOKUP:
        gates.append(better_gate(brier, _pooled(trained.model, test), "one curve for all", jury))
    else:
        gates.append(with_stumps(better_gate(brier, lookup, LOOKUP, jury, against.get(trained.family)), builder.forest,
                                 n_of_requests))
    tags: dict[str, str] = dict.fromkeys((MOST_ACCURATE, BEST_PLACED), ITSELF)
    best = dict(rivals.best)
    against_champion = None
    for rival in rivals.versions:
        if rival.is_in_accuracy:
            other = _brier(rival, test)
            difference = jury.difference(brier, other)
            gates.append(not_worse_gate(brier, other, rival.label, jury, difference))
            if rival.version == rivals.champion:
                against_champion = difference
            if rival.version == best[MOST_ACCURATE] and not is_more_accurate(brier, other, jury, difference):
                tags[MOST_ACCURATE] = str(rival.version)
        if rival.is_in_placement:
            gates += simulation_gates(evaluation.simulation, trained.family, rival.label)
            if rival.version == best[BEST_PLACED] and not is_better_placed(evaluation.simulation, trained.family,
                                                                           rival.label):
                tags[BEST_PLACED] = str(rival.version)
    if not rivals.versions and trained.family != LOOKUP:
        gates += simulation_gates(evaluation.simulation, trained.family, LOOKUP)
    draws = OwnerDraws(jury.owner_codes, N_CARD_DRAWS, seed=settings.seed)
    measures = card_measures(table, test, training.threshold_s, draws, limits_of(test, names))
    gates += [coverage_gate(measures, *age, jury) for age in (("creation", "creation"), ("age_1h", "1 h"))]
    gates.append(known_gate(suspicious, settings.confirmed_columns))
    if suspicious:
        tags[SUSPECTS] = ", ".join(suspect.column for suspect in suspicious)
    return CheckedGates(tuple(gates), tags, against, against_champion, measures)


def _refresh_parity(refresh: RefreshModel, training: Training, seed: int) -> Gate:
    """The parity gate of the model for running requests, on test rows at its ages, or its own."""
    learnt = training.refreshing
    exported = learnt.refresh.export()
    assert exported is not None
    assert learnt.rows is not None
    examples = next(aged for aged in map(learnt.rows.examples, (training.split.test, training.split.past)) if len(aged))
    kind, numbers = refresh.schema.curves, refresh.schema.numbers
    rows = kind.forest_rows(numbers.age_features, examples.features, kind.spread(numbers, examples.lifetime_s))
    forest = read_forest(refresh.model, refresh.schema.n_features)
    gate = parity_gate(learner_scores(exported.exported), forest, rows, seed)
    return replace(gate, name="bit parity of the export for running requests")


def _pooled(model: LifetimeModel, test: Examples) -> BrierOverAges:
    """The score of a lookup table's curve for requests without any known key."""
    unknown = tuple(np.full(len(test), -1) for _ in test.keys)
    return BrierOverAges.of(model.curve_table(replace(test, keys=unknown)), test)


def _parity_rows(bundle: Bundle, features: np.ndarray, test: Examples) -> np.ndarray:
    """Rows for the forest, each test row at one age. features: by the bundle's encoder."""
    schema, kind = bundle.schema, bundle.schema.curves
    return kind.forest_rows(schema.numbers.age_features, features, kind.spread(schema.numbers, test.lifetime_s))


def _brier(rival: Rival, test: Examples) -> BrierOverAges:
    return BrierOverAges.of(rival.curves.at(test.idx_row), test)


def with_stumps(gate: Gate, forest: Forest, n_of_requests: int) -> Gate:
    """The gate, with a note in its finding if the forest gives all requests the same answer.

    n_of_requests: the number of features of the request, before those of its age. A tree that
    LightGBM could not split is a node with two equal leaves.
    """
    sides = [np.where(side < 0, forest.leaves[np.where(side < 0, ~side, 0)], np.nan)
             for side in (forest.on_true, forest.on_false)]
    if ((sides[0] != sides[1]) & (forest.feature < n_of_requests)).any():
        return gate
    return replace(gate, finding=f"{gate.finding}. The forest has no split on what is known of a request: all get the "
                                 "same answer")


def parity_gate(scores: Scores | None, forest: Forest, rows: np.ndarray, seed: int) -> Gate:
    """The export gives the learner's bits, on real rows and on and beside every threshold."""
    name = "bit parity of the export"
    if scores is None:
        return Gate(name, False, _NO_LEARNER)
    drawn = np.random.default_rng(seed).integers(0, len(rows), N_PARITY_ROWS)
    n_different, n_rows = n_different_scores(scores, forest, rows[drawn], seed)
    return Gate(name, n_different == 0, f"{n_different} of {n_rows:,} rows differ")


def size_gate(max_mb: float, n_bytes: int) -> Gate:
    """The forest's file is at most as large as configured."""
    return Gate("size of the forest", n_bytes <= max_mb * 1e6,
                f"{n_bytes / 1e6:.2f} MB of at most {max_mb:g}")


def latency_gate(max_ratio: float, scores: Scores | None, builder: CurveBuilder, rows: np.ndarray) -> Gate:
    """A curve costs at most the configured share of the time of the learner's `predict`.

    Both are timed in turns in the same run, so another or a busy machine changes both.
    """
    name = "time to build a curve"
    if scores is None:
        return Gate(name, False, _NO_LEARNER)
    cost = curve_cost(scores, builder, rows[:N_CURVES])
    return Gate(name, cost.ratio <= max_ratio,
                f"{cost.ratio:.2f} of the learner's own predict of the same {cost.n_answers} rows, of at most "
                f"{max_ratio:g} (medians {cost.curve_us:.0f} and {cost.learner_us:.0f} us)")


def table_parity_gate(table: CurveTable, builder: CurveBuilder, features: np.ndarray) -> Gate:
    """The bundle of a model without trees gives its answers to the bit, all at once and singly.

    table: the model's curves. features: the same requests by the bundle's encoder.
    """
    served = table_of(builder.schema, builder.forest, features)
    alone = [builder.curve(row) for row in features[:N_CURVES].tolist()]
    is_different = np.zeros(len(features), bool)
    for uptime_s in _PARITY_UPTIMES_S:
        left_s = table.remaining(uptime_s)
        is_different |= served.remaining(uptime_s) != left_s
        is_different |= served.survival(3_600.0, uptime_s) != table.survival(3_600.0, uptime_s)
        is_different[:N_CURVES] |= [curve.remaining(uptime_s) for curve in alone] != left_s[:N_CURVES]
    return Gate("bit parity of the export", not is_different.any(),
                f"{int(is_different.sum())} of {len(features):,} curves differ from the model's own")


def habit_parity_gate(table: CurveTable, served: CurveTable) -> Gate:
    """The bundle of a model that only counts gives its answers to the bit, replayed over the trace."""
    is_different = np.zeros(len(table), bool)
    for uptime_s in _PARITY_UPTIMES_S:
        is_different |= served.remaining(uptime_s) != table.remaining(uptime_s)
        is_different |= served.survival(3_600.0, uptime_s) != table.survival(3_600.0, uptime_s)
    return Gate("bit parity of the export", not is_different.any(),
                f"{int(is_different.sum())} of {len(table):,} curves differ from the model's own")


def following_gate(served: Path, bundle: Bundle) -> Gate | None:
    """A predictor that watches the champion's folder can change to the candidate; None without one.

    It keeps its live owner history, so both must have the same keys, of the same columns and clock.
    """
    try:
        champion = load_bundle(served)
    except BundleError:  # no bundle is served, or none that this release reads
        return None
    name = "predictors that watch the served folder"
    clash = HistoryTerms.of(champion.schema.encoder).clash(HistoryTerms.of(bundle.schema.encoder),
                                                           f"version {champion.version}")
    finding = (f"would refuse the candidate: {clash}. Retrain under another --model-name, or serve this version by "
             "`sojourn model promote NAME VERSION --despite-gates` and restart them" if clash else
               "take the candidate")
    return Gate(name, not clash, finding)


def table_latency_gate(builder: CurveBuilder, features: np.ndarray) -> Gate:
    """The cost of a curve of a model without trees; always passed, as there is no other time."""
    return Gate("time to build a curve", True, f"no trees: a row of a table, median "
                                               f"{curve_us(builder, features[:N_CURVES]):.0f} us; no learner to "
                                               "compare with")
