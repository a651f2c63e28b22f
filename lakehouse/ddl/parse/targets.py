"""The tables that statements are about, found though the rest of a text is not understood."""

from lakehouse.ddl.edits import Name
from lakehouse.ddl.parse.splitting import split
from lakehouse.ddl.parse.tokens import Cursor, tokenize
from lakehouse.errors import DdlError


def targets(sql: str) -> list[Name]:
    """The tables that each ALTER, CREATE, DROP, RENAME and TRUNCATE of a text names first, and the one that
    MariaDB's CONVERT makes of a partition, or a partition of.
    """
    try:
        parts = list(split(tokenize(sql)))
    except DdlError:
        return []
    return [name for tokens in parts for name in _targets(Cursor(sql, tokens))]


def _targets(cursor: Cursor) -> list[Name]:
    found: list[Name] = []
    if _at_name(cursor):
        try:
            found.append(cursor.table())
            while cursor.take(",") or cursor.take("TO"):
                found.append(cursor.table())
            if cursor.take("CONVERT"):
                if cursor.take("PARTITION"):
                    cursor.name("a partition's name")
                    cursor.need("TO")
                cursor.need("TABLE")
                found.append(cursor.table())
        except DdlError:
            pass
    return found


def _at_name(cursor: Cursor) -> bool:
    """Move over the words before the first name, of a statement about tables."""
    word = cursor.take_one("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE")
    cursor.take("OR", "REPLACE")
    cursor.take_one("ONLINE", "OFFLINE")
    cursor.take("IGNORE")
    if word is None or not (cursor.take_one("TABLE", "TABLES") or word == "TRUNCATE"):
        return False
    return cursor.take("IF", "NOT", "EXISTS") or cursor.take("IF", "EXISTS") or True
