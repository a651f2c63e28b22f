"""The server's pages beside the report: a table, a row's history, dead letters and their bytes, manifests and
the difference between two, and what went wrong.
"""

import json
from collections.abc import Sequence
from typing import Any

from lakehouse.events import Position
from lakehouse.reporting.text.lists import EFFECTS
from lakehouse.reporting.text.remedies import dead_letters, of_table
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.text.values import counted, hex_lines, moment, place, shown_size, statement, tso_of
from lakehouse.reporting.web.document import Heading, document
from lakehouse.reporting.web.markup import (
    Markup,
    Query,
    code,
    element,
    joined,
    link,
    state,
    steps,
    table,
    text,
)
from lakehouse.reporting.web.readings import (
    Bytes,
    ChangesBetween,
    Difference,
    Image,
    Letter,
    LetterBytes,
    Letters,
    Manifests,
    Place,
    Published,
    RowChange,
    RowHistory,
    TableChange,
    TableRows,
)

# Characters of a value that are shown.
VALUE = 300
STATEMENT = 500
HOME = link("/", (), "All sources")
NULL = element("span", "NULL", "muted")


def _titled(title: str, *inner: object) -> Markup:
    return joined([element("h2", title), *inner])


def _place(position: Position, order: str) -> Markup:
    return element("span", place(position, order), "at")


# --- a table and its rows


def table_page(found: TableRows, view: View) -> str:
    """A gold table: state and remedy, rows, and its statements."""
    source = [("source", found.source)]
    links = (HOME, link("/letters", source, "Dead letters"), link("/manifests", source, "Manifests"))
    below = f"{found.source}, gold table {found.gold}, version {found.version}"
    parts = [
        _state_of(found, view),
        _titled("Find a row", _finder(found, view)),
        _rows(found),
        _statements(found),
    ]
    return document(Heading(found.name, below, links), joined(parts))


def _state_of(found: TableRows, view: View) -> Markup:
    since = f" since {place(found.since, found.order)}" if found.since else ""
    why = f": {found.why}" if found.why else ""
    where = view.where(found.source, found.name)
    remedy = steps(of_table({"state": found.state, "why": found.why}, where))
    notes = [element("p", note, "muted") for note in found.notes]
    named = [element("p", f"Names so far: {', '.join(found.names)}", "muted")] if len(found.names) > 1 else []
    return joined([element("p", joined([state(found.state), since, why])), remedy, *notes, *named])


def _finder(found: TableRows, view: View) -> Markup:
    """The form that asks for a row by its key."""
    if not found.key:
        what = "Gold does not have the source's key as it is (there is none, or it is masked or left out)"
        where = view.where(found.source, found.name)
        command = where.command("show", "TABLE", "--layer", "silver")
        return element("p", joined([f"{what}: its rows have no history here. ", code(command), " has all."]))
    fields = "".join(
        f"<label>{text(name)}<input type='text' name='k' required='' autocomplete='off'/></label>"
        for name in found.key
    )
    hidden = _hidden([("source", found.source), ("table", found.name)])
    return Markup(f"<form action='/row'>{hidden}{fields}<button>Its history</button></form>")


def _hidden(query: Query) -> str:
    return "".join(
        f"<input type='hidden' name='{text(name)}' value='{text(value)}'/>" for name, value in query
    )


def _rows(found: TableRows) -> Markup:
    rows = [
        [*_history_of(found, row), *(_value(row.get(name)) for name in found.columns)] for row in found.rows
    ]
    names = [*(["row"] if found.key else []), *found.columns]
    note = f"The first {counted(len(found.rows), 'row')} of more." if found.more else ""
    shown = table(names, rows, kind="rows", none="No rows.")
    return _titled("Rows", shown, element("p", note, "muted") if note else "")


def _history_of(found: TableRows, row: Image) -> list[Markup]:
    if not found.key:
        return []
    values = [("k", _plain(row[name])) for name in found.key]
    return [link("/row", [("source", found.source), ("table", found.name), *values], "history")]


def _statements(found: TableRows) -> Markup:
    rows = [
        (
            _place(one.position, found.order),
            code(statement(one.ddl, STATEMENT) or "(schema record, or inferred from rows)"),
            "; ".join(EFFECTS.get(effect, effect) for effect in one.effects),
        )
        for one in reversed(found.statements)
    ]
    return _titled("Statements, newest first", table(("from", "statement", "effect on rows"), rows))


def row_page(found: RowHistory) -> str:
    """A page of a row's changes."""
    query: list[tuple[str, object]] = [("source", found.source), ("table", found.table)]
    key = ", ".join(f"{name} = {value}" for name, value in found.key)
    links = (HOME, link("/table", query, found.table))
    query += [("k", value) for _, value in found.key]
    parts = [_changes(found.changes, found.order), _later("/row", query, found)]
    below = f"{found.source}, {found.table}: every change that silver has of this row, oldest first"
    return document(Heading(key, below, links), joined(parts))


