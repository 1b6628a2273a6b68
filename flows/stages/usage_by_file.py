"""Series read by file on workers: each file that is read, then each file of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.features.usage import SharedReading, UsageSource, UsageStore, UsageStream, store_usage
from sojourn.flows.outside.workers import NewWorker, run_grouped
from sojourn.flows.stages.sampled_features import workers_of
from sojourn.flows.store.code_version import check_same_code, source_hash


@dataclass(frozen=True, slots=True)
class Asked:
    """One item of a task, as it goes to a worker. code: `reading_code` where it was given out."""

    task: Callable[[Any], Any]
    item: Any
    code: str


def reading_code() -> str:
    """sha256 hex of the code that decides a store's bytes, with the libraries' versions."""
    return source_hash("features")


def done(asked: Asked) -> Any:
    """What the task gives for the item; ValueError where this process has other code."""
    check_same_code(reading_code(), asked.code)
    return asked.task(asked.item)


def shared_over(workers: Sequence[NewWorker], task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """What a task gives for each item, in their order; raises what the first item raised that failed."""
    work = {place: Asked(task, item, reading_code()) for place, item in enumerate(items)}
    place_of = {id(asked): place for place, asked in work.items()}
    found: dict[int, Any] = {}
    failed: dict[int, Exception] = {}
    for asked, outcome in run_grouped([[each] for each in work.values()], done, workers):
        (failed if isinstance(outcome, Exception) else found)[place_of[id(asked)]] = outcome
    for place in sorted(failed)[:1]:
        error = failed[place]
        if isinstance(error, ValueError | OSError):
            raise error
        raise RuntimeError(f"series could not be read: {type(error).__name__}: {error}") from error
    return [found[place] for place in range(len(items))]


def stored_usage(stream: UsageStream, source: UsageSource, dask: str | None, folder: Path,
                 progress: Callable[[int, int], None] | None = None) -> UsageStore:
    """The stream's store in `folder`, read on the workers of the scheduler at `dask`, or here.

    The workers must see the trace and the folder under the same paths.
    """
    if dask is None:
        return store_usage(stream, folder, progress=progress)
    with workers_of(dask) as workers:
        shared = SharedReading(source, lambda task, items: shared_over(workers, task, items))
        return store_usage(stream, folder, progress=progress, shared=shared)
