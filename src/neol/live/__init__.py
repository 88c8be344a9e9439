"""The live page: trainings as they grow, and lives to touch, in a browser on this machine."""
