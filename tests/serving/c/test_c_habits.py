"""Habits in C: the bits of a predictor, over arrivals, waits, ends and clocks that jump."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_bundles import Made
from made_c import code_of, compiled, needs_c
from sojourn.serving import Bundle, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import HabitSection
from sojourn.serving.c import c_source
from sojourn.serving.curves import IS_COMPILED, HazardCurve
from sojourn.serving.curves.habit_kernels import BlendRules, HabitRules
from sojourn.serving.inputs import LIMIT, Parsed, key_code
from sojourn.serving.live import LiveHabits

pytestmark = [needs_c, pytest.mark.skipif(not IS_COMPILED, reason="plain Python blends in other precision")]
N_BUCKETS = 3
DOCS = Path(__file__).resolve().parents[3] / "docs" / "serving" / "c.md"


def _bundle(made: Made, kind: str, *, is_blended: bool, n_nodes: int) -> Bundle:
    """A made bundle with drawn habits of its first owner keys."""
    bundle = load_bundle(made.folders[kind])
    rng = np.random.default_rng(5)
    n = len(bundle.schema.numbers.offsets)
    keys = [key.name for key in bundle.schema.encoder.history.keys if key.kind == "owner"]
    n_levels = max(len(keys) - 1, 1) + (len(keys) > 1) + 1
    codes = np.array([(level, code) for level in range(n_levels) for code in rng.integers(0, 1 << 62, n_nodes)])
    counts = rng.exponential(3.0, (len(codes) + 1, n, 4)) * (rng.random((len(codes) + 1, n, 4)) < 0.5)
    counts[..., 1] = np.minimum(counts[..., 0], counts[..., 1])
    sums = rng.exponential(1.0, (len(codes) + 1, N_BUCKETS, 2))
    fields = {"keys": keys, "has_limit_level": True, "is_blended": is_blended,
              "rules": list(HabitRules(memory=64.0)), "blend": list(BlendRules(prior=1.0)),
              "buckets": (np.arange(n) * N_BUCKETS // n).tolist()}
    arrays = {"codes": codes, "counts": counts.ravel().astype(np.float16).astype(np.float64),
              "sums": sums.ravel().astype(np.float32).astype(np.float64)}
    return replace(bundle, habits=HabitSection(fields, arrays))


class CHabits:
    """An exported model with habits, loaded; the caller's side of its functions."""

    def __init__(self, folder: Path, bundle: Bundle, n_nodes: int, n_open: int) -> None:
        source = c_source(bundle, "made")
        compiled(folder / "made.so", code_of(source, folder), options=("-shared", "-fPIC"))
        self.library = ctypes.CDLL(str(folder / "made.so"))
        for name, answer in (("size", ctypes.c_size_t), ("begin", ctypes.c_void_p), ("admit", ctypes.c_long)):
            getattr(self.library, f"made_habits_{name}").restype = answer
        n, self.n_levels = len(bundle.schema.numbers.offsets), len(LiveHabits(bundle.schema, _section(bundle)).nodes())
        self.n_numbers = (5 if bundle.schema.kind == "hazard-limit" else 4) * (n + 1)
        size = self.size(n_nodes, n_open)
        self.memory = ctypes.create_string_buffer(size + 16)
        self.given = ctypes.create_string_buffer(16 * n + 8 * self.n_levels + 64)
        self.habits = self.library.made_habits_begin(ctypes.c_void_p((ctypes.addressof(self.memory) + 15) // 16 * 16),
                                                     ctypes.c_long(n_nodes), ctypes.c_long(n_open))
        self.at = ctypes.c_void_p(self.habits)

    def size(self, n_nodes: int, n_open: int) -> int:
        return int(self.library.made_habits_size(ctypes.c_long(n_nodes), ctypes.c_long(n_open)))

    def codes(self, keys: tuple[tuple[str, ...] | None, ...], limit_s: float) -> list[int]:
        found = (ctypes.c_int64 * max(self.n_levels, 1))()
        asked = (ctypes.c_uint64 * max(len(keys), 1))(*((1 << 64) - 1 if key is None else key_code(key)
                                                       for key in keys))
        self.library.made_habits_codes(asked, ctypes.c_double(limit_s), found)
        return list(found)

    def curve(self, numbers: np.ndarray, codes: list[int], limit_s: float, now_s: float) -> np.ndarray:
        mixed = numbers[:self.n_numbers].copy()  # the features of a request may follow
        self.library.made_habits_curve(self.at, ctypes.c_void_p(mixed.ctypes.data), self.given,
                                       (ctypes.c_int64 * len(codes))(*codes), ctypes.c_double(limit_s),
                                       ctypes.c_double(now_s))
        return mixed

    def admit(self, start_s: float, now_s: float) -> int:
        return int(self.library.made_habits_admit(self.at, self.given, ctypes.c_double(start_s),
                                                  ctypes.c_double(now_s)))

    def ended(self, place: int, end_s: float, began_s: float) -> int:
        return int(self.library.made_habits_ended(self.at, ctypes.c_long(place), ctypes.c_double(end_s),
                                                  ctypes.c_double(began_s)))

    def forget(self, place: int) -> int:
        return int(self.library.made_habits_forget(self.at, ctypes.c_long(place)))


def _section(bundle: Bundle) -> HabitSection:
    assert bundle.habits is not None
    return bundle.habits


def _request(rng: np.random.Generator, live: LiveHabits, n_names: int) -> tuple[Parsed, float]:
    """Keys of some owners, some missing, and limits, of which some are none."""
    limit_s = float(rng.choice([math.nan, 10.0, 600.0, 3_600.0, 90_000.0, 1e12]))
    names = [None if rng.random() < 0.05 else (f"owner{rng.integers(n_names)}", str(idx)) for idx in range(9)]
    place = live.limit_place
    numbers = tuple(limit_s if idx == place else 1.0 for idx in range(max(place + 1, 1)))
    return Parsed(numbers, tuple(names), ()), limit_s if place >= 0 else math.nan


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "is_blended", "n_most"), [
    ("hazard", True, 20_000), ("hazard", False, 20_000), ("hazard-limit", True, 20_000), ("hazard-limit", True, 40),
])
def test_a_stream_of_events_has_the_bits_of_python(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   kind: str, is_blended: bool, n_most: int) -> None:
    """n_most: keys of a level; with few of them the oldest makes room all the time."""
    from sojourn.serving.live import live_habits

    monkeypatch.setattr(live_habits, "N_NODES_MAX", n_most)
    bundle = _bundle(made, kind, is_blended=is_blended, n_nodes=20)
    live = LiveHabits(bundle.schema, _section(bundle))
    in_c = CHabits(tmp_path, bundle, n_most, 300)
    rng, builder = np.random.default_rng(11), CurveBuilder(bundle.schema, bundle.model)
    places: dict[int, tuple[int, int]] = {}
    now_s, numbers = 1_000_000, 0
    n_events = n_refused = 0
    while n_events < 4_000:
        now_s += int(rng.choice([0, 0, 1, 30, 600, 20_000, -500]))
        if n_events in (1_500, 1_501):  # a clock that is a year ahead for one question
            now_s += 365 * 86_400 if n_events == 1_500 else -365 * 86_400
        n_events += 1
        parsed, limit_s = _request(rng, live, 60)
        curve = _curve(rng, builder, limit_s)
        codes = in_c.codes(tuple(parsed.keys[idx] for idx in live.owners), limit_s)
        assert tuple(codes) == live.codes(parsed.keys, limit_s if limit_s == limit_s else 0.0)
        mixed, given = live.answer(curve, parsed, now_s)
        np.testing.assert_array_equal(in_c.curve(curve.numbers, codes, limit_s, now_s), mixed.numbers)
        if rng.random() < 0.7 and len(places) < 300:
            start_s = now_s - int(rng.choice([0, 0, 0, 5_000]))
            live.follow(numbers, given, start_s, now_s)
            places[numbers] = (in_c.admit(start_s, now_s), start_s)
            assert places[numbers][0] >= 0
            numbers += 1
        if places and rng.random() < 0.6:
            number = int(rng.choice(list(places)))
            place, start_s = places.pop(number)
            if rng.random() < 0.1:
                live.forget(number)
                assert in_c.forget(place) == 1
            else:
                began_s = start_s + (int(rng.choice([0, 100])) if n_events > 2_500 else 0)
                live.ended(number, max(now_s, began_s), began_s)
                assert in_c.ended(place, max(now_s, began_s), began_s) == 1
            n_refused += in_c.ended(place, now_s, start_s) == 0
    assert numbers > 2_000 and n_refused > 1_000


