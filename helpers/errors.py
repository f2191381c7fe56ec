"""The errors of the helpers: each message says what to do."""

from __future__ import annotations


class InputError(ValueError):
    """What was asked cannot be answered with this function or these inputs."""


class ResultError(ValueError):
    """A results file that cannot be read, with what to do about it."""


class Unavailable(RuntimeError):
    """This machine or this torch lacks what a helper needs."""
