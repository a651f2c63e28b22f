"""The commands that read files, and a lake only where asked: validate, inspect, ddl, schema json, version."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse import __version__
from lakehouse.cli.options import DecoderOption, Format, Json, Lake, SourceLake, decoding
from lakehouse.cli.output import event_line, meaning_lines, print_all, print_problems
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.events import Message


def validate(
    folder: Annotated[
        Path, typer.Argument(envvar="LAKEHOUSE_CONFIGS", help="The folder with sources/ and tables/.")
    ] = Path("configs"),
    as_json: Json = False,
) -> None:
    """Show all problems of a configuration, each with file, line, column and how to fix it."""
    from lakehouse.config.load import check

    errors, warnings = check(folder)
    print_problems(folder, errors, warnings, as_json)
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
            help="The source's YAML, for format and options; for bronze also its name alone.",
        ),
    ] = None,
    option: DecoderOption = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Read bronze records of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Read bronze records of this partition.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", help="Read the bronze record at this offset, or a range such as 7-20 or 7-."
        ),
    ] = None,
    lake: SourceLake = None,
    as_json: Json = False,
) -> None:
    """Decode messages from a recording, from files or from bronze, and print their events."""
    if topic is None and partition is None and offset is None:
        whole = None if key or value else recording
        chosen, options = decoding(format, source, option, whole)
        events = events_of_files(recording, key, value, chosen, options=options, dumps=not as_json)
    elif source is None or any((recording, key, value, format, option)):
        raise ConfigError(
            "inspect: --topic, --partition and --offset read bronze, and go with --source and --lake only"
        )
    else:
        events = events_of_bronze(source, lake, topic, partition, offset=offset, dumps=not as_json)
    print_all(events, json.dumps if as_json else event_line)


def ddl(
    file: Annotated[
        Path | None, typer.Argument(help="SQL, or JSON lines with the member sql. Default, and -: stdin.")
    ] = None,
    as_json: Json = False,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="DB.TABLE", help="Also show their effect on this gold table as it is now."
        ),
    ] = None,
    lake: Lake = "./lake",
) -> None:
    """Explain what DDL statements mean, before they are run upstream."""
    from lakehouse.ddl.explain import answers

    with (Path("/dev/stdin") if file in (None, Path("-")) else file).open(encoding="utf-8") as lines:
        meanings = answers(lines)
        if table:
            from lakehouse.spark.operations.ddl_decisions import answers_for

            meanings = answers_for(lake, table, meanings)
        print_all(meanings, json.dumps if as_json else meaning_lines)


def schema_json(
    kind: Annotated[str, typer.Argument(help="source or table.")] = "source",
    to: Annotated[
        Path | None, typer.Option("--to", help="Write source.json and table.json into this folder.")
    ] = None,
) -> None:
    """Print the JSON Schema of the YAML files, for editors."""
    from lakehouse.config.schema import MODELS, schema_text, write

    if kind not in MODELS:
        raise ConfigError(f"schema json: expected source or table, got {kind}")
    if to is None:
        sys.stdout.write(schema_text(kind))
    else:
        print_all(write(to), str)


def version() -> None:
    """Print the version."""
    print(f"lakehouse {__version__}")


def events_of_files(
    recording: Path | None,
    key: Path | None,
    value: Path | None,
    format: str,
    options: dict[str, str],
    *,
    dumps: bool,
) -> Iterator[dict[str, Any]]:
    """The events of a recording, of a storage sink's folder, or of one message in files of its own."""
    from lakehouse.discovery.inspect import inspect_messages
    from lakehouse.discovery.read_input import read_input, shown_options

    is_there = recording is not None and (recording.is_file() or recording.is_dir())
    if recording is None or not is_there or key is not None or value is not None:
        return inspect_messages(messages_of(recording, key, value), format, options, dumps=dumps)
    options = shown_options(recording, format, options)
    return inspect_messages(read_input(recording, format, options), format, options, dumps=dumps)


def messages_of(recording: Path | None, key: Path | None, value: Path | None) -> Iterable["Message"]:
    """The messages of a recording or stdin, or the message in a key file and a value file."""
    from lakehouse.events import Message
    from lakehouse.sources.recording import read_recording

    if key is None and value is None:
        if recording is None and sys.stdin.isatty():
            raise ConfigError("inspect: expected a recording, got none; name a file, or give --value FILE")
        return read_recording(Path("/dev/stdin") if recording in (None, Path("-")) else recording)
    if recording is not None:
        raise ConfigError("inspect: expected a recording or --key and --value, got both")
    parts = [None if part is None else part.read_bytes() for part in (key, value)]
    return [Message("file", 0, 0, key=parts[0], value=parts[1])]


def events_of_bronze(
    source: Path,
    lake: str | None,
    topic: str | None,
    partition: int | None,
    offset: str | None,
    *,
    dumps: bool,
) -> Iterator[dict[str, Any]]:
    """The events of bronze records."""
    from lakehouse.spark.readers.bronze_records import chosen_records, inspect_bronze

    name, root = source_and_lake(source, lake)
    return inspect_bronze(root, name, chosen_records(topic, partition, offset), dumps=dumps)


def source_and_lake(source: Path, lake: str | None) -> tuple[str, str]:
    """A source's name and the root of its lake; `source` is its YAML or its name."""
    if source.suffix != ".yml":
        return str(source), lake or "./lake"
    from lakehouse.config.load import load_source, resolve_source

    own = resolve_source(load_source(source)).lake
    return source.stem, lake or (own.path if own else "./lake")
