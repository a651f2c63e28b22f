"""What the statements in all schema files of a TiCDC storage sink tell of each table.

    schema files, in the order of TableVersion ─▶ Facts per file

name       As the table's rows spell it. The new architecture writes the statements of a table with capitals
           to a folder in lower case (`k/orders/meta/…` with CREATE TABLE `k`.`Orders`), its rows to another,
           `k/Orders`. TiDB has no two tables whose names differ in case alone: both folders are of one table.
virtual    Its VIRTUAL generated columns, which schema files list unmarked and no row carries.
orders     Those that the columns of rows in its version's folder may have.
clustered  Whether rows are stored by the primary key, as far as the CREATE says so: then TiKV itself deletes
           the old row and puts a new one where an UPDATE changes the key, and every release sends both.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice, takewhile
from typing import Any, NamedTuple

import msgspec

from lakehouse.formats.ticdc.storage_schema import TableDefinition
from lakehouse.schema import name_key, parse_type

Name = tuple[str, str]
# a schema file's schema, table and table id, and its version
Place = tuple[str | None, str | None, int | None, int]
Orders = tuple[tuple[int, tuple[str, ...]], ...]


class Version(NamedTuple):
    """One schema file: the name that its path gives, and the content. `table` is empty for a database's."""

    schema: str
    table: str
    definition: TableDefinition


class Facts(NamedTuple):
    """What is known of a table behind one schema file."""

    name: Name
    virtual: frozenset[str] = frozenset()
    clustered: bool = False


class _Spellings(NamedTuple):
    """Names with capitals that paths have, by their lower case."""

    schemas: dict[str, str]
    tables: dict[Name, str]


def facts_of(history: Iterable[Version]) -> Iterator[Facts]:
    """Per version, in the order of TableVersion over all tables, what is known of its table.

    A table that was there before the feed began has no CREATE in its history: what is VIRTUAL in it is not
    known here. Files of one TableVersion come of one statement, which may rename tables in a circle: each in
    the turn in which its new name is free, and a snapshot of the schema last.
    """
    versions = list(history)
    spellings = _spellings(versions)
    tables: dict[Name, Facts] = {}
    for _, found in groupby(versions, key=lambda version: version.definition.table_version or object()):
        group = list(found)
        origins = [_renamed_from(version) for version in group]
        told: dict[int, Facts] = {}
        for turn in _turns(group, origins, tables):
            told[turn] = _facts(group[turn], origins[turn], tables, spellings)
        yield from (told[number] for number in range(len(group)))


def _turns(group: list[Version], origins: list[Name | None], tables: Mapping[Name, Facts]) -> Iterator[int]:
    """The order in which files of one TableVersion count: those that rename nothing, those that do, each by
    what is in `tables` when it is asked for, and the snapshot. All tables of a feed's beginning have one
    TableVersion, so only what is renamed together is compared with each other.
    """
    stay = [number for number, origin in enumerate(origins) if origin is None]
    pending = {number: origin for number, origin in enumerate(origins) if origin is not None}
    yield from (number for number in stay if group[number].definition.query)
    while pending:
        left = set(pending.values())
        turn = min(pending, key=lambda number: _rank(group[number], pending[number], left, tables))
        del pending[turn]
        yield turn
    yield from (number for number in stay if not group[number].definition.query)


def _rank(version: Version, origin: Name, left: set[Name], tables: Mapping[Name, Facts]) -> tuple[bool, ...]:
    """What speaks against a renamed table as the next one; `left` are the old names of all that are left."""
    name = _folded(version.schema, version.table)
    return (name in tables, name in left, origin not in tables)


def _facts(version: Version, origin: Name | None, tables: dict[Name, Facts], spellings: _Spellings) -> Facts:
    """What is known behind one statement, which `tables` learns of. A file without columns is that of a table
    that goes.
    """
    schema, table, definition = version
    name, before = _folded(schema, table), tables.pop(origin, None) if origin is not None else None
    known = tables.get(name)
    if before is None:
        before = tables.get(_like(definition.query, schema) or name, Facts(name))
    names = {column.column_name for column in definition.columns}
    lists_columns = _creates(definition.query) is not None and not _LIKE.search(definition.query)
    database = tables.get(_folded(schema, ""))
    facts = Facts(
        _spelled(version, known.name if known else (database.name[0] if database else "", ""), spellings),
        _virtual(definition, before.virtual, names),
        _is_clustered(definition.query) if lists_columns else before.clustered,
    )
    if names or origin is not None or not table:
        tables[name] = facts
    else:
        tables.pop(name, None)
    return facts if names else facts._replace(virtual=frozenset())


# Orders of columns


class Described(NamedTuple):
    """A schema file: its place, checksum and content, and the name of its table."""

    place: Place
    checksum: str | None
    version: Version
    name: Name


