"""What a genome becomes: a network that steps, learns within a life, and scales what it observes."""
