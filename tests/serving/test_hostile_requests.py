"""Whatever a caller passes: an answer, or a ValueError that names what is wrong; and the state is as before."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_bundles import Made
from sojourn.serving import Lifetime, Predictor
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.answers import served as served_module

KINDS = ("hazard", "hazard-limit", "uptime", "once")
NOW_S = 1_000_000


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class OddText(str):
    """Text that can be compared and hashed by its own rules only."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


class Forgetful(Mapping[str, Any]):
    """A mapping whose parts do not agree: it names columns that it does not have."""

    def __init__(self, names: list[Any], values: dict[str, Any]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, column: str) -> Any:
        return self._values[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return 0


class Raising(dict[str, Any]):
    """A dict with a lying look-up; a dict's own content counts."""

    def __getitem__(self, column: str) -> Any:
        raise RuntimeError("no look-up")

    def get(self, column: str, default: Any = None) -> Any:
        raise RuntimeError("no look-up")

    def keys(self) -> Any:
        raise RuntimeError("no keys")


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


NUMBERS = [
    0, 1, -1, 2**31, 2**53, -(2**53), 2**53 - 1, 2**63, 2**64, 10**400, -(10**5_000), 0.0, -0.0, 1e-320, 1e308, -1e308,
    math.nan, math.inf, -math.inf, 1.5, True, False, 1j, Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"),
    Decimal("1e999"), Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), np.float32(0.25), np.float64(3.0),
    np.float16(math.inf), np.int8(-1), np.uint64(2**64 - 1), np.int64(7), np.bool_(True), np.complex128(60 + 1j),
    np.longdouble(2.0), np.array(3), np.array(3.5), np.array([1.0]), np.array([1.0, 2.0]), np.array([]),
    np.timedelta64(60, "s"), np.datetime64("2026-01-01"), np.datetime64("NaT"),
]  # fmt: skip
OTHERS = [
    None, "", "0", "60", "nan", "\x00", "\ud800", "z" * 1_000_000, "\N{HAIR SPACE}", b"60", bytearray(b"60"),
    memoryview(b"60"), np.str_("60"), np.bytes_(b"60"), np.void(b"ab"), OddText("z1"), [], [60], (), {}, {"a": 1},
    set(), object(), Unprintable(), nested(100_000), print, int, list, type, Ellipsis, NotImplemented, range(3),
    lambda: 1,
]  # fmt: skip


def one_of(elements: list[Any]) -> st.SearchStrategy[Any]:
    """One of the elements, which Hypothesis need not print."""
    return st.integers(0, len(elements) - 1).map(lambda idx: elements[idx])


values = (one_of(NUMBERS) | one_of(OTHERS) | st.integers() | st.floats() | st.text() | st.binary()
          | st.complex_numbers() | st.decimals() | st.lists(st.integers(), max_size=3))
seconds = st.integers(0, 10**7) | st.floats(0.0, 1.8e308, allow_infinity=False) | values
times = st.integers(-(2**53), 2**53) | values
checked = settings(max_examples=25)


@st.composite
def requests(draw: st.DrawFn) -> Any:
    """Mostly a mapping with known columns and odd values."""
    columns = ["cpu_cores", "mem_gib", "zone", "subscription", "vm_category"]
    form = draw(st.integers(0, 9))
    if form == 0:
        return draw(values)
    content = draw(st.dictionaries(st.sampled_from(columns), values, max_size=4))
    if form == 1:
        strangers: Any = st.none() | st.integers() | st.text() | one_of([10**5_000, (), b"zone", Unprintable()])
        content |= draw(st.dictionaries(strangers, values, max_size=2))
    if form == 2:
        return Raising(content)
    if form == 3:
        return OrderedDict(content)
    return content


@pytest.fixture(scope="module", params=[(kind, way) for kind in KINDS for way in ("compiled", "plain")],
                ids=lambda param: "-".join(param))
def predictor(made: Made, request: pytest.FixtureRequest) -> Predictor:
    kind, way = request.param
    return loaded(made.folders[kind], way)


def loaded(folder: Path, way: str) -> Predictor:
    with pytest.MonkeyPatch.context() as patch:
        if way == "plain":
            patch.setattr(served_module, "CurveBuilder", partial(CurveBuilder, is_compiled=False))
        predictor = Predictor.load(folder)
    assert predictor.info()["is_compiled"] == (way == "compiled")
    assert predictor.info()["walk"] == ("leaf masks" if way == "compiled" else "ONNX Runtime")
    return predictor


