"""Which server's binlog a change was read from, as each binlog format says it."""

import functools

from lakehouse.errors import DecodeError

# a server id, and the base name of its binlog's files
Server = tuple[int, str]


@functools.lru_cache(maxsize=4096)
def server_of(server_id: int | None, file: str) -> Server | None:
    """Who wrote a streamed event; None where the id says nothing. DecodeError for one that no server has."""
    if server_id is not None and not 0 <= server_id < 1 << 63:
        raise DecodeError("position", "server id: expected a number of up to 63 bits, got another one")
    return (server_id, file.rpartition(".")[0]) if server_id else None
