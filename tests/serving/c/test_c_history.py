"""The encoder and the owner history in C: Python's bits over long streams of events, and answers to bad input."""

from __future__ import annotations

import ctypes
import hashlib
import math
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made
from made_c import GCC, compiled, needs_c
from made_c_history import CHistory, bits, changed, replayed
from sojourn.serving import BundleError, Predictor, load_bundle
from sojourn.serving.c import c_source
from sojourn.serving.inputs import LIMIT, HistoryState, key_code

pytestmark = needs_c
DOCS = Path(__file__).resolve().parents[3] / "docs" / "serving" / "c_history.md"
CORE = Path(__file__).resolve().parents[3] / "serving" / "c" / "core"


@pytest.mark.parametrize(("seed", "n_keys", "n_owners", "changes"), [
    (1, 150_000, 40, {}), (2, 100, 400, {"n_keys_max": 200}), (3, 150_000, 6, {"instant_s": 60}),
    (4, 90, 300, {"category_memory": 5, "prior_strength": 0.5, "batch_gap_s": 0, "window": 1}),
])
def test_a_stream_of_events_has_the_bits_of_python(made: Made, tmp_path: Path, seed: int, n_keys: int, n_owners: int,
                                                   changes: dict[str, Any]) -> None:
    """n_keys: kept of each key; if there are more owners than that, the oldest makes room all the time."""
    bundle, options = changed(load_bundle(made.folders["once"]), **changes), ("-O2" if seed == 1 else "-O0",)
    in_c = CHistory(tmp_path, bundle, n_keys, 60, options, shutil.which("g++") if seed == 2 else GCC)
    bundle = changed(bundle, n_keys_max=min(n_keys, bundle.history.definition.n_keys_max))  # what Python keeps
    counts = replayed(random.Random(seed), bundle, in_c, 2_500, 2_500_000, n_owners, 60)
    assert min(counts.values()) > 50, counts


@pytest.mark.slow
@pytest.mark.parametrize(("n_owners", "n_open", "options"), [(3_000, 300, ()), (30, 200, ("-O0",))])
def test_streams_by_the_hundred_thousand_have_the_bits_of_python(made: Made, tmp_path: Path, n_owners: int, n_open: int,
                                                                 options: tuple[str, ...]) -> None:
    bundle = load_bundle(made.folders["once"])
    in_c = CHistory(tmp_path, bundle, 150_000, n_open, options)
    replayed(random.Random(n_owners), bundle, in_c, 50_000, 2_500_000, n_owners, n_open)


