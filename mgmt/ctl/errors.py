"""Exit codes, as rabbitmqctl has them (sysexits.h), and the error that carries one."""

OK, USAGE, DATA_ERROR, NO_USER, UNAVAILABLE, SOFTWARE = 0, 64, 65, 67, 69, 70


class CtlError(Exception):
    """A command failed. text: for the standard error."""

    def __init__(self, text: str, code: int = SOFTWARE) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class UsageError(CtlError):
    """The arguments are wrong."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(f"Error (argument validation): {text}", code)
