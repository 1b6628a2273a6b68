"""The directive `sojourn-commands`: what `--help` says of every command, made when the site is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from sojourn.flows.cli import app as commands
from sojourn.flows.commands.options import with_names

_TOLD = re.compile(r" ?\[default: (?P<value>.+)\]$")


def cell(text: str) -> str:
    """Text for a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


def default(parameter: Any) -> str:
    """The default that is worth saying: the value, or what the help says of it at its end."""
    value = parameter.default
    told = _TOLD.search(getattr(parameter, "help", None) or "")
    if told is not None:
        return cell(told["value"])
    if parameter.required:
        return "required"
    if value is None or callable(value) or value is False or value == [] or value == ():
        return ""
    return f"`{value}`"


def pages(command: Any, name: str) -> Iterator[str]:
    """Markdown of a command and of those below it."""
    children = getattr(command, "commands", {})
    children = {child: command.get_command(None, child) for child in children}
    if name != "sojourn":
        yield f"## {name}\n\n{with_names(command.help or '')}\n"
    rows = [(f"`{' '.join((*each.opts, *each.secondary_opts)) if each.opts[0].startswith('-') else each.name.upper()}`",
             cell(_TOLD.sub("", with_names(getattr(each, "help", None) or ""))), default(each))
            for each in command.params if each.name != "help"]
    if rows and not children:
        lines = ["| option | meaning | default |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
        yield "\n".join(lines) + "\n"
    for child, own in sorted(children.items()):
        yield from pages(own, f"{name} {child}")


class Commands(SphinxDirective):
    """All commands, a section each."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(pages(typer.main.get_command(commands), "sojourn"))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("sojourn-commands", Commands)
    return {"parallel_read_safe": True}
