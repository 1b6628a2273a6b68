"""The `promote` stage: register the candidate; move `champion` only if every gate holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from prefect import task

from sojourn.flows.console import console
from sojourn.flows.retrain.gate import REASONS_TAG, as_tag, next_steps, reasons_of
from sojourn.flows.retrain.verdict import Gate, Promotion
from sojourn.flows.store.lock import store_lock
from sojourn.flows.tracking.tracker import BUNDLE, CHALLENGER, CHAMPION, GATES_FAILED, NOTE, Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, PromotionOrder, carry_out, finish_orders, sweep_candidates
from sojourn.flows.versions.version_list import FAILED, GATE, OTHER_TAG, PASSED, other_than, reason_left

MARKS = MappingProxyType({CHAMPION: "✓", CHALLENGER: "✗"})
"""Before a run's name."""
MAX_DESCRIPTION = 5_000
"""The most characters of a version's description in MLflow's database."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate after its gates. source: its bundle's URI in its run. sha256: of its manifest.
    champion: the version in its gates, or None. run_name: the run's new name, which the verdict's mark
    precedes; "" = the run keeps its name."""

    name: str
    run_id: str
    source: str
    sha256: str
    champion: int | None
    gates: tuple[Gate, ...]
    run_name: str = ""


@task(name="promote")
def promote(tracker: Tracker, store: Path, judged: Judged, card: str, tags: Mapping[str, str]) -> Promotion:
    """Register the bundle as a version and set its alias: `champion` if every gate holds, else `challenger`.

    card: the version's description below the verdict.
    Nothing is registered if every gate holds and the champion has the same bytes.
    """
    with store_lock(store):
        finish_orders(store, tracker, lambda line: console.print(line, soft_wrap=True, markup=False))
        late = _late_gates(tracker, judged)
        gates = (*judged.gates, *late)
        why = reasons_of(gates)
        alias = CHAMPION if all(gate.is_passed for gate in gates) else CHALLENGER
        champion = tracker.version_of(judged.name, CHAMPION)
        is_unchanged = alias == CHAMPION and _holds(tracker, judged.name, champion, judged.sha256)
        before = {record.version: record.tags for record in tracker.version_records(judged.name)}
        other = None if is_unchanged else other_than(tags, before, champion)
        stays = f"It made the bytes of version {champion} again, which stays champion." if is_unchanged else ""
        links = (f"[bundle]({tracker.run_link(judged.run_id, BUNDLE)}) · "
                 f"[versions of {judged.name}](#/models/{judged.name})")
        tracker.tag(judged.run_id, NOTE, described(judged.name, gates, card, other, (stays, links)))
        tracker.log(judged.run_id, None, {GATES_FAILED: sum(not gate.is_passed for gate in gates)})
        if champion is not None and is_unchanged:
            version = champion
            if judged.run_name:
                tracker.rename(judged.run_id, f"= {judged.run_name}")
            tracker.end(judged.run_id)
        else:
            reasons = {f"{GATE}{gate.name}": f"{PASSED if gate.is_passed else FAILED}: {gate.finding}"
                       for gate in gates}
            marked = {} if other is None else {OTHER_TAG: other}
            order = PromotionOrder(judged.name, judged.run_id, judged.source, judged.sha256, alias,
                                   tracker.version_of(judged.name, alias),
                                   described(judged.name, gates, card, other),
                                   {**tags, **reasons, **({REASONS_TAG: as_tag(why)} if why else {}), **marked},
                                   run_name=f"{MARKS[alias]} {judged.run_name}" if judged.run_name else "")
            version = carry_out(store, tracker, order)
        sweep_candidates(store, tracker, judged.name)
    return Promotion(judged.name, version, alias, gates, is_unchanged, next_steps(why, judged.name, version))


def described(name: str, gates: Sequence[Gate], card: str, other: str | None = None,
              more: Sequence[str] = ()) -> str:
    """The description of a version or of its run: verdict, the card's first paragraph, others, gates, what to do next,
    then the card's rest, cut to MLflow's greatest length. A run's page shows the first lines.

    name: of the model. more: the paragraphs. other: the version whose measures these are not comparable with; None =
    there is none.
    """
    mark = "" if other is None else (
        f"\n\n**Not comparable** with {other}: figures of the two are of different requests. Only the gates "
        "compare both on the same ones.")
    steps = next_steps(reasons_of(gates), name)
    after = f"\n\n**Next**: {' '.join(steps)}" if steps else ""
    (first, _, gate_lines), (words, _, rest) = verdict(gates).partition("\n\n"), card.partition("\n\n")
    paragraphs = "\n\n".join(paragraph for paragraph in (first, words.rstrip(), *more, gate_lines) if paragraph)
    text = f"{paragraphs}{after}{mark}" + (f"\n\n{rest}" if rest else "")
    if len(text) <= MAX_DESCRIPTION:
        return text
    end = "\n\nThe rest is among the run's metrics.\n"
    return text[:text.rindex("\n", 0, MAX_DESCRIPTION - len(end))] + end


def verdict(gates: Sequence[Gate]) -> str:
    """Markdown: whether the version may be deployed, and one line per gate, failed ones first.

    >>> print(verdict([Gate("size of the forest", True, "1 MB of at most 5"), Gate("accuracy", False, "worse")]))
    **Challenger, not to be deployed**: 1 of 2 gates failed (accuracy).
    <BLANKLINE>
    - **failed** accuracy: worse
    - passed size of the forest: 1 MB of at most 5
    """
    n_failed = sum(not gate.is_passed for gate in gates)
    failed = ", ".join(gate.name for gate in gates if not gate.is_passed)
    first = (f"**Challenger, not to be deployed**: {n_failed} of {len(gates)} gates failed ({failed})." if n_failed else
             f"**Champion when it was made**: it passed all {len(gates)} gates.")
    lines = [f"- {'passed' if gate.is_passed else '**failed**'} {gate.name}: {gate.finding}"
             for gate in sorted(gates, key=lambda gate: gate.is_passed)]
    return "\n".join([first, "", *lines])


def _late_gates(tracker: Tracker, judged: Judged) -> tuple[Gate, ...]:
    """Gates by the registry's present state: bytes rolled back, or a champion since the gates."""
    champion = tracker.version_of(judged.name, CHAMPION)
    if _holds(tracker, judged.name, champion, judged.sha256):
        return ()
    left = reason_left(tracker, judged.name, judged.sha256)
    if left is not None:
        return (Gate("not rolled back", False, left),)
    if champion in (None, judged.champion):
        return ()
    compared = "none" if judged.champion is None else f"version {judged.champion}"
    return (Gate("the same champion", False, f"version {champion} became champion while this run was judged against "
                                             f"{compared}; run again"),)


def _holds(tracker: Tracker, name: str, version: int | None, sha256: str) -> bool:
    return version is not None and tracker.version_tags(name, version).get(BUNDLE_TAG) == sha256
