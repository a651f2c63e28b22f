"""The commands that run the layers and show their results: try, show, run, plan, status.

Each reads its options, calls one function, and prints what it returns. Spark is imported when a command runs,
never for --help.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import (
    At,
    Configs,
    Consistency,
    DecoderOption,
    Json,
    Lake,
    Layer,
    Select,
    ShownLayer,
    SourceLake,
    decoding,
    loaded,
    loaded_if_there,
)
from lakehouse.cli.output import print_result, progress
from lakehouse.errors import ConfigError


def try_(
    path: Annotated[Path, typer.Argument(help="A recording, or the folder of a storage sink.")],
    format: Annotated[str, typer.Option("--format", help="The wire format, such as ticdc-open.")],
    lake: Lake = "./lake",
    consistency: Annotated[
        Consistency,
        typer.Option("--consistency", help="Publish up to the watermark (resolved), or all changes."),
    ] = Consistency.resolved,
    option: DecoderOption = None,
    as_json: Json = False,
) -> None:
    """Run a recording through all three layers into a lake, without YAML. A second run adds nothing."""
    from lakehouse.spark.pipeline.try_recording import try_recording

    name, options = decoding(format, None, option)
    result = try_recording(path, name, options, lake, consistency=consistency.value, progress=progress)
    print_result(result, as_json)


def show(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[DB.TABLE]",
            help="The table's name upstream; SOURCE:DB.TABLE where several sources have it.",
        ),
    ] = None,
    lake: Lake = "./lake",
    layer: Annotated[
        ShownLayer, typer.Option("--layer", help="gold: the table; silver: its changes.")
    ] = ShownLayer.gold,
    at: At = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="The maximum number of rows.")] = None,
    as_json: Json = False,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All gold tables that are not dropped; needs --json and --to.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="With --all: one file per table; with several --at, one folder per T.",
        ),
    ] = None,
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
        from lakehouse.spark.readers.show import show_table

        show_table(
            lake, table, layer.value, ats[0] if ats else None, limit=limit, as_json=as_json, out=sys.stdout
        )


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

    layers = ("bronze", "silver", "gold") if layer is Layer.all else (layer.value,)
    outcomes = runs(
        loaded(configs), layers, not continuous, tuple(select or ()), lake=lake, progress=progress
    )
    print_result(outcomes, as_json)


def plan(configs: Configs = Path("configs"), lake: SourceLake = None, as_json: Json = False) -> None:
    """Show what a run would read, and how many DDL statements and rows it would apply. Changes nothing."""
    from lakehouse.spark.readers import status as reader

    print_result(reader.plan(loaded(configs), lake), as_json)


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
    from lakehouse.spark.readers import status as reader

    print_result(reader.status(loaded_if_there(configs), lake, history), as_json)
