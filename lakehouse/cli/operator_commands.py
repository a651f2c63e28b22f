"""The commands for operators: DDL decisions, epochs, dead letters, rebuilds, retention, maintenance.

Each calls one function of lakehouse.spark and prints what it returns. Spark is imported when a command runs,
never for --help.
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import (
    Configs,
    Json,
    KafkaOption,
    Lake,
    OnlyCode,
    OnlySource,
    Reason,
    Source,
    SourceLake,
    Table,
    Why,
    Yes,
    configured,
    kafka_secrets,
    share,
)
from lakehouse.cli.output import print_as, print_result, progress, working
from lakehouse.cli.views import command, lake_view
from lakehouse.errors import ConfigError


def ddl_approve(
    table: Table,
    why: Why,
    instead: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="SQL", help="The statement to apply instead, where the original can't be parsed."
        ),
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Apply the DDL statement that stops a table; gold's next run continues after it."""
    from lakehouse.spark.operations.ddl_decisions import decide

    with working():
        decided = decide(lake, table, "approve", why, instead=instead)
    print_result(decided, as_json=False, then=command("run gold", lake))


def ddl_skip(table: Table, why: Why, lake: Lake = "./lake") -> None:
    """Ignore the DDL statement that stops a table: gold keeps its columns and rows; its next run continues
    after it.
    """
    from lakehouse.spark.operations.ddl_decisions import decide

    with working():
        decided = decide(lake, table, "skip", why)
    print_result(decided, as_json=False, then=command("run gold", lake))


def audit(
    source: OnlySource = None,
    layers: Annotated[
        bool, typer.Option("--layers-only", help="Compare bronze and silver; leave out the folds of gold.")
    ] = False,
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """Hold bronze, silver and gold against each other over all that there is, and tell what does not add up:
    records that batches counted and bronze lacks, changes that silver lost, gold rows that silver's log does
    not give, changes that do not fit the rows before them. Exit code 1 where something does not. Changes
    nothing.
    """
    from lakehouse.reporting.text.lists import audit_parts
    from lakehouse.spark.operations.audit import audit as operation

    with working():
        found = list(operation(lake, source, progress, fold=not layers))
    print_as(found, as_json, audit_parts)
    if any(each["findings"] for each in found):
        raise typer.Exit(1)


OnlyTables = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="DB.TABLE", help="Only this table; may be repeated."),
]
Sample = Annotated[
    str,
    typer.Option("--sample", metavar="SHARE", help="A share of the rows, such as 1%; another one each time."),
]
KeepValues = Annotated[
    bool, typer.Option("--values", help="Keep the values of cells that differ, not the keys' hashes alone.")
]
Repair = Annotated[
    bool,
    typer.Option(
        "--repair",
        help="Mend the tables that differ, and no other: gold from what was published or from silver, "
        "else its rows that differ from the database, or where they alone can't be read all of it.",
    ),
]
Wait = Annotated[
    str, typer.Option("--wait", metavar="DURATION", help="How long to wait for the feed to pass a place.")
]


def verify(
    source: Source,
    tables: OnlyTables = None,
    sample: Sample = "100%",
    values: KeepValues = False,
    repair: Repair = False,
    wait: Wait = "2m",
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Connections that read at a time.")] = 2,
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    as_json: Json = False,
) -> None:
    """Compare gold with the source's own database, row by row, while both go on: rows that differ, that gold
    lacks, and that only gold has. They are kept in ops.<source>_differences. Exit code 1 where a row differs,
    with --repair where one can't be mended.
    """
    from lakehouse.config.load import database_settings
    from lakehouse.config.value_types import seconds_of
    from lakehouse.reporting.text.lists import verify_parts
    from lakehouse.spark.pipeline.repair_tables import is_wrong, verified
    from lakehouse.spark.verification.looks import Compared, Options

    found = configured("verify", configs, source, lake)
    options = Options(
        tuple(tables or ()),
        sample=share(sample),
        values=values,
        wait=seconds_of("--wait", wait),
        parallel=parallel,
    )
    asked = Compared(found, database_settings(found.config), options, progress)
    with working():
        entries = verified(asked, repair=repair)
    print_as(entries, as_json, lambda told: verify_parts(told, command("run all", lake)))
    if any(map(is_wrong, entries)):
        raise typer.Exit(1)


