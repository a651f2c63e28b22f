"""What `lakehouse doctor` finds: one finding per check, ok, warn or fail."""

from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """One thing looked at: `check` and `about` say what, `state` is ok, warn or fail, `fix` what to do."""

    check: str
    about: str
    state: str
    text: str
    fix: str = ""