def _curve(rng: np.random.Generator, builder: CurveBuilder, limit_s: float) -> HazardCurve:
    """A curve of the model of drawn features."""
    names = builder.schema.encoder.feature_names()
    features = rng.normal(2.0, 2.0, len(names)).tolist()
    features[names.index(LIMIT)] = limit_s
    curve = builder.curve(features)
    assert isinstance(curve, HazardCurve)
    return curve


def test_what_does_not_fit_is_refused(made: Made, tmp_path: Path) -> None:
    bundle = _bundle(made, "hazard", is_blended=True, n_nodes=20)
    in_c = CHabits(tmp_path, bundle, 20, 2)
    assert in_c.size(19, 2) == in_c.size(20, 0) == in_c.size(-1, 5) == in_c.size(1 << 40, 5) == 0
    assert in_c.library.made_habits_begin(None, ctypes.c_long(20), ctypes.c_long(2)) is None
    curve = np.ones(in_c.n_numbers)
    codes = in_c.codes((("a",), ("b",), ("c",)), math.nan)
    in_c.curve(curve, codes, math.nan, 0.0)
    assert [in_c.admit(0.0, 0.0) for _ in range(3)] == [0, 1, -1]
    assert [in_c.ended(place, 5.0, 0.0) for place in (-1, 2, 1 << 40, 0, 0)] == [0, 0, 0, 1, 0]
    assert in_c.admit(5.0, 5.0) == 0


