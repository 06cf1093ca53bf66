"""The preload library of the suite: its compilation, and the page by which a running process is made to fail."""

import ctypes
import mmap
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")
_PAGE: Final = 4096


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "shim.so"
    command = compiler()
    assert command is not None, "a capability that was checked"
    subprocess.run([command, "-shared", "-fPIC", "-O2", "-w", "-o", library, SOURCE, "-ldl"], check=True)
    return library


class _Fields(ctypes.Structure):
    """As `struct control` in shim.c."""

    _fields_ = [
        ("clock_offset_ns", ctypes.c_int64),
        ("write_errno", ctypes.c_int32),
        ("sync_errno", ctypes.c_int32),
        ("sync_hangs", ctypes.c_int32),
        ("read_errno", ctypes.c_int32),
        ("all_hangs", ctypes.c_int32),
    ]


class Control:
    """The control page of one process; it outlives the process and holds for its successors, too."""

    def __init__(self, file: Path) -> None:
        self._path = file
        file.write_bytes(bytes(_PAGE))
        descriptor = os.open(file, os.O_RDWR)
        self._page = mmap.mmap(descriptor, _PAGE)
        os.close(descriptor)
        self.fields = _Fields.from_buffer(self._page)

    def environment(self, library: Path, folder: Path) -> dict[str, str]:
        """Variables for a process whose files below `folder` may fail."""
        return {"LD_PRELOAD": str(library), "CHAOS_CONTROL": str(self._path), "CHAOS_FOLDER": f"{folder}/"}

    def clear(self) -> None:
        """No faults any more."""
        for name, _ in _Fields._fields_:
            setattr(self.fields, name, 0)
