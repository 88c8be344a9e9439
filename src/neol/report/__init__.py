"""A study as a page: statistics, verdicts, tables, figures."""