def column_orders(files: Iterable[Described]) -> tuple[dict[Place, Orders], frozenset[Place]]:
    """Per schema file, from which version on its columns have had which order, among those of equal checksum
    in its own folder up to it, and those of equal columns elsewhere before the next one; where there are
    several. Before the first one, which no file tells, it is the same, or none where its statement may have
    moved columns. And the places that may have rows of before and of behind one elsewhere that empties the
    table, or that gives it its columns back, whose rows of between are in another folder of their own.
    """
    described = [one for one in files if one.checksum is not None and one.version.definition.columns]
    own, alike = defaultdict[Any, list[int]](list), defaultdict[Any, list[Described]](list)
    folders, versions = defaultdict[Name, set[Any]](set), defaultdict[Any, list[int]](list)
    for one in described:
        folders[one.name].add(one.place[:3])
    # of a table in one folder there is no statement elsewhere
    keys = [_columns_of(one) if len(folders[one.name]) > 1 else None for one in described]
    for one, key in zip(described, keys, strict=True):
        own[one.place[:3], one.checksum].append(one.place[3])
        versions[one.place[:3]].append(one.place[3])
        if key is not None:
            alike[key].append(one)
    told: dict[Any, Orders] = {}
    found, anew, back = dict[Place, Orders](), set[Place](), set[Place]()
    for one, key in zip(described, keys, strict=True):
        owner, version, names = (one.place[:3], one.checksum), one.place[3], _names(one)
        base = () if _MOVING.search(one.version.definition.query) else names
        orders = told.get(owner, ((0, base),))
        told[owner] = orders = orders if orders[-1][1] == names else (*orders, (version, names))
        for other in _until_next(alike[key], own[owner], version):
            if _begins(other):
                anew.add(one.place)
                if one.place[2] is not None:  # it has another id
                    break
            elif _has_between(versions[one.place[:3]], version, other.place[3]):
                back.add(one.place)
            if orders[-1][1] != _names(other):
                orders = (*orders, (other.place[3], _names(other)))
        if len(orders) > 1:
            found[one.place] = orders
    return found, frozenset(back.union(place for place in anew if place[2] is None))


def _has_between(versions: list[int], low: int, high: int) -> bool:
    return bisect_right(versions, low) < bisect_left(versions, high)


def _until_next(alike: list[Described], own: list[int], version: int) -> Iterator[Described]:
    """The files, which are in order, of later versions than one and earlier ones than the next of its own."""
    at = bisect_right(own, version)
    first = bisect_right(alike, version, key=lambda one: one.place[3])
    end = own[at] if at < len(own) else None
    return takewhile(lambda one: end is None or one.place[3] < end, islice(alike, first, None))


def _begins(one: Described) -> bool:
    """Whether a file's statement makes its table empty, or another one of that name."""
    return _BEGINS.match(one.version.definition.query) is not None or _renamed_from(one.version) is not None


def _columns_of(one: Described) -> tuple[Name, bytes]:
    """A table's name and its columns in any order. A checksum has the name that its own folder has."""
    columns = sorted(one.version.definition.columns, key=lambda column: column.column_name)
    return one.name, msgspec.json.encode(columns)


def _names(one: Described) -> tuple[str, ...]:
    return tuple(column.column_name for column in one.version.definition.columns)


# Names


def _folded(schema: str, table: str) -> Name:
    """A name as TiDB compares it."""
    return schema.lower(), table.lower()


def _spellings(versions: Iterable[Version]) -> _Spellings:
    found = _Spellings({}, {})
    for schema, table, _ in versions:
        if schema != schema.lower():
            found.schemas[schema.lower()] = schema
        if table != table.lower():
            found.tables[_folded(schema, table)] = table
    return found


def _spelled(version: Version, known: Name, spellings: _Spellings) -> Name:
    """The table's own name. What the path has in lower case is spelled by the statement that gives the name,
    else by the one before it (`known`, empty where there is none), else by another folder of the table.

    Any statement may write the database's name in any case, but for its own CREATE.
    """
    schema, table = version.schema, version.table
    written = _written(version)
    if schema == schema.lower():
        given = written[0] if not table else ""
        schema = given or known[0] or spellings.schemas.get(schema) or written[0] or schema
    if table == table.lower():
        table = written[1] or known[1] or spellings.tables.get(_folded(schema, table)) or table
    return schema, table


def _written(version: Version) -> Name:
    """The name that a CREATE or a RENAME gives the table, or a CREATE the database; empty where the file's
    statement is none.
    """
    schema, table, definition = version
    if not table:
        found = _CREATE_DATABASE.match(definition.query)
        return (_plain(found[1]), "") if found else ("", "")
    given = [(new_schema, new) for _, _, new_schema, new in _renames(definition.query)]
    created = _creates(definition.query)
    for name in [created, *given] if created else given:
        if _folded(name[0] or schema, name[1]) == _folded(schema, table):
            return name
    return "", ""


