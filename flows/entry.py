"""The `sojourn` program: the command line, or one line that says what to install for it."""

from __future__ import annotations

import sys
from importlib import import_module

from sojourn.flows.commands.table import first_page, terminal_columns

DIRECT: dict[tuple[str, ...], tuple[str, str]] = {
    ("serve", "costs"): ("sojourn.serving.kubernetes", "costs_main"),
    ("serve", "extender"): ("sojourn.serving.extender", "main"),
    ("serve", "http"): ("sojourn.serving.http", "main"),
    ("serve", "kubernetes"): ("sojourn.serving.kubernetes", "main"),
    ("serve", "warm"): ("sojourn.serving.live", "warm_main"),
}
"""Commands that need no command line library: a scheduler's image has none. By words: module and function."""
_OF_PULL = frozenset({"alembic", "mlflow", "pydantic", "pydantic_settings", "requests", "rich", "sqlalchemy", "typer"})
_OF_SERVE = frozenset({"anyio", "click", "h11", "httptools", "msgspec", "starlette", "uvicorn"})


def main() -> None:
    """Run the command that the arguments name; exit code 2 where a library is missing for it."""
    arguments = sys.argv[1:]
    try:
        words = tuple(arguments[:2])
        if words in DIRECT:
            module, name = DIRECT[words]
            sys.exit(getattr(import_module(module), name)(arguments[2:], f"sojourn {' '.join(words)}"))
        try:
            if words in (("--help",), ("-h",)):
                print(first_page(terminal_columns()))
                return
            from sojourn.flows.cli import app

            app()
        finally:
            _flush()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "sojourn"):
            raise
        print(f"error: {_words(missing, arguments)}", file=sys.stderr)
        sys.exit(2)
    except Exception:  # a fault of this program: its traceback is a text that leaves, too
        import traceback

        from sojourn.flows.settings.store import without_secrets

        print(without_secrets(traceback.format_exc()), file=sys.stderr, end="")
        sys.exit(1)


def _flush() -> None:
    """Print what is left; end quietly where nobody reads it any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        from sojourn.flows.process import end_quietly, is_output_closed

        if not is_output_closed():
            raise
        end_quietly()


def _words(missing: str, arguments: list[str]) -> str:
    words = [each for each in arguments if not each.startswith("-")]
    command = " ".join(words[:2 if words[:1] in (["model"], ["serve"]) else 1])
    wanted = f"sojourn {command}".strip()
    if missing in (*_OF_SERVE, "kubernetes"):
        extra = "'.[kubernetes]'" if command in ("serve costs", "serve kubernetes") else "'.[serve]'"
    elif missing in _OF_PULL and command in ("model pull", "model predict", "model export-c"):
        extra = "'.[pull]'"
    elif missing in _OF_PULL and not command:
        extra = "'.[pull]' (for model pull, predict and export-c) or '.[pipeline]' (for all commands)"
    else:
        extra = "'.[pipeline]'"
    return f"{wanted} needs {missing}, which is not installed: in a checkout of Sojourn, pip install {extra}"
