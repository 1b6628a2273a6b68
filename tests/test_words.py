"""Words: phrases that are not used in docs, docstrings, help and errors; links between pages that lead somewhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from sojourn.flows.cli import app
from sojourn.flows.reports.results_pages import anchor
from sojourn.serving.extender import main as serve_extender

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
         *sorted((ROOT / "docs").rglob("*.md"))]
PARTS = ("features", "models", "serving", "simulator", "flows", "src/sojourn")
NOT_SAID = (
    "happenings", "befalls", "befell", "told from luck", "by luck", "placement luck", "how sure",
    "tell apart", "tells apart", "tell hosts apart", "leaves room for", "unless told otherwise", "win over it",
    "wins over", "rests on it", "asked nothing", "told the model nothing", "what came of it", "as it should",
    "no shares to speak of", "the mend", "nobody can foresee", "can foresee", "told from the file", "is sure to",
)  # fmt: skip
LINE_MAX = 400
"""Longer lines of prose are hard to read and to review; tables and generated lists have their own form."""
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def not_said(text: str) -> list[str]:
    """The phrases of `NOT_SAID` that stand in a text, across line breaks and whatever the case."""
    plain = " ".join(text.split()).casefold()
    return [phrase for phrase in NOT_SAID if re.search(rf"\b{re.escape(phrase)}\b", plain)]


def without_code(text: str) -> str:
    """Markdown without fenced blocks, in which a # is a comment and a bracket an index."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """Links that headings of a page answer to; one that stands again gets a number."""
    found: set[str] = set()
    for heading in headings(text):
        name = anchor(heading.replace("`", ""))
        n = 0
        while (unique := f"{name}-{n}" if n else name) in found:
            n += 1
        found.add(unique)
    return found


def repeated(names: Iterable[str]) -> list[str]:
    """Names that stand more than once."""
    return sorted(name for name, n in Counter(names).items() if n > 1)


def headings(text: str) -> list[str]:
    """Of a page, of all levels."""
    return [found.strip() for found in re.findall(r"^#+ +(.+)$", without_code(text), flags=re.M)]


def broken_links(page: Path) -> list[str]:
    """Relative links of a page whose file or heading does not exist."""
    broken = []
    for link in (a or b for a, b in _LINK.findall(without_code(page.read_text()))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target.read_text())):
            broken.append(link)
    return broken


def help_texts(command: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each command's name and all that its `--help` says."""
    yield name, " ".join([command.help or "", *(getattr(option, "help", None) or "" for option in command.params)])
    for child, own in getattr(command, "commands", {}).items():
        yield from help_texts(own, f"{name} {child}")


def error_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each message that a `raise` makes; its values are left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            texts = [(each.lineno, each.col_offset, each.value) for each in ast.walk(node.exc)
                     if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield node.lineno, " ".join(text for _, _, text in sorted(texts, key=lambda each: each[:2]))


@pytest.mark.parametrize("page", [page for page in PAGES if page != GLOSSARY], ids=lambda page: str(page.name))
def test_a_page_uses_the_glossarys_words(page: Path) -> None:
    assert not_said(page.read_text()) == []


def test_help_uses_the_glossarys_words() -> None:
    texts = dict(help_texts(typer.main.get_command(app)))
    assert {" retrain", " compare", " trace describe"} <= texts.keys()
    assert {name: found for name, text in texts.items() if (found := not_said(text))} == {}


def test_help_of_the_extender_uses_the_glossarys_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        serve_extender(["--help"])
    text = capsys.readouterr().out
    assert "--drain-quantile" in text and not_said(text) == []


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, those of constants included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_docstrings_use_the_glossarys_words() -> None:
    texts = {f"{file.relative_to(ROOT)}:{line}": text for part in PARTS for file in (ROOT / part).rglob("*.py")
             for line, text in docstrings(file.read_text())}
    assert len(texts) > 1_500
    assert {place: found for place, text in texts.items() if (found := not_said(text))} == {}


def test_errors_use_the_glossarys_words() -> None:
    texts = {f"{file.relative_to(ROOT)}:{line}": text for part in PARTS for file in (ROOT / part).rglob("*.py")
             for line, text in error_texts(file.read_text())}
    assert len(texts) > 300
    assert {place: found for place, text in texts.items() if (found := not_said(text))} == {}


def test_a_phrase_is_found_across_lines_and_in_any_case() -> None:
    assert not_said("What Befalls hosts, told from\n  luck.") == ["befalls", "told from luck"]
    assert not_said("themendous") == []
    assert list(error_texts('raise ValueError(f"load must be {low}, unless told otherwise")')) == [
        (1, "load must be  , unless told otherwise")]


def test_the_glossarys_names_stand_in_code() -> None:
    source = "\n".join(file.read_text() for part in PARTS for file in (ROOT / part).rglob("*.py"))
    rows = [line.split(" | ") for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    names = {name for row in rows if len(row) == 4 for code in re.findall(r"`([^`]+)`", row[2])
             for name in re.findall(r"[A-Za-z_]\w*(?!\w*\*)", code)}
    assert len(names) > 90
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", source)) == []


def test_the_glossary_lists_what_is_not_said() -> None:
    listed = GLOSSARY.read_text().split("## Phrases that are not used")[1]
    assert [phrase for phrase in NOT_SAID if phrase not in listed] == []
    assert not_said(listed) == list(NOT_SAID)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_no_page_has_two_equal_headings(page: Path) -> None:
    """A link to the second one would lead to the first."""
    assert repeated(headings(page.read_text())) == []


def test_a_repeated_heading_is_found() -> None:
    assert repeated(headings("# A\n\n## B\n\n```\n# A\n```\n### B\n")) == ["B"]


def test_the_glossary_has_each_word_once() -> None:
    lines = GLOSSARY.read_text().split("## Phrases that are not used")[0].splitlines()
    words = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ") and "](#" not in line]
    assert len(words) > 100
    assert repeated(word for word in words if word != "word") == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n\n## Twice\n\n## Twice\n\n```\n# no heading\n[no](link.md)\n```\n"
                    "[one](#a-b-c) [two](page.md#twice-1) [away](gone.md) [none](#no-heading) ![picture](gone.png)\n"
                    "[elsewhere](https://example.org/x)\n")
    assert broken_links(page) == ["gone.md", "#no-heading", "gone.png"]


def test_lines_of_prose_are_short() -> None:
    long = [f"{page.relative_to(ROOT)}:{number}" for page in PAGES
            for number, line in enumerate(page.read_text().splitlines(), 1)
            if len(line) > LINE_MAX and not line.lstrip().startswith("|")]
    assert long == []
