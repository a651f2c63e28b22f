"""Column types, columns with ids, and table schemas, as immutable values.

A column has an id for life: a rename keeps it, drop and re-add makes a new one. Keys and partition rules name
columns by id, so they survive renames. Type words are MySQL's own, lower case, after synonyms are resolved.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass, field, replace

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
INTEGERS = tuple(INTEGER_BITS)
# families of types whose values a producer can write as NULL: '', 0.00, a zero date or TIME, an ENUM's 0
_NEVER_NULL = (
    *("text", "binary", "json", "decimal", "enum", "set"),
    *("date", "datetime", "timestamp", "time"),
)
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)
SYNONYMS = {
    "integer": "int",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "bool": "tinyint",
    "boolean": "tinyint",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "float4": "float",
    "float8": "double",
    "character": "char",
    "nchar": "char",
    "nvarchar": "varchar",
    "character varying": "varchar",
    "char varying": "varchar",
    "nchar varchar": "varchar",
    "nchar varying": "varchar",
    "serial": "bigint",
    "geomcollection": "geometrycollection",
    "long": "mediumtext",
    "long varchar": "mediumtext",
    "long varbinary": "mediumblob",
    "sql_tsi_year": "year",
}


@functools.lru_cache(maxsize=65536)
def name_key(name: str) -> str:
    """What two names have in common where servers take them for one: they compare each character's lower
    case, as Unicode 3 had it. `É` and `é` are one, `e` and `é`, `ß` and `ss` are not.
    """
    return name.lower() if name.isascii() else "".join(map(_lower, name))


def _lower(char: str) -> str:
    small = char.lower()[0]
    known = unicodedata.ucd_3_2_0
    return char if "Cn" in (known.category(char), known.category(small)) else small


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A MySQL type. `length` is the length, precision, bit width or fraction digits, as the word has it.
    `zerofill` matters to the text of an integer alone, which MySQL and MariaDB write with zeros in front.
    """

    base: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    charset: str | None = None
    members: tuple[str, ...] = ()
    zerofill: bool = False

    @property
    def family(self) -> str:
        """integer, float, double, decimal, bit, text, binary, geometry, date, datetime, timestamp, time,
        year, enum, set, json, vector or unknown.
        """
        return _FAMILIES.get(self.base, "unknown")

    @property
    def size(self) -> int:
        """How many characters or bytes CHAR, VARCHAR, BINARY and VARBINARY hold at most."""
        return 1 if self.length is None else self.length

    def __str__(self) -> str:
        if self.members:
            arguments = "(" + ",".join("'" + member.replace("'", "''") + "'" for member in self.members) + ")"
        elif self.length is None:
            arguments = ""
        else:
            arguments = f"({self.length},{self.scale})" if self.scale is not None else f"({self.length})"
        charset = f" character set {self.charset}" if self.charset else ""
        return f"{self.base}{arguments}{' unsigned' if self.unsigned else ''}{charset}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `default` and `expression` are SQL text; `generated` is None, "virtual" or "stored".
    `auto_increment` is what statements say of it: messages don't.
    """

    id: int
    name: str
    type: ColumnType
    not_null: bool = False
    default: str | None = None
    generated: str | None = None
    expression: str | None = None
    comment: str | None = None
    auto_increment: bool = field(default=False, compare=False)

    @property
    def is_never_null(self) -> bool:
        """Whether a NULL in a message stands for another value, which a producer may spell as its word for
        NULL. Generated columns are left out: a log without their values may have NULL there.
        """
        return self.not_null and self.generated is None and self.type.family in _NEVER_NULL


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """PARTITION BY RANGE or LIST over plain columns. A RANGE bound is the SQL text of LESS THAN (None:
    MAXVALUE); a LIST bound is a tuple of SQL texts. Any other method is `method` alone, and its effects on
    rows are unknowable.
    """

    method: str
    columns: tuple[int, ...] = ()
    partitions: tuple[tuple[str, tuple[str | None, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """An index other than the primary key. DDL names it; a unique one's columns are also among
    `unique_keys`.
    """

    name: str
    columns: tuple[int, ...]
    unique: bool


@dataclass(frozen=True, slots=True)
class GoldKeeps:
    """How gold's columns differ from the source's after an ignored DDL: columns that gold does not show,
    names and types that it keeps by column id, and columns that the source has dropped.
    """

    hidden: tuple[int, ...] = ()
    names: tuple[tuple[int, str], ...] = ()
    types: tuple[tuple[int, ColumnType], ...] = ()
    dropped: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's shape between two DDLs. Keys are tuples of column ids; `unique_keys` in the order they were
    declared.

    `inferred` says that no CREATE was seen: types are those that messages carried. `charset` is the default
    of text columns to come, `indexes` those that are known by name: DDL needs both to give the next schema.
    `versioned`: the table keeps its history among its rows (MariaDB's system versioning), so changes are
    logged as others than they are: a DELETE as an UPDATE, an UPDATE with an INSERT of the old row.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[int, ...] = ()
    unique_keys: tuple[tuple[int, ...], ...] = ()
    partition: PartitionRule | None = None
    next_id: int = 1
    inferred: bool = False
    charset: str | None = None
    indexes: tuple[Index, ...] = ()
    keeps: GoldKeeps = GoldKeeps()
    versioned: bool = False

    def column(self, name: str) -> Column | None:
        """The column of that name; MySQL's column names do not tell upper from lower case."""
        folded = name_key(name)
        return next((column for column in self.columns if name_key(column.name) == folded), None)

    def by_id(self, column_id: int) -> Column | None:
        return next((column for column in self.columns if column.id == column_id), None)

    @property
    def handle_key(self) -> tuple[int, ...]:
        """The ids of the primary key's columns, else of a unique key whose columns are all NOT NULL, else
        none. Of several the one with the fewest columns, and of those the first: so TiCDC chooses, and its
        deletes may carry no other key.
        """
        if self.primary_key:
            return self.primary_key
        not_null = {column.id for column in self.columns if column.not_null}
        return min((key for key in self.unique_keys if set(key) <= not_null), key=len, default=())