@pytest.mark.slow
def test_the_sanitizers_find_nothing(made: Made, tmp_path: Path) -> None:
    """A long replay with few places and keys, under AddressSanitizer and UBSan."""
    bundle = _bundle(made, "hazard-limit", is_blended=True, n_nodes=5)
    source = code_of(c_source(bundle, "made"), tmp_path)
    main = tmp_path / "main.c"
    main.write_text(REPLAY)
    program = compiled(tmp_path / "replay", source, main, options=("-g", "-fsanitize=address,undefined",
                                                                   "-fno-sanitize-recover=all"))
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert float(done.stdout) > 0.0


REPLAY = """
#include "made.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *memory = malloc(made_habits_size(7, 50));
    made_habits *habits = made_habits_begin(memory, 7, 50);
    double features[MADE_N_FEATURES], total = 0.0;
    long places[50], idx, n = 0;
    uint64_t keys[MADE_N_HABIT_KEYS];
    int64_t codes[MADE_N_LEVELS];
    unsigned state = 1;
    static made_curve curve;
    made_given given;
    for (idx = 0; idx < MADE_N_FEATURES; idx++) {
        features[idx] = NAN;
    }
    for (idx = 0; idx < 20000; idx++) {
        int key;
        const double limit_s = idx % 3 == 0 ? NAN : 600.0 * (double)(idx % 7);
        state = state * 1103515245U + 12345U;
        for (key = 0; key < MADE_N_HABIT_KEYS; key++) {
            keys[key] = idx % 11 == 0 ? MADE_NO_KEY : (state >> 8) % 30;
        }
        made_curve_fill(&curve, features);
        made_habits_codes(keys, limit_s, codes);
        made_habits_curve(habits, &curve, &given, codes, limit_s, 100.0 * (double)idx);
        total += made_remaining(&curve, 60.0);
        if (n == 50) {
            const long one = (long)(state >> 4) % 50;
            made_habits_ended(habits, places[one], 100.0 * (double)idx, 100.0 * (double)(idx - 20));
            places[one] = made_habits_admit(habits, &given, 100.0 * (double)idx, 100.0 * (double)idx);
        } else {
            places[n++] = made_habits_admit(habits, &given, 100.0 * (double)idx, 100.0 * (double)idx);
        }
    }
    free(memory);
    printf("%f", total / 20000.0);
    return 0;
}
"""




def test_the_program_of_the_docs_learns(made: Made, tmp_path: Path) -> None:
    block = next(part for part in re.findall("```c\n(.*?)```", DOCS.read_text(), re.DOTALL) if "habits_begin" in part)
    c_source(_bundle(made, "hazard", is_blended=True, n_nodes=20), "sojourn_lifetime").write(tmp_path)
    (tmp_path / "main.c").write_text(block)
    program = compiled(tmp_path / "docs", tmp_path / "main.c")
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    before, after = (float(line.split()[-2]) for line in said)
    assert after == pytest.approx(100.0, rel=0.2) and abs(before - 100.0) > 50.0
