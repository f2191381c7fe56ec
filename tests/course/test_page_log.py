"""torch's log on a page: in the order of what is printed, and the same in each run."""

import logging

from course import page_log as logs


def test_files_of_cells_and_of_packages_have_no_folders(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_kept", True)
    record = logging.LogRecord("torch", 20, "x", 1, "", None, None)
    for message, shown in (
        ('File "/tmp/ipykernel_12/345.py", line 3', 'File "<cell>", line 3'),
        ("at /usr/lib/site-packages/torch/nn/x.py:7", "at torch/nn/x.py:7"),
        ("id 140260902994144", "id ⟨140260902994144⟩"),
        ("took 12.5 us", "took ⟨12.5 us⟩"),
        ("a constant 0.70710678118", "a constant 0.70710678118"),
        (
            'User code traceback:\n  File "/x/ipykernel/app.py", line 7\n    run()\n'
            '  File "/tmp/ipykernel_12/345.py", line 3\n',
            'User code traceback:\n  File "<cell>", line 3\n',
        ),
    ):
        record.msg = message
        logs._lines.clear()
        logs._PageHandler().emit(record)
        assert logs.logged() == shown
        assert capsys.readouterr().out == f"{shown}\n"
    problem = ValueError, ValueError("of the compiler"), None
    for level, shown in ((40, "failed\nof the compiler"), (30, "failed")):
        told = logging.LogRecord("torch", level, "x", 1, "failed", None, problem)
        logs._PageHandler().emit(told)
        assert capsys.readouterr().out == f"{shown}\n"
    record.levelno = 40  # and no error with it
    logs._PageHandler().emit(record)
    assert logs.logged().count("failed\nof the compiler\nfailed\nUser code") == 1
