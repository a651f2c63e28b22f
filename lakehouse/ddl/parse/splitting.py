"""The statements of a text."""

from collections.abc import Iterator

from lakehouse.ddl.parse.tokens import Token
from lakehouse.errors import DdlError

ROUTINES = ("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE")
# what no statement begins with, but a part of a routine's body that is no BEGIN … END
_INSIDE = ("END", "ELSE", "ELSEIF", "ELSIF", "UNTIL", "WHEN", "EXCEPTION")


def split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Statements end at `;`, but not inside a routine's body."""
    start = depth = 0
    routine, inside = False, _inside_bodies(tokens)
    for at, token in enumerate(tokens):
        if at == start:
            routine, depth = _is_routine(tokens[at : at + 24]), 0
        if routine:
            depth += _block(tokens, at)
        if token.upper == ";" and depth <= 0 and not (routine and at in inside):
            if at > start:
                yield tokens[start:at]
            start = at + 1
    if start < len(tokens):
        if depth > 0 and not _ends(tokens[start:]):
            raise DdlError("the end of the text: expected END of a routine's body, got nothing")
        yield tokens[start:]


def _inside_bodies(tokens: list[Token]) -> set[int]:
    """The places of each `;` behind which a routine's body goes on, though it is in no BEGIN … END: it may be
    an IF or a loop, and under sql_mode=ORACLE declare variables before its BEGIN. The next statement decides
    that is a part of such a body or begins a routine.
    """
    found = set[int]()
    goes_on = False
    for at in range(len(tokens) - 2, -1, -1):
        if tokens[at].upper != ";":
            continue
        if tokens[at + 1].upper in _INSIDE:
            goes_on = True
        elif tokens[at + 1].upper == "CREATE" and _is_routine(tokens[at + 1 : at + 25]):
            goes_on = False
        if goes_on:
            found.add(at)
    return found


def _ends(routine: list[Token]) -> bool:
    """Whether a routine ends with END or END and a label: a column of its may be named begin."""
    return any(token.upper == "END" for token in [one for one in routine if one.upper != ";"][-2:])


def _block(tokens: list[Token], at: int) -> int:
    word = tokens[at].upper
    before = tokens[at - 1].upper if at else ""
    after = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    if before == ".":
        return 0
    if word in ("BEGIN", "CASE") and before != "END":
        return 1
    return -1 if word == "END" and after not in ("IF", "LOOP", "WHILE", "REPEAT", "FOR") else 0


def _is_routine(tokens: list[Token]) -> bool:
    words = [token.upper for token in tokens]
    if words[:2] == ["SET", "STATEMENT"]:
        words = words[words.index("FOR") + 1 :] if "FOR" in words else []
    if words[:1] == ["BEGIN"]:
        return words[1:2] == ["NOT"]
    if words[:1] not in (["CREATE"], ["ALTER"]):
        return False
    stop = ("TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER", "ROLE", "SEQUENCE", "SERVER", *ROUTINES)
    return next((word for word in words if word in stop), "") in ROUTINES
