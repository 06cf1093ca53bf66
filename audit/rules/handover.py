"""The states of partitions over `klamm adopt` and `klamm leave`: each follows from the one before, whoever wrote it.

The rules are those between the states of one cluster (`audit.rules.state_sequences`). They are asked of neighbours of
which klamm's controllers wrote one and Apache Kafka's the other; all others are compared where their own logs are.
"""

from collections.abc import Iterator

import numpy
import pyarrow

from audit.records.vectors import Flags, Keys, keys, longs
from audit.rules.governed_brokers import Disagreement
from audit.rules.neighbouring import Pairs, pairs_now
from audit.rules.partition_states import Groups
from audit.rules.state_sequences import MESSAGES, violations


def states_over_handover(written: pyarrow.Table, shown: pyarrow.Table, compared: Keys) -> Iterator[Disagreement]:
    """Yield what is wrong between a state of klamm's controllers and one beside it that Kafka wrote.

    `written`, `shown`: those in klamm's logs and in Kafka's, as STATES, by the same keys. `compared`: the partitions
    that had one topic in both.
    """
    own, other = (_of(states, compared) for states in (written, shown))
    groups = Groups(pyarrow.concat_tables([own, other]))
    in_own, in_other = (_have(groups, states) for states in (own, other))
    before, after = pairs_now(groups.key, numpy.ones(len(groups.key), bool))
    of_both = ~(in_own[before] & in_own[after]) & ~(in_other[before] & in_other[after])
    pairs = Pairs(before[of_both], after[of_both])
    for rule, violated in violations(groups, pairs).items():
        for one, next_one in zip(pairs.before[violated].tolist(), pairs.after[violated].tolist(), strict=True):
            (first, first_record), (second, second_record) = (groups.references(n)[0] for n in (one, next_one))
            message = MESSAGES[rule].format(
                before=first,
                after=second,
                first=groups.first_controller_epoch[next_one],
                last=groups.last_controller_epoch[one],
            )
            subject = f"partition-epoch {groups.sub[next_one]}"
            records = (first_record, second_record)
            yield Disagreement(rule, int(groups.key[next_one]), subject, message, records, second["at_ms"])


def _of(states: pyarrow.Table, compared: Keys) -> pyarrow.Table:
    return states.filter(pyarrow.array(numpy.isin(keys(states["key"]), compared)))


def _have(groups: Groups, states: pyarrow.Table) -> Flags:
    """Whether one of the states is at the partition epoch of a group; aligned with the groups."""
    found = numpy.zeros(len(groups.key), bool)
    found[groups.where(keys(states["key"]), longs(states["sub"]))] = True
    return found
