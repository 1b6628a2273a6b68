"""A table of an evaluation: on the terminal at any width with no figure cut, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.table import Table

_BETWEEN = 3
"""Characters that rich adds to each column."""
_WORD_MAX = 24
"""Longer words of names may be broken."""


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
