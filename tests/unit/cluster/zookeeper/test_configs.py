"""Settings and other contents of znodes: one malformed node takes nothing from the others."""

import pytest
from structlog.testing import capture_logs

from cluster.model.errors import MalformedZnodeError
from cluster.znodes.configs import ConfigEntity, decode_config, encode_config
from cluster.zookeeper.configs import StoredConfig, overrides_of, read_configs
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Create
from tests.controllers.worlds import World, run_virtually

GOOD, BAD, ABSENT, EMPTY = (ConfigEntity("topics", name) for name in ("good", "bad", "absent", "empty"))


def test_each_entity_has_its_overrides_or_the_error() -> None:
    async def main() -> None:
        world = await World().start()
        contents = {GOOD: encode_config({"retention.ms": "5"}), BAD: b'{"config": 7}', EMPTY: b""}
        for path in ("/config", "/config/topics"):
            await world.write(Create(path))
        for entity, content in contents.items():
            await world.write(Create(entity.path, content))
        with capture_logs() as logs:
            found = await read_configs(world.tool, [GOOD, BAD, ABSENT, EMPTY])
        assert list(found) == [GOOD, BAD, ABSENT, EMPTY]
        assert found[GOOD] == StoredConfig({"retention.ms": "5"}, 0)
        assert (found[ABSENT], found[EMPTY]) == (StoredConfig({}, None), StoredConfig({}, 0))
        assert isinstance(found[BAD], MalformedZnodeError)
        assert [overrides_of(config) for config in found.values()] == [{"retention.ms": "5"}, {}, {}, {}]
        assert [log["path"] for log in logs] == [BAD.path]

    run_virtually(main)


def test_malformed_and_absent_contents_are_left_out_and_only_the_former_logged() -> None:
    contents = [encode_config({"a": "1"}), None, b"{", b""]
    with capture_logs() as logs:
        found = decode_each(["/good", "/absent", "/bad", "/empty"], contents, decode_config)
    assert found == {"/good": {"a": "1"}, "/empty": {}}
    assert [(log["path"], log["data"]) for log in logs] == [("/bad", b"{")]


def test_other_errors_are_not_taken_for_malformed_contents() -> None:
    with pytest.raises(ZeroDivisionError):
        decode_each(["/a"], [0], lambda _, number: 1 // number)
