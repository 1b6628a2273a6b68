"""What is logged of decisions, ends and withdrawals, as frames; `log_reader` reads them back.

The curve's numbers are those that were served: rates of a hazard curve, raw scores of the others, as doubles. With the
model's frame they give every answer again: `remaining` to the bit, quantiles and survival to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.decisions.log_frames import DECISIONS, ENDS, MODEL, SHADOWS, WITHDRAWALS, Frame
from sojourn.serving.inputs import Admission
from sojourn.serving.served import Served

DECISION_WHOLE = ("token", "number", "arrival_s", "now_s")
"""Whole numbers of each decision, before its features and its curve."""
SHADOW_WHOLE = ("token", "number")
END_WHOLE = ("token", "number", "end_s", "began_s")
WITHDRAWAL_WHOLE = ("token", "number", "clock_s")
LOST_COUNTS = ("n_decisions", "n_ends", "n_withdrawals")
"""Of a frame of losses, beside the first and last second that lost records were of, `from_s` and `to_s`."""
_HASH_BYTES = 8
Owner = Callable[[str], str]


class Decision(NamedTuple):
    """One admission, as the predictor hands it over. answer: float64, the features behind `n_before` numbers.

    extra: values of the request's columns that only the shadow reads.
    """

    served: Served
    admission: Admission
    now_s: int
    answer: np.ndarray
    n_before: int
    unknown: tuple[str, ...]
    curve: Any
    request_id: str | None
    extra: tuple[Any, ...]


def owner_text(key: bytes | None) -> Owner:
    """How an owner is written: as it is, or the keyed hash (BLAKE2b, 16 hex digits) where there is a key.

    >>> owner_text(b"0123456789abcdef")("ann")
    'd1d74108aa3fbc44'
    """
    if key is None:
        return str
    return lambda name: hashlib.blake2b(name.encode(errors="surrogatepass"), key=key,
                                        digest_size=_HASH_BYTES).hexdigest()


def model_frame(served: Served) -> Frame:
    """What it takes to read a version's decisions without its bundle."""
    schema = served.schema
    own = schema.numbers
    document = schema.document
    return Frame(MODEL, {
        "version": served.version, "family": schema.family, "kind": schema.kind,
        "features": list(served.encoder.feature_names()), "phase_s": served.encoder.phase_s,
        "owner_keys": [key.name for key in served.encoder.history.keys if key.kind == "owner"],
        "edges": list(own.edges), "shares": list(own.shares), "grid": list(own.grid), "tail_s": own.tail_s,
        "smearing": own.smearing, "residuals": list(own.residuals), "thresholds": list(served.builder.thresholds),
        "training": document.get("training", {}), "reference": document.get("reference"),
    }, np.zeros((0, 0)))  # fmt: skip


def decision_frame(decisions: Sequence[Decision], owner: Owner) -> Frame:
    """Decisions of one version and one way of answering. owner: see `owner_text`."""
    served = decisions[0].served
    whole = np.array([(one.admission.token, one.admission.number, one.admission.arrival_s, one.now_s)
                      for one in decisions], np.int64)
    answers = np.concatenate([one.answer for one in decisions]).reshape(len(decisions), -1)
    features = answers[:, decisions[0].n_before:]
    places = [idx for idx, key in enumerate(served.encoder.history.keys) if key.kind == "owner"]
    document = {
        "version": served.version, "n_features": features.shape[1],
        "owner": [[None if (key := one.admission.keys[place]) is None else owner("/".join(key)) for place in places]
                  for one in decisions],
        "unknown": [list(one.unknown) for one in decisions],
        "id": [one.request_id for one in decisions],
    }  # fmt: skip
    return Frame(DECISIONS, document, np.hstack([whole.view(np.float64), features, curve_rows(decisions)]))


def curve_rows(decisions: Sequence[Decision]) -> np.ndarray:
    """The numbers of their curves, float64 (n, k): rates, rates and upper edges, raw scores, or one raw score."""
    first = decisions[0]
    if not first.served.schema.curves.is_varying:  # one score, no array
        return np.array([[one.curve.score] for one in decisions])
    own = first.served.schema.curves.logged(len(first.served.builder.grid))
    return np.concatenate([one.curve.numbers for one in decisions]).reshape(len(decisions), -1)[:, own]


def shadow_frame(served: Served, admissions: Sequence[Admission], rows: np.ndarray) -> Frame:
    """What a shadow answered to the same requests. rows: as `curve_rows`."""
    whole = np.array([(one.token, one.number) for one in admissions], np.int64)
    return Frame(SHADOWS, {"version": served.version}, np.hstack([whole.view(np.float64), rows]))


def end_frame(ends: Sequence[tuple[int, int, int, int]]) -> Frame:
    """Ends: token, number, the second of the end, and that in which the request began to run."""
    return Frame(ENDS, {}, np.array(ends, np.int64).view(np.float64))


def withdrawal_frame(withdrawals: Sequence[tuple[int, int, int]]) -> Frame:
    """Withdrawals: token, number, and the latest second that the predictor had been given."""
    return Frame(WITHDRAWALS, {}, np.array(withdrawals, np.int64).view(np.float64))
