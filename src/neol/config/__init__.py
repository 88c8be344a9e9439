"""Settings: what there is to set, what is allowed, and neat-python's files read as ours."""
