"""The command line, the report and the plots."""
