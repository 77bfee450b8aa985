"""The groups of settings of a run, each checked when it is made.

Defaults are the paper's CIFAR-10 setting where the paper gives a value.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scdh.errors import ConfigError


class Settings(BaseModel):
    """A group of settings that rejects unknown keys and cannot be changed after it was checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# The memory for one item grows with these. Model files may be untrusted, so the same limits hold when one is loaded.
LARGEST_IMAGE = 1024  # pixels per side of the network's input
WIDEST_EMBEDDING = 100_000


class DataSettings(Settings):
    """Where items and labels come from, and how they are split (see :mod:`scdh.data`)."""

    source: str = Field("digits", description="built-in name, folder, .parquet/.csv/.npy/.npz path, or hf:owner/name")
    root: str | None = Field(None, description="folder that holds a named benchmark")
    image_column: str | None = None
    vector_column: str | None = Field(None, description="column of a table that holds embeddings")
    label_column: str | None = Field(None, description="one column, or several joined by commas (many labels)")
    label_separator: str = Field(
        "auto", min_length=1, description="between several labels in one cell of text; none: a cell is one label"
    )
    id_column: str | None = Field(None, description="column of a table with the ids shown in results")
    labels: str | None = Field(None, description=".npy file with the labels of a .npy embedding file")
    pairs: str | None = Field(
        None,
        description="table of similar and dissimilar pairs of items (a, b, similar), learned from in place of labels",
    )
    split: Literal["auto", "draw", "given", "all"] = Field(
        "auto", description="auto, draw (by seed), given (the data's own parts), or all (every row trains, no queries)"
    )
    split_column: str | None = Field(None, description="column of a table that holds the split (split)")
    train: str = Field("train", description="word that marks training rows, if it is not a usual one; a,b for two")
    query: str = Field("test", description="word that marks queries; these rows never train")
    validation: str | None = Field(None, description="word that marks validation rows (val)")
    database: str | None = Field(
        None,
        description="word that marks the rows to search (database); none: all that are neither query nor validation",
    )
    query_per_class: int | None = Field(
        None, ge=1, description="queries to draw where none are marked; none: a fifth of each class, at most 100"
    )
    train_per_class: int | None = Field(None, ge=1, description="none: every labelled database item trains")
    labelled_per_class: int | None = Field(
        None,
        ge=1,
        description="how many training rows of a class keep their label; the others train without one, if the "
        "method learns from unlabelled rows",
    )
    validation_per_class: int | None = Field(
        None, ge=0, description="held out of the training rows; 0: no validation; none: a tenth, if there are enough"
    )
    train_on_validation: bool = Field(
        False, description="train on validation rows too, in a final run after they were used to choose settings"
    )
    on_bad_image: Literal["fail", "skip"] = "fail"

    @field_validator("label_separator", mode="before")
    @classmethod
    def _read_none_as_name(cls, value: Any) -> Any:
        return "none" if value is None else value  # in an override "none" means no value; here cells stay whole

    @field_validator("train", "query", "validation", "database", mode="before")
    @classmethod
    def _read_numbers_as_words(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value  # a split may be marked by 0, 1 or true


class NetSettings(Settings):
    """The trunk below the hash layer (see :mod:`scdh.nets`)."""

    backbone: str = "efficientnet_lite0"
    pretrained: bool = True
    image_size: int | None = Field(None, ge=8, le=LARGEST_IMAGE, description="none: the backbone's own")
    evaluation_size: int | None = Field(
        None,
        ge=8,
        le=LARGEST_IMAGE,
        description="size for validation and codes; slightly more than image_size suits random crops",
    )
    crop_fraction: float | None = Field(
        None,
        gt=0,
        le=1,
        description="side of the centre crop as a share of the image's shorter side; 1: the whole square; none: the "
        "backbone's own; random crops ignore it",
    )
    hidden: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="widths of learned layers between backbone (or embeddings) and heads; empty: none"
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="in the trunk and after each hidden layer; none: the backbone's own"
    )
    drop_path: float | None = Field(None, ge=0, lt=1, description="none: the backbone's own")
    standardise: bool = Field(False, description="scale embeddings by mean and deviation of the training rows")
    frozen_batch_norm: bool = Field(False, description="keep the trunk's batch-norm statistics as pretrained")
    freeze: bool | Annotated[int, Field(ge=1)] = Field(
        False,
        description="true: train only the heads, on cached features of the trunk; a number: freeze this many early "
        "stages, and train the later ones on their cached outputs (EfficientNets and ResNets)",
    )
    views: int = Field(
        4,
        ge=0,
        description="augmented copies of each item to cache when the trunk is frozen; 0: cache nothing, so frozen "
        "stages run in every step, on new augmentations",
    )

    @property
    def caches_frozen(self) -> bool:
        """Whether outputs of frozen layers are computed once and kept."""
        return bool(self.freeze) and self.views > 0

    def without_layers(self) -> "NetSettings":
        """The settings for a fitted method, which reads the trunk's features or the embeddings: learned layers would
        stay random.
        """
        return self.model_copy(update={"hidden": [], "standardise": False})

    @model_validator(mode="after")
    def _check_sizes(self) -> "NetSettings":
        if self.evaluation_size is not None and self.image_size is None:
            raise ConfigError("net.evaluation_size needs net.image_size too.")
        return self

    @model_validator(mode="after")
    def _check_frozen_trunk(self) -> "NetSettings":
        if self.freeze is True and not self.views:
            raise ConfigError("net.views=0 needs net.freeze to be a number of stages; set net.views to 1 or more.")
        if self.freeze is not True and self.caches_frozen and self.evaluation_size not in (None, self.image_size):
            raise ConfigError(
                "net.evaluation_size must equal net.image_size if net.freeze is a number of stages; or set net.views=0."
            )
        for key in ("dropout", "drop_path"):
            if self.freeze is True and getattr(self, key) is not None and not (key == "dropout" and self.hidden):
                raise ConfigError(
                    f"net.{key} acts inside the trunk, which net.freeze leaves unchanged; set one of them."
                )
        return self


