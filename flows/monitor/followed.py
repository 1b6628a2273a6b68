"""Decisions with their outcomes, joined by id only; decisions that cannot be joined are counted.

Logged curves are one table for all versions. Outcomes come from the log itself or from a trace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.models.lifetime import Axis, EventLog, Events
from sojourn.models.measures import BrierOverAges, OwnerDraws, coarsest_owner, standard_error
from sojourn.serving.curves.habit_kernels import HabitRules
from sojourn.serving.decisions import DecisionBlock, DecisionLog, LoggedModel, Loss
from sojourn.serving.inputs import DAY_S, HISTORY_OF, WEEK_S

COUNTS: Mapping[str, str] = {
    "decisions": "decisions in the log",
    "followed": "of these, joined with what became of them",
    "ended": "of these, seen to end",
    "withdrawn": "withdrawn before they ran",
    "repeated": "decided again, for a request that was decided before (the first decision counts)",
    "foreign": "of versions that are not this model's",
    "trained_on": "from before the end of the data that their version was trained on",
    "unmatched": "without an outcome of their id",
    "unnamed": "without an id, which outcomes of a file are joined by",
    "conflicting": "requests with two different ends, none of whose decisions are used",
    "contradicted": "requests whose end in the outcomes is not the one in the log (that of the outcomes counts)",
    "impossible": "with an outcome that ended before the decision",
    "cut": "followed only up to a loss of records of their process",
    "lost": "records that the predictor could not write",
    "damaged": "half-written or damaged stretches of the log",
    "missing": "missing files of the log, between others of their process",
    "later": "records from after the time of the check, not read",
}
"""The counts, in words."""
Handle = tuple[int, int]
"""Token and number of an admission."""


@dataclass(frozen=True, slots=True)
class _LoggedKind:
    """n_numbers: numbers of a curve in the log. table: the curves from them, (n, n_numbers)."""

    n_numbers: Callable[[LoggedModel], int]
    table: Callable[[LoggedModel, np.ndarray], CurveTable]


def _hazard_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    edges = np.array(model.edges)
    return HazardTable.from_hazards(edges, curves * np.diff(edges), model.tail_s, np.array(model.grid))


def _limit_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    rates, uppers_s = np.hsplit(curves, 2)
    edges = np.column_stack([np.zeros(len(curves)), uppers_s])
    return HazardTable.from_hazards(edges, rates * np.diff(edges, axis=1), model.tail_s, np.array(model.grid))


def _n_limit(model: LoggedModel) -> int:
    return 2 * (len(model.edges) - 1 + len(model.shares) - 1)


def _uptime_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    return PointTable(np.array(model.thresholds), curves, model.smearing, np.array(model.residuals))


def _once_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    return OnceTable(curves[:, 0], model.smearing, np.array(model.residuals))


_LOGGED_KINDS: Mapping[str, _LoggedKind] = MappingProxyType({
    "hazard": _LoggedKind(lambda model: len(model.edges) - 1, _hazard_table),
    "hazard-limit": _LoggedKind(_n_limit, _limit_table),
    "uptime": _LoggedKind(lambda model: len(model.thresholds) + 1, _uptime_table),
    "once": _LoggedKind(lambda model: 1, _once_table),
})
"""Name in schema.json -> kind, as in `serving.curves.KINDS`."""


def logged_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    """The curves that a version served, from the log, float64 (n, k); ValueError for another k."""
    kind = _LOGGED_KINDS.get(model.kind)
    n_numbers = None if kind is None else kind.n_numbers(model)
    if kind is None or curves.shape[1] != n_numbers:
        raise ValueError(f"curves of version {model.version} must have {n_numbers} numbers, got {curves.shape[1]}")
    return kind.table(model, curves)


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A `CurveTable` of rows of several tables. table, row: int64 (n,), the table and row of each."""

    tables: tuple[CurveTable, ...]
    table: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, idx: np.ndarray) -> JoinedTable:
        return JoinedTable(self.tables, self.table[idx], self.row[idx])

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._answers(lambda table, at: table.remaining(_of(uptime_s, at)))

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._answers(lambda table, at: table.quantile(q, _of(uptime_s, at)))

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._answers(lambda table, at: table.survival(_of(horizon_s, at), _of(uptime_s, at)))

    def held_uptimes(self) -> np.ndarray:
        return np.unique(np.concatenate([table.held_uptimes() for table in self.tables]))

    def _answers(self, ask: Callable[[CurveTable, np.ndarray], np.ndarray]) -> np.ndarray:
        answers = np.empty(len(self))
        for place, table in enumerate(self.tables):
            at = np.flatnonzero(self.table == place)
            if len(at):
                answers[at] = ask(table.take(self.row[at]), at)
        return answers


