"""A model that another process has to find, and what is told where it cannot."""

import json

import pytest

from torch_checkup import guest
from torch_checkup.helpers.children import explained
from torch_checkup.helpers.errors import InputError


def local():
    return None


@pytest.mark.parametrize(
    "make",
    ["model", "model:", "no/m.py:make", pytest.param(lambda: None, id="lambda"), local],
    ids=lambda make: getattr(make, "__name__", make),
)
def test_a_target_that_no_process_can_find(make, monkeypatch):
    monkeypatch.setattr(local, "__module__", "__main__")  # as in a notebook
    with pytest.raises(InputError, match="%%writefile"):
        guest.target_of(make)


def test_a_target_is_text_that_another_process_can_follow(tmp_path, monkeypatch):
    (tmp_path / "m.py").touch()
    monkeypatch.chdir(tmp_path)
    assert guest.target_of("m.py:make") == f"{tmp_path / 'm.py'}:make"
    assert guest.target_of(json.dumps) == "json:dumps"


DENIED = "PermissionError: [Errno 13] Permission denied: 'x'"
NO_SPACE = "OSError: [Errno 28] No space left on device: 'x'"


@pytest.mark.parametrize(
    ("stage", "said", "does"),
    [
        ("the first call", NO_SPACE, "The disk is full: free some"),
        ("the first call", DENIED, "The cache cannot be written: name another place"),
        ("make the model", "ImportError: No module named 'x'", 'Give "module:'),
    ],
)
def test_what_went_wrong_in_a_process_has_its_advice(stage, said, does):
    told = explained(stage, said, guest.ADVICE)
    assert told.startswith(f"failed at: {stage}: {said}. {does}")


def test_a_file_that_the_model_may_not_read_is_not_the_cache():
    assert explained("make the model", DENIED, guest.ADVICE).endswith(DENIED)