def make_schema(
    columns: list[Column], primary_key: tuple[str, ...] = (), *, inferred: bool = False
) -> TableSchema:
    """A schema whose columns get the ids 1… in their order; keys are given by name."""
    numbered = tuple(replace(column, id=number) for number, column in enumerate(columns, 1))
    ids = {name_key(column.name): column.id for column in numbered}
    return TableSchema(
        numbered,
        tuple(ids[name_key(name)] for name in primary_key),
        (),
        None,
        next_id=len(numbered) + 1,
        inferred=inferred,
    )


_FAMILIES = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(BINARIES, "binary"),
    **dict.fromkeys(GEOMETRIES, "geometry"),
    "inet4": "text",
    "inet6": "text",
    "uuid": "text",
    **{
        word: word
        for word in ("float", "double", "decimal", "bit", "date", "datetime", "timestamp", "time", "year")
    },
    **{word: word for word in ("enum", "set", "json", "vector")},
}
# Possessive throughout: a type text may be garbage, and must not cost more than its length.
_TYPE = re.compile(
    r"\s*+([a-z][a-z0-9_]*+(?: ++(?:precision|varying|varchar|varbinary))?)\s*+"
    r"(?:\(([^()']*+)\)|\(((?:'(?:[^'\\]|''|\\.)*+'|[\s,])*+)\))?\s*+([a-z0-9_\s]*+)$",
    re.I,
)
_NATIONAL = re.compile(r"\A\s*national\s+", re.I)
_NUMBER = re.compile(r"-?[0-9]{1,9}")
# Sizes that values are filled up to.
_LARGEST = {"binary": 255, "decimal": 65, "datetime": 6, "timestamp": 6, "time": 6}
_MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'")


def is_possible(base: str, *sizes: int | None) -> bool:
    """Whether some server has a type of such sizes: of others a value could take all memory."""
    largest = _LARGEST.get(base)
    return largest is None or all(size is None or size <= largest for size in sizes)


@functools.lru_cache(maxsize=4096)
def parse_type(text: str) -> ColumnType:
    """The type that a message or schema file spells, such as `bigint unsigned`, `DECIMAL(10,2)` or
    `enum('a','b')`.

    A word that is not known is kept as it is; its family is `unknown`. Sizes that no server has are no sizes.
    """
    match = _TYPE.match(_NATIONAL.sub("", text))
    if not match:
        return ColumnType(text.strip().lower())
    words = f"{match[1]} {match[4]}".lower().split()
    unsigned = not {"unsigned", "zerofill", "serial"}.isdisjoint(words)
    charset = _word_behind(words, "character", "set")
    base = " ".join(
        word for word in match[1].lower().split() if word not in ("unsigned", "zerofill", "signed")
    )
    base = SYNONYMS.get(base, base)
    # servers cut the spaces that end a label
    members = tuple(unquote(item).rstrip(" ") for item in _MEMBER.findall(match[3] or ""))
    items = [item.strip() for item in (match[2] or "").split(",")]
    numbers = [int(item) for item in items] if all(map(_NUMBER.fullmatch, items)) else []
    numbers = numbers if is_possible(base, *numbers) else []
    if base == "float" and len(numbers) == 1:  # FLOAT(p), of which the server makes the one or the other
        base, numbers = "double" if numbers[0] > 24 else base, []
    length = numbers[0] if numbers else None
    return ColumnType(
        base,
        length,
        numbers[1] if len(numbers) > 1 else None,
        unsigned,
        charset=charset,
        members=members,
        zerofill="zerofill" in words,
    )


def _word_behind(words: list[str], first: str, second: str) -> str | None:
    """The word that follows two others; a SET type has the word `set` of its own."""
    pairs = zip(words, words[1:], words[2:], strict=False)
    return next((third for one, two, third in pairs if (one, two) == (first, second)), None)


def unquote(text: str) -> str:
    """The inside of a single-quoted SQL string: `''` and backslash escapes undone (`\\%` and `\\_` keep
    theirs).
    """
    return re.sub(r"''|\\(.)", _unescape, text, flags=re.S)


def _unescape(match: re.Match[str]) -> str:
    char = match[1]
    if char is None:
        return "'"
    return {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}.get(
        char, char
    )
