"""The commands that work on a lake. Each reads its options, calls one function, and prints what it returns.

Spark is imported when a command runs, never for --help.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse.errors import ConfigError


class Layer(StrEnum):
    bronze = "bronze"
    silver = "silver"
    gold = "gold"
    all = "all"


class ShownLayer(StrEnum):
    gold = "gold"
    silver = "silver"


class Consistency(StrEnum):
    resolved = "resolved"
    eventual = "eventual"


Lake = Annotated[str, typer.Option("--lake", envvar="LAKEHOUSE_LAKE", help="The lake's root folder.")]
SourceLake = Annotated[
    str | None,
    typer.Option(
        "--lake", envvar="LAKEHOUSE_LAKE", help="The lake's root. Default: the source's own, else ./lake."
    ),
]
Configs = Annotated[
    Path, typer.Option("--configs", envvar="LAKEHOUSE_CONFIGS", help="The folder with sources/ and tables/.")
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="NAME", help="Only this source, or db.table; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="T", help="The state at a TSO or position up to the watermark."),
]
Source = Annotated[str, typer.Argument(help="The source's name.")]
Table = Annotated[
    str,
    typer.Argument(
        metavar="DB.TABLE", help="The table, as the source names it; SOURCE:DB.TABLE where several have it."
    ),
]
Why = Annotated[str, typer.Option("--why", help="The reason, which is kept.")]
Reason = Annotated[str, typer.Option("--why", help="A reason to keep.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without it, only say what would be done.")]


def try_(
    path: Annotated[Path, typer.Argument(help="A recording, or the folder of a storage sink.")],
    format: Annotated[str, typer.Option("--format", help="The wire format, such as ticdc-open.")],
    lake: Lake = "./lake",
    consistency: Annotated[
        Consistency, typer.Option("--consistency", help="What gold shows.")
    ] = Consistency.resolved,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="A decoder option of the format; may be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take a recording through all three layers into a lake, with no YAML. A second time adds nothing."""
    from lakehouse.cli.main import decoding

    name, options = decoding(format, None, option)
    print_result(
        backend("pipeline.run").try_recording(path, name, options, lake, consistency.value, progress), as_json
    )


def show(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[DB.TABLE]",
            help="The table (SOURCE:DB.TABLE where several sources have it); or use --all.",
        ),
    ] = None,
    lake: Lake = "./lake",
    layer: Annotated[
        ShownLayer, typer.Option("--layer", help="The table itself, or its changes.")
    ] = ShownLayer.gold,
    at: At = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
    as_json: Json = False,
    all_tables: Annotated[
        bool, typer.Option("--all", help="Every live gold table; needs --json and --to.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FOLDER", help="With --all: a file per table; with several --at, a folder each."
        ),
    ] = None,
) -> None:
    """Print a table's rows, in key order."""
    ats = at or []
    if (
        all_tables
        and table is None
        and to is not None
        and as_json
        and limit is None
        and layer is ShownLayer.gold
    ):
        return print_result([str(file) for file in backend("readers.show").show_all(lake, to, ats)], False)
    if all_tables or to is not None:
        raise ConfigError(
            "show: --all goes with --json and --to FOLDER, and with no table, --layer or --limit"
        )
    if table is None or len(ats) > 1:
        raise ConfigError("show: expected one DB.TABLE and at most one --at; or --all --json --to FOLDER")
    backend("readers.show").show_table(
        lake, table, layer.value, ats[0] if ats else None, limit, as_json, sys.stdout
    )
    return None


def run(
    layer: Annotated[Layer, typer.Argument(help="The layer to run, or all of them.")],
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous/--once", help="Go on until stopped, or stop when all that is there is done."
        ),
    ] = False,
    select: Select = None,
    as_json: Json = False,
) -> None:
    """Run bronze, silver, gold or all of them."""
    layers = ("bronze", "silver", "gold") if layer is Layer.all else (layer.value,)
    print_result(
        backend("pipeline.run").runs(
            loaded(configs), layers, not continuous, tuple(select or ()), lake, progress
        ),
        as_json,
    )


def plan(configs: Configs = Path("configs"), lake: SourceLake = None, as_json: Json = False) -> None:
    """Say what a run would read, which DDLs and how many rows it would apply. Changes nothing."""
    print_result(backend("readers.status").plan(loaded(configs), lake), as_json)


