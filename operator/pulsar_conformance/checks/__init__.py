"""The checks, one module a theme. Each proves one promise and returns its evidence in a sentence."""
