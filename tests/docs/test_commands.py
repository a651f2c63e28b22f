"""Every command that a page tells its reader to type is run, in the page's order, in a world of the reader's;
what can't be run here is checked against the command's parser, and so is what a page only names.
"""

import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from lakehouse.demo.run import RECORDING
from tests.cli.test_commands import lakehouse
from tests.docs.command_lines import PAGES, Line, blocks, command_lines, commands_of, name, parse
from tests.docs.worlds import World, newcomer, with_garbage, with_source, with_topic
from tests.support.paths import DATA, ROOT

# What is not run here, and why; its arguments are checked all the same.
NOT_RUN = {
    r"\./run (test|check|docs)": "tests/test_run_script.py: what the script itself does",
    r"\./run demo": "tests/spark/pipeline/test_demo.py runs it, with a broker of its own on a fixed port",
    r"run all --continuous": "goes on until it is stopped: tests/spark/pipeline/test_continuous.py",
    r"broker:9093": "a broker with TLS and a password: tests/sources",
    r"s3a://": "an object store: tests/spark/pipeline/test_clusters.py",
    r"init --bundle": "packs the wheel that it runs from: tests/test_wheel.py",
}
SUITE = """quality:
  - expect: expect_column_values_to_be_between
    column: amount
    args: {min_value: 0, max_value: 1}
    action: reject
"""
HOLDS = "on_ddl: {add_column: hold, drop_column: reject, drop_partition: ignore, truncate_table: hold}\n"


def at_a_topic(recording: Path = RECORDING, first: int | None = None) -> Callable[[World, Any], World]:
    """A world with a broker, for those who have run nothing yet."""
    return lambda world, request: with_topic(
        world, request.getfixturevalue("broker").bootstrap, recording, first
    )


def nothing_yet(world: World, _: Any) -> World:
    return world


def after_a_run(
    world: World, _: Any, tables: dict[str, str] | None = None, listed: str = "auto", garbage: bool = False
) -> World:
    """A world with a lake that has landed the dump."""
    with_source(with_garbage(world) if garbage else world, tables or {}, listed)
    assert lakehouse("run", "all").returncode == 0
    return world


def lake_and_topic(world: World, request: Any) -> World:
    """A world with a lake, and a broker that is somewhere else."""
    return after_a_run(at_a_topic()(world, request), request)._replace(topic="")


# What the reader of each page has when it begins; of any other, a lake.
WORLDS: dict[str, Callable[[World, Any], World]] = {
    "docs/index.md": at_a_topic(),
    "docs/formats-ticdc.md": at_a_topic(),
    "docs/formats-storage.md": nothing_yet,
    "docs/formats-debezium.md": at_a_topic(DATA / "debezium/orders_small/noschema.jsonl.gz"),
    "docs/formats-canal.md": at_a_topic(DATA / "canal/orders_small.jsonl.gz"),
    "docs/formats-dts.md": at_a_topic(DATA / "dts/inventory/stream.jsonl.gz", 12),
    "docs/how-to/unknown-topic.md": at_a_topic(),
    "docs/how-to/add-a-table.md": partial(after_a_run, tables={"shop.orders": ""}, listed="configured"),
    "docs/how-to/dead-letters.md": partial(after_a_run, garbage=True),
    "docs/ddl.md": nothing_yet,
    "docs/ddl-operations.md": partial(after_a_run, tables={"shop.orders": HOLDS}),
    "docs/operations.md": lake_and_topic,
    "docs/quality.md": partial(after_a_run, tables={"shop.orders": SUITE}),
}


def told(page: Path) -> list[Line]:
    return [line for line in command_lines(page) if line.is_told]


def why_not_run(text: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, text)), None)


class File(NamedTuple):
    """A file that a page tells its reader to write."""

    path: str
    text: str


def steps(page: Path) -> Iterator[Line | File]:
    """What the reader does, in order: command lines and tables' YAML."""
    for block in blocks(page):
        if block.language == "yaml" and (path := re.fullmatch(r"# (configs/tables/\S+)", block.lines[0])):
            yield File(path[1], "\n".join(block.lines[1:]) + "\n")
        for text in commands_of(block):
            yield Line(text, True)


RUN = [page for page in PAGES if any(why_not_run(line.text) is None for line in told(page))]


@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_commands_of_a_page_run_in_its_order(
    page: Path, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    # the session of the tests was started in another folder
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path / "lake"))
    world = WORLDS.get(name(page), after_a_run)(newcomer(tmp_path), request)

    for step in steps(page):
        if isinstance(step, File):
            write(tmp_path / step.path, step.text)
        elif why_not_run(step.text) is None:
            returncode, output = run(world.arguments(step.words))
            assert returncode == 0, f"{step.text}\n{output}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(words: list[str]) -> tuple[int, str]:
    """Run one command line in this process; a command that reads a pipe gets a statement."""
    program, *arguments = words
    if program in ("./run", "lakehouse"):
        with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ALTER TABLE t DROP c"))):
            done = lakehouse(*arguments)
        return done.returncode, done.stdout + done.stderr
    (entry,) = entry_points(group="console_scripts", name=program)
    with patch.object(sys, "argv", [program, *arguments]):
        entry.load()()
    return 0, ""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_parses(page: Path) -> None:
    for line in command_lines(page):
        parse(line.words)


def test_what_is_not_run_is_on_a_page_and_has_a_test_that_is_there() -> None:
    texts = [line.text for page in PAGES for line in told(page)]

    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, text) for text in texts)] == []
    assert [
        why for why in NOT_RUN.values() if not (ROOT / re.findall(r"tests/[\w/.]*\w", why)[0]).exists()
    ] == []


def test_the_readme_has_the_two_commands_a_newcomer_runs() -> None:
    assert [line.text for line in told(ROOT / "README.md")] == ["./run demo", "./run test"]


WRONG = {
    "lakehouse shwo shop.orders": "No such command",
    "lakehouse run everything": "is not one of",
    "./run try dump.jsonl": "Missing parameter: format",
    "lakehouse show a.b --layr silver": "No such option",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_seen(line: str) -> None:
    with pytest.raises(Exception, match=WRONG[line]):
        parse(Line(line, True).words)


def modules_run(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The modules that a page's blocks and sentences run by `python -m`, with their options."""
    for line in re.findall(r"python -m ((?:tests|bench|lakehouse)[\w.]*(?: [^`\n#]*)?)", page.read_text()):
        module, *words = line.split()
        yield module, [option for word in words for option in word.split("|") if option.startswith("--")]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_module_that_a_page_runs_is_there_with_its_options(page: Path) -> None:
    for module, options in modules_run(page):
        spec = find_spec(module)
        assert spec is not None, module
        folder = Path(str(spec.origin)).parent
        sources = "".join(path.read_text() for path in folder.rglob("*.py"))
        assert [option for option in options if f'"{option}"' not in sources] == [], module
