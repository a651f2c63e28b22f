"""What gold has to know of a feed's upstream, by the feed's format: whose rules convert values, and what
commit times are.
"""

from collections.abc import Mapping

from lakehouse.fold.continuity import Continuity
from lakehouse.fold.upcast import Upstream
from lakehouse.formats import FORMATS, order_of
from lakehouse.gold.modes import Clock


def upstream_of(format: str, options: Mapping[str, str]) -> Upstream:
    """The upstream of a feed: the option `server`, which may have a version behind it, says whose rules hold;
    a format whose producers all read one kind of server has no such option, and says it itself.
    """
    said = options.get("server") or FORMATS[format].producer.server or "mysql"
    server, _, version = said.partition(" ")
    numbers = tuple(int(number) for number in version.split(".") if number)
    zone = options.get("time_zone") or "UTC"
    charset = options.get("charset") or None
    return Upstream(
        zone,
        server,
        numbers,
        continuity=continuity_of(format, options),
        charset=charset,
        mixes_names=FORMATS[format].mixes_names,
        hides_sessions=FORMATS[format].hides_sessions,
    )


def continuity_of(format: str, options: Mapping[str, str]) -> Continuity:
    """What the changes of a feed say of the rows before them. In order of arrival they say nothing: a change
    that is sent again may be taken for a new one.
    """
    order = order_of(format, options)
    if options.get("compacted") == "true":
        return Continuity(compacted=True)
    if order not in ("tidb", "binlog"):
        return Continuity()
    return Continuity(rows=True, inserts=FORMATS[format].tells_inserts, by_commit=order == "tidb")


def clock_of(format: str, order: str) -> Clock:
    """The unit and meaning of a feed's commit times."""
    return Clock(order == "tidb", FORMATS[format].producer.tso)
