"""The commands that run the layers and show their results: try, show, run, plan, status.

Each reads its options, calls one function, and prints what it returns. Spark is imported when a command runs,
never for --help.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import (
    At,
    Configs,
    Consistency,
    DecoderOption,
    Format,
    Json,
    Lake,
    Layer,
    Select,
    ShownLayer,
    Source,
    SourceLake,
    configured,
    decoding,
    loaded,
    loaded_if_there,
)
from lakehouse.cli.output import print_all, print_as, print_parts, print_result, print_rows, progress, working
from lakehouse.cli.views import command, views_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.config.load import Config


def try_(
    path: Annotated[Path, typer.Argument(help="A recording, or the folder of a storage sink.")],
    format: Format = None,
    lake: Lake = "./lake",
    consistency: Annotated[
        Consistency,
        typer.Option("--consistency", help="Publish up to the watermark (resolved), or all changes."),
    ] = Consistency.resolved,
    option: DecoderOption = None,
    as_json: Json = False,
) -> None:
    """Run a recording through all three layers into a lake, without YAML. A second run adds nothing."""
    from lakehouse.formats import order_of
    from lakehouse.spark.pipeline.try_recording import try_recording

    name, options = decoding(format, None, option, path)
    with working():
        result = try_recording(path, name, options, lake, consistency=consistency.value, progress=progress)
    print_outcomes([result], as_json, {result["source"]: order_of(name, options)}, lake=lake)


ShownTable = Annotated[
    str | None,
    typer.Argument(
        metavar="[DB.TABLE]",
        help="The table's name upstream; SOURCE:DB.TABLE where several sources have it.",
    ),
]
LayerToShow = Annotated[ShownLayer, typer.Option("--layer", help="gold: the table; silver: its changes.")]
Limit = Annotated[int | None, typer.Option("--limit", min=0, help="The maximum number of rows.")]
AllTables = Annotated[
    bool, typer.Option("--all", help="All gold tables that are not dropped; needs --json and --to.")
]
ToFolder = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="FOLDER",
        help="With --all: one file per table; with several --at, one folder per T.",
    ),
]


def show(
    table: ShownTable = None,
    lake: Lake = "./lake",
    layer: LayerToShow = ShownLayer.gold,
    at: At = None,
    limit: Limit = None,
    as_json: Json = False,
    all_tables: AllTables = False,
    to: ToFolder = None,
) -> None:
    """Print a table's rows, in key order."""
    ats = at or []
    if all_tables or to is not None:
        whole = table is None and limit is None and layer is ShownLayer.gold
        if to is None or not (all_tables and as_json and whole):
            raise ConfigError(
                "show: --all goes with --json and --to FOLDER, and with no table, --layer or --limit"
            )
        from lakehouse.spark.readers.show import show_all

        print_result([str(file) for file in show_all(lake, to, ats)], as_json=False)
    elif table is None or len(ats) > 1:
        raise ConfigError("show: expected one DB.TABLE and at most one --at; or --all --json --to FOLDER")
    else:
        from lakehouse.reporting.text.rows import change_rows
        from lakehouse.spark.readers.show import show_table

        with working():
            shown = show_table(lake, table, layer.value, ats[0] if ats else None)
        lines = islice(shown.lines, limit)
        if as_json:
            print_all(lines, str)
        else:
            rows = map(json.loads, lines)
            print_rows(rows if layer is ShownLayer.gold else change_rows(rows, shown.order))


def run(
    layer: Annotated[Layer, typer.Argument(help="The layer to run, or all.")],
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous/--once", help="Run until stopped, or until all present input is processed."
        ),
    ] = False,
    select: Select = None,
    as_json: Json = False,
) -> None:
    """Run bronze, silver, gold or all layers."""
    from lakehouse.spark.pipeline.run import runs
    from lakehouse.spark.readers.status import orders

    config = loaded(configs)
    layers = ("bronze", "silver", "gold") if layer is Layer.all else (layer.value,)
    outcomes = runs(config, layers, not continuous, tuple(select or ()), lake=lake, progress=progress)
    with nullcontext() if continuous else working():
        print_outcomes(outcomes, as_json, orders(config, lake), config, lake=lake)


