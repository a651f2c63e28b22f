"""A message that its decoder can't read is a dead letter, whatever the decoder raises."""

import json
from typing import Any

import pytest

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Message, RowChange
from lakehouse.formats import FORMATS, decode_message, refused
from lakehouse.schema import parse_type
from tests.support.debezium_records import SOURCE


def test_an_error_that_a_decoder_did_not_foresee_is_named_by_its_type_and_never_quoted() -> None:
    assert refused(ValueError("a customer's name")) == DeadLetter(
        "decoder", "decoder: expected events, got the error ValueError", 0
    )
    assert refused(DecodeError("value", "column a: expected …")) == DeadLetter(
        "value", "column a: expected …", 0
    )


@pytest.mark.parametrize("text", ["decimal(--5)", "decimal(²,1)", "int(9999999999999999999999)", "bit()"])
def test_a_type_with_odd_numbers_is_a_type_without_them(text: str) -> None:
    assert parse_type(text).length is None


def canal_json(mysql_type: str) -> dict[str, Any]:
    head = {"id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
    types = {"sqlType": {"id": 3}, "mysqlType": {"id": mysql_type}}
    return {**head, **types, "es": 1, "ts": 1, "sql": "", "data": [{"id": "1"}], "old": None}


@pytest.mark.parametrize("format", ["canal", "ticdc-canal-json"])
def test_a_damaged_type_stops_no_stream(format: str) -> None:
    extension = {"_tidb": {"commitTs": 5}} if format == "ticdc-canal-json" else {}
    value = json.dumps({**canal_json("decimal(--5)"), **extension}).encode()

    (event,) = decode_message(format, Message("t", 0, 0, None, value), {})

    assert isinstance(event, RowChange)


def test_a_server_id_that_no_server_has_is_a_dead_letter() -> None:
    record = {"op": "c", "before": None, "after": {"id": 1}, "source": {**SOURCE, "server_id": 1 << 65}}

    (event,) = decode_message("debezium", Message("t", 0, 0, b'{"id":1}', json.dumps(record).encode()), {})

    assert isinstance(event, DeadLetter)


@pytest.mark.parametrize("format", ["canal", "debezium", "ticdc-canal-json", "ticdc-debezium"])
def test_a_message_that_a_schema_registrys_converter_has_framed_says_so(format: str) -> None:
    """Connectors of a hosted Kafka write so unless told otherwise: a zero and the schema's number."""
    framed = b"\0\0\0\0\x05" + json.dumps({"before": None, "after": {"id": 1}, "op": "c"}).encode()

    (event,) = decode_message(format, Message("t", 0, 0, None, framed), {})

    assert isinstance(event, DeadLetter)
    assert event.message.endswith(
        "got a schema registry's frame (let the producer write JSON without a registry)"
    )


@pytest.mark.parametrize("error", [ImportError("no protobuf"), MemoryError()])
def test_what_the_machine_lacks_makes_no_dead_letters(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(message: Message, options: Any) -> Any:
        raise error

    monkeypatch.setitem(FORMATS, "canal", FORMATS["canal"]._replace(decode=fails))

    with pytest.raises(type(error)):
        decode_message("canal", Message("t", 0, 0, None, b"{}"), {})
