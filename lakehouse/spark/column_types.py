"""Spark types from their SQL text without a session: `bigint`, `decimal(10,2)`, `array<string>`,
`struct<a:int,b:string>`.

Spark's own parser runs in the JVM, and module constants are made before there is one.
"""

import re

from pyspark.sql import types as T

_PLAIN: dict[str, T.DataType] = {
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "boolean": T.BooleanType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "variant": T.VariantType(),
    "interval day to second": T.DayTimeIntervalType(),
}


def data_type(text: str) -> T.DataType:
    """The Spark type of a SQL text; a ValueError where it is none."""
    text = text.strip()
    head, _, rest = text.partition("<")
    word = head.strip().lower()
    if rest and word == "array":
        return T.ArrayType(data_type(rest.strip()[:-1]))
    if rest and word == "struct":
        return T.StructType([_field(part, ":") for part in _split(rest.strip()[:-1])])
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", word)
    if decimal:
        return T.DecimalType(int(decimal[1]), int(decimal[2]))
    if word in _PLAIN:
        return _PLAIN[word]
    raise ValueError(f"expected a Spark type, got {text}")


def columns(text: str) -> T.StructType:
    """The schema of `name type, name type …`; names may stand in backquotes."""
    return T.StructType([_field(part, None) for part in _split(text)])


def _field(text: str, separator: str | None) -> T.StructField:
    name, type_ = text.strip().split(separator, 1)
    return T.StructField(name.strip("`"), data_type(type_))


def _split(text: str) -> list[str]:
    """At the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
