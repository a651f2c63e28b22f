"""The commands around the pipeline: demo, init, notebooks, doctor, produce, report, ui, metrics."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import (
    Configs,
    Json,
    KafkaOption,
    Lake,
    ProduceOption,
    SourceLake,
    kafka_secrets,
    loaded_if_there,
    setting,
)
from lakehouse.cli.output import print_as, print_parts, print_result, progress, working
from lakehouse.cli.views import DEFAULT_LAKE, views_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.config.load import Config
    from lakehouse.config.models import SourceConfig
    from lakehouse.discovery.findings import Finding
    from lakehouse.reporting.text.tables import View
    from lakehouse.reporting.web.server import Server

Servers = Annotated[str, typer.Option("--bootstrap-servers", help="The brokers, as host:port.")]
TargetFolder = Annotated[Path, typer.Argument(help="The folder to write sources/ and tables/ into.")]
InitFormat = Annotated[
    str | None, typer.Option("--format", help="The wire format. Default: detected from the messages.")
]
TopicServers = Annotated[str | None, typer.Option("--bootstrap-servers", help="The brokers, for a topic.")]
Topic = Annotated[
    str | None,
    typer.Option("--topic", help="The topic to read; several with commas, or a regular expression."),
]
StorageFolder = Annotated[str | None, typer.Option("--storage", help="The storage sink's folder to read.")]
RecordingFile = Annotated[Path | None, typer.Option("--recording", help="The recording to read.")]
SourceName = Annotated[
    str | None, typer.Option("--name", help="The source's name. Default: from the input's name.")
]
BundleFolder = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="FOLDER",
        help="Write only a Databricks bundle, into this folder: docs/databricks.md.",
    ),
]


def demo(
    lake: Lake = "./lake",
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The embedded broker's port on 127.0.0.1.")
    ] = 29092,
    as_json: Json = False,
) -> None:
    """Start an embedded Kafka broker, publish a recording, run all layers, and show the results."""
    from lakehouse.demo.run import REPORT, rows_of, run_demo
    from lakehouse.reporting.text.runs import demo_parts

    with working():
        outcome = run_demo(lake, port, progress)
        if as_json:
            return print_result(outcome, as_json)
        tables, report = rows_of(lake, outcome), _write_report(None, lake, Path(lake) / REPORT)["report"]
    view = views_of([outcome], {outcome["source"]: "tidb"}, lake=lake)[outcome["source"]]
    return print_parts(demo_parts(outcome, view, tables, report))


def produce(
    recording: Annotated[Path, typer.Argument(help="The recording (JSON lines).")],
    topic: Annotated[
        str | None, typer.Option("--topic", help="The topic to publish to. Default: each message's own.")
    ] = None,
    servers: Servers = "127.0.0.1:9092",
    kafka: ProduceOption = None,
) -> None:
    """Publish a recording to a topic, partition by partition."""
    from lakehouse.sources import kafka_produce

    published = kafka_produce.produce(recording, servers, topic, progress, options=kafka_secrets(kafka))
    print_result(published, as_json=False)


def init(
    folder: TargetFolder = Path("configs"),
    format: InitFormat = None,
    servers: TopicServers = None,
    topic: Topic = None,
    storage: StorageFolder = None,
    recording: RecordingFile = None,
    name: SourceName = None,
    kafka: KafkaOption = None,
    bundle: BundleFolder = None,
) -> None:
    """Write the YAML of a source and its tables from a sample of a topic, folder or recording. No file is
    overwritten.
    """
    if bundle is not None:
        return _init_bundle(bundle, any((format, servers, topic, storage, recording, name, kafka)))
    if sum(value is not None for value in (topic, storage, recording)) != 1 or (topic is None) != (
        servers is None
    ):
        raise ConfigError("init: expected --topic with --bootstrap-servers, or --storage, or --recording")
    from lakehouse.discovery.write_config import InitInput, init

    kafka_options = dict(setting(text, "--kafka") for text in kafka or ())
    given = InitInput(storage, recording, topic, servers, kafka_options=kafka_options)
    files = init(folder, given, progress, format=format, name=name)
    return print_result({"files": files}, as_json=False)


def _init_bundle(folder: Path, has_input: bool) -> None:
    """Write a bundle; its recorded sample is its source, and no other option is read."""
    from lakehouse.databricks.bundle import write_bundle

    configs = folder / "configs/databricks"
    if has_input:
        raise ConfigError(
            f"init: --bundle writes a bundle alone; write its sources with another init, into {configs}"
        )
    files = [str(path) for path in write_bundle(folder)]
    print_result({"files": files}, as_json=False)
    progress(
        f"next: put your sources into {configs / 'sources'}, in place of sample.yml, then lakehouse validate "
        f"{configs}, and in {folder}: databricks bundle deploy -t dev"
    )


def notebooks(
    folder: Annotated[Path, typer.Argument(help="The folder to write the notebooks into.")] = Path(
        "notebooks"
    ),
) -> None:
    """Write the notebooks as Jupyter opens them: silver, time travel, quality, dead letters. No file is
    overwritten.
    """
    from lakehouse.databricks.notebooks import write_notebooks

    print_result({"files": [str(path) for path in write_notebooks(folder)]}, as_json=False)


def doctor(
    configs: Configs = Path("configs"),
    lake: SourceLake = None,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Also start Spark, and write, read and remove a table of the lake."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the machine, the configuration, brokers, topics, producers' settings and the lake. Exits with 1
    where a check fails.
    """
    from lakehouse.discovery import doctor as checks

    findings = checks.doctor(configs, progress, _lake_checks, lake=lake, spark=spark)
    from lakehouse.reporting.text.lists import finding_parts

    print_as(findings, as_json, finding_parts)
    if checks.failed(findings):
        raise typer.Exit(1)


