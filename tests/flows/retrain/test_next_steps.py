"""What to do next, by the reasons of gates that failed."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from sojourn.flows.retrain.gate import as_tag, next_steps, of_tag, reasons_of
from sojourn.flows.retrain.gates import Difference, Jury, better_gate
from sojourn.flows.retrain.promote import described
from sojourn.flows.retrain.report import print_run
from sojourn.flows.retrain.verdict import Answer, Gate, Promotion, Reason, print_answer

SERVED = 'To serve it all the same: sojourn model pull models:/m/3 FOLDER, then Predictor.load("FOLDER").'


@pytest.mark.parametrize(("reasons", "words"), [
    ((), []),
    ((Reason.FEW_ENDS,), ["Record for longer: "]),
    ((Reason.NOT_SIMULATED,), ["Run it with the simulation", "To serve it"]),
    ((Reason.NO_EFFECT,), ["Give the hosts of your cluster (--host-cpu-cores, --host-mem-gib) and how full",
                           "To serve it"]),
    ((Reason.PLACEMENT_NOT_SHOWN,), ["Give the hosts of your cluster", "To serve it"]),
    ((Reason.LEVEL,), ["Record for longer, or give columns", "To serve it"]),
    # what is wrong with the file, the columns or the registry is not to be served
    ((Reason.OTHER,), ["See the failed gates"]),
    ((Reason.LEVEL, Reason.OTHER), ["Record for longer, or give columns", "See the failed gates"]),
    ((Reason.LEVEL, Reason.FEW_ENDS), ["Record for longer: ", "Record for longer, or"]),
    # two at most, the first ones first
    ((Reason.LEVEL, Reason.PLACEMENT_NOT_SHOWN, Reason.NO_EFFECT),
     ["Give the hosts of your cluster (--host-cpu-cores, --host-mem-gib) and how full", "Give the hosts",
      "To serve it"]),
])  # fmt: skip
def test_the_reasons_choose_the_sentences(reasons: tuple[Reason, ...], words: list[str]) -> None:
    told = next_steps(reasons, "m", 3)
    assert len(told) == len(words)
    assert all(step.startswith(word) for step, word in zip(told, words, strict=True))


def test_reasons_are_of_failed_gates_and_outlive_a_tag() -> None:
    gates = (Gate("a", True, "", Reason.LEVEL), Gate("b", False, "", Reason.FEW_ENDS), Gate("c", False, ""),
             Gate("d", False, "", Reason.FEW_ENDS))
    assert reasons_of(gates) == (Reason.FEW_ENDS, Reason.OTHER)
    assert of_tag(as_tag(reasons_of(gates))) == reasons_of(gates)
    assert of_tag("few ends, made up") == (Reason.FEW_ENDS,)


class _Scored:
    def score(self) -> float:
        return 0.1


def test_an_accuracy_that_is_level_is_a_reason_and_one_that_is_worse_another() -> None:
    jury = Jury(np.ones(200, bool), np.arange(200) // 4, 0)
    found = {low: Difference(low + 1.0, low, low + 2.0, 0.5) for low in (-1.0, 1.0)}
    own = _Scored()
    level, worse = (better_gate(own, own, "km", jury, found[low]) for low in (-1.0, 1.0))  # type: ignore[arg-type]
    assert (level.reason, worse.reason) == (Reason.LEVEL, Reason.OTHER)
    assert "95 % interval -1.0 to +1.0 (over 50 owners), must lie below 0; not shown" in level.finding
    few = better_gate(own, own, "km", Jury(np.zeros(200, bool), np.arange(200), 0), found[-1.0])  # type: ignore[arg-type]
    assert few.reason == Reason.FEW_ENDS
    assert Jury(np.ones(3, bool), np.arange(3), 0).drawn == "3 requests"


def test_console_and_card_say_the_same() -> None:
    gates = (Gate("accuracy against km", False, "not shown", Reason.LEVEL),)
    steps = next_steps(reasons_of(gates), "m", 3)
    assert steps[-1] == SERVED
    promotion = Promotion("m", 3, "challenger", gates, next_steps=steps)
    console = Console(file=io.StringIO(), width=80, color_system=None, highlight=False)
    print_run(console, [], promotion, "bundle", "ui")
    print_answer(console, Answer(promotion, False, "", "2026-01-01", "", "", "bundle", "ui"))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    card = described("m", gates, "card")
    for step in steps:
        assert " ".join(printed.split()).count(step) == 2
        assert step.replace("/3 ", "/VERSION ") in card
