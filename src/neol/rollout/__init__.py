"""Episodes: a population's lives, played here, in worker processes or on a cluster."""
