"""Settings of SASL at listeners: how users with passwords and tokens prove who they are. The names are Kafka's."""

import re
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr, field_validator, model_validator

from cluster.config.listener_prefixes import gather_of_listeners
from cluster.config.setting_keys import Keys
from cluster.config.setting_types import INT32_MAX, NotNegative, Number
from cluster.model.errors import ConfigError
from cluster.sasl.mechanisms import parse_mechanisms
from cluster.security.kerberos_names import DEFAULT, KerberosRules, parse_kerberos_rules

SASL_OF_LISTENERS: Final = "listener.name.LISTENER.sasl.*"
"""What documents call the settings of SASL with the prefix of a listener."""
SASL_OF_ONE_LISTENER: Final = re.compile(
    r"listener\.name\.([a-z0-9][a-z0-9_.-]*?)\."
    r"(sasl\.enabled\.mechanisms|connections\.max\.reauth\.ms|sasl\.kerberos\.service\.name"
    r"|sasl\.kerberos\.principal\.to\.local\.rules"
    r"|(?:plain|scram-sha-256|scram-sha-512|oauthbearer|gssapi)\.sasl\.jaas\.config)"
)
_FILE_URL: Final = "file:"


class SaslListenerKeys(Keys):
    """What may differ at single listeners."""

    plain_sasl_jaas_config: SecretStr | None = None
    """Of controllers of Apache Kafka's brokers, as the brokers have it: `username` and `password` are this controller's
    own for PLAIN, `user_NAME="…"` those of the users at its Kafka listeners. With the prefix of a listener it holds for
    that one.
    """
    scram_sha_256_sasl_jaas_config: Annotated[SecretStr | None, Field(alias="scram-sha-256.sasl.jaas.config")] = None
    """The same for SCRAM-SHA-256, without other users, who are in ZooKeeper."""
    scram_sha_512_sasl_jaas_config: Annotated[SecretStr | None, Field(alias="scram-sha-512.sasl.jaas.config")] = None
    """The same for SCRAM-SHA-512."""
    oauthbearer_sasl_jaas_config: SecretStr | None = None
    """Accepted because it occurs in Kafka's files; `sasl.oauthbearer.token.endpoint.url` has the token."""
    gssapi_sasl_jaas_config: SecretStr | None = None
    """The login module of GSSAPI, `com.sun.security.auth.module.Krb5LoginModule`, with `useKeyTab=true`, `keyTab` and
    `principal`: the principal of this controller, to brokers and to whoever asks it. It needs the extra `kerberos`.
    """
    sasl_kerberos_service_name: str | None = None
    """The first component of the principals of the brokers, as `kafka`, unless the login module has `serviceName`."""
    sasl_kerberos_principal_to_local_rules: str = DEFAULT
    """Makes users from the principals of clients: `DEFAULT` takes the first component of those of the own realm,
    `RULE:[n:format](pattern)s/pattern/replacement/` rewrites them. Of several, with commas, the first that is for a
    principal counts.
    """
    sasl_enabled_mechanisms: str | None = None
    """How users prove who they are at SASL_SSL listeners, and at Kafka listeners with SASL_PLAINTEXT: `SCRAM-SHA-256`,
    `SCRAM-SHA-512`, `PLAIN`, `OAUTHBEARER`, with commas, and at Kafka listeners `GSSAPI`, which is Kafka's own default.
    """
    connections_max_reauth_ms: Annotated[Number, Field(ge=1000, le=INT32_MAX)] = 3_600_000
    """For how long a user is authenticated, a token of OAUTHBEARER no longer than it is valid itself. Clients renew it
    by themselves after four fifths of this time. In Kafka 0, without an end.
    """

    @field_validator("sasl_kerberos_principal_to_local_rules")
    @classmethod
    def _are_rules(cls, value: str) -> str:
        try:
            parse_kerberos_rules(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("sasl_enabled_mechanisms")
    @classmethod
    def _mechanisms_are_known(cls, value: str | None) -> str | None:
        try:
            parse_mechanisms(value or "")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value


class SaslKeys(SaslListenerKeys):
    """SASL of the process, and what differs at single listeners."""

    listener_name_sasl: Annotated[dict[str, SaslListenerKeys], Field(alias=SASL_OF_LISTENERS)] = {}
    """`sasl.enabled.mechanisms`, `connections.max.reauth.ms`, `sasl.kerberos.*` and `MECHANISM.sasl.jaas.config` for
    one listener, whose name stands for LISTENER in lower case, as in `listener.name.external.sasl.enabled.mechanisms`.
    """
    sasl_mechanism_inter_broker_protocol: str | None = None
    """The mechanism by which a controller authenticates itself to Apache Kafka's brokers: that of the brokers. Kafka's
    own default is GSSAPI.
    """
    sasl_jaas_config: SecretStr | None = None
    """A controller's own user and password for all listeners of Apache Kafka's brokers, where no
    `MECHANISM.sasl.jaas.config` has them, nor the section `KafkaServer` of `java.security.auth.login.config`, a file
    that is read again at each authentication.
    """
    sasl_oauthbearer_token_endpoint_url: str | None = None
    """`file:` with the path of the token by which a controller authenticates itself to Apache Kafka's brokers with
    OAUTHBEARER. It is read again at each authentication; nothing is fetched from a network.
    """
    klamm_sasl_plain_users_file: str | None = None
    """File with the users of PLAIN and their passwords, a line `user=password` for each. Others must not be able to
    read it. It is read again when it has changed.
    """
    sasl_oauthbearer_jwks_endpoint_url: str | None = None
    """`file:` with the path of the JSON Web Key Set that tokens of OAUTHBEARER are verified with. It is read again when
    it has changed; nothing is fetched from a network.
    """
    sasl_oauthbearer_expected_audience: str | None = None
    """One of these, with commas between them, must be in the claim `aud` of a token."""
    sasl_oauthbearer_expected_issuer: str | None = None
    """What the claim `iss` of a token must be."""
    sasl_oauthbearer_sub_claim_name: Annotated[str, Field(min_length=1)] = "sub"
    """The claim of a token that is the name of the user."""
    sasl_oauthbearer_clock_skew_seconds: Annotated[Number, Field(ge=0, le=3600)] = 30
    """By how much the clock of this machine may differ from that of the issuer."""
    connection_failed_authentication_delay_ms: Annotated[NotNegative, Field(le=10_000)] = 100
    """How long the answer to a wrong password or token is kept back."""
    klamm_allow_anonymous: str | None = None
    """Names of SASL_SSL listeners, with commas, that also answer clients who have not authenticated, as the user
    ANONYMOUS.
    """

    @field_validator("sasl_mechanism_inter_broker_protocol")
    @classmethod
    def _mechanism_is_known(cls, value: str | None) -> str | None:
        try:
            found = parse_mechanisms(value or "")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        if len(found) > 1:
            raise ValueError("must be one mechanism")
        return found[0] if found else None

    @field_validator("sasl_oauthbearer_jwks_endpoint_url", "sasl_oauthbearer_token_endpoint_url")
    @classmethod
    def _is_a_file(cls, value: str | None) -> str | None:
        if value is not None and not path_of_url(value):
            raise ValueError("must be file: with a path; klamm fetches neither keys nor tokens from a network")
        return value

    @model_validator(mode="before")
    @classmethod
    def _gather_sasl_of_listeners(cls, values: Any) -> Any:
        """Gather the keys of single listeners into one value: listener name -> key -> value."""
        return gather_of_listeners(values, SASL_OF_ONE_LISTENER, SASL_OF_LISTENERS)

    def mechanisms_of(self, listener: str) -> tuple[str, ...]:
        """The mechanisms of a listener."""
        return parse_mechanisms(self._own(listener, "sasl_enabled_mechanisms").sasl_enabled_mechanisms or "")

    def session_ms_of(self, listener: str) -> int:
        """The time for which a user is authenticated at a listener, in ms."""
        return self._own(listener, "connections_max_reauth_ms").connections_max_reauth_ms

    def kerberos_service_of(self, listener: str) -> str:
        """The first component of the brokers' principals at a listener; empty if it is not set."""
        return self._own(listener, "sasl_kerberos_service_name").sasl_kerberos_service_name or ""

    def kerberos_rules_of(self, listener: str) -> KerberosRules:
        """The rules by which principals at a listener become users."""
        own = self._own(listener, "sasl_kerberos_principal_to_local_rules")
        return parse_kerberos_rules(own.sasl_kerberos_principal_to_local_rules)

    def jaas_of(self, listener: str, mechanism: str) -> tuple[str, str] | None:
        """The name and the text of the `sasl.jaas.config` of a mechanism at a listener; None without one."""
        name = f"{mechanism.lower().replace('-', '_')}_sasl_jaas_config"
        own = self._own(listener, name)
        found = getattr(own, name)
        prefix = "" if own is self else f"listener.name.{listener.lower()}."
        return None if found is None else (f"{prefix}{mechanism.lower()}.sasl.jaas.config", found.get_secret_value())

    def allows_anonymous(self, listener: str) -> bool:
        """Whether a SASL_SSL listener answers clients who have not authenticated."""
        return listener in {name.strip().upper() for name in (self.klamm_allow_anonymous or "").split(",")}

    def _own(self, listener: str, key: str) -> SaslListenerKeys:
        own = self.listener_name_sasl.get(listener)
        return self if own is None or key not in own.model_fields_set else own


def path_of_url(url: str) -> str:
    """The path in a `file:` URL; empty for another one."""
    if not url.lower().startswith(_FILE_URL):
        return ""
    rest = url[len(_FILE_URL) :]
    return rest[2:] if rest.startswith("//") else rest
