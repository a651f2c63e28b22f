"""The frame of every page: head, style, navigation, and the script of those that grow."""

import base64
import hashlib
from pathlib import Path
from typing import NamedTuple

from lakehouse.reporting.web.markup import Markup, text

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
SCRIPT = Path(__file__).with_name("live.js").read_text(encoding="utf-8")
_HEAD = (
    "<meta charset='utf-8'/><meta name='viewport' content='width=device-width, initial-scale=1'/>"
    "<meta name='referrer' content='no-referrer'/>"
)


class Heading(NamedTuple):
    """What stands above a page: its title, a line below it, and links to other pages."""

    title: str
    below: object = ""
    links: tuple[Markup, ...] = ()


def document(heading: Heading, main: object, live: bool = False) -> str:
    """The HTML of a whole page; one that is `live` takes by itself what is new."""
    skip = "<a class='skip' href='#main'>Skip to content</a>" if heading.links else ""
    nav = f"<nav aria-label='Pages'>{''.join(heading.links)}</nav>" if heading.links else ""
    bar = "<p id='live'><noscript>Reload the page to see what is new.</noscript></p>" if live else ""
    script = f"<script>{SCRIPT}</script>" if live else ""
    return (
        f"<!DOCTYPE html>\n<html lang='en'><head>{_HEAD}<title>{text(heading.title)}</title>"
        f"<style>{STYLE}</style></head><body>{skip}<header>{nav}<h1>{text(heading.title)}</h1>"
        f"<p class='muted'>{text(heading.below)}</p>{bar}</header>"
        f"<main id='main'>{text(main)}</main>{script}</body></html>\n"
    )


def policy() -> str:
    """The Content-Security-Policy under which a page works: nothing but its own style and script."""
    return (
        f"default-src 'none'; style-src '{_digest(STYLE)}'; script-src '{_digest(SCRIPT)}'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
