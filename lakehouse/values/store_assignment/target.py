"""What a store needs besides the cell."""

from typing import NamedTuple

from lakehouse.schema import ColumnType


class Target(NamedTuple):
    """What a store needs besides the cell: the column, the server's rules, the session's time zone, and the
    codec of the old column's text.
    """

    type: ColumnType
    server: str
    zone: str
    codec: str | None

    @property
    def rounds(self) -> bool:
        return self.server != "mariadb"
