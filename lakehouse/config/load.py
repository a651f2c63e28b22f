"""The configuration: one YAML per source, one per table, validated all at once before anything runs.

    configs/sources/<source>.yml      the feed: its format, its input, its settings
    configs/tables/<db>.<table>.yml   what one table does differently from the defaults

`load` gives the models, or one ConfigError with every problem; `problems` gives the problems, each with file,
line, column and what to do; `warnings` gives options that are allowed but lose data. `kafka_options`,
`database_settings` and `resolve_source` resolve references when they are needed: the models of `load` hold
none of the values.

The models are in models.py, checks over several options in checks.py, and the texts of problems in
problems.py.
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
from lakehouse.sources.database import DatabaseSettings

__all__ = [
    "Config", "Problem", "SourceConfig", "TableConfig",
    "check", "database_settings", "kafka_options", "load", "load_source", "problems",
    "resolve_source", "warnings",
]  # fmt: skip

AnyConfig = TypeVar("AnyConfig", SourceConfig, TableConfig)


@dataclass(frozen=True, slots=True)
class Config:
    """All sources and tables by the name of their file, and the documents with the line and column of each
    option.
    """

    sources: dict[str, SourceConfig]
    tables: dict[str, TableConfig]
    documents: dict[str, Document] = field(default_factory=dict, repr=False, compare=False)


def load(folder: str | FilePath) -> Config:
    """The configuration of a folder; a ConfigError lists all of its problems, a line each."""
    config, problems = _read(FilePath(folder))
    _raise(problems)
    return config


def load_source(file: str | FilePath) -> SourceConfig:
    """The source of a single file, for `inspect --source`."""
    document = _document(FilePath(file))
    source = _source(document)
    _raise(document.problems)
    if source is None:
        raise ConfigError(f"{file}: is no source")
    return source


def check(folder: str | FilePath) -> tuple[list[Problem], list[Problem]]:
    """The problems and the warnings of a folder, as `validate` shows them; no warnings where there are
    problems.
    """
    config, problems = _read(FilePath(folder))
    return problems, [] if problems else warnings(config)


def problems(folder: str | FilePath) -> list[Problem]:
    """All problems in a folder's configuration, in the order of files and lines."""
    return _read(FilePath(folder))[1]


def warnings(config: Config) -> list[Problem]:
    """Options that are allowed, but lose data or have no effect."""
    problems = []
    for name, source in config.sources.items():
        document = config.documents[f"sources/{name}"]
        problems += [document.problem(*finding) for finding in fidelity_warnings(document.data)]
        if source.tables == "configured" and all(table.source != name for table in config.tables.values()):
            problems.append(
                document.problem(
                    ("tables",),
                    "no table has a YAML: gold stays empty",
                    "write tables: auto, or add configs/tables",
                )
            )
    return problems


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
    """The `kafka.*` options for the reader of a Kafka source, references resolved, read_committed by
    default.
    """
    if source.kafka is None:
        raise ConfigError(f"source {source.name}: is read from no Kafka topic")
    configured = {
        "kafka.isolation.level": "read_committed",
        **source.kafka.options,
        "kafka.bootstrap.servers": source.kafka.bootstrap_servers,
    }
    return resolve_secrets(configured, env, secret)


def database_settings(
    source: SourceConfig, env: Mapping[str, str] | None = None, secret: SecretLookup | None = None
) -> DatabaseSettings:
    """Where a source's database is, references resolved. ConfigError where the source names none."""
    given = source.database
    if given is None:
        raise ConfigError(
            f"source {source.name}: names no database; add `database: {{host: …, user: …, password: "
            "${env:NAME}}` to its YAML"
        )
    texts = {"host": given.host, "user": given.user, "password": given.password, "ca": given.ca or ""}
    found = resolve_secrets(texts, env, secret)
    return DatabaseSettings(
        found["host"],
        found["user"],
        port=given.port,
        password=found["password"],
        tls=given.tls,
        ca=found["ca"] or None,
    )


def _raise(problems: list[Problem]) -> None:
    if problems:
        raise ConfigError("\n".join(map(str, problems)))