def status(
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    history: Annotated[
        int,
        typer.Option(
            "--history", min=0, metavar="N", help="Add the last N runs that did something or failed."
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Say how far each source and table is, and what holds it."""
    config = loaded(configs) if configs.is_dir() else None
    print_result(backend("readers.status").status(config, lake, history), as_json)


def epoch_raise(
    source: Source,
    why: Why,
    restored_to: Annotated[
        int | None, typer.Option("--restored-to", metavar="T", help="Changes above this TSO are void.")
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Begin a new epoch: the upstream is a restored or another cluster, or its binlog began anew."""
    print_result(backend("operations.epochs").raise_epoch(lake, source, why, restored_to), False)


def partitions_retire(
    source: Source,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[
        int, typer.Argument(min=0, help="Its partition, which the watermark no longer waits for.")
    ],
    why: Why,
    lake: Lake = "./lake",
) -> None:
    """Let the watermark no longer wait for a partition that nothing writes to."""
    print_result(backend("operations.epochs").retire_partition(lake, source, topic, partition, why), False)


def dead_letters_list(
    source: Annotated[str | None, typer.Option("--source", help="Only this source.")] = None,
    code: Annotated[str | None, typer.Option("--code", help="Only this code.")] = None,
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """List what could not be decoded, and where its bytes are."""
    print_result(backend("operations.epochs").list_dead_letters(lake, source, code), as_json)


def dead_letters_requeue(
    source: Source,
    code: Annotated[str | None, typer.Option("--code", help="Only this code.")] = None,
    lake: Lake = "./lake",
) -> None:
    """Decode dead letters again, after what was wrong is mended."""
    print_result(backend("operations.epochs").requeue_dead_letters(lake, source, code), False)


def dead_letters_dismiss(
    source: Source,
    why: Why,
    code: Annotated[str | None, typer.Option("--code", help="Only this code.")] = None,
    lake: Lake = "./lake",
) -> None:
    """Give up dead letters: they no longer keep a table from being exact."""
    print_result(backend("operations.epochs").dismiss_dead_letters(lake, source, code, why), False)


def rebuild(
    table: Table,
    lake: Lake = "./lake",
    at: Annotated[
        str | None, typer.Option("--at", metavar="T", help="Only compare: the state at a TSO or position.")
    ] = None,
    yes: Yes = False,
    why: Reason = "",
    as_json: Json = False,
) -> None:
    """Build a gold table anew from silver: say how it differs from the live one, and with --yes replace it in
    one commit.
    """
    print_result(backend("operations.rebuild").rebuild_table(lake, table, at, yes, why), as_json)


def rebuild_silver(
    source: Source, lake: Lake = "./lake", yes: Yes = False, why: Reason = "", as_json: Json = False
) -> None:
    """Decode all of bronze anew, beside the present silver; say how it differs, and with --yes
    switch to it.
    """
    print_result(backend("operations.rebuild").rebuild_silver(lake, source, yes, why), as_json)


def schema_import(
    file: Annotated[Path, typer.Argument(help="A file of CREATE TABLE statements.")],
    at: Annotated[str, typer.Option("--at", metavar="T", help="The TSO or position at which they hold.")],
    source: Annotated[str, typer.Option("--source", help="The source they belong to.")],
    lake: Lake = "./lake",
) -> None:
    """Supply the CREATE TABLE of tables whose own was never seen, and refold them."""
    print_result(
        backend("operations.epochs").import_schema(lake, source, file.read_text(encoding="utf-8"), at), False
    )


def schema_history(table: Table, lake: Lake = "./lake", as_json: Json = False) -> None:
    """List a table's DDL, in order, with what each statement did."""
    print_result(backend("operations.epochs").schema_history(lake, table), as_json)


def ddl_approve(
    table: Table,
    why: Why,
    instead: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="SQL", help="The statement to apply in its place, where it can't be read."
        ),
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Apply the DDL that holds a table; gold's next run goes on behind it."""
    print_result(backend("operations.ddl_decisions").decide(lake, table, "approve", why, instead), False)


def ddl_skip(table: Table, why: Why, lake: Lake = "./lake") -> None:
    """Ignore the DDL that holds a table: gold keeps its shape and rows, and its next run goes on
    behind it.
    """
    print_result(backend("operations.ddl_decisions").decide(lake, table, "skip", why), False)


def replay(
    source: Source,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FILE", help="A new recording, or the folder for a storage sink's files."
        ),
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", help="Publish to these brokers instead.")
    ] = None,
    to_topic: Annotated[
        str | None, typer.Option("--to-topic", help="The topic to publish to. Default: each record's own.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only records of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only records of this partition.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option("--offset", help="Only this offset, such as 7, or a range, such as 7-20 or 7-."),
    ] = None,
    incarnation: Annotated[
        str | None, typer.Option("--incarnation", help="Only this life of a topic that was created anew.")
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Give records of bronze back, unchanged, as a recording or into a topic. Nothing in the lake changes."""
    if (to is None) == (servers is None):
        raise ConfigError("replay: expected --to FILE, or --bootstrap-servers")
    bronze = backend("readers.bronze_records")
    chosen = bronze.chosen_records(topic, partition, offset, incarnation)
    print_result(bronze.replay(lake, source, chosen, to, servers, to_topic, {}), False)


def maintain(
    source: Annotated[str | None, typer.Option("--source", help="Only this source.")] = None,
    snapshots: Annotated[
        str,
        typer.Option(
            "--snapshots",
            metavar="DURATION",
            help="How long published states stay readable, such as 12h or 30d.",
        ),
    ] = "7d",
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """OPTIMIZE and VACUUM a lake's tables, so that every kept manifest and every replay still works."""
    from lakehouse.config.models import seconds_of

    print_result(
        backend("operations.maintain").maintain(lake, source, seconds_of(snapshots), progress), as_json
    )


def floor_raise(
    source: Source,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="The floor: a TSO or position up to the watermark."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="DURATION", help="The floor: so long ago, such as 90d."),
    ] = None,
    yes: Yes = False,
    why: Reason = "",
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """Fold silver's log below a moment together into one row per live row; what arrives below it later is
    refused.
    """
    from lakehouse.config.models import seconds_of

    seconds = None if older_than is None else seconds_of(older_than)
    print_result(backend("operations.retention").raise_floor(lake, source, at, seconds, yes, why), as_json)


def fidelity(
    table: Annotated[
        str | None, typer.Argument(metavar="[DB.TABLE]", help="The table; without it all.")
    ] = None,
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """Say which columns of gold can't hold every value of the source, what their companions hold, and what is
    left out.
    """
    print_result(backend("readers.lossy_columns").fidelity(lake, table), as_json)


COMMANDS: dict[str, Callable[..., None]] = {
    "fidelity": fidelity,
    "floor raise": floor_raise,
    "maintain": maintain,
    "ddl approve": ddl_approve,
    "ddl skip": ddl_skip,
    "replay": replay,
    "try": try_,
    "show": show,
    "run": run,
    "plan": plan,
    "status": status,
    "epoch raise": epoch_raise,
    "partitions retire": partitions_retire,
    "dead-letters list": dead_letters_list,
    "dead-letters requeue": dead_letters_requeue,
    "dead-letters dismiss": dead_letters_dismiss,
    "rebuild": rebuild,
    "rebuild silver": rebuild_silver,
    "schema import": schema_import,
    "schema history": schema_history,
}


def backend(module: str) -> Any:
    """A module of lakehouse.spark, imported now: it brings Spark, which takes a second."""
    return importlib.import_module(f"lakehouse.spark.{module}")


def loaded(configs: Path) -> Any:
    """The configuration; its warnings go to stderr."""
    from lakehouse.config.load import load, warnings

    config = load(configs)
    for warning in warnings(config):
        progress(f"warning: {warning}")
    return config


def progress(text: str) -> None:
    """One line of progress."""
    from lakehouse.reporting.logs import say

    say(text)


def print_result(result: Any, as_json: bool) -> None:
    """A result, item by item: as JSON, or as lines for people."""
    from lakehouse.cli.output import result_lines

    items: Iterable[Any] = (
        result if isinstance(result, list | tuple | Iterator) else () if result is None else (result,)
    )
    for item in items:
        print(json.dumps(item, default=str) if as_json else result_lines(item), flush=True)
