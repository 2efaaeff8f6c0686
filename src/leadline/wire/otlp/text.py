"""What the OTLP decoders share: content types, the JSON mapping, attribute values as text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from leadline.model.errors import DataError, RefusedError

_Request = TypeVar("_Request", bound=Message)

# JSON is parsed in one go, and no other thread runs meanwhile (4 MiB of numbers: 0.2 s, of empty lists 1 s); a
# collector's usual batch of 8,192 points has 3 MB.
JSON_BYTES_MAX = 4 << 20
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_DEPTH_MAX = 32  # of arrays and maps inside one attribute value


def media_type_of(content_type: str) -> str:
    """`application/x-protobuf` or `application/json`. Errors: RefusedError("unsupported_encoding")."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (PROTOBUF, JSON):
        raise RefusedError(
            "unsupported_encoding", f"OTLP is {PROTOBUF} or {JSON}; got {media_type or 'no content type'}"
        )
    return media_type


def number_text(value: float) -> str:
    """A double as text, the shortest that reads back as the same: 1, 0.25, 1e+21, 1e-7, +Inf, NaN.

    The form Prometheus' OTLP receiver gives attributes (ECMAScript's): an exponent only below 1e-6 and from
    1e21 on.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        return np.format_float_positional(value, trim="-")
    mantissa, _, exponent = repr(value).partition("e")
    sign, digits = exponent[0], exponent[1:].lstrip("0")
    return f"{mantissa.removesuffix('.0')}e{sign}{digits}"


def value_text(value: AnyValue) -> str:
    """An attribute's value as text: true, 42, 0.5, compact JSON for arrays and maps, base64 for bytes."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        return number_text(value.double_value)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind in ("array_value", "kvlist_value"):
        return json.dumps(_plain(value, 0), ensure_ascii=False, separators=(",", ":"))
    return ""  # no value, or one that only a profile's string table could tell


def _plain(value: AnyValue, depth: int) -> Any:
    """The value as JSON has it; numbers that JSON does not have are texts. Errors: DataError if too deep."""
    if depth > _DEPTH_MAX:
        raise DataError("an attribute", f"at most {_DEPTH_MAX} levels of arrays and maps", "more")
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each, depth + 1) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _plain(each.value, depth + 1) for each in value.kvlist_value.values}
    if kind in ("bool_value", "int_value"):
        return getattr(value, kind)
    if kind == "double_value" and math.isfinite(value.double_value):
        return value.double_value
    return value_text(value) if kind else None


def attribute_texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as texts by name; of a name given twice the later one."""
    return {each.key: value_text(each.value) for each in attributes}


def request_from_json(body: bytes, message: type[_Request]) -> _Request:
    """A request from OTLP/JSON: camelCase names, unknown ones ignored, ids in hex, other bytes in base64.

    Errors: DataError; RefusedError("decompressed_too_large").
    """
    if len(body) > JSON_BYTES_MAX:
        raise RefusedError(
            "decompressed_too_large",
            f"OTLP as JSON may have {JSON_BYTES_MAX} bytes, got {len(body)}; send {PROTOBUF} or smaller batches",
        )
    try:
        given = json.loads(bytes(body), parse_constant=_no_constant)
        if not isinstance(given, dict):
            raise ValueError("something else than an object")
        _hex_to_base64(given)
        request: _Request = message()
        ParseDict(given, request, ignore_unknown_fields=True)
    except RecursionError:
        raise DataError("the OTLP body", "JSON of at most 100 levels", "more") from None
    except (ParseError, ValueError, TypeError, AttributeError, SystemError) as error:
        # SystemError: upb's own, where a name holds half of a surrogate pair ("\\ud800").
        raise DataError("the OTLP body", f"{message.DESCRIPTOR.name} as JSON", str(error)[:200]) from None
    return request


def _no_constant(text: str) -> Any:
    raise ValueError(f'{text}, which JSON does not have (OTLP writes it as the string "{text}")')


def _hex_to_base64(given: Any) -> None:
    """Ids are hex in OTLP/JSON where protobuf's own mapping has base64. Errors: ValueError."""
    if isinstance(given, dict):
        for name, value in given.items():
            if name in ("traceId", "spanId", "trace_id", "span_id") and isinstance(value, str):
                given[name] = base64.b64encode(bytes.fromhex(value)).decode()
            else:
                _hex_to_base64(value)
    elif isinstance(given, list):
        for each in given:
            _hex_to_base64(each)
