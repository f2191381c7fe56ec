"""Small models of real libraries, with random weights, and calls that differ.

    bert = build("bert")
    bert.module(**bert.call)

Each maker returns a module and three calls as its users make them: keyword
arguments, key-value caches.  The libraries come from the extra "practice" of
pyproject.toml, and are imported when a model is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from course.words import silence

Call = dict[str, Any]
"""The keyword arguments of one call."""
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
}
"""The sizes that three of the transformers share."""


class Model(NamedTuple):
    """A module, and three calls that differ in size, the smallest first."""

    name: str
    module: nn.Module
    calls: list[Call]

    @property
    def call(self) -> Call:
        """The smallest call."""
        return self.calls[0]


def build(name: str) -> Model:
    """Return the model *name* in eval mode, with the same weights each time.

    Raises ImportError when its library is not installed.
    """
    with same_weights():
        module, calls = MAKERS[name]()
    return Model(name, module.eval(), calls)


@contextmanager
def same_weights() -> Iterator[None]:
    """Draw the same numbers each time, and keep what libraries tell off the page."""
    with silence(), torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(1, 99, (rows, length))


# ----------------------------------------------------------------------- text


def bert() -> tuple[nn.Module, list[Call]]:
    """An encoder of text, called with what a tokenizer returns."""
    from transformers import BertConfig, BertModel

    config = BertConfig(**SMALL, vocab_size=100, max_position_embeddings=64)
    module = BertModel(config)

    def encoded(rows: int, length: int) -> Call:
        mask = torch.ones(rows, length, dtype=torch.int64)
        mask[-1, length // 2 :] = 0  # the last text is shorter
        return {"input_ids": _tokens(rows, length), "attention_mask": mask}

    return module, [encoded(2, 8), encoded(3, 12), encoded(4, 16)]


def llama_of(layers: int = 1, **settings: Any) -> nn.Module:
    """Return a Llama of width 64; *settings* are others of its LlamaConfig."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
    }
    # No token begins or ends a text.
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    return LlamaForCausalLM(LlamaConfig(**sizes | special | settings))


def llama() -> tuple[nn.Module, list[Call]]:
    """A decoder with a static key-value cache of 16 places as an input."""
    from transformers import StaticCache

    module = llama_of()

    def prompt(length: int) -> Call:
        cache = StaticCache(config=module.config, max_cache_len=16)
        return {"input_ids": _tokens(1, length), "past_key_values": cache}

    return module, [prompt(5), prompt(7), prompt(11)]


def adapter(rank: int = 4, alpha: int = 8) -> Any:
    """Return peft's settings of an adapter that does something from the start."""
    with silence():  # it tells of parts that this machine lacks
        from peft import LoraConfig

    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=["q_proj", "v_proj"],
        init_lora_weights=False,
    )


def adapted(module: nn.Module, adapters: Mapping[str, Any]) -> Any:
    """Return a Llama with *adapters* on its attention, by name; the first is active."""
    from peft import get_peft_model

    (first, settings), *others = adapters.items()
    model = get_peft_model(module, settings, adapter_name=first)
    for name, each in others:
        model.add_adapter(name, each)
    return model.eval()


def lora() -> tuple[nn.Module, list[Call]]:
    """A Llama without a cache, and two adapters of low rank: user0 and user1."""
    base = llama_of(use_cache=False)
    module = adapted(base, {"user0": adapter(), "user1": adapter()})
    return module, [{"input_ids": _tokens(2, length)} for length in (5, 7, 11)]


# ------------------------------------------------------------ images and sound


def vit() -> tuple[nn.Module, list[Call]]:
    """A transformer of images."""
    from transformers import ViTConfig, ViTModel

    module = ViTModel(ViTConfig(**SMALL, image_size=32, patch_size=8))
    return module, [{"pixel_values": torch.randn(n, 3, 32, 32)} for n in (2, 3, 4)]


def resnet() -> tuple[nn.Module, list[Call]]:
    """A convolutional network of images, of three sizes of image."""
    from transformers import ResNetConfig, ResNetForImageClassification

    module = ResNetForImageClassification(
        ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            layer_type="basic",
            num_labels=5,
        )
    )
    return module, [{"pixel_values": torch.randn(2, 3, n, n)} for n in (32, 48, 64)]


