"""A dump shows what a GPU would run, for every kind of program, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

from helpers import _torch, dump_triton, load, output_code
from helpers.errors import InputError
from helpers.gpu import fake_gpu
from tests.kinds import KINDS, dumped, randn

# --- every kind -------------------------------------------------------------------


@pytest.mark.parametrize("name", [k.name for k in KINDS.values() if k.expected])
def test_the_launches_of_each_kind(name: str) -> None:
    assert KINDS[name].shown(dumped(name)) == KINDS[name].expected


@pytest.mark.parametrize("name", KINDS)
def test_every_kernel_has_what_it_needs(name: str) -> None:
    dump = dumped(name)
    for kernel in dump.kernels:
        assert kernel.generated.count("@triton.jit") >= 1
        assert f"def {kernel.name}(" in kernel.generated or kernel.kind == "yours"
        assert kernel.loads + kernel.stores > 0 and kernel.bytes > 0
        assert all(isinstance(n, int) and n > 0 for n in kernel.grid), kernel.grid
        assert kernel.source.startswith(("@triton.jit", "#"))
    for call in dump.library:
        assert not call.generated and call.bytes > 0
    folders = ("/tmp", str(Path.home()), str(Path(__file__).parents[1]))
    assert not any(folder in dump.source for folder in folders)


def test_a_transformer_layer_in_training() -> None:
    dump = dumped("Transformer layer with dropout, training")
    forward = [k.name for k in dump.launches if k.phase == "forward"]
    attention = "aten._scaled_dot_product_efficient_attention"
    assert forward.count(attention) == 1
    assert (
        forward.count("extern_kernels.mm") + forward.count("extern_kernels.addmm") == 4
    )
    assert [k.name for k in dump.launches].count(f"{attention}_backward") == 1
    assert any("dropout" in k.ops for k in dump.kernels)
    assert any("which attention kernel" in said for said in dump.undecided)


def test_a_program_without_tensor_operations_has_no_kernels() -> None:
    dump = dumped("no tensor operation")
    assert dump.launches == () and dump.graphs == () and dump.undecided == ()
    assert str(dump).startswith("no kernels")


def test_what_follows_a_kernel_of_ones_own_is_not_guessed() -> None:
    dump = dumped("your own Triton kernel")
    assert "tl.store(out + i" in dump.kernel("add_one").source
    assert any("your own Triton kernel" in said for said in dump.undecided)


def test_a_dynamic_size_is_an_argument_of_the_kernel() -> None:
    (kernel,) = dumped("dynamic batch").kernels
    assert any(name.startswith("s") for name, _ in kernel.hints)
    assert "tl.full([XBLOCK], True" not in kernel.source  # the mask cannot vanish
    config = kernel.configs[0]
    assert kernel.grid[0] == -(-37 * 100 // config.blocks["XBLOCK"])


def test_lines_of_the_program() -> None:
    def two_lines(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y * 2

    (kernel,) = dump_triton(two_lines, randn(64)).kernels
    first = two_lines.__code__.co_firstlineno
    assert kernel.lines == (f"{first + 1}: y = x.sin()", f"{first + 2}: return y * 2")
    assert kernel.ops == ("sin", "mul")
    assert (kernel.loads, kernel.stores, kernel.bytes) == (1, 1, 512)


# --- as on a GPU, not as on the CPU it was traced on --------------------------------


def test_statistics_of_a_half_precision_norm_stay_wide() -> None:
    forward = dumped("bfloat16 LayerNorm, training").kernels[0]
    signature = forward.generated.split("'signature': {")[1].split("}")[0]
    assert signature.count("*fp32") == 2 and "*bf16" in signature


def test_a_small_product_stays_a_library_call() -> None:
    dump = dump_triton(torch.mm, randn(1, 64), randn(64, 1))
    assert [k.kind for k in dump.launches] == ["library"]


def test_attention_by_hand_becomes_the_gpus_own() -> None:
    (call,) = dumped("attention by hand").library
    assert "cpu" not in call.name and "attention" in call.name


def test_a_group_norm_and_a_bias_take_the_gpus_steps() -> None:
    norm = dump_triton(torch.nn.GroupNorm(2, 8), randn(2, 8, 4, 4), training=True)
    assert [k.phase for k in norm.kernels].count("forward") < 3  # as on a CPU
    conv = torch.nn.Conv2d(2, 4, 3)
    dump = dump_triton(conv, randn(1, 2, 6, 6), training=True)
    backward = [k.kind for k in dump.launches if k.phase == "backward"]
    assert backward == ["persistent reduction", "library"]  # the bias is summed apart
    outer = dump_triton(torch.mm, randn(64, 1), randn(1, 64))
    expected = "pointwise" if torch.__version__ >= "2.13" else "library"
    assert [k.kind for k in outer.launches] == [expected]


def test_constants_are_folded() -> None:
    dump = dump_triton(lambda x: (x * 0 + torch.ones(4) * 3) * x, randn(4))
    assert [(k.loads, k.stores) for k in dump.kernels] == [(1, 1)]


def test_attention_as_it_is_asked_for() -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    q, kv = randn(1, 4, 16, 32).half(), randn(1, 2, 16, 32).half()
    grouped = dump_triton(lambda q, k: attend(q, k, k, enable_gqa=True), q, kv)
    assert "flash" in grouped.launches[0].name
    wide = dump_triton(lambda q, v: attend(q, q, v), q, randn(1, 4, 16, 64).half())
    assert "efficient" in wide.launches[0].name  # flash wants one width
    odd = dump_triton(lambda q: attend(q, q, q), randn(1, 4, 16, 36).half())
    assert any("flash" in call.name for call in odd.library)
    kernel, math = torch.nn.attention.sdpa_kernel, torch.nn.attention.SDPBackend.MATH

    def by_hand(q: torch.Tensor) -> torch.Tensor:
        with kernel(math):
            return attend(q, q, q)

    assert not any("attention" in k.name for k in dump_triton(by_hand, q).library)


def test_attention_that_runs_again_in_the_backward() -> None:
    from torch.utils.checkpoint import checkpoint

    def attend(q: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q.sin(), q, q)

    dump = dump_triton(
        lambda q: checkpoint(attend, q, use_reentrant=False),
        randn(1, 2, 16, 32),
        training=True,
    )
    assert [call.phase for call in dump.library] == ["forward", "backward", "backward"]


@pytest.mark.parametrize(
    ("dtype", "gpu", "expected"),
    [
        (torch.bfloat16, "h100", "flash"),
        (torch.float16, "t4", "efficient"),
        (torch.float32, "h100", "efficient"),
        (torch.float64, "h100", "bmm"),
    ],
)
def test_attention_by_dtype_and_gpu(
    dtype: torch.dtype, gpu: str, expected: str
) -> None:
    qkv = tuple(randn(1, 2, 16, 32, dtype=dtype) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    dump = dump_triton(lambda q, k, v: attend(q, k, v) * 1, *qkv, gpu=gpu)
    assert any(expected in call.name for call in dump.library)


def test_the_gpu_is_the_one_asked_for() -> None:
    chain = KINDS["pointwise chain"].make()
    for gpu, capability, cores in (
        ("t4", 75, 40),
        ("a100", 80, 108),
        ("b200", 100, 148),
    ):
        dump = dump_triton(chain[0], *chain[1], gpu=gpu)
        assert f"cc={capability}" in dump.source
        assert f"multi_processor_count={cores}" in dump.source


# --- odd programs ---------------------------------------------------------------------


def test_branches_have_their_own_kernels() -> None:
    def either(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.exp, (x,))

    dump = dump_triton(either, randn(64))
    for kernel in dump.kernels:
        (op,) = {"sin", "exp", "sum"} & set(kernel.ops)
        assert f"_{op}_" in kernel.name and f"{op}(" in kernel.source
    assert any("which branch" in said for said in dump.undecided)


def test_a_nested_region_is_for_the_gpu_too() -> None:
    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu()

    dump = dump_triton(
        lambda x, w: layer(layer(x, w), w).sin(),
        randn(16, 16),
        randn(16, 16),
        training=True,
    )
    assert not any("cpp" in launch.name for launch in dump.launches)
    assert {k.phase for k in dump.kernels} == {"forward", "backward"}


def test_kernels_of_ones_own_with_helpers_and_quotes() -> None:
    from tests.triton_kernel import quoted

    def twice(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        quoted[(4, 2)](x, out, x.numel(), 2.5, BLOCK=128)
        quoted[(8,)](x, out, x.numel(), 1.5, BLOCK=128)
        return out

    first, second = dump_triton(twice, randn(1000)).kernels
    assert (first.grid, second.grid) == ((4, 2, 1), (8, 1, 1))
    assert "'''" in first.source and first.registers > 0


def test_sizes_that_only_the_data_knows() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        dump = dump_triton(lambda x: x[x > 0].sin(), randn(8))
    assert dump.kernels[-1].grid.startswith("(ceil(xnumel / ")
    assert any("sizes depend on data" in said for said in dump.undecided)


def test_a_ragged_tensor_is_stored(tmp_path: Path) -> None:
    rows = [randn(2, 3), randn(4, 3)]
    ragged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    dump = dump_triton(torch.sin, ragged)
    dump.save(tmp_path / "dump.json")
    assert load(tmp_path / "dump.json") == dump


def test_autocast_is_not_passed_over() -> None:
    def cast(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    assert "autocast" in str(dump_triton(cast, randn(4, 4)))
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in str(dump_triton(torch.mm, randn(4, 4), randn(4, 4)))


def test_a_gpu_without_bfloat16() -> None:
    dump = dump_triton(torch.sin, randn(4).bfloat16(), gpu="t4")
    assert not dump.launches and "T4 has no bfloat16" in str(dump)


def test_in_inference_mode_one_may_ask_for_training() -> None:
    with torch.inference_mode():
        dump = dump_triton(torch.nn.Linear(4, 4), randn(2, 4), training=True)
    assert {graph.phase for graph in dump.graphs} == {"forward", "backward"}


def test_with_a_wrapper_in_cpp_the_dump_is_the_same() -> None:
    settings = _torch_private("inductor settings")
    with settings.patch(cpp_wrapper=True):
        assert len(dump_triton(torch.sin, randn(4)).kernels) == 1


def test_the_same_call_gives_the_same_dump() -> None:
    fn, inputs = KINDS["softmax over 1024"].make()
    assert dump_triton(fn, *inputs) == dump_triton(fn, *inputs)


def test_from_several_threads() -> None:
    """In a process of its own: two at a time once ended it."""
    pytest.importorskip("triton")
    code = (
        "import torch; from concurrent.futures import ThreadPoolExecutor\n"
        "from helpers import dump_triton\n"
        "def one(n): return len(dump_triton(lambda x: x.sin() * n, "
        "torch.ones(8)).kernels)\n"
        "assert list(ThreadPoolExecutor(3).map(one, range(2, 5))) == [1, 1, 1]\n"
    )
    root = Path(__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=180)


# --- modes --------------------------------------------------------------------------


def test_a_mode_that_tunes_has_more_to_choose_from() -> None:
    fn, inputs = KINDS["softmax over 4096"].make()
    (plain,), (tuned,) = (
        dumped("softmax over 4096").kernels,
        dump_triton(fn, *inputs, mode="max-autotune-no-cudagraphs").kernels,
    )
    assert len(tuned.configs) > len(plain.configs)


def test_what_a_mode_leaves_open_is_said() -> None:
    product = dump_triton(torch.mm, randn(64, 64), randn(64, 64), mode="max-autotune")
    said = "\n".join(product.undecided)
    assert "Triton template" in said and "CUDA graph" in said
    assert "Triton template" not in str(
        dump_triton(torch.mm, randn(64, 64), randn(64, 64))
    )


def test_an_odd_product_may_be_padded() -> None:
    odd = dump_triton(torch.mm, randn(64, 61), randn(61, 64))
    assert any("padded" in said for said in odd.undecided)
    even = dump_triton(torch.mm, randn(64, 64), randn(64, 64))
    assert not any("padded" in said for said in even.undecided)


# --- what is wrong is said ------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gpu": "voodoo"}, "h100"),
        ({"gpu": "mi300x"}, "kernel.on"),
        ({"mode": "turbo"}, "max-autotune"),
    ],
)
def test_wrong_arguments(more: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        dump_triton(torch.sin, randn(4), **more)


def test_a_function_that_raises() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    with pytest.raises(InputError, match="Call it yourself"):
        dump_triton(broken, randn(3, 4))


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("3.7", None, False), "Linux only"),
        (("3.7", "3.9.0", False), "pip install 'triton==3.7"),
    ],
)
def test_without_the_right_triton(pair: tuple, said: str, monkeypatch) -> None:
    monkeypatch.setattr(_torch, "triton_pair", lambda: pair)
    with pytest.raises(fake_gpu.Missing, match=said):
        dump_triton(torch.sin, randn(4))


def test_without_a_gpu_this_one_cannot_be_asked_for() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(InputError, match="no GPU"):
        dump_triton(torch.sin, randn(4), gpu="this")


# --- nothing stays behind -------------------------------------------------------------


def state() -> dict[str, object]:
    """Return all that a dump changes while it runs."""
    from triton.runtime import driver

    table = fake_gpu._guards()
    interface = _torch_private("gpu")
    return {
        "cuda": {n: id(getattr(torch.cuda, n)) for n in dir(torch.cuda) if n[0] != "_"},
        "interface": {n: id(v) for n, v in vars(interface).items()},
        "guards": None if table is None else list(table),
        "driver": id(driver._active),
        "attention": id(torch.nn.functional.scaled_dot_product_attention),
        "lowering": {
            n: id(v) for n, v in vars(_torch_private("output module")).items()
        },
        "triton": id(_torch_private("triton support").has_triton),
        "memories": [c.cache_info().currsize for c in _torch.device_memories()[:1]],
        "settings": _torch_private("inductor settings").triton.cudagraphs,
        "random": torch.get_rng_state().tolist(),
    }


def test_the_session_is_as_it_was() -> None:
    fn, inputs = KINDS["Transformer layer with dropout, training"].make()
    dump_triton(torch.sin, randn(4))  # what is imported once
    before = state()
    dump_triton(fn, *inputs, training=True)
    assert state() == before
    assert all(p.grad is None for p in fn.parameters())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("place", ["lower graph", "compile graph"])
def test_also_after_an_interruption(place: str, error: type[BaseException]) -> None:
    dump_triton(torch.sin, randn(4))
    before, found = state(), _torch_private

    def private(key: str) -> object:
        def stop(*_: object, **__: object) -> None:
            raise error("now")

        return stop if key == place else found(key)

    with (
        mock.patch.object(_torch, "private", private),
        pytest.raises((error, InputError)),
    ):
        dump_triton(torch.cos, randn(4))
    assert state() == before


def test_what_the_cpu_compiles_stays_the_same() -> None:
    fn, inputs = KINDS["softmax over 1024"].make()
    counters = _torch_private("counters")
    before = output_code(fn, *inputs).kernel()
    compiled = torch.compile(fn)
    result = compiled(*inputs)
    counted = {k: dict(v) for k, v in counters.items()}
    dump = dump_triton(fn, *inputs)
    assert "triton" in dump.source
    assert {k: dict(v) for k, v in counters.items()} == counted
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(*inputs), result)
    assert output_code(fn, *inputs).kernel() == before


def test_the_program_itself_runs_on_the_cpu_and_is_right() -> None:
    seen: list[torch.Tensor] = []

    def noted(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1) * 2
        torch._dynamo.graph_break()
        seen.append(y.clone())
        return y.cos()

    x = randn(8, 33)
    dump_triton(noted, x)
    torch.testing.assert_close(seen[-1], torch.softmax(x, -1) * 2)


def test_it_is_really_inductors_lowering() -> None:
    """Fusion off must show, or the dump would be a drawing."""
    fn, inputs = KINDS["RMSNorm, training"].make()
    assert [k.kind for k in dump_triton(fn, *inputs).kernels] == [
        "persistent reduction"
    ]
    with _torch_private("inductor settings").patch(max_fusion_size=1):
        apart = dump_triton(fn, *inputs).kernels
    assert {k.kind for k in apart} == {"persistent reduction", "pointwise"}


# --- files ----------------------------------------------------------------------------


def test_a_folder_to_browse(tmp_path: Path) -> None:
    fn, inputs = KINDS["pointwise chain, training"].make()
    dump = dump_triton(fn, *inputs, training=True, to=tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    for kernel in dump.kernels:
        assert kernel.name in text
        made = {p.name for p in (tmp_path / "out/kernels" / kernel.name).iterdir()}
        assert made >= {"source.py", "generated.py", "kernel.ptx", "kernel.sass"}
        ptx = (tmp_path / "out/kernels" / kernel.name / "kernel.ptx").read_text()
        assert f".entry {kernel.name}" in ptx and "sm_90" in ptx
    assert {p.name for p in (tmp_path / "out").glob("*.py")} == {
        "graph-0-forward.py",
        "graph-0-backward.py",
    }
    again = load(tmp_path / "out" / "dump.json")
    assert again == dump and again.kernels[0].source == dump.kernels[0].source
    with pytest.raises(InputError, match="dump again"):
        again.check_numerics()


def test_a_folder_holds_one_dump(tmp_path: Path) -> None:
    mine = tmp_path / "kernels.txt"
    mine.write_text("mine")
    first = dump_triton(torch.sin, randn(4), to=tmp_path)
    second = dump_triton(torch.cos, randn(4), to=tmp_path)
    kept = {each.name for each in (tmp_path / "kernels").iterdir()}
    assert kept == {k.name for k in second.kernels} != {k.name for k in first.kernels}
    assert mine.exists()


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def f(x):\n    return torch.relu(x) * 2\n"
        "def inputs():\n    return (torch.ones(1000),)\n"
    )
    root = Path(__file__).parent.parent
    run = [sys.executable, "-m", "helpers", "dump", "mine:f", "--gpu", "a100"]
    done = subprocess.run(
        [*run, "--to", "out"],
        cwd=tmp_path,
        env={**__import__("os").environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "pointwise" in done.stdout and "A100" in done.stdout
    assert (tmp_path / "out" / "README.md").exists()


@pytest.mark.parametrize(
    ("target", "said"),
    [("nowhere:f", "nowhere"), ("math:nothing", "nothing"), ("math:sin", "inputs")],
)
def test_the_command_line_says_what_is_wrong(target: str, said: str, capsys) -> None:
    from helpers.__main__ import main

    assert main(["dump", target]) == 1
    assert said in capsys.readouterr().err