def _read(folder: FilePath) -> tuple[Config, list[Problem]]:
    if not folder.is_dir():
        return Config({}, {}), [
            Problem(
                str(folder),
                1,
                1,
                "",
                text="is no folder",
                fix="name the folder that holds sources and tables, or let `lakehouse init` write it",
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
    problems = _folder_problems(folder, bool(sources))
    for document in documents.values():
        problems += document.problems
    problems += _missing_sources(documents, sources) + _double_sources(config)
    problems += _double_tables(config) + _mode_problems(config)
    return config, sorted(set(problems))


def _files(folder: FilePath) -> list[FilePath]:
    return sorted(folder.glob("*.yml")) if folder.is_dir() else []


def _of_kind(documents: Mapping[str, Document], kind: str) -> list[tuple[str, Document]]:
    return [
        (name.removeprefix(f"{kind}/"), document)
        for name, document in documents.items()
        if name.startswith(f"{kind}/")
    ]


def _folder_problems(folder: FilePath, has_sources: bool) -> list[Problem]:
    problems = (
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
        problems.append(
            Problem(str(file), 1, 1, "", text="is not read", fix=f"name it {file.with_suffix('.yml').name}")
        )
    return problems


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
    """The model of a file, or None; all problems are added to the document's."""
    if document.data is None and document.problems:
        return None
    empty = list(empty_findings(document.data))
    findings = list(empty)
    valid = None
    try:
        valid = model.model_validate(document.data)
    except ValidationError as error:
        findings += [
            finding
            for finding in model_findings(model, document.data, error)
            if finding[0] not in {path for path, _, _ in empty}
        ]
    if isinstance(document.data, dict):
        findings += checks(document.data)
    document.problems += [document.problem(*finding) for finding in findings]
    return valid


def _missing_sources(documents: Mapping[str, Document], sources: Iterable[str]) -> list[Problem]:
    known = list(sources)
    problems = []
    for _, document in _of_kind(documents, "tables"):
        name = document.data.get("source") if isinstance(document.data, dict) else None
        if isinstance(name, str) and name not in known:
            problems.append(
                document.problem(("source",), "is no file of configs/sources", did_you_mean(name, known))
            )
    return problems


def _mode_problems(config: Config) -> list[Problem]:
    """Problems of modes that a table's feed can't serve."""
    problems = []
    for name, table in config.tables.items():
        source = config.sources.get(table.source)
        if source is not None and option_problems(source.format, source.options) == []:
            document = config.documents[f"tables/{name}"]
            order = order_of(source.format, source.decoder_options())
            problems += [
                document.problem(*finding) for finding in mode_findings(document.data, order, source.accept)
            ]
    return problems


def _double_sources(config: Config) -> list[Problem]:
    """Problems of sources that would write to another one's tables, whose names begin with its own: of shop
    and shop_schema both have silver.shop_schema_changes. Catalogs tell no upper from lower case.
    """
    problems = []
    names = {(_lake_of(source), name.casefold()): name for name, source in reversed(config.sources.items())}
    for name, source in config.sources.items():
        for ending in ("", "_schema", "_attachments"):
            other = names.get((_lake_of(source), f"{name.casefold()}{ending}"), name)
            if other != name:
                text = f"is the name of tables of {config.documents[f'sources/{name}'].file}"
                problems.append(config.documents[f"sources/{other}"].problem((), text, "rename the file"))
    return problems


def _lake_of(source: SourceConfig | None) -> str:
    return source.lake.model_dump_json() if source is not None and source.lake is not None else ""


def _double_tables(config: Config) -> list[Problem]:
    """Problems of source tables and gold targets that two files claim; they are reported in the later
    file.
    """
    claimed: dict[tuple[str, ...], str] = {}
    problems = []
    for name, table in config.tables.items():
        document = config.documents[f"tables/{name}"]
        claims: list[tuple[Path, tuple[str, ...]]] = [
            (("table",), (table.source, *pair)) for pair in table.source_tables
        ]
        if table.gold.target:
            lake = _lake_of(config.sources.get(table.source))
            claims.append((("gold", "target"), ("target", lake, table.gold.target.casefold())))
        for path, claim in claims:
            first = claimed.setdefault(claim, document.file)
            if first != document.file:
                problems.append(document.problem(path, f"is claimed by {first} too", "keep one of the two"))
    return problems
