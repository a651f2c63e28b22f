"""Addresses of the server and the pages behind them. What an address says is checked, and looked up in the
lake by value: nothing of it becomes a path or a statement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from lakehouse.errors import LakehouseError
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.web import details
from lakehouse.reporting.web.readings import After, NotThere, Observed, Place, Readings
from lakehouse.reporting.web.report import page

Query = Mapping[str, list[str]]
Views = Callable[[Sequence[Observed]], Mapping[str, View]]
# Fields of an address; a key has fewer columns.
FIELDS = 64
# Pages of dead letters that can be turned to.
PAGES = 200


class BadAddress(LakehouseError):
    """An address lacks something, or says something that can't be."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages are made from: the readings, how commands name things, and where the lake is."""

    readings: Readings
    views: Views
    where: str
    version: str
    # by source, from the last time that all of them were read
    _seen: dict[str, View] = field(default_factory=dict, init=False)

    def page(self, path: str, query: str) -> Callable[[], str]:
        """What reads the page at an address, and returns it. NotThere or BadAddress where there can be none;
        the page may raise them too, and the errors of the lake.
        """
        pages: dict[str, Callable[[Query], str]] = {
            "/": self._report,
            "/table": self._table,
            "/row": self._row,
            "/letters": self._letters,
            "/letter": self._letter,
            "/manifests": self._manifests,
            "/diff": self._difference,
            "/changes": self._changes,
        }
        if path not in pages:
            raise NotThere(
                f"{path[:200]}: expected a page of lakehouse ui, found none; / leads to all of them"
            )
        made, fields = pages[path], asked(query)
        return lambda: made(fields)

    def _view(self, source: str) -> View:
        """How commands name that source, of which the readings know. It does not change but with the sources:
        one that was seen is not looked at again, nor are the others.
        """
        if source not in self._seen:
            self._observed()
        return self._seen[source]

    def _observed(self) -> list[Observed]:
        sources = self.readings.observed()
        self._seen.update(self.views(sources))
        return sources

    def _report(self, _: Query) -> str:
        sources = self._observed()
        return page(sources, self._seen, self.where, self.version, served=True)

    def _table(self, query: Query) -> str:
        source = one_of(query, "source")
        found = self.readings.table(source, one_of(query, "table"))
        return details.table_page(found, self._view(source))

    def _row(self, query: Query) -> str:
        key = tuple(query.get("k", ()))
        if not key:
            raise BadAddress("/row: expected the values of a key, k=…, found none")
        found = self.readings.row(one_of(query, "source"), one_of(query, "table"), key, after=after(query))
        return details.row_page(found)

    def _letters(self, query: Query) -> str:
        source, code = one_of(query, "source"), query.get("code", [""])[0] or None
        found = self.readings.letters(source, code, whole(query.get("page", ["0"])[0], PAGES))
        return details.letters_page(found, self._view(source))

    def _letter(self, query: Query) -> str:
        place = Place(
            one_of(query, "topic"),
            query.get("incarnation", [""])[0],
            whole(one_of(query, "partition"), 2**31 - 1),
            whole(one_of(query, "offset"), 2**63 - 1),
        )
        return details.letter_page(self.readings.letter(one_of(query, "source"), place))

    def _manifests(self, query: Query) -> str:
        before = query.get("before")
        number = None if before is None else whole(before[0], 2**63 - 1)
        return details.manifests_page(self.readings.manifests(one_of(query, "source"), number))

    def _difference(self, query: Query) -> str:
        return details.difference_page(self.readings.difference(one_of(query, "source"), *ends_of(query)))

    def _changes(self, query: Query) -> str:
        source, table = one_of(query, "source"), one_of(query, "table")
        found = self.readings.changes(source, table, ends_of(query), after=after(query))
        return details.changes_page(found)


def asked(query: str) -> Query:
    """The fields of an address."""
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError as error:
        raise BadAddress(f"expected at most {FIELDS} fields of UTF-8 in the address") from error


def one_of(query: Query, name: str) -> str:
    """The value of a field that has to be there."""
    if not query.get(name):
        raise BadAddress(f"expected {name}= in the address, found none")
    return query[name][0]


def whole(value: str, most: int) -> int:
    """A number from 0 to `most`."""
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= most):
        raise BadAddress(f"expected a number from 0 to {most} in the address")
    return int(value)


def ends_of(query: Query) -> tuple[int, int]:
    """The numbers of two manifests, the older one first."""
    numbers = [whole(one_of(query, name), 2**63 - 1) for name in ("from", "to")]
    return min(numbers), max(numbers)


def after(query: Query) -> After | None:
    """Where a page begins, where it is not the first one: six integers and a number."""
    if "after" not in query:
        return None
    parts = query["after"][0].split(",")
    if len(parts) != 7:
        raise BadAddress("expected a position of six integers, and a number, in the address")
    epoch, p1, p2, p3, p4, p5, shown = (whole(part, 2**63 - 1) for part in parts)
    return After((epoch, p1, p2, p3, p4, p5), min(shown, 2**31 - 1))
