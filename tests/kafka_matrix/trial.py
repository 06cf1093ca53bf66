"""What a cluster of the matrix goes through: looked at, adopted under load, governed while a controller and a broker
die, and left; or refused, and unchanged.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cluster.kafka_wire.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from cluster.kafka_wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from cluster.model.errors import ErrorCode
from tests.kafka.adopted import filled_in
from tests.kafka_matrix import axes, settings
from tests.kafka_matrix.records import PARTITIONS, TOPIC, Records
from tests.kafka_matrix.stand import BROKERS, SESSION_MS, Stand
from tests.processes.commands import LAUNCHER, run_klamm
from tests.processes.local_clusters import eventually

_ALLOW, _LITERAL, _TOPIC_TYPE, _CLUSTER_TYPE = 3, 3, 2, 4
_READ, _WRITE, _DESCRIBE, _IDEMPOTENT_WRITE = 3, 4, 8, 12
_DENIED: Final = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
_OF_KLAMM: Final = ("/klamm", "/controllers")


class Trial:
    """One run. `steps`: name -> how long it took, in s. `said`: what the table tells of it."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.cluster = stand, stand.cluster
        self.records = Records(stand)
        self.steps: dict[str, float] = {}
        self.said = ""
        self._grpc: dict[int, str] = {}
        self._guards_grpc = False
        self._files = self._filled_in()

    def run(self) -> None:
        """Raises AssertionError with what is wrong."""
        try:
            with self._step("topics"):
                self._prepare()
            with self._step("looked at"):
                commands = self._looked_at()
            with self._step("controllers started"):
                ids = [self._start(command) for command in commands]
                self.stand.candidates_wait(ids)
            with self._step("adopted"):
                self._adopt()
            with self._step("topics under klamm"):
                self._governed()
            with self._step("a controller killed"):
                self._kill_controller(ids)
            with self._step("a broker killed"):
                self._kill_broker()
            with self._step("left"):
                self._left(ids)
        finally:
            self.records.stop()
        with self._step("read"):
            assert not self.records.failures, self.records.failures[:3]
            assert self.records.acknowledged
            assert not (wrong := self.records.lost()), wrong
        self.said = f"{len(self.records.acknowledged)} records"

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            error.add_note(f"in the step {name!r}")
            raise
        finally:
            self.steps[name] = round(time.monotonic() - began, 1)

    def _prepare(self) -> None:
        self._create_by_wire(TOPIC, PARTITIONS)
        if self.cluster.authorizer != axes.NO_AUTHORIZER and self._app_is_known:
            self._allow_app()
        eventually(lambda: self.stand.is_whole(TOPIC, PARTITIONS), "the topic is whole")
        self.records.start()
        eventually(lambda: self.records.acknowledged or self.records.failures, "records are written")

    @property
    def _app_is_known(self) -> bool:
        """Whether it is anybody else than the brokers and the admin."""
        return settings.principal(self.cluster, settings.APP) != "ANONYMOUS"

    @property
    def _is_limited(self) -> bool:
        """Whether what the app may not do is refused."""
        limiting = {axes.SUPER_USERS, axes.SIMPLE, axes.FOREIGN}
        return self._app_is_known and self.cluster.authorizer in limiting

    def _create_by_wire(self, topic: str, partitions: int, user: str = "") -> ErrorCode:
        """As an administrator's client does it, at the active controller."""
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=len(BROKERS))
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000)
        found: list[ErrorCode] = []

        def is_answered() -> bool:
            """Not before the controller knows of both brokers."""
            answer = self.stand.call(self.stand.controller_address(), request, 4, CreateTopicsResponse, user)
            found[:] = [ErrorCode(answer.topics[0].error_code)]
            return found[0] not in {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NOT_CONTROLLER}

        eventually(is_answered, "the controller knows the brokers")
        if not user:
            assert found[0] is ErrorCode.NONE, found
        return found[0]

    def _allow_app(self) -> None:
        principal = f"User:{settings.principal(self.cluster, settings.APP)}"

        def rule(kind: int, name: str, operation: int) -> AclCreation:
            return AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=_LITERAL,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=_ALLOW,
            )

        rules = [rule(_TOPIC_TYPE, TOPIC, operation) for operation in (_READ, _WRITE, _DESCRIBE)]
        rules.append(rule(_CLUSTER_TYPE, "kafka-cluster", _IDEMPOTENT_WRITE))
        address = self.stand.controller_address()
        answer = self.stand.call(address, CreateAclsRequest(creations=tuple(rules)), 1, CreateAclsResponse)
        assert {result.error_code for result in answer.results} == {0}, answer

    def _looked_at(self) -> list[str]:
        before = self.stand.tree()
        found = self.adopt()
        assert found["code"] == 0, found["refusals"]
        if self._has_identity:
            self._looked_at_by_nobody()
        if self._is_limited:
            self._looked_at_by_the_app()
        self._is_unchanged(before)
        return list(found["commands"])

    @property
    def _has_identity(self) -> bool:
        """Whether anything is refused without the identity of the brokers."""
        return len(self.stand.adopts_with.read_text().splitlines()) > 1

    def _looked_at_by_the_app(self) -> None:
        """Who may not do what controllers do cannot adopt, and is told which right is missing."""
        given = settings.command_config(self.cluster, self.stand.stores, self.stand.jaas)
        in_zookeeper = {key: value for key, value in given.items() if key.startswith(("zookeeper.", "java."))}
        own = settings.tool_config(self.cluster, self.stand.stores, settings.APP)
        found = self.adopt(
            config=settings.write_properties(self.stand.folder / "app-adopts.properties", in_zookeeper | own)
        )
        assert found["code"] == 3, found
        assert any("ClusterAction" in why or "DescribeConfigs" in why for why in found["refusals"]), found["refusals"]

    def _looked_at_by_nobody(self) -> None:
        """Without the brokers' identity adoption is refused, with what is missing and where."""
        path = self.stand.folder / "nobody.properties"
        given = settings.command_config(self.cluster, self.stand.stores, self.stand.jaas)
        kept = {key: value for key, value in given.items() if key.startswith("zookeeper.ssl.")}
        if kept:
            kept["zookeeper.ssl.keystore.location"] = str(self.stand.stores.path(settings.APP, "PEM"))
        settings.write_properties(path, kept)
        found = self.adopt(config=path)
        missing = self._needs_identity or self.cluster.owners
        assert (found["code"] == 3) == missing, found
        assert bool(found["refusals"]) == missing, found

    @property
    def _needs_identity(self) -> bool:
        own = [one for one in settings.listeners(self.cluster) if one.role in {"brokers", "control"}]
        return any(one.has_sasl or one.has_tls for one in own)

    def _is_unchanged(self, before: dict[str, Any]) -> None:
        after = self.stand.tree()
        differs = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert not differs, f"a dry run changed {sorted(differs)[:5]}"

    def adopt(self, *options: str, config: Path | None = None) -> dict[str, Any]:
        given = ("--command-config", str(config or self.stand.adopts_with))
        answer = run_klamm("adopt", "--zookeeper", self.stand.zookeeper, "-o", "json", *given, *options)
        assert answer.stdout, answer.stderr
        return {**json.loads(answer.stdout), "code": answer.returncode, "stderr": answer.stderr}

    def _filled_in(self) -> dict[str, str]:
        """What an operator knows and brokers do not tell."""
        stores = self.stand.stores
        in_zookeeper = f"zookeeper.ssl.keystore.location={stores.path('zookeeper-client', 'PEM')}"
        return {
            "zookeeper.ssl.keystore.location=KEY-AND-CERTIFICATE.pem": in_zookeeper,
            "KEY-AND-CERTIFICATE.pem": str(stores.path("broker-3", "PEM")),
            "AUTHORITIES.pem": str(stores.path("authority", "PEM")),
            "JAAS.conf": str(self.stand.jaas),
            "file:///KEYS": stores.keys.as_uri(),
            "file:///TOKEN": stores.token(settings.BROKER).as_uri(),
            "AUDIENCE": settings.AUDIENCE,
            "ISSUER": settings.ISSUER,
            "SUPER-USERS": settings.super_users(self.cluster),
            "AS-AT-BROKERS": "true" if self.cluster.authorizer == axes.ALLOW_UNLISTED else "false",
        }

    def _start(self, command: str) -> int:
        """As printed, with short sessions."""
        self._guards_grpc = "GRPC:SSL" in command
        arguments = filled_in(command, self._files, self.stand.folder, settings.host(self.cluster))
        arguments += ["--override", f"zookeeper.session.timeout.ms={SESSION_MS}"]
        id_ = int(arguments[arguments.index("--id") + 1])
        self._grpc[id_] = arguments[arguments.index("--listen") + 1]
        self.stand.start(f"controller-{id_}", [*LAUNCHER, *arguments])
        return id_

    def _adopt(self) -> None:
        found = self.adopt("--execute")
        assert found["code"] == 0, (found["refusals"], found["stderr"][-2000:])
        assert set(found["took_over"]["obeyed_by"].values()) == {found["took_over"]["controller"]}

    def _governed(self) -> None:
        """Topics by klamm's command and by Kafka's tool; nobody may do more than before."""
        self._create_by_command("by-klamm")
        if self.cluster.authorizer == axes.FOREIGN:
            self._refuses_clients()
        else:
            self._create_by_tool("by-tool")
            if self._is_limited:
                assert self._create_by_wire("by-app", 1, settings.APP) in _DENIED
                assert not self.stand.states("by-app")
        if self.cluster.owners:
            self._owned()

    def _create_by_tool(self, topic: str) -> None:
        made = self.stand.tool("topics", "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "2")
        assert made.returncode == 0, made.stdout + made.stderr
        eventually(lambda: self.stand.is_whole(topic, 2), "the topic of Kafka's tool is whole")

    def _refuses_clients(self) -> None:
        """These controllers have no listener for clients, or refuse them there."""
        answer = self.stand.metadata(self.stand.brokers[1])
        named = {broker.node_id for broker in answer.brokers}
        assert (answer.controller_id in named) == (len(settings.listeners(self.cluster)) == 1), answer
        if answer.controller_id in named and self._app_is_known:
            assert self._create_by_wire("by-app", 1, settings.APP) in _DENIED

    def _create_by_command(self, topic: str) -> None:
        active = self.stand.active()
        assert active in self._grpc, active
        options = ["--partitions", "2", "--replication-factor", "2", "--bootstrap", self._grpc[active]]
        if self._guards_grpc:
            path = self.stand.folder / "grpc.properties"
            given = {"security.protocol": "SSL", **self.stand.stores.settings(settings.ADMIN, "PEM")}
            options += ["--command-config", str(settings.write_properties(path, given))]
        made = run_klamm("topics", "create", topic, *options)
        assert made.returncode == 0, made.stdout + made.stderr
        eventually(lambda: self.stand.is_whole(topic, 2), "the topic of klamm's command is whole")

    def _owned(self) -> None:
        """What klamm writes has the owners that Kafka gives it."""
        tree = self.stand.tree()
        patterns = ("/brokers/topics/{}", "/config/topics/{}", "/brokers/topics/{}/partitions/0/state")
        for pattern in patterns:
            by_kafka, by_klamm = (tree[pattern.format(topic)][2] for topic in (TOPIC, "by-klamm"))
            assert by_kafka == by_klamm, (pattern, by_kafka, by_klamm)
        open_ = {path for path, (_, _, owners) in tree.items() if "world:anyone:31" in owners}
        # Kafka itself leaves the second one to consumers of long ago. Source: ZkData.defaultAcls.
        assert open_ <= {"/", "/consumers"}, sorted(open_)[:5]

    def _kill_controller(self, ids: list[int]) -> None:
        first = self.stand.active()
        self.stand.kill(f"controller-{first}")
        others = set(ids) - {first}
        eventually(lambda: self.stand.active() in others, "another controller of klamm is active")
        eventually(lambda: self.stand.obeyed() <= others, "all brokers obey it")

    def _kill_broker(self) -> None:
        gone = BROKERS[-1]
        self.stand.kill(f"kafka-{gone}")
        eventually(lambda: self._is_without(gone), f"broker {gone} leads nothing and is in no ISR")
        self.stand.launch(gone)
        self.stand.await_broker(gone, 2)
        eventually(lambda: self.stand.is_whole(TOPIC, PARTITIONS), f"broker {gone} is in sync again")
        self._create_by_command("after-the-broker")

    def _is_without(self, broker: int) -> bool:
        states = self.stand.states(TOPIC)
        return all(state["leader"] > 0 and broker not in (state["leader"], *state["isr"]) for state in states)

    def _left(self, ids: list[int]) -> None:
        self._leave()
        eventually(lambda: self.stand.active() in BROKERS, "a broker is the controller")
        eventually(lambda: self.stand.obeyed() == {self.stand.active()}, "all brokers obey it")
        for id_ in ids:
            if self.stand.is_running(f"controller-{id_}"):
                self.stand.stop(f"controller-{id_}")
        assert "nothing of klamm is left" in self._leave()
        assert self.stand.active() in BROKERS
        self._create_by_wire("after-klamm", 2)
        eventually(lambda: self.stand.is_whole("after-klamm", 2), "Kafka's own controller makes topics")
        if self._is_limited:
            assert self._create_by_wire("by-app", 1, settings.APP) in _DENIED
        assert not [path for path in self.stand.tree() if path.startswith(_OF_KLAMM)]

    def _leave(self) -> str:
        answer = run_klamm(
            "leave", "--zookeeper", self.stand.zookeeper, "--command-config", str(self.stand.adopts_with)
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stderr


def one_line(text: str) -> str:
    """As a cell of a table has it."""
    return re.sub(r"\s+", " ", text).replace("|", "/").strip()
