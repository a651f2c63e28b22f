"""A connector's settings, drawn at random, and a source's options as its YAML would say them."""

import random
from collections.abc import Mapping
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
    ssl = "disabled" if kind == "mysql" else "disable"
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
        f"{history}.{'file.filename'}": str(folder / "history"),
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "5400",
        "database.ssl.mode" if kind == "mysql" else "ssl.mode": ssl,
        "database.server.name" if old else "topic.prefix": "shop",
        "provide.transaction.metadata": "true",
        "include.schema.changes": "true",
        "skipped.operations": "none",
        "bigint.unsigned.handling.mode": "precise",
        "value.converter.replace.null.with.default": "false",
        "value.converter.schemas.enable": "false",
        "key.converter.schemas.enable": "false",
        "poll.interval.ms": "50",
    }


def drawn(chance: random.Random, kind: str, release: str) -> Drawn:
    """One setting of each kind."""
    found = Drawn()
    settings, options = found.settings, found.options
    settings["snapshot.mode"] = "initial"
    schemas = chance.random() < 0.4
    settings["value.converter.schemas.enable"] = str(schemas).lower()
    settings["key.converter.schemas.enable"] = str(chance.random() < 0.4).lower()
    return found


def overridden(found: Drawn, told: Mapping[str, str]) -> Drawn:
    """With settings that a command line gives."""
    found.settings.update(told)
    return found
