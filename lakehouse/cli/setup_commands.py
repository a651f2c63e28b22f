"""The commands around the pipeline: what a newcomer runs first, and what looks at a machine or a lake."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse.cli.run_commands import Configs, Json, Lake, SourceLake, loaded, print_result, progress
from lakehouse.errors import ConfigError

Servers = Annotated[str, typer.Option("--bootstrap-servers", help="The brokers, as host:port.")]


def demo(
    lake: Lake = "./lake",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The embedded broker's port on 127.0.0.1.")
    ] = 39092,
    as_json: Json = False,
) -> None:
    """Start an embedded Kafka broker, publish a recorded stream, run all layers, and show what came out."""
    print_result(_local("demo.run").run_demo(lake, port, progress), as_json)


def produce(
    recording: Annotated[Path, typer.Argument(help="The recording (JSON lines).")],
    topic: Annotated[
        str | None, typer.Option("--topic", help="The topic. Default: the recording's own.")
    ] = None,
    servers: Servers = "127.0.0.1:9092",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KAFKA.NAME=VALUE",
            help="A Kafka option, such as kafka.security.protocol=SSL.",
        ),
    ] = None,
) -> None:
    """Publish a recording to a topic, partition by partition."""
    from lakehouse.cli.main import setting

    options = dict(map(setting, option or ()))
    print_result(
        _local("sources.kafka_produce").produce(recording, servers, topic, progress, options=options), False
    )


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to write sources/ and tables/ into.")] = Path(
        "configs"
    ),
    format: Annotated[
        str | None, typer.Option("--format", help="The wire format. Default: what the messages look like.")
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", help="The brokers, for a topic.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The topic to look at; several with commas, or a regular expression."),
    ] = None,
    storage: Annotated[
        str | None, typer.Option("--storage", help="The storage sink's folder to look at.")
    ] = None,
    recording: Annotated[Path | None, typer.Option("--recording", help="The recording to look at.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The source's name. Default: after what is looked at.")
    ] = None,
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka",
            metavar="NAME=VALUE",
            help="A kafka.* option, for SASL and SSL; secrets as ${env:NAME}. May be repeated.",
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="FOLDER",
            help="Write a Databricks bundle into this folder instead: docs/databricks.md.",
        ),
    ] = None,
) -> None:
    """Write the YAML of a source and its tables, by looking at a topic, a folder or a recording. Nothing is
    overwritten.
    """
    from lakehouse.cli.main import setting

    if bundle is not None:
        return print_result(
            [{"files": [str(path) for path in _local("databricks.bundle").write_bundle(bundle)]}], False
        )
    if sum(given is not None for given in (topic, storage, recording)) != 1 or (topic is None) != (
        servers is None
    ):
        raise ConfigError("init: expected --topic with --bootstrap-servers, or --storage, or --recording")
    options = dict(setting(text, "--kafka") for text in kafka or ())
    write = _local("discovery.write_config").init
    done = write(
        folder,
        format,
        servers,
        topic,
        storage,
        progress,
        recording=recording,
        name=name,
        kafka_options=options,
    )
    return print_result([{"files": done}], False)


def doctor(
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark too, and write, read and remove a table of the lake.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check machine, brokers, topics, what messages show of their producers, and the lake. Exits with 1 where
    one fails.
    """
    found = _local("discovery.doctor").doctor(configs, progress, lake=lake, spark=spark)
    print_result(found if as_json else [{"findings": found}], as_json)
    if any(finding["state"] == "fail" for finding in found):
        raise typer.Exit(1)


def report(
    lake: SourceLake = None,
    configs: Configs = Path("configs"),
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The HTML file to write.")] = Path(
        "lakehouse-report.html"
    ),
) -> None:
    """Write one HTML page with lag, throughput, watermarks, DDL, tables, dead letters and runs. It loads
    nothing.
    """
    config = loaded(configs) if configs.is_dir() else None
    print_result(importlib.import_module("lakehouse.spark.readers.report").report(config, lake, to), False)


def metrics(
    lake: SourceLake = None,
    configs: Configs = Path("configs"),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write a file, whole, for node_exporter's textfile collector."
        ),
    ] = None,
) -> None:
    """Print the state of all sources as Prometheus metrics."""
    from lakehouse.reporting.prometheus import exposition, write_metrics

    config = loaded(configs) if configs.is_dir() else None
    text = exposition(importlib.import_module("lakehouse.spark.readers.report").observed(config, lake))
    if out is None:
        print(text, end="")
    else:
        write_metrics(text, out)


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "produce": produce,
    "init": init,
    "doctor": doctor,
    "report": report,
    "metrics": metrics,
}


def _local(module: str) -> Any:
    """A module of lakehouse, imported when a command runs."""
    return importlib.import_module(f"lakehouse.{module}")
