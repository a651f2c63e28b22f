"""The options and arguments that several commands share, and the functions that read them."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.output import progress
from lakehouse.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.config.load import Config
    from lakehouse.spark.source import Source as OpenedSource


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
        "--lake",
        envvar="LAKEHOUSE_LAKE",
        help="The lake's root folder. Default: from the source's YAML, else ./lake.",
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
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="The wire format, such as ticdc-open. Default: detected from the first messages."
    ),
]
DecoderOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="A decoder option of the format; may be repeated."),
]
_KAFKA_HELP = "A kafka.* option, for SASL and SSL; secrets as ${env:NAME}. May be repeated."
KafkaOption = Annotated[list[str] | None, typer.Option("--kafka", metavar="NAME=VALUE", help=_KAFKA_HELP)]
# `produce` had it as --option first
ProduceOption = Annotated[
    list[str] | None, typer.Option("--kafka", "--option", metavar="NAME=VALUE", help=_KAFKA_HELP)
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="T", help="The state as of a TSO or position, at most the watermark."),
]
Source = Annotated[str, typer.Argument(help="The source's name.")]
Table = Annotated[
    str,
    typer.Argument(
        metavar="DB.TABLE", help="The table's name upstream; SOURCE:DB.TABLE where several sources have it."
    ),
]
OnlySource = Annotated[str | None, typer.Option("--source", help="Only this source.")]
OnlyCode = Annotated[str | None, typer.Option("--code", help="Only this error code.")]
Why = Annotated[str, typer.Option("--why", help="The reason, which is recorded.")]
Reason = Annotated[str, typer.Option("--why", help="The reason, which is recorded.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Apply the change; without it, only show what would change.")
]


def loaded(configs: Path) -> "Config":
    """The configuration; its warnings go to stderr."""
    from lakehouse.config.load import load, warnings

    config = load(configs)
    for warning in warnings(config):
        progress(f"warning: {warning}")
    return config


def configured(command: str, configs: Path, source: str, lake: str | None) -> "OpenedSource":
    """A configured source, and the lake that a command is given instead of its own."""
    from lakehouse.spark.source import source_of

    config = loaded(configs)
    if source not in config.sources:
        raise ConfigError(
            f"{command}: expected a configured source, got {source}; {did_you_mean(source, config.sources)}"
        )
    return source_of(config, source, lake)


def loaded_if_there(configs: Path) -> "Config | None":
    """The configuration, or None where there is no such folder."""
    return loaded(configs) if configs.is_dir() else None


def decoding(
    format: str | None, source: Path | None, option: list[str] | None, recording: Path | None
) -> tuple[str, dict[str, str]]:
    """The format and the decoder's options, from a source's YAML or the command line, which wins. Without
    either the format is the one that the recording's first messages have.
    """
    from lakehouse.config.options import decoder_options

    configured: dict[str, str] = {}
    if source is not None:
        from lakehouse.config.load import load_source, resolve_source

        yaml = resolve_source(load_source(source))
        configured, format = yaml.decoder_options(), format or yaml.format
    if format is None:
        format = _detected(recording)
    return format, {**configured, **decoder_options(format, dict(map(setting, option or ())))}


def _detected(recording: Path | None) -> str:
    if recording is None or str(recording) == "-":
        raise ConfigError("inspect: expected a format, got none; add --format NAME or --source FILE")
    if not (recording.is_file() or recording.is_dir()):
        raise ConfigError(f"{recording}: expected a recording or the folder of a storage sink, found neither")
    from lakehouse.discovery.read_input import detected_format

    guess = detected_format(recording)
    read = f", which reads {guess.read} of the first {guess.sampled} messages" if guess.sampled else ""
    progress(f"{recording}: taken for {guess.format}{read}; --format names another")
    return guess.format


def setting(text: str, flag: str = "--option") -> tuple[str, str]:
    """NAME=VALUE as its two parts."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{flag} {name}: expected NAME=VALUE")
    return name, value


def kafka_secrets(given: list[str] | None) -> "Mapping[str, str]":
    """The options of --kafka with their secrets, for a client; a ConfigError names one without a value."""
    from lakehouse.config.secrets import resolve_secrets

    return resolve_secrets(dict(setting(text, "--kafka") for text in given or ()))


def share(text: str) -> float:
    """A percentage such as 1% as a number up to 1."""
    number = text.removesuffix("%")
    try:
        found = float(number) / 100
    except ValueError:
        found = 0.0
    if text == number or not 0 < found <= 1:
        raise ConfigError(f"--sample {text}: expected a share such as 1%, up to 100%")
    return found
