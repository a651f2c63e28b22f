"""What of a source's options makes other events of the same bytes."""

from lakehouse.silver.read_as import differences, read_as


def reading(**options: str) -> dict[str, str]:
    return read_as("ticdc-canal-json", "tidb", options, row_ids=False)


def test_an_option_that_is_not_set_has_its_default() -> None:
    assert reading()["time_zone"] == "UTC"
    assert differences(reading(), reading(time_zone="UTC")) == []


def test_another_zone_reads_the_same_text_as_another_value() -> None:
    assert differences(reading(), reading(time_zone="Asia/Shanghai")) == [
        "time_zone was 'UTC', is 'Asia/Shanghai'"
    ]


def test_options_that_decide_only_whether_a_message_is_decoded_may_change() -> None:
    assert differences(reading(), reading(compression="lz4", claim_check="/claims")) == []


def test_what_messages_show_by_themselves_counts_through_the_order() -> None:
    without = read_as("ticdc-canal-json", "arrival", {"tidb_extension": "false"}, row_ids=False)

    assert differences(reading(tidb_extension="auto"), reading(tidb_extension="true")) == []
    assert differences(reading(), without) == ["order was 'tidb', is 'arrival'"]


def test_an_option_that_only_one_version_knows_has_not_changed() -> None:
    assert differences({}, reading()) == []
    assert differences({**reading(), "gone": "x"}, reading()) == []


def test_whether_row_ids_are_sent_is_said_of_the_whole_source_and_not_told_by_a_message() -> None:
    sent = read_as("ticdc-canal-json", "tidb", {}, row_ids=True)

    assert differences(reading(), sent) == ["row_ids was 'none', is 'sent'"]
