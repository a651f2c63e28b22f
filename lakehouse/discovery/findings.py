"""A finding of `lakehouse doctor`: one per check, with the state ok, warn or fail."""

from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """The result of one check: `check` names it, `about` is the thing checked, `fix` says what to do."""

    check: str
    about: str
    state: str
    text: str
    fix: str = ""


def error_finding(check: str, about: str, error: Exception) -> Finding:
    """The failed finding that an error's sentence makes: the part after its last semicolon is what to do."""
    text, _, fix = str(error).rpartition("; ")
    text, fix = (text, fix) if text else (fix, "")
    return Finding(check, about, FAIL, text.removeprefix(f"{about}: "), fix=fix)