def _of(values: np.ndarray | float, at: np.ndarray) -> np.ndarray | float:
    return values[at] if isinstance(values, np.ndarray) and values.ndim else values


@dataclass(frozen=True, slots=True)
class Followed:
    """n decisions with their outcomes. Times in seconds on the predictor's clock.

    arrival_s: int64 (n,), of the decision; begin_s, end_s: when the request began, and ended or was last known to run;
    watch_s: begin of the observation. owner: int64 (n,), codes of the coarsest owner key with at least 20 values, below
    0 = unknown. is_unknown: bool (n,), the model had not seen the owner. models: versions; table: their curves;
    features: by version, of the rows of its block. shadow: rows that the shadow answered, and its curves; None if there
    are none. losses: missing records of the log, the earliest first.
    """

    arrival_s: np.ndarray
    begin_s: np.ndarray
    watch_s: np.ndarray
    end_s: np.ndarray
    is_event: np.ndarray
    owner: np.ndarray
    is_unknown: np.ndarray
    week: np.ndarray
    models: tuple[LoggedModel, ...]
    table: JoinedTable
    features: tuple[np.ndarray, ...]
    shadow: tuple[np.ndarray, JoinedTable] | None
    shadow_versions: tuple[str, ...]
    counts: Mapping[str, int]
    losses: tuple[Loss, ...]

    def __len__(self) -> int:
        return len(self.arrival_s)

    def examples(self) -> Examples:
        """The rows for measures, without features."""
        lifetime_s = np.maximum(self.end_s - self.begin_s, 1).astype(np.float64)
        entry_s = np.maximum(self.watch_s - self.begin_s, 0).astype(np.float64)
        return Examples(np.zeros((len(self), 0)), (self.owner,), lifetime_s, self.is_event, entry_s, self.arrival_s,
                        np.arange(len(self)))


def follow(log: DecisionLog, versions: frozenset[str], as_of_s: int,
           outcomes: Mapping[str, Outcome] | None = None) -> Followed:
    """Join a log, read up to `as_of_s`, with `outcomes` by request id, or else with its own ends.

    versions: of the registered model; decisions of others are left out. ValueError if the log has
    requests that waited before they began: then it does not show which others run.
    """
    counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    counts["decisions"] = sum(map(len, log.decisions)) + log.n_unnamed
    counts["lost"], counts["later"], counts["missing"] = log.n_lost, log.n_later, log.n_missing
    counts["damaged"], counts["foreign"] = log.skipped.n_places, log.n_unnamed
    blocks = [block for block in log.decisions if block.model.version in versions]
    counts["foreign"] += sum(len(block) for block in log.decisions if block.model.version not in versions)
    if outcomes is None and (log.ends[:, 3] > _admitted_s(blocks, log)).any():
        raise ValueError("outcomes must be given for requests that wait before they begin: the log's ends tell of "
                         "some, and of those that have not ended it does not know whether they run")
    withdrawn = {(token, number) for token, number, _ in log.withdrawals.tolist()}
    ends = LoggedEnds.of(log)
    places, joined = [], []
    heard = _heard(log, blocks, as_of_s)
    for place, row, handles in _rows(blocks, counts, withdrawn):
        block = blocks[place]
        if outcomes is None:
            outcome = _logged_outcome(block, row, handles, ends, heard, counts)
        else:
            outcome = _given_outcome(block, row, outcomes, counts)
            if outcome is not None:
                counts["contradicted"] += _is_contradicted(outcome, handles, ends)
        if outcome is not None:
            places.append((place, row))
            joined.append(outcome)
    counts["followed"], counts["ended"] = len(places), sum(one.is_event for one in joined)
    return _followed(log, blocks, places, joined, counts)


def _admitted_s(blocks: list[DecisionBlock], log: DecisionLog) -> np.ndarray:
    """The admission's arrival of each logged end, int64; that of an unknown one is its own begin."""
    known = {(token, number): arrival_s for block in blocks
             for token, number, arrival_s in zip(block.token.tolist(), block.number.tolist(), block.arrival_s.tolist(),
                                                 strict=True)}
    return np.array([known.get((token, number), begin_s) for token, number, _, begin_s in log.ends.tolist()], np.int64)


