"""A dump read whole: its position, then table by table what it holds.

    mysqldump            one file: comments tell database and position, each CREATE TABLE is followed by rows
    mydumper, Dumpling   a folder: `metadata`, `DB-schema-create.sql`, `DB.TABLE-schema.sql` and, for rows,
                         `DB.TABLE.sql`, `DB.TABLE.00000.sql` or `DB.TABLE.000000000.csv`; mydumper's CSV is
                         `DB.TABLE.00000.dat`, beside a `DB.TABLE.00000.sql` that loads it

Files may be gzip or Zstandard. Views, sequences, triggers and routines are passed over. Reading needs memory
for one row beside a megabyte, whatever the size of a file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import unquote

from lakehouse.ddl import edits
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.errors import DdlError, LakehouseError
from lakehouse.sources.dumps import tuples
from lakehouse.sources.dumps.csv_rows import DUMPLING, Dialect, Field, csv_rows, fields_of_dumpling
from lakehouse.sources.dumps.files import (
    DumpFiles,
    Metered,
    SqlFile,
    classify,
    database_named,
    loaded_by_statements,
    refuse_twice,
    stem_of_data,
    text_of,
    window_of,
)
from lakehouse.sources.dumps.load_data import load_of
from lakehouse.sources.dumps.metadata import read_metadata
from lakehouse.sources.dumps.records import DumpEvent, Place, Rows, TableBegins, TableEnds
from lakehouse.sources.dumps.session import Session, after_comment, after_statement, begins_dump
from lakehouse.sources.dumps.statements import Comment, Insert, Statement, name_of, statements
from lakehouse.sources.dumps.window import Window

METADATA = "metadata"
# rows are given so many at a time
BATCH = 1000
_CREATE_TABLE = re.compile(rb"CREATE\s+TABLE\b", re.I)
_CREATE_DATABASE = re.compile(
    rb"CREATE\s+DATABASE\s+(?:/\*.*?\*/\s*|IF\s+NOT\s+EXISTS\s+)*(`(?:[^`]|``)+`|[\w$]+)", re.I | re.S
)
# in a table's comment it would stand behind a quote
_IS_SEQUENCE = re.compile(r"^\)[^'\"\n]*\bSEQUENCE\s*=\s*1\b", re.I | re.M)
# Dumpling reads text as utf8mb4, whatever its files say; its numbers are longer than mydumper's
_OF_DUMPLING = re.compile(r"\.\d{9,}$")


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump that has been found. `place` is None where it does not tell its position; `path` is the one file
    of mysqldump, None for a folder; `zone` that of TIMESTAMP where its files do not tell it; `rows` how many
    rows a folder's tables have, by the stem of their files, as far as that is told.
    """

    files: Metered
    place: Place | None
    path: str | None
    zone: str | None = None
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of its files, packed as they are."""
        return sum(info.size for info in self.files.paths() if self.path in (None, info.path))

    def events(self) -> Iterator[DumpEvent]:
        """The tables with their rows. LakehouseError names the file, the byte and what to do."""
        if self.path is not None:
            with window_of(self.files, self.path) as window:
                yield from _OneFile(window).events()
        else:
            yield from _of_folder(self.files, self.rows)


def find_dump(given: DumpFiles) -> Dump:
    """The dump of a folder or of one file. LakehouseError where there is none, or one that did not finish."""
    files = Metered(given)
    paths = [info.path for info in files.paths()]
    if METADATA in paths:
        metadata = read_metadata(text_of(files, METADATA))
        if not metadata.finished:
            raise LakehouseError(
                f"{files.name}/{METADATA}: expected `Finished dump at`, got none: the dump was cut short"
            )
        return Dump(files, metadata.place, None, rows=metadata.rows)
    found = [path for path in paths if (file := classify(path)) is not None and file.kind == "sql"]
    if len(found) != 1:
        cut = ", and metadata.partial: the dump was cut short" if f"{METADATA}.partial" in paths else ""
        raise LakehouseError(
            f"{files.name}: expected `metadata` of Dumpling or mydumper, or one SQL file of mysqldump, got "
            f"{len(found)} SQL files{cut}"
        )
    with window_of(files, found[0]) as window:
        return Dump(files, _OneFile(window).place(), found[0])


# mysqldump's file


class _OneFile:
    """The tables of one SQL file, in their order."""

    def __init__(self, window: Window) -> None:
        self.window, self.session = window, Session()
        self.table: TableBegins | None = None
        # `has_data`: the dump says that here are the table's rows, though they may be none
        self.rows, self.has_data = 0, False

    def place(self) -> Place | None:
        """The position that stands before the first table."""
        for found in statements(self.window):
            if isinstance(found, Insert) or _creates_table(found):
                break
            self._note(found)
        return self.session.place

    def events(self) -> Iterator[DumpEvent]:
        for found in statements(self.window):
            if isinstance(found, Insert):
                yield from self._rows(found)
            elif isinstance(found, Statement) and _creates_table(found):
                yield from self._ended()
                self.table = _table_of(found, self.window.name, self.session.database)
                if self.table is not None:
                    yield self.table
            else:
                self._note(found)
        if self.session.is_cut_short:
            raise self._cut_short()
        yield from self._ended()

    def _cut_short(self) -> LakehouseError:
        return LakehouseError(
            f"{self.window.name}: expected `-- Dump completed` at its end, got none: the dump was cut short; "
            "dump again"
        )

    def _note(self, found: Comment | Statement | Insert) -> None:
        if isinstance(found, Comment):
            self.has_data |= found.text.startswith("Dumping data for table")
            if self.session.known and found.text.startswith("WHERE:"):
                raise LakehouseError(
                    f"{self.window.name}: byte {found.offset}: expected all rows of a table, got a dump with "
                    "--where: what it lacks would count as deleted; dump again without"
                )
            if begins_dump(found.text) and self.session.is_cut_short:
                raise self._cut_short()
            before, self.session = self.session.place, after_comment(self.session, found.text)
            self._refuse_two_places(before, found.offset)
        elif isinstance(found, Statement):
            where = f"{self.window.name}: byte {found.offset}"
            before, self.session = self.session.place, after_statement(self.session, found.text, where)
            self._refuse_two_places(before, found.offset)

    def _refuse_two_places(self, before: Place | None, offset: int) -> None:
        if before is not None and self.session.place != before:
            raise LakehouseError(
                f"{self.window.name}: byte {offset}: expected one position, got {before} and "
                f"{self.session.place}: several dumps in one file; import each from a file of its own"
            )

    def _ended(self) -> Iterator[DumpEvent]:
        if self.table is not None:
            left_out, known = not self.rows and not self.has_data, self.session.known
            yield TableEnds(self.rows, left_out=left_out and known, untold=left_out and not known)
        self.table, self.rows, self.has_data = None, 0, False

    def _rows(self, insert: Insert) -> Iterator[DumpEvent]:
        name = None if self.table is None else (insert.database or self.table.name[0], insert.table)
        if self.table is None or self.table.name != name:
            self.window.fail(f"CREATE TABLE {insert.table} right before its rows", got="rows of it")
        for rows in _rows_of(self.window, insert, self.table, self.session):
            self.rows += len(rows.rows)
            yield rows


def _creates_table(found: Comment | Statement | Insert) -> bool:
    return isinstance(found, Statement) and _CREATE_TABLE.match(found.text) is not None


# A folder


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of a folder by what they hold; data files by the stem of their table's schema file. `loaded`
    are those that an SQL file of the same stem loads.
    """

    schemas: dict[str, SqlFile]
    databases: dict[str, str]
    data: dict[str, list[SqlFile]]
    loaded: dict[str, SqlFile]


