"""Flink's side of two peers: what it is started with, and what it is told to do.

Flink SQL reads the topic up to its end (`scan.bounded.mode`) by its format canal-json, and inserts into a
Paimon table; Paimon's action kafka_sync_table does the same for ever, by a decoder of its own. Both run in
one JVM, as a local job, and take checkpoints as often as each other.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from bench.peers.canal_rows import COLUMNS

KAFKA = ("org/apache/kafka", "org/apache/flink/kafka/shaded/org/apache/kafka")
CHECKPOINTS = 5  # seconds
_TYPES = {"string": "STRING", "timestamp_ntz": "TIMESTAMP(6)"}
_SETTINGS = f"""execution.target: local
execution.runtime-mode: streaming
execution.checkpointing.interval: {CHECKPOINTS}s
parallelism.default: 2
taskmanager.numberOfTaskSlots: 2
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.bind-port: 20000-32000
table.dml-sync: true
"""
_LOG = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c{1}: %m%n%ex
"""
# what Flink's own start script opens on Java 17
_OPENED = (
    "java.base/java.lang",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/java.lang.reflect",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
)


def prepare(folder: Path) -> dict[str, str]:
    """Write the settings of a Flink; returns its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(_SETTINGS)
    (folder / "log4j2.properties").write_text(_LOG)
    # the command line wants a program's jar, although all classes are there already
    with zipfile.ZipFile(folder / "empty.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return {"FLINK_CONF_DIR": str(folder)}


def options(folder: Path) -> list[str]:
    """The JVM's options that Flink needs on Java 17."""
    opened = [word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")]
    return [*opened, f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]


def run_sql(script: Path, statements: Sequence[str], mode: str = "streaming") -> list[str]:
    """The class that executes the statements (RunSql.java: Flink's package has no SQL gateway, without which
    its SQL client does not start), and what it is told.
    """
    script.write_text(";\n".join(statements))
    return ["RunSql", str(script), mode]


def columns(text: bool = False) -> str:
    return ", ".join(f"`{name}` {'STRING' if text else _TYPES.get(kind, kind)}" for name, kind in COLUMNS)


def warehouse(folder: Path) -> str:
    return f"CREATE CATALOG p WITH ('type' = 'paimon', 'warehouse' = 'file:{folder}')"


def loading(bootstrap: str, topic: str, folder: Path) -> list[str]:
    """The statements that load a topic into a new table. A key of the source's table spares Flink a state
    that puts changes in order.
    """
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "properties.group.id": "sql",
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "canal-json",
    }
    key = f"PRIMARY KEY (`{COLUMNS[0][0]}`) NOT ENFORCED"
    return [
        f"CREATE TABLE source ({columns()}, {key}) WITH ({_words(source)})",
        warehouse(folder),
        "CREATE DATABASE p.bench",
        f"CREATE TABLE p.bench.t0 ({columns()}, {key}) WITH ('bucket' = '2')",
        "INSERT INTO p.bench.t0 SELECT * FROM source",
    ]


def reading(folder: Path, target: Path) -> list[str]:
    """The statements that write the table's rows as lines of JSON, all values as text."""
    told = {"connector": "filesystem", "path": f"file:{target}", "format": "json"}
    values = ", ".join(f"CAST(`{name}` AS STRING)" for name, _ in COLUMNS)
    return [
        warehouse(folder),
        f"CREATE TABLE target ({columns(text=True)}) WITH ({_words(told)})",
        f"INSERT INTO target SELECT {values} FROM p.bench.t0",
    ]


def action(bootstrap: str, topic: str, group: str, folder: Path, settings: Path) -> list[str]:
    """Paimon's action for one table, by Flink's command line."""
    kafka = {
        "properties.bootstrap.servers": bootstrap,
        "properties.group.id": group,
        "topic": topic,
        "value.format": "canal-json",
        "scan.startup.mode": "earliest-offset",
    }
    place = ["--warehouse", f"file:{folder}", "--database", "bench", "--table", "t0"]
    told = [word for name, value in kafka.items() for word in ("--kafka_conf", f"{name}={value}")]
    run = ["run", "-t", "local", "-c", "org.apache.paimon.flink.action.FlinkActions"]
    table = ["--primary_keys", COLUMNS[0][0], *told, "--table_conf", "bucket=2"]
    return [
        "org.apache.flink.client.cli.CliFrontend",
        *run,
        str(settings / "empty.jar"),
        "kafka_sync_table",
        *place,
        *table,
    ]


def _words(options: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
