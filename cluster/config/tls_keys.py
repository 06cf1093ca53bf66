"""Settings of TLS: of this process's ports and of its connections to other nodes, to Kafka's brokers, to ZooKeeper.

The names are Kafka's, and so are the meanings, but for what gRPC cannot do: that is refused by name.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from cluster.config.listener_prefixes import gather_of_listeners
from cluster.config.setting_keys import Keys
from cluster.model.errors import ConfigError
from cluster.security.mapping import PrincipalMapping, parse_mapping_rules
from cluster.tls.secret import Secret
from cluster.tls.settings import HOW_TO_CONVERT, PROTOCOLS, TlsSettings

ClientAuth = Literal["none", "requested", "required"]
OF_LISTENERS: Final = "listener.name.LISTENER.ssl.*"
"""What documents call all `ssl.*` settings with the prefix of a listener."""
OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.([a-z0-9][a-z0-9_.-]*?)\.(ssl\..+)")
_STORES: Final = ("ssl_key", "ssl_truststore")
"""What the attributes of each store begin with."""
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_BOTH: Final = ",".join(PROTOCOLS)


def _store_type(value: object) -> object:
    if isinstance(value, str) and value.upper() == "JKS":
        raise ValueError(HOW_TO_CONVERT)
    return value.upper() if isinstance(value, str) else value


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _refuse_ciphers(value: object) -> object:
    if value:
        raise ValueError("must not be set: the ciphers are those of the libraries, and gRPC has one list for a process")
    return None


StoreType = Annotated[Literal["PEM", "PKCS12"], BeforeValidator(_store_type)]
Identification = Annotated[Literal["https", ""], BeforeValidator(_lower_case)]
NoCiphers = Annotated[None, BeforeValidator(_refuse_ciphers)]


class SslKeys(Keys):
    """Of a store, either the location of its file or its content is given."""

    ssl_keystore_type: StoreType = "PEM"
    """`PEM` or `PKCS12`; Kafka's own default is `JKS`, which is not read."""
    ssl_keystore_location: str | None = None
    """File with the private key of this process and its certificates, for its SSL listeners, and for those that
    authenticate their clients. Others must not be able to read it.
    """
    ssl_keystore_password: SecretStr | None = None
    """Password of a PKCS12 key store."""
    ssl_keystore_key: SecretStr | None = None
    """The private key itself in PEM form, instead of a file."""
    ssl_keystore_certificate_chain: str | None = None
    """Its certificates themselves, instead of a file."""
    ssl_key_password: SecretStr | None = None
    """Password of the private key in PEM form; not set: it has none."""
    ssl_truststore_type: StoreType = "PEM"
    """`PEM` or `PKCS12`; Kafka's own default is `JKS`, which is not read."""
    ssl_truststore_location: str | None = None
    """File with the certificates of the authorities that certify the other nodes, brokers, and clients with
    certificates; of several while one replaces another; not set: those that this machine trusts.
    """
    ssl_truststore_password: SecretStr | None = None
    """Password of a PKCS12 trust store."""
    ssl_truststore_certificates: str | None = None
    """These certificates themselves, instead of a file."""
    ssl_client_auth: ClientAuth = "none"
    """Whether clients of SSL listeners need a certificate; at the listener for control requests they always do. gRPC
    has no `requested`, which is for Kafka's listeners.
    """
    ssl_principal_mapping_rules: str = "DEFAULT"
    """How the distinguished name of a certificate becomes the name of a user: rules
    `RULE:pattern/replacement/[LU]` with commas, of which the first whose pattern matches the whole name counts, and
    `DEFAULT`, which takes the name as it is. Whose name no rule matches is refused. Patterns are Python's.
    """
    ssl_endpoint_identification_algorithm: Identification = "https"
    """`https`: the certificate of a server must have the name by which it is reached; empty: any name of a broker of
    Apache Kafka will do.
    """
    ssl_enabled_protocols: str = _BOTH
    """Versions of TLS; both, as gRPC does not let one choose."""
    ssl_cipher_suites: NoCiphers = None
    """Must not be set: the libraries choose."""

    @field_validator("ssl_principal_mapping_rules")
    @classmethod
    def _rules_are_valid(cls, value: str) -> str:
        try:
            parse_mapping_rules(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("ssl_enabled_protocols")
    @classmethod
    def _both_versions(cls, value: str) -> str:
        if {part.strip() for part in value.split(",")} != set(PROTOCOLS):
            raise ValueError(f"must be {_BOTH}: gRPC always takes both")
        return _BOTH


class TlsKeys(SslKeys):
    """TLS of the process, and what differs at single listeners."""

    listener_name_ssl: Annotated[dict[str, SslKeys], Field(alias=OF_LISTENERS)] = {}
    """The same for one listener, whose name stands for LISTENER in lower case, as in
    `listener.name.external.ssl.client.auth`; before the setting without a prefix. The port for metrics is called
    `metrics`.
    """
    klamm_tls_connection_max_age_ms: Annotated[int, Field(ge=1000, le=2**31 - 1)] = 3_600_000
    """After this time, more or less a tenth, a connection under TLS is replaced, so that an expired certificate and an
    authority that is no longer trusted count for those that are open, too. Calls in flight are not disturbed.
    """
    klamm_security_transition: bool = False
    """While an open cluster becomes a secured one: nodes call each other with TLS where the other one has registered
    it, and without elsewhere. Afterwards a node whose listener has SSL uses nothing else.
    """

    @model_validator(mode="before")
    @classmethod
    def _gather_those_of_listeners(cls, values: Any) -> Any:
        """Gather the keys of single listeners into one value: listener name -> key -> value."""
        return gather_of_listeners(values, OF_ONE_LISTENER, OF_LISTENERS)

    def client_auth_of(self, listener: str) -> ClientAuth:
        """Whether clients of the SSL listener of this name need a certificate."""
        own = self.listener_name_ssl.get(listener)
        return (
            self.ssl_client_auth
            if own is None or "ssl_client_auth" not in own.model_fields_set
            else own.ssl_client_auth
        )

    def sets_client_auth_of(self, listener: str) -> bool:
        """Whether a setting says so, for this listener or for all."""
        return "ssl_client_auth" in self.model_fields_set or self.sets_own_client_auth(listener)

    def sets_own_client_auth(self, listener: str) -> bool:
        """Whether a setting of this listener alone says so."""
        own = self.listener_name_ssl.get(listener)
        return own is not None and "ssl_client_auth" in own.model_fields_set

    def mapping_of(self, listener: str) -> PrincipalMapping:
        """Say how certificates become principals at this listener."""
        return parse_mapping_rules(self.mapping_rules_of(listener))

    def mapping_rules_of(self, listener: str) -> str:
        """The rules for that, as they are written."""
        own = self.listener_name_ssl.get(listener)
        is_own = own is not None and "ssl_principal_mapping_rules" in own.model_fields_set
        keys: SslKeys = own if own is not None and is_own else self
        return keys.ssl_principal_mapping_rules

    def tls_of(self, listener: str | None = None) -> TlsSettings:
        """The settings of a listener, or of the process. Those of a listener win as a whole store, so that its file
        does not mix with the password of another.
        """
        own = None if listener is None else self.listener_name_ssl.get(listener)
        values = {name: getattr(self, name) for name in SslKeys.model_fields}
        if own is not None:
            for store in _STORES:
                if any(name.startswith(store) for name in own.model_fields_set):
                    values |= {name: SslKeys.model_fields[name].default for name in values if name.startswith(store)}
            values |= {name: getattr(own, name) for name in own.model_fields_set}
        names_a_store = own is not None and any(name.startswith(_STORES) for name in own.model_fields_set)
        prefix = f"listener.name.{listener.lower()}.ssl." if listener is not None and names_a_store else "ssl."
        return _tls(values, "ssl_", prefix)


class ZooKeeperTlsKeys(Keys):
    """TLS between this process and ZooKeeper."""

    zookeeper_ssl_client_enable: bool = False
    """Whether ZooKeeper is spoken to with TLS; `zookeeper` then names its secureClientPort."""
    zookeeper_client_cnxn_socket: Annotated[str | None, Field(alias="zookeeper.clientCnxnSocket")] = None
    """Accepted because it occurs in Kafka's configuration files, where TLS needs Netty's."""
    zookeeper_ssl_keystore_type: StoreType | None = None
    """`PEM` or `PKCS12`; not set: by the end of the file's name."""
    zookeeper_ssl_keystore_location: str | None = None
    """File with the private key and certificate that ZooKeeper is shown."""
    zookeeper_ssl_keystore_password: SecretStr | None = None
    """Its password, of the PKCS12 store or of the private key in PEM form."""
    zookeeper_ssl_truststore_type: StoreType | None = None
    """`PEM` or `PKCS12`; not set: by the end of the file's name."""
    zookeeper_ssl_truststore_location: str | None = None
    """File with the certificates of the authorities that certify ZooKeeper's servers; not set: those that this machine
    trusts.
    """
    zookeeper_ssl_truststore_password: SecretStr | None = None
    """Password of a PKCS12 trust store."""
    zookeeper_ssl_endpoint_identification_algorithm: Identification = "https"
    """`https`: the certificate of a server must have the name by which `zookeeper` names it; empty: any name will
    do.
    """
    zookeeper_ssl_enabled_protocols: str | None = None
    """Versions of TLS, `TLSv1.2`, `TLSv1.3` or both; not set: both."""
    zookeeper_ssl_cipher_suites: NoCiphers = None
    """Must not be set: the libraries choose."""
    zookeeper_ssl_crl_enable: Literal[False] = False
    """Must be false: revocation lists are not read."""
    zookeeper_ssl_ocsp_enable: Literal[False] = False
    """Must be false: revocation is not asked for."""

    @field_validator("zookeeper_client_cnxn_socket")
    @classmethod
    def _netty_with_tls(cls, value: str | None, info: Any) -> str | None:
        if info.data.get("zookeeper_ssl_client_enable") and value not in (None, _NETTY):
            raise ValueError(f"must be {_NETTY} with zookeeper.ssl.client.enable")
        return value

    @property
    def zookeeper_tls(self) -> TlsSettings | None:
        """TLS to ZooKeeper; None: without."""
        if not self.zookeeper_ssl_client_enable:
            return None
        prefix = "zookeeper_ssl_"
        values = {name: getattr(self, name) for name in ZooKeeperTlsKeys.model_fields if name.startswith(prefix)}
        for store in ("keystore", "truststore"):
            if values[f"{prefix}{store}_type"] is None:
                values[f"{prefix}{store}_type"] = _type_of(values[f"{prefix}{store}_location"])
        # ZooKeeper has no other password for the key.
        values["zookeeper_ssl_key_password"] = values["zookeeper_ssl_keystore_password"]
        return _tls(values, prefix, "zookeeper.ssl.")


def _type_of(location: str | None) -> str:
    suffix = "" if location is None else Path(location).suffix.lower()
    return {".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}.get(suffix, "PEM")


def _tls(values: dict[str, Any], attributes: str, prefix: str) -> TlsSettings:
    """Make the value that libraries' adapters take. `attributes`: what the attributes begin with."""
    found: dict[str, Any] = {"prefix": prefix}
    for name in TlsSettings.__struct_fields__:
        value = values.get(f"{attributes}{name}")
        if value is None:
            continue
        if name == "enabled_protocols":
            found[name] = tuple(part.strip() for part in value.split(","))
        else:
            found[name] = Secret(value.get_secret_value()) if isinstance(value, SecretStr) else value
    return TlsSettings(**found)