def _lake_checks(source: "SourceConfig", lake: str | None) -> "Iterator[Finding]":
    """The checks of a lake that need a Spark session."""
    from lakehouse.spark.operations.lake_checks import lake_findings

    return lake_findings(source, lake)


def report(
    lake: SourceLake = None,
    configs: Configs = Path("configs"),
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The HTML file to write.")] = Path(
        "lakehouse-report.html"
    ),
) -> None:
    """Write one self-contained HTML page: lag, throughput, watermarks, DDL, tables, dead letters, runs."""
    config = loaded_if_there(configs)
    with working():
        written = _write_report(config, lake, to)
    print_result(written, as_json=False)


def _write_report(config: "Config | None", lake: str | None, to: Path) -> dict[str, Any]:
    """Write the page; returns where it is and which sources it shows."""
    from lakehouse import __version__
    from lakehouse.reporting.web.report import page, write_page
    from lakehouse.spark.readers.report import observed

    sources = observed(config, lake)
    where = ", ".join(sorted({source["where"] for source in sources})) or lake or DEFAULT_LAKE
    write_page(page(sources, _views(sources, config, lake), where, version=__version__), to)
    return {"report": str(to), "sources": [source["source"] for source in sources]}


def _views(
    sources: "Sequence[dict[str, Any]]", config: "Config | None", lake: str | None
) -> "dict[str, View]":
    """A view of each source that was observed."""
    orders = {source["source"]: source["order"] for source in sources}
    return views_of([source["status"] for source in sources], orders, config, lake=lake)


def ui(
    lake: SourceLake = None,
    configs: Configs = Path("configs"),
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port on 127.0.0.1; 0 takes any that is free.")
    ] = 8321,
) -> None:
    """Serve the report as a page that grows while runs go on, with each table's rows, a row's history, dead
    letters and their bytes, and manifests. On 127.0.0.1 only, read-only, until Ctrl-C.
    """
    from lakehouse.reporting.web.server import Server

    config = loaded_if_there(configs)
    with Server(port) as server:
        _serve(server, config, lake)


def _serve(server: "Server", config: "Config | None", lake: str | None) -> None:
    """Serve the lake's pages until Ctrl-C, and end Spark."""
    import signal

    from lakehouse import __version__
    from lakehouse.reporting.web.routes import Site
    from lakehouse.spark.readers.pages import LakePages

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    progress("ui      starting Spark")
    pages = server.read(lambda: LakePages(config, lake), None)
    progress(f"ui      {pages.where}")
    print(server.url, flush=True)
    progress("ui      Ctrl-C ends it")
    try:
        server.serve(Site(pages, lambda found: _views(found, config, lake), pages.where, __version__))
    finally:
        pages.close()


def metrics(
    lake: SourceLake = None,
    configs: Configs = Path("configs"),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write to a file, atomically, for node_exporter's textfile collector.",
        ),
    ] = None,
) -> None:
    """Print the state of all sources as Prometheus metrics."""
    from lakehouse.reporting.prometheus import exposition, write_metrics
    from lakehouse.spark.readers.report import observed

    config = loaded_if_there(configs)
    with working():
        text = exposition(observed(config, lake))
    if out is None:
        print(text, end="")
    else:
        write_metrics(text, out)
