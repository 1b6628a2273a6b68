"""The calls of the answer service without HTTP: the bits of a predictor in process, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_bundles import Made, refreshing
from sojourn.serving import Predictor, SnapshotError
from sojourn.serving.http import calls as module
from sojourn.serving.http.calls import CALLS, N_AT_ONCE, AnswerCalls
from sojourn.serving.live import CurvePool

QUANTILES = [0.1, 0.5, 0.9]
Ask = Callable[..., Any]


def asking(calls: AnswerCalls) -> Ask:
    """Asks a call and returns its document; `status=` is what it must have, 200 if left out."""

    def ask(path: str, document: Any, status: int = 200) -> Any:
        found, text = asyncio.run(calls.answer(path, json.loads(json.dumps(document))))
        assert found == status, text
        return json.loads(text)

    return ask


def columns(made: Made, idx: int) -> dict[str, Any]:
    """A request as a client sends it: what JSON has."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in made.request(idx).items()
            if value == value}


@pytest.fixture(scope="module")
def calls(made: Made) -> AnswerCalls:
    return AnswerCalls(Predictor.load(made.folders["hazard"]), clock=lambda: made.trace.horizon_s)


@pytest.fixture(scope="module")
def ask(calls: AnswerCalls) -> Ask:
    return asking(calls)


@pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])
def test_answers_have_the_bits_of_a_predictor_in_process(made: Made, kind: str) -> None:
    ours = Predictor.load(made.folders[kind])
    ask = asking(AnswerCalls(Predictor.load(made.folders[kind])))
    begin_s, vms = made.trace.horizon_s, {}
    for idx in range(12):
        now_s = begin_s + 60 * idx
        item = {"request_id": f"vm-{idx}", "request": columns(made, idx), "now_s": now_s + 0.75}
        late: dict[str, Any] = {"arrival_s": now_s - 30} if idx % 2 else {}
        predicted = ask("/predict", {"request": item["request"], "now_s": now_s, "quantiles": QUANTILES})
        expected = ours.predict(columns(made, idx), now_s)
        assert predicted["remaining_s"] == expected.remaining(0.0)
        assert predicted["quantiles_s"] == [expected.quantile(q, 0.0) for q in QUANTILES]
        found = ask("/admit", {**item, **late, "quantiles": QUANTILES})
        vm = vms[f"vm-{idx}"] = ours.admit(columns(made, idx), now_s, **late)
        uptime_s = float(now_s - vm.arrival_s)
        assert found == {
            "request_id": f"vm-{idx}", "state": "admitted", "version": ours.version, "arrival_s": vm.arrival_s,
            "remaining_s": vm.remaining(uptime_s), "quantiles_s": [vm.quantile(q, uptime_s) for q in QUANTILES],
            "not_given": list(vm.not_given), "not_seen": list(vm.not_seen)}  # fmt: skip
        if idx == 5:
            assert ask("/ended", {"request_id": "vm-2", "now_s": now_s}) == {"request_id": "vm-2", "state": "ended"}
            ours.ended(vms.pop("vm-2"), now_s)
    for at_s in (begin_s, begin_s + 700, begin_s + 86_400, begin_s + 10**8):
        batch = ask("/remaining", {"items": [*vms], "now_s": at_s, "quantiles": QUANTILES})["items"]
        assert batch == ask("/remaining", {"all": True, "now_s": at_s, "quantiles": QUANTILES})["items"]
        for answer, vm in zip(batch, vms.values(), strict=True):
            uptime_s = max(float(at_s - vm.arrival_s), 0.0)
            assert answer["remaining_s"] == vm.remaining(uptime_s)
            assert answer["quantiles_s"] == [vm.quantile(q, uptime_s) for q in QUANTILES]
            one = {"request_id": answer["request_id"], "now_s": at_s}
            assert ask("/remaining", {**one, "quantiles": QUANTILES}) == answer
            assert ask("/remaining", [one])[0]["remaining_s"] == answer["remaining_s"]


