"""What decoders of binlog rows share: the halves of an update that changes the key, partial images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lakehouse.events import Image, key_order

_ABSENT = object()


class Half(NamedTuple):
    """One change that a row event means: itself, or one half of a key-changing update."""

    op: str
    rank: int
    key: tuple[Any, ...]
    before: Image | None
    after: Image | None


def halves(op: str, names: tuple[str, ...], before: Image | None, after: Image | None) -> Iterator[Half]:
    """A change as it orders: an update whose key differs is the delete of the old row, then the insert of the
    new one.
    """
    image = before if op == "delete" else after
    key = key_order(image or {}, names) if names and image and all(name in image for name in names) else ()
    if (
        op == "update"
        and key
        and before
        and any(
            before.get(name, _ABSENT) not in (_ABSENT, value) for name, value in zip(names, key, strict=True)
        )
    ):
        old = key_order({**(after or {}), **before}, names)
        yield Half("delete", 0, old, before, after=None)
        yield Half("insert", 1, key, None, after=after)
    else:
        yield Half(op, 0 if op == "delete" else 1, key, before, after=after)


def image_flags(before: Image | None, after: Image | None) -> tuple[str, ...]:
    return (
        ("partial_before",)
        if before is not None and after is not None and not after.keys() <= before.keys()
        else ()
    )
