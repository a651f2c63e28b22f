"""Every command that a page tells its reader to type is run, in the page's order, in a world of the reader's;
what can't be run here is checked against the command's parser, and so is what a page only names.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
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
from tests.support.formats_docs import FAMILIES
from tests.support.paths import DATA, ROOT

# What is not run here, and why; its arguments are checked all the same.
NOT_RUN = {
    r"\./run (test|check|docs)": "tests/test_run_script.py: what the script itself does",
    r"\./run demo": "tests/spark/pipeline/test_demo.py runs it, with a broker of its own on a fixed port",
    r"run all --continuous": "goes on until it is stopped: tests/spark/pipeline/test_continuous.py",
    r"broker:9093": "a broker with TLS and a password: tests/sources",
    r"s3a://": "an object store: tests/spark/pipeline/test_clusters.py",
    r"(lakehouse|\./run) ui": "goes on until it is stopped: tests/spark/readers/test_pages.py",
    r"(lakehouse|\./run) (import|notebooks)": "tests/spark/pipeline/test_import_dump.py, tests/spark/api",
    r"lakehouse snapshot": "reads a database: tests/spark/pipeline/test_snapshot_tables.py",
    r"(lakehouse|\./run) verify": "reads a source's database: tests/spark/verification",
    r"init --name": "tests/docs/test_commands.py: the page of each producer runs it",
    r"init --bundle": "packs the wheel that it runs from: tests/test_wheel.py",
}


def at_a_topic(recording: Path = RECORDING, first: int | None = None) -> Callable[[World, Any], World]:
    """A world with a broker, for those who have run nothing yet."""
    return lambda world, request: with_topic(
        world, request.getfixturevalue("broker").bootstrap, recording, first
    )


def nothing_yet(world: World, _: Any) -> World:
    return world


def after_a_run(world: World, _: Any) -> World:
    """A world with a lake that has landed the dump."""
    return run_once(with_source(world))


def after_garbage(world: World, _: Any) -> World:
    """The same, with a dead letter."""
    return run_once(with_source(with_garbage(world)))


def with_one_table(world: World, _: Any) -> World:
    """The same, of a source that names its tables, and has named one."""
    write(world.folder / "configs/tables/shop.orders.yml", "source: shop\n")
    return run_once(with_source(world, "configured"))


def with_the_tables_of(page: str) -> Callable[[World, Any], World]:
    """The same, with the tables as the page's YAML has them."""

    def build(world: World, _: Any) -> World:
        for step in steps(ROOT / page):
            if isinstance(step, File):
                write(world.folder / step.path, step.text)
        return run_once(with_source(world))

    return build


def run_once(world: World) -> World:
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
    "docs/how-to/add-a-table.md": with_one_table,
    "docs/how-to/dead-letters.md": after_garbage,
    "docs/ddl.md": nothing_yet,
    "docs/ddl-operations.md": with_the_tables_of("docs/ddl-operations.md"),
    "docs/operations.md": lake_and_topic,
    "docs/quality.md": with_the_tables_of("docs/quality.md"),
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
    if page.name in FAMILIES:
        assert not_exact() == []


def not_exact() -> list[str]:
    """What stands in the way of "from your producer's settings to exact tables"."""
    (entry,) = [json.loads(line) for line in lakehouse("status", "--json").stdout.splitlines()]
    letters = [f"{entry['dead_letters']} dead letters"] if entry["dead_letters"] else []
    return letters + [f"{one['table']}: {one['why']}" for one in entry["tables"] if one["state"] != "exact"]


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
    "./run try --format canal": "Missing parameter: path",
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


READ = {
    "```sh\nlakehouse status    # how far\n```": [("lakehouse status", True)],
    "text\n\n    ./run demo     # a broker\n\ntext": [("./run demo", True)],
    "```sh\necho 'DROP TABLE t' | lakehouse ddl -\n```": [("lakehouse ddl -", True)],
    "```sh\nSPARK_REMOTE=sc://x lakehouse plan --json\n```": [("lakehouse plan --json", True)],
    "```text\nbehind  shop.t: held\n    lakehouse ddl skip shop.t  # or not\n```": [
        ("lakehouse ddl skip shop.t", False)
    ],
    "say `lakehouse show --all`, or `lakehouse status`": [("lakehouse show --all", False)],
    "```sh\ndatabricks bundle deploy -t dev lakehouse\n```": [],
}


@pytest.mark.parametrize("text", READ)
def test_a_command_line_is_read_from_a_page(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)

    assert [tuple(line) for line in command_lines(page)] == READ[text]
