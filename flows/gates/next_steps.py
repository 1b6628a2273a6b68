"""What to do after a version became only the challenger, by the reasons of the gates that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from sojourn.flows.gates.gate import Gate, Reason

REASONS_TAG = "reasons"
"""Tag of a version: why its gates failed."""
_OWN_HOSTS = "--host-cpu-cores, --host-mem-gib"
_STEPS: Mapping[Reason, str] = MappingProxyType({
    Reason.NOT_SIMULATED: "Run it with the simulation (without --no-simulate): no version becomes champion without.",
    Reason.FEW_ENDS: "Record for longer: the test window holds too few observed ends to judge by.",
    Reason.NO_EFFECT: f"Give the hosts of your cluster ({_OWN_HOSTS}) and how full they are (--load): on the simulated "
                      "ones predictions make no difference.",
    Reason.PLACEMENT_NOT_SHOWN: f"Give the hosts of your cluster ({_OWN_HOSTS}), or record for longer: that placement "
                                "loses nothing is not shown on the simulated ones.",
    Reason.LEVEL: "Record for longer, or give columns that say more of a request: the model is not shown to be more "
                  "accurate than what the failed gate compares it with.",
    Reason.OTHER: "See the failed gates: docs/gates.md says what each one asks.",
})  # fmt: skip
"""In the order in which they are told."""
_N_TOLD = 2
_HARMLESS = frozenset({Reason.LEVEL, Reason.NOT_SIMULATED, Reason.NO_EFFECT, Reason.PLACEMENT_NOT_SHOWN})
"""What was judged is not shown to be better, and nothing was found to be wrong: a team may serve such a version."""


def reasons_of(gates: Iterable[Gate]) -> tuple[Reason, ...]:
    """Why gates failed, each reason once."""
    return tuple(dict.fromkeys(gate.reason for gate in gates if not gate.is_passed))


def as_tag(reasons: Sequence[Reason]) -> str:
    """The reasons as a tag's text, which `of_tag` reads."""
    return ", ".join(reasons)


def of_tag(text: str) -> tuple[Reason, ...]:
    """The reasons of a tag; none of a version from before there was such a tag.

    >>> of_tag(as_tag((Reason.FEW_ENDS, Reason.OTHER))), of_tag("")
    ((<Reason.FEW_ENDS: 'few ends'>, <Reason.OTHER: 'other'>), ())
    """
    return tuple(Reason(word) for word in text.split(", ") if word in list(Reason))


def next_steps(reasons: Sequence[Reason], name: str, version: int | None = None) -> tuple[str, ...]:
    """Sentences that say what to do next, one or two of the reasons, and how to serve the version if that does no harm.

    name: of the model. version: its number; None = it has none yet.

    >>> for step in next_steps((Reason.LEVEL,), "sojourn-lifetime", 3): print(step)
    Record for longer, or give columns that say more of a request: the model is not shown to be more accurate than what the failed gate compares it with.
    To serve this version all the same: sojourn pull models:/sojourn-lifetime/3 FOLDER, then Predictor.load("FOLDER").
    """  # noqa: E501
    told = [words for reason, words in _STEPS.items() if reason in reasons][:_N_TOLD]
    if reasons and _HARMLESS.issuperset(reasons):
        told.append(f"To serve this version all the same: sojourn pull models:/{name}/{version or 'VERSION'} FOLDER, "
                    'then Predictor.load("FOLDER").')
    return tuple(told)