KEYS = """#include "keys.h"

size_t number_text(double value, char *text)
{
    return sj_number_text(value, text);
}

void digest(const char *text, size_t n, size_t piece, size_t n_digest, unsigned char *bytes)
{
    sj_blake2b state;
    size_t idx;
    sj_blake2b_begin(&state, n_digest);
    for (idx = 0; idx < n; idx += piece) {
        sj_blake2b_add(&state, text + idx, n - idx < piece ? n - idx : piece);
    }
    sj_blake2b_end(&state);
    for (idx = 0; idx < n_digest; idx++) {
        bytes[idx] = (unsigned char)(state.hash[idx / 8] >> (8 * (idx % 8)));
    }
}

uint64_t code(const char *text, size_t n)
{
    sj_blake2b state;
    sj_blake2b_begin(&state, SJ_CODE_BYTES);
    sj_blake2b_add(&state, text, n);
    return sj_code(&state);
}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.c").write_text(KEYS)
    library = ctypes.CDLL(str(compiled(folder / "keys.so", folder / "keys.c",
                                       options=("-shared", "-fPIC", f"-I{CORE}", "-Wconversion", "-Wshadow"))))
    library.number_text.restype, library.code.restype = ctypes.c_size_t, ctypes.c_uint64
    return library


def digest(keys: ctypes.CDLL, text: bytes, piece: int, n: int) -> bytes:
    found, size = ctypes.create_string_buffer(64), ctypes.c_size_t
    keys.digest(text, size(len(text)), size(piece), size(n), found)
    return found.raw[:n]


def test_blake2b_is_that_of_its_rfc_and_of_hashlib(keys: ctypes.CDLL) -> None:
    """RFC 7693, appendix A: BLAKE2b-512 of abc."""
    assert digest(keys, b"abc", 3, 64).hex() == (
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
        "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923")
    rng = np.random.default_rng(1)
    for n in (0, 1, 7, 55, 127, 128, 129, 255, 256, 257, 1_000, 100_000):
        text = rng.bytes(n)
        for piece in (1, 100, 128, 1 << 20):
            assert digest(keys, text, piece, 7) == hashlib.blake2b(text, digest_size=7).digest()
    for key in (("ann",), ("ü", "2.0"), ("", "")):
        joined = "\x1f".join(key).encode()
        assert keys.code(joined, ctypes.c_size_t(len(joined))) == key_code(key)


def test_the_text_of_a_number_is_pythons(keys: ctypes.CDLL) -> None:
    rng = np.random.default_rng(2)
    any_bits = np.frombuffer(rng.bytes(8 * 6_000), np.float64)
    values = np.concatenate([
        any_bits[np.isfinite(any_bits)], 2.0 ** np.arange(-1074, 1024), rng.uniform(1e14, 1e18, 1_000),
        [float(f"1e{power}") for power in range(-323, 309)], rng.uniform(0.0, 1e3, 1_000).round(3),
        rng.uniform(0.0, 1e9, 1_000).round(6), -rng.uniform(0.0, 1e-3, 1_000).round(7), 2.0 ** rng.uniform(0, 70, 500),
        [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9_007_199_254_740_994.0, 0.1, 0.0, 1e16, 0.0001],
    ])  # fmt: skip
    text = ctypes.create_string_buffer(32)
    for value in values.tolist():
        n = keys.number_text(ctypes.c_double(value), text)
        assert text.raw[:n].decode() == repr(value)
    assert keys.number_text(ctypes.c_double(math.nan), text) == 1 and text.raw[:1] == b"-"


@pytest.fixture(scope="module")
def in_c(made: Made, tmp_path_factory: pytest.TempPathFactory) -> CHistory:
    return CHistory(tmp_path_factory.mktemp("history"), load_bundle(made.folders["once"]), 150, 3, ("-O0",))


NOW_S = 2_500_000.0
REQUEST = {"cpu_cores": 2.0, "mem_gib": 8.0, "disk_gib": 0.1, "subscription": "s1", "deployment": "d2"}


def test_what_cannot_be_read_is_all_unknown(in_c: CHistory) -> None:
    for bad in ({"cpu_cores": -1.0}, {"mem_gib": math.inf}, {LIMIT: -math.inf}):
        assert in_c.read(REQUEST | bad) == 0
        assert np.isnan(list(in_c.parsed.numbers)).all() and {*in_c.parsed.keys} == {(1 << 64) - 1}
    assert in_c.read(REQUEST | {LIMIT: -5.0}) == 1  # no size, and no limit
    assert in_c.read({}) == 1 and {*in_c.parsed.keys} == {(1 << 64) - 1}
    long = "ü" * 1_000_000
    assert in_c.read(REQUEST | {"subscription": long}) == 1 and in_c.parsed.keys[0] == key_code((long,))


@pytest.mark.parametrize("bad_s", [math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**41])
def test_a_time_on_no_clock_is_refused_and_changes_nothing(in_c: CHistory, bad_s: float) -> None:
    in_c.read(REQUEST)
    one = in_c.admit(NOW_S)
    before = bytes(in_c.memory)
    assert np.isnan(in_c.encoded(bad_s)).all() and in_c.admit(bad_s) == -2
    assert in_c.started(one, bad_s) == in_c.ended(one, bad_s) == 0
    assert in_c.ended(one, NOW_S - 1.0) == in_c.started(one, NOW_S - 1.0) == 0  # before the admission
    assert bytes(in_c.memory) == before
    assert in_c.withdraw(one) == 1


def test_an_id_is_of_one_admission_even_if_its_place_is_used_again(in_c: CHistory) -> None:
    in_c.read(REQUEST)
    ids = [in_c.admit(NOW_S) for _ in range(4)]
    assert ids[3] == -1 and len({*ids}) == 4
    assert in_c.ended(ids[0], NOW_S + 5.0) == 1
    again = in_c.admit(NOW_S)
    for stranger in (ids[0], -1, -2, -(2**63), 2**63 - 1, again + 3):
        assert in_c.ended(stranger, NOW_S) == in_c.started(stranger, NOW_S) == in_c.withdraw(stranger) == 0
    assert in_c.started(again, NOW_S + 1.0) == in_c.started(again, NOW_S + 1.9) == 1
    assert in_c.started(again, NOW_S + 2.0) == 0
    assert [in_c.withdraw(one) for one in (ids[1], ids[2], again)] == [1, 1, 1]


def test_a_size_that_does_not_fit_is_0(made: Made, in_c: CHistory) -> None:
    size, begin = in_c.library.made_state_size, in_c.library.made_state_begin
    history = load_bundle(made.folders["once"]).history
    kept = max(map(len, [*history._owners, *history._categories]))  # type: ignore[arg-type]  # two kinds of dicts
    assert size(kept, 1) > 0 == size(kept - 1, 1)
    for bad in ((0, 5), (-1, 5), (150, 0), (150, -1), (150, 1 << 23), (150, 1 << 40)):
        assert size(*bad) == 0 and begin(ctypes.addressof(in_c.memory), *bad) is None
    assert begin(None, 150, 3) is None
    assert size(1 << 40, 3) == size(150_000, 3)  # the bundle's own bound


def test_a_history_on_no_clock_is_refused(made: Made) -> None:
    bundle = load_bundle(made.folders["once"])
    arrays = bundle.history.to_arrays()
    arrays["0:last"] = arrays["0:last"] + 2**53
    with pytest.raises(BundleError, match=r"history.npz: times must be below 2\*\*53 s in C, got"):
        c_source(replace(bundle, history=HistoryState.from_arrays(bundle.history.definition, arrays)))


def test_a_copy_of_the_memory_goes_on_with_the_same_bits(in_c: CHistory) -> None:
    in_c.read(REQUEST)
    one = in_c.admit(NOW_S)
    copied, resume = (ctypes.c_double * len(in_c.memory)).from_buffer_copy(in_c.memory), in_c.library.made_state_resume
    assert resume(ctypes.addressof(copied), in_c.size - 1) is None and resume(None, in_c.size) is None
    other = resume(ctypes.addressof(copied), in_c.size)
    assert in_c.ended(one, NOW_S + 60.0) == in_c.library.made_ended(other, one, NOW_S + 60.0) == 1
    features = in_c.encoded(NOW_S + 60.0)
    in_c.library.made_encode(other, ctypes.byref(in_c.parsed), NOW_S + 60.0, in_c.features.ctypes.data)
    assert bits(in_c.features) == bits(features)
    copied[0] = 1.0  # of another export
    assert resume(ctypes.addressof(copied), in_c.size) is None


def test_the_loop_of_the_docs_prints_what_python_answers(made: Made, tmp_path: Path) -> None:
    block = next(part for part in re.findall("```c\n(.*?)```", DOCS.read_text(), re.DOTALL) if "state_begin" in part)
    c_source(load_bundle(made.folders["hazard"]), "sojourn_lifetime").write(tmp_path)
    (tmp_path / "main.c").write_text(block)
    program = compiled(tmp_path / "docs", tmp_path / "main.c")
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    predictor, expected = Predictor.load(made.folders["hazard"], recalibrate=False), []
    request = {"cpu_cores": 2.0, "mem_gib": 8.0, "subscription": "s1", "deployment": "a-new-one"}
    for n in range(1, 6):
        now_s = 2_450_000 + 50_000 * n
        vm = predictor.admit(request, now_s)
        expected.append(f"request {n}: {vm.remaining(0.0):.0f} s at its start, {vm.remaining(3_600.0):.0f} s more "
                        "after an hour")
        predictor.ended(predictor.started(vm, now_s + 20), now_s + 20 + 7_200 * n)
    assert printed == expected and len({*printed}) == 5


FUZZ = """
#define MADE_IMPLEMENTATION
#include "made.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t drawn = 88172645463325252u;

