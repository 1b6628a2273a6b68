"""A job: a Prefect flow that finds a server, or brings its own, which ends with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from prefect import Flow

from sojourn.flows.jobs.preflight import check_before_work
from sojourn.flows.outside.prefect_server import prefect_server
from sojourn.flows.settings.trace import SharedSettings, TraceSettings

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
        if not isinstance(several[0], SharedSettings) or several[0].dask is None:
            with prefect_server(several[0].store):
                return super().__call__(*args, **kwargs)
        from sojourn.flows.outside.dask_workers import cluster

        with cluster(several[0].dask) as address, prefect_server(several[0].store):
            found = [each.model_copy(update={"dask": address}) for each in several]
            given: Any = found if isinstance(settings, Sequence) else found[0]
            run: Callable[..., Any] = super().__call__
            return run(given, *args[1:], **kwargs) if args else run(**{**kwargs, next(iter(kwargs)): given})


def job(name: str) -> Callable[[Callable[P, R]], Job[P, R]]:
    """A decorator: the function as a job of that name."""

    def decorated(function: Callable[P, R]) -> Job[P, R]:
        return Job(function, name=name, log_prints=False, persist_result=False)

    return decorated