def check_answers(vm: Lifetime) -> None:
    answers = [vm.remaining(uptime_s) for uptime_s in (0, 3_600.0, 1e300)] + [vm.quantile(0.5, 60), vm.survival(60, 60)]
    assert all(0.0 <= answer < math.inf for answer in answers)
    assert 60 < vm.next_change(60) <= math.inf


@pytest.mark.slow
@checked
@given(request=requests(), now_s=times, arrival_s=st.none() | times)
def test_an_odd_request_is_answered_or_refused_and_leaves_no_mark(made: Made, predictor: Predictor, request: Any,
                                                                  now_s: Any, arrival_s: Any) -> None:
    usual = made.request(7)
    before = predictor.predict(usual, NOW_S)
    counters = predictor.counters
    calls: list[Callable[[], Any]] = [
        lambda: predictor.predict(request, now_s),
        lambda: predictor.admit(request, now_s, arrival_s=arrival_s),
        lambda: predictor.remaining_many([request], [0], now_s),
    ]
    n_refused = n_answered = n_withdrawn = 0
    for call in calls:
        try:
            answer = call()
        except ValueError as error:
            assert len(str(error)) < 2_000 and " must be " in str(error)
            n_refused += 1
            continue
        n_answered += 1
        if isinstance(answer, Lifetime):
            check_answers(answer)
            if answer.admission is not None:
                predictor.withdraw(answer)
                n_withdrawn += 1
        else:
            assert answer.shape == (1,) and 0.0 <= answer[0] < math.inf
    expected = counters | {"errors": counters["errors"] + n_refused, "withdrawn": counters["withdrawn"] + n_withdrawn,
                           "predictions": counters["predictions"] + n_answered}
    of_content = {"unknowns": 0, "clock_steps_back": 0}
    assert predictor.counters | of_content == expected | of_content
    after = predictor.predict(usual, NOW_S)
    assert np.array(after.features).tobytes() == np.array(before.features).tobytes()
    assert [after.remaining(uptime_s) for uptime_s in (0, 60, 7e5)] == [before.remaining(uptime_s)
                                                                        for uptime_s in (0, 60, 7e5)]


@checked
@given(uptime_s=seconds, horizon_s=seconds, q=st.floats(0.0, 1.0) | values)
def test_an_odd_lookup_is_answered_or_refused_by_name(made: Made, predictor: Predictor, uptime_s: Any, horizon_s: Any,
                                                      q: Any) -> None:
    vm = predictor.predict(made.request(3), NOW_S)
    calls: list[tuple[str, Callable[[], Any], float]] = [
        ("uptime_s", lambda: vm.remaining(uptime_s), math.inf),
        ("uptime_s", lambda: vm.lifetime_class(uptime_s), 4.0),
        ("uptime_s", lambda: vm.next_change(uptime_s), math.inf),
        ("uptime_s", lambda: vm.quantile(0.5, uptime_s), math.inf),
        ("q", lambda: vm.quantile(q, 60), math.inf),
        ("horizon_s", lambda: vm.survival(horizon_s, 60), 1.0),
        ("uptime_s", lambda: vm.survival(60, uptime_s), 1.0),
        ("uptime_s", lambda: float(predictor.remaining_many([made.request(3)], [uptime_s], NOW_S)[0]), math.inf),
    ]
    outcomes = []
    for name, call, most in calls:
        try:
            answer = call()
        except ValueError as error:
            assert str(error).startswith(f"{name} must be ") and len(str(error)) < 300
            outcomes.append(False)
        else:
            assert 0.0 <= answer <= most
            outcomes.append(True)
    assert len({outcomes[idx] for idx in (0, 1, 2, 3, 6, 7)}) == 1  # the calls agree on what an uptime is


@checked
@given(many=values | st.lists(requests(), max_size=3), uptimes_s=values | st.lists(seconds, max_size=3))
def test_odd_containers_are_refused(predictor: Predictor, many: Any, uptimes_s: Any) -> None:
    try:
        answers = predictor.remaining_many(many, uptimes_s, NOW_S)
    except ValueError as error:
        assert " must " in str(error) and len(str(error)) < 2_000
    else:
        assert answers.shape == (len(many),) and answers.dtype == np.float64 and np.isfinite(answers).all()


@pytest.mark.parametrize("odd", [dict, list, np.array(1.0), "ab", b"ab", bytearray(b"ab"), {0: {}}, {1}, iter(())],
                         ids=lambda odd: type(odd).__name__)
