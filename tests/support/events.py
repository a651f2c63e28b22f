"""An event as the kind that a test expects; another kind fails the test."""

from collections.abc import Iterable

from lakehouse.events import DeadLetter, Event, RowChange


def change_of(event: Event) -> RowChange:
    assert isinstance(event, RowChange), event
    return event


def changes_of(events: Iterable[Event]) -> list[RowChange]:
    return [change_of(event) for event in events]


def letter_of(event: Event) -> DeadLetter:
    assert isinstance(event, DeadLetter), event
    return event