static unsigned below(unsigned n)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return (unsigned)(drawn >> 33) % n;
}

static double any(const double values[], unsigned n)
{
    return values[below(n)];
}

int main(void)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1.0, 0.0, 5e-324, 1e308, 0.1, 2.0, 3600.0, 1e16, -0.0};
    const size_t size = made_state_size(90, 30);
    char *memory = malloc(size), *copied = malloc(size), *text = malloc(300);
    made_state *state = made_state_begin(memory, 90, 30);
    double features[MADE_N_FEATURES], now_s = 2500000.0;
    int64_t ids[40]; /* more than can be admitted */
    long counts[6] = {0}, n, idx;
    made_request request;
    made_parsed parsed;
    for (idx = 0; idx < 40; idx++) {
        ids[idx] = -1;
    }
    for (idx = 0; idx < 300; idx++) {
        text[idx] = (char)below(256);
    }
    for (n = 0; n < 100000; n++) {
        const double at_s = below(50) ? now_s : any(odd, 12) * 1e6;
        const unsigned slot = below(40);
        const int64_t id = below(20) ? ids[slot] : (int64_t)(drawn >> below(64));
        now_s += (double)below(600) - (below(100) ? 100.0 : 20000.0);
        for (idx = 0; idx < MADE_N_NUMBERS; idx++) {
            request.numbers[idx] = below(30) ? (double)below(4) * 0.5 : any(odd, 12);
        }
        for (idx = 0; idx < MADE_N_TEXTS; idx++) {
            request.n_bytes[idx] = below(20) ? 1 + below(2) : below(300);
            request.texts[idx] = below(20) ? text + below(30) % (300 - request.n_bytes[idx]) : NULL;
        }
        counts[0] += made_parse(&parsed, &request);
        counts[1] += made_encode(state, &parsed, at_s, features);
        counts[3] += below(3) == 0 && made_started(state, id, at_s + below(3));
        if (below(2) ? made_ended(state, id, at_s + below(5000)) : below(2) && made_withdraw(state, id)) {
            counts[4]++;
            ids[slot] = id == ids[slot] ? -1 : ids[slot];
        } else if (ids[slot] < 0) {
            ids[slot] = made_admit(state, &parsed, at_s);
            counts[2] += ids[slot] >= 0;
            counts[5] += ids[slot] == -1;
        }
        if (n % 1000 == 0) { /* go on in a copy, at another place */
            memcpy(copied, memory, size);
            memset(memory, 255, size);
            state = made_state_resume(copied, size);
            copied = memory;
            memory = (char *)state;
        }
    }
    for (idx = 0; idx < 6; idx++) {
        printf("%ld\\n", counts[idx]);
    }
    free(memory);
    free(copied);
    free(text);
    return 0;
}
"""


@pytest.mark.slow
def test_the_sanitizers_find_nothing_in_drawn_calls(made: Made, tmp_path: Path) -> None:
    """Full tables, strange numbers, times, texts and ids, under AddressSanitizer and UBSan."""
    c_source(load_bundle(made.folders["once"]), "made").write(tmp_path)
    (tmp_path / "fuzz.c").write_text(FUZZ)
    program = compiled(tmp_path / "fuzz", tmp_path / "fuzz.c", options=(
        "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert min(map(int, done.stdout.split())) > 1_000, done.stdout
