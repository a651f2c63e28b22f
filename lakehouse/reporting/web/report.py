"""The page of all sources: what `lakehouse report` saves, and the server's first page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lakehouse.errors import EnvironmentError_
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.web.charts import clock
from lakehouse.reporting.web.document import Heading, document
from lakehouse.reporting.web.markup import Markup, element, joined, link
from lakehouse.reporting.web.source import Frame, Observed, section


def page(
    sources: Sequence[Observed], views: Mapping[str, View], where: str, version: str, served: bool = False
) -> str:
    """The HTML of the whole page. Where it is `served` it grows, and has links to the server's other
    pages.
    """
    made = "".join(f"{clock(now)} UTC, " for now in sorted(source["now"] for source in sources)[-1:])
    below = Markup(
        f"<span id='made' data-part=''>{element('span', f'{where}, {made}lakehouse {version}')}</span>"
    )
    frames = (Frame(views[source["source"]], number, served) for number, source in enumerate(sources))
    sections = [section(source, frame) for source, frame in zip(sources, frames, strict=True)]
    if not sources:
        sections = [element("p", "This lake has no source yet: nothing has run.", "none")]
    names = [source["source"] for source in sources]
    links = tuple(link(f"#{name}", (), name) for name in names) if len(names) > 1 else ()
    return document(Heading("Lakehouse report", below, links), joined(sections), live=served)


def write_page(html: str, to: Path) -> None:
    """Write a page to a file; EnvironmentError_ where that can't be done."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(html, encoding="utf-8")
    except OSError as error:
        raise EnvironmentError_(
            f"{to}: expected a file that can be written, got: {error.strerror}"
        ) from error
