"""What the documentation says can be done: every command line parses, every YAML validates, every link leads
somewhere.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lakehouse.cli.main import COMMANDS, DEFAULT, build
from lakehouse.config.load import problems
from pipelines import parser
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_OURS = ("test", "check", "docs")
# a command that a sentence names is there, and needs no arguments
NAMES = {*COMMANDS, *(name.rpartition(" ")[0] for name in COMMANDS), *map(" ".join, DEFAULT.items())}
_INLINE = re.compile(r"`((?:lakehouse|\./run)[^`\n]* [^`\n]*)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_LANGUAGE = re.compile(r"^\s*```(\w*)\s*$")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_lines(page: Path) -> Iterator[str]:
    """The lines of a page's code blocks, indented or fenced."""
    fenced = False
    for line in page.read_text().splitlines():
        if _LANGUAGE.match(line):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip().removeprefix("$ ")


def command_lines(page: Path) -> list[str]:
    """Our own command lines on a page, without comments; what an ellipsis or a bracket leaves open is no
    command line.

    Options that act while they are read (they install completion, in the home of whoever runs the tests) are
    left out.
    """
    blocks = (line.partition(" #")[0].strip() for line in code_lines(page))
    found = [line for line in blocks if re.match(r"(\./run|lakehouse(-\w+)?) ", line)]
    found += [line for line in _INLINE.findall(page.read_text()) if line.partition(" ")[2] not in NAMES]
    return [line for line in found if not re.search(r"[…\[|]|[A-Z]{3,}|--(install|show)-completion", line)]


def parse(line: str) -> None:
    """Parse a command line as its program would; a wrong one raises."""
    program, *arguments = shlex.split(line)
    if program.startswith("lakehouse-"):
        parser(program).parse_args(arguments)
    elif not (program == "./run" and arguments[0] in NOT_OURS):
        command = typer.main.get_command(build())
        still(command)
        command(arguments, standalone_mode=False)


def still(command: Any) -> None:
    """Let a command do nothing but read its arguments."""
    command.callback = lambda **_: None
    for sub in getattr(command, "commands", {}).values():
        still(sub)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_parses(page: Path) -> None:
    for line in command_lines(page):
        parse(line)


def test_the_readme_has_the_two_commands_a_newcomer_runs() -> None:
    assert {"./run demo", "./run test"} <= set(command_lines(ROOT / "README.md"))


WRONG = {
    "lakehouse shwo shop.orders": "No such command",
    "lakehouse run everything": "is not one of",
    "./run try dump.jsonl": "Missing parameter: format",
    "lakehouse show a.b --layr silver": "No such option",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_seen(line: str) -> None:
    with pytest.raises(Exception, match=WRONG[line]):
        parse(line)


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


def sources_of(page: Path) -> Iterator[str]:
    """The YAML of sources on a page: a block that begins with its file's name, up to a blank line or the
    fence.
    """
    lines = page.read_text().splitlines()
    for index, line in enumerate(lines):
        if re.match(r"# configs/(\w+/)*sources/", line.strip()):
            indent = len(line) - len(line.lstrip())
            block = []
            for text in lines[index:]:
                if not text.strip() or text.startswith("```"):
                    break
                block.append(text[indent:])
            yield "\n".join(block) + "\n"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/databricks.md"], ids=name)
def test_every_source_that_a_page_shows_is_valid(page: Path, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    blocks = list(sources_of(page))
    for block in blocks:
        (tmp_path / "sources/shop.yml").write_text(block)
        assert problems(tmp_path) == []
    assert blocks


def test_every_variable_that_the_package_reads_is_in_the_readme() -> None:
    read = {
        found
        for path in (ROOT / "lakehouse").rglob("*.py")
        for found in re.findall(r"LAKEHOUSE_[A-Z]+(?:_[A-Z]+)*", path.read_text())
    }

    assert read == set(re.findall(r"`(LAKEHOUSE_[A-Z_]+)`", (ROOT / "README.md").read_text()))


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
    """A part of a reviewed text, as a page shows it: from the line `first` up to the line `last`."""
    lines = (ROOT / f"tests/cases/{case}.txt").read_text(encoding="utf-8").splitlines()
    part = lines[lines.index(first) : None if last is None else lines.index(last)]
    return "\n".join(f"    {line}".rstrip() for line in part).rstrip()


def test_the_pages_show_what_commands_print() -> None:
    demo = shown("demo", "shop.clients", None)
    status = shown("status", "store", "erp")

    assert demo in (ROOT / "README.md").read_text(encoding="utf-8")
    assert status in (ROOT / "docs/operations.md").read_text(encoding="utf-8")
