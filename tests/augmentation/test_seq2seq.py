"""Translation models: batches, samples and fingerprints depend on what they should, and on nothing else."""

from __future__ import annotations

import copy

import pytest
import torch

from sentemb.augmentation import Decoding, Seq2SeqTranslator, seq2seq
from sentemb.augmentation.seq2seq import forced_language
from sentemb.errors import InputError
from tests.augmentation.conftest import build_t5

BEAM = Decoding(beams=3, max_new_tokens=8)
SAMPLED = Decoding(temperature=0.9, max_new_tokens=8)


@pytest.mark.parametrize("kind", ["tiny_t5", "tiny_marian"])
def test_batches_do_not_change_beam_search(kind, texts, request, monkeypatch) -> None:
    some = texts(8)
    translator = Seq2SeqTranslator(request.getfixturevalue(kind), decoding=BEAM)
    whole = translator(some)
    assert whole == translator(some) and len(set(whole)) > 1 and any(whole)  # without dropout
    assert translator([]) == []
    monkeypatch.setattr(seq2seq, "TOKENS_PER_BATCH", 1)
    assert [translator([text])[0] for text in some] == translator(some) == whole
    monkeypatch.setattr(seq2seq, "TOKENS_PER_BATCH", 60)
    assert translator(some) == whole


def test_samples_follow_from_texts_seed_and_draw_alone(tiny_t5, texts) -> None:
    some = texts(8)
    translator = Seq2SeqTranslator(tiny_t5, decoding=SAMPLED)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = translator(some)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers are drawn
    torch.manual_seed(2)
    assert translator(some) == first != translator(some, draw=1)
    assert translator.with_decoding(Decoding(temperature=0.9, max_new_tokens=8, seed=1))(some) != first


def test_the_fingerprint_names_everything_that_decides_a_translation(tiny_t5, tiny_marian, tmp_path) -> None:
    first = Seq2SeqTranslator(tiny_t5, decoding=BEAM)
    assert Seq2SeqTranslator(tiny_t5, decoding=BEAM).fingerprint == first.fingerprint
    others = [
        Seq2SeqTranslator(tiny_t5, decoding=BEAM, prefix="cat "),
        Seq2SeqTranslator(tiny_marian, decoding=BEAM),
        Seq2SeqTranslator(build_t5(tmp_path, seed=9), decoding=BEAM),
        first.with_decoding(Decoding(beams=4, max_new_tokens=8)),
        first.with_decoding(Decoding(beams=3, max_new_tokens=9)),
        first.with_decoding(SAMPLED),
        first.with_decoding(Decoding(temperature=0.7, max_new_tokens=8)),
        first.with_decoding(Decoding(temperature=0.9, max_new_tokens=8, seed=1)),
    ]
    assert len({one.fingerprint for one in [first, *others]}) == 9
    assert copy.copy(others[3]).fingerprint == others[3].fingerprint
    assert Decoding().describe() == {"beams": 100, "max_new_tokens": 256}  # as in the paper
    sampled = Decoding(temperature=0.3).arguments()
    assert (sampled["do_sample"], sampled["top_k"], sampled["top_p"], sampled["num_beams"]) == (True, 0, 1, 1)


def test_texts_have_the_prefix_and_long_ones_are_truncated_and_counted(tiny_t5, tiny_marian, texts) -> None:
    plain, prefixed = (Seq2SeqTranslator(tiny_t5, decoding=BEAM, prefix=prefix) for prefix in ("", "red "))
    assert prefixed(texts(5)) == plain([f"red {text}" for text in texts(5)])
    translator = Seq2SeqTranslator(tiny_marian, decoding=BEAM)
    fitting, longer = " ".join(["cat"] * 23), " ".join([*["cat"] * 23, "dog", "dog"])
    assert (translator.count_too_long([fitting, longer, longer]), translator.count_too_long([])) == (2, 0)
    assert translator([longer]) == translator([fitting])


def test_models_that_do_not_translate_are_refused(tiny_bert, tiny_t5, tmp_path) -> None:
    with pytest.raises(InputError, match="is not a translation model: it is BertModel"):
        Seq2SeqTranslator(tiny_bert)
    with pytest.raises(InputError, match="no such model folder"):
        Seq2SeqTranslator(tmp_path / "absent")
    with pytest.raises(InputError, match="does not support a choice of languages"):
        Seq2SeqTranslator(tiny_t5, source_language="en", target_language="de")
    for option in ({"beams": 0}, {"temperature": 0.0}, {"temperature": float("nan")}, {"max_new_tokens": 0}):
        with pytest.raises(InputError, match=next(iter(option))):
            Decoding(**option)


def test_models_of_many_languages(tiny_t5, texts) -> None:
    translator = Seq2SeqTranslator(tiny_t5, decoding=BEAM)
    tokenizer = translator._tokenizer
    tokenizer.src_lang = None  # as those of M2M100, NLLB and mBART have it
    translator._forced_bos = forced_language(tokenizer, "en", "de", name="many")
    assert (translator._forced_bos, tokenizer.src_lang) == (4, "en")
    assert all(translation.startswith("__de__") for translation in translator(texts(3)))
    with pytest.raises(InputError, match="many is multilingual and needs both languages"):
        forced_language(tokenizer, "en", None, name="many")
    with pytest.raises(InputError, match="many does not support the language 'xx'"):
        forced_language(tokenizer, "en", "xx", name="many")
