"""Every study is there under its name, and runs on small data."""

from __future__ import annotations

import sys

import pytest

from studies.__main__ import STUDIES, main


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["studies", *map(str, words)])
    main()


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_each_study_has_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, name, "--help")
    assert ended.value.code == 0
    assert f"python -m studies {name}" in capsys.readouterr().out


def test_an_unknown_study_lists_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"NAME must be one of .*planning.*, got 'x'"):
        run(monkeypatch, "x")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "printed"), [
    (("greedy-share", "--n-pools", 3), "mean share 0.667, of the sum 0.800"),
    (("freed-hours", "--n-requests", 3_000, "--n-seeds", 1), "value:5: 9 migrations, 8 freed their host"),
    (("regrouping", "--n-requests", 3_000, "--days", 40, "--seeds", 0), "timer, every day        49.77 %"),
])
def test_a_small_run_prints_its_figures(words: tuple[object, ...], printed: str, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, *words)
    assert printed in capsys.readouterr().out