def test_what_is_no_sequence_is_named(predictor: Predictor, odd: Any) -> None:
    with pytest.raises(ValueError, match="requests must be a sequence, got"):
        predictor.remaining_many(odd, [0], NOW_S)
    with pytest.raises(ValueError, match="uptimes_s must be a sequence, got"):
        predictor.remaining_many([{}], odd, NOW_S)


@checked
@given(vm=values, now_s=times, arrival_s=st.none() | times, uptime_s=seconds)
def test_an_odd_handle_or_end_is_refused_by_name(made: Made, predictor: Predictor, vm: Any, now_s: Any, arrival_s: Any,
                                                 uptime_s: Any) -> None:
    counters = predictor.counters
    calls = (lambda: predictor.ended(vm, 5), lambda: predictor.withdraw(vm), lambda: predictor.explain(vm, uptime_s))
    for call in calls:
        with pytest.raises(ValueError, match=r"^vm must be a Lifetime(, got| or the id of one, got)") as caught:
            call()
        assert len(str(caught.value)) < 300
    admitted = predictor.admit(made.request(11), 50)
    try:
        predictor.ended(admitted, now_s, arrival_s=arrival_s)
    except ValueError as error:
        assert " must be " in str(error)
        predictor.withdraw(admitted)  # still running: the refusal left it alone
    moved = {name: count - counters[name] for name, count in predictor.counters.items()}
    assert moved["ended"] + moved["withdrawn"] == 1 == moved["predictions"]
    assert moved["errors"] in (2, 3)  # the look-up `explain` is not counted
    check_answers(predictor.predict(made.request(11), NOW_S))


@pytest.mark.parametrize("uptime_s", [-1, math.nan, "60", None, 10**400, np.str_("1")])
def test_explaining_at_an_odd_uptime_is_refused(made: Made, uptime_s: Any) -> None:
    predictor = Predictor.load(made.folders["once"])
    with pytest.raises(ValueError, match="uptime_s must be"):
        predictor.explain(predictor.predict(made.request(1), NOW_S), uptime_s)


def test_both_paths_refuse_the_same_and_answer_the_same(made: Made) -> None:
    for kind in KINDS:
        fast, slow = (loaded(made.folders[kind], way) for way in ("compiled", "plain"))
        for value in [*NUMBERS, *OTHERS]:
            for column in ("cpu_cores", "requested_s", "zone", "subscription"):
                assert outcome(fast, {column: value}, NOW_S) == outcome(slow, {column: value}, NOW_S)
            for now_s in (2**53 - 1, 1 - 2**53, value):
                assert outcome(fast, {"cpu_cores": 2}, now_s) == outcome(slow, {"cpu_cores": 2}, now_s)


def outcome(predictor: Predictor, request: Any, now_s: Any) -> tuple[str, ...]:
    try:
        vm = predictor.predict(request, now_s)
    except ValueError as error:
        return (str(error),)
    return repr(vm.features), repr(vm.remaining(60)), *vm.unknown


def test_what_a_mapping_of_the_caller_raises_passes_through(made: Made, predictor: Predictor) -> None:
    usual = made.request(7)
    before, counters = predictor.predict(usual, NOW_S), predictor.counters
    with pytest.raises(KeyError, match="zone"):
        predictor.admit(Forgetful(["zone"], {}), NOW_S)
    with pytest.raises(RuntimeError, match="no hash"):
        predictor.admit(Forgetful([OddText("zone")], {}), NOW_S)
    assert predictor.counters == counters
    after = predictor.predict(usual, NOW_S)
    assert after.remaining(0) == before.remaining(0)
    assert np.array(after.features).tobytes() == np.array(before.features).tobytes()
    assert predictor.predict(Forgetful([], {"zone": "z0"}), NOW_S).unknown == predictor.predict({}, NOW_S).unknown
    assert predictor.predict(Raising(usual), NOW_S).remaining(0) == before.remaining(0)  # a dict's content counts


def test_odd_text_is_kept_as_plain_text(made: Made, predictor: Predictor) -> None:
    vm = predictor.admit({"subscription": OddText("odd"), "zone": "\ud800\x00"}, NOW_S)
    assert "subscription" not in predictor.predict({"subscription": "odd"}, NOW_S).not_seen
    predictor.withdraw(vm)
    assert "subscription" in predictor.predict({"subscription": "odd"}, NOW_S).not_seen
