"""Sections and pictures of an evaluation as one HTML page that asks for nothing outside."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from sojourn.flows.reports.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def section_page(title: str, about: str, sections: Sequence[Section], pictures: Mapping[str, bytes]) -> str:
    """The page. pictures: PNG by file name. The style is that of a comparison's page; there is no script.

    >>> page = section_page("A & B", "", [Section("T", "c", ("rule", "n"), (("<i>", "1"),), 1)], {"a.png": b"x"})
    >>> "A &amp; B" in page, "<td>1</td>" in page, "&lt;i&gt;" in page, "data:image/png;base64,eA==" in page
    (True, True, True, True)
    """
    css = resources.files("sojourn.simulator.page").joinpath("page.css").read_text("utf-8")
    parts = [f"<section><h2>{html.escape(section.title)}</h2><p>{html.escape(section.caption)}</p>{_table(section)}"
             f'<p class="quiet">{html.escape(section.legend)}</p></section>' for section in sections]
    shown = "".join(f'<section><h2>{html.escape(name.removesuffix(".png").replace("-", " "))}</h2>'
                    f'<img style="max-width:100%" alt="{html.escape(name)}" src="data:image/png;base64,'
                    f'{base64.b64encode(content).decode()}"></section>' for name, content in pictures.items())
    return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<title>{html.escape(title)}</title>\n'
            f"<style>\n{css}</style>\n</head>\n<body>\n<header><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p>"
            f"</header>\n<main>\n{''.join(parts)}{shown}\n</main>\n</body>\n</html>\n")


def pngs(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Pictures as PNG by file name."""
    found = {}
    for name, figure in figures.items():
        with io.BytesIO() as stream:
            figure.savefig(stream, dpi=110, format="png")
            found[f"{name}.png"] = stream.getvalue()
    return found


def _table(section: Section) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        marks = [' class="text"' if k < section.n_text else "" for k in range(len(cells))]
        return "<tr>" + "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>"
                                for mark, cell in zip(marks, cells, strict=True)) + "</tr>"

    body = "".join(row(cells, "td") for cells in section.rows)
    return f'<div class="wide"><table><thead>{row(section.titles, "th")}</thead><tbody>{body}</tbody></table></div>'
