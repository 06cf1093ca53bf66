"""The rules about partitions, in the order in which they are checked: one may take back what one before it found."""

from typing import Final

from audit.rules import (
    applied_states,
    committed_records,
    dead_leaders,
    decision_rules,
    durations,
    elected_brokers,
    leader_claims,
    machine_steps,
    moves,
    node_views,
    offline_leaders,
    record_assignments,
    record_rules,
    recreations,
    role_offsets,
    state_sequences,
    unclean_elections,
    unfinished_work,
)

RULES: Final = (
    record_rules.RULE,
    decision_rules.RULE,
    record_assignments.RULE,
    role_offsets.RULE,
    state_sequences.RULE,
    leader_claims.RULE,
    applied_states.RULE,
    durations.RULE,
    unclean_elections.RULE,
    elected_brokers.RULE,
    offline_leaders.RULE,
    dead_leaders.RULE,
    committed_records.RULE,
    unfinished_work.RULE,
    recreations.RULE,
    machine_steps.RULE,
    moves.RULE,
    node_views.RULE,
)
