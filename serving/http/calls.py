"""The calls of the answer service, from JSON documents to JSON, without HTTP; the state between them.

Each call takes one object or a batch. Items of a batch are answered one by one, in their order, and
an item that is refused leaves the others as they are. All calls run in one thread, the event loop's:
it is the only writer of the history. Between pieces of a long batch, calls that wait go first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from sojourn.serving.answers import REACH_S, Lifetime, RefreshedLifetime
from sojourn.serving.checks import N_TEXT_MAX, clock_second
from sojourn.serving.curves import checked_share
from sojourn.serving.errors import SnapshotError, shown
from sojourn.serving.live import N_RUNNING_MAX, CurvePool
from sojourn.serving.predictor import Predictor

N_AT_ONCE = 128
"""After so many items of a batch, waiting calls may go first."""
N_QUANTILES_MAX = 20
N_ENDED = 100_000
"""So many of the latest ended requests are known by their ids."""
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Call:
    """What a call takes and gives. needed, others: fields of an item, by the names of `FIELDS`. gives:
    fields of its answer. has_all: whether it may be asked of all running requests. states: of `state`."""

    about: str
    needed: tuple[str, ...]
    others: tuple[str, ...]
    gives: tuple[str, ...]
    has_all: bool = False
    states: tuple[str, ...] = ()


_REMAINING = ("version", "arrival_s", "remaining_s", "quantiles_s")
CALLS: Mapping[str, Call] = MappingProxyType({
    "/admit": Call("Predict a request that is placed, and record its arrival in its owner's history.",
                   ("request_id", "request"), ("now_s", "arrival_s"),
                   ("request_id", "state", *_REMAINING, "not_given", "not_seen"), states=("admitted", "known")),
    "/predict": Call("Predict a request as admit does, and record nothing.", ("request",), ("now_s",),
                     (*_REMAINING, "not_given", "not_seen")),
    "/started": Call("Record that a request that waited after its admission begins to run.", ("request_id",),
                     ("now_s",), ("request_id", *_REMAINING)),
    "/remaining": Call("How much longer running requests will run, by the curves that they have.", ("request_id",),
                       ("now_s",), ("request_id", *_REMAINING), has_all=True),
    "/refresh": Call("Give running requests new curves, from their owners' histories as they are now.",
                     ("request_id",), ("now_s",), ("request_id", *_REMAINING, "refreshed_s", "next_refresh_s"),
                     has_all=True),
    "/ended": Call("Record that requests ended.", ("request_id",), ("now_s", "arrival_s"), ("request_id", "state"),
                   states=("ended", "known")),
    "/withdraw": Call("Undo the admission of requests that were not placed.", ("request_id",), (),
                      ("request_id", "state"), states=("withdrawn",)),
})  # fmt: skip
"""By path. What gives `quantiles_s` takes `quantiles` beside a single item's fields or a batch's `items`."""


class Refused(ValueError):
    """An item that is refused with a status of its own; other ValueErrors have 422."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Running(NamedTuple):
    """A running request. id: the predictor's. slot: of its curve in the pool, -1 if it cannot be read any more.
    arrival_s: on the predictor's clock. version: of the curve's model."""

    id: str
    slot: int
    arrival_s: int
    version: str


class _Asked(NamedTuple):
    """What the items of one document share."""

    now_s: Any
    quantiles: Sequence[float]


_Work = Callable[[Sequence[Any], _Asked], list[dict[str, Any]]]


