"""Columns of records as numpy arrays, and what the rules do with lists of brokers."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from audit.records.orders import sorted_order

Longs = NDArray[numpy.int64]
Keys = NDArray[numpy.uint64]
Flags = NDArray[numpy.bool_]

ABSENT: Final = -(1 << 40)
"""The value for a number that a record does not have."""
_FEW_TEXTS: Final = 64
"""Texts of a dictionary that Python compares sooner than pyarrow begins to."""
_LONG: Final = pyarrow.int64()
_ABSENT: Final = pyarrow.scalar(ABSENT, _LONG)


def longs(column: pyarrow.ChunkedArray) -> Longs:
    """The numbers of a column; ABSENT for null."""
    whole = _one_chunk(column)
    if whole.null_count:
        whole = whole.cast(_LONG).fill_null(_ABSENT)
    return numpy.asarray(whole.to_numpy(zero_copy_only=False), numpy.int64)


def are_present(column: pyarrow.ChunkedArray) -> Flags:
    """Whether a row has a value; aligned with the rows."""
    return numpy.asarray(column.is_valid().combine_chunks().to_numpy(zero_copy_only=False), bool)


def keys(column: pyarrow.ChunkedArray) -> Keys:
    """The hashes of a column without nulls."""
    return numpy.asarray(_one_chunk(column).to_numpy(zero_copy_only=False), numpy.uint64)


def ranks(column: pyarrow.ChunkedArray) -> Longs:
    """The rank of the text in each row of a dictionary column among its texts; -1 for null. Aligned with the rows."""
    return ranked(column)[0]


def ranked(column: pyarrow.ChunkedArray) -> tuple[Longs, list[str]]:
    """The place of the text of each row in the second list, which is sorted; -1 for null. Aligned with the rows."""
    one = _unified(column)
    texts = one.dictionary.to_pylist()
    order = sorted(range(len(texts)), key=texts.__getitem__)
    rank = numpy.empty(len(texts) + 1, numpy.int64)
    rank[order] = numpy.arange(len(texts))
    rank[-1] = -1
    rows = one.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(numpy.int64)
    return rank[rows], [texts[n] for n in order]


def _one_chunk(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    # Most columns have one chunk, and batches are small: what pyarrow does about chunks takes longer than all else.
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole if isinstance(whole, pyarrow.Array) else pyarrow.array([], column.type)


def _unified(column: pyarrow.ChunkedArray) -> pyarrow.DictionaryArray:
    return column.chunk(0) if column.num_chunks == 1 else _one_chunk(column.unify_dictionaries())


def text_hashes(column: pyarrow.ChunkedArray) -> Keys:
    """A hash of the text in each row of a dictionary column without nulls; aligned with the rows."""
    one = _unified(column)
    hashes = numpy.array([text_hash(text) for text in one.dictionary.to_pylist()], numpy.uint64)
    return numpy.asarray(hashes[one.indices.to_numpy(zero_copy_only=False)], numpy.uint64)


def text_hash(text: str) -> int:
    """A hash of 64 bits; two texts do not have the same one by chance."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def is_one_of(column: pyarrow.ChunkedArray, texts: Sequence[str]) -> Flags:
    """Whether a row of a dictionary column has one of these texts; false for null. Aligned with the rows."""
    wanted = frozenset(texts)

    def flags_of(known: pyarrow.Array) -> Sequence[bool]:
        if len(known) > _FEW_TEXTS:
            found = pyarrow.compute.is_in(known, value_set=pyarrow.array(list(texts)))
            return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        return [text in wanted for text in known.to_pylist()]

    return _with_text(column, flags_of)


def begins_with(column: pyarrow.ChunkedArray, beginning: str) -> Flags:
    """Whether the text in a row of a dictionary column begins so; false for null. Aligned with the rows."""
    return _with_text(
        column, lambda known: pyarrow.compute.starts_with(known, beginning).to_numpy(zero_copy_only=False)
    )


