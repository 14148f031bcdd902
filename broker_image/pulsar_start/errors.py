"""The one error a user of the images sees: a sentence, no traceback."""


class StartError(Exception):
    """The component cannot start; the message says why and never contains a configured value."""
