"""The output folder of an audit: files, commits, and the columns of the tables."""
