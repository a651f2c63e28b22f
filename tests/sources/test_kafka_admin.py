"""Topics as a broker lists them that tells no ids."""

from lakehouse.ops.records.bronze import Read
from lakehouse.sources.kafka_admin import Topic, list_topics
from lakehouse.sources.kafka_offsets import begun, created_anew, reading_of
from tests.support.old_broker import old_broker


def test_a_broker_without_topic_ids_tells_none_and_its_upgrade_creates_no_topic_anew() -> None:
    with old_broker("shop", end=7) as bootstrap:
        listed = list_topics(bootstrap, {}, ["shop"], None)

    assert listed == [Topic("shop", "", {0: (0, 7)})]
    reading = begun(None, listed, {}, {})
    assert created_anew(reading, [Topic("shop", "hOTHwQAzTiqdbRFYhtCPfA", {0: (0, 7)})]) == []


def test_an_older_lake_that_took_kafkas_zero_for_an_id_has_none() -> None:
    zero = "AAAAAAAAAAAAAAAAAAAAAA"
    reading = reading_of(
        Read(stream=0, topics=("shop",), ids={"shop": zero}, incarnations={"shop": zero}, next=())
    )

    assert created_anew(reading, [Topic("shop", "hOTHwQAzTiqdbRFYhtCPfA", {0: (0, 7)})]) == []