def unet() -> tuple[nn.Module, list[Call]]:
    """The denoiser of a diffusion model: latents, a time, a prompt."""
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(16,),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=8,
        down_block_types=("DownBlock2D",),
        mid_block_type=None,
        up_block_types=("CrossAttnUpBlock2D",),
    )

    def step(side: int) -> Call:
        return {
            "sample": torch.randn(1, 4, side, side),
            "timestep": torch.tensor(7),
            "encoder_hidden_states": torch.randn(1, 5, 16),
        }

    return module, [step(8), step(16), step(24)]


def whisper() -> tuple[nn.Module, list[Call]]:
    """An encoder of speech: convolutions, then a transformer."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    module = WhisperEncoder(
        WhisperConfig(
            num_mel_bins=8,
            d_model=32,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=64,
            max_source_positions=50,
        )
    )
    return module, [{"input_features": torch.randn(n, 8, 100)} for n in (1, 2, 3)]


def conformer() -> tuple[nn.Module, list[Call]]:
    """An encoder of speech whose chunks of sound have different lengths."""
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel

    module = Wav2Vec2ConformerModel(
        Wav2Vec2ConformerConfig(
            **SMALL,
            num_feat_extract_layers=2,
            conv_dim=(8, 8),
            conv_stride=(5, 4),
            conv_kernel=(10, 8),
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=4,
            conv_depthwise_kernel_size=5,
        )
    )
    return module, [{"input_values": torch.randn(2, n)} for n in (800, 960, 1120)]


# --------------------------------------------------------------- other shapes


def sage() -> tuple[nn.Module, list[Call]]:
    """A graph network: features of nodes, and edges as pairs of nodes."""
    from torch_geometric.nn import GraphSAGE

    def graph(nodes: int) -> Call:
        edges = torch.randint(0, nodes, (2, 4 * nodes))
        return {"x": torch.randn(nodes, 8), "edge_index": edges}

    module = GraphSAGE(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
    return module, [graph(20), graph(30), graph(50)]


Boxes = dict[str, torch.Tensor]
"""The boxes of one image, and their scores."""


class Detector(nn.Module):
    """Boxes above a score, without those that overlap a better one.

    How many there are depends on the image, so a compiler has to stop.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(8, 5, 1)  # left, top, width, height, score
        self.threshold = threshold

    def forward(self, images: torch.Tensor) -> list[Boxes]:
        places = self.head(self.backbone(images)).flatten(2).transpose(1, 2)
        return [self.best(found) for found in places]

    @torch.no_grad()
    def best(self, places: torch.Tensor, most: int = 4) -> Boxes:
        """Return the best boxes of one image, at most *most*."""
        scores = places[:, 4].sigmoid()
        sure = scores > self.threshold
        boxes, scores = places[sure, :4], scores[sure]
        order = scores.argsort(descending=True)
        chosen: list[int] = []
        while order.numel() and len(chosen) < most:
            best = order[0]
            chosen.append(int(best))
            order = order[overlap(boxes[best], boxes[order]) < 0.5]
        return {"boxes": boxes[chosen], "scores": scores[chosen]}


def overlap(box: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the common area of *box* and *others*, over that of both."""
    low = torch.maximum(box[:2], others[:, :2])
    high = torch.minimum(box[:2] + box[2:].abs(), others[:, :2] + others[:, 2:].abs())
    common = (high - low).clamp(min=0).prod(1)
    both = box[2:].abs().prod() + others[:, 2:].abs().prod(1)
    return common / (both - common).clamp(min=1e-6)


def detector() -> tuple[nn.Module, list[Call]]:
    """A detector with as many boxes as the image has."""
    calls = [{"images": torch.randn(1, 3, n, n)} for n in (32, 48, 64)]
    return Detector(), calls


_ALL = bert, llama, lora, vit, resnet, unet, whisper, conformer, sage, detector
MAKERS = {make.__name__: make for make in _ALL}
