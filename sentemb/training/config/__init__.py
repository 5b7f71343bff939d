"""Configurations: one typed model per kind of run, from which TOML, flags, help and checks all come.

Importing this imports no torch.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from sentemb.errors import InputError
from sentemb.limits import refuse_above
from sentemb.training.config.base import CheckedModel as CheckedModel
from sentemb.training.config.base import EncoderConfig as EncoderConfig
from sentemb.training.config.base import Options, Preset, Seed, Seeds
from sentemb.training.config.base import OptionValue as OptionValue
from sentemb.training.config.base import RunConfig as RunConfig

Metric = Literal["accuracy", "macro_f1", "f1", "matthews"]
"""Chooses the best checkpoint; `f1` is that of the second of two classes."""
HeadKind = Literal["linear", "label", "label-fusion", "leam", "lsan"]
"""A key of `sentemb.modules.heads.HEADS`."""


class TrainConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything that decides the weights of an encoder trained on text, and where they go.

    Example:
        >>> resolve("simcse", overrides={"data": "sentences.txt", "output": "mine"}).max_length
        32
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*RunConfig.free_to_change, "data", "cache_dir")

    data: str
    """Training texts: a file, folder, hub id or catalogue name."""
    columns: tuple[str, ...] | None = None
    """Text columns in the order that the loss expects. By default those of the catalogue entry, the only
    column, or the column `text` or `sentence`."""
    label: str | None = None
    """Label column of labelled pairs: 1 for paraphrases, 0 for other pairs."""
    deduplicate: bool = False
    """Remove duplicate rows. Labelled pairs are always deduplicated."""
    teachers: tuple[str, ...] = ()
    """Frozen encoders whose vectors of the texts a loss learns from: folders, bundled models or hub ids. The
    losses of RankCSE, RankEncoder and distillation need them."""
    teacher_weights: tuple[float, ...] | None = None
    """Weight of each teacher's cosine. Equal weights by default."""
    cache_dir: str | None = None
    """Folder that caches the teachers' vectors: with one, several seeds encode their texts once."""
    corpus_size: int = Field(10_000, ge=2)
    """Sentences of the corpus of RankEncoder's rank vectors, drawn from the training texts."""
    dev: str = "stsb"
    """Dev set that selects the best checkpoint: a catalogue name, a file of scored pairs, `sentemb-pairs` for
    the bundled ones, or `none`. Several, separated by commas, select by the mean of their correlations. If
    STS-B is not available, your own sentences are trained with the bundled pairs."""
    eval_steps: int = Field(ge=1)
    """Optimizer steps between evaluations and between checkpoints."""
    data_dir: str | None = None
    """Folder of local data sets. SENTEMB_DATA by default."""


class PairsConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything that decides the weights of an encoder trained on pairs, and where they go.

    Example:
        >>> config = resolve("pairs", overrides={"data": "pairs.jsonl", "base": "bert-mini", "output": "m"})
        >>> config.held_out
        0.15
    """

    # The record knows the content of the data, however its path is written.
    free_to_change: ClassVar[tuple[str, ...]] = (*RunConfig.free_to_change, "data")

    data: str
    """Pairs of a question and its passage, optionally with hard negatives: a file, folder, hub id or
    catalogue name."""
    columns: tuple[str, ...] | None = None
    """Columns of the question, the passage and any hard negatives. By default columns with common names, such
    as anchor, positive and negative, or question and answer."""
    held_out: float = Field(0.15, ge=0, le=0.3)
    """Fraction of the questions held out twice, 30 to 500 each time: one split selects the checkpoint, the
    other gives the verdict. 0 trains on all questions and keeps the weights of the last step."""
    eval_steps: int | None = Field(None, ge=1)
    """Optimizer steps between evaluations and between checkpoints. Ten evaluations per run by default."""
    data_dir: str | None = None
    """Folder of local data sets. SENTEMB_DATA by default."""


class ProbeOptions(CheckedModel):
    """Options of SupCL-Seq's second stage: a linear head on the frozen encoder, as in its notebooks."""

    learning_rate: float = Field(1e-3, ge=0)
    """Peak learning rate of AdamW."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay, applied to all weights except biases."""
    warmup_steps: int = Field(50, ge=0)
    """Number of warmup steps, at most a tenth of all steps. The learning rate then decays linearly to 0."""
    epochs: int = Field(5, ge=1)
    """Number of epochs. The head is evaluated after each one. The notebooks use 3 to 5."""
    min_steps: int = Field(390, ge=0)
    """Minimum number of steps in total. A small set is repeated within an epoch until it is reached. 390 is
    the number of steps in five epochs of RTE, the smallest set on which the paper improves. The notebooks use
    0."""
    batch_size: int = Field(32, ge=1, le=2**31 - 1)
    """Vectors per step. The paper does not state it."""
    clip: float = Field(1.0, ge=0)
    """Maximum gradient norm. The default is the library's."""
    encoder_dropout: bool = False
    """Keep the dropout of the frozen encoder active, as in the released code, and encode the texts again for
    each pass."""

    def passes(self, rows: int) -> int:
        """Passes over the vectors in an epoch, one or more."""
        return max(1, -(-self.min_steps // (self.epochs * self.steps(rows))))

    def steps(self, rows: int) -> int:
        """Optimizer steps of a pass."""
        return -(-rows // self.batch_size)


def _free_options(options: Options) -> Options:
    if taken := {"kind", "width", "classes"} & options.keys():
        raise InputError(
            f"head_options cannot set {min(taken)}", "remove it: the encoder and the data determine it"
        )
    return options


class ClassifierConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything but the data that decides the weights of a classifier, and where they go.

    A loss that takes a head trains it together with the encoder. Any other loss trains the encoder alone, and
    a linear head is then fitted on the frozen encoder: the second stage of SupCL-Seq.

    Example:
        >>> resolve("ce", overrides={"base": "bert-mini", "output": "mine"}).batch_size
        32
    """

    head: HeadKind = "linear"
    """Classification head."""
    head_options: Annotated[Options, AfterValidator(_free_options)] = Field({})
    """Arguments of the head, except its width and classes."""
    probe_options: Options = Field({})
    """Options of the second stage; see `ProbeOptions`."""
    self_supervised: bool = False
    """Hide the labels from the loss, so that each text and its views form a class of their own. Only the
    second stage uses the labels."""
    metric: Metric = "accuracy"
    """Validation metric that selects the weights."""
    eval_steps: int | None = Field(None, ge=1)
    """Optimizer steps between evaluations. Once per epoch by default."""

    @property
    def probe(self) -> ProbeOptions:
        """The options of the second stage, checked."""
        return ProbeOptions(**self.probe_options)

    @model_validator(mode="after")
    def _check_probe(self) -> Self:
        try:
            _ = self.probe
        except InputError as error:
            message = error.message.replace("unknown setting", "unknown option of the second stage")
            where = "" if "unknown" in message else "probe_options."
            raise InputError(where + message, error.hint) from None
        return self


Task = Literal["sentiment", "paraphrase", "similarity"]
Sharing = Literal["none", "separate", "first-layer", "full"]
"""What the heads of paraphrase and similarity have in common; `none` has no layers for them at all."""
TaskSchedule = Literal["average", "batch-round-robin", "epoch-round-robin"]
"""How an epoch mixes the tasks: every step on the mean of the tasks' losses, steps of the tasks in turn, or
one whole set after the other."""
ContrastSource = Literal["given", "quora", "nli"]
"""The three sets of the tasks, the paraphrase set alone, or NLI triples."""


class MultiTaskConfig(CheckedModel, EncoderConfig, RunConfig):
    """Everything but the data that decides the weights of a model of several tasks, and where they go.

    A run is made of stages with an optimizer each: contrast on each of `contrast_data` and the tasks, in the
    order that `contrast` says; a stage starts from the last weights of the one before. Every epoch of the
    last stage is evaluated on the dev sets, also by the stopping rule. `epochs` and `learning_rate` are those
    of the tasks; `max_steps` and `warmup` count within each stage.

    `loss` is `ParaphraseContrastLoss`, the contrast of labelled pairs, whose head and temperature the other
    kinds of contrast share. A fused batch takes two optimizer steps, first the task, then contrast. Under
    `preset="released"` gradient surgery is that of the released code, and the loss of sentiment is divided by
    the batch size also in a smaller last batch, as in the starter code.

    Example:
        >>> resolve("table2-given", overrides={"output": "mine"}).batch_size
        16
    """

    loss: Literal["ParaphraseContrastLoss"] = "ParaphraseContrastLoss"
    """Contrastive loss."""
    tasks: tuple[Task, ...] = ("sentiment", "paraphrase", "similarity")
    """Tasks to train."""
    sharing: Sharing = "first-layer"
    """Layers that the heads of paraphrase and similarity share. With `none` they have no layers at all."""
    head_dropout: float = Field(0.3, ge=0, le=0.99)
    """Dropout probability in the task heads."""
    task_schedule: TaskSchedule = "average"
    """How an epoch combines the tasks."""
    gradient_surgery: bool = False
    """Use gradient surgery (PCGrad) between the tasks instead of averaging their losses."""
    contrast: Literal["none", "before", "after", "fused"] = "before"
    """When the contrastive stage runs: before or after the tasks, or `fused` with one task. Fused: each batch
    of the task is trained on the task and then on the contrastive loss; the other sets follow on the
    contrastive loss alone."""
    contrast_data: tuple[ContrastSource, ...] = ("given",)
    """Data of the contrastive stages, one stage each."""
    contrast_supervised: bool = True
    """Use the labels of the paraphrase set. Otherwise its texts become dropout views like those of the other
    two sets, and the sentiment set comes first."""
    contrast_epochs: int = Field(5, ge=1)
    """Contrastive epochs on the tasks' own sets."""
    nli_epochs: int = Field(3, ge=1)
    """Contrastive epochs on NLI triples."""
    contrast_learning_rate: float = Field(2e-5, ge=0)
    """Learning rate of contrastive stages. A fused stage uses the learning rate of the tasks."""
    paraphrase_share: float = Field(1.0, ge=0, le=1)
    """Fraction of the paraphrase set sampled in each contrastive epoch."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        for name, least in (("tasks", 1), ("contrast_data", 0 if self.contrast == "none" else 1)):
            chosen = getattr(self, name)
            if len(chosen) < least or len(set(chosen)) != len(chosen):
                raise InputError(
                    f"{name} is {', '.join(chosen) or 'empty'}",
                    "list each value once, and at least one value",
                )
        if self.gradient_surgery and (self.task_schedule != "average" or len(self.tasks) < 2):
            raise InputError(
                "gradient_surgery needs two or more tasks in one step",
                "set task_schedule=average and list two or more tasks",
            )
        if self.contrast == "fused" and (len(self.tasks) != 1 or self.contrast_data != ("given",)):
            raise InputError(
                "contrast=fused needs exactly one task and contrast_data=given",
                "for example, set tasks=sentiment and contrast_data=given",
            )
        return self


class PretrainConfig(CheckedModel, RunConfig):
    """Everything that decides the weights of a masked language model, and where they go.

    Example:
        >>> resolve("mlm", overrides={"corpus": ["sentences.txt"], "output": "mine"}).batch_size
        32
    """

    # Where a run ends and what it writes down may change when it is resumed.
    free_to_change: ClassVar[tuple[str, ...]] = (
        *("output", "precision"),
        *("max_steps", "max_minutes", "save_minutes", "log_steps"),
    )

    corpus: tuple[str, ...] = Field(min_length=1)
    """Text files (.txt, .txt.gz, .txt.xz; one document per line) or folders of such files."""
    base: str | None = None
    """Model to continue pretraining. By default a new BERT and its vocabulary are created."""
    exclude: tuple[str, ...] = ()
    """Files of sentences that must not occur in training lines, such as test sets."""
    vocabulary: int = Field(16_000, ge=300)
    """Vocabulary size of a new tokenizer."""
    layers: int = Field(6, ge=1)
    """Number of layers of a new BERT. A new BERT has at most 1,000 million weights."""
    width: int = Field(256, ge=1)
    """Hidden size of a new BERT."""
    heads: int = Field(4, ge=1)
    """Attention heads of a new BERT."""
    inner_width: int = Field(1024, ge=1)
    """Feed-forward size of a new BERT."""
    positions: int = Field(128, ge=1)
    """Position embeddings of a new BERT. Those beyond `length` stay untrained."""
    initialise: Literal["cooccurrence", "random"] = "cooccurrence"
    """Initialization of the token embeddings of a new BERT."""
    length: int = Field(128, ge=8)
    """Tokens per row."""
    masking_rate: float = Field(0.15, gt=0, lt=1)
    """Fraction of tokens to mask. BERT uses 0.15. Efficient recipes use up to 0.4 (Wettig et al., Should You
    Mask 15% in Masked Language Modeling?, EACL 2023)."""
    embedding_rate: float = Field(1.0, ge=0, le=1)
    """Multiplier of the learning rate for the token embeddings."""
    dropout: float = Field(0.0, ge=0, le=1)
    """Dropout during pretraining. 0 suits text that is seen about once. The saved configuration keeps the
    model's own rate for later fine-tuning."""
    max_minutes: float | None = Field(None, gt=0)
    """Time limit in minutes. The learning rate decays to zero at its end."""
    save_minutes: float = Field(5.0, gt=0)
    """Minutes between checkpoints."""
    log_steps: int = Field(50, ge=1)
    """Optimizer steps between metric lines."""
    validation_share: float = Field(0.002, gt=0, lt=1)
    """Fraction of documents held out for validation."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Floating-point type. `auto` takes bfloat16 where the processor or GPU has instructions for it."""
    seeds: Seeds = (0,)
    """Random seed for initialization, data order, masking and dropout."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.base is None:
            if self.width % self.heads:
                raise InputError(
                    f"the width {self.width} is not divisible by {self.heads} heads", "change width or heads"
                )
            if self.length > self.positions:
                raise InputError(
                    f"length {self.length} is above the {self.positions} positions of the new model",
                    "raise positions or lower length",
                )
            layer = 4 * self.width**2 + 2 * self.width * self.inner_width
            weights = self.layers * layer + (self.vocabulary + self.positions) * self.width
            refuse_above("weights", weights / 1e6, "layers, width, inner_width, vocabulary, positions")
        return self


OptimizerKind = Literal["adamw", "bert-adam"]
"""`bert-adam` is BERT's own: Adam without bias correction, with decoupled weight decay."""


class _FlowFields(BaseModel):
    levels: int = Field(3, ge=1)
    """Levels (l3)."""
    steps: int = Field(3, ge=1)
    """Flow steps per level (d3)."""
    width: int = Field(32, ge=1)
    """Width of the hidden layers in the couplings (w32)."""
    coupling: Literal["additive", "affine"] = "additive"
    """Coupling layer: `additive` as in the released configuration, or `affine`, an option of its code."""
    permutation: Literal["reverse", "learned"] = "reverse"
    """Permutation of dimensions: `reverse` as in the released configuration, or `learned` as in Glow."""
    # The first sentences of a batch initialise the flow, which takes two.
    batch_size: int = Field(32, ge=2, le=2**31 - 1)
    """Sentence pairs per step."""
    epochs: int = Field(1, ge=1)
    """Number of passes over the pairs."""
    learning_rate: float = Field(1e-3, gt=0)
    """Constant."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay, applied to every weight of the flow."""
    clip: float = Field(1.0, gt=0)
    """Maximum global gradient norm."""
    optimizer: OptimizerKind = "adamw"
    """Optimizer: AdamW with bias correction, or `bert-adam`, the Adam of the released code."""
    encoder_dropout: bool = False
    """Encode the training sentences with dropout, a side effect of the released code."""
    seed: Seed = 1
    """Random seed for the weights of the flow, the order of the pairs and dropout."""


class FlowConfig(CheckedModel, _FlowFields):
    """The flow's shape and its training; defaults are the released configuration `l3_d3_w32`.

    Example:
        >>> FlowConfig(epochs=2).levels
        3
    """


class _RunFields(BaseModel):
    recipe: str
    """Name of the recipe that sets the defaults."""
    preset: Preset = "paper"
    """`paper` for the values of the paper, `released` for those of the published code."""
    base: str
    """Encoder: a folder, a hub id or a bundled model."""
    output: str
    """Output folder of the model."""
    pooling: str | None
    """Pooling of token vectors. The recipe's pooling applies to a pretrained base, that is, a transformer
    without sentence-level training. A finished sentence encoder keeps its own pooling unless you set this."""
    data: str
    """Sentences or sentence pairs: a file, folder, hub id or catalogue name."""
    columns: tuple[str, ...] | None = None
    """One text column, or both columns of pairs: a,b."""
    data_dir: str | None = None
    """Folder of local data sets. SENTEMB_DATA by default."""
    cache_dir: str | None = None
    """Folder that caches the encoder's vectors."""
    max_length: int = Field(ge=3)
    """Maximum length of a sentence in tokens while fitting. The model keeps its own limit."""


class FlowRunConfig(CheckedModel, _RunFields, _FlowFields):
    """A run that fits BERT-flow."""

    @property
    def flow(self) -> FlowConfig:
        """The flow's part."""
        return FlowConfig(**{name: getattr(self, name) for name in FlowConfig.model_fields})


class WhiteningRunConfig(CheckedModel, _RunFields):
    """A run that fits BERT-whitening."""

    dimensions: int | None = Field(None, ge=1)
    """Number of leading dimensions to keep. All by default."""