def _of_folder(files: DumpFiles, told: Mapping[str, int]) -> Iterator[DumpEvent]:
    folder = _folder(files)
    if folder.schemas and not folder.data:
        raise LakehouseError(
            f"{files.name}: expected files with rows, got schemas alone: all tables would count as empty; "
            "dump again without --no-data"
        )
    tables = {
        stem: _table_of_folder(files, file, folder.databases) for stem, file in sorted(folder.schemas.items())
    }
    _refuse_hidden(files.name, told, tables)
    for stem, table in tables.items():
        if table is None:
            continue
        yield table
        count = 0
        for data in folder.data.get(stem, ()):
            for rows in _rows_of_file(files, data, folder.loaded.get(data.stem), table):
                count += len(rows.rows)
                yield rows
        expected = told.get(stem, told.get(".".join(table.name), count))
        if expected != count:
            raise LakehouseError(
                f"{files.name}: expected {expected} rows of {stem}, as metadata says, got {count}: a file "
                "is missing, or left from another dump; copy it again, or dump again"
            )
        yield TableEnds(count)


def _refuse_hidden(name: str, told: Mapping[str, int], tables: Mapping[str, TableBegins | None]) -> None:
    """LakehouseError where metadata tells of rows of a table that has no schema file, and whose files Spark
    hides in a remote folder. Others may have been left out of a copy on purpose.
    """
    hidden = sorted(stem for stem, count in told.items() if count and stem[:1] in ("_", "."))
    if missing := [stem for stem in hidden if stem not in tables]:
        raise LakehouseError(
            f"{name}: expected the schema of {missing[0]}, of which metadata tells, got none: Spark hides "
            "files whose names begin with _ or a dot; copy the folder to a local one"
        )


