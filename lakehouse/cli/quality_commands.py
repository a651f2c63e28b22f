"""The commands about quality: rejected rows, suites, and validation with Great Expectations."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import Configs, Json, Lake, SourceLake, Table, loaded
from lakehouse.cli.output import print_as, print_result, working
from lakehouse.cli.views import lake_view
from lakehouse.errors import ConfigError

To = Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The folder for suites and pages.")]


def rejected_list(
    table: Annotated[str | None, typer.Argument(metavar="[DB.TABLE]", help="Only this table.")] = None,
    lake: Lake = "./lake",
    all_rows: Annotated[
        bool, typer.Option("--all", help="Also those that were changed or deleted upstream since.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the rows that fail an expectation and are kept out of gold: why, and where their bytes are."""
    from lakehouse.reporting.text.lists import rejected_parts
    from lakehouse.spark.operations import rejected_rows

    with working():
        rows = rejected_rows.list_rejected(lake, table, all_rows)
    print_as(rows, as_json, lambda found: rejected_parts(found, lake_view(lake)))


def rejected_requeue(
    table: Table,
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Accept the rows that fail the present suite too, and continue a stopped table."
        ),
    ] = False,
    why: Annotated[
        str | None, typer.Option("--why", help="With --accept: the reason, which is recorded.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a table's rows again, after the suite was changed, and rebuild the table."""
    from lakehouse.spark.operations import rejected_rows

    with working():
        requeued = rejected_rows.requeue(loaded(configs), table, lake, accept, why=why)
    print_result(requeued, as_json)


def quality_check(to: To = Path("quality"), lake: Lake = "./lake", as_json: Json = False) -> None:
    """Validate the published tables, also as a whole, with Great Expectations, and build its Data Docs."""
    from lakehouse.reporting.text.lists import check_parts
    from lakehouse.spark.operations import data_docs

    with working():
        checked = data_docs.check_lake(lake, to)
    print_as(checked, as_json, check_parts)


def quality_suite(
    table: Table,
    configs: Configs = Path("configs"),
    from_suite: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="A suite that was edited in Great Expectations, to print as YAML."
        ),
    ] = None,
) -> None:
    """Print a table's expectations as a Great Expectations suite, or an edited suite as YAML."""
    from lakehouse.quality.suite import from_gx, gx_suite, suite_of

    if from_suite is not None:
        import yaml

        entries = from_gx(json.loads(from_suite.read_text(encoding="utf-8")))
        return print(yaml.safe_dump({"quality": entries}, sort_keys=False, allow_unicode=True), end="")
    config = loaded(configs)
    found = [
        entry
        for entry in config.tables.values()
        if entry.quality
        and {table, table.removeprefix(f"{entry.source}:")} & set(map(".".join, entry.source_tables))
    ]
    if not found:
        raise ConfigError(f"{table}: expected a table with `quality:` in {configs / 'tables'}, found none")
    if len(found) > 1:
        names = ", ".join(entry.source for entry in found)
        raise ConfigError(
            f"{table}: expected the table of one source, {names} have one; write {found[0].source}:{table}"
        )
    suite = suite_of(check.model_dump() for check in found[0].quality)
    return print(json.dumps(gx_suite(table, suite), indent=2))
