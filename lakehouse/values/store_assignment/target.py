"""What a store needs besides the cell."""

from typing import NamedTuple

from lakehouse.schema import ColumnType


class Target(NamedTuple):
    """What a store needs besides the cell: the column, the server's rules, the session's time zone, the
    codec of the old column's text, and whether the server has `checked` that the value fits, as it does a
    default.
    """

    type: ColumnType
    server: str
    zone: str
    codec: str | None
    checked: bool = False

    @property
    def rounds(self) -> bool:
        return self.server != "mariadb"