def _rows(blocks: list[DecisionBlock], counts: Counter[str],
          withdrawn: set[Handle]) -> list[tuple[int, int, list[Handle]]]:
    """Block, row and handles of each decided request; of several decisions, the earliest."""
    order = sorted((int(now_s), place, row) for place, block in enumerate(blocks)
                   for row, now_s in enumerate(block.now_s.tolist()))
    by_id: dict[str, list[Handle]] = {}
    rows = []
    for _, place, row in order:
        block = blocks[place]
        handle = (int(block.token[row]), int(block.number[row]))
        if handle in withdrawn:
            counts["withdrawn"] += 1
            continue
        name = block.request_id[row]
        if name is not None and name in by_id:
            by_id[name].append(handle)
            counts["repeated"] += 1
            continue
        handles = [handle]
        if name is not None:
            by_id[name] = handles
        if block.arrival_s[row] < block.model.training.get("to_s", -np.inf):
            counts["trained_on"] += 1
            continue
        rows.append((place, row, handles))
    return rows


def _heard(log: DecisionLog, blocks: list[DecisionBlock], as_of_s: int) -> dict[Handle, tuple[float, float]]:
    known_to_s: dict[Handle, tuple[float, float]] = {}
    for block in blocks:
        handles = list(zip(block.token.tolist(), block.number.tolist(), strict=True))
        heard, whole = heard_to_s(log, block.session, block.now_s, handles, as_of_s)
        known_to_s.update(zip(handles, zip(heard.tolist(), whole.tolist(), strict=True), strict=True))
    return known_to_s


def _logged_outcome(block: DecisionBlock, row: int, handles: list[Handle], ends: LoggedEnds,
                    heard: Mapping[Handle, tuple[float, float]], counts: Counter[str]) -> Outcome | None:
    outcomes = {ends.ends[handle] for handle in handles if handle in ends.ends}
    if len(outcomes) > 1 or not ends.conflicting.isdisjoint(handles):
        counts["conflicting"] += 1
        return None
    begin_s = int(block.arrival_s[row])
    whole_s = max(heard[handle][1] for handle in handles)
    end_s = max(next(iter(outcomes))[0], begin_s) if outcomes else None
    if end_s is not None and end_s <= whole_s:
        return Outcome(begin_s, end_s, True)
    counts["cut"] += whole_s < math.inf
    return Outcome(begin_s, max(int(max(heard[handle][0] for handle in handles)), int(block.now_s[row])), False)


def _given_outcome(block: DecisionBlock, row: int, outcomes: Mapping[str, Outcome],
                   counts: Counter[str]) -> Outcome | None:
    name = block.request_id[row]
    if name is None:
        counts["unnamed"] += 1
        return None
    outcome = outcomes.get(name)
    if outcome is None:
        counts["unmatched"] += 1
        return None
    if outcome.end_s < block.arrival_s[row]:
        counts["impossible"] += 1
        return None
    return outcome


def _is_contradicted(outcome: Outcome, handles: list[Handle], ends: LoggedEnds) -> bool:
    """Whether the log has another end, or one before the outcome's time of an open request."""
    ends_s = {ends.ends[handle][0] for handle in handles if handle in ends.ends}
    return any(end_s != outcome.end_s if outcome.is_event else end_s <= outcome.end_s for end_s in ends_s)


