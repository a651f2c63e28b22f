"""The survey of a sample of messages: its tables and counts, and the producer's settings that lose data and
can be recognised in it.

A sample can show that a setting destroys something; it can't show that it does not. No row's value is kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.ddl.edits import CreateTable, CreateTableLike, RenameTable
from lakehouse.ddl.parse.statements import read
from lakehouse.discovery.inspect import events_of
from lakehouse.errors import DdlError, DecodeError
from lakehouse.events import DeadLetter, Event, Message, Position, RowChange, SchemaChange, Watermark
from lakehouse.formats import FORMATS, order_of, sends_watermarks
from lakehouse.formats.assemble import attachment_names
from lakehouse.reporting.text.values import counted

Name = tuple[str, str]
SERVERS = {"mysql": "MySQL", "mariadb": "MariaDB"}
_MAX_KEYS = 100_000  # keys whose partition is remembered
_MIN_CHANGES = 20  # changes from which on "none of them" means something


@dataclass(slots=True)
class TableSample:
    """One table of the sample: counts of its changes and of what their images lack, the key's columns, and
    all columns with their types, where messages have types. `unsplit` updates may have changed the key and do
    not show the old one.
    """

    changes: int = 0
    updates: int = 0
    without_old: int = 0
    unsplit: int = 0
    deletes: int = 0
    key_only_deletes: int = 0
    partial: int = 0
    key_names: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    ddl: int = 0
    snapshot: int = 0


class Place(NamedTuple):
    """Where a message was; no row's value."""

    topic: str
    partition: int
    offset: int
    path: str | None = None


@dataclass(slots=True)
class Survey:
    """Counts of a sample: messages, events by kind, and dead letters by code.

    `split_keys` counts changes whose key came from another partition before, `reinserted` inserts of a key
    that exists already, `claim_checks` messages that name a claim-check file. `created` are the tables that
    DDL statements make, `first_dead` the place of each code's first dead letter. `servers` are the kinds
    of server that messages show: mysql, mariadb, or none. `streamed` counts changes that are no snapshot's,
    `in_transactions` those that name their transaction.
    """

    format: str
    options: Mapping[str, str]
    messages: int = 0
    tables: dict[Name, TableSample] = field(default_factory=dict)
    ddl: int = 0
    watermarks: int = 0
    streamed: int = 0
    in_transactions: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter)
    first_dead: dict[str, Place] = field(default_factory=dict)
    split_keys: int = 0
    reinserted: int = 0
    claim_checks: int = 0
    created: set[Name] = field(default_factory=set)
    servers: set[str] = field(default_factory=set)
    _last: dict[tuple[str, str, str], "_LastChange"] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(table.changes for table in self.tables.values())

    def older_tables(self) -> list[str]:
        """The tables that may have had rows before the sample: neither a CREATE nor a snapshot is in it."""
        return [
            f"{database}.{table}"
            for (database, table), sample in sorted(self.tables.items())
            if not sample.snapshot and (database, table) not in self.created
        ]

    def timestamps(self) -> list[str]:
        """The columns whose values depend on a time zone that no message names."""
        return [
            f"{database}.{table}.{column}"
            for (database, table), sample in sorted(self.tables.items())
            for column, type_ in sample.columns.items()
            if type_.lower().startswith("timestamp")
        ]


def survey_messages(messages: Iterable[Message], format: str, options: Mapping[str, str]) -> Survey:
    """The survey of these messages, which are read once."""
    survey = Survey(format, options)
    for message, event in events_of(_with_counts(messages, survey), format, options):
        _count_event(survey, message, event)
    return survey


class _LastChange(NamedTuple):
    """The last change of a key: its partition, its position, and whether the row exists after it."""

    partition: tuple[str, int]
    position: Position
    exists: bool


def _with_counts(messages: Iterable[Message], survey: Survey) -> Iterator[Message]:
    row = FORMATS[survey.format]
    server_of = row.tells_rules() if row.tells_rules is not None else None
    for message in messages:
        survey.messages += 1
        server = server_of(message) if server_of is not None else None
        survey.servers |= set() if server is None else {server}
        survey.claim_checks += _names_files(message, survey)
        yield message


