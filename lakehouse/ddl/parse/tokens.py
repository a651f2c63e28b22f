"""SQL text to tokens, and a cursor over the tokens of one statement.

The lexing is sqlglot's MySQL tokenizer without its keywords and commands, so that a word is a word; each
token's text is taken from the source again, and what lies between two tokens must be blanks and comments,
whatever sqlglot took it for.

Comments that a server executes (`/*!50100 … */`, `/*M!… */`) are read as if they stood bare: servers log
`DROP /*!40005 TEMPORARY */ TABLE`, which drops no table. TiDB executes its own too: `/*T! … */`, and
`/*T![ttl] … */` of a feature that it knows; of another feature it stays a comment. Other servers execute
neither, so one that holds more than options is refused.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError

from lakehouse.ddl.edits import Name
from lakehouse.errors import DdlError
from lakehouse.schema import unquote

# Reserved in MySQL 5.7, 8.0, MariaDB and TiDB alike: unquoted, none of them is a name.
_RESERVED_LIST = (
    "ADD ALL ALTER AND AS ASC BETWEEN BIGINT BINARY BLOB BOTH BY CASE CHANGE CHAR CHARACTER CHECK COLLATE "
    "COLUMN CONSTRAINT CONVERT CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DATABASES "
    "DECIMAL DEFAULT DELETE DESC DESCRIBE DISTINCT DIV DOUBLE DROP ELSE EXISTS EXPLAIN FALSE FLOAT FOR FORCE "
    "FOREIGN FROM FULLTEXT GRANT GROUP HAVING IF IGNORE IN INDEX INNER INSERT INT INTEGER INTERVAL INTO IS "
    "JOIN KEY KEYS KILL LEFT LIKE LIMIT LINES LOAD LONG LONGBLOB LONGTEXT MEDIUMBLOB MEDIUMINT MEDIUMTEXT "
    "MOD NOT NULL NUMERIC ON OR ORDER OUTER PRIMARY PROCEDURE RANGE READ REAL REFERENCES REGEXP RENAME "
    "REPLACE RESTRICT REVOKE RIGHT RLIKE SELECT SET SHOW SMALLINT SQL TABLE TERMINATED THEN TINYBLOB TINYINT "
    "TINYTEXT TO TRIGGER TRUE UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING VALUES VARBINARY VARCHAR "
    "WHEN WHERE WITH WRITE XOR ZEROFILL"
)
RESERVED = frozenset(_RESERVED_LIST.split())
_GAP = re.compile(r"[ \t\n\r\f\v]+|/\*(?P<inner>.*?)\*/|--(?=[\x00-\x20\x7f]|$)[^\n]*|#[^\n]*", re.S)
_EXECUTED = re.compile(r"M?!(?P<version>\d{5,6}(?!\d))?")
_FEATURED = re.compile(r"T!(?:\[([a-z0-9_, ]+)\])?", re.I)
_FEATURES_LIST = (
    "auto_rand auto_rand_base auto_id_cache clustered_index force_inc placement ttl global_index "
    "pre_split affinity"
)
_FEATURES = frozenset(_FEATURES_LIST.split())
_NESTED = 32  # deeper brackets in a TiDB comment are no options: each level costs the text's length
_NEVER = 200_000  # no server is of this version: MariaDB's dumps say `/*!999999\- enable the sandbox mode */`
_WORD = re.compile(r"[0-9A-Za-z_$\x80-\U0010ffff]+")
# the first that a whole token fits
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    r"|(?P<literal>[xXbB]'[0-9A-Fa-f]*'|0[xX][0-9A-Fa-f]+|0[bB][01]+)"
    rf"|(?P<word>{_WORD.pattern})"
    r"|(?P<name>`(?:[^`]|``)*`)"  # a definer and an alias may be empty
    r"|(?P<string>[nN]?(?:'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\"))"
    r"|(?P<symbol>(?![`'\"])[ -~]{1,3})",
    re.S,
)
# what is one token whatever stands around it; the text of names and strings that need no unescaping
_INSIDE = r"[^`'\"\\\x00-\x08\x0b-\x1f]"
_PLAIN = re.compile(
    rf"[ \t\n]*+(?:(?:(?P<word>[A-Za-z_][0-9A-Za-z_]*+)|`(?P<name>{_INSIDE}++)`)(?=[ \t\n(),;=.]|\Z)"
    rf"|(?:(?P<number>[0-9]++)|'(?P<string>{_INSIDE}*+)')(?=[ \t\n(),;=]|\Z)"
    r"|(?P<symbol>[(),;](?![+*])|\.(?=[A-Za-z_`])|=(?=[ \t\n'`0-9A-Za-z_]))"
    rf"|/\*(?P<comment>(?!\+)(?:(?![*/]){_INSIDE})*+)\*/|(?P<end>\Z))"
)
_ANSI_NAME = re.compile(r"\"(?:[^\"]|\"\")+\"")
_POINT = re.compile(r"\d{1,20}\.\d*", re.A)
_NO_CLAUSE = re.compile(
    r"'[^']*'|`[^`]*`|\([^()]*\)|(?i:(?:=|\bSET|\bPOLICY)\s*DEFAULT\b|\bIF\s+(?:NOT\s+)?EXISTS\b"
    r"|\A\s*(?:(?:ALTER|DROP)\s+(?:PLACEMENT\s+POLICY|RESOURCE\s+GROUP)|ALTER\s+DATABASE"
    r"|SPLIT\s+(?:INDEX|PRIMARY KEY))\b)"
)
_CLAUSE = re.compile(
    r"(?i),|\b(?:ADD|ALTER|DROP|MODIFY|CHANGE|RENAME|TRUNCATE|COLUMN|SELECT|LIKE|AS|DEFAULT|NOT|NULL"
    r"|PRIMARY|UNIQUE|KEY|INDEX)\b"
)


class Token(NamedTuple):
    """`kind`: word, name (quoted), string, literal (hex, bits), number, symbol. `upper` is for words and
    symbols, else "". `text` is the value of a name or string, else the source's own. `start` and `end` are
    offsets in the source.
    """

    kind: str
    text: str
    upper: str
    start: int
    end: int


class _Words(MySQL.Tokenizer):  # type: ignore[misc]
    KEYWORDS: ClassVar[dict[str, Any]] = {}
    COMMANDS: ClassVar[set[Any]] = set()


class _AnsiWords(_Words):
    QUOTES: ClassVar[list[Any]] = ["'"]
    IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']


def tokenize(sql: str, ansi_quotes: bool = False, offset: int = 0) -> list[Token]:
    """The tokens of a text, comments left out or executed; DdlError where a quote or comment has no end."""
    plain = plain_tokens(sql, ansi_quotes, offset)
    return lexed(sql, ansi_quotes, offset) if plain is None else plain


def plain_tokens(sql: str, ansi_quotes: bool = False, offset: int = 0) -> list[Token] | None:
    """The tokens that `lexed` gives, in a fifth of its time, of a text of plain tokens alone; else None."""
    result, at = list[Token](), 0
    while at < len(sql):
        found = _PLAIN.match(sql, at)
        if found is None:
            return None
        kind, at = found.lastgroup or "", found.end()
        start, text = offset + found.start(kind), found[kind]
        if kind in ("word", "symbol"):
            result.append(Token._make((kind, text, text.upper(), start, offset + at)))
        elif kind == "comment":
            try:
                result += _comment(text, ansi_quotes, start)
            except DdlError:
                return None  # a quote behind it that does not end is told first
        elif kind != "end":
            result.append(Token._make((kind, text, "", start - (kind != "number"), offset + at)))
    return result


def lexed(sql: str, ansi_quotes: bool = False, offset: int = 0) -> list[Token]:
    """The tokens of any text, as `tokenize` gives them."""
    try:
        words = (_AnsiWords if ansi_quotes else _Words)(dialect=MySQL).tokenize(sql)
        spans = [(token.start, token.end + 1) for token in words]
    except TokenError as error:
        raise DdlError(
            f"character {offset + 1} on: expected a quote or comment that ends, got the end of the text"
        ) from error
    result: list[Token] = []
    last = 0
    for start, end in [*spans, (len(sql), len(sql))]:
        if last < start:
            result += _gap(sql, last, start, ansi_quotes, offset=offset)
        if start < end:
            result.append(_token(sql[start:end], ansi_quotes, offset + start))
        last = end
    return result


def _gap(sql: str, start: int, end: int, ansi_quotes: bool, offset: int) -> Iterator[Token]:
    while start < end:
        found = _GAP.match(sql, start, end)
        if found is None:
            raise DdlError(
                f"character {offset + start + 1}: expected a word, a blank or a comment that ends, got "
                "neither"
            )
        if found["inner"] is not None:
            yield from _comment(found["inner"], ansi_quotes, offset + start + 2)
        start = found.end()


def _comment(inner: str, ansi_quotes: bool, offset: int) -> Iterator[Token]:
    found = _FEATURED.match(inner)
    if found and _has_clause(inner[found.end() :]):
        raise DdlError(
            f"character {offset - 1}: expected options in a TiDB comment, got a clause that edits the table"
        )
    if found and not {name.strip().lower() for name in (found[1] or "").split(",") if name} <= _FEATURES:
        return
    found = found or _EXECUTED.match(inner)
    if found and int(found.groupdict().get("version") or 0) < _NEVER:
        yield from tokenize(inner[found.end() :], ansi_quotes, offset + found.end())


def _has_clause(text: str) -> bool:
    """Whether there is more in a TiDB comment than options, a condition or a statement about no table."""
    for _ in range(_NESTED):  # brackets in brackets
        shorter = _NO_CLAUSE.sub("", text)
        if shorter == text:
            return _CLAUSE.search(text) is not None
        text = shorter
    return True


def _token(text: str, ansi_quotes: bool, start: int) -> Token:
    end, found = start + len(text), _TOKEN.fullmatch(text)
    kind = found.lastgroup if found else None
    if ansi_quotes and _ANSI_NAME.fullmatch(text):
        kind = "name"
    if kind is None:
        raise DdlError(
            f"character {start + 1}: expected a word, name, string, number or sign, got none of them"
        )
    if kind in ("word", "symbol"):
        return Token(kind, text, text.upper() if kind == "word" else text, start, end=end)
    if kind == "name":
        return Token("name", text[1:-1].replace(text[0] * 2, text[0]), "", start, end=end)
    return Token(kind, string_value(text) if kind == "string" else text, "", start, end=end)


def string_value(text: str) -> str:
    """The value of a quoted string, `N'…'` too."""
    text = text.lstrip("nN")
    inner = text[1:-1]
    return unquote(inner) if text[0] == "'" else unquote(inner.replace('""', '"'))


_SECRET = {"end": "the end", "string": "a string", "number": "a number", "literal": "a literal"}


class Cursor:
    """A place in the tokens of one statement. `take…` moves on if it fits, `need…` raises DdlError if it does
    not.
    """

    __slots__ = ("at", "sql", "tokens")

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self.sql, self.tokens, self.at = sql, tokens, 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else "end"

    @property
    def upper(self) -> str:
        return self.tokens[self.at].upper if self.at < len(self.tokens) else ""

    def ahead(self, *words: str) -> bool:
        """Whether these words or signs are at the cursor."""
        tokens, at = self.tokens, self.at
        if at + len(words) > len(tokens):
            return False
        for word in words:
            if tokens[at].upper != word:
                return False
            at += 1
        return True

    def take(self, *words: str) -> bool:
        if self.ahead(*words):
            self.at += len(words)
            return True
        return False

    def take_one(self, *words: str) -> str:
        """Take the one of these words that is at the cursor, or ""."""
        word = self.upper
        if word and word in words:
            self.at += 1
            return word
        return ""

    def need(self, *words: str) -> None:
        if not self.take(*words):
            self.fail(" ".join(words))

    def need_one(self, *words: str) -> str:
        return self.take_one(*words) or self.fail(" or ".join(words))

    def end(self) -> None:
        if self.at < len(self.tokens):
            self.fail("the end of the statement")

    def fail(self, expected: str) -> NoReturn:
        """Raise: never with a string's or number's own text, which may be data."""
        token = self.token
        got = _SECRET.get(self.kind) or repr(token and token.text)
        where = f"character {token.start + 1}" if token else "the end of the statement"
        raise DdlError(f"{where}: expected {expected}, got {got}")

    def name(self, what: str = "a name", *, reserved: bool = False) -> str:
        """A quoted or bare name; reserved words are none unless they follow a dot."""
        token = self.token
        if (
            token is None
            or token.kind not in ("name", "word")
            or not token.text
            or (token.kind == "word" and token.upper in RESERVED and not reserved)
        ):
            self.fail(what)
        self.at += 1
        return token.text

    def table(self) -> Name:
        """`t`, `db.t`, or `.t`, which is `t`."""
        first = None if self.upper == "." else self.name("a table name")
        return (first, self._behind_dot("a table name")) if self.take(".") else (None, str(first))

    def column(self, what: str = "a column name") -> str:
        """Take the name of a column, or of a table's index, with or without its table's and its database's
        before it.
        """
        name = "" if self.upper == "." else self.name(what)
        for _ in range(2):
            if not self.take("."):
                break
            name = self._behind_dot(what)
        return name

    def _behind_dot(self, what: str) -> str:
        """A name after a dot, even if it is a reserved word or all digits."""
        token = self.token
        if token is None or token.kind not in ("number", "literal") or not _WORD.fullmatch(token.text):
            return self.name(what, reserved=True)
        self.at += 1
        return token.text

    def string(self, what: str) -> str:
        """Adjacent strings are one."""
        if self.kind != "string":
            self.fail(what)
        parts = []
        while (token := self.token) is not None and token.kind == "string":
            parts.append(token.text)
            self.at += 1
        return "".join(parts)

    def number(self, what: str) -> int:
        token = self.token
        if token is None or token.kind != "number" or not token.text.isdecimal() or len(token.text) > 20:
            self.fail(what)
        self.at += 1
        return int(token.text)

    def numbers(self, at_most: int) -> list[int]:
        """`(10, 2)`, or nothing. Of `(10.2)` the server takes the whole part."""
        found: list[int] = []
        if self.take("("):
            found.append(self._size())
            while self.take(","):
                found.append(self.number("a number"))
            if len(found) > at_most:
                self.fail(f"at most {at_most} numbers")
            self.need(")")
        return found

    def _size(self) -> int:
        following = self.tokens[self.at : self.at + 2]
        if len(following) == 2 and following[1].upper == ")" and _POINT.fullmatch(following[0].text):
            self.at += 1
            return int(following[0].text.partition(".")[0])
        return self.number("a number")

    def group(self, *, may_be_empty: bool = False) -> str:
        """Move over a balanced (…); its inside as the source has it."""
        start = self.at
        self.need("(")
        depth = 1
        while depth:
            if self.kind == "end":
                self.fail("a closing bracket")
            depth += {"(": 1, ")": -1}.get(self.upper, 0)
            self.at += 1
        if self.at - start < 3 and not may_be_empty:
            self.at -= 1
            self.fail("something in brackets")
        return self.source(start + 1, self.at - 1)

    def source(self, start: int, end: int) -> str:
        """The source text from one token's index to before another's."""
        return self.sql[self.tokens[start].start : self.tokens[end - 1].end]