def _renamed_from(version: Version) -> Name | None:
    """The old name of a table that the statement renames, as TiDB compares it."""
    name = _folded(version.schema, version.table)
    for old_schema, old, new_schema, new in _renames(version.definition.query):
        if _folded(new_schema or version.schema, new) == name:
            return _folded(old_schema or version.schema, old)
    return None


def _renames(query: str) -> list[tuple[str, str, str, str]]:
    """Old and new schema and table of each RENAME; a schema that is not written is empty."""
    found = _RENAME.findall(_OF_A_PART.sub("", query))
    return [(_plain(a), _plain(b), _plain(c), _plain(d)) for a, b, c, d in found]


def _creates(query: str) -> tuple[str, str] | None:
    """Schema (empty where it is not written) and table of a CREATE TABLE."""
    found = _CREATE.match(query)
    return (_plain(found[1] or ""), _plain(found[2])) if found else None


def _like(query: str, schema: str) -> Name | None:
    """The table that a new one is made LIKE, as TiDB compares it."""
    found = _LIKE.search(query)
    return _folded(_plain(found[3] or "") or schema, _plain(found[4])) if found else None


def _is_clustered(query: str) -> bool:
    """Whether a CREATE says that rows are stored by the primary key; NONCLUSTERED is another word."""
    tokens = _TOKEN.findall(query)
    return any(token.upper() == "CLUSTERED" or _CLUSTERED.fullmatch(token) for token in tokens)


# VIRTUAL columns


def _virtual(definition: TableDefinition, before: frozenset[str], names: set[str]) -> frozenset[str]:
    """The VIRTUAL ones of a table's columns `names` behind a statement."""
    renamed = _renamed(definition.query)
    known = frozenset(renamed.get(name_key(column), column) for column in before)
    if not names:
        return known
    defined, folded = _defined(definition.query), set(map(name_key, known))
    return frozenset(name for name in names if defined.get(name, name_key(name) in folded))


# a backslash in a string is one, as TiDB's parser prints it
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|\"(?:[^\"\\]|\"\"|\\.)*\"|/\*.*?\*/|\w+|\S", re.S)
_NAME = r"(?:`((?:[^`]|``)+)`\s*\.\s*)?`((?:[^`]|``)+)`"
_OF_A_PART = re.compile(r"RENAME\s+(?:COLUMN|INDEX|KEY)\s+`(?:[^`]|``)+`\s+TO\s+`(?:[^`]|``)+`", re.I)
_RENAME = re.compile(rf"{_NAME}\s+(?:TO|RENAME\s+(?:AS\s+|TO\s+)?)\s*{_NAME}", re.I)
_LIKE = re.compile(rf"TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+LIKE\s+{_NAME}", re.I)
_CREATE = re.compile(rf"\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.I)
_CREATE_DATABASE = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?`((?:[^`]|``)+)`", re.I
)
_MOVING = re.compile(r"\b(?:FIRST|AFTER|CHANGE|RENAME\s+COLUMN)\b", re.I)
_BEGINS = re.compile(r"\s*(?:TRUNCATE|CREATE\s+TABLE)\b", re.I)
_CLUSTERED = re.compile(r"/\*T!\[clustered_index\]\s*CLUSTERED\s*\*/", re.I)
_RENAMED_COLUMN = re.compile(r"RENAME\s+COLUMN\s+`((?:[^`]|``)+)`\s+TO\s+`((?:[^`]|``)+)`", re.I)


def _renamed(query: str) -> dict[str, str]:
    """Columns by their old names without case; two may exchange theirs."""
    return {name_key(_plain(old)): _plain(new) for old, new in _RENAMED_COLUMN.findall(query)}


def _plain(name: str) -> str:
    return name.replace("``", "`")


def _defined(query: str) -> dict[str, bool]:
    """The columns that a restored statement defines, and whether each is VIRTUAL."""
    tokens = [token for token in _TOKEN.findall(query) if not token.startswith("/*")]
    defined: dict[str, bool] = {}
    for place in range(1, len(tokens) - 1):
        if (
            tokens[place][0] == "`"
            and _begins_type(tokens[place + 1 : place + 3])
            and tokens[place - 1].upper() not in ("TABLE", "EXISTS", ".", "INTERVAL")  # INTERVAL `v` YEAR
        ):
            words = _outer_words(tokens, place + 1)
            defined[_plain(tokens[place][1:-1])] = "AS" in words and not words & {"STORED", "PERSISTENT"}
    return defined


def _begins_type(tokens: list[str]) -> bool:
    word = tokens[0].lower()
    if word in ("set", "enum"):
        return tokens[1:] == ["("]
    return word.isidentifier() and parse_type(word).family != "unknown"


def _outer_words(tokens: list[str], start: int) -> set[str]:
    """The words of one column definition that stand in no parentheses."""
    words, depth = set(), 0
    for token in tokens[start:]:
        depth += (token == "(") - (token == ")")
        if depth < 0 or (depth == 0 and token == ","):
            break
        if depth == 0:
            words.add(token.upper())
    return words