def import_(
    source: Source,
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="The dump: a folder of Dumpling or mydumper, or mysqldump's one file."
        ),
    ],
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="The dump's TSO or FILE:OFFSET, where it does not tell it."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone", help="The zone of its TIMESTAMPs, where it does not tell it, such as +08:00."
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Read the dump whole and write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Import tables that were there before the feed, from a dump of mysqldump, mydumper or Dumpling."""
    from lakehouse.spark.pipeline.import_dump import Given, check_dump, import_dump

    found, given = configured("import", configs, source, lake), Given(folder, at, time_zone)
    with working():
        if check:
            result: Any = check_dump(found, given, progress)
        else:
            result = import_dump(found, given, progress)
    print_result(result, as_json, then=None if check else command("run all", lake))


def snapshot(
    source: Source,
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables",
            metavar="DB.TABLE",
            help="A table, or several by a pattern such as 'shop.*'; repeatable. Default: those of its "
            "YAMLs, or all of the databases that the feed tells of.",
        ),
    ] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Only tables that gold calls incomplete.")
    ] = False,
    parallel: Annotated[
        int, typer.Option("--parallel", min=1, max=64, metavar="N", help="Connections that read at once.")
    ] = 2,
    rows_per_second: Annotated[
        int | None, typer.Option("--rows-per-second", min=1, metavar="N", help="At most, of all together.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Do not go on with a run that did not finish: begin anew.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="List the tables, and read and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read tables that were there before the feed from the source's database, while they change."""
    from lakehouse.spark.pipeline.snapshot_tables import Asked, list_tables, snapshot_tables

    found = configured("snapshot", configs, source, lake)
    asked = Asked(tuple(tables or ()), incomplete, parallel, rows_per_second=rows_per_second, again=again)
    with working():
        result: Any = list_tables(found, asked) if check else snapshot_tables(found, asked, progress)
    result = _in_lines(result) if check and not as_json else result
    print_result(result, as_json, then=None if check else command("run all", lake))


def _in_lines(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Listed tables as a line each, however many there are; the server says about how many rows they have."""
    names = {"table": "table", "rows": "about rows", "bytes": "bytes"}
    return {"tables": [{names[name]: value for name, value in one.items()} for one in tables]}


def print_outcomes(
    outcomes: Iterable[dict[str, Any]],
    as_json: bool,
    orders: Mapping[str, str],
    config: "Config | None" = None,
    *,
    lake: str | None,
) -> None:
    """Print what a run has done, source by source as they end."""
    if as_json:
        return print_result(outcomes, as_json=True)
    from lakehouse.reporting.text.runs import outcome_parts

    for outcome in outcomes:
        print_parts(outcome_parts(outcome, views_of([outcome], orders, config, lake=lake)[outcome["source"]]))
    return None


def plan(configs: Configs = Path("configs"), lake: SourceLake = None, as_json: Json = False) -> None:
    """Show what a run would read, and how many DDL statements and rows it would apply. Changes nothing."""
    from lakehouse.reporting.text.runs import plan_parts
    from lakehouse.spark.readers import status as reader

    config = loaded(configs)
    with working():
        print_as(reader.plan(config, lake), as_json, plan_parts)


def status(
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    history: Annotated[
        int,
        typer.Option(
            "--history",
            min=0,
            metavar="N",
            help="Also show the last N runs that changed something or failed.",
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Show the progress of each source and table, and what stops it."""
    from lakehouse.reporting.text.status import status_parts
    from lakehouse.spark.readers import status as reader

    config = loaded_if_there(configs)
    with working():
        entries = reader.status(config, lake, history)
        views = views_of(entries, reader.orders(config, lake), config, lake=lake)
    print_as(entries, as_json, lambda found: status_parts(found, views))