def _folder(files: DumpFiles) -> _Folder:
    found = [file for info in files.paths() if (file := classify(info.path)) is not None]
    refuse_twice(found)
    others = {file.stem for file in found if file.role == "other" and not file.path.endswith("triggers.sql")}
    schemas = {file.stem: file for file in found if file.role == "schema"}
    stems, data = frozenset(schemas), dict[str, list[SqlFile]]()
    loaded = loaded_by_statements(found)
    for file in (file for file in found if file.role == "data" and file != loaded.get(file.stem)):
        stem = stem_of_data(file, stems)
        if stem is None:
            raise LakehouseError(
                f"{file.path}: expected the schema of its table beside it (…-schema.sql), got none; dump "
                "again with schemas (without --no-schemas)"
            )
        data.setdefault(stem, []).append(file)
    databases = {file.stem: _database_of(files, file) for file in found if file.role == "database"}
    views = {stem for stem in others if stem in schemas and stem not in data and _is_view(found, stem)}
    schemas = {stem: file for stem, file in schemas.items() if stem not in views}
    return _Folder(schemas, databases, data, loaded)


def _is_view(found: list[SqlFile], stem: str) -> bool:
    return any(file.stem == stem and "-schema-view.sql" in file.path for file in found)


def _database_of(files: DumpFiles, file: SqlFile) -> str:
    found = _CREATE_DATABASE.search(text_of(files, file.path).encode())
    return name_of(found[1]) if found else unquote(file.stem)


def _table_of_folder(files: DumpFiles, file: SqlFile, databases: dict[str, str]) -> TableBegins | None:
    with window_of(files, file.path) as window:
        for found in statements(window):
            if isinstance(found, Statement) and _creates_table(found):
                table = _table_of(found, file.path, "")
                name = "" if table is None else table.name[1]
                return table and table._replace(name=(database_named(file, name, databases), name))
            if isinstance(found, Insert):
                window.fail("a schema, as the file is named", got="rows: of a table whose name ends so?")
    return None


