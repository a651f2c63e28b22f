"""Table options of CREATE TABLE and ALTER TABLE. Only the charset affects columns and rows.

An option that is not known here is refused, unless it is written `name = value`: engines of MariaDB have
their own.
"""

from lakehouse.ddl.parse.column_types import charset_name, read_charset
from lakehouse.ddl.parse.tokens import Cursor

_NAME_LIST = (
    "TTL ENGINE TYPE AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM PAGE_CHECKSUM COMMENT COMPRESSION "
    "CONNECTION DELAY_KEY_WRITE"
    " ENCRYPTION ENCRYPTED ENCRYPTION_KEY_ID INSERT_METHOD ITEF_QUOTES KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS "
    "PACK_KEYS PAGE_COMPRESSED"
    " PAGE_COMPRESSION_LEVEL PASSWORD ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES "
    "STATS_BUCKETS STATS_TOPN STATS_OPTIONS"
    " STATS_SAMPLE_RATE STATS_COL_CHOICE STATS_COL_LIST SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE "
    "ENGINE_ATTRIBUTE AUTOEXTEND_SIZE"
    " TABLESPACE STORAGE NODEGROUP SEQUENCE TRANSACTIONAL IETF_QUOTES SHARD_ROW_ID_BITS PRE_SPLIT_REGIONS "
    "AUTO_ID_CACHE"
    " AUTO_RANDOM_BASE TTL_ENABLE TTL_JOB_INTERVAL ATTRIBUTES AFFINITY FORCE_AUTO_INCREMENT "
    "FORCE_AUTO_RANDOM_BASE CLUSTERING"
)
OPTIONS = frozenset(_NAME_LIST.split())
_WITH_VALUE = (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"), ("PLACEMENT", "POLICY"))
_ALONE = (
    ("START", "TRANSACTION"),
    ("WITH", "SYSTEM", "VERSIONING"),
    ("PLACEMENT", "POLICY", "SET", "DEFAULT"),
)
_UNITS = (
    "MICROSECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
    "SECOND_MICROSECOND",
    "MINUTE_MICROSECOND",
    "MINUTE_SECOND",
    "HOUR_MICROSECOND",
    "HOUR_SECOND",
    "HOUR_MINUTE",
    "DAY_MICROSECOND",
    "DAY_SECOND",
    "DAY_MINUTE",
    "DAY_HOUR",
    "YEAR_MONTH",
)


def read_option(cursor: Cursor) -> bool:
    """Skip one option other than a charset, if one is at the cursor."""
    if any(cursor.take(*words) for words in _ALONE):
        return True
    if any(cursor.take(*words) for words in _WITH_VALUE):
        return _value(cursor)
    if cursor.take("FORCE") or cursor.take("UNION"):
        return _union(cursor)
    if cursor.take("TTL"):
        return _ttl(cursor)
    if cursor.upper in OPTIONS:
        cursor.at += 1
        return _value(cursor)
    following = cursor.tokens[cursor.at + 1 : cursor.at + 2]
    if cursor.kind in ("word", "name") and following and following[0].upper == "=":
        cursor.at += 1
        return _value(cursor)
    return False


def read_table_charset(cursor: Cursor) -> str | None:
    """[DEFAULT] CHARACTER SET or COLLATE at the cursor: the charset, "" where it names none."""
    start = cursor.at
    cursor.take("DEFAULT")
    charset = read_charset(cursor)
    if charset is not None:
        if cursor.take("COLLATE"):
            cursor.take("=")
            charset_name(cursor)
        return "" if charset == "default" else charset
    if cursor.take("COLLATE"):
        cursor.take("=")
        charset = charset_name(cursor).partition("_")[0]
        return "" if charset in ("default", "uca1400") else charset
    cursor.at = start
    return None


def _value(cursor: Cursor) -> bool:
    cursor.take("=")
    if cursor.kind in ("string", "number", "literal", "name", "word") and (
        cursor.kind != "word" or cursor.upper not in ("SELECT", "AS")
    ):
        cursor.at += 1
        return True
    return cursor.fail("an option's value")


def _union(cursor: Cursor) -> bool:
    if cursor.tokens[cursor.at - 1].upper == "FORCE":
        return _value(cursor) if cursor.take("AUTO_INCREMENT") or cursor.take("AUTO_RANDOM_BASE") else True
    cursor.take("=")
    if not cursor.take("(", ")"):
        cursor.group()
    return True


def _ttl(cursor: Cursor) -> bool:
    """TTL = `created_at` + INTERVAL 3 MONTH."""
    cursor.take("=")
    cursor.name("a column name")
    cursor.need("+")
    cursor.need("INTERVAL")
    if cursor.upper.startswith("_"):  # TiCDC's restored text has the charset before each string
        cursor.at += 1
    if cursor.kind not in ("number", "string"):
        cursor.fail("a number")
    cursor.at += 1
    cursor.need_one(*_UNITS)
    return True
