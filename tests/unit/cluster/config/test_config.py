"""Configuration: precedence, Kafka's keys, and all errors at once."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from cluster.config.config import NodeConfig, host_and_port, load_config, read_credentials
from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.model.errors import ConfigError
from cluster.model.listeners import ListenerNames
from cluster.tls.secret import Secret
from cluster.zookeeper.login import Credentials, Scheme

ROOT = Path(__file__).resolve().parents[4]
FILE = """
id = 3
zookeeper = "localhost:2181/klamm"
listen = "127.0.0.1:9092"
data = ["/var/a", "/var/b"]
rack = ""
[settings]
"zookeeper.session.timeout.ms" = 6000
"num.partitions" = 4
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(text: str) -> Path:
        path = tmp_path / "node.toml"
        path.write_text(text)
        return path

    return write_file


def errors(path: Path, overrides: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return caught.value.errors


def test_a_file_gives_fields_and_settings(write: Any) -> None:
    config = load_config(write(FILE))
    assert (config.id, config.zookeeper, config.listen) == (3, "localhost:2181/klamm", "127.0.0.1:9092")
    assert config.data == ("/var/a", "/var/b")
    assert config.rack is None
    assert config.settings.zookeeper_session_timeout_ms == 6000
    assert config.settings.zookeeper_connection_timeout_ms == 6000
    assert config.settings.request_timeout_ms == 30_000


def test_the_environment_wins_over_the_file_and_flags_over_both(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_ID", "4")
    monkeypatch.setenv("KLAMM_LISTEN", "127.0.0.1:4")
    monkeypatch.setenv("KLAMM_DATA", "/x, /y")
    monkeypatch.setenv("KLAMM_SETTINGS", '{"num.partitions": 5, "min.insync.replicas": 2}')
    flags = {"id": 5, "listen": None, "settings": {"num.partitions": "6"}}
    config = load_config(write(FILE), flags)
    assert (config.id, config.listen, config.data) == (5, "127.0.0.1:4", ("/x", "/y"))
    settings = config.settings
    assert (settings.num_partitions, settings.min_insync_replicas) == (6, 2)
    assert settings.zookeeper_session_timeout_ms == 6000


def test_settings_may_be_a_json_string(write: Any) -> None:
    settings = json.dumps({"num.partitions": 7, "unclean.leader.election.enable": True})
    path = write(f'id = 1\nzookeeper = "z:1"\nlisten = "h:1"\ndata = "/a"\nsettings = {json.dumps(settings)}\n')
    config = load_config(path, {"settings": '{"num.replica.fetchers": 2}'})
    assert config.settings.num_partitions == 7
    assert config.settings.unclean_leader_election_enable
    assert config.settings.num_replica_fetchers == 2


def test_all_errors_are_reported_at_once_with_their_fields(write: Any) -> None:
    found = errors(
        write(
            'id = "x"\nlisten = "nope"\ndata = ["/a", "/a"]\ncolour = 1\n[settings]\n'
            '"zookeeper.session.timeout.ms" = true\n"replica.lag.time.max.ms" = 100\n"log.roll.hours" = "y"\n'
            '"num.partition" = 3\n"inter.broker.protocol.version" = "9.9"\n"log.cleanup.policy" = "burn"\n'
        )
    )
    assert sorted(found) == [
        "colour: is not a known key",
        "data: ['/a', '/a']: must not name a folder twice",
        "id: 'x': must be a whole number",
        "listen: 'nope': must be host:port",
        "settings.\"inter.broker.protocol.version\": '9.9': must not be newer than 3.9-IV0",
        "settings.\"log.cleanup.policy\": 'burn': must be delete, compact, or compact,delete",
        "settings.\"log.roll.hours\": 'y': must be a whole number",
        'settings."num.partition": is not a known key; did you mean num.partitions?',
        'settings."replica.fetch.wait.max.ms": 500: must not exceed replica.lag.time.max.ms (100)',
        'settings."zookeeper.session.timeout.ms": True: must be a number',
        "zookeeper: is missing",
    ]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('"replica.socket.timeout.ms" = 400', "replica.fetch.wait.max.ms"),
        ('"socket.connection.setup.timeout.ms" = 40000', "socket.connection.setup.timeout.ms"),
        ('"leader.imbalance.check.interval.seconds" = 0', "leader.imbalance.check.interval.seconds"),
        ('"min.insync.replicas" = 0', "min.insync.replicas"),
        ('"auto.create.topics.enable" = true', "auto.create.topics.enable"),
        ('"log.retention.ms" = 0', "log.retention.ms"),
        ('"log.retention.hours" = 0', "log.retention.ms"),
        ('"background.threads" = 4', "background.threads"),
        ('"num.replica.alter.log.dirs.threads" = 0', "num.replica.alter.log.dirs.threads"),
        ('"inter.broker.listener.name" = "a b"', "inter.broker.listener.name"),
        ('"control.plane.listener.name" = "plaintext"', "control.plane.listener.name"),
        ('"advertised.listeners" = "OTHER://h:1"', "advertised.listeners"),
        ('"log.segment.bytes" = 9999999999', "log.segment.bytes"),
        ('"num_partitions" = 1', "num_partitions"),
        ('"broker.id" = 8', "broker.id"),
        ('"zookeeper.connect" = "elsewhere:2181"', "zookeeper.connect"),
    ],
)
def test_a_value_out_of_range_or_in_contradiction_names_its_key(write: Any, settings: str, key: str) -> None:
    (error,) = errors(write(f"{FILE}{settings}\n"))
    assert error.startswith(f'settings."{key}": ')


