"""What a feed's messages tell of themselves: their tables, and the settings of the producer that cost
fidelity and can be seen.

A sample can show that a setting destroys something; it can't show that it does not. Nothing here holds a
row's value.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.discovery.inspect import events_of
from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Message, Position, RowChange, SchemaChange, Watermark
from lakehouse.formats import FORMATS, order_of, sends_watermarks
from lakehouse.formats.assemble import attachment_names

Name = tuple[str, str]
_MANY = 100_000  # keys whose partition is remembered
_ENOUGH = 20  # changes from which on "none of them" means something


@dataclass(slots=True)
class SeenTable:
    """One table: how many changes, its key's columns, all columns with their types where told, what the
    images lacked.
    """

    changes: int = 0
    updates: int = 0
    without_old: int = 0
    deletes: int = 0
    key_only_deletes: int = 0
    partial: int = 0
    key_names: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    ddl: int = 0


@dataclass(slots=True)
class Survey:
    """What a sample held. `dead` counts dead letters by code.

    `split_keys` counts changes whose key came from another partition before, `reinserted` inserts of a key
    that was there already, `claim_checks` messages that name a claim-check file.
    """

    format: str
    options: Mapping[str, str]
    messages: int = 0
    tables: dict[Name, SeenTable] = field(default_factory=dict)
    ddl: int = 0
    watermarks: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    split_keys: int = 0
    reinserted: int = 0
    claim_checks: int = 0
    _last: dict[tuple[str, str, str], "_Last"] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(table.changes for table in self.tables.values())

    def timestamps(self) -> list[str]:
        """The columns whose values depend on a time zone that no message names."""
        return [
            f"{database}.{table}.{column}"
            for (database, table), seen in sorted(self.tables.items())
            for column, type_ in seen.columns.items()
            if type_.lower().startswith("timestamp")
        ]


def survey(messages: Iterable[Message], format: str, options: Mapping[str, str]) -> Survey:
    """Look at messages once."""
    found = Survey(format, options)
    for message, event in events_of(_counted(messages, found), format, options):
        _note(found, message, event)
    return found


class _Last(NamedTuple):
    """The last change of a key: where it came from, its position, and whether the row was there after it."""

    place: tuple[str, int]
    position: Position
    lives: bool


def _counted(messages: Iterable[Message], found: Survey) -> Iterator[Message]:
    for message in messages:
        found.messages += 1
        found.claim_checks += _names_files(message, found)
        yield message


def _names_files(message: Message, found: Survey) -> bool:
    try:
        return bool(attachment_names(message, found.format, found.options))
    except DecodeError:  # its dead letter is counted
        return False


def _note(found: Survey, message: Message, event: Event) -> None:
    match event:
        case RowChange():
            _note_row(found.tables.setdefault((event.database, event.table), SeenTable()), event)
            _note_place(found, message, event)
        case SchemaChange():
            found.ddl += 1
            if event.table is not None and (event.database, event.table) in found.tables:
                found.tables[event.database, event.table].ddl += 1
        case Watermark():
            found.watermarks += 1
        case DeadLetter():
            found.dead[event.code] += 1


def _note_row(table: SeenTable, event: RowChange) -> None:
    table.changes += 1
    table.key_names = table.key_names or event.key_names
    image = event.before if event.after is None else event.after
    for name in image or ():
        table.columns.setdefault(name, "")
    table.columns.update({name: text for name, text in (event.types or {}).items() if text})
    if event.op == "update":
        table.updates += 1
        table.without_old += event.before is None
    elif event.op == "delete":
        table.deletes += 1
        table.key_only_deletes += event.before is not None and set(event.before) == set(event.key_names)
    table.partial += any(flag in ("partial_before", "partial_after") for flag in event.flags)


def _note_place(found: Survey, message: Message, event: RowChange) -> None:
    if not event.key_names:
        return
    key = (event.database, event.table, str(event.key))
    now = _Last((message.topic, message.partition), event.position, event.op != "delete")
    known = found._last.get(key)
    if known is None and len(found._last) >= _MANY:
        return
    if known is not None:
        found.split_keys += known.place != now.place
        found.reinserted += event.op == "insert" and known.lives and now.position > known.position
    found._last[key] = now


class Sign(NamedTuple):
    """Something a sample shows of its producer. `severity` is warn or fail; `fix` is what to set there."""

    severity: str
    what: str
    text: str
    fix: str


def signs(found: Survey) -> Iterator[Sign]:
    """What destroys fidelity, as far as this sample shows it."""
    yield from _image_signs(found)
    yield from _order_signs(found)
    yield from _loss_signs(found)
    keyless = [".".join(name) for name, table in sorted(found.tables.items()) if not table.key_names]
    if keyless:
        text = (
            f"no key in the messages of {_few(keyless)}: where no DDL tells one either, equal rows are "
            "counted"
        )
        yield Sign(
            "warn", "keys", text, "give such tables a primary key upstream, or say `key:` in their YAML"
        )


def _image_signs(found: Survey) -> Iterator[Sign]:
    seen = found.tables.values()
    updates, without = sum(table.updates for table in seen), sum(table.without_old for table in seen)
    row = FORMATS[found.format]
    if row.hides_updates and found.reinserted and not updates:
        text = (
            f"{found.reinserted} inserts are of rows that were there: old values are off, and an "
            "update can't be told from an insert"
        )
        yield Sign("warn", "old values", text, row.hides_updates)
    elif updates and without == updates:
        yield Sign(
            "warn",
            "old values",
            f"none of {updates} updates has its old row: a changed key leaves the old row behind",
            row.producer.old_rows,
        )
    partial = sum(table.partial for table in seen)
    if partial:
        yield Sign(
            "warn",
            "images",
            f"{partial} of {found.changes} changes lack columns: gold completes them from earlier changes",
            row.producer.whole_images,
        )
    deletes, key_only = (
        sum(table.deletes for table in seen),
        sum(table.key_only_deletes for table in seen if len(table.columns) > len(table.key_names)),
    )
    if key_only and key_only == deletes:
        text = f"all {deletes} deletes carry the key alone: history shows no old row for them"
        yield Sign(
            "warn", "deletes", text, "set delete-only-output-handle-key-columns=false at the changefeed"
        )


def _order_signs(found: Survey) -> Iterator[Sign]:
    order = order_of(found.format, found.options)
    if found.split_keys:
        text = f"{found.split_keys} times a key came in another partition than before"
        if order == "arrival":
            yield Sign(
                "fail",
                "partitioning",
                f"{text}: this feed's order is arrival order, so the order of its changes is lost",
                FORMATS[found.format].producer.partitioning,
            )
        else:
            yield Sign(
                "warn",
                "partitioning",
                f"{text}: order comes from positions, so only lag suffers",
                "dispatch by table or index-value",
            )
    if found.changes < _ENOUGH or found.watermarks:
        return
    if sends_watermarks(found.format, found.options) and not FORMATS[found.format].transactions:
        text = "no watermark in the sample: under `consistency: resolved` gold waits for one"
        yield Sign(
            "warn",
            "watermarks",
            text,
            "set enable-tidb-extension=true at the changefeed, or write consistency: eventual",
        )


def _loss_signs(found: Survey) -> Iterator[Sign]:
    if found.claim_checks and not found.options.get("claim_check"):
        text = f"{found.claim_checks} messages name claim-check files, and no folder is said to hold them"
        yield Sign("fail", "claim check", text, "say claim_check: FOLDER in the source's YAML")
    known = {
        "unresolved": (
            "rows came without their values",
            "use claim check, or raise max-message-bytes, instead of handle-key-only",
        ),
        "statement": (
            "changes came as statements, without their rows",
            "set binlog_format=ROW at the server",
        ),
        "claim_check": (
            "claim-check files could not be read",
            "say claim_check: FOLDER, and keep its files as long as the topic",
        ),
    }
    for code, number in sorted(found.dead.items()):
        text, fix = known.get(
            code,
            (
                "messages can't be decoded",
                "look at them: lakehouse inspect --source FILE --topic … --offset …",
            ),
        )
        yield Sign("fail", f"dead letters {code}", f"{number} {text}", fix)


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