class AnswerCalls:
    """Answers by a predictor; requests have the ids that their clients give them.

    epoch_s: unix time at 0 of the predictor's clock; times of documents are unix seconds. n_max: the
    most running requests; beyond them, admissions are refused. clock: unix seconds now.
    """

    def __init__(self, predictor: Predictor, *, epoch_s: int = 0, n_max: int = 100_000,
                 clock: Callable[[], float] = time.time) -> None:
        if not 1 <= n_max <= N_RUNNING_MAX:
            raise ValueError(f"requests-max must be 1-{N_RUNNING_MAX}, got {n_max}")
        self._predictor, self._epoch_s, self._n_max, self._clock = predictor, epoch_s, n_max, clock
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, None] = {}
        self._pool = CurvePool(capacity=n_max)  # untouched pages take no memory; growing would copy it in one piece
        self.counts: Counter[tuple[str, int]] = Counter()
        self._works: dict[str, _Work] = {
            "/admit": self._each("/admit", self._admit), "/predict": self._each("/predict", self._predict),
            "/started": self._each("/started", self._started), "/remaining": self._remaining,
            "/refresh": self._each("/refresh", self._refresh), "/ended": self._each("/ended", self._end),
            "/withdraw": self._each("/withdraw", self._withdraw),
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self._running)

    async def answer(self, path: str, document: Any) -> tuple[int, bytes]:
        """Status and JSON for a document: that of the item, or 200 for a batch, whose items have their own.

        ValueError if the document is neither an item nor a batch.
        """
        work = self._works[path]
        items, asked, is_list = self._opened(path, document)
        if items is None:
            return self._one(path, document, asked)
        texts = []
        for start in range(0, len(items), N_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            found = work(items[start:start + N_AT_ONCE], asked)
            self.counts.update((path[1:], each.get("status", HTTPStatus.OK)) for each in found)
            texts.append(_encode(found)[1:-1])
        text = b"[%b]" % b",".join(texts)
        return HTTPStatus.OK, text if is_list else b'{"items":%b}' % text

    def single(self, path: str, document: Any) -> tuple[int, bytes] | None:
        """As `answer` for a single item, at once; None for a batch."""
        items, asked, _ = self._opened(path, document)
        return self._one(path, document, asked) if items is None else None

    def _one(self, path: str, item: Any, asked: _Asked) -> tuple[int, bytes]:
        found, = self._works[path]([item], asked)
        status = found.get("status", HTTPStatus.OK)
        self.counts[path[1:], status] += 1
        return status, _encode(found)

    def _opened(self, path: str, document: Any) -> tuple[Sequence[Any] | None, _Asked, bool]:
        """The items of a batch, None for a single item; what they share; whether the batch is a bare list."""
        if isinstance(document, list):
            return document, _Asked(None, ()), True
        if not isinstance(document, dict):
            raise ValueError(f"document must be an object or a list, got {shown(document)}")
        call = CALLS[path]
        quantiles = document.get("quantiles", ())
        if quantiles != ():
            if "quantiles_s" not in call.gives:
                raise ValueError(f"quantiles must not be asked of {path}, got {shown(quantiles)}")
            if not isinstance(quantiles, list) or len(quantiles) > N_QUANTILES_MAX:
                raise ValueError(f"quantiles must be a list of at most {N_QUANTILES_MAX}, got {shown(quantiles)}")
            quantiles = tuple(map(checked_share, quantiles))
        if "items" not in document and "all" not in document:
            return None, _Asked(None, quantiles), False
        asked = _Asked(document.get("now_s"), quantiles)
        self._now_s({}, asked)
        known = {"items", "now_s", "quantiles", *(("all",) if call.has_all else ())}
        if not document.keys() <= known:
            raise ValueError(f"a batch must have fields of {', '.join(sorted(known))}, got "
                             f"{shown(sorted(document.keys() - known)[0])}")
        items = document.get("items", None)
        if "all" in document:
            if items is not None or document["all"] is not True:
                raise ValueError(f"all must be true and without items, got {shown(document['all'])}")
            return list(self._running), asked, False
        if not isinstance(items, list):
            raise ValueError(f"items must be a list, got {shown(items)}")
        return items, asked, False

    def _each(self, path: str, work: Callable[[Any, _Asked], dict[str, Any]]) -> _Work:
        """The work on items one by one, with an error in the place of an answer for those that are refused."""

        def works(items: Sequence[Any], asked: _Asked) -> list[dict[str, Any]]:
            answers = []
            for item in items:
                try:
                    answers.append(work(self._checked(path, item), asked))
                except Exception as error:  # the next item may be right
                    answers.append(_error(path, item, error))
            return answers

        return works

    def _checked(self, path: str, item: Any) -> Mapping[str, Any]:
        """An item as an object with the right fields; a text is short for its id."""
        call = CALLS[path]
        if type(item) is str and call.needed == ("request_id",):
            item = {"request_id": item}
        if not isinstance(item, dict):
            raise ValueError(f"item must be an object, got {shown(item)}")
        for name in item:
            if name not in call.needed and name not in call.others and name != "quantiles":
                raise ValueError(f"item must have fields of {', '.join((*call.needed, *call.others))}, got "
                                 f"{shown(name)}")
        for name in call.needed:
            if name not in item:
                raise ValueError(f"{name} must be given")
        if "request_id" in call.needed:
            request_id = item["request_id"]
            if type(request_id) is not str or not 0 < len(request_id) <= N_TEXT_MAX:
                raise ValueError(f"request_id must be text of 1 to {N_TEXT_MAX} characters, got {shown(request_id)}")
        return item

    def _admit(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        request_id, now_s = item["request_id"], self._now_s(item, asked)
        one = self._running.get(request_id)
        if one is not None:
            return {"request_id": request_id, "state": "known", **self._held(one, now_s, asked)}
        if request_id in self._ended:
            raise Refused(HTTPStatus.CONFLICT, "request_id must be new, got one of a request that has ended")
        if len(self._running) >= self._n_max:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"running requests must be at most {self._n_max}, got one "
                                                          f"more")
        arrival_s = item.get("arrival_s")
        vm = self._predictor.admit(_request(item), now_s, request_id=request_id,
                                   arrival_s=None if arrival_s is None else self._second(arrival_s, "arrival_s"))
        try:
            self._enter(request_id, vm)
        except Exception:  # else it would run for ever under no name
            self._predictor.withdraw(vm)
            raise
        return {"request_id": request_id, "state": "admitted", **self._new(vm, now_s, asked)}

    def _predict(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        now_s = self._now_s(item, asked)
        return self._new(self._predictor.predict(_request(item), now_s), now_s, asked)

    def _started(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        request_id, now_s = item["request_id"], self._now_s(item, asked)
        vm = self._predictor.started(self._known(request_id).id, now_s)
        return {"request_id": request_id, **self._held(self._enter(request_id, vm), now_s, asked)}

    def _refresh(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        request_id, now_s = item["request_id"], self._now_s(item, asked)
        vm = self._predictor.refresh(self._known(request_id).id, now_s)
        next_s = self._predictor.next_refresh(max(float(now_s - vm.arrival_s), 0.0))
        refreshed_s = vm.refreshed_s + self._epoch_s if isinstance(vm, RefreshedLifetime) else None
        return {"request_id": request_id, **self._held(self._enter(request_id, vm), now_s, asked),
                "refreshed_s": refreshed_s,
                "next_refresh_s": int(vm.arrival_s + next_s) + self._epoch_s if next_s < REACH_S else None}

    def _end(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        request_id, now_s = item["request_id"], self._now_s(item, asked)
        if request_id in self._ended:
            return {"request_id": request_id, "state": "known"}
        one, arrival_s = self._known(request_id), item.get("arrival_s")
        if item.get("now_s", asked.now_s) is None:
            now_s = max(now_s, one.arrival_s)  # our own clock was set back
        self._predictor.ended(one.id, now_s,
                              arrival_s=None if arrival_s is None else self._second(arrival_s, "arrival_s"))
        self._leave(request_id)
        self._ended[request_id] = None
        if len(self._ended) > N_ENDED:
            del self._ended[next(iter(self._ended))]
        return {"request_id": request_id, "state": "ended"}

    def _withdraw(self, item: Mapping[str, Any], asked: _Asked) -> dict[str, Any]:
        request_id = item["request_id"]
        self._predictor.withdraw(self._known(request_id).id)
        self._leave(request_id)
        return {"request_id": request_id, "state": "withdrawn"}

    def _remaining(self, items: Sequence[Any], asked: _Asked) -> list[dict[str, Any]]:
        """Answers of the pool, all at once."""
        answers: list[dict[str, Any]] = []
        places, slots, uptimes_s = [], [], []
        shared_s, running = self._now_s({}, asked), self._running
        for idx, item in enumerate(items):
            try:
                one = running.get(item) if type(item) is str else None
                if one is None:
                    item = self._checked("/remaining", item)
                    now_s = self._now_s(item, asked) if "now_s" in item else shared_s
                    request_id, one = item["request_id"], self._known(item["request_id"])
                else:
                    request_id, now_s = item, shared_s
                uptime_s = self._uptime_s(one, now_s)
            except ValueError as error:
                answers.append(_error("/remaining", item, error))
                continue
            places.append(idx)
            slots.append(one.slot)
            uptimes_s.append(uptime_s)
            answers.append({"request_id": request_id, "version": one.version,
                            "arrival_s": one.arrival_s + self._epoch_s})
        remaining_s = self._pool.remaining(slots, uptimes_s).tolist()
        for place, each_s in zip(places, remaining_s, strict=True):
            answers[place]["remaining_s"] = each_s
        if asked.quantiles:
            columns = [self._pool.quantile(q, slots, uptimes_s).tolist() for q in asked.quantiles]
            for place, each in zip(places, zip(*columns, strict=True), strict=True):
                answers[place]["quantiles_s"] = each
        return answers

    def _new(self, vm: Lifetime, now_s: int, asked: _Asked) -> dict[str, Any]:
        """The answer for a handle that was just made."""
        uptime_s = float(now_s - vm.arrival_s)
        answer: dict[str, Any] = {"version": vm.version, "arrival_s": vm.arrival_s + self._epoch_s,
                                  "remaining_s": float(vm.remaining(uptime_s))}
        if asked.quantiles:
            answer["quantiles_s"] = [float(vm.quantile(q, uptime_s)) for q in asked.quantiles]
        return answer | {"not_given": vm.not_given, "not_seen": vm.not_seen}

    def _held(self, one: _Running, now_s: int, asked: _Asked) -> dict[str, Any]:
        """The answer by a curve of the pool."""
        slots, uptimes_s = [one.slot], [self._uptime_s(one, now_s)]
        answer = {"version": one.version, "arrival_s": one.arrival_s + self._epoch_s,
                  "remaining_s": self._pool.remaining(slots, uptimes_s).tolist()[0]}
        if asked.quantiles:
            answer["quantiles_s"] = [self._pool.quantile(q, slots, uptimes_s).tolist()[0] for q in asked.quantiles]
        return answer

    def _known(self, request_id: str) -> _Running:
        one = self._running.get(request_id)
        if one is None:
            had = "has ended" if request_id in self._ended else "was not admitted here"
            raise Refused(HTTPStatus.NOT_FOUND, f"request_id must be that of a running request, got one that {had}")
        return one

    def _uptime_s(self, one: _Running, now_s: int) -> float:
        """Its uptime; 0 if the clock was ahead when it was admitted."""
        if one.slot < 0:
            raise Refused(HTTPStatus.CONFLICT, "request_id must be of a request that the served version can read; "
                                               "this one can only end")
        uptime_s = now_s - one.arrival_s
        if uptime_s > REACH_S:
            raise ValueError(f"now_s must be at most 20 years after the arrival, in unix seconds, got "
                             f"{now_s + self._epoch_s}")
        return float(uptime_s) if uptime_s > 0 else 0.0

    def _enter(self, request_id: str, vm: Lifetime) -> _Running:
        """Take in a handle, in the place of a former one of the same request."""
        former = self._running.get(request_id)
        if former is not None and former.slot >= 0:
            self._pool.remove(former.slot)
        one = _Running(str(vm.id), self._pool.add(vm), vm.arrival_s, vm.version)
        self._running[request_id] = one
        return one

    def _leave(self, request_id: str) -> None:
        one = self._running.pop(request_id)
        if one.slot >= 0:
            self._pool.remove(one.slot)

    def _now_s(self, item: Mapping[str, Any], asked: _Asked) -> int:
        value = item.get("now_s", asked.now_s)
        return int(self._clock() // 1) - self._epoch_s if value is None else self._second(value, "now_s")

    def _second(self, value: Any, name: str) -> int:
        """The second of the predictor's clock at a unix time."""
        return clock_second(value, name) - self._epoch_s

    def write_names(self, file: Path, names: tuple[Iterable[tuple[str, _Running]], Iterable[str]]) -> None:
        """Write ids of running and of ended requests, from `names`, to a file in place of the former one."""
        running, ended = names
        rows = [[request_id, one.id] for request_id, one in running] + [[request_id] for request_id in ended]
        part = file.with_suffix(".part")
        with part.open("w", encoding="ascii") as stream:
            for start in range(0, len(rows), N_AT_ONCE):  # in pieces, that other threads may work in between
                stream.write("\n".join(map(json.dumps, rows[start:start + N_AT_ONCE])) + "\n")
            stream.write(f"{len(rows)}\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)

    def names(self) -> tuple[list[tuple[str, _Running]], list[str]]:
        """The ids of now; from any thread."""
        return list(self._running.items()), list(self._ended)

    def restore(self, file: Path) -> int:
        """Continue with the requests of a file of `write_names` that the predictor runs; returns how many.

        What the predictor runs and the file does not name is withdrawn: its client was never told of
        a lasting admission. SnapshotError if the file is truncated or no such file.
        """
        rows = _rows(file) if file.exists() else []
        named = {row[1]: row[0] for row in rows if len(row) == 2}
        for id in self._predictor.running():
            request_id = named.get(id)
            if request_id is None:
                self._predictor.withdraw(id)
                continue
            self._running[request_id] = _Running(id, -1, 0, "")
            with suppress(ValueError):  # the served version reads other features: it can only end
                self._enter(request_id, self._predictor.handle(id))
        self._ended = {row[0]: None for row in rows if len(row) == 1}
        return len(self._running)


def _rows(file: Path) -> list[list[str]]:
    try:
        *rows, n = [json.loads(line) for line in file.read_text("ascii").splitlines()]
        if n != len(rows) or not all(isinstance(row, list) and 1 <= len(row) <= 2 and all(
                isinstance(value, str) for value in row) for row in rows):
            raise ValueError(f"{len(rows)} rows of ids and their number")
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{file} must be a whole file of request ids, got {error}") from error
    return rows


def _request(item: Mapping[str, Any]) -> Mapping[str, Any]:
    request = item["request"]
    if not isinstance(request, dict):
        raise ValueError(f"request must be an object, got {shown(request)}")
    for column, value in request.items():
        if type(value) is str and len(value) > N_TEXT_MAX:
            raise ValueError(f"{shown(column)} must be text of at most {N_TEXT_MAX} characters, got {len(value)}")
    return request


def _error(path: str, item: Any, error: Exception) -> dict[str, Any]:
    """The answer to an item that is refused, with its id if it has one."""
    request_id = item.get("request_id") if isinstance(item, dict) else item
    name = {"request_id": request_id} if type(request_id) is str and len(request_id) <= N_TEXT_MAX else {}
    if isinstance(error, ValueError):
        status = error.status if isinstance(error, Refused) else HTTPStatus.UNPROCESSABLE_ENTITY
        return {**name, "status": status, "error": str(error)}
    _log.error("%s failed", path, exc_info=error)
    return {**name, "status": HTTPStatus.INTERNAL_SERVER_ERROR, "error": "internal error"}
