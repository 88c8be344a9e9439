"""NEAT: genes, genomes, innovation numbers, variation, species, and the loop over generations."""
