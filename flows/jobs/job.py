"""A job: a Prefect flow that finds a server, or brings its own, which ends with it, and that opens the store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from prefect import Flow

from sojourn.flows.jobs.preflight import check_before_work
from sojourn.flows.outside.prefect_server import prefect_server
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.progress import stage
from sojourn.flows.settings.trace import SharedSettings, TraceSettings
from sojourn.flows.versions.opening import open_store

P = ParamSpec("P")
S = TypeVar("S")
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


def job(name: str, *, is_of_champion: bool = False,
        ) -> Callable[[Callable[Concatenate[S, Tracker, P], R]], Job[Concatenate[S, P], R]]:
    """A decorator: the function as a job of that name, which is called without its tracker.

    The store is opened when a run begins, and its tracker handed in after the settings. is_of_champion: the champion of
    the settings' model is then in `bundles`.
    """

    def decorated(function: Callable[Concatenate[S, Tracker, P], R]) -> Job[Concatenate[S, P], R]:
        @wraps(function)
        def opened(settings: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            first: Any = settings[0] if isinstance(settings, Sequence) else settings
            with stage("open the store"):
                tracker = open_store(first, (first.registered_name,) if is_of_champion else ())
            return function(settings, tracker, *args, **kwargs)

        signature = inspect.signature(function, eval_str=True)  # Prefect would look for their names here
        own = [each for place, each in enumerate(signature.parameters.values()) if place != 1]
        opened.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return Job(opened, name=name, log_prints=False, persist_result=False)

    return decorated