def rebuild(
    table: Table,
    lake: Lake = "./lake",
    at: Annotated[
        str | None, typer.Option("--at", metavar="T", help="Only compare, as of this TSO or position.")
    ] = None,
    yes: Yes = False,
    why: Reason = "",
    as_json: Json = False,
) -> None:
    """Rebuild a gold table from silver, show how it differs from the published one, and with --yes replace
    that in one commit.
    """
    from lakehouse.spark.operations.rebuild import rebuild_table

    take_over = (
        None if yes or at is not None else command(f"rebuild {shlex.quote(table)} --yes --why …", lake)
    )
    with working():
        difference = rebuild_table(lake, table, at, yes, why=why, progress=progress)
    print_result(difference, as_json, take_over)


def rebuild_silver(
    source: Source, lake: Lake = "./lake", yes: Yes = False, why: Reason = "", as_json: Json = False
) -> None:
    """Decode all of bronze again into a new generation of silver, show how it differs from the present one,
    and with --yes switch to it.
    """
    from lakehouse.spark.operations import rebuild as operation

    words = "run gold" if yes else f"rebuild silver {source} --yes --why …"
    with working():
        difference = operation.rebuild_silver(lake, source, yes, why=why, progress=progress)
    print_result(difference, as_json, command(words, lake))


def maintain(
    source: OnlySource = None,
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
    """OPTIMIZE and VACUUM a lake's tables; manifests within --snapshots and replays stay readable."""
    from lakehouse.config.value_types import seconds_of
    from lakehouse.spark.operations import maintain as operation

    with working():
        outcomes = operation.maintain(lake, source, seconds_of("--snapshots", snapshots), progress)
    print_result(outcomes, as_json)


def floor_raise(
    source: Source,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="The new floor: a TSO or position, at most the watermark."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="DURATION", help="The new floor as an age, such as 90d."),
    ] = None,
    yes: Yes = False,
    why: Reason = "",
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """Compact silver's changes below a position into one row per existing row; changes that arrive below it
    later are refused.
    """
    from lakehouse.config.value_types import seconds_of
    from lakehouse.spark.operations import retention

    if (at is None) == (older_than is None):
        raise ConfigError("floor raise: expected --at T, or --older-than DURATION")
    seconds = None if older_than is None else seconds_of("--older-than", older_than)
    with working():
        outcome = retention.raise_floor(lake, source, at, seconds, yes=yes, why=why)
    moment = f"--older-than {older_than}" if at is None else f"--at {shlex.quote(at)}"
    apply = command(f"floor raise {source} {moment} --yes --why …", lake)
    print_result(outcome, as_json, None if yes else apply)


def fidelity(
    table: Annotated[
        str | None, typer.Argument(metavar="[DB.TABLE]", help="The table. Default: all.")
    ] = None,
    lake: Lake = "./lake",
    as_json: Json = False,
) -> None:
    """Show which columns of gold can't hold every value of the source, what their companion columns hold, and
    which columns are left out.
    """
    from lakehouse.reporting.text.lists import fidelity_parts
    from lakehouse.spark.readers import lossy_columns

    with working():
        found = lossy_columns.fidelity(lake, table)
    print_as(found, as_json, fidelity_parts)


