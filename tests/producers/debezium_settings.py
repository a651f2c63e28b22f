"""A connector's settings, drawn at random, and a source's options as its YAML would say them."""

import random
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Drawn:
    """`settings` are the connector's, `options` the source's, `server` the server's own."""

    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    server: list[str] = field(default_factory=list)


def required(folder: Path, port: int, kind: str, release: str) -> dict[str, str]:
    """What a connector can't do without."""
    old = release.startswith("1.")
    history = "database.history" if old else "schema.history.internal"
    classes = "io.debezium.relational.history.FileDatabaseHistory"
    if not old:
        classes = "io.debezium.storage.file.history.FileSchemaHistory"
    return {
        "name": "shop",
        "connector.class": (
            "io.debezium.connector.mariadb.MariaDbConnector"
            if kind == "mariadb"
            else "io.debezium.connector.mysql.MySqlConnector"
        ),
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "200",
        history: classes,
        f"{history}.file.filename": str(folder / "history"),
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "5400",
        "database.ssl.mode": "disabled" if kind == "mysql" or release < "3.1" else "disable",
        "database.server.name" if old else "topic.prefix": "shop",
        "provide.transaction.metadata": "true",
        "include.schema.changes": "true",
        "skipped.operations": "none",
        "bigint.unsigned.handling.mode": "precise",
        "value.converter.replace.null.with.default": "false",
        "key.converter.replace.null.with.default": "false",
        "poll.interval.ms": "50",
        "snapshot.mode": "initial",
    }


def drawn(chance: random.Random, kind: str, release: str, server: str) -> Drawn:
    """One setting of each kind that loses nothing that the programs have."""
    found = Drawn()
    settings, options = found.settings, found.options
    number = tuple(map(int, release.split(".")[:2]))
    schemas = chance.random() < 0.4
    settings["value.converter.schemas.enable"] = str(schemas).lower()
    settings["key.converter.schemas.enable"] = str(chance.random() < 0.4).lower()
    if chance.random() < 0.4:
        settings["decimal.handling.mode"] = options["decimal_handling_mode"] = "string"
    times = ["adaptive_time_microseconds"]
    times += ["microseconds", "nanoseconds"] if number >= (3, 4) else []
    settings["time.precision.mode"] = options["time_precision_mode"] = chance.choice(times)
    binary = chance.choice(("bytes", "bytes", "base64", "hex"))
    settings["binary.handling.mode"] = options["binary_handling_mode"] = binary
    settings["tombstones.on.delete"] = str(chance.random() < 0.5).lower()
    settings["bigint.unsigned.handling.mode"] = chance.choice(("precise", "precise", "long"))
    if chance.random() < 0.3:
        settings["column.propagate.source.type"] = ".*"
    if chance.random() < 0.2:
        settings["include.query"] = "true"
    if chance.random() < 0.3:
        settings["heartbeat.interval.ms"] = "300"
    if chance.random() < 0.3:
        settings["max.batch.size"] = chance.choice(("1", "7"))
    if chance.random() < 0.3:
        settings["enable.time.adjuster"] = "false"
    if chance.random() < 0.2:
        settings["key.converter"] = "org.apache.kafka.connect.storage.StringConverter"
    if chance.random() < 0.2:
        settings["header.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    if chance.random() < 0.2:
        settings["snapshot.max.threads"] = "2"
    if server == "mariadb":
        places = kind == "mysql" or release < "3.4" or chance.random() < 0.5
        found.server.append(f"--binlog-legacy-event-pos={'ON' if places else 'OFF'}")
        if not places:
            options["binlog_transaction_compression"] = "true"
    return found
