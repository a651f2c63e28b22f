"""The benchmark's messages are what they claim to be: seeded, decodable, complete."""

from collections import Counter

from bench.generate import NARROW, PARTITIONS, WIDE, generate
from lakehouse.events import RowChange, SchemaChange, Watermark
from lakehouse.formats.ticdc_open import decode


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
