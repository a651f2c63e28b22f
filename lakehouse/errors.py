"""The tree of exceptions.

    LakehouseError
    ├── ConfigError       a configuration problem: file, line, column and what to do
    ├── DecodeError       bytes that are no message of their format; `code` is counted in dead letters
    ├── DdlError          a statement that the reader does not know, or that does not fit its schema
    ├── QualityError      a batch that its expectations stop
    ├── EnvironmentError_ a missing Java, jar, network, port or permission
    └── LeaseLost         another run has taken this one's layers over: trying again is no use

Every message is one sentence, *where: expected what, got what*, and never holds a row's value.
"""

import difflib
from collections.abc import Iterable


class LakehouseError(Exception):
    """Any error that is reported to the user in one sentence."""


class ConfigError(LakehouseError):
    """An invalid configuration; nothing is run."""


class DecodeError(LakehouseError):
    """Bytes that can't be decoded; `code` is short and stable, for counting."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DdlError(LakehouseError):
    """A statement that is not understood; the table that it names is held."""


class QualityError(LakehouseError):
    """Expectations with action `stop` failed."""


class EnvironmentError_(LakehouseError):
    """The machine lacks something that is needed; the message says what to do."""


class LeaseLost(LakehouseError):
    """Another run has taken over the layers that this one held; this one ends."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The valid name that a typo most likely means, or None."""
    plain = {_plain(known): known for known in names}
    matches = difflib.get_close_matches(_plain(name), plain, 1, 0.6)
    return plain[matches[0]] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The advice for an unknown name: the nearest valid one, else all of them."""
    known = sorted(names)
    close = nearest(name, known)
    if close:
        return f"did you mean `{close}`?"
    return f"valid names: {', '.join(known)}" if known else "remove it"


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()
