"""The command line: one function per command, no logic. Heavy modules are imported inside the functions that
need them.

Results go to stdout, progress and errors to stderr. Exit codes: 0 ok, 1 failed, 2 bad usage or configuration.

A command is offered when its name stands in READY; the functions are here and in lakehouse/cli_*.py.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse.cli import quality_commands as cli_quality
from lakehouse.cli import run_commands as cli_pipeline
from lakehouse.cli import setup_commands as cli_local
from lakehouse.errors import ConfigError, LakehouseError

EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed, 2 bad usage or configuration. Results go to stdout, progress "
    "and errors to stderr."
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Format = Annotated[str | None, typer.Option("--format", help="The wire format, such as ticdc-open.")]
DecoderOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A decoder option of the format; may be repeated."),
]


def validate(
    folder: Annotated[
        Path, typer.Argument(envvar="LAKEHOUSE_CONFIGS", help="The folder with sources/ and tables/.")
    ] = Path("configs"),
    as_json: Json = False,
) -> None:
    """Show everything wrong in a configuration: file, line, column and what to do."""
    from lakehouse.config.load import check

    errors, warnings = check(folder)
    for severity, found in (("error", errors), ("warning", warnings)):
        for problem in found:
            print(
                json.dumps({"severity": severity, **problem._asdict()})
                if as_json
                else f"{severity}: {problem}"
            )
    if not as_json:
        print(f"{folder}: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}")
    raise typer.Exit(2 if errors else 0)


def inspect(
    recording: Annotated[
        Path | None,
        typer.Argument(help="A recording (JSON lines), or a storage sink's folder; - reads stdin."),
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="A file with one message's key.")] = None,
    value: Annotated[Path | None, typer.Option("--value", help="A file with one message's value.")] = None,
    format: Format = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            help="Take all settings from a configs/sources/*.yml; for bronze, the source's name will do.",
        ),
    ] = None,
    option: DecoderOption = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Read the source's bronze: records of this topic.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Records of this partition.")
    ] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", help="The record at this offset, or a range such as 7-20 or 7-.")
    ] = None,
    lake: cli_pipeline.SourceLake = None,
    as_json: Json = False,
) -> None:
    """Decode messages of a recording, of files or of bronze, and print their events."""
    from lakehouse.cli.output import event_line
    from lakehouse.discovery.inspect import inspect_messages

    as_text = json.dumps if as_json else event_line
    if topic is not None or partition is not None or offset is not None:
        if source is None or any((recording, key, value, format, option)):
            raise ConfigError(
                "inspect: --topic, --partition and --offset read bronze, and go with --source and --lake only"
            )
        print_all(of_bronze(source, lake, topic, partition, offset), as_text)
        return
    chosen, options = decoding(format, source, option)
    if (
        recording is not None
        and (recording.is_file() or recording.is_dir())
        and key is None
        and value is None
    ):
        from lakehouse.discovery.read_input import read_input, shown_options

        options = shown_options(recording, chosen, options)
        messages: Iterable[Any] = read_input(recording, chosen, options)
    else:
        messages = messages_of(recording, key, value)
    print_all(inspect_messages(messages, chosen, options), as_text)


def ddl(
    file: Annotated[
        Path | None, typer.Argument(help="SQL, or JSON lines with a member sql; - or nothing reads stdin.")
    ] = None,
    as_json: Json = False,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="DB.TABLE", help="Say too what they would do to this gold table as it is now."
        ),
    ] = None,
    lake: cli_pipeline.Lake = "./lake",
) -> None:
    """Say what DDL statements mean, before anyone runs them upstream."""
    from lakehouse.cli.output import meaning_lines
    from lakehouse.ddl.explain import answers

    with (Path("/dev/stdin") if file in (None, Path("-")) else file).open(encoding="utf-8") as lines:
        told = answers(lines)
        print_all(
            cli_pipeline.backend("operations.ddl_decisions").answers_for(lake, table, told)
            if table
            else told,
            json.dumps if as_json else meaning_lines,
        )


def schema_json(
    kind: Annotated[str, typer.Argument(help="source or table.")] = "source",
    to: Annotated[
        Path | None, typer.Option("--to", help="Write source.json and table.json into this folder instead.")
    ] = None,
) -> None:
    """Print the JSON Schema of a YAML, for editors."""
    from lakehouse.config.schema import MODELS, schema_text, write

    if kind not in MODELS:
        raise ConfigError(f"schema json: expected source or table, got {kind}")
    if to is None:
        sys.stdout.write(schema_text(kind))
    else:
        print_all(write(to), str)


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(f"lakehouse {installed('lakehouse')}")


COMMANDS: dict[str, Callable[..., None]] = {
    "validate": validate,
    "inspect": inspect,
    "ddl": ddl,
    "schema json": schema_json,
    "version": version,
    **cli_pipeline.COMMANDS,
    **cli_local.COMMANDS,
    **cli_quality.COMMANDS,
}
# What works today, in the order of --help. Adding a name offers its command.
READY = (
    "demo",
    "try",
    "show",
    "init",
    "doctor",
    "validate",
    "plan",
    "run",
    "status",
    "report",
    "metrics",
    "inspect",
    "produce",
    "ddl",
    "ddl approve",
    "ddl skip",
    "rebuild silver",
    "maintain",
    "floor raise",
    "fidelity",
    "epoch raise",
    "partitions retire",
    "dead-letters list",
    "dead-letters requeue",
    "dead-letters dismiss",
    "rejected list",
    "rejected requeue",
    "quality check",
    "quality suite",
    "rebuild",
    "replay",
    "schema import",
    "schema history",
    "schema json",
    "version",
)
GROUPS = {
    "schema": "Schemas: of the YAML files, and of the tables.",
    "epoch": "Epochs of a source.",
    "partitions": "Partitions of a source's topics.",
    "dead-letters": "What could not be decoded.",
    "floor": "Silver's retention floor.",
    "rebuild": "Build a gold table from silver again (`lakehouse rebuild DB.TABLE`), or silver from bronze.",
    "rejected": "Rows that an expectation keeps out of gold.",
    "quality": "Expectations, and runs of Great Expectations.",
    "ddl": "Say what DDL statements mean (`lakehouse ddl FILE`), and decide about one that holds a table.",
}
# what a group does where no command of its own is named
DEFAULT = {"ddl": "read", "rebuild": "table"}


class WithDefault(TyperGroup):
    """A group that is a command too: what is no command of the group goes to its own (DEFAULT)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else [DEFAULT[str(self.name)], *args])