def _followed(log: DecisionLog, blocks: list[DecisionBlock], places: list[tuple[int, int]], outcomes: list[Outcome],
              counts: Counter[str]) -> Followed:
    place = np.array([place for place, _ in places], np.int64)
    row = np.array([row for _, row in places], np.int64)

    def column(values: list[np.ndarray], kind: type) -> np.ndarray:
        values_of: np.ndarray = np.empty(len(places), kind)
        for idx, each in enumerate(values):
            values_of[place == idx] = each[row[place == idx]]
        return values_of

    arrival_s = column([block.arrival_s for block in blocks], np.int64)
    now_s = column([block.now_s for block in blocks], np.int64)
    owner = column([block.owner for block in blocks], object)
    unknown = column([np.array([any(f"{HISTORY_OF}{key}" in names for key in block.model.owner_keys[:1])
                                or None in owners[:1]
                                for names, owners in zip(block.unknown, block.owner, strict=True)], bool)
                      for block in blocks], bool)
    phase_s = column([np.full(len(block), block.model.phase_s) for block in blocks], np.int64)
    begin_s = np.array([one.begin_s for one in outcomes], np.int64)
    end_s = np.array([one.end_s for one in outcomes], np.int64)
    watch_s = np.maximum(begin_s, now_s)
    n_keys = min((len(owners) for owners in owner), default=0)
    codes = coarsest_owner([pd.factorize(np.array([owners[place] for owners in owner], object))[0]
                            for place in range(n_keys)], len(places))
    tables = tuple(logged_table(block.model, block.curves) for block in blocks)
    is_used = end_s > watch_s
    is_used |= (end_s == watch_s) & (watch_s == begin_s)  # a request of less than a second counts as one
    used = np.flatnonzero(is_used)
    handles = [(int(blocks[p].token[r]), int(blocks[p].number[r])) for p, r in zip(place[used], row[used], strict=True)]
    shadow, shadow_versions = _shadow(log, handles)
    return Followed(
        arrival_s[used], begin_s[used], np.minimum(watch_s, end_s)[used], end_s[used],
        np.array([one.is_event for one in outcomes], bool)[used], codes[used], unknown[used],
        ((arrival_s + phase_s) // WEEK_S)[used], tuple(block.model for block in blocks),
        JoinedTable(tables, place[used], row[used]), tuple(block.features for block in blocks), shadow, shadow_versions,
        dict(counts), tuple(sorted((loss for one in log.sessions for loss in one.losses),
                                   key=lambda loss: (loss.from_s, loss.heard_s))),
    )  # fmt: skip


def _shadow(log: DecisionLog, handles: list[Handle]) -> tuple[tuple[np.ndarray, JoinedTable] | None, tuple[str, ...]]:
    at = {handle: idx for idx, handle in enumerate(handles)}
    rows, table, row = [], [], []
    for place, block in enumerate(log.shadows):
        for idx, handle in enumerate(zip(block.token.tolist(), block.number.tolist(), strict=True)):
            if handle in at:
                rows.append(at[handle])
                table.append(place)
                row.append(idx)
    if not rows:
        return None, ()
    order = np.unique(np.array(rows), return_index=True)[1]  # one answer a request: the first
    tables = tuple(logged_table(block.model, block.curves) for block in log.shadows)
    versions = tuple(block.model.version for block in log.shadows)
    joined = JoinedTable(tables, np.array(table)[order], np.array(row)[order])
    return (np.array(rows)[order], joined), versions


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request. begin_s: of its run; end_s: its end, or that of observation."""

    begin_s: int
    end_s: int
    is_event: bool


def traced_outcomes(trace: Trace, as_of_s: int) -> dict[str, Outcome]:
    """Outcomes by request id, of requests with a known begin by `as_of_s`; later ends still ran."""
    known_to_s = min(as_of_s, trace.horizon_s)
    is_known = trace.is_start_known() & (trace.start_s() <= known_to_s)
    ids = trace.requests["request_id"].astype(str).tolist()
    columns = (ids, is_known.tolist(), trace.start_s().tolist(), trace.end_s().tolist(), trace.is_event().tolist())
    return {name: Outcome(begin_s, min(end_s, known_to_s), is_event and end_s <= known_to_s)
            for name, is_taken, begin_s, end_s, is_event in zip(*columns, strict=True) if is_taken}


@dataclass(frozen=True, slots=True)
class LoggedEnds:
    """Ends by handle. conflicting: handles with two different ends in the log; neither is used."""

    ends: dict[Handle, tuple[int, int]]
    conflicting: frozenset[Handle]
    n_repeated: int

    @classmethod
    def of(cls, log: DecisionLog) -> LoggedEnds:
        """The ends that a log tells: end and begin, seconds."""
        ends: dict[Handle, tuple[int, int]] = {}
        conflicting, n_repeated = set(), 0
        for token, number, end_s, begin_s in log.ends.tolist():
            known = ends.setdefault((token, number), (end_s, begin_s))
            n_repeated += known == (end_s, begin_s)
            if known != (end_s, begin_s):
                conflicting.add((token, number))
        return cls({handle: end for handle, end in ends.items() if handle not in conflicting}, frozenset(conflicting),
                   n_repeated - len(ends))


def heard_to_s(log: DecisionLog, session: np.ndarray, now_s: np.ndarray, handles: list[Handle],
               as_of_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to when each admission's end would have been logged, and up to when nothing is lost; float64 (n,), seconds.

    The first is the latest second that its process told of, or of the process that took it over at a restart. The
    second, inf without a loss, is the last second before records of these processes were lost: whether what ran then
    ended is not known for all, so that none of it is followed further, not even what is known to have ended later (to
    follow these alone would count ends without those who ran on).
    """
    taken_s: dict[Handle, float] = {}
    taken_lost_s: dict[Handle, float] = {}
    for one in log.sessions:
        lost_s = min((loss.from_s for loss in one.losses), default=np.inf)
        for handle in one.running:
            taken_s[handle] = max(taken_s.get(handle, -np.inf), one.clock_s)
            taken_lost_s[handle] = min(taken_lost_s.get(handle, np.inf), lost_s)
    heard, whole = np.empty(len(handles)), np.empty(len(handles))
    for idx, handle in enumerate(handles):
        own = log.sessions[int(session[idx])]
        lost = [loss.from_s for loss in own.losses if loss.to_s >= now_s[idx]]
        whole[idx] = max(min([taken_lost_s.get(handle, np.inf), *lost]), now_s[idx])
        heard[idx] = min(max(own.clock_s, taken_s.get(handle, -np.inf)), whole[idx], as_of_s)
    return heard, whole


N_DRAWS = 200
LAG_DAYS, LAG_ENDS_MIN, LAG_ERRORS, LAG_SHARE = 28, 300, 3.0, 0.02
"""A version lags if counts are better on its decisions of so many days, with so many ends, by more than so many
standard errors and this share of its score."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Brier scores over ages of one version's latest decisions: as served, and by `online` counts of what was decided
    before each, without a fit. error: of the difference, over drawn days, since one owner's change of habit counts,
    too. n_ends: of the judged decisions."""

    version: str
    served: float
    online: float
    error: float
    n_ends: int

    @property
    def is_lagging(self) -> bool:
        """Whether a retraining is due."""
        gain = self.served - self.online
        return gain > LAG_ERRORS * self.error and gain > LAG_SHARE * self.served

    def text(self) -> str:
        """The finding as a sentence.

        >>> Lag("1a2b", 0.12, 0.10, 0.004, 900).text()[:71]
        'Retrain now: counts of the latest ends are better than version 1a2b by '
        """
        gain = self.served - self.online
        of = (f"{abs(gain):.4f} +- {self.error:.4f} (Brier over ages, {self.served:.4f} served, on its last "
              f"{self.n_ends:,} ends)")
        if self.is_lagging:
            return f"Retrain now: counts of the latest ends are better than version {self.version} by {of}."
        how = "better" if gain > 0.0 else "worse"
        return f"Version {self.version} does not lag: counts of the latest ends are {how} by {of}."


def lag_of(followed: Followed, as_of_s: int, seed: int = 0) -> Lag | None:
    """Whether the version that answered last is behind plain counts of what ended before each of its decisions.

    The counts begin with the log. Their intervals and their first hazards come from decisions before the judged ones,
    as they were known then. None if too few of these, or of the judged ones, have ended.
    """
    decided_s = np.where(followed.watch_s > followed.begin_s, followed.watch_s, followed.arrival_s)
    order = np.argsort(decided_s, kind="stable")
    begin_s, end_s = followed.begin_s[order], followed.end_s[order]
    rows = FeatureRows(np.zeros((len(order), 0)), (), (followed.owner[order],), ("owner",), decided_s[order], begin_s,
                       np.maximum(end_s - begin_s, 1), followed.is_event[order], order)
    places = followed.table.table[order]
    version = followed.models[int(places[-1])].version
    is_last = np.array([model.version == version for model in followed.models])[places]
    is_judged = is_last & (rows.decided_s >= as_of_s - LAG_DAYS * DAY_S)
    judged = known_at(rows, is_judged, None)
    n_ends = int(judged.is_event.sum())
    if n_ends < LAG_ENDS_MIN:
        return None
    from_s = int(rows.decided_s[is_judged].min())
    before = known_at(rows, rows.decided_s < from_s, from_s)
    if int(before.is_event.sum()) < LAG_ENDS_MIN:
        return None
    axis = Axis.fit(before, -1)
    events = Events.of_log(EventLog(rows, (True,)), -1)
    counted = axis.table(events.replayed_rows(axis, HabitRules(), judged)[0], judged)
    served, online = (BrierOverAges.of(table, judged)
                      for table in (followed.table.take(order[judged.idx_row]), counted))
    draws = OwnerDraws(rows.decided_s[judged.idx_row] // DAY_S, N_DRAWS, seed=seed)
    gains = np.array([served.score(weight) - online.score(weight) for weight in draws])
    return Lag(version, served.score(), online.score(), standard_error(gains, draws.n_units), n_ends)
