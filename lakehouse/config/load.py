"""The configuration: one YAML per source, one per table, validated all at once before anything runs.

    configs/sources/<source>.yml      the feed itself: its format, where it comes from, how far it is trusted
    configs/tables/<db>.<table>.yml   what one table does differently from the defaults

`load` gives the models, or one ConfigError with every problem; `problems` gives the problems, each with file,
line, column and what to do; `warnings` gives what is allowed but costs fidelity. `kafka_options` and
`resolve_source` resolve references, late: what `load` gives holds none of the values.

The models are in lakehouse/config/models.py, what they can't see in lakehouse/config/checks.py, and the words
of a problem in lakehouse/config/problems.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from lakehouse.config.checks import mode_findings, source_findings, table_findings
from lakehouse.config.models import SourceConfig, TableConfig
from lakehouse.config.options import option_problems
from lakehouse.config.problems import empty_findings, model_findings
from lakehouse.config.producer_settings import fidelity_warnings, sends_watermarks
from lakehouse.config.secrets import SecretLookup, Secrets, resolve_secrets, resolve_text
from lakehouse.config.yaml_reader import Document, Path, Problem, read_yaml
from lakehouse.errors import ConfigError, did_you_mean
from lakehouse.formats import order_of
from lakehouse.lineage import split_name

__all__ = [
    "Config", "Problem", "SourceConfig", "TableConfig",
    "check", "kafka_options", "load", "load_source", "problems", "resolve_source", "warnings",
]  # fmt: skip

AnyConfig = TypeVar("AnyConfig", SourceConfig, TableConfig)


@dataclass(frozen=True, slots=True)
class Config:
    """All sources and tables by the name of their file, and the documents that know where each
    option stands.
    """

    sources: dict[str, SourceConfig]
    tables: dict[str, TableConfig]
    documents: dict[str, Document] = field(default_factory=dict, repr=False, compare=False)


def load(folder: str | FilePath) -> Config:
    """The configuration of a folder; a ConfigError holds all of its problems, a line each."""
    config, found = _read(FilePath(folder))
    _raise(found)
    return config


def load_source(file: str | FilePath) -> SourceConfig:
    """One source's file alone, as `inspect --source` wants it."""
    document = _document(FilePath(file))
    source = _source(document)
    _raise(document.problems)
    if source is None:
        raise ConfigError(f"{file}: is no source")
    return source


def check(folder: str | FilePath) -> tuple[list[Problem], list[Problem]]:
    """The problems and the warnings of a folder, as `validate` shows them; where there is a problem, no file
    is warned of.
    """
    config, found = _read(FilePath(folder))
    return found, [] if found else warnings(config)


def problems(folder: str | FilePath) -> list[Problem]:
    """Everything wrong in a folder's configuration, in the order of files and lines."""
    return _read(FilePath(folder))[1]


def warnings(config: Config) -> list[Problem]:
    """What is allowed, but loses something or does nothing."""
    found = []
    for name, source in config.sources.items():
        document = config.documents[f"sources/{name}"]
        found += [document.problem(*finding) for finding in fidelity_warnings(document.data)]
        if source.tables == "configured" and all(table.source != name for table in config.tables.values()):
            found.append(
                document.problem(
                    ("tables",),
                    "no table has a YAML: gold stays empty",
                    "write tables: auto, or add configs/tables",
                )
            )
    return found


def resolve_source(source: SourceConfig, env: Mapping[str, str] | None = None) -> SourceConfig:
    """The source with `${env:…}` replaced in addresses and paths. `kafka.options` keep theirs: see
    `kafka_options`.
    """
    changed: dict[str, Any] = {}
    if source.claim_check is not None:
        changed["claim_check"] = resolve_text(source.claim_check, env)
    if source.recording is not None:
        changed["recording"] = [resolve_text(path, env) for path in source.recording]
    if source.kafka is not None:
        changed["kafka"] = source.kafka.model_copy(
            update={"bootstrap_servers": resolve_text(source.kafka.bootstrap_servers, env)}
        )
    if source.storage is not None:
        changed["storage"] = source.storage.model_copy(
            update={"path": resolve_text(source.storage.path, env)}
        )
    if source.lake is not None:
        changed["lake"] = source.lake.model_copy(
            update={name: resolve_text(text, env) for name, text in source.lake if text is not None}
        )
    return source.model_copy(update=changed)


def kafka_options(
    source: SourceConfig, env: Mapping[str, str] | None = None, secret: SecretLookup | None = None
) -> Secrets:
    """The `kafka.*` options of a Kafka source for its reader, read_committed by default, with references
    resolved.
    """
    if source.kafka is None:
        raise ConfigError(f"source {source.name}: is read from no Kafka topic")
    said = {
        "kafka.isolation.level": "read_committed",
        **source.kafka.options,
        "kafka.bootstrap.servers": source.kafka.bootstrap_servers,
    }
    return resolve_secrets(said, env, secret)


def _raise(found: list[Problem]) -> None:
    if found:
        raise ConfigError("\n".join(map(str, found)))


