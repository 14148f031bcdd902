"""A word that must not be seen, in every place of every specification that takes free text."""
