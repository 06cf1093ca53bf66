"""The report as one HTML file: verdict, findings with their evidence, timelines and failovers. Needs no network."""