def _names_files(message: Message, survey: Survey) -> bool:
    try:
        return bool(attachment_names(message, survey.format, survey.options))
    except DecodeError:  # its dead letter is counted
        return False


def _count_event(survey: Survey, message: Message, event: Event) -> None:
    match event:
        case RowChange():
            survey.streamed += event.op != "snapshot"
            survey.in_transactions += any(flag.startswith("tx=") for flag in event.flags)
            _count_row(survey.tables.setdefault((event.database, event.table), TableSample()), event)
            _count_key(survey, message, event)
        case SchemaChange():
            survey.ddl += 1
            if event.kind != "snapshot":  # it shows a table that was there, whose rows may be left out
                survey.created |= created_by(event)
            if event.table is not None and (event.database, event.table) in survey.tables:
                survey.tables[event.database, event.table].ddl += 1
        case Watermark():
            survey.watermarks += 1
        case DeadLetter():
            survey.dead_letters[event.code] += 1
            place = Place(message.topic, message.partition, message.offset, message.path)
            survey.first_dead.setdefault(event.code, place)


def created_by(event: SchemaChange) -> set[Name]:
    """The tables that a DDL statement makes or gives a new name to."""
    try:
        statements = read(event.ddl or "")
    except DdlError:
        return set()
    found: set[tuple[str | None, str]] = set()
    for one in statements:
        if isinstance(one, CreateTable | CreateTableLike):
            found.add((one.database, one.table))
        elif isinstance(one, RenameTable):
            found |= {to for _, to in one.pairs}
    return {(database or event.database, table) for database, table in found}


def _count_row(table: TableSample, event: RowChange) -> None:
    table.changes += 1
    table.snapshot += event.op == "snapshot"
    table.key_names = table.key_names or event.key_names
    image = event.before if event.after is None else event.after
    for name in image or ():
        table.columns.setdefault(name, "")
    table.columns.update({name: text for name, text in (event.types or {}).items() if text})
    if event.op == "update":
        table.updates += 1
        table.without_old += event.before is None
        table.unsplit += "old_key_unknown" in event.flags
    elif event.op == "delete":
        table.deletes += 1
        table.key_only_deletes += event.before is not None and set(event.before) == set(event.key_names)
    table.partial += any(flag in ("partial_before", "partial_after") for flag in event.flags)


def _count_key(survey: Survey, message: Message, event: RowChange) -> None:
    if not event.key_names:
        return
    key = (event.database, event.table, str(event.key))
    change = _LastChange((message.topic, message.partition), event.position, event.op != "delete")
    last = survey._last.get(key)
    if last is None and len(survey._last) >= _MAX_KEYS:
        return
    if last is not None:
        survey.split_keys += last.partition != change.partition
        survey.reinserted += event.op == "insert" and last.exists and change.position > last.position
    survey._last[key] = change


class ProducerFinding(NamedTuple):
    """A setting of the producer that loses data, as a sample shows it. `severity` is warn or fail; `fix` is
    what to set at the producer.
    """

    severity: str
    what: str
    text: str
    fix: str


def producer_findings(survey: Survey) -> Iterator[ProducerFinding]:
    """The producer's settings that lose data, as far as this sample shows them."""
    yield from _image_findings(survey)
    yield from _order_findings(survey)
    yield from _loss_findings(survey)
    yield from _server_findings(survey)
    keyless = [".".join(name) for name, table in sorted(survey.tables.items()) if not table.key_names]
    if keyless:
        text = (
            f"no key in the messages of {_first_names(keyless)}: where no DDL has one either, equal rows are "
            "counted"
        )
        yield ProducerFinding(
            "warn", "keys", text, "give such tables a primary key upstream, or write `key:` in their YAML"
        )


