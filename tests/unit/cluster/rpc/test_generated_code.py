"""The generated code that is checked in is what the pinned generator makes of the .proto files."""

import subprocess
import sys
from pathlib import Path

from cluster.rpc.methods import METHOD_OF_REQUEST, REPLICA_FETCH

ROOT = Path(__file__).parents[4]
PACKAGE = Path("klamm/v1")


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    sources = sorted((ROOT / "proto" / PACKAGE).glob("*.proto"))
    assert sources
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", *outputs, *map(str, sources)]
    subprocess.run(command, check=True)
    fresh = {path.name: path.read_text() for path in (tmp_path / PACKAGE).iterdir()}
    checked_in = {path.name: path.read_text() for path in (ROOT / "proto" / PACKAGE).glob("*_pb2*.py*")}
    assert fresh.keys() == checked_in.keys()
    assert [name for name in fresh if fresh[name] != checked_in[name]] == []


def test_the_proto_files_have_the_form_that_buf_asks_for() -> None:
    for source in (ROOT / "proto" / PACKAGE).glob("*.proto"):
        text = source.read_text()
        assert "package klamm.v1;" in text
        assert 'option go_package = "klamm/v1;klammv1";' in text
        assert 'option java_package = "klamm.v1";' in text
        for line in text.splitlines():
            if line.strip().startswith("rpc "):
                name = line.split("rpc ")[1].split("(")[0]
                if name == REPLICA_FETCH.name:
                    assert f"rpc {name}(FetchRequest) returns (FetchResponse);" in line
                    continue
                stream = "stream " if next(m for m in METHOD_OF_REQUEST.values() if m.name == name).streams else ""
                assert f"rpc {name}({name}Request) returns ({stream}{name}Response);" in line
