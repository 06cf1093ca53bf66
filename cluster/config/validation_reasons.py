"""What pydantic's kinds of errors are called to people, in settings and in options."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_REASONS: Final = {
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
}
BOUNDED: Final = frozenset({"greater_than_equal", "less_than_equal"})
"""Kinds of errors of numbers that are beyond a bound."""


def reason(detail: "ErrorDetails") -> str:
    known = _REASONS.get(detail["type"])
    if known is None:
        return detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    given: Mapping[str, object] = detail.get("ctx", {})
    return known.format_map(given)
