"""An exported encoder and history, compiled and loaded, beside Python's over drawn streams of events."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from made_c import GCC, code_of, compiled
from sojourn.serving import Bundle
from sojourn.serving.c import c_source
from sojourn.serving.inputs import Encoder, HistoryState, Receipt

GIVEN = {"cpu_cores": [0.0, 0.5, 2.0, 4.0, 0.1, 1e-7, 123456.75], "requested_s": [10.0, 600.0, 3_600.0, 1e12]}
TEXTS = ("", "a", "ü-\u20ac-\U0001f600", "0", "x" * 200, "\x00", "a b")
STEPS_S = (0, 0, 1, 30, 250, 299, 300, 301, 900, 20_000, -1, -299, -700, -30_000)
"""The batch's gap is 300 s; clocks go back, too."""


class CHistory:
    """An exported model, loaded; the caller's side of its encoder and history."""

    def __init__(self, folder: Path, bundle: Bundle, n_keys: int, n_open: int, options: Sequence[str] = (),
                 compiler: str | None = GCC) -> None:
        compiled(folder / "made.so", code_of(c_source(bundle, "made"), folder), compiler=compiler,
                 options=("-shared", "-fPIC", *options))
        encoder = self.encoder = bundle.schema.encoder
        texts = max(len(encoder.names), 1)

        class Request(ctypes.Structure):
            _fields_ = (("numbers", ctypes.c_double * max(len(encoder.numbers), 1)),
                        ("texts", ctypes.c_char_p * texts), ("n_bytes", ctypes.c_size_t * texts))

        class Parsed(ctypes.Structure):
            _fields_ = (("numbers", ctypes.c_double * max(encoder.n_numbers, 1)),
                        ("keys", ctypes.c_uint64 * max(len(encoder.history.keys), 1)))

        self.request, self.parsed, self.library = Request(), Parsed(), ctypes.CDLL(str(folder / "made.so"))
        double, number, place, size = ctypes.c_double, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t
        for name, answer, takes in (
                ("state_size", size, (ctypes.c_long, ctypes.c_long)),
                ("state_begin", place, (place, ctypes.c_long, ctypes.c_long)), ("state_resume", place, (place, size)),
                ("parse", ctypes.c_int, (place, place)), ("encode", ctypes.c_int, (place, place, double, place)),
                ("admit", number, (place, place, double)), ("started", ctypes.c_int, (place, number, double)),
                ("ended", ctypes.c_int, (place, number, double)), ("withdraw", ctypes.c_int, (place, number))):
            call = getattr(self.library, f"made_{name}")
            call.restype, call.argtypes = answer, takes
        self.features = np.empty(len(encoder.feature_names()))
        self.size = self.library.made_state_size(n_keys, n_open)
        self.memory = (ctypes.c_double * (self.size // 8 + 2))()
        self.state = self.library.made_state_begin(ctypes.addressof(self.memory), n_keys, n_open)

    def read(self, request: Mapping[str, Any]) -> int:
        """Parse a request; a column without a value is not given."""
        numbers, names = self.encoder.numbers, self.encoder.names
        for idx, column in enumerate(numbers):
            self.request.numbers[idx] = request.get(column, math.nan)
        for idx, column in enumerate(names):
            text = None if request.get(column) is None else request[column].encode(errors="surrogatepass")
            self.request.texts[idx], self.request.n_bytes[idx] = text, len(text or b"")
        return int(self.library.made_parse(ctypes.byref(self.parsed), ctypes.byref(self.request)))

    def encoded(self, now_s: float) -> np.ndarray:
        """The features of the request that was read; NaN if the time is refused."""
        self.library.made_encode(self.state, ctypes.byref(self.parsed), now_s, self.features.ctypes.data)
        return self.features.copy()

    def admit(self, now_s: float) -> int:
        return int(self.library.made_admit(self.state, ctypes.byref(self.parsed), now_s))

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.library, f"made_{name}")
        return lambda *given: call(self.state, *given)


def bits(values: Any) -> bytes:
    """The bytes of doubles; each NaN alike."""
    array = np.array(values, np.float64)
    return np.where(np.isnan(array), np.nan, array).tobytes()


def drawn(rng: random.Random, encoder: Encoder, n_owners: int) -> dict[str, Any]:
    """A request of one of so many owners; some values are not given, some columns are missing."""
    request: dict[str, Any] = {}
    for column in encoder.numbers:
        if rng.random() < 0.95:
            request[column] = rng.choice(GIVEN.get(column, [1.0, 2.5, 1e16, 3e-5]))
    owner = rng.randrange(n_owners)
    for column in encoder.names:
        if rng.random() < 0.97:
            request[column] = rng.choice(TEXTS) if rng.random() < 0.05 else f"{column[0]}{owner // 3}"
    return request


def replayed(rng: random.Random, bundle: Bundle, in_c: CHistory, n: int, now_s: int, n_owners: int,
             n_open: int) -> dict[str, int]:
    """Both sides over n rows of one stream; each row has the same bits. The result counts what happened."""
    encoder, state = bundle.schema.encoder, bundle.history
    running: dict[int, tuple[Receipt, int]] = {}
    counts = dict.fromkeys(("admitted", "ended", "withdrawn", "started", "full"), 0)
    for row in range(n):
        now_s += rng.choice(STEPS_S)
        request = drawn(rng, encoder, n_owners)
        parsed = encoder.parse(request)
        assert in_c.read(request) == 1
        found = in_c.encoded(now_s + 0.25)
        assert bits(found) == bits(encoder.encode(parsed, now_s, state)), row
        draw, last = rng.random(), -1
        if draw < 0.75:
            last = in_c.admit(now_s)
            if len(running) == n_open:
                assert last == -1
                counts["full"] += 1
            else:
                running[last] = (state.admit(parsed.keys, now_s), now_s)
                counts["admitted"] += 1
        if running and rng.random() < (0.78 if row % 2_000 > 900 else 0.5):
            one = last if draw < 0.1 and last >= 0 else rng.choice(list(running))
            receipt, began_s = running.pop(one)
            end_s = max(now_s, began_s + rng.choice((0, 1, 59, 4_000)))
            if rng.random() < 0.3:
                state.withdraw(receipt)
                assert in_c.withdraw(one) == 1 and in_c.withdraw(one) == 0
                counts["withdrawn"] += 1
            else:
                if rng.random() < 0.3:
                    began_s = rng.randint(began_s, end_s)
                    assert in_c.started(one, float(began_s)) == 1
                    counts["started"] += 1
                state.ended(receipt, end_s, began_s)
                assert in_c.ended(one, float(end_s)) == 1 and in_c.ended(one, float(end_s)) == 0
                counts["ended"] += 1
    return counts


def changed(bundle: Bundle, **changes: Any) -> Bundle:
    """The bundle with a definition of its history that differs; without a history if that cannot go on."""
    encoder = bundle.schema.encoder
    definition = replace(encoder.history, **changes)
    history = HistoryState(definition)
    if definition.window >= encoder.history.window and definition.batch_gap_s == encoder.history.batch_gap_s:
        history = HistoryState.from_arrays(definition, bundle.history.to_arrays())
    return replace(bundle, schema=replace(bundle.schema, encoder=replace(encoder, history=definition)), history=history)
