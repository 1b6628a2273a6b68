"""A job: a Prefect flow that finds a server, or brings its own, which ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from sojourn.flows.config import TraceSettings
from sojourn.flows.environment import be_quiet
from sojourn.flows.jobs.preflight import check_before_work
from sojourn.flows.outside.prefect_server import prefect_server

be_quiet()

from prefect import Flow  # noqa: E402  (its settings are read on import)

P = ParamSpec("P")
R = TypeVar("R")


class Job(Flow[P, R]):
    """A flow of which the first argument is its settings, or several, of which the first name the store."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        settings = next(iter((*args, *kwargs.values())))
        several = settings if isinstance(settings, Sequence) else [settings]
        for each in several:
            if not isinstance(each, TraceSettings):
                raise ValueError(f"a job's first argument must be its settings, got {each!r}")
            check_before_work(each)
        with _cluster(several[0].dask) as address, prefect_server(several[0].store):
            found = [each.model_copy(update={"dask": address}) for each in several]
            if args:
                args = (found if isinstance(settings, Sequence) else found[0], *args[1:])
            else:
                kwargs = {**kwargs, next(iter(kwargs)): found if isinstance(settings, Sequence) else found[0]}
            return super().__call__(*args, **kwargs)


@contextmanager
def _cluster(dask: str | None) -> Iterator[str | None]:
    """The address of the scheduler, where the settings name a cluster: it answers, before any work."""
    if dask is None:
        yield None
        return
    from sojourn.flows.outside.dask_workers import cluster

    with cluster(dask) as address:
        yield address


def job(name: str) -> Callable[[Callable[P, R]], Job[P, R]]:
    """A decorator: the function as a job of that name."""

    def decorated(function: Callable[P, R]) -> Job[P, R]:
        return Job(function, name=name, log_prints=False, persist_result=False)

    return decorated
