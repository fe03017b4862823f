"""The user's mistakes. The commands print the message, one line that names the place and a remedy, and exit with 2."""


class UserError(Exception):
    """Something the user can put right."""


class DataError(UserError):
    """A file that can't be used as it is. ``line`` counts from 1; it is None where no line is to blame."""

    def __init__(self, file: str, line: int | None, message: str):
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file, self.line = file, line


def why(error: OSError) -> str:
    """The system's words without the number and the name of the file: "No such file or directory"."""
    return error.strerror or str(error) or type(error).__name__