def _read(folder: FilePath) -> tuple[Config, list[Problem]]:
    if not folder.is_dir():
        return Config({}, {}), [
            Problem(
                str(folder),
                1,
                1,
                "",
                text="is no folder",
                fix="name the folder that holds sources and tables",
            )
        ]
    documents = {
        f"{kind}/{file.stem}": _document(file)
        for kind in ("sources", "tables")
        for file in _files(folder / kind)
    }
    sources = {name: _source(document) for name, document in _of_kind(documents, "sources")}
    tables = {name: _table(document) for name, document in _of_kind(documents, "tables")}
    config = Config(
        {k: v for k, v in sources.items() if v}, {k: v for k, v in tables.items() if v}, documents
    )
    found = _folder_problems(folder, bool(sources))
    for document in documents.values():
        found += document.problems
    found += _missing_sources(documents, sources) + _double_tables(config) + _mode_problems(config)
    return config, sorted(set(found))


def _files(folder: FilePath) -> list[FilePath]:
    return sorted(folder.glob("*.yml")) if folder.is_dir() else []


def _of_kind(documents: Mapping[str, Document], kind: str) -> list[tuple[str, Document]]:
    return [
        (name.removeprefix(f"{kind}/"), document)
        for name, document in documents.items()
        if name.startswith(f"{kind}/")
    ]


def _folder_problems(folder: FilePath, has_sources: bool) -> list[Problem]:
    found = (
        []
        if has_sources
        else [
            Problem(
                str(folder / "sources"),
                1,
                1,
                "",
                text="holds no source",
                fix="add configs/sources/<source>.yml",
            )
        ]
    )
    for file in [*folder.glob("sources/*.yaml"), *folder.glob("tables/*.yaml")]:
        found.append(
            Problem(str(file), 1, 1, "", text="is not read", fix=f"name it {file.with_suffix('.yml').name}")
        )
    return found


def _document(file: FilePath) -> Document:
    try:
        return read_yaml(str(file), file.read_bytes())
    except OSError as error:
        reason = error.strerror or "an input error"
        return Document(
            str(file),
            problems=[
                Problem(
                    str(file), 1, 1, "", text=f"can't be read: {reason}", fix="check its name and permissions"
                )
            ],
        )


def _source(document: Document) -> SourceConfig | None:
    source = _validated(document, SourceConfig, source_findings)
    if source is None:
        return None
    stem = FilePath(document.file).stem
    if source.name not in (None, stem):
        document.problems.append(
            document.problem(("name",), f"is not the file's name, {stem}", "remove it, or rename the file")
        )
    consistency = source.consistency or ("resolved" if sends_watermarks(document.data) else "eventual")
    return source.model_copy(update={"name": stem, "consistency": consistency})


def _table(document: Document) -> TableConfig | None:
    table = _validated(document, TableConfig, table_findings)
    if table is None:
        return None
    if table.table is None and table.tables is None:
        table = table.model_copy(update={"table": FilePath(document.file).stem})
    try:
        _ = table.source_tables
        _ = split_name(FilePath(document.file).stem) if table.tables else None
    except ValueError as error:
        path = ("tables",) if table.tables else ("table",)
        document.problems.append(
            document.problem(path, str(error), "write `table: db.table`, or name the file db.table.yml")
        )
        return None
    return table


def _validated(document: Document, model: type[AnyConfig], checks: Any) -> AnyConfig | None:
    """The model of a file; all that is wrong is added to the document's problems, whichever part found it."""
    if document.data is None and document.problems:
        return None
    empty = list(empty_findings(document.data))
    found = list(empty)
    valid = None
    try:
        valid = model.model_validate(document.data)
    except ValidationError as error:
        found += [
            finding
            for finding in model_findings(model, document.data, error)
            if finding[0] not in {path for path, _, _ in empty}
        ]
    if isinstance(document.data, dict):
        found += checks(document.data)
    document.problems += [document.problem(*finding) for finding in found]
    return valid


def _missing_sources(documents: Mapping[str, Document], sources: Iterable[str]) -> list[Problem]:
    known = list(sources)
    found = []
    for _, document in _of_kind(documents, "tables"):
        name = document.data.get("source") if isinstance(document.data, dict) else None
        if isinstance(name, str) and name not in known:
            found.append(
                document.problem(("source",), "is no file of configs/sources", did_you_mean(name, known))
            )
    return found


def _mode_problems(config: Config) -> list[Problem]:
    """Modes that a table's feed can't serve."""
    found = []
    for name, table in config.tables.items():
        source = config.sources.get(table.source)
        if source is not None and option_problems(source.format, source.options) == []:
            document = config.documents[f"tables/{name}"]
            order = order_of(source.format, source.decoder_options())
            found += [
                document.problem(*finding) for finding in mode_findings(document.data, order, source.accept)
            ]
    return found


def _double_tables(config: Config) -> list[Problem]:
    """Source tables and gold targets that two files claim: the later file is told."""
    claimed: dict[tuple[str, ...], str] = {}
    found = []
    for name, table in config.tables.items():
        document = config.documents[f"tables/{name}"]
        claims: list[tuple[Path, tuple[str, ...]]] = [
            (("table",), (table.source, *pair)) for pair in table.source_tables
        ]
        if table.gold.target:
            source = config.sources.get(table.source)
            lake = source.lake.model_dump_json() if source is not None and source.lake is not None else ""
            claims.append((("gold", "target"), ("target", lake, table.gold.target.casefold())))
        for path, claim in claims:
            first = claimed.setdefault(claim, document.file)
            if first != document.file:
                found.append(document.problem(path, f"is claimed by {first} too", "keep one of the two"))
    return found
