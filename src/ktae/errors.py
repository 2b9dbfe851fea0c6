"""The one exception that means "your input", as opposed to "our bug"."""


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what was expected.

    The command line prints it as one line and exits with status 2.
    """
