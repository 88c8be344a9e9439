"""A trained controller: its file, its inputs and outputs, the network that goes on learning, its evaluation."""
