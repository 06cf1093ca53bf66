"""Write the tables into docs/security-requests.md from the table of rights.

Run it after a change of `cluster/security/operations.py`, or of what a controller answers to Kafka's clients:

    .venv/bin/python docs/make_security_requests.py
"""

from collections.abc import Iterator
from pathlib import Path

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import ControllerId
from cluster.rpc.methods import BROKER_AGENT_SERVICE, CLUSTER_SERVICE, CONTROLLER_SERVICE, REPLICA_FETCH, Method
from cluster.security.acls import ResourceType
from cluster.security.identities import NodeRole
from cluster.security.operations import CODE_OF_DENIAL, REQUIREMENTS, Requirement
from controller.adapters.kafka.acl_apis import ACL_APIS
from controller.adapters.kafka.config_apis import config_apis
from controller.adapters.kafka.session import OF_ACTIVE_CONTROLLER
from controller.adapters.kafka.versions import NEVER_PASSED_ON

PAGE = Path(__file__).resolve().parent / "security-requests.md"
BEGIN, END = "<!-- requests:begin -->", "<!-- requests:end -->"
_LOCAL = {
    ApiKey.API_VERSIONS: "nothing",
    ApiKey.LIST_GROUPS: "nothing: the answer is empty",
    ApiKey.LIST_TRANSACTIONS: "nothing: the answer is empty",
    ApiKey.DESCRIBE_LOG_DIRS: "Describe Cluster",
}


def needed(requirement: Requirement) -> str:
    """The right, in words."""
    if requirement.operation is None:
        return "nothing"
    text = f"{requirement.operation} {requirement.resource_type}"
    if requirement.types:
        text += "; of brokers and clients: Cluster"
    if requirement.on_cluster:
        text += f", or {requirement.operation} Cluster"
    if requirement.somewhere is not None:
        operation, kind = requirement.somewhere
        text += f", or {operation} on some {kind}"
    if requirement.follower_id:
        text += "; of a follower ClusterAction"
    return text


def named(requirement: Requirement) -> str:
    """Where request or response name the resources."""
    texts = [f"`{requirement.items}`"] if requirement.items else []
    texts += [f"`{requirement.shown}` of the response"] if requirement.shown else []
    return ", else ".join(texts)


def denied(requirement: Requirement) -> str:
    """What becomes of what is denied."""
    if requirement.operation is None:
        return ""
    cluster = CODE_OF_DENIAL[ResourceType.CLUSTER]
    code = CODE_OF_DENIAL[requirement.resource_type]
    texts = [f"{code.name} ({code.value}) for each"] if requirement.items else []
    if requirement.types:
        texts = [f"{code.name} ({code.value}) or {cluster.name} ({cluster.value}) for each"]
    texts += ["left out"] if requirement.shown else []
    return ", or ".join(texts) or f"{cluster.name} ({cluster.value})"


def sent_by(requirement: Requirement) -> str:
    """The nodes that need no rule for it."""
    role, field = requirement.sender, requirement.sender_id
    if requirement.follower_id:
        role, field = NodeRole.BROKER, requirement.follower_id
    if role is None:
        return ""
    return f"{role}, whose id is `{field}`" if field else str(role)


def table(methods: tuple[Method, ...]) -> Iterator[str]:
    yield "| call | needs | resources | what is denied | nodes that may send it without a rule |"
    yield "|---|---|---|---|---|"
    for method in methods:
        if method is not REPLICA_FETCH:
            needs = REQUIREMENTS[method.name]
            cells = (method.name, needed(needs), named(needs), denied(needs), sent_by(needs))
            yield f"| {' | '.join(cells)} |"


def kafka_table() -> Iterator[str]:
    answered = (*OF_ACTIVE_CONTROLLER, *ACL_APIS, *config_apis(ControllerId(0)))
    needs = {a.key: needed(REQUIREMENTS[a.asks.__name__.removesuffix("Request")]) for a in answered}
    yield "| API | needs |"
    yield "|---|---|"
    for key in sorted(ApiKey):
        if key in needs | _LOCAL:
            yield f"| {api(key).name} | {(needs | _LOCAL)[key]} |"
        elif key not in NEVER_PASSED_ON:
            yield f"| {api(key).name} | passed on to a broker; refused if a broker has an authorizer |"


def with_tables(text: str) -> str:
    """Replace the tables between the two marks in `text`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    services = (
        ("Every process", CLUSTER_SERVICE),
        ("Controllers", CONTROLLER_SERVICE),
        ("Brokers", BROKER_AGENT_SERVICE),
    )
    parts = [f"## {title}\n\n" + "\n".join(table(methods)) for title, methods in services]
    parts.append("## Kafka's clients at a controller\n\n" + "\n".join(kafka_table()))
    return f"{head}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
