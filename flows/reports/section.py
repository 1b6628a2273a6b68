"""A table of an evaluation: on the terminal at any width with no figure cut, and in Markdown.

Sections and pictures of an evaluation as one HTML page that asks for nothing outside.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BETWEEN = 3
"""Characters that rich adds to each column."""
_WORD_MAX = 24
"""Longer words of names may be broken."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an evaluation, ready for rich's `print(section, crop=False)`: the first n_text columns are words.

    caption: what was replayed. legend: what the columns mean.
    """

    title: str
    caption: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_text: int
    legend: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield self.table(options.max_width)

    def table(self, width: int) -> Table:
        """For a terminal of so many columns. Where that is too narrow, intervals take two lines, then names do.

        Figures, and words of names up to _WORD_MAX, are never cut: a table that is still too wide runs over the edge.
        """
        caption = f"{self.caption} {self.legend}".strip()
        widths = self._widths(width)
        table = Table(title=self.title, title_justify="left", caption_justify="left", caption=caption,
                      width=sum(widths) + _BETWEEN * len(widths) + 1)
        for k, title in enumerate(name.replace(" ", "\n") for name in self.titles):
            table.add_column(title, justify="left" if k < self.n_text else "right", width=widths[k], overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def _widths(self, width: int) -> list[int]:
        """The characters of each column."""
        columns = list(zip(self.titles, *self.rows, strict=True))
        words = [max((len(word) for text in column for word in text.split()), default=1) for column in columns]
        whole = [max(map(len, (*title.split(), *cells))) for title, *cells in columns]
        left = width - _BETWEEN * len(columns) - 1
        names, figures = whole[:self.n_text], whole[self.n_text:]
        if sum(whole) > left:
            figures = words[self.n_text:]
        if sum(names) + sum(figures) > left:
            share = (left - sum(figures)) // max(self.n_text, 1)
            names = [min(name, max(share, min(word, _WORD_MAX))) for name, word in zip(names, words, strict=False)]
        return [*names, *figures]


def markdown_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1) -> list[str]:
    """A table; after its first `n_text` columns the others are set flush right."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * n_text + "---:|" * (len(titles) - n_text),
            *("| " + " | ".join(row) + " |" for row in rows)]


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
