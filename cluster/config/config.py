"""The configuration of one process: a TOML file, overridden by environment variables, overridden by flags.

All errors are reported at once, each with the name of its field, so that an operator need not restart once per error.
"""

import json
import socket
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from cluster.config.files import cut, first_line, read_file, shown
from cluster.config.kafka_listeners import KafkaListener, parse_kafka_listeners
from cluster.config.kafka_sasl import kafka_sasl_errors
from cluster.config.kafka_tls import kafka_tls
from cluster.config.listener_addresses import (
    FIELDS_OF_KEY,
    fields_in_kafka_keys,
    misnamed_listeners,
    named_listeners,
    without_listener,
)
from cluster.config.listener_sasl import sasl_errors
from cluster.config.listener_security import GRPC_LISTENERS, security_errors, security_name, security_protocol_of
from cluster.config.sasl_keys import SASL_OF_LISTENERS
from cluster.config.secret_keys import is_secret_key
from cluster.config.setting_types import INT32_MAX
from cluster.config.settings import Settings
from cluster.config.tls_keys import OF_LISTENERS
from cluster.config.validation_reasons import reason
from cluster.model import bounds
from cluster.model.bounds import Number, shortened
from cluster.model.broker import Endpoint, joined_address
from cluster.model.errors import ConfigError
from cluster.model.listeners import EXTERNAL_LISTENER
from cluster.model.printable import printable
from cluster.model.protocol_version import OLDEST_KAFKA
from cluster.sasl.kerberos import check_keytab
from cluster.tls.material import load_material
from cluster.zookeeper.login import Credentials, Scheme, names_brokers_only, parse_login

LOGIN_FILE_KEY: Final = "java.security.auth.login.config"
_PORT: Final = Number("port", 0, bounds.PORT.maximum, bounds.PORT.source)
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, or asked for by the operator.
_DEFAULT_ZOOKEEPER_PORT: Final = 2181

# Kafka's keys for the top-level fields of a configuration file. Either may be used; if both are, they must agree.
_KEY_OF_FIELD: Final = {
    "id": "broker.id",
    "zookeeper": "zookeeper.connect",
    "data": "log.dirs",
    "rack": "broker.rack",
    **{field: key for key, fields in FIELDS_OF_KEY.items() for field in fields},
}


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port` or `[ipv6]:port`, with or without `LISTENER://`. Raises ValueError."""
    host, separator, port = without_listener(address).rpartition(":")
    number = bounds.parse_number(_PORT, port.lstrip("0") or port[-1:])
    if not separator or number is None:
        raise ValueError("must be host:port")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], number
    if ":" in host or "/" in host or host != host.strip() or not host.isprintable():
        raise ValueError("must be host:port")
    return host, number


def _check_address(address: str) -> str:
    return joined_address(*host_and_port(address))


def check_zookeeper(connect: str) -> str:
    """The connect string as it is. Raises ValueError if it is none."""
    hosts, slash, chroot = connect.partition("/")
    for host in hosts.split(","):
        name, port = host_and_port(host if ":" in host else f"{host}:{_DEFAULT_ZOOKEEPER_PORT}")
        if not name or port == 0:
            raise ValueError("must be host:port[,host:port…][/chroot]")
    if slash and not all(chroot.split("/")):
        raise ValueError("the chroot must be a path such as /klamm")
    return connect


Address = Annotated[str, AfterValidator(_check_address)]


def _free_control_port(fields: dict[str, Any]) -> str:
    return joined_address(host_and_port(fields["listen"])[0], 0)


