"""What all groups of settings have in common."""

from pydantic import BaseModel, ConfigDict


class Keys(BaseModel):
    model_config = ConfigDict(
        hide_input_in_errors=True,  # Among them are passwords.
        alias_generator=lambda attribute: attribute.replace("_", "."),
        arbitrary_types_allowed=True,
        extra="forbid",
        frozen=True,
        # By name too, so that code and tests can write Settings(replica_lag_time_max_ms=...).
        validate_by_name=True,
        validate_by_alias=True,
        # Defaults take part in the cross checks.
        validate_default=True,
    )
