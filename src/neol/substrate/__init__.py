"""HyperNEAT: substrates, whose nodes have places in space, and CPPNs that paint their connections."""
