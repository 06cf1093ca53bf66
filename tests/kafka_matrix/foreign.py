"""An authorizer that klamm does not know: a subclass of AclAuthorizer under another name, as vendors have them."""

import struct
from pathlib import Path
from typing import Final

CLASS: Final = "example.kafka.VendorAuthorizer"
_PARENT: Final = "kafka/security/authorizer/AclAuthorizer"
_JAVA_8: Final = 52


def write_class(folder: Path) -> Path:
    """Write the class; returns the folder for the class path."""
    name = CLASS.replace(".", "/")
    file = folder / f"{name}.class"
    file.parent.mkdir(parents=True, exist_ok=True)
    pool = [
        struct.pack(">BHH", 10, 2, 3),
        struct.pack(">BH", 7, 4),
        struct.pack(">BHH", 12, 5, 6),
        *(_utf8(text) for text in (_PARENT, "<init>", "()V")),
        struct.pack(">BH", 7, 8),
        *(_utf8(text) for text in (name, "Code")),
    ]
    # aload_0, invokespecial of the parent's constructor, return.
    code = bytes([0x2A, 0xB7, 0, 1, 0xB1])
    attribute = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)
    constructor = struct.pack(">HHHHHI", 1, 5, 6, 1, 9, len(attribute)) + attribute
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, _JAVA_8, len(pool) + 1) + b"".join(pool)
    body = struct.pack(">HHHHH", 0x21, 7, 2, 0, 0) + struct.pack(">H", 1) + constructor + struct.pack(">H", 0)
    file.write_bytes(head + body)
    return folder


def _utf8(text: str) -> bytes:
    return struct.pack(">BH", 1, len(text)) + text.encode()
