"""A process that loads a file and runs it, and never saw the model in it.

It is given: a way, the file, a file with inputs, and one for what is found.
"""

import pickle
import sys
import time

MODULES = {
    "Dynamo": ("torch._dynamo", "frames"),
    "AOTAutograd": ("torch._functorch.aot_autograd", "aot_autograd"),
    "Inductor": ("torch._inductor.compile_fx", "inductor"),
}
"""The module of each part, and which of Dynamo's counters counts its work."""


def torchscript(path):
    import torch

    return torch.jit.load(path)


def exported(path):
    import torch

    return torch.export.load(path).module()


def onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    [name] = [given.name for given in session.get_inputs()]
    return lambda x: session.run(None, {name: x})


def aotinductor(path):
    import torch

    return torch._inductor.aoti_load_package(path)


def pickled(path):
    import torch

    return torch.load(path, weights_only=False)


LOADERS = {
    "TorchScript": torchscript,
    "torch.export": exported,
    "ONNX": onnx,
    "AOTInductor": aotinductor,
    "torch.save": pickled,
}


def on_arrays(model):
    """Return a model of torch as a function of arrays, without gradients."""
    import torch

    torch.set_grad_enabled(False)
    return lambda x: [y.numpy() for y in model(torch.from_numpy(x))]


def at_work():
    """Return for each part whether it works, is only there, or not there."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    found = {}
    for name, (module, counter) in MODULES.items():
        there = "there" if module in sys.modules else "not there"
        found[name] = "works" if counters.get(counter) else there
    found["libtorch"] = "works" if "torch" in sys.modules else "not there"
    return found


def main(way, path, asked, told):
    with open(asked, "rb") as file:
        inputs = pickle.load(file)
    begin = time.perf_counter()
    try:
        run = LOADERS[way](path)
        load_s = time.perf_counter() - begin
        if "torch" in sys.modules:
            run = on_arrays(run)
        answers = [run(x) for x in inputs]
        found = {"answers": answers, "load_s": load_s, "parts": at_work()}
    except Exception as error:
        found = {"answers": [], "error": f"{type(error).__name__}: {error}".strip()}
    with open(told, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
