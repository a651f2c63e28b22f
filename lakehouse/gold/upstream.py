"""What gold has to know of a feed's upstream, by the feed's format: whose rules convert values, and what
commit times are.
"""

from collections.abc import Mapping

from lakehouse.fold.upcast import Upstream
from lakehouse.formats import FORMATS
from lakehouse.gold.modes import Clock


def upstream_of(format: str, options: Mapping[str, str]) -> Upstream:
    """The upstream of a feed: the format says its server where all of its producers read one, else the option
    `server`.
    """
    server = FORMATS[format].producer.server
    return Upstream(options.get("time_zone") or "UTC", server or options.get("server", "mysql"))


def clock_of(format: str, order: str) -> Clock:
    """What the commit times of a feed are."""
    return Clock(order == "tidb", FORMATS[format].producer.tso)
