"""Topic and broker configs, and finalized features."""