class NodeConfig(BaseModel):
    """Configuration of one controller or agent process. `data` has at least one directory, without duplicates."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)

    id: int = Field(default=-1, ge=-1, le=INT32_MAX)
    """-1: a stored or generated id (agents)."""
    zookeeper: Annotated[str, AfterValidator(check_zookeeper)]
    """`host:port[,host:port…][/chroot]`."""
    listen: Address
    """Where clients and followers connect. Port 0 takes a free one."""
    advertised: Address | None = None
    """What they are told; `listen` with the bound port unless given."""
    control_listen: Address = Field(default_factory=_free_control_port)
    """Where controllers and brokers send control requests; a free port on the host of `listen` unless given."""
    control_advertised: Address | None = None
    """What they are told; the host of `advertised` with the bound port of `control_listen` unless given."""
    external_listen: Address | None = None
    """Where clients connect that do not reach `advertised`, as from outside of a network of containers."""
    external_advertised: Address | None = None
    """What they are told; `external_listen` with the bound port unless given."""
    metrics_listen: Address | None = None
    """Address of the Prometheus endpoint; None: no endpoint."""
    data: tuple[str, ...]
    rack: str | None = None
    settings: Settings = Field(default_factory=Settings)

    @model_validator(mode="before")
    @classmethod
    def _take_fields_from_kafka_keys(cls, values: Any) -> Any:
        settings = values.get("settings")
        if not isinstance(settings, Mapping):
            return values
        return _in_kafka_keys(settings) | values

    @field_validator("data", mode="before")
    @classmethod
    def _split_data(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("data")
    @classmethod
    def _check_data(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(value):
            raise ValueError("must name at least one folder, and no empty one")
        resolved = [Path(folder).absolute() for folder in value]
        if len(set(resolved)) < len(resolved):
            raise ValueError("must not name a folder twice")
        return value

    @field_validator("rack")
    @classmethod
    def _no_blank_rack(cls, value: str | None) -> str | None:
        return None if value == "" else value

    @property
    def kafka_listeners(self) -> tuple[KafkaListener, ...]:
        """The listeners where a controller answers Kafka's brokers and clients. Raises ValueError; not after
        `load_config`.
        """
        settings = self.settings
        return parse_kafka_listeners(
            settings.klamm_kafka_listeners,
            settings.klamm_kafka_advertised_listeners,
            settings.listener_security_protocol_map,
            socket.getfqdn(),
        )

    def endpoints(self, port: int, control_port: int, external_port: int | None = None) -> tuple[Endpoint, ...]:
        """The endpoints to register, for clients, for control requests and for external clients, with the bound ports.

        Port 0 becomes the bound port, an empty host the canonical host name (R1.7).
        """
        names, protocol = self.settings.listener_names, self.security_protocol
        client = host_and_port(self.listen if self.advertised is None else self.advertised)
        if self.control_advertised is not None:
            control = host_and_port(self.control_advertised)
        else:
            host, wanted = host_and_port(self.control_listen)
            control = (host if self.advertised is None else client[0]), wanted
        inside = (
            _endpoint(*client, port, names.client, protocol(names.client)),
            _endpoint(*control, control_port, names.control, protocol(names.control)),
        )
        external = self.external_advertised or self.external_listen
        if external is None or external_port is None:
            return inside
        where = host_and_port(external)
        return *inside, _endpoint(*where, external_port, EXTERNAL_LISTENER, protocol(EXTERNAL_LISTENER))

    def security_protocol(self, listener: str) -> str:
        """PLAINTEXT, SSL or SASL_SSL: how a gRPC listener of this process is reached."""
        return security_protocol_of(self.settings, security_name(self.settings, listener))


def _endpoint(host: str, port: int, bound_port: int, listener: str, protocol: str) -> Endpoint:
    return Endpoint(socket.getfqdn() if host in _WILDCARDS else host, port or bound_port, listener, protocol)


def _in_kafka_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that Kafka's keys give."""
    found = {
        field: settings[key] for field, key in _KEY_OF_FIELD.items() if key in settings and key not in FIELDS_OF_KEY
    }
    return found | fields_in_kafka_keys(settings)


class _Variables(BaseSettings):
    """Values of `KLAMM_*` variables; they stay text until all layers are merged."""

    model_config = SettingsConfigDict(env_prefix="KLAMM_")


_FIELDS: Final[dict[str, Any]] = dict.fromkeys(NodeConfig.model_fields, (Any, None))
_Environment = create_model("_Environment", __base__=_Variables, **_FIELDS)