LOGIN = 'Client { a.Module required username="u" password="p"; };'


@pytest.mark.rule("ZK-6")
@pytest.mark.parametrize(
    ("login", "settings", "expected"),
    [
        (None, {"zookeeper.set.acl": True}, 'settings."zookeeper.set.acl": True: needs an authenticated ZooKeeper'),
        ("", {}, "'LOGIN': has no section Client"),
        (LOGIN, {"zookeeper.sasl.clientconfig": "Zk"}, "'LOGIN': has no section Zk"),
        ('Client { a.Module required username="u"; };', {}, "'LOGIN': section Client has no password"),
        (
            LOGIN,
            {"klamm.zookeeper.auth.scheme": "kerberos"},
            "settings.\"klamm.zookeeper.auth.scheme\": 'kerberos': must",
        ),
    ],
)
def test_what_is_wrong_with_the_user_for_zookeeper_is_named(
    write: Any, tmp_path: Path, login: str | None, settings: dict[str, Any], expected: str
) -> None:
    path = tmp_path / "login.jaas"
    if login is not None:
        path.write_text(login)
        settings = {"java.security.auth.login.config": str(path), **settings}
    with pytest.raises(ConfigError) as refused:
        load_config(write(FILE), {"settings": settings})
    (error,) = refused.value.errors
    assert expected.replace("LOGIN", str(path)) in error
    assert error.startswith('settings."')


