"""The descent of a loss of a form: objectives, starts and gaps."""
