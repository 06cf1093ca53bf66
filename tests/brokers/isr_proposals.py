"""The ISR change that a leader has in flight."""

from broker_agent.decisions.isr import IsrProposal
from tests.brokers.agents import AgentProcess


def proposal(leader: AgentProcess) -> IsrProposal | None:
    """The proposal that the controller has not answered."""
    state = leader.partition().isr_state
    return state if isinstance(state, IsrProposal) else None


def proposes_expansion(leader: AgentProcess) -> bool:
    """Whether it is proposed that a follower joins."""
    found = proposal(leader)
    return found is not None and found.is_expansion