def load_config(
    path: str | Path | None, overrides: Mapping[str, Any] | None = None, *, defaults: Mapping[str, Any] | None = None
) -> NodeConfig:
    """Merge `defaults`, the file, `KLAMM_*` variables and `overrides`; later ones win, None values are ignored.

    `settings` are merged by key. Raises ConfigError with all errors.
    """
    in_file = {} if path is None else _read_file(Path(path))
    environment = _Environment().model_dump(exclude_unset=True)
    flags = {name: value for name, value in (overrides or {}).items() if value is not None}
    settings: dict[str, Any] = {}
    for layer in (in_file, environment, flags):
        settings |= _parse_settings(layer.pop("settings", {}))
    in_settings = _in_kafka_keys(settings)
    below = {field: value for field, value in (defaults or {}).items() if field not in in_settings}
    try:
        # Settings only in Kafka's spelling: attribute names are for code.
        config = NodeConfig.model_validate(
            {**below, **in_file, **environment, **flags, "settings": settings}, by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise ConfigError(_errors(error)) from error
    further = (
        _disagreements(config)
        + _shared_addresses(config)
        + misnamed_listeners(config.settings, has_external=config.external_listen is not None)
        + _insecure(config)
        + _unusable_credentials(config)
        + _unusable_for_kafka(config)
    )
    if config.external_advertised is not None and config.external_listen is None:
        further.append(f"external_advertised: {shown(config.external_advertised)}: needs external_listen")
    if further:
        raise ConfigError(further)
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{path}: is not TOML: brackets are nested too deeply"]) from error
    except ValueError as error:
        # Not only errors of the format: Python refuses numbers of thousands of digits.
        raise ConfigError([f"{path}: is not TOML: {first_line(error)}"]) from error


def _parse_settings(given: object) -> dict[str, Any]:
    try:
        settings = json.loads(given) if isinstance(given, str) else given
    except RecursionError as error:
        raise ConfigError([f"settings: {shortened(given)}: is not JSON: brackets are nested too deeply"]) from error
    except ValueError as error:
        raise ConfigError([f"settings: {shortened(given)}: is not JSON: {first_line(error)}"]) from error
    if not isinstance(settings, Mapping):
        raise ConfigError([f"settings: {shortened(given)}: must be a table or a JSON object"])
    return dict(settings)


def _errors(error: ValidationError) -> list[str]:
    # A default computed from an invalid field is not a second error.
    details = [d for d in error.errors() if d["type"] != "default_factory_not_called"]
    return [_describe(detail) for detail in details]


def _describe(detail: ErrorDetails) -> str:
    location = _without_gathering([str(part) for part in detail["loc"]])
    in_settings = location[0] == "settings" and len(location) > 1
    name = printable(f'settings."{cut(location[1])}"' if in_settings else cut(".".join(location)))
    match detail["type"]:
        case "missing":
            return f"{name}: is missing"
        case "extra_forbidden":
            fields = [f.alias or n for n, f in (Settings if in_settings else NodeConfig).model_fields.items()]
            near = get_close_matches(location[1] if in_settings else location[0], fields, n=1)
            return f"{name}: is not a known key" + (f"; did you mean {near[0]}?" if near else "")
    # Errors in defaults name the attribute instead of the key.
    value = "(not shown)" if in_settings and is_secret_key(location[1]) else shown(detail["input"])
    return f"{name.replace('_', '.') if in_settings else name}: {value}: {reason(detail)}"


def _without_gathering(location: list[str]) -> list[str]:
    """The place of an error as the keys have it: those of single listeners were gathered by listener."""
    if location[0] != "settings" or location[1:2] not in ([OF_LISTENERS], [SASL_OF_LISTENERS]) or len(location) < 4:
        return location
    return ["settings", f"listener.name.{location[2].lower()}.{location[3]}"]


def read_credentials(settings: Settings) -> Credentials | None:
    """The credentials; None if no file is configured (anonymous session), or if it is one of Kafka's brokers that has
    a section for them and none for ZooKeeper. Raises ConfigError with key and file.
    """
    path = settings.java_security_auth_login_config
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
        if settings.klamm_broker_protocol == "kafka" and names_brokers_only(text, settings.zookeeper_sasl_clientconfig):
            return None
        return parse_login(text, settings.zookeeper_sasl_clientconfig, Scheme(settings.klamm_zookeeper_auth_scheme))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "is not text in UTF-8"
    except ValueError as error:
        why = str(error)
    raise ConfigError([f'settings."{LOGIN_FILE_KEY}": {shown(path)}: {why}'])


def _insecure(config: NodeConfig) -> list[str]:
    """Errors of TLS at the ports of this process, and to ZooKeeper."""
    settings, errors = config.settings, []
    names = named_listeners(
        settings, has_external=config.external_listen is not None, has_metrics=config.metrics_listen is not None
    )
    secured = [security_name(settings, name) for name in names]
    errors += [*security_errors(settings, secured), *sasl_errors(settings, secured)]
    if (tls := settings.zookeeper_tls) is not None:
        try:
            load_material(tls)
        except ConfigError as error:
            errors += [f"settings: {line}" for line in error.errors]
    return errors


def _unusable_credentials(config: NodeConfig) -> list[str]:
    """Errors of the credentials file, reported with the other errors before the process starts."""
    try:
        found = read_credentials(config.settings)
        if found is not None and found.kerberos is not None:
            check_keytab(found.kerberos)
    except ConfigError as error:
        return error.errors
    return []


def _unusable_for_kafka(config: NodeConfig) -> list[str]:
    """Errors of the settings with which a controller governs brokers of Apache Kafka."""
    settings = config.settings
    try:
        listeners = config.kafka_listeners
    except ValueError as error:
        return [f"settings: {error}"]
    if settings.klamm_broker_protocol == "klamm":
        needless = [
            'settings."klamm.kafka.listeners": needs klamm.broker.protocol = "kafka"; no other brokers use them'
        ]
        return needless if listeners else []
    errors = _unusable_for_brokers_only(settings)
    errors += [
        f'settings."klamm.kafka.listeners": {one.name}: is the name of a gRPC listener; give another'
        for one in listeners
        if one.name in GRPC_LISTENERS
    ]
    if not listeners:
        given = settings.klamm_kafka_listeners
        what = "is missing" if given is None else shown(given)
        needed = 'klamm.broker.protocol = "kafka" needs where brokers ask controllers, as PLAINTEXT://host:19092'
        errors.append(f'settings."klamm.kafka.listeners": {what}: {needed}')
    version = settings.inter_broker_protocol_version
    if version < OLDEST_KAFKA:
        why = f"brokers of Apache Kafka must be of {OLDEST_KAFKA} or later"
        errors.append(f'settings."inter.broker.protocol.version": {version}: {why}')
    try:
        kafka_tls(settings, listeners)
    except ConfigError as error:
        errors += [f"settings: {line}" for line in error.errors]
    return errors + kafka_sasl_errors(settings, listeners)


def _unusable_for_brokers_only(settings: Settings) -> list[str]:
    if not settings.klamm_kafka_controller_only:
        return []
    errors = []
    if not settings.super_users:
        needed = "klamm.kafka.controller.only needs the principals of the brokers, as User:broker;User:admin"
        errors.append(f'settings."super.users": is missing: {needed}')
    if settings.authorizer_class_name:
        why = "klamm.kafka.controller.only lets only super.users do anything: remove one of the two"
        errors.append(f'settings."authorizer.class.name": {shown(settings.authorizer_class_name)}: {why}')
    return errors


def _disagreements(config: NodeConfig) -> list[str]:
    given = config.settings.model_dump(by_alias=True, exclude_unset=True)
    return [
        f'settings."{_KEY_OF_FIELD[field]}": {shown(value)}: contradicts {field} ({shown(getattr(config, field))})'
        for field, value in _in_kafka_keys(given).items()
        if getattr(config, field) != value
    ]


def _shared_addresses(config: NodeConfig) -> list[str]:
    """Listeners that cannot both be opened. Port 0 is another one for each."""
    found: dict[str, str] = {}
    errors = []
    for field in ("listen", "control_listen", "external_listen", "metrics_listen"):
        address = getattr(config, field)
        if address is None or host_and_port(address)[1] == 0:
            continue
        first = found.setdefault(address, field)
        if first != field:
            errors.append(f"{field}: {shown(address)}: {first} has this address too; each listener needs its own")
    return errors
