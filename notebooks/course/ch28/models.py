"""Small models of real libraries, with random weights, and calls that differ.

    bert = build("bert")
    bert.module(**bert.call[1])

Each maker returns a module and what its users pass: keyword arguments,
dictionaries, key-value caches.  All but torch itself come from the extra
"practice" of pyproject.toml, and are imported when a model is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from course.words import silence

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The inputs of one call: positional ones, and keyword arguments."""
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
"""The sizes that all transformers here share."""


@dataclass(frozen=True)
class Model:
    """A module, and three calls that differ in size, the smallest first."""

    name: str
    module: nn.Module
    calls: tuple[Call, Call, Call]

    @property
    def call(self) -> Call:
        """The smallest call."""
        return self.calls[0]


Maker = Callable[[], tuple[nn.Module, tuple[Call, Call, Call]]]
MAKERS: dict[str, tuple[str, Maker]] = {}


def model(library: str) -> Callable[[Maker], Maker]:
    """Enter a maker under its own name as a model that needs *library*."""

    def enter(make: Maker) -> Maker:
        MAKERS[make.__name__] = library, make
        return make

    return enter


def build(name: str) -> Model:
    """Return the model *name* in eval mode, with the same weights each time.

    Raises ImportError when its library is not installed.
    """
    library, make = MAKERS[name]
    # Libraries tell of parts that this machine lacks.
    with silence(), torch.random.fork_rng():
        importlib.import_module(library)
        torch.manual_seed(0)
        module, calls = make()
    return Model(name, module.eval(), calls)


def _tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(1, 99, (rows, length))


def _by_name(*calls: dict[str, Any]) -> Any:
    return tuple(((), call) for call in calls)


@model("transformers")
def bert() -> Any:
    """An encoder of text, called with what a tokenizer returns."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        **SMALL,
        num_hidden_layers=1,
        vocab_size=100,
        max_position_embeddings=64,
    )

    def encoded(rows: int, length: int) -> dict[str, torch.Tensor]:
        mask = torch.ones(rows, length, dtype=torch.int64)
        mask[-1, length // 2 :] = 0  # the last text is shorter
        return {"input_ids": _tokens(rows, length), "attention_mask": mask}

    return BertModel(config), _by_name(encoded(2, 8), encoded(3, 12), encoded(4, 16))


@model("transformers")
def llama() -> Any:
    """A decoder with a static key-value cache of 16 places as an input."""
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(
        **SMALL,
        num_hidden_layers=1,
        num_key_value_heads=2,
        vocab_size=100,
        max_position_embeddings=64,
    )

    def prompt(length: int) -> dict[str, Any]:
        cache = StaticCache(config=config, max_cache_len=16)
        return {"input_ids": _tokens(1, length), "past_key_values": cache}

    return LlamaForCausalLM(config), _by_name(prompt(5), prompt(7), prompt(11))


@model("transformers")
def vit() -> Any:
    """A transformer of images."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(**SMALL, num_hidden_layers=1, image_size=32, patch_size=8)
    images = [{"pixel_values": torch.randn(rows, 3, 32, 32)} for rows in (2, 3, 4)]
    return ViTModel(config), _by_name(*images)


@model("transformers")
def whisper() -> Any:
    """An encoder of speech: convolutions, then a transformer."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        max_source_positions=50,
    )
    return WhisperEncoder(config), tuple(
        ((torch.randn(rows, 8, 100),), {}) for rows in (1, 2, 3)
    )


@model("transformers")
def conformer() -> Any:
    """An encoder of speech whose chunks of sound have different lengths."""
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel

    config = Wav2Vec2ConformerConfig(
        **SMALL,
        num_hidden_layers=1,
        num_feat_extract_layers=2,
        conv_dim=(8, 8),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        conv_depthwise_kernel_size=5,
    )
    chunks = tuple(((torch.randn(2, n),), {}) for n in (800, 960, 1120))
    return Wav2Vec2ConformerModel(config), chunks


@model("transformers")
def resnet() -> Any:
    """A convolutional network of images, of three sizes of image."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        num_labels=5,
    )
    images = [{"pixel_values": torch.randn(2, 3, n, n)} for n in (32, 48, 64)]
    return ResNetForImageClassification(config), _by_name(*images)