def test_starts_and_refreshes_have_the_bits_of_a_predictor_in_process(made: Made, tmp_path: Path) -> None:
    folder = refreshing(made, tmp_path / "bundle")
    ours, ask = Predictor.load(folder), asking(AnswerCalls(Predictor.load(folder)))
    now_s = made.trace.horizon_s
    vms = [ours.admit(columns(made, idx), now_s) for idx in range(3)]
    ask("/admit", [{"request_id": f"{idx}", "request": columns(made, idx), "now_s": now_s} for idx in range(3)])
    started = ask("/started", {"request_id": "1", "now_s": now_s + 50})
    vms[1] = ours.started(vms[1], now_s + 50)
    assert (started["arrival_s"], started["remaining_s"]) == (now_s + 50, vms[1].remaining(0.0))
    early = ask("/refresh", {"request_id": "0", "now_s": now_s + 60})
    assert (early["refreshed_s"], early["next_refresh_s"]) == (None, now_s + 600)
    for at_s, next_s in ((now_s + 700, 3_600), (now_s + 4_000, None)):
        vms = [ours.refresh(vm, at_s) for vm in vms]
        for answer, vm in zip(ask("/refresh", {"all": True, "now_s": at_s})["items"], vms, strict=True):
            assert answer["remaining_s"] == vm.remaining(float(at_s - vm.arrival_s))
            assert answer["refreshed_s"] == at_s
            assert answer["next_refresh_s"] == (None if next_s is None else vm.arrival_s + next_s)
        assert ask("/remaining", {"request_id": "1", "now_s": at_s})["remaining_s"] == vms[1].remaining(
            float(at_s - vms[1].arrival_s))


