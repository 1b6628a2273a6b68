"""Commands whose help names what the registries hold: `{readers}` in a help text becomes the readers' names.

A registry is loaded when help is asked for, not when a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from typer.core import TyperCommand, TyperGroup


def _readers() -> Iterable[str]:
    from sojourn.features.readers import READERS

    return READERS


def _usage_readers() -> Iterable[str]:
    from sojourn.features.usage import USAGE_READERS

    return USAGE_READERS


def _recipes() -> Iterable[str]:
    from sojourn.simulator import WORKLOADS

    return WORKLOADS


def _policies() -> Iterable[str]:
    from sojourn.simulator import POLICIES

    return POLICIES


def _families() -> Iterable[str]:
    from sojourn.models.lifetime import LIFETIME_MODELS

    return LIFETIME_MODELS


def _searched() -> Iterable[str]:
    from sojourn.models.lifetime import SEARCH_SPACES

    return SEARCH_SPACES


def _presets() -> Iterable[str]:
    from sojourn.flows.compare.presets import PRESETS

    return PRESETS


def _partial_presets() -> Iterable[str]:
    from sojourn.flows.compare.presets.reading import partial_presets

    return partial_presets()


def _acceptances() -> Iterable[str]:
    from sojourn.simulator.admission import ACCEPTANCES

    return ACCEPTANCES


def _allocations() -> Iterable[str]:
    from sojourn.simulator.admission import ALLOCATIONS

    return ALLOCATIONS


def _planners() -> Iterable[str]:
    from sojourn.simulator.planning import PLANNERS

    return PLANNERS


def _rectifiers() -> Iterable[str]:
    from sojourn.simulator.rectification import RECTIFIERS

    return RECTIFIERS


def _estimators() -> Iterable[str]:
    from sojourn.simulator.planning import ESTIMATORS

    return ESTIMATORS


def _plan_evaluations() -> Iterable[str]:
    from sojourn.flows.evaluations.planning_run import EVALUATIONS

    return EVALUATIONS


def _consumers() -> Iterable[str]:
    from sojourn.flows.annotation.consumers import CONSUMERS

    return CONSUMERS


_NAMES: Mapping[str, Callable[[], Iterable[str]]] = MappingProxyType({
    "readers": _readers, "recipes": _recipes, "policies": _policies, "families": _families, "searched": _searched,
    "presets": _presets, "partial_presets": _partial_presets, "usage_readers": _usage_readers,
    "acceptances": _acceptances, "allocations": _allocations, "planners": _planners,
    "estimators": _estimators, "plan_evaluations": _plan_evaluations,
    "consumers": _consumers, "rectifiers": _rectifiers,
})  # fmt: skip


class RegistryCommand(TyperCommand):
    """A command with such help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text:
                parameter.help = with_names(text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


class CommandGroup(TyperGroup):
    """Commands, each with the whole of its first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, " ".join((command.help or "").partition("\n\n")[0].split()))
                for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def with_names(text: str) -> str:
    """The text with the names of each registry that it asks for.

    >>> with_names("A named comparison: {presets}.")[:49]
    'A named comparison: lava-table, recall-sweep, loa'
    """
    for key, names in _NAMES.items():
        if f"{{{key}}}" in text:
            text = text.replace(f"{{{key}}}", ", ".join(names()))
    return text