def _image_findings(survey: Survey) -> Iterator[ProducerFinding]:
    tables = survey.tables.values()
    updates, without = sum(table.updates for table in tables), sum(table.without_old for table in tables)
    row = FORMATS[survey.format]
    if row.hides_updates and survey.reinserted and not updates:
        text = (
            f"{survey.reinserted} inserts are of rows that were there: old values are off, and an "
            "update can't be told from an insert"
        )
        yield ProducerFinding("warn", "old values", text, row.hides_updates)
    elif row.reads_files:
        yield from _unsplit_findings(survey)
    elif updates and without == updates:
        yield ProducerFinding(
            "warn",
            "old values",
            f"none of {updates} updates has its old row: a changed key leaves the old row behind",
            row.producer.old_rows,
        )
    partial = sum(table.partial for table in tables)
    if partial:
        yield ProducerFinding(
            "warn",
            "images",
            f"{partial} of {survey.changes} changes lack columns: gold completes them from earlier changes",
            row.producer.whole_images,
        )
    deletes, key_only = (
        sum(table.deletes for table in tables),
        sum(table.key_only_deletes for table in tables if len(table.columns) > len(table.key_names)),
    )
    if key_only and key_only == deletes:
        text = f"all {deletes} deletes carry the key alone: history shows no old row for them"
        yield ProducerFinding("warn", "deletes", text, row.producer.whole_deletes)


def _unsplit_findings(survey: Survey) -> Iterator[ProducerFinding]:
    """Updates without old rows of a feed that tells which of them may have changed a key."""
    tables = [".".join(name) for name, table in sorted(survey.tables.items()) if table.unsplit]
    if tables:
        number = sum(table.unsplit for table in survey.tables.values())
        text = (
            f"{number} updates may have changed a key and don't show the old one: incomplete are "
            f"{_first_names(tables)}"
        )
        yield ProducerFinding("warn", "old values", text, FORMATS[survey.format].producer.old_rows)


def _server_findings(survey: Survey) -> Iterator[ProducerFinding]:
    configured = survey.options.get("server", "mysql")
    if len(survey.servers) == 1 and configured.partition(" ")[0] not in survey.servers:
        [server] = survey.servers
        text = (
            f"the messages are of a {SERVERS[server]}, and values are converted by the rules of {configured}"
        )
        fix = f"write options: {{server: {server}}} in the source's YAML"
        yield ProducerFinding("fail", "server", text, fix)


def _order_findings(survey: Survey) -> Iterator[ProducerFinding]:
    producer = FORMATS[survey.format].producer
    order = order_of(survey.format, survey.options)
    if survey.split_keys:
        text = f"{survey.split_keys} times a key came in another partition than before"
        if order == "arrival":
            yield ProducerFinding(
                "fail",
                "partitioning",
                f"{text}: this feed's order is arrival order, so the order of its changes is lost",
                producer.partitioning,
            )
        else:
            yield ProducerFinding(
                "warn",
                "partitioning",
                f"{text}: order comes from positions, so only lag suffers",
                producer.partitioning,
            )
    if survey.changes < _MIN_CHANGES or survey.watermarks:
        return
    if sends_watermarks(survey.format, survey.options) and not FORMATS[survey.format].transactions:
        text = "no watermark in the sample: under `consistency: resolved` gold waits for one"
        eventual = "write consistency: eventual"
        yield ProducerFinding(
            "warn",
            "watermarks",
            text,
            f"{producer.watermarks}, or {eventual}" if producer.watermarks else eventual,
        )


def _loss_findings(survey: Survey) -> Iterator[ProducerFinding]:
    if survey.claim_checks and not survey.options.get("claim_check"):
        text = f"{survey.claim_checks} messages name claim-check files, and the YAML names no folder of them"
        yield ProducerFinding("fail", "claim check", text, "write claim_check: FOLDER in the source's YAML")
    advice = {
        "unresolved": (
            "rows came without their values",
            FORMATS[survey.format].producer.whole_rows,
        ),
        "statement": (
            "changes came as statements, without their rows",
            "set binlog_format=ROW at the server",
        ),
        "claim_check": (
            "claim-check files could not be read",
            "write claim_check: FOLDER, and keep its files as long as the topic",
        ),
    }
    for code, number in sorted(survey.dead_letters.items()):
        first = survey.first_dead[code]
        place = f"--topic {first.topic} --partition {first.partition} --offset {first.offset}"
        if code not in advice and first.path:
            text, fix = f"{counted(number, 'file')} can't be decoded", f"look at the first: {first.path}"
        elif code in advice:
            text, fix = f"{number} {advice[code][0]}", advice[code][1]
        else:
            text = f"{counted(number, 'message')} can't be decoded"
            fix = f"once they have landed, look at the first: lakehouse inspect --source NAME {place}"
        yield ProducerFinding("fail", f"dead letters {code}", text, fix)


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
