"""Torch is asked once for the vector instructions of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

ASKED = """
import json, sys
from torch._inductor.cpu_vec_isa import VecISA, valid_vec_isa_list

usual, codes = VecISA.check_build, []
VecISA.check_build = lambda isa, code: codes.append(code) or usual(isa, code)
if sys.argv[1] == "once":
    from torch_checkup.patient import ask_for_instructions
    ask_for_instructions()
print(json.dumps([[str(isa) for isa in valid_vec_isa_list()], codes]))
"""


def _asked(how: str) -> tuple[list[str], list[str]]:
    """Return the vector instructions that torch finds, and each program it built."""
    words = [sys.executable, "-c", ASKED, how]
    asks = {**os.environ, "TORCHINDUCTOR_VEC_ISA_OK": "default"}
    done = subprocess.run(words, env=asks, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_vector_instructions_are_those_of_torch_and_no_program_is_built_twice():
    """The list is torch's own, which builds one program for each entry."""
    usual, ours = _asked("usual"), _asked("once")
    assert ours[0] == usual[0]
    assert len(ours[1]) == len({*ours[1]})
    assert {*ours[1]} == {*usual[1]}
