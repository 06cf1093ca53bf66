"""The state-change log: its records, who writes and who reads them, their hash chain, the invariants that they
must satisfy, and the history of a partition that they tell.
"""