@model("diffusers")
def unet() -> Any:
    """The denoiser of a diffusion model: latents, a time, a prompt."""
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8,),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=4,
        mid_block_type=None,
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("UpBlock2D",),
    )

    def step(size: int) -> Call:
        prompt = torch.randn(1, 6, 16)
        latents = torch.randn(1, 4, size, size)
        return (latents, torch.tensor(7)), {"encoder_hidden_states": prompt}

    return module, (step(8), step(16), step(24))


@model("peft")
def lora() -> Any:
    """BERT with adapters of low rank on its attention."""
    from peft import LoraConfig, get_peft_model

    module, calls = bert()
    adapters = LoraConfig(r=4, target_modules=["query", "value"])
    return get_peft_model(module, adapters), calls


@model("torch_geometric")
def sage() -> Any:
    """A graph network: features of nodes, and edges as pairs of nodes."""
    from torch_geometric.nn import GraphSAGE

    def graph(nodes: int) -> Call:
        edges = torch.randint(0, nodes, (2, 4 * nodes))
        return (torch.randn(nodes, 8), edges), {}

    module = GraphSAGE(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
    return module, (graph(20), graph(30), graph(50))


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

    def forward(self, images: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        places = self.head(self.backbone(images)).flatten(2).transpose(1, 2)
        return [self.best(found) for found in places]

    @torch.no_grad()
    def best(self, places: torch.Tensor, most: int = 4) -> dict[str, torch.Tensor]:
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


class FixedDetector(Detector):
    """The same detector, always with as many boxes: some score 0."""

    def __init__(self, detector: Detector) -> None:
        nn.Module.__init__(self)  # the weights are those of *detector*
        self.backbone, self.head = detector.backbone, detector.head
        self.threshold = detector.threshold

    @torch.no_grad()
    def best(self, places: torch.Tensor, most: int = 4) -> dict[str, torch.Tensor]:
        """Return *most* boxes of one image; those that are none score 0."""
        boxes, scores = places[:, :4], places[:, 4].sigmoid()
        left = torch.where(scores > self.threshold, scores, 0)
        chosen, kept = [], []
        for _ in range(most):
            score, best = left.max(0)
            box = boxes.index_select(0, best[None])[0]
            chosen.append(box)
            kept.append(score)
            left = torch.where(overlap(box, boxes) < 0.5, left, 0)
        return {"boxes": torch.stack(chosen), "scores": torch.stack(kept)}


@model("torch")
def detector() -> Any:
    """A detector with as many boxes as the image has."""
    images = tuple(((torch.randn(1, 3, n, n),), {}) for n in (32, 48, 64))
    return Detector(), images


class Policy(nn.Module):
    """The actor and the critic of PPO: logits of two actions, and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(state)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


def episode(policy: Callable[..., Any], steps: int) -> tuple[torch.Tensor, ...]:
    """Play *steps* in an environment that is plain Python."""
    place, speed, kept = 0.0, 0.1, []
    for _ in range(steps):
        state = torch.tensor([place, speed, place * speed, 1.0])
        logits, value = policy(state)
        action = torch.multinomial(logits.softmax(-1), 1).item()
        speed += 0.1 if action else -0.1
        place += speed
        kept.append((state, action, logits[action], value, 1 - abs(place)))
    columns = list(zip(*kept, strict=True))
    gained = torch.tensor(columns[4]).flip(0).cumsum(0).flip(0)
    return (
        torch.stack(columns[0]),
        torch.tensor(columns[1]),
        torch.stack(columns[2]).detach(),
        gained - torch.stack(columns[3]).detach(),
    )


def ppo_loss(
    policy: Callable[..., Any],
    states: torch.Tensor,
    actions: torch.Tensor,
    before: torch.Tensor,
    better: torch.Tensor,
) -> torch.Tensor:
    """Return PPO's clipped loss, and that of the critic."""
    logits, values = policy(states)
    chosen = logits.gather(1, actions[:, None]).squeeze(1)
    ratio = (chosen - before).exp()
    clipped = ratio.clamp(0.8, 1.2)
    wanted = torch.minimum(ratio * better, clipped * better).mean()
    return (better - values).square().mean() - wanted


@model("torch")
def ppo() -> Any:
    """The two heads of PPO, on three numbers of states."""
    return Policy(), tuple(((torch.randn(n, 4),), {}) for n in (5, 7, 6))
