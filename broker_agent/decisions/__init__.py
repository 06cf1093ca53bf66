"""Pure decisions of an agent: ISR membership, high watermark, truncation, request validation."""
