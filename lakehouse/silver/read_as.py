"""What the events of a source depend on besides its bytes: format, order and the options of its decoder.

A batch records it before it writes. Silver that was decoded under one reading takes no batch under another:
the same wire text would stand for two values in one table.
"""

from collections.abc import Mapping

from lakehouse.formats import FORMATS

Reading = dict[str, str]


def read_as(format: str, order: str, options: Mapping[str, str], *, row_ids: bool) -> Reading:
    """By name everything that makes other events of the same bytes; options that are not set have their
    defaults. Options that decide only whether a message can be decoded are left out.
    """
    row = FORMATS[format]
    shown = {row.detected.name} if row.detected is not None else set()  # it shows in `order`
    chosen = {
        name: options.get(name) or option.default
        for name, option in row.options.items()
        if not option.same_events and name not in shown
    }
    return {"format": format, "order": order, "row_ids": "sent" if row_ids else "none", **chosen}


def differences(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is read otherwise now, as `name was 'a', is 'b'`. An option that one side does not know has not
    changed: another version of lakehouse has it.
    """
    return [
        f"{name} was {recorded[name]!r}, is {now[name]!r}"
        for name in recorded
        if name in now and recorded[name] != now[name]
    ]
