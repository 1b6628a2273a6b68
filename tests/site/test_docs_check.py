"""Blocks of pages are found with what the comments above them say, and what goes wrong in one is named."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("check_docs", ROOT / ".ci/check_docs.py")
assert _SPEC is not None and _SPEC.loader is not None
CHECK = importlib.util.module_from_spec(_SPEC)
sys.modules["check_docs"] = CHECK  # dataclasses look their module up
_SPEC.loader.exec_module(CHECK)

PAGE = '''# Title

<!-- a remark -->
Text.

<!-- before
x = 1
-->
```python
x += 1
print(x)
```

<!-- output -->
```text
2
```

<!-- skip "make": its own step -->
<!-- run "serve" until "ready": it serves
until Ctrl-C -->
```sh
make all
serve \\
    --port 1
```

1. An item:

   <!-- run by tests/x.py -->
   ```python
   def f():

       return 1
   ```

<!-- skip: too long -->
```sh
sleep 9
```
'''


def test_a_blocks_comments_are_those_directly_above_it() -> None:
    first, output, shell, item, last = CHECK.blocks(PAGE)
    assert (first.line, first.language, first.code, first.before) == (9, "python", "x += 1\nprint(x)\n", "x = 1")
    assert (output.is_output, output.code) == (True, "2\n")
    assert shell.rules == (("skip", "make", "", "its own step"),
                           ("run", "serve", "ready", "it serves until Ctrl-C"))
    assert (item.tested_by, item.code) == ("tests/x.py", "def f():\n\n    return 1\n")
    assert (last.skipped, last.rules, last.before) == ("too long", (), "")


def test_a_rule_changes_its_command_alone() -> None:
    lines = CHECK.script(list(CHECK.blocks(PAGE))[2]).splitlines()
    assert lines[-2:] == [":", "serve_until 'ready' serve      --port 1"]
    console = next(CHECK.blocks("```console\n$ echo 1\n1\n$ echo 2\n```\n"))
    assert CHECK.script(console).splitlines()[-2:] == ["echo 1", "echo 2"]

    block = next(CHECK.blocks('<!-- skip "absent": why -->\n```sh\ntrue\n```\n'))
    with pytest.raises(ValueError, match="must name a part of a command of its block, got 'absent'"):
        CHECK.script(block)
    with pytest.raises(ValueError, match="must be one of those that this file names, got 'skip it'"):
        list(CHECK.blocks("<!-- skip it -->\n```sh\ntrue\n```\n"))


COMPARED = [
    ("a\nb\n", "a  \nb\n\n", True), ("a\n...\nd\n", "a\nb\nc\nd\n", True), ("a\n...\n", "a\n", True),
    ("a\nb\n", "a\nc\n", False), ("a\n", "a\nb\n", False), ("a\n...\nd\n", "a\nb\nc\n", False), ("1.5", "1x5", False),
]  # fmt: skip
WRONG = [
    ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
    ("```sh\nfalse\ntrue\n```\n", "exit code 1"),
    ("```sh\necho 1\n```\n<!-- output -->\n```text\n2\n```\n", "-2\n+1"),
    ("```json\n{1}\n```\n", "JSONDecodeError"),
    ("```\n$ rm -r x\n```\n", "code must be marked as sh or python"),
    ("```fortran\nEND\n```\n", "must be of a known language or say why it is not run, got 'fortran'"),
    ("<!-- run by tests/gone.py -->\n```python\n```\n", "the test must exist, got tests/gone.py"),
    ('<!-- run "sleep" until "ready": it serves -->\n```sh\nsleep 0\n```\n',
     "the command must print 'ready', it did not"),
]  # fmt: skip


def test_output_is_compared_line_by_line() -> None:
    assert [CHECK.differences(page, printed) == "" for page, printed, _ in COMPARED] == [same for *_, same in COMPARED]


def test_what_is_wrong_in_a_block_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(CHECK, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    for text, problem in WRONG:
        page.write_text(text)
        assert CHECK.run_page(page, tmp_path, False) == 1
        assert problem in capsys.readouterr().out


def test_a_page_shares_its_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(CHECK, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "jobs.csv").write_text("a\n")
    page = tmp_path / "page.md"
    page.write_text('<!-- before\ntake("jobs.csv", "data/jobs.csv")\nx = 1\n-->\n```sh\ncat data/jobs.csv\n```\n'
                    "<!-- output -->\n```text\na\n```\n```python\nprint(x)\n```\n<!-- output -->\n```text\nold\n```\n"
                    '<!-- run "sh -c" until "up": it serves -->\n```sh\nsh -c "echo up; sleep 60"\n```\n')
    assert CHECK.run_page(page, tmp_path / "made", True) == 0
    assert page.read_text().count("```text\n1\n```") == 1
    assert CHECK.run_page(page, tmp_path / "made", False) == 0
    assert "'sh -c' ended: it serves" in capsys.readouterr().out
