"""What the documentation says holds: every YAML validates, every link leads somewhere, the site builds, pages
are short and show what commands print. The commands themselves are in tests/docs/test_commands.py.
"""

import ast
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.config.load import problems
from lakehouse.reporting.text.remedies import REMEDIES
from tests.docs.command_lines import PAGES, blocks, name
from tests.support.formats_docs import DOCS, FAMILIES
from tests.support.paths import ROOT

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    text = page.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_page_and_a_place_on_it(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such place"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_yaml_that_a_page_shows_is_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        path = re.match(r"# configs/(?:\w+/)?((?:sources|tables)/\S+)", block.lines[0] if block.lines else "")
        if path:
            source, shown = tmp_path / "sources/shop.yml", tmp_path / path[1]
            for file in (source, shown):
                file.parent.mkdir(exist_ok=True)
            source.write_text("format: ticdc-open\nrecording: dump.jsonl\n")
            shown.write_text("\n".join(block.lines))
            assert problems(tmp_path) == []
            shown.unlink()


def test_the_pages_of_producers_show_a_source_each() -> None:
    shown = {page: [block.lines[0] for block in blocks(DOCS / page) if block.lines] for page in FAMILIES}

    assert [page for page, firsts in shown.items() if "# configs/sources/shop.yml" not in firsts] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_at_most_250_lines(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name != "decisions" and page.stem != "CHANGELOG"], ids=name
)
def test_a_page_begins_with_a_sentence_that_says_what_it_gives(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S)
    title, first = [part.strip() for part in text.split("\n\n") if part.strip()][:2]

    assert re.fullmatch(r"# [^\n]+", title)
    assert re.match(r"[A-Z\"`]", first), first[:80]


def test_every_variable_that_the_package_reads_is_on_the_page_about_installing() -> None:
    read = {
        found
        for path in (ROOT / "lakehouse").rglob("*.py")
        for found in re.findall(r"LAKEHOUSE_[A-Z]+(?:_[A-Z]+)*", path.read_text())
    }

    assert read == set(re.findall(r"`(LAKEHOUSE_[A-Z_]+)`", (DOCS / "how-to/install.md").read_text()))


def test_the_documentation_site_builds_with_every_link_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )

    assert done.returncode == 0, done.stderr
    built = [page.read_text() for page in tmp_path.rglob("*.html")]
    assert len(built) > len(list((ROOT / "docs").rglob("*.md")))
    assert [
        tag
        for page in built
        for tag in re.findall(r"<(?:script|img|iframe|link)[^>]*(?:src|href)=\"?(https?:[^\" >]+)", page)
    ] == []


def shown(case: str, first: str, last: str | None) -> str:
    """A part of a reviewed text, from the line `first` up to the line `last`."""
    lines = (ROOT / f"tests/cases/{case}.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[lines.index(first) : None if last is None else lines.index(last)]).rstrip()


def test_the_pages_show_what_commands_print() -> None:
    demo = shown("demo", "shop.clients", None)
    status = shown("status", "store", "erp")

    assert {"".join(line.split()) for line in demo.splitlines()} <= pictured("terminal-demo") | {""}
    assert f"```text\n{status}\n```" in (DOCS / "operations.md").read_text(encoding="utf-8")


def pictured(name: str) -> set[str]:
    """The lines of a terminal's picture, without spaces."""
    lines: dict[str, str] = {}
    for y, text in re.findall(
        r'<text [^>]*y="([\d.]+)"[^>]*>(.*?)</text>', (DOCS / f"{name}.svg").read_text()
    ):
        lines[y] = lines.get(y, "") + "".join(html.unescape(text).split())
    return set(lines.values())


_ROW = re.compile(r"^\| (behind|incomplete|exact) \| ([^|]+) \|", re.M)


def test_the_page_of_states_has_every_reason_that_something_mends() -> None:
    text = (DOCS / "states.md").read_text(encoding="utf-8")
    # a number, and the name of a thing, stand as a word in capitals
    reasons = [re.sub(r"\bN\b", "3", reason) for _, reason in _ROW.findall(text)]

    first = [next((begin for begin, _ in REMEDIES if re.match(begin, reason)), None) for reason in reasons]
    assert [begin for begin, _ in REMEDIES if begin not in first] == []


def codes_of_dead_letters() -> set[str]:
    """The codes that decoders give, and those of silver itself."""
    found = {"conflict", "equal_row", "lost"}
    for path in (ROOT / "lakehouse").rglob("*.py"):
        if path.parts[-2] != "sources":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Name("DecodeError" | "DeadLetter" | "Broken") | ast.Attribute(attr="dead"),
                        args=[ast.Constant(str(code)), *_],
                    ):
                        found.add(code)
    return found


def test_the_page_of_states_has_every_code_of_a_dead_letter() -> None:
    text = (DOCS / "states.md").read_text(encoding="utf-8")
    section = text[text.index("## Dead letters") : text.index("## Errors")]
    listed = {
        code
        for cell in re.findall(r"^\| (`[^|]*) \|", section, re.M)
        for code in re.findall(r"`([^`]+)`", cell)
    }

    assert codes_of_dead_letters() ^ listed == set()