@pytest.mark.rule("ZK-6")
def test_a_user_may_be_named_with_and_without_owning_nodes(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "login.jaas"
    path.write_text(LOGIN)
    for sets_acl in (False, True):
        settings = {"java.security.auth.login.config": str(path), "zookeeper.set.acl": sets_acl}
        config = load_config(write(FILE), {"settings": settings})
        assert read_credentials(config.settings) == Credentials(Scheme.SASL, "u", Secret("p"))
    assert read_credentials(load_config(write(FILE)).settings) is None


def test_a_file_of_credentials_that_cannot_be_read_is_named(write: Any, tmp_path: Path) -> None:
    settings = {"java.security.auth.login.config": str(tmp_path / "none.jaas")}
    with pytest.raises(ConfigError, match="none.jaas': cannot be read: No such file"):
        load_config(write(FILE), {"settings": settings})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("id = ", "is not TOML"),
        ('settings = "{"', "is not JSON"),
        ('settings = "[1]"', "must be a table or a JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(write: Any, text: str, part: str) -> None:
    (error,) = errors(write(text))
    assert part in error


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (error,) = errors(tmp_path / "none.toml")
    assert "none.toml: cannot be read: No such file" in error


def test_settings_in_the_environment_that_are_no_json_are_refused(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_SETTINGS", "{")
    (error,) = errors(write(FILE))
    assert error.startswith("settings: '{': is not JSON")


def test_kafka_keys_stand_in_for_fields_that_are_not_given(write: Any) -> None:
    config = load_config(
        write(
            '[settings]\n"broker.id" = 2\n"zookeeper.connect" = "a:1,b:2/c"\n"listeners" = "PLAINTEXT://0.0.0.0:9092"\n'
            '"advertised.listeners" = "PLAINTEXT://host:9092"\n"log.dirs" = "/a,/b"\n"broker.rack" = "r1"\n'
        )
    )
    assert (config.id, config.zookeeper, config.data, config.rack) == (2, "a:1,b:2/c", ("/a", "/b"), "r1")
    assert (config.listen, config.advertised) == ("0.0.0.0:9092", "host:9092")


@pytest.mark.parametrize(
    ("settings", "attribute", "expected"),
    [
        ({"log.roll.hours": 2}, "log_roll_ms", 7_200_000),
        ({"log.roll.hours": 2, "log.roll.ms": 5}, "log_roll_ms", 5),
        ({"log.roll.jitter.hours": 1}, "log_roll_jitter_ms", 3_600_000),
        ({"log.retention.hours": 1}, "log_retention_ms", 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 1}, "log_retention_ms", 60_000),
        ({"log.retention.hours": -1}, "log_retention_ms", -1),
        ({}, "log_retention_ms", 604_800_000),
        ({"zookeeper.session.timeout.ms": 7}, "zookeeper_connection_timeout_ms", 7),
    ],
)
def test_a_finer_unit_wins_and_defaults_follow_others(settings: dict[str, int], attribute: str, expected: int) -> None:
    assert getattr(Settings.model_validate(settings), attribute) == expected


@pytest.mark.rule("RQ-30")
def test_kafkas_keys_give_both_listeners_their_addresses_names_and_protocol(write: Any) -> None:
    assert Settings().listener_names == ListenerNames("PLAINTEXT", "CONTROL")
    config = load_config(
        write(
            'id = 1\nzookeeper = "z:1"\ndata = "/a"\n[settings]\n'
            '"listeners" = "controller://h:9093, INTERNAL://h:9092"\n'
            '"advertised.listeners" = "INTERNAL://outside:19092,CONTROLLER://outside:19093"\n'
            '"listener.security.protocol.map" = "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:SSL"\n'
            '"inter.broker.listener.name" = "internal"\n"control.plane.listener.name" = "CONTROLLER"\n'
        )
    )
    assert (config.listen, config.control_listen) == ("h:9092", "h:9093")
    client, control = config.endpoints(9092, 9093)
    assert client == Endpoint("outside", 19092, "INTERNAL")
    assert control == Endpoint("outside", 19093, "CONTROLLER")


@pytest.mark.parametrize(
    ("settings", "key", "part"),
    [
        ('"listeners" = "PLAINTEXT://127.0.0.1:9092,OTHER://h:1"', "listeners", "one address named PLAINTEXT"),
        ('"listeners" = "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9092"', "listeners", "at most one named"),
    ],
)
def test_listeners_with_other_names_are_refused(write: Any, settings: str, key: str, part: str) -> None:
    (error,) = errors(write(f"{FILE}{settings}\n"))
    assert error.startswith(f'settings."{key}": ')
    assert part in error


def test_a_control_address_in_kafkas_key_must_agree_with_the_field(write: Any) -> None:
    text = FILE.replace("rack", 'control_listen = "127.0.0.1:9094"\nrack')
    (error,) = errors(write(f'{text}"listeners" = "PLAINTEXT://127.0.0.1:9092,CONTROL://127.0.0.1:9093"\n'))
    assert error == "settings.\"listeners\": '127.0.0.1:9093': contradicts control_listen ('127.0.0.1:9094')"


@pytest.mark.rule("LS-5")
def test_kafkas_keys_and_fields_give_the_external_listener_its_address(write: Any) -> None:
    inside = "PLAINTEXT://127.0.0.1:9092,CONTROL://127.0.0.1:9093"
    config = load_config(
        write(
            f'{FILE}"listeners" = "{inside},EXTERNAL://0.0.0.0:9094"\n'
            '"advertised.listeners" = "PLAINTEXT://inside:9092,EXTERNAL://127.0.0.1:19011"\n'
        )
    )
    assert (config.external_listen, config.external_advertised) == ("0.0.0.0:9094", "127.0.0.1:19011")
    assert config.endpoints(1, 2, 3)[2] == Endpoint("127.0.0.1", 19011, "EXTERNAL")
    text = FILE.replace("rack", 'external_listen = "127.0.0.1:0"\nrack')
    assert load_config(write(text)).endpoints(1, 2, 3)[2] == Endpoint("127.0.0.1", 3, "EXTERNAL")
    assert len(load_config(write(FILE)).endpoints(1, 2)) == 2
    (error,) = errors(write(FILE.replace("rack", 'external_advertised = "127.0.0.1:5"\nrack')))
    assert "external_listen" in error


@pytest.mark.rule("R1.7")
def test_a_free_port_is_advertised_as_bound_and_a_blank_host_by_its_name() -> None:
    def addresses(listen: str, **fields: str) -> tuple[str, str]:
        config = NodeConfig.model_validate({"zookeeper": "z:1", "listen": listen, "data": ["/a"], **fields})
        client, control = config.endpoints(4711, 4712)
        assert (client.listener, control.listener) == ("PLAINTEXT", "CONTROL")
        return client.address, control.address

    assert addresses("127.0.0.1:0") == ("127.0.0.1:4711", "127.0.0.1:4712")
    assert addresses("127.0.0.1:5", control_listen="127.0.0.2:6") == ("127.0.0.1:5", "127.0.0.2:6")
    assert addresses("[::1]:0") == ("[::1]:4711", "[::1]:4712")
    outside = {"advertised": "example.org:7"}
    assert addresses("0.0.0.0:5", **outside) == ("example.org:7", "example.org:4712")
    assert addresses("0.0.0.0:5", **outside, control_listen="0.0.0.0:6") == ("example.org:7", "example.org:6")
    assert addresses("0.0.0.0:5", **outside, control_advertised="inside:8") == ("example.org:7", "inside:8")
    assert not any(address.startswith((":", "0.0.0.0")) for address in addresses(":5"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("h:1", ("h", 1)),
        (":0", ("", 0)),
        ("[::1]:9", ("::1", 9)),
        ("PLAINTEXT://h:1", ("h", 1)),
        ("B_2://[::1]:9", ("::1", 9)),
    ],
)
def test_addresses_are_split(address: str, expected: tuple[str, int]) -> None:
    assert host_and_port(address) == expected


@pytest.mark.parametrize("address", ["", "h", "h:", "h:x", "h:70000", "::1:9", "http://h:1", "h: 1", " h:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        host_and_port(address)


@pytest.mark.parametrize("connect", ["", "h:x", "h:1/", "h:1//a", ",h:1", "h:0"])
def test_what_is_no_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        NodeConfig(zookeeper=connect, listen="h:1", data=("/a",))


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "config").glob("*.toml")), ids=lambda path: path.name)
def test_the_example_files_are_valid(path: Path) -> None:
    assert load_config(path).id > 0


def test_the_documented_settings_are_the_codes_own() -> None:
    spec = importlib.util.spec_from_file_location("make_settings_table", ROOT / "docs" / "make_settings_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "configuration.md").read_text()
    assert module.with_table(text) == text, "run .venv/bin/python docs/make_settings_table.py"


def test_defaults_of_a_program_yield_to_everything_else(write: Any) -> None:
    bare = write('id = 1\nzookeeper = "z:1"\nlisten = "h:1"\n')
    assert load_config(bare, defaults={"data": "/beside"}).data == ("/beside",)
    assert load_config(bare, {"data": "/flag"}, defaults={"data": "/beside"}).data == ("/flag",)
    by_key = write('id = 1\nzookeeper = "z:1"\nlisten = "h:1"\n[settings]\n"log.dirs" = "/kafka"\n')
    assert load_config(by_key, defaults={"data": "/beside"}).data == ("/kafka",)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"k" * 5000: 1}, 'settings."kkk'),
        ({"listeners": "x" * 5000}, 'settings."listeners": '),
        ({"listeners": "A://h:1", "control.plane.listener.name": "B" * 5000}, 'settings."listeners": '),
        ({"broker.id": "x" * 5000}, 'settings."broker.id": '),
        ({"listener.security.protocol.map": f"CONTROL:{'x' * 5000}"}, 'settings."listener.security.protocol.map": '),
        ({"log.dirs": "y" * 5000}, 'settings."log.dirs": '),
        ({"zookeeper.connect": f"{'h' * 5000}:1"}, 'settings."zookeeper.connect": '),
        ({"java.security.auth.login.config": "h" * 5000}, 'settings."java.security.auth.login.config": '),
    ],
)
def test_errors_stay_short_and_end_with_their_reason(tmp_path: Path, settings: dict[str, object], named: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('zookeeper = "127.0.0.1:2181"\nlisten = "127.0.0.1:0"\ndata = "data"\n')
    with pytest.raises(ConfigError) as refused:
        load_config(file, {"settings": settings})
    assert any(line.startswith(named) for line in refused.value.errors)
    assert all(len(line) < 1000 and not line.endswith("…") for line in refused.value.errors)


@pytest.mark.parametrize("key", ["inter.broker.listener.name", "control.plane.listener.name"])
def test_no_other_listener_has_the_name_of_the_external_one(write: Any, key: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(f'{FILE}"{key}" = "EXTERNAL"\n'))
    assert [line for line in error.value.errors if line.startswith(f"settings.\"{key}\": 'EXTERNAL': ")]


def test_an_unknown_key_is_named_on_one_line_without_control_characters(write: Any) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(FILE), {"settings": {"x\x1b[2J\ny": "1"}})
    assert error.value.errors == [r'settings."x\x1b[2J\ny": is not a known key']


def test_two_listeners_cannot_have_one_address(write: Any) -> None:
    path = write(FILE)
    taken = {"listen": "127.0.0.1:5", "external_listen": "127.0.0.1:5", "metrics_listen": "127.0.0.1:5"}
    assert errors(path, taken) == [
        f"{field}: '127.0.0.1:5': listen has this address too; each listener needs its own"
        for field in ("external_listen", "metrics_listen")
    ]
    load_config(path, {"listen": "127.0.0.1:0", "external_listen": "127.0.0.1:0", "control_listen": "127.0.0.1:0"})


@pytest.mark.parametrize("address", ["\x1b[2J:1", "a\udcff:1", "a\u202eb:1"])
def test_a_host_that_cannot_be_printed_is_refused(write: Any, address: str) -> None:
    for field in ("zookeeper", "listen", "external_listen"):
        [error] = errors(write(FILE), {field: address})
        assert error.startswith(f"{field}: ")
        assert error.isprintable()