def changes_page(found: ChangesBetween) -> str:
    """A page of a table's changes between two manifests."""
    query: list[tuple[str, object]] = [("source", found.source)]
    ends: list[tuple[str, object]] = [("from", found.first), ("to", found.second)]
    difference = link("/diff", [*query, *ends], f"Manifest {found.first} → {found.second}")
    query.append(("table", found.table))
    links = (HOME, difference, link("/table", query, found.table))
    parts = [
        _changes(found.changes, found.order, keyed=True),
        _later("/changes", [*query, *ends], found),
    ]
    below = (
        f"{found.source}: between the watermarks of manifests {found.first} and {found.second}, oldest first"
    )
    return document(Heading(f"Changes of {found.table}", below, links), joined(parts))


def _changes(changes: Sequence[RowChange], order: str, keyed: bool = False) -> Markup:
    """Changes, one per line; `keyed`: each says which row it is of."""
    rows = [
        (_at(one, order), _op(one.op), _changed(one, one.key if keyed else ()), _origin(one))
        for one in changes
    ]
    return table(("at", "change", "values", "message"), rows, kind="rows", none="No change.")


def _later(path: str, query: Query, found: RowHistory | ChangesBetween) -> Markup:
    if not found.more:
        return Markup()
    last = found.changes[-1].position
    shown = sum(one.position == last for one in found.changes)
    if found.after is not None and found.after.position == last:
        shown += found.after.shown
    after = ",".join(map(str, (*last, shown)))
    return element("p", link(path, [*query, ("after", after)], "Later changes"))


def _at(change: RowChange, order: str) -> Markup:
    """Where a change is in its feed, and when it was committed, which a TSO says by itself."""
    when = "" if change.committed is None or tso_of(change.position) else moment(change.committed)
    return joined([_place(change.position, order), element("div", when, "muted") if when else ""])


def _op(op: str) -> Markup:
    """The kind of a change."""
    return element("span", op, "state")


def _changed(change: RowChange, key: Sequence[str]) -> Markup:
    """What a change says: of an update with both images the columns of the key, and those that differ; else
    the row.
    """
    before, after = change.before, change.after
    if before is not None and after is not None:
        names = [name for name in {**before, **after} if before.get(name, ...) != after.get(name, ...)]
        lines = [_line(name, _value(after[name])) for name in key if name in after and name not in names]
        lines += [_line(name, _value_in(before, name), " → ", _value_in(after, name)) for name in names]
        return joined(lines or [element("span", "no column that is shown has changed", "muted")])
    image = after if after is not None else before or {}
    return joined(_line(name, _value(value)) for name, value in image.items())


def _line(name: str, *values: object) -> Markup:
    return element("div", joined([element("span", f"{name}: ", "muted"), *values]))


def _value_in(image: Image, name: str) -> Markup:
    return _value(image[name]) if name in image else element("span", "not sent", "muted")


