"""The command lines of README.md and docs/: what a page tells its reader to type, and what it only names."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer.main

from lakehouse.cli.main import COMMANDS, DEFAULT, build
from pipelines import parser
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# what ./run itself does: tests/test_run_script.py
SCRIPT = ("test", "check", "docs")
# a command that a sentence names is there, and needs no arguments
NAMES = {*COMMANDS, *(name.rpartition(" ")[0] for name in COMMANDS), *map(" ".join, DEFAULT.items())}
# what stands for a value that the reader puts in; `…` is a value as it is
VALUES = {
    "T": "470606995731251200",
    "TSO": "470606995731251200",
    "SOURCE": "shop",
    "DB.TABLE": "shop.orders",
    "TOPIC": "shop",
    "N": "3",
    "PATH": "file",
    "SQL": "ALTER TABLE orders ADD COLUMN c INT",
}
_OURS = re.compile(r"(\./run|lakehouse(-\w+)?) [^ ]")
_INLINE = re.compile(r"`((?:lakehouse|\./run)[^`\n]* [^`\n]*)`")
_FENCE = re.compile(r"^\s*```(\w*)\s*$")


class Block(NamedTuple):
    """A code block of a page; an indented one has the language "sh"."""

    language: str
    lines: tuple[str, ...]


class Line(NamedTuple):
    """A command line of ours. `is_told`: a page tells its reader to type it, in a block of its own."""

    text: str
    is_told: bool

    @property
    def words(self) -> list[str]:
        """Program and arguments, with values for what stands for one."""
        return [VALUES.get(word, word) for word in shlex.split(self.text)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """The code blocks of a page in their order, fenced or indented."""
    language, found = "", list[str]()
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        fence = _FENCE.match(line)
        is_indented = not language and line.startswith("    ")
        if (fence or not is_indented) and found and language in ("", "indented"):
            yield Block("sh", tuple(found))
            found = []
        if fence and language:
            yield Block(language, tuple(found))
            language, found = "", []
        elif fence:
            language = fence[1] or "text"
        elif language or is_indented:
            found.append(line if language else line[4:])


def commands_of(block: Block) -> Iterator[str]:
    """The command lines of ours in a block that a shell takes."""
    if block.language == "sh":
        joined = "\n".join(block.lines).replace("\\\n", " ")
        for line in joined.splitlines():
            text = re.sub(r"\s+#.*$|^([A-Z_]+=\S+ )+", "", line).strip()
            command = text.rpartition("| ")[2] if " | lakehouse " in text else text
            if _OURS.match(command):
                yield command


def command_lines(page: Path) -> list[Line]:
    """All command lines of ours on a page."""
    told = [Line(text, True) for block in blocks(page) for text in commands_of(block)]
    shown = [
        Line(re.sub(r"\s+#.*$", "", text).strip(), False)
        for block in blocks(page)
        if block.language == "text"
        for text in block.lines
        if re.match(r"\s*lakehouse ", text)
    ]
    named = [
        Line(text, False)
        for text in _INLINE.findall(page.read_text(encoding="utf-8"))
        if text.partition(" ")[2] not in NAMES and not re.search(r" …$|\[|--(install|show)-completion", text)
    ]
    return told + shown + named


def parse(words: list[str]) -> None:
    """Parse a command line as its program would; a wrong one raises."""
    program, *arguments = words
    if program.startswith("lakehouse-"):
        parser(program).parse_args(arguments)
    elif not (program == "./run" and arguments[0] in SCRIPT):
        command = typer.main.get_command(build())
        _still(command)
        command(arguments, standalone_mode=False)


def _still(command: Any) -> None:
    """Let a command do nothing but read its arguments."""
    command.callback = lambda **_: None
    for sub in getattr(command, "commands", {}).values():
        _still(sub)
