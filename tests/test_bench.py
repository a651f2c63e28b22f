"""The benchmark's messages are what they claim to be: seeded, decodable, complete."""

from collections import Counter

import pytest

from bench.formats import FORMATS, OPTIONS, messages_of, repeated
from bench.generate import NARROW, PARTITIONS, WIDE, generate
from lakehouse.events import RowChange, SchemaChange, Watermark
from lakehouse.formats import order_of
from lakehouse.formats.ticdc_open import decode
from lakehouse.spark.decode import Rows


def test_the_same_seed_gives_the_same_messages() -> None:
    one, other, third = (list(generate(50, 2, NARROW, seed)) for seed in (1, 1, 2))

    assert one == other
    assert one != third


def test_every_message_decodes_and_every_partition_is_resolved_at_the_end() -> None:
    for fields in (NARROW, WIDE):
        messages = list(generate(600, 3, fields))

        events = [event for message in messages for event in decode(message, {})]

        kinds = Counter(type(event) for event in events)
        assert kinds == {RowChange: 600, SchemaChange: 3 * PARTITIONS, Watermark: 2 * PARTITIONS}
        assert {len(event.after) for event in events if isinstance(event, RowChange) and event.after} == {len(fields)}
        assert all(isinstance(event, Watermark) for event in events[-PARTITIONS:])


@pytest.mark.parametrize("format_", FORMATS)
def test_the_messages_of_every_format_are_decoded_whole(format_: str) -> None:
    messages = messages_of(format_, 1)
    rows = Rows({"format": format_, "options": OPTIONS, "order": order_of(format_, OPTIONS), "row_ids": False, "epochs": ()})

    for _ in rows.read(repeated(messages, len(messages) + 100)):
        pass

    taken = rows.take()
    assert taken.messages == len(messages) + 100
    assert len(taken.changes) > taken.messages / 3
    assert [row for row in taken.others if "dead_letter" in row[:1]] == []
