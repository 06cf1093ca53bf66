"""Records as columns, what is found about them, and tables of them that grow by sorted runs."""
