"""What a candidate says of itself in `/controllers/ids/<id>`, under the key `candidate`.

By it `klamm adopt` compares each candidate with the brokers that it is to govern, before it may govern them. Candidates
of older releases write no such key. Everything is bounded: anybody may write the znode.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from cluster.model.broker import ControllerId, joined_address
from cluster.znodes.bodies import Port, decode
from cluster.znodes.paths import controller_registration_path

_UNFIT_MAX: Final = 1000
_RULES_MAX: Final = 4000
_PRINTABLE: Final = r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]*\Z"
"""Nothing that moves the cursor of a terminal or hides text."""
_Text = Annotated[str, Meta(max_length=255, pattern=_PRINTABLE)]
_Rules = Annotated[str, Meta(max_length=_RULES_MAX, pattern=_PRINTABLE)]
_Sentence = Annotated[str, Meta(max_length=_UNFIT_MAX, pattern=_PRINTABLE)]


class CandidateListener(Struct, frozen=True):
    """One of its Kafka listeners, with the address that brokers and clients are told.

    `client_auth`: whether its clients need a certificate: none, requested or required. `principal_mapping`: the rules
    by which it names the users of certificates. `mechanisms`: those of SASL that it has. `kerberos_mapping`: the rules
    by which it names the users of Kerberos principals.
    """

    name: _Text
    security_protocol: _Text
    host: _Text
    port: Port
    client_auth: _Text = "none"
    principal_mapping: _Rules = "DEFAULT"
    mechanisms: Annotated[tuple[_Text, ...], Meta(max_length=20)] = ()
    kerberos_mapping: _Rules = "DEFAULT"

    @property
    def address(self) -> str:
        return joined_address(self.host, self.port)


class CandidateProfile(Struct, frozen=True):
    """`protocol_version`: of the brokers that it is to govern, as `inter.broker.protocol.version` is written.

    `inter_broker_listener`, `control_plane_listener`: the names of the listeners at which it sends brokers control
    requests, the second where a broker has it. `has_certificate`: whether it can show brokers one. `authorises`:
    whether its Kafka listeners ask an authorizer. `refuses_clients`: whether they answer brokers only.
    `allows_unlisted`: whether its authorizer lets everyone do what there is no rule about. `is_grpc_local`: whether its
    gRPC listeners take connections of its own host only. `settings`: the effective values of those by which a
    controller decides. `unfit`: why it takes no part in elections, for people, in words that follow "it"; empty if it
    does.
    """

    klamm: _Text
    broker_protocol: _Text
    protocol_version: _Text
    inter_broker_listener: _Text
    control_plane_listener: _Text
    listeners: Annotated[tuple[CandidateListener, ...], Meta(max_length=100)] = ()
    has_certificate: bool = False
    authorises: bool = False
    refuses_clients: bool = False
    allows_unlisted: bool = False
    is_grpc_local: bool = False
    registers_as_broker: bool = False
    rack: _Text | None = None
    settings: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}
    unfit: _Sentence = ""

    def unfit_because(self, why: str) -> "CandidateProfile":
        """The same candidate, which says why it is unfit, within the bounds of that text; empty: it is fit again."""
        text = "".join(c if c.isprintable() else " " for c in why)
        return replace(self, unfit=text if len(text) <= _UNFIT_MAX else text[: _UNFIT_MAX - 1] + "…")


class _Body(Struct):
    candidate: CandidateProfile | None = None


_decoder = msgspec.json.Decoder(_Body)


def profile_field(profile: CandidateProfile | None) -> dict[str, Any]:
    """The field that a registration has beside its addresses."""
    return {} if profile is None else {"candidate": profile}


def decode_profile(controller: ControllerId, data: bytes) -> CandidateProfile | None:
    """Decode what a candidate's registration says of it; None for an older release. Raises MalformedZnodeError."""
    return decode(_decoder, controller_registration_path(controller), data).candidate
