"""The state-change log: record format, writer, reader, hash chain, invariants, and partition histories."""