def _origin(change: RowChange) -> Markup:
    flags = f"; {', '.join(change.flags)}" if change.flags else ""
    return joined(
        [code(change.origin), element("div", f"{change.table}, batch {change.batch}{flags}", "muted")]
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(value: Any) -> Markup:
    if value is None:
        return NULL
    plain = _plain(value)
    return Markup(text(plain if len(plain) <= VALUE else f"{plain[: VALUE - 1]}…"))


# --- dead letters


def letters_page(found: Letters, view: View) -> str:
    """A page of a source's dead letters, and what settles them."""
    query: list[tuple[str, object]] = [("source", found.source)]
    query += [("code", found.code)] if found.code else []
    rows = [
        (
            state("open" if one.is_open else "closed"),
            one.code,
            one.table,
            one.message,
            _bytes(found.source, one),
        )
        for one in found.letters
    ]
    names = ("state", "code", "table", "why", "bytes")
    parts = [table(names, rows, none="None.")]
    if any(one.is_open for one in found.letters):
        parts.append(_titled("What settles them", steps(dead_letters(view.where(found.source))[1:])))
    pages = []
    if found.page:
        pages.append(link("/letters", [*query, ("page", found.page - 1)], "Newer"))
    if found.more:
        pages.append(link("/letters", [*query, ("page", found.page + 1)], "Older"))
    parts.append(element("p", joined(pages, " ")))
    of_code = f" of code {found.code}" if found.code else ""
    heading = Heading(f"Dead letters of {found.source}{of_code}", "newest first", (HOME,))
    return document(heading, joined(parts))


def _bytes(source: str, letter: Letter) -> Markup:
    return link("/letter", [("source", source), *place_query(letter.place)], code(letter.origin))


def place_query(at: Place) -> list[tuple[str, object]]:
    """A record's place as an address has it."""
    return [
        ("topic", at.topic),
        ("incarnation", at.incarnation),
        ("partition", at.partition),
        ("offset", at.offset),
    ]


def letter_page(found: LetterBytes) -> str:
    """The bytes of a dead letter's record."""
    links = (HOME, link("/letters", [("source", found.source)], f"Dead letters of {found.source}"))
    why = [element("p", joined([code(one.code), " ", one.table, " ", one.message])) for one in found.letters]
    note = "The message as it came: no mask of a table's YAML is applied to it."
    parts: list[object] = [*why, element("p", note, "muted")]
    parts += [_titled("Key", _dump(found.key)), _titled("Value", _dump(found.value))]
    for name, value in found.headers:
        parts.append(_titled(f"Header {name}", _dump(value)))
    at = "" if found.timestamp is None else moment(found.timestamp)
    return document(Heading(found.origin, at, links), joined(parts))


def _dump(data: Bytes | None) -> Markup:
    if data is None:
        return element("p", "None.", "none")
    lines = element("pre", "\n".join(hex_lines(data.beginning))) if data.beginning else ""
    return joined([element("p", shown_size(len(data.beginning), data.size), "muted"), lines])


# --- manifests


def manifests_page(found: Manifests) -> str:
    """A page of a source's manifests, two of which can be compared."""
    rows = [
        (
            _choice("from", one, index == 1),
            _choice("to", one, index == 0),
            one.number,
            moment(one.at),
            _place(one.watermark, found.order),
            ", ".join(f"{count} {word}" for word, count in one.states.items()),
        )
        for index, one in enumerate(found.manifests)
    ]
    names = ("from", "to", "number", "published", "watermark", "tables")
    shown = table(names, rows, numbers=(2,), none="Gold has published nothing yet.")
    hidden = _hidden([("source", found.source)])
    button = "<button>Show the difference</button>" if len(rows) > 1 else ""
    parts: list[object] = [Markup(f"<form action='/diff'>{hidden}{button}{shown}</form>")]
    if found.more:
        query = [("source", found.source), ("before", found.manifests[-1].number)]
        parts.append(element("p", link("/manifests", query, "Older")))
    heading = Heading(f"Manifests of {found.source}", "what gold has published, newest first", (HOME,))
    return document(heading, joined(parts))


def _choice(name: str, one: Published, chosen: bool) -> Markup:
    checked = " checked=''" if chosen else ""
    label = text(f"{name} manifest {one.number}")
    return Markup(f"<input type='radio' name='{name}' value='{one.number}' aria-label='{label}'{checked}/>")


def difference_page(found: Difference) -> str:
    """What is different between two manifests."""
    links = (HOME, link("/manifests", [("source", found.source)], f"Manifests of {found.source}"))
    ends = [
        (one.number, moment(one.at), _place(one.watermark, found.order), one.batch)
        for one in (found.first, found.second)
    ]
    names = ("table", "state", "version", "changes in silver", "why")
    rows = [_difference_row(found, one) for one in found.tables]
    same = f"{counted(found.same, 'table')} as before." if found.same else ""
    statements = [
        (_place(one.position, found.order), one.table, code(statement(one.ddl, STATEMENT)))
        for one in found.statements
    ]
    more = f"The first {len(statements)} of more." if found.more else ""
    parts = [
        table(("manifest", "published", "watermark", "silver batch"), ends, numbers=(0, 3)),
        _titled(
            "Tables", table(names, rows, numbers=(3,), none="No difference."), element("p", same, "muted")
        ),
        _titled(
            "Statements in between",
            table(("at", "table", "statement"), statements, none="None."),
            element("p", more, "muted"),
        ),
    ]
    heading = Heading(f"Manifest {found.first.number} → {found.second.number}", found.source, links)
    return document(heading, joined(parts))


def _difference_row(found: Difference, one: TableChange) -> Sequence[object]:
    query = [("source", found.source), ("table", one.table)]
    ends = [("from", found.first.number), ("to", found.second.number)]
    is_there = one.states[1] not in (None, "retired")
    name = link("/table", query, one.table) if is_there else one.table
    changes = link("/changes", [*query, *ends], one.changes) if is_there and one.changes else one.changes
    states = [state(word) if word else element("span", "not there", "muted") for word in one.states]
    versions = ["none" if version is None else version for version in one.versions]
    return name, _between(states), _between(versions), changes, one.why


def _between(ends: Sequence[object]) -> Markup:
    """One value, or two with an arrow between them."""
    return joined(dict.fromkeys(Markup(text(end)) for end in ends), " → ")


# --- what went wrong


def error_page(title: str, what: str) -> str:
    """What went wrong, with its place and what to do."""
    return document(Heading(title, "", (HOME,)), element("p", what, "fail"))