def test_each_report_counts_once(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    ask, now_s = asking(AnswerCalls(predictor)), made.trace.horizon_s
    item = {"request_id": "a", "request": columns(made, 0), "now_s": now_s}
    assert ask("/ended", {"request_id": "a"}, 404)["error"].endswith("got one that was not admitted here")
    states = [each["state"] for each in ask("/admit", [item, item])]
    assert states == ["admitted", "known"] and len(predictor.running()) == 1
    assert ask("/withdraw", {"request_id": "a"})["state"] == "withdrawn"
    ask("/withdraw", {"request_id": "a"}, 404)
    assert ask("/admit", item)["state"] == "admitted"  # its scheduler tries again
    states = [each["state"] for each in ask("/ended", {"items": ["a", "a"], "now_s": now_s + 5})["items"]]
    assert states == ["ended", "known"]
    late = ask("/admit", item, 409)  # a report that was overtaken by its end would run for ever
    assert late["error"] == "request_id must be new, got one of a request that has ended"
    assert ask("/remaining", {"request_id": "a"}, 404)["error"].endswith("got one that has ended")
    assert [predictor.counters[name] for name in ("ended", "withdrawn", "errors")] == [1, 1, 0]


def test_running_and_ended_requests_are_bounded(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "N_ENDED", 3)
    calls = AnswerCalls(Predictor.load(made.folders["once"]), n_max=2)
    ask, now_s = asking(calls), made.trace.horizon_s
    items = [{"request_id": f"{idx}", "request": {}, "now_s": now_s} for idx in range(3)]
    found = ask("/admit", {"items": items})["items"]
    assert [each.get("status", each.get("state")) for each in found] == ["admitted", "admitted", 503]
    for idx in range(6):
        ask("/ended", {"request_id": f"{idx}", "now_s": now_s})
        ask("/admit", {**items[0], "request_id": f"{idx + 2}"})
    assert len(calls) == 2 and calls.names()[1] == ["3", "4", "5"]
    for n_max in (0, 500_001):
        with pytest.raises(ValueError, match="requests-max must be 1-500000"):
            AnswerCalls(Predictor.load(made.folders["once"]), n_max=n_max)


HUGE = 10**400
WRONG: list[tuple[str, Any, int, str]] = [
    ("/admit", {"request": {}}, 422, "request_id must be given"),
    ("/admit", {"request_id": "", "request": {}}, 422, "request_id must be text of 1 to 512"),
    ("/admit", {"request_id": "a" * 513, "request": {}}, 422, "request_id must be text of 1 to 512"),
    ("/admit", {"request_id": 7, "request": {}}, 422, "request_id must be text"),
    ("/admit", {"request_id": "n"}, 422, "request must be given"),
    ("/admit", {"request_id": "n", "request": []}, 422, "request must be an object"),
    ("/admit", {"request_id": "n", "request": {"nonsense": 1}}, 422, "column must be one of cpu_cores"),
    ("/admit", {"request_id": "n", "request": {"cpu_cores": "two"}}, 422, "cpu_cores must be"),
    ("/admit", {"request_id": "n", "request": {"cpu_cores": HUGE}}, 422, "cpu_cores must be"),
    ("/admit", {"request_id": "n", "request": {"zone": "z" * 513}}, 422, "'zone' must be text of at most 512"),
    ("/admit", {"request_id": "n", "request": {"zone": {}}}, 422, "zone"),
    ("/admit", {"request_id": "n", "request": {}, "uptime": 1}, 422, "item must have fields of request_id, request"),
    ("/admit", {"request_id": "n", "request": {}, "now_s": "noon"}, 422, "now_s must be seconds"),
    ("/admit", {"request_id": "n", "request": {}, "now_s": True}, 422, "now_s must be seconds"),
    ("/admit", {"request_id": "n", "request": {}, "now_s": HUGE}, 422, "now_s must be seconds"),
    ("/admit", {"request_id": "n", "request": {}, "now_s": 1_795_000_000_000}, 422, "now_s must be seconds on the own"),
    ("/admit", {"request_id": "n", "request": {}, "now_s": 5, "arrival_s": 6}, 422, "arrival_s must be <= now_s"),
    ("/admit", {"request_id": "n", "request": {}, "quantiles": [1]}, 400, "q must be between 0 and 1"),
    ("/predict", {"request": {}, "quantiles": [0.5] * 21}, 400, "quantiles must be a list of at most 20"),
    ("/predict", {"request": {}, "quantiles": 0.5}, 400, "quantiles must be a list"),
    ("/remaining", {"request_id": "none"}, 404, "request_id must be that of a running request"),
    ("/remaining", {"request_id": "kept", "now_s": 10**12}, 422, "now_s must be at most 20 years after"),
    ("/remaining", {"items": [], "now_s": "noon"}, 400, "now_s must be seconds"),
    ("/remaining", {"items": "kept"}, 400, "items must be a list"),
    ("/remaining", {"items": [], "all": True}, 400, "all must be true and without items"),
    ("/remaining", {"all": False}, 400, "all must be true"),
    ("/remaining", {"items": [], "request_id": "kept"}, 400, "a batch must have fields of all, items, now_s"),
    ("/ended", {"all": True}, 400, "a batch must have fields of items, now_s"),
    ("/ended", {"request_id": "kept", "quantiles": [0.5]}, 400, "quantiles must not be asked of /ended"),
    ("/ended", {"request_id": "kept", "now_s": 3}, 422, "now_s must be >= the arrival"),
    ("/started", {"request_id": "kept", "now_s": 3}, 422, "now_s must be >= the admission"),
    ("/refresh", {"request_id": "kept", "now_s": 3}, 422, "now_s must be >= the arrival"),
    ("/withdraw", "kept", 400, "document must be an object or a list"),
    ("/withdraw", None, 400, "document must be an object or a list"),
]


@pytest.mark.parametrize(("path", "document", "status", "reason"), WRONG)
def test_wrong_documents_change_nothing(made: Made, ask: Ask, path: str, document: Any, status: int,
                                        reason: str) -> None:
    ask("/admit", {"request_id": "kept", "request": {}})
    before = ask("/remaining", {"all": True})
    if status == 400:  # of the whole document
        with pytest.raises(ValueError, match=reason):
            ask(path, document)
    else:
        assert reason in ask(path, document, status)["error"]
        right: dict[str, Any] = {"request": {}} if path in ("/admit", "/predict") else {}
        found = ask(path, [document, 7, {**right, "request_id": "none"} if path != "/predict" else right])
        assert found[0]["status"] == status and found[1]["status"] == 422 and len(found) == 3
        if path == "/admit":
            assert found[2]["state"] == "admitted"
            ask("/withdraw", {"request_id": "none"})
    assert ask("/remaining", {"all": True}) == before


def test_a_clock_that_is_set_back_leaves_no_request_without_end(made: Made) -> None:
    times = [made.trace.horizon_s]
    ask = asking(AnswerCalls(Predictor.load(made.folders["hazard"]), clock=lambda: times[0]))
    ask("/admit", {"request_id": "a", "request": {}})
    ahead = ask("/remaining", {"request_id": "a"})["remaining_s"]
    times[0] -= 500
    assert ask("/remaining", {"request_id": "a"})["remaining_s"] == ahead
    ask("/ended", {"request_id": "a", "now_s": times[0]}, 422)  # a client's own time is taken as it is
    assert ask("/ended", {"request_id": "a"})["state"] == "ended"


def test_times_are_unix_seconds_whatever_the_bundles_clock(made: Made) -> None:
    epoch_s, now_s = 1_700_000_000, made.trace.horizon_s
    ask = asking(AnswerCalls(Predictor.load(made.folders["hazard"]), epoch_s=epoch_s))
    vm = Predictor.load(made.folders["hazard"]).admit(columns(made, 3), now_s)
    found = ask("/admit", {"request_id": "a", "request": columns(made, 3), "now_s": epoch_s + now_s})
    assert (found["arrival_s"], found["remaining_s"]) == (epoch_s + now_s, vm.remaining(0.0))


def test_a_long_batch_lets_others_go_first(made: Made) -> None:
    calls = AnswerCalls(Predictor.load(made.folders["once"]), clock=lambda: made.trace.horizon_s)
    order = []

    async def ask(path: str, document: Any, name: str) -> None:
        await calls.answer(path, document)
        order.append(name)

    async def both() -> None:
        batch = [{"request_id": f"{idx}", "request": {}} for idx in range(3 * N_AT_ONCE)]
        await asyncio.gather(ask("/admit", batch, "batch"), ask("/predict", {"request": {}}, "single"))

    asyncio.run(both())
    assert order == ["single", "batch"] and len(calls) == 3 * N_AT_ONCE


def test_a_fault_of_ours_takes_one_item(made: Made, monkeypatch: pytest.MonkeyPatch,
                                        caplog: pytest.LogCaptureFixture) -> None:
    predictor = Predictor.load(made.folders["once"])
    ask = asking(AnswerCalls(predictor, clock=lambda: made.trace.horizon_s))
    add = CurvePool.add
    monkeypatch.setattr(CurvePool, "add", lambda pool, vm: add(pool, vm) if len(pool) != 1 else 1 // 0)
    found = ask("/admit", [{"request_id": f"{idx}", "request": {}} for idx in range(2)])
    assert found[1] == {"request_id": "1", "status": 500, "error": "internal error"}
    assert found[0]["state"] == "admitted" and "ZeroDivisionError" in caplog.text
    assert len(predictor.running()) == 1


def test_requests_continue_from_a_file_and_a_snapshot(made: Made, tmp_path: Path) -> None:
    predictor, now_s = Predictor.load(made.folders["hazard"]), made.trace.horizon_s
    calls = AnswerCalls(predictor)
    ask = asking(calls)
    names = ["a", "b\n", "\u0000", "d"]
    ask("/admit", [{"request_id": name, "request": columns(made, idx), "now_s": now_s}
                   for idx, name in enumerate(names)])
    ask("/ended", {"request_id": "a", "now_s": now_s + 9})
    kept = calls.names()
    ask("/admit", {"request_id": "later", "request": {}, "now_s": now_s + 10})  # between the ids and the history
    ask("/ended", {"request_id": "d", "now_s": now_s + 10})
    predictor.snapshot(tmp_path / "history")
    calls.write_names(tmp_path / "names", kept)
    after = Predictor.load(made.folders["hazard"], history=tmp_path / "history")
    again = AnswerCalls(after)
    assert again.restore(tmp_path / "names") == len(after.running()) == 2
    query = {"items": ["b\n", "\u0000"], "now_s": now_s + 7_200, "quantiles": QUANTILES}
    assert asking(again)("/remaining", query) == ask("/remaining", query)
    assert asking(again)("/ended", {"request_id": "a"})["state"] == "known"
    for name in ("later", "d"):
        assert asking(again)("/remaining", {"request_id": name}, 404)
    whole = (tmp_path / "names").read_text()
    for text in (whole[:-3], whole.replace('"b', "b"), "[]\n1\n", "7", "[7]\n1\n"):
        (tmp_path / "names").write_text(text)
        with pytest.raises(SnapshotError, match="must be a whole file of request ids"):
            AnswerCalls(after).restore(tmp_path / "names")


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["request_id", "request", "now_s", "arrival_s", "items", "all", "quantiles",
                                         "cpu_cores", "zone"]), inner, max_size=4), max_leaves=12)


@settings(max_examples=300)
@given(path=st.sampled_from(sorted(CALLS)), document=JSON)
def test_no_document_makes_the_service_fail(calls: AnswerCalls, path: str, document: Any) -> None:
    try:
        status, answer = asyncio.run(calls.answer(path, json.loads(json.dumps(document))))
    except ValueError:
        return
    assert status in (200, 404, 409, 422, 503), answer
    assert '"status":500' not in answer.decode()