class TrainSettings(Settings):
    """The loop. The paper: SGD, momentum 0.9, lr 0.001 before fc7's output and 0.01 after, ×0.2 at the steps."""

    epochs: int = Field(160, ge=1)
    batch_size: int = Field(128, ge=1, description="labelled rows of a batch, over all processes together")
    optimiser: Literal["sgd", "adamw"] = "sgd"
    lr_trunk: float = Field(0.001, ge=0)
    lr_head: float = Field(0.01, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD; AdamW's first beta")
    weight_decay: float = Field(5e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    lr_steps: list[int] = Field([100, 140], description="epochs after which the step schedule lowers the rate")
    lr_factor: float = Field(0.2, gt=0, le=1)
    lr_warm_up: float = Field(
        0.0, ge=0, description="epochs of linear rise of the learning rate from 0, at most a quarter of the run"
    )
    clip_norm: float | None = Field(None, gt=0)
    ema: float = Field(0.0, ge=0, lt=1, description="decay of averaged weights used for validation and codes; 0: off")
    recalibrate: bool = Field(False, description="at the end, measure batch-norm statistics again on whole images")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field("auto", description="auto: mixed if there is a GPU")
    augmentation: str = "crop"
    balanced: bool = Field(False, description="draw every class equally often")
    labelled_share: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="of a batch, if a method also learns from unlabelled rows, which are added to batch_size",
    )
    epoch_steps: int | None = Field(
        None,
        ge=1,
        description="steps of an epoch; none: one pass over the labelled training rows (at least 50 steps if "
        "a method also learns from unlabelled rows)",
    )
    workers: int | None = Field(None, ge=0, description="processes that decode images; none: chosen by the machine")
    validation_database: Literal["validation", "train"] = Field(
        "validation",
        description="what validation rows are ranked against: each other, or the training rows, as queries are where "
        "these are most of the database (vectors only: features of a frozen network, or embeddings)",
    )
    validate_every: int = Field(1, ge=1, description="epochs between two validation scores")
    patience: int | None = Field(
        None, ge=1, description="stop after so many validation scores without a better one; none: never before the end"
    )
    keep: Literal["best", "last"] = Field("best", description="which epoch's model is taken, if there is validation")

    @field_validator("augmentation", mode="before")
    @classmethod
    def _read_none_as_name(cls, value: Any) -> Any:
        return "none" if value is None else value  # in an override "none" means no value; here it is an augmentation


class MethodSettings(BaseModel):
    """Which method, how many bits; its own settings (λ, μ, α …) are checked by the method itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "scdh"
    bits: int = Field(32, ge=1, le=65536)

    @property
    def own(self) -> dict[str, Any]:
        """The method's own settings."""
        return dict(self.model_extra or {})
