"""Pages of a browser that notice what goes wrong on them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, FloatRect, Page, Request, Response

PICTURES = os.environ.get("UI_PICTURES")
"""A folder: pictures of the pages are written there (`make pictures`)."""
_KNOWN = ("/ajax-api/2.0/mlflow/users/current", "/favicon.ico", "telemetry-worker")
"""What MLflow's and Prefect's own pages ask for in vain: an account (there is none), an icon, telemetry (off)."""
_HARMLESS = "ResizeObserver loop completed with undelivered notifications"
"""What Chromium says where a page lays itself out twice: nothing is lost."""


@dataclass
class Watched:
    """A page and all that went wrong on it: errors of the console and of scripts, requests that failed."""

    page: Page
    problems: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or ""))

    def text(self) -> str:
        """All text of the page, with one space between words."""
        return " ".join(self.page.inner_text("body").split())

    def picture(self, name: str) -> None:
        """A picture for the docs, where they are asked for."""
        if PICTURES is not None:
            clip = FloatRect(x=190, y=0, width=1090, height=800)  # without the list of pages at the left
            self.page.screenshot(path=Path(PICTURES) / name, clip=clip)

    def _heard(self, message: ConsoleMessage) -> None:
        if (message.type == "error" and _HARMLESS not in message.text
                and not _is_known(str(message.location.get("url", "")))):
            self.problems.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED" and not _is_known(request.url):  # aborted: the page was left meanwhile
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and not _is_known(response.url):
            self.problems.append(f"status {response.status}: {response.url}")


def _is_known(url: str) -> bool:
    return any(part in url for part in _KNOWN)


@dataclass(frozen=True)
class Team:
    """Two versions of one model in a store, and the Prefect server whose pages show their runs."""

    store: Path
    prefect: str