def _with_text(column: pyarrow.ChunkedArray, flags_of: Callable[[pyarrow.Array], Sequence[bool]]) -> Flags:
    one = _unified(column)
    # The last one is for rows without a text.
    flags = numpy.append(numpy.asarray(flags_of(one.dictionary), bool), False)
    indices = one.indices.fill_null(len(flags) - 1) if one.null_count else one.indices
    return numpy.asarray(flags[indices.to_numpy(zero_copy_only=False)], bool)


class BrokerLists:
    """A column of lists of brokers; null counts as empty.

    `present` and `lengths` are aligned with the rows. `values` has the members of all lists, and `row` aligned with
    these the row of each.
    """

    def __init__(self, column: pyarrow.ChunkedArray) -> None:
        lists = _one_chunk(column)
        self.present: Flags = ~numpy.asarray(lists.is_null().to_numpy(zero_copy_only=False), bool)
        lengths = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(lists), 0)
        self.lengths: Longs = lengths.to_numpy(zero_copy_only=False).astype(numpy.int64)
        self.values: Longs = lists.flatten().to_numpy(zero_copy_only=False).astype(numpy.int64)
        self.row: Longs = numpy.repeat(numpy.arange(len(self.lengths)), self.lengths)

    def contain(self, broker: Longs) -> Flags:
        """Whether the list of each row has that row's broker; `broker` and the result are aligned with the rows."""
        return self._any(self.values == broker[self.row])

    def first(self) -> Longs:
        """The first member of the list of each row; ABSENT where it is empty."""
        begins = numpy.cumsum(self.lengths) - self.lengths
        has = self.lengths > 0
        found = numpy.full(len(self.lengths), ABSENT)
        found[has] = self.values[begins[has]]
        return found

    def first_within(self, others: "BrokerLists") -> Longs:
        """The first member of each row's list that is in the other list of the row, too; ABSENT where none is."""
        if not len(others.values):
            return numpy.full(len(self.lengths), ABSENT)
        found = self._are_within(others)
        row, values = self.row[found], self.values[found]
        firsts = group_starts(row)
        first = numpy.full(len(self.lengths), ABSENT)
        first[row[firsts]] = values[firsts]
        return first

    def have_repetitions(self) -> Flags:
        """Whether the list of each row names a broker twice."""
        low, span = self._bounds(self)
        members = numpy.sort(self.row * span + (self.values - low))
        found = numpy.zeros(len(self.lengths), bool)
        found[members[1:][members[1:] == members[:-1]] // span] = True
        return found

    def are_within(self, others: "BrokerLists") -> Flags:
        """Whether every member of each row's list is in the other list of the row; `others` has as many rows."""
        if not len(others.values):
            return numpy.asarray(self.lengths == 0, bool)
        return ~self._any(~self._are_within(others))

    def have_below(self, least: int) -> Flags:
        """Whether the list of each row has a member below this one."""
        return self._any(self.values < least)

    def _are_within(self, others: "BrokerLists") -> Flags:
        """Whether the other list of the row has a member, too; aligned with `values`. `others` are not all empty."""
        low, span = self._bounds(others)
        members = numpy.sort(others.row * span + (others.values - low))
        wanted = self.row * span + (self.values - low)
        place = numpy.minimum(numpy.searchsorted(members, wanted), len(members) - 1)
        return numpy.asarray(members[place] == wanted, bool)

    def set_hashes(self) -> Keys:
        """A hash of the members of each list, whatever their order and number."""
        row, values = self.row, self.values
        if self.have_repetitions().any():
            row, values = numpy.unique(numpy.stack((row, values)), axis=1)
        hashes = numpy.zeros(len(self.lengths), numpy.uint64)
        numpy.add.at(hashes, row, mixed(values.astype(numpy.uint64) + numpy.uint64(1)))
        return hashes

    def ordered_hashes(self) -> Keys:
        """A hash of the members of each list in their order."""
        ends = numpy.cumsum(self.lengths)
        place = numpy.arange(len(self.values)) - numpy.repeat(ends - self.lengths, self.lengths)
        hashes = mixed((place << 32).astype(numpy.uint64) + (self.values + (1 << 31)).astype(numpy.uint64))
        sums = numpy.concatenate((numpy.zeros(1, numpy.uint64), numpy.cumsum(hashes, dtype=numpy.uint64)))
        return numpy.asarray(sums[ends] - sums[ends - self.lengths], numpy.uint64)

    def _bounds(self, others: "BrokerLists") -> tuple[int, int]:
        """The least broker of both columns, and the number of ids up to the greatest one."""
        low = min(int(self.values.min(initial=0)), int(others.values.min(initial=0)))
        return low, max(int(self.values.max(initial=0)), int(others.values.max(initial=0))) - low + 1

    def _any(self, flags: Flags) -> Flags:
        return numpy.bincount(self.row[flags], minlength=len(self.lengths)).astype(bool)


def mixed(values: Keys) -> Keys:
    """The finalizer of SplitMix64: one to one, neighbours far apart."""
    values = (values ^ (values >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return values ^ (values >> numpy.uint64(31))


def are_in_order(*columns: NDArray[Any]) -> bool:
    """Whether rows are sorted by these columns, the most significant first, and no two are equal."""
    grows, same = numpy.zeros(max(0, len(columns[0]) - 1), bool), numpy.ones(max(0, len(columns[0]) - 1), bool)
    for column in columns:
        grows |= same & (column[1:] > column[:-1])
        same &= column[1:] == column[:-1]
    return bool(grows.all())


def group_starts(*columns: NDArray[numpy.generic]) -> Longs:
    """The rows in which a new group of equal rows begins, ascending. `columns`: sorted, aligned with one another."""
    if not len(columns[0]):
        return numpy.empty(0, numpy.int64)
    changed = numpy.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changed |= column[1:] != column[:-1]
    return numpy.concatenate(([0], numpy.flatnonzero(changed) + 1)).astype(numpy.int64)


def earliest(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort rows by key, `sub` and `at_ms`; keep the first of each key and `sub`."""
    rows = rows.unify_dictionaries()
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((longs(rows["at_ms"]), sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


def unique_pairs(key: Keys, sub: Longs) -> tuple[Keys, Longs]:
    """List each (key, sub) once, sorted; aligned with each other."""
    if are_in_order(key, sub):
        return key, sub
    order = sorted_order((sub, key))
    key, sub = key[order], sub[order]
    starts = group_starts(key, sub)
    return key[starts], sub[starts]


def order_in_groups(order: Longs, starts: Longs, ties: Callable[[Longs], Sequence[NDArray[Any]]]) -> Longs:
    """Sort the rows of each group by further columns. `order`: rows, by groups; `starts`: the places in it where these
    begin.

    `ties`: the columns of some rows, the least significant first. Most groups have one row, and need none.
    """
    sizes = numpy.diff(numpy.append(starts, len(order)))
    places = numpy.flatnonzero(numpy.repeat(sizes > 1, sizes))
    if not len(places):
        return order
    group = numpy.repeat(numpy.arange(len(starts)), sizes)[places]
    found = order.copy()
    found[places] = order[places[sorted_order((*ties(order[places]), group))]]
    return found


def by_reference(rows: pyarrow.Table, chosen: Longs) -> tuple[Longs, ...]:
    """Sort columns of the chosen rows, the least significant first: by time, node, incarnation and number of the
    record.
    """
    part = rows.select(["seq", "incarnation", "node", "at_ms"]).take(chosen)
    return longs(part["seq"]), ranks(part["incarnation"]), ranks(part["node"]), longs(part["at_ms"])


def with_schema(rows: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """These rows with the columns of a schema; those that they lack are null."""
    names, count = set(rows.column_names), rows.num_rows
    columns = [rows[field.name] if field.name in names else pyarrow.nulls(count, field.type) for field in schema]
    casts = ((c if c.type == field.type else c.cast(field.type)) for c, field in zip(columns, schema, strict=True))
    return pyarrow.table(list(casts), schema=schema)


def in_one_chunk(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """The rows of these tables, of one schema, with one dictionary for each column."""
    return pyarrow.concat_tables(tables).unify_dictionaries().combine_chunks()