def epoch_raise(
    source: Source,
    why: Why,
    restored_to: Annotated[
        int | None,
        typer.Option(
            "--restored-to",
            metavar="T",
            help="The TSO of the backup; changes above it are void. Bronze has landed all messages of the "
            "old cluster, and none of the new one.",
        ),
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Begin a new epoch: the upstream was restored or replaced, or its binlog was reset."""
    from lakehouse.spark.operations import epochs

    with working():
        begun = epochs.raise_epoch(lake, source, why, restored_to)
    print_result(begun, as_json=False, then=command("run all", lake))


def partitions_retire(
    source: Source,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[int, typer.Argument(min=0, help="The partition's number.")],
    why: Why,
    lake: Lake = "./lake",
) -> None:
    """Exclude a partition that nothing writes to from the watermark."""
    from lakehouse.spark.operations import epochs

    with working():
        retired = epochs.retire_partition(lake, source, topic, partition, why=why)
    print_result(retired, as_json=False, then=command("run gold", lake))


def dead_letters_list(
    source: OnlySource = None, code: OnlyCode = None, lake: Lake = "./lake", as_json: Json = False
) -> None:
    """List messages and rows that could not be decoded, and where their bytes are."""
    from lakehouse.reporting.text.lists import letter_parts
    from lakehouse.spark.operations import dead_letters

    with working():
        letters = dead_letters.list_dead_letters(lake, source, code)
    print_as(letters, as_json, lambda found: letter_parts(found, lake_view(lake)))


def dead_letters_requeue(source: Source, code: OnlyCode = None, lake: Lake = "./lake") -> None:
    """Decode dead letters again, after the cause is fixed."""
    from lakehouse.spark.operations import dead_letters

    with working():
        requeued = dead_letters.requeue_dead_letters(lake, source, code)
    then = f"dead-letters list --source {source}" if requeued.get("dead") else "run gold"
    print_result(requeued, as_json=False, then=command(then, lake))


def dead_letters_dismiss(source: Source, why: Why, code: OnlyCode = None, lake: Lake = "./lake") -> None:
    """Dismiss dead letters: they no longer keep their tables from being exact."""
    from lakehouse.spark.operations import dead_letters

    with working():
        dismissed = dead_letters.dismiss_dead_letters(lake, source, code, why)
    print_result(dismissed, as_json=False, then=command("run gold", lake))


def replay(
    source: Source,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="The recording to write, or a folder for a sink's files."),
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", help="Publish to these brokers, as host:port.")
    ] = None,
    to_topic: Annotated[
        str | None, typer.Option("--to-topic", help="The topic to publish to. Default: each record's own.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only records of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only records of this partition.")
    ] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", help="Only this offset, such as 7, or a range, as 7-20 or 7-.")
    ] = None,
    incarnation: Annotated[
        str | None, typer.Option("--incarnation", help="Only this incarnation of a topic created again.")
    ] = None,
    kafka: KafkaOption = None,
    lake: Lake = "./lake",
) -> None:
    """Write bronze records, unchanged, to a recording or a topic. Nothing in the lake changes."""
    if (to is None) == (servers is None):
        raise ConfigError("replay: expected --to FILE, or --bootstrap-servers")
    if to is not None and (to_topic or kafka):
        raise ConfigError("replay: --to-topic and --kafka go with --bootstrap-servers, and not with --to")
    options = kafka_secrets(kafka)
    from lakehouse.spark.readers import bronze_records

    chosen = bronze_records.chosen_records(topic, partition, offset, incarnation)
    with working():
        told = bronze_records.replay(
            lake, source, chosen, to, servers=servers, to_topic=to_topic, options=options
        )
    print_result(told, as_json=False)


def schema_import(
    file: Annotated[Path, typer.Argument(help="A file of CREATE TABLE statements.")],
    at: Annotated[
        str, typer.Option("--at", metavar="T", help="The TSO or position at which they are valid.")
    ],
    source: Annotated[str, typer.Option("--source", help="The source of these tables.")],
    lake: Lake = "./lake",
) -> None:
    """Import CREATE TABLE statements that the feed never sent; gold's next run rebuilds these tables."""
    from lakehouse.spark.operations import schemas

    with working():
        records = schemas.import_schema(lake, source, file.read_text(encoding="utf-8"), at)
    print_result(records, as_json=False, then=command("run gold", lake))


def schema_history(table: Table, lake: Lake = "./lake", as_json: Json = False) -> None:
    """List a table's DDL statements in order, each with its effect."""
    from lakehouse.reporting.text.lists import history_parts
    from lakehouse.spark.operations import schemas

    with working():
        history = schemas.schema_history(lake, table)
    print_as(history, as_json, history_parts)
