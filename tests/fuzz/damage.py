"""Bytes and documents that are nearly right: what reads them gets past its first check."""

import json
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz.messages import HOSTILE_TEXTS, Draw

_EDGES: Final = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30)
_UNUSUAL: Final[tuple[Any, ...]] = (None, True, False, 0.5, -1e308, "", [], {}, [[]], {"a": 1}, [None], "\\RAW\\")
_RAW: Final = (b"NaN", b"1e999", b"9" * 5000, b"-0", b"1.0", b'"\\ud800"', b'"\xff"', b"[" * 3000, b"{", b"\0", b"'")


@st.composite
def damaged(draw: Draw, content: bytes) -> bytes:
    """The content with bytes changed, cut off, repeated, put in or added, or something else."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 6)):
            case 0 | 1 if data:
                data[min(at, len(data) - 1)] = draw(
                    st.sampled_from((0, 1, 0x7F, 0x80, 0xFE, 0xFF)) | st.integers(0, 255)
                )
            case 2:
                data[at : at + 8] = draw(
                    st.sampled_from((b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7))
                )
            case 3:
                del data[at:]
            case 4:
                data[at:at] = draw(st.binary(min_size=1, max_size=20))
            case 5:
                end = draw(st.integers(at, len(data)))
                data[at:at] = data[at:end]
            case _:
                del data[at : at + draw(st.integers(1, 20))]
    return bytes(data)


@st.composite
def documents(draw: Draw, usual: Sequence[Any]) -> bytes:
    """JSON like one of these documents, with parts replaced, left out, added or repeated, or damaged."""
    text = json.dumps(_changed(draw, draw(st.sampled_from(usual)))).encode()
    while b'"\\\\RAW\\\\"' in text:
        text = text.replace(b'"\\\\RAW\\\\"', draw(st.sampled_from(_RAW)), 1)
    if draw(st.integers(0, 3)) == 0:
        return draw(damaged(text))
    return text


def _changed(draw: Draw, value: Any) -> Any:
    choice = draw(st.integers(0, 11))
    if choice == 0:
        return draw(st.sampled_from((*_EDGES, *_UNUSUAL, *HOSTILE_TEXTS)))
    if isinstance(value, dict):
        changed = {key: _changed(draw, item) for key, item in value.items()}
        if choice == 1 and changed:
            del changed[draw(st.sampled_from(sorted(changed)))]
        elif choice == 2:
            changed[draw(st.sampled_from(HOSTILE_TEXTS))] = draw(st.sampled_from(_UNUSUAL))
        return changed
    if isinstance(value, list):
        items = [_changed(draw, item) for item in value]
        return items * 3 if choice == 1 else items[:-1] if choice == 2 else items
    return value