def _rows_of_file(
    files: DumpFiles, file: SqlFile, loaded: SqlFile | None, table: TableBegins
) -> Iterator[Rows]:
    if file.kind == "csv":
        columns = [column for column in table.schema.columns if column.generated is None]
        yield from _rows_of_csv(files, file, (DUMPLING, fields_of_dumpling(columns)), Session())
        return
    session, dumpling, unread = Session(), _OF_DUMPLING.search(file.stem) is not None, loaded
    with window_of(files, file.path) as window:
        for found in statements(window):
            if isinstance(found, Insert):
                if found.table != table.name[1]:
                    window.fail(f"rows of {table.name[1]}, as the file is named")
                if loaded is not None:
                    raise LakehouseError(
                        f"{file.path}: expected each file of the dump once, got {loaded.path} too; remove one"
                    )
                here = Session(zone=session.zone, escapes=session.escapes) if dumpling else session
                yield from _rows_of(window, found, table, here, dumpling=dumpling)
            elif isinstance(found, Statement) and found.text[:9].upper() == b"LOAD DATA":
                yield from _rows_loaded(files, found.text, (file, unread), table, session=session)
                unread = None
            elif isinstance(found, Statement):
                session = after_statement(session, found.text, f"{file.path}: byte {found.offset}")
    if unread is not None:
        raise LakehouseError(
            f"{file.path}: expected the LOAD DATA of {unread.path}, got none: the file may be cut short; "
            "copy it again, or dump again"
        )


def _rows_loaded(
    files: DumpFiles,
    text: bytes,
    beside: tuple[SqlFile, SqlFile | None],
    table: TableBegins,
    session: Session,
) -> Iterator[Rows]:
    """The rows of the file that a LOAD DATA names, which lies beside the statement's."""
    file, loaded = beside
    load = load_of(text, table.schema, file.path)
    named = classify(load.file)
    if loaded is None or named is None or named.stem != loaded.stem or load.table != table.name[1]:
        raise LakehouseError(
            f"{file.path}: expected rows of {table.name[1]} in {load.file} beside it, got no such file, or "
            "another one; copy it again, or dump again"
        )
    if load.charset not in (None, session.charset):
        raise LakehouseError(
            f"{file.path}: expected rows in the charset of SET NAMES, got {load.charset}; dump again with "
            "--set-names binary"
        )
    yield from _rows_of_csv(files, loaded, (load.dialect, load.fields), session)


def _rows_of_csv(
    files: DumpFiles, file: SqlFile, written: tuple[Dialect, list[Field]], session: Session
) -> Iterator[Rows]:
    """The rows of a file that is `written` in a dialect, with these columns."""
    dialect, fields = written
    names = tuple(field.name for field in fields)
    with window_of(files, file.path) as window:
        yield from _batches(csv_rows(window, dialect, fields), names, window, session)


# Both


def _table_of(found: Statement, path: str, database: str | None) -> TableBegins | None:
    """The table that a CREATE TABLE makes; None for a sequence."""
    text, where = found.text.decode(errors="replace"), f"{path}: byte {found.offset}"
    if _IS_SEQUENCE.search(text):
        return None
    try:
        statement = read(text)[0]
        if not isinstance(statement, edits.CreateTable):
            raise DdlError("expected CREATE TABLE with columns, got another statement")
        schema = create(statement)
    except DdlError as error:
        raise LakehouseError(f"{where}: {error}; leave the table out of the dump, or report it") from error
    if statement.database is None and database is None:
        raise LakehouseError(
            f"{where}: expected the database of {statement.table}, got none; dump again with --databases"
        )
    return TableBegins((statement.database or database or "", statement.table), text, schema)


def _rows_of(
    window: Window, insert: Insert, table: TableBegins, session: Session, *, dumpling: bool = False
) -> Iterator[Rows]:
    every = tuple(column.name for column in table.schema.columns)
    columns = every if insert.columns is None else insert.columns
    if unknown := [name for name in columns if table.schema.column(name) is None]:
        window.fail(f"columns of the table's CREATE, not {', '.join(unknown)}")
    found = tuples.rows(window, escapes=session.escapes, dumpling=dumpling)
    yield from _batches(found, columns, window, session)


def _batches(
    rows: Iterator[tuples.Row], columns: tuple[str, ...], window: Window, session: Session
) -> Iterator[Rows]:
    while batch := list(islice(rows, BATCH)):
        for row in batch:
            if len(row) != len(columns):
                window.fail(f"{len(columns)} values in each row", got=f"a row of {len(row)} before it")
        charset = None if session.charset == "binary" else session.charset
        yield Rows(columns, batch, charset, session.zone)
