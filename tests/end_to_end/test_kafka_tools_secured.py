"""Kafka's console tools on a secured cluster under klamm: with certificates, and with each mechanism of SASL; those of
2.4.1 with certificates in PKCS12 and with SCRAM.

Each tool is run at klamm's own Kafka listener and at a broker, as `--command-config` says who runs it.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from cluster.process.local_cluster import CERTIFICATES, CONTROLLER
from cluster.tls.settings import AUTHORITY
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import table, tool_command
from tests.processes.certificates import PASSWORD as STORE_PASSWORD
from tests.processes.certificates import write_pkcs12, write_secret
from tests.processes.kdc import REALM, Kdc, running_kdc
from tests.processes.local_clusters import serving_cluster
from tests.processes.tokens import TokenIssuer

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(2400)]

USER, PASSWORD = "bob", "of-a-test"
WEAK: Final = "carol"
"""A user without rights."""
CERTIFICATE: Final = "certificate"
BY_PASSWORD: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
MECHANISMS: Final = (CERTIFICATE, *BY_PASSWORD, "OAUTHBEARER", "GSSAPI")
OLD: Final = "2.4.1"
OF_OLD: Final = (CERTIFICATE, "SCRAM-SHA-256", "SCRAM-SHA-512")
SERVICE, HOST = "kafka", "localhost"
"""Java asks for tickets for the name that it finds for the address."""
AUDIENCE, ISSUER = "kafka", "https://issuer.example"
_SECURITY: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_SECURITY}.oauthbearer"
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
_SUPER_USERS: Final = f"User:CN=admin,O=klamm;User:CN=node,O=klamm;User:{USER}"


class Tokens:
    """Tokens that last for an hour, and what verifies them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = TokenIssuer(folder / "keys.json", AUDIENCE, ISSUER)

    @property
    def keys(self) -> Path:
        return self._issuer.keys

    def of(self, user: str) -> Path:
        """The file with the token of a user."""
        return self._issuer.write(self._folder / f"token-of-{user}", user, 3600)

    def settings(self) -> dict[str, str]:
        """Of brokers and of controllers, who verify them."""
        prefix = "listener.name.sasl_ssl.oauthbearer.sasl"
        return {
            "sasl.oauthbearer.token.endpoint.url": self.of("nobody").as_uri(),
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            f"{prefix}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{prefix}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        }


class Tooled(Struct):
    """The cluster, and what the users of its tools prove themselves with. `kdc`: None where there is none."""

    cluster: LocalCluster
    tokens: Tokens
    kdc: Kdc | None
    keytabs: dict[str, Path]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those that this machine can try."""
        return MECHANISMS if self.kdc is not None else MECHANISMS[:-1]


def _kerberos_login(keytab: Path, principal: str) -> str:
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}"'
    return f"{_KERBEROS} required {options};"


def _known_users() -> str:
    return " ".join(f'user_{user}="{PASSWORD}"' for user in (USER, WEAK))


@contextmanager
def _kerberos(folder: Path) -> Iterator[Kdc | None]:
    """A center, if the programs of one are installed."""
    with ExitStack() as stack:
        try:
            kdc = stack.enter_context(running_kdc(folder))
        except pytest.skip.Exception as error:
            print(f"GSSAPI is left out: {error}")
            kdc = None
        yield kdc


@pytest.fixture(scope="module")
def tooled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tooled]:
    kafka_class_path(NEWEST)
    base = tmp_path_factory.mktemp("secured-tools")
    tokens = Tokens(base)
    with _kerberos(base / "kdc") as kdc, pytest.MonkeyPatch.context() as patch:
        names = {SERVICE: f"{SERVICE}/{HOST}", USER: USER, WEAK: WEAK}
        keytabs = {} if kdc is None else {name: kdc.keytab(name, principal) for name, principal in names.items()}
        urls = ",".join(path.as_uri() for path in (tokens.keys, *(tokens.of(user) for user in (USER, WEAK, "nobody"))))
        of_java = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"]
        if kdc is not None:
            of_java.append(f"-Djava.security.krb5.conf={kdc.config}")
            patch.setenv("KRB5_CONFIG", str(kdc.config))
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(of_java))
        settings = _settings(base, tokens, keytabs)
        options = {"controllers": 2, "brokers": 3, "kafka": NEWEST, "is_secured": True, "settings": settings}
        with serving_cluster(base / "cluster", **options) as cluster:
            found = Tooled(cluster, tokens, kdc, keytabs)
            _add_users(found)
            yield found


def _settings(base: Path, tokens: Tokens, keytabs: Mapping[str, Path]) -> dict[str, object]:
    users = base / "plain-users"
    write_secret(users, "".join(f"{user}={PASSWORD}\n" for user in (USER, WEAK)).encode())
    settings: dict[str, object] = {
        "sasl.enabled.mechanisms": ",".join([*BY_PASSWORD, "OAUTHBEARER", *(["GSSAPI"] if keytabs else [])]),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_login_module('PLAIN')} {_known_users()};",
        "klamm.sasl.plain.users.file": str(users),
        "super.users": _SUPER_USERS,
        **tokens.settings(),
    }
    if keytabs:
        login, jaas = _kerberos_login(keytabs[SERVICE], f"{SERVICE}/{HOST}"), base / "controllers.jaas"
        write_secret(jaas, f"KafkaServer {{ {login} }};".encode())
        settings["listener.name.sasl_ssl.gssapi.sasl.jaas.config"] = login
        settings["sasl.kerberos.service.name"] = SERVICE
        settings["java.security.auth.login.config"] = str(jaas)
    return settings


def _add_users(tooled: Tooled) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for user in (USER, WEAK):
            credential = f"{mechanism}=[password={PASSWORD}]"
            named = ("--entity-type", "users", "--entity-name", user)
            done = _run(tooled, CERTIFICATE, "broker", "configs", *named, "--alter", "--add-config", credential)
            assert done.returncode == 0, done.stdout + done.stderr


def _login_module(mechanism: str) -> str:
    return f"{_SECURITY}.{'plain.Plain' if mechanism == 'PLAIN' else 'scram.Scram'}LoginModule required"


def _config(tooled: Tooled, mechanism: str, user: str, version: str) -> Path:
    certificates = tooled.cluster.folder / CERTIFICATES
    if mechanism == CERTIFICATE and version == NEWEST:
        return certificates / "admin.properties"
    lines: dict[str, object] = {"security.protocol": "SSL" if mechanism == CERTIFICATE else "SASL_SSL"}
    lines |= _stores(certificates, version, has_key=mechanism == CERTIFICATE)
    if mechanism != CERTIFICATE:
        lines |= {"sasl.mechanism": mechanism, **_login(tooled, mechanism, user)}
    path = tooled.cluster.folder / f"{version}-{mechanism}-{user}.properties"
    write_secret(path, "".join(f"{key}={value}\n" for key, value in lines.items()).encode())
    return path


def _stores(certificates: Path, version: str, *, has_key: bool) -> dict[str, object]:
    """PEM came with 2.7."""
    authority = certificates / AUTHORITY
    if version == NEWEST:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    keystore, truststore = (certificates / name for name in ("admin.p12", "authority.p12"))
    write_pkcs12(certificates / "admin.pem", authority, keystore, truststore)
    found: dict[str, object] = {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": truststore,
        "ssl.truststore.password": STORE_PASSWORD,
    }
    if has_key:
        found |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": keystore,
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
        }
    return found


def _login(tooled: Tooled, mechanism: str, user: str) -> dict[str, object]:
    match mechanism:
        case "OAUTHBEARER":
            return {
                "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
                "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": tooled.tokens.of(user).as_uri(),
            }
        case "GSSAPI":
            login = _kerberos_login(tooled.keytabs[user], user)
            return {"sasl.jaas.config": login, "sasl.kerberos.service.name": SERVICE}
        case _:
            return {"sasl.jaas.config": f'{_login_module(mechanism)} username="{user}" password="{PASSWORD}";'}


def _run(
    tooled: Tooled, mechanism: str, where: str, tool: str, *arguments: str, user: str = USER, version: str = NEWEST
) -> subprocess.CompletedProcess[str]:
    cluster = tooled.cluster
    members = cluster.members(CONTROLLER) if where == "klamm" else cluster.state.kafka_brokers
    has_certificate = mechanism == CERTIFICATE
    certified = [m.kafka_address if where == "klamm" else m.address for m in members]
    bootstrap = ",".join(certified if has_certificate else [m.sasl_address for m in members])
    config = "--admin.config" if tool == "election" else "--command-config"
    options = ("--bootstrap-server", bootstrap, config, str(_config(tooled, mechanism, user, version)))
    command = tool_command(version, tool, (*options, *arguments), cluster.folder)
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def _verbs(cluster: LocalCluster, topic: str) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, tool, arguments, and what its output has to hold. Each relies on those before."""
    moves = cluster.folder / f"{topic}.json"
    moves.write_text(f'{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":[3,1]}}]}}')
    named = ("--topic", topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    yield "kafka-topics --create", "topics", ("--create", *named, "--replica-assignment", "1:2,2:3"), "Created topic"
    yield "kafka-topics --describe", "topics", ("--describe", *named), "PartitionCount: 2"
    yield (
        "kafka-configs --alter",
        "configs",
        (*of_topic, "--alter", "--add-config", "retention.ms=7200000"),
        "Completed",
    )
    yield "kafka-configs --describe", "configs", (*of_topic, "--describe"), "retention.ms=7200000"
    rule = ("--allow-principal", "User:x", "--operation", "Read", *named)
    yield "kafka-acls --add", "acls", ("--add", *rule), "Adding ACLs"
    yield "kafka-acls --list", "acls", ("--list", *named), "principal=User:x"
    execute = ("--reassignment-json-file", str(moves), "--execute")
    yield "kafka-reassign-partitions --execute", "reassign", execute, "Successfully started"
    verify = ("--reassignment-json-file", str(moves), "--verify")
    yield "kafka-reassign-partitions --verify", "reassign", verify, "is complete|in progress"
    elect = ("--election-type", "preferred", *named, "--partition", "1")
    yield "kafka-leader-election", "election", elect, "Successfully completed|Valid replica already elected"
    yield "kafka-consumer-groups --list", "groups", ("--list",), ""
    yield "kafka-topics --delete", "topics", ("--delete", *named), ""


def _verbs_of_old(cluster: LocalCluster, topic: str) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Those that have `--bootstrap-server` in 2.4.1; configs of topics and moves need ZooKeeper there."""
    for verb in _verbs(cluster, topic):
        name, tool, arguments, wanted = verb
        if tool in {"configs", "reassign"}:
            continue
        # It says nothing of a topic that it creates; that the topic is there, the next one shows.
        yield name, tool, arguments, "" if name == "kafka-topics --create" else wanted
        if name == "kafka-topics --describe":
            of_broker = ("--entity-type", "brokers", "--entity-name", "1", "--describe")
            yield "kafka-configs --describe of a broker", "configs", of_broker, "Configs for"


def _table_of(tooled: Tooled, mechanisms: Sequence[str], version: str) -> dict[str, str]:
    """Run every verb with each mechanism at klamm and at a broker, and print the table; what did not work."""
    verbs = _verbs if version == NEWEST else _verbs_of_old
    columns = [(mechanism, where) for mechanism in mechanisms for where in ("klamm", "broker")]
    names = [name for name, *_ in verbs(tooled.cluster, "none")]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for mechanism, where in columns:
        topic = f"t-{version}-{mechanism}-{where}".lower()
        results = found[mechanism, where] = {}
        for name, tool, arguments, wanted in verbs(tooled.cluster, topic):
            done = _run(tooled, mechanism, where, tool, *arguments, version=version)
            results[name] = _came_to(done, wanted)
    rows = [["tool", *(f"{mechanism} at {where}" for mechanism, where in columns)]]
    rows += [[name, *(found[column][name] for column in columns)] for name in names]
    print(f"\nKafka's tools {version} on a secured cluster under klamm\n{table(rows)}")
    return {f"{column} {name}": text for column in columns for name, text in found[column].items() if text != "works"}


def test_the_tools_work_with_each_mechanism(tooled: Tooled) -> None:
    assert _table_of(tooled, tooled.mechanisms, NEWEST) == {}


def test_the_tools_of_an_old_release_work_with_certificates_and_passwords(tooled: Tooled) -> None:
    kafka_class_path(OLD)
    assert _table_of(tooled, OF_OLD, OLD) == {}


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_users_without_rights_are_refused_alike(tooled: Tooled, mechanism: str) -> None:
    if mechanism not in tooled.mechanisms:
        pytest.skip("there is no KDC")
    arguments = ("--create", "--topic", "not-allowed", "--partitions", "1", "--replication-factor", "1")
    for where in ("klamm", "broker"):
        done = _run(tooled, mechanism, where, "topics", *arguments, user=WEAK)
        assert done.returncode == 1
        assert "TopicAuthorizationException" in done.stdout + done.stderr


def test_the_tools_of_a_user_with_a_wrong_password_end_with_the_reason(tooled: Tooled) -> None:
    for where in ("klamm", "broker"):
        done = _run(tooled, "SCRAM-SHA-512", where, "topics", "--list", user="nobody")
        assert done.returncode == 1
        assert "SaslAuthenticationException" in done.stdout + done.stderr


def _came_to(done: subprocess.CompletedProcess[str], wanted: str) -> str:
    text = done.stdout + done.stderr
    if done.returncode == 0 and re.search(wanted, done.stdout):
        return "works"
    beside = ("at ", "Picked up JAVA_TOOL_OPTIONS")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(beside)]
    said = next((one for one in lines if "Exception" in one), (lines or ["nothing"])[-1])
    return f"code {done.returncode}: {said[:200]}"
