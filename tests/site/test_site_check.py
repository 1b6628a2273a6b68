"""What is wrong with a built site is found: resources from elsewhere, and links that lead nowhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def _module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _module(".ci/check_site.py")
DOCSTRINGS = _module("docs/_site/docstrings.py")


PROBLEMS = [
    ('<script src="https://cdn.example.org/a.js"></script>', "load nothing from elsewhere, got https://cdn.example.org/a.js"),
    ('<link rel="stylesheet" href="//example.org/a.css">', "load nothing from elsewhere, got //example.org/a.css"),
    ('<img src="http://example.org/a.png">', "load nothing from elsewhere, got http://example.org/a.png"),
    ('<img src="gone.png">', "load files that exist, got gone.png"),
    ('<style>@import "https://example.org/a.css";</style>', "load nothing from elsewhere, got https://example.org/a.css"),
    ('<p style="background: url(https://example.org/a.png)">', "load nothing from elsewhere, got https://example.org/a.png"),
    ('<a href="gone.html">', "link to files that exist, got gone.html"),
    ('<a href="b.html#gone">', "link to places that exist, got b.html#gone"),
    ('<a href="#gone">', "link to places that exist, got #gone"),
]  # fmt: skip


def test_what_is_wrong_on_a_page_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    for markup, problem in PROBLEMS:
        (tmp_path / "a.html").write_text(markup)
        assert list(CHECK.problems(tmp_path)) == [f"a.html must {problem}"]
    (tmp_path / "a.html").write_text("<p>")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.example.org/a.woff2'); }")
    (tmp_path / "a.js").write_text('load("https://cdn.example.org/mathjax.js"); // see https://example.org/about')
    assert list(CHECK.problems(tmp_path)) == [
        "a.css must load nothing from elsewhere, got https://fonts.example.org/a.woff2",
        'a.js must load nothing from elsewhere, got "https://cdn.example.org/mathjax.js"']


def test_a_whole_site_has_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<img src="data:image/png;base64,AA"><a href="https://example.org">'
                                     '<a href="b.html#there"><a href="mailto:a@example.org"><a href="b.html">')
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    assert list(CHECK.problems(tmp_path)) == []
    assert list(CHECK.problems(tmp_path / "none")) == [f"{tmp_path / 'none'} must hold pages, got none"]


def test_a_docstring_becomes_paragraphs_a_list_and_a_doctest() -> None:
    text = ["Mean of `a_b`, *args and x_.", "", "a_b: float64 (n,),", "seconds. b: not a name here", "n: how many.", "",
            "    indented", "", "Words.", ">>> 1 + 1", "2"]
    assert list(DOCSTRINGS.as_rst(text, ("a_b", "n"))) == [
        "Mean of ``a_b``, \\*args and x\\_.", "", "",
        "", "- ``a_b``: float64 (n,),", "  seconds. b: not a name here", "", "- ``n``: how many.", "", "",
        "::", "", "        indented", "",
        "Words.", "", ">>> 1 + 1", "2", ""]
    from sojourn.features import Trace

    assert DOCSTRINGS.names_of(Trace) == ("requests", "horizon_s", "roles", "hosts", "usage", "meta")
    assert DOCSTRINGS.names_of(3) == ()
