"""What all records of the log have."""

from typing import ClassVar

import msgspec

Name = tuple[str, str]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the log. `writer` is the layer whose runs alone write this kind, one run at a time; "":
    any process may write it at any time."""

    kind: ClassVar[str]
    writer: ClassVar[str] = ""
