"""Pictures of one run: the network, the learning curve, a film."""
