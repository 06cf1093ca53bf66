"""What the tables say beyond findings: timelines, failovers, sessions, terms; how they are asked and kept small."""
