"""Checks a built site: nothing on a page is loaded from elsewhere, and each link within it leads to a file and a place.

Prints what it found; exit code 1 where something is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": ("src",), "img": ("src", "srcset"), "link": ("href",), "iframe": ("src",),
           "source": ("src", "srcset"), "video": ("src", "poster"), "audio": ("src",), "object": ("data",),
           "embed": ("src",), "use": ("href",)}
_CSS_LOADED = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)")
_SCRIPT_LOADED = re.compile(r"[\"'`](?:https?:)?//[^\"'`\s]+\.(?:js|css|woff2?)[\"'`]")


class Page(HTMLParser):
    """What a page loads, what it links to, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        self.loaded += [found[name] for name in _LOADED.get(tag, ()) if name in found]
        self.loaded += _CSS_LOADED.findall(found.get("style", ""))
        self._is_style = tag == "style"
        if tag == "a" and "href" in found:
            self.links.append(found["href"])

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self.loaded += _CSS_LOADED.findall(data)


def problems(site: Path) -> Iterator[str]:
    """One line for each resource from elsewhere and each dead link of the site in this folder."""
    pages = {file: Page(file.read_text()) for file in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} must hold pages, got none"
    for file, page in pages.items():
        name = file.relative_to(site)
        for source in page.loaded:
            if is_elsewhere(source):
                yield f"{name} must load nothing from elsewhere, got {source}"
            elif not source.startswith("data:") and not _target(file, source).exists():
                yield f"{name} must load files that exist, got {source}"
        for link in page.links:
            if urlsplit(link).scheme or is_elsewhere(link):
                continue
            target, place = _target(file, link), unquote(urlsplit(link).fragment)
            if not target.exists():
                yield f"{name} must link to files that exist, got {link}"
            elif place and target in pages and place not in pages[target].places:
                yield f"{name} must link to places that exist, got {link}"
    for file in sorted([*site.rglob("*.css"), *site.rglob("*.js")]):
        loads = (_CSS_LOADED if file.suffix == ".css" else _SCRIPT_LOADED).findall(file.read_text())
        yield from (f"{file.relative_to(site)} must load nothing from elsewhere, got {source}" for source in loads)


def is_elsewhere(address: str) -> bool:
    """Whether an address is that of another host."""
    return address.strip().startswith(("http:", "https:", "//"))


def _target(file: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    return (file.parent / path).resolve() if path else file


def main() -> int:
    found = list(problems(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or f"{sys.argv[1]}/index.html: all links lead somewhere, nothing is loaded from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