def build(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands; a name of two words is a command of a group."""
    root = typer.Typer(
        name="lakehouse",
        callback=_global_options,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog=EXIT_CODES,
    )
    offered = list(names)
    groups: dict[str, typer.Typer] = {}
    for name in offered:
        group, _, command = name.rpartition(" ")
        if any(other.startswith(f"{name} ") for other in offered):
            group, command = name, DEFAULT[name]
        if group and group not in groups:
            both = group in DEFAULT
            groups[group] = typer.Typer(
                cls=WithDefault if both else None,
                no_args_is_help=not both,
                rich_markup_mode=None,
                help=GROUPS[group],
            )
            root.add_typer(groups[group], name=group)
        (groups[group] if group else root).command(command)(COMMANDS[name])
    return root


def _global_options(
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say more about what is done.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Say everything, and show tracebacks.")] = False,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="text|json",
            help="How progress and errors are written. $LAKEHOUSE_LOG_FORMAT says it too.",
        ),
    ] = None,
) -> None:
    """Exact Delta Lake tables from TiDB and MySQL change feeds."""
    from lakehouse.reporting import logs

    if log_format not in (None, *logs.FORMATS):
        raise ConfigError(f"--log-format {log_format}: expected text or json")
    if log_format is not None:
        os.environ[logs.VARIABLE] = log_format  # for the processes that we start, too
    logs.configure(logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING)


def main() -> None:
    """The console script: an error becomes one sentence on stderr and an exit code."""
    try:
        build(READY)()
    except Exception as error:
        sys.exit(_failed(error))


def _failed(error: Exception) -> int:
    from lakehouse.reporting.logs import say

    if logging.getLogger("lakehouse").isEnabledFor(logging.DEBUG):
        logging.getLogger("lakehouse").debug("failed", exc_info=error)
    if isinstance(error, LakehouseError):
        say(str(error), "error")
    elif isinstance(error, OSError) and error.strerror:
        say(f"{error.filename or 'input'}: {error.strerror}", "error")
    else:
        # Its text may quote what was read: only --debug shows it.
        say(f"internal error: {type(error).__name__}; `lakehouse --debug …` shows where", "error")
    return 2 if isinstance(error, ConfigError) else 1


def decoding(format: str | None, source: Path | None, option: list[str] | None) -> tuple[str, dict[str, str]]:
    """The format and the decoder's options, from a source's YAML or the command line, which wins."""
    from lakehouse.config.options import decoder_options

    said: dict[str, str] = {}
    if source is not None:
        from lakehouse.config.load import load_source, resolve_source

        loaded = resolve_source(load_source(source))
        said, format = loaded.decoder_options(), format or loaded.format
    if format is None:
        raise ConfigError("inspect: expected a format, got none; add --format NAME or --source FILE")
    return format, {**said, **decoder_options(format, dict(map(setting, option or ())))}


def of_bronze(
    source: Path, lake: str | None, topic: str | None, partition: int | None, offset: str | None
) -> Iterable[Any]:
    """The events of records that lie in bronze."""
    bronze = cli_pipeline.backend("readers.bronze_records")
    name, root = bronze_of(source, lake)
    return bronze.inspect_bronze(root, name, bronze.chosen_records(topic, partition, offset))  # type: ignore[no-any-return]


def bronze_of(source: Path, lake: str | None) -> tuple[str, str]:
    """A source's name and the root of its lake, from its YAML or its name alone."""
    if source.suffix != ".yml":
        return str(source), lake or "./lake"
    from lakehouse.config.load import load_source, resolve_source

    own = resolve_source(load_source(source)).lake
    return source.stem, lake or (own.path if own else "./lake")


def setting(text: str, flag: str = "--option") -> tuple[str, str]:
    """NAME=VALUE as its two parts."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{flag} {name}: expected NAME=VALUE")
    return name, value


def messages_of(recording: Path | None, key: Path | None, value: Path | None) -> Iterable[Any]:
    """The messages that `inspect` is asked to read."""
    from lakehouse.events import Message
    from lakehouse.sources.recording import read_recording

    if key is None and value is None:
        if recording is None and sys.stdin.isatty():
            raise ConfigError("inspect: expected a recording, got none; name a file, or give --value FILE")
        return read_recording(Path("/dev/stdin") if recording in (None, Path("-")) else recording)
    if recording is not None:
        raise ConfigError("inspect: expected a recording or --key and --value, got both")
    parts = [None if part is None else part.read_bytes() for part in (key, value)]
    return [Message("file", 0, 0, parts[0], parts[1])]


def print_all(items: Iterable[Any], as_text: Callable[[Any], str]) -> None:
    """Each item on its line."""
    for item in items:
        print(as_text(item))


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


if __name__ == "__main__":
    main()
