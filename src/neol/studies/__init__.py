"""Many runs: tasks x arms x grid x seeds, resumable, in one database."""
