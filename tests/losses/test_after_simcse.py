"""The unsupervised objectives after SimCSE: their formulas as loops in float64, and their presets."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats

from sentemb.errors import InputError
from sentemb.losses import (
    ESimCSELoss,
    FocalInfoNCELoss,
    PromptBERTLoss,
    RankCSELoss,
    RankEncoderLoss,
    SimCSELoss,
    SimCSEPlusPlusLoss,
    SNCSELoss,
    cached,
)
from sentemb.losses.esimcse import repeat_word_pieces
from sentemb.modules import load
from tests.losses.loops import cosine

EXACT = {"atol": 1e-9, "rtol": 1e-9}


@pytest.fixture
def vectors():
    """Make views of n sentences in float64, with a graph."""

    def make(views: int, size: int = 5, width: int = 16, seed: int = 0) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [
            torch.randn(size, width, dtype=torch.float64, generator=generator, requires_grad=True)
            for _ in range(views)
        ]

    return make


def same_with_gradients(loss, views, labels, expected) -> None:
    """Compare a loss with the value of a loop, and the gradients with respect to all views."""
    value = loss.compute_loss_from_embeddings(views, labels)
    value = sum(value.values()) if isinstance(value, dict) else value
    torch.testing.assert_close(value, expected, **EXACT)
    found = torch.autograd.grad(value, views, retain_graph=True, allow_unused=True)
    wanted = torch.autograd.grad(expected, views, allow_unused=True)
    for one, other, view in zip(found, wanted, views, strict=True):
        zero = torch.zeros_like(view)
        torch.testing.assert_close(zero if one is None else one, zero if other is None else other, **EXACT)


def softmax_loop(values: list[torch.Tensor]) -> list[torch.Tensor]:
    total = sum(torch.exp(value) for value in values)
    return [torch.exp(value) / total for value in values]


def info_nce_loop(first, second, temperature=0.05) -> list[torch.Tensor]:
    return [
        -torch.log(softmax_loop([cosine(one, other) / temperature for other in second])[i])
        for i, one in enumerate(first)
    ]


def mean(values):
    return sum(values) / len(values)


# SimCSE++


def off_dropout_loop(first, second, clean, *, weight, leak=None, temperature=0.05):
    losses = []
    for i in range(len(first)):
        positive = weight * cosine(first[i], second[i]) / temperature
        total = torch.exp(positive)
        for j in range(len(first)):
            logit = cosine(clean[i], clean[j]) / temperature
            if j != i:
                total = total + torch.exp(logit)
            elif leak is not None:
                total = total + torch.exp(logit + leak)
        losses.append(-positive + torch.log(total))
    return mean(losses)


def dimension_loop(first, second, temperature):
    size, width = first.shape

    def normalized(view):
        columns = []
        for k in range(width):
            column = view[:, k]
            centered = column - column.mean()
            columns.append(centered / torch.sqrt((centered**2).mean() + 1e-5))
        return columns

    one, other = normalized(first), normalized(second)
    losses = []
    for k in range(width):
        logits = [sum(one[k] * other[m]) / size / temperature for m in range(width)]
        losses.append(-logits[k] + torch.log(sum(torch.exp(logit) for logit in logits)))
    return mean(losses)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_both_additions_of_simcse_plus_plus(encoder64, vectors, size) -> None:
    loss = SimCSEPlusPlusLoss(encoder64, head=None)
    views = vectors(3, size)
    expected = off_dropout_loop(*views, weight=1.0)
    if size > 1:
        expected = expected + 0.1 * dimension_loop(*views[:2], 5.0)
    else:
        assert sum(loss.compute_loss_from_embeddings(views).values()).item() == 0
    same_with_gradients(loss, views, None, expected)


def test_one_addition_of_simcse_plus_plus_alone(encoder64, vectors) -> None:
    views = vectors(3)
    off = SimCSEPlusPlusLoss(encoder64, head=None, dimension_weight=0.0)
    same_with_gradients(off, views, None, off_dropout_loop(*views, weight=0.9))
    dimensions = SimCSEPlusPlusLoss(encoder64, head=None, off_dropout=False)
    expected = mean(info_nce_loop(*views[:2])) + 0.1 * dimension_loop(*views[:2], 5.0)
    same_with_gradients(dimensions, views[:2], None, expected)


def test_released_simcse_plus_plus(encoder64, vectors) -> None:
    views = vectors(3)
    both = SimCSEPlusPlusLoss(encoder64, head=None, preset="released")
    same_with_gradients(both, views[:2], None, mean(info_nce_loop(*views[:2])))
    for temperature in (0.05, 0.01):  # at the second the own column leaks
        off = SimCSEPlusPlusLoss(
            encoder64, head=None, dimension_weight=0.0, preset="released", temperature=temperature
        )
        leak = math.log(1e-45)
        expected = off_dropout_loop(*views, weight=0.9, leak=leak, temperature=temperature)
        same_with_gradients(off, views, None, expected)
    dimensions = SimCSEPlusPlusLoss(encoder64, head=None, off_dropout=False, preset="released")
    expected = mean(info_nce_loop(*views[:2])) + 0.1 * dimension_loop(*views[:2], 10.0)
    same_with_gradients(dimensions, views[:2], None, expected)


def test_the_third_view_has_no_dropout_but_a_gradient(encoder64, sentences) -> None:
    loss = SimCSEPlusPlusLoss(encoder64.train(), head=None)
    features = encoder64.preprocess(sentences(4))
    (*_, view) = loss.views_of([features])
    assert view.dropout == 0
    seen = []
    original = loss.compute_loss_from_embeddings
    loss.compute_loss_from_embeddings = lambda parts, labels: seen.append(parts) or original(parts, labels)
    loss([features])
    first, second, clean = seen[0]
    with torch.no_grad():
        expected = encoder64.eval()(dict(features))["sentence_embedding"]
    torch.testing.assert_close(clean, expected)
    assert clean.requires_grad and not torch.equal(first, second)


# Focal-InfoNCE


@pytest.mark.parametrize("size", [1, 2, 5])
def test_focal_info_nce(encoder64, vectors, size) -> None:
    views = vectors(2, size)
    losses = []
    for i in range(size):
        logits = []
        for j in range(size):
            s = cosine(views[0][i], views[1][j])
            logits.append((s * s if i == j else s * (s + 0.3)) / 0.05)
        losses.append(-torch.log(softmax_loop(logits)[i]))
    same_with_gradients(FocalInfoNCELoss(encoder64, head=None), views, None, mean(losses))


# RankCSE


def consistency_loop(first, second, released):
    losses = []
    for i in range(len(first)):
        p = softmax_loop([cosine(first[i], other) / 0.05 for other in second])
        q = softmax_loop([cosine(second[i], other) / 0.05 for other in first])
        mixture = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        log_mixture = [1e-7 if released else torch.log(m) for m in mixture]
        kl = [sum(a * (torch.log(a) - m) for a, m in zip(side, log_mixture, strict=True)) for side in (p, q)]
        losses.append(sum(kl) / 2)
    return mean(losses)


def list_net_loop(first, second, teacher, *, student_temperature, teacher_temperature):
    losses = []
    for i in range(len(first)):
        others = [j for j in range(len(first)) if j != i]
        if not others:
            return first.sum() * 0
        taught = softmax_loop([cosine(teacher[i], teacher[j]) / teacher_temperature for j in others])
        student = softmax_loop([cosine(first[i], second[j]) / student_temperature for j in others])
        losses.append(-sum(t * torch.log(s) for t, s in zip(taught, student, strict=True)))
    return mean(losses)


def list_mle_loop(first, second, teacher, *, released):
    losses = []
    for i in range(len(first)):
        order = sorted(range(len(first)), key=lambda j: -float(cosine(teacher[i], teacher[j])))
        logits = [cosine(first[i], second[j]) / 0.05 for j in order]
        if released:
            highest = max(logits)
            logits = [logit - highest for logit in logits]
        total = 0
        for k, logit in enumerate(logits):
            tail = sum(torch.exp(other) for other in logits[k:])
            total = total + torch.log(tail + 1e-7 if released else tail) - logit
        losses.append(total)
    return mean(losses)


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("preset", [None, "released"])
@pytest.mark.parametrize("ranking", ["listmle", "listnet"])
def test_rank_cse(encoder64, vectors, ranking, preset, size) -> None:
    views, (teacher,) = vectors(2, size), vectors(1, size, 9, seed=3)
    loss = RankCSELoss(encoder64, head=None, ranking=ranking, preset=preset)
    released = preset == "released"
    if ranking == "listmle":
        ranked = list_mle_loop(*views, teacher.detach(), released=released)
    else:
        warm = 0.05 if released else 0.025
        ranked = list_net_loop(*views, teacher.detach(), student_temperature=0.05, teacher_temperature=warm)
    expected = mean(info_nce_loop(*views)) + consistency_loop(*views, released) + ranked
    same_with_gradients(loss, views, teacher.detach(), expected)


def test_weights_of_rank_cse(encoder64, vectors) -> None:
    views, (teacher,) = vectors(2), vectors(1, seed=3)
    full = RankCSELoss(encoder64, head=None).compute_loss_from_embeddings(views, teacher)
    loss = RankCSELoss(encoder64, head=None, consistency_weight=0.0, ranking_weight=0.5)
    part = loss.compute_loss_from_embeddings(views, teacher)
    assert part.keys() == {"contrast", "ranking"}
    torch.testing.assert_close(part["ranking"], full["ranking"] / 2)


def test_equal_texts_of_the_teacher_keep_their_order(encoder64, vectors) -> None:
    views = vectors(2, 4)
    teacher = torch.ones(4, 3, dtype=torch.float64)
    expected = mean(info_nce_loop(*views)) + consistency_loop(*views, released=False)
    expected = expected + list_mle_loop(*views, teacher, released=False)
    same_with_gradients(RankCSELoss(encoder64, head=None), views, teacher, expected)


# RankEncoder


def rank_encoder_loop(views, base, corpus, *, form):
    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    cosines = unit(base.numpy()) @ unit(corpus.numpy()).T
    size = len(base)
    chosen = []
    for i in range(size):
        for j in range(size):
            r = 1.0 if i == j else float(stats.spearmanr(cosines[i], cosines[j]).statistic)
            low, high = (0.5, 0.9999) if form == "simcse" else (0.5, 0.8)
            if low <= r <= high:
                other = views[0] if form == "simcse" else views[1]
                chosen.append((cosine(views[0][i], other[j]) - r) ** 2)
    distance = 0.05 * sum(chosen) / (len(chosen) + 1e-8) if chosen else views[0].sum() * 0
    contrast = mean(info_nce_loop(*views))
    if form == "simcse":
        return len(chosen), contrast + distance
    return len(chosen), torch.maximum(contrast, distance)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("form", ["simcse", "promptbert"])
def test_rank_encoder(encoder64, vectors, form, size) -> None:
    views = vectors(2, size)
    generator = torch.Generator().manual_seed(1)
    base = 1 + torch.randn(size, 4, dtype=torch.float64, generator=generator)
    corpus = torch.randn(40, 4, dtype=torch.float64, generator=generator)
    corpus[30:] = corpus[:10]  # ties
    bounds = (0.5, 0.9999) if form == "simcse" else (0.5, 0.8)
    loss = RankEncoderLoss(encoder64, corpus=corpus, head=None, form=form, bounds=bounds).double()
    count, expected = rank_encoder_loop(views, base, corpus, form=form)
    assert count or size < 7
    same_with_gradients(loss, views, base, expected)


def test_bad_corpora_are_refused(tiny_encoder) -> None:
    for corpus in (torch.ones(3), torch.ones(1, 4)):
        with pytest.raises(InputError, match="corpus of RankEncoderLoss has shape"):
            RankEncoderLoss(tiny_encoder, corpus=corpus)
    loss = RankEncoderLoss(tiny_encoder, corpus=torch.ones(3, 4))
    with pytest.raises(InputError, match="labels of dimension 5 for a corpus of dimension 4"):
        loss.compute_loss_from_embeddings([torch.ones(2, 16), torch.zeros(2, 16)], torch.ones(2, 5))


# SNCSE


@pytest.mark.parametrize("size", [1, 2, 6])
def test_sncse(encoder64, vectors, size) -> None:
    views = vectors(3, size)
    with torch.no_grad():  # one negation in each of the three ranges
        views[2][:1] = views[0][:1]
        views[1][1:2] = views[0][1:2]
    margins = []
    for sentence, view, negation in zip(*views, strict=True):
        difference = cosine(sentence, negation) - cosine(sentence, view)
        margins.append(torch.relu(difference + 0.1) + torch.relu(-difference - 0.3))
    expected = mean(info_nce_loop(*views[:2])) + 1e-3 * mean(margins)
    same_with_gradients(SNCSELoss(encoder64, head=None), views, None, expected)


def test_the_negation_is_in_no_denominator(tiny_encoder, vectors) -> None:
    loss = SNCSELoss(tiny_encoder, head=None)
    first, second, third = (view.float() for view in vectors(3))
    contrast = loss.compute_loss_from_embeddings([first, second, third])["contrast"]
    plain = SimCSELoss(tiny_encoder, head=None).compute_loss_from_embeddings([first, second])
    torch.testing.assert_close(contrast, plain)


# ESimCSE


def test_esimcse_equals_the_loop_over_steps(encoder64, sentences) -> None:
    """Three steps: the loss with the old queue, then the momentum encoder, then the queue."""
    encoder64.train()
    torch.manual_seed(1)
    loss = ESimCSELoss(encoder64, queue_size=5, momentum=0.5, repetition=0.0).double()
    for module in encoder64.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    momentum, queue = copy.deepcopy(encoder64).eval(), []
    for step in range(3):
        features = encoder64.preprocess(sentences(3, seed=step))
        value = loss([features])
        z = loss.head(encoder64(dict(features))["sentence_embedding"])
        losses = []
        for i in range(3):
            total = sum(torch.exp(cosine(z[i], other) / 0.05) for other in [*z, *queue])
            losses.append(-cosine(z[i], z[i]) / 0.05 + torch.log(total))
        torch.testing.assert_close(value, mean(losses), **EXACT)
        with torch.no_grad():
            for own, current in zip(momentum.parameters(), encoder64.parameters(), strict=True):
                own.copy_(0.5 * own + 0.5 * current)
            queue = [*queue, *loss.head(momentum(dict(features))["sentence_embedding"])][-5:]
            for parameter in encoder64.parameters():
                parameter.add_(0.01 * torch.sign(parameter))
    torch.testing.assert_close(loss.memory.queue, torch.stack(queue), **EXACT)


def test_evaluation_leaves_the_memory_alone(tiny_encoder, sentences) -> None:
    loss = ESimCSELoss(tiny_encoder)
    features = tiny_encoder.preprocess(sentences(3))
    before = loss.head_state()
    tiny_encoder.train()
    with torch.no_grad():
        loss([features])
    tiny_encoder.eval()
    loss([features])
    assert all(torch.equal(before[name], value) for name, value in loss.head_state().items())
    tiny_encoder.train()
    loss([features])
    assert (loss.memory.queue[-3:] != 0).any(1).all() and not loss.memory.queue[:-3].any()
    assert not any(
        parameter is own for own in loss.owned_parameters() for parameter in loss.memory.parameters()
    )


def test_the_released_memory_starts_at_random(tiny_encoder) -> None:
    paper, released = ESimCSELoss(tiny_encoder), ESimCSELoss(tiny_encoder, preset="released")
    own = tiny_encoder[0].model.encoder.layer[0].output.dense.weight

    def copied(loss):
        return loss.memory.encoder[0].model.encoder.layer[0].output.dense.weight

    assert torch.equal(copied(paper), own) and not torch.equal(copied(released), own)
    assert released.memory.queue.shape == (160, 16)


@pytest.mark.parametrize(
    ("released", "lengths", "most"),
    [(False, (2, 3, 4, 12, 40), (0, 1, 2, 3, 12)), (True, (2, 3, 4, 12, 40), (0, 0, 0, 2, 9))],
)
def test_word_pieces_are_repeated_in_place(released, lengths, most) -> None:
    width = max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length], mask[row, :length] = torch.arange(1, length + 1), 1
    features = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0, "other": ids[:, :3]}
    torch.manual_seed(0)
    counts = [set() for _ in lengths]
    for _ in range(200):
        repeated = repeat_word_pieces(features, rate=0.32, released=released)
        assert torch.equal(repeated["other"], features["other"])
        for row, length in enumerate(lengths):
            attended = repeated["attention_mask"][row].bool()
            row_ids = repeated["input_ids"][row][attended].tolist()
            assert not repeated["input_ids"][row][~attended].any()
            assert sorted(set(row_ids)) == list(range(1, length + 1)) and row_ids == sorted(row_ids)
            assert row_ids.count(1) == 1 and row_ids.count(length) == 1
            assert max(row_ids.count(token) for token in row_ids) <= 2
            counts[row].add(len(row_ids) - length)
    for row, highest in enumerate(most):
        assert counts[row] == set(range(highest + 1))
    assert torch.equal(features["input_ids"], ids)
    bounded = repeat_word_pieces(features, rate=0.32, longest=41)
    assert bounded["input_ids"].shape[1] <= 41


# PromptBERT


@pytest.fixture
def prompted64(tiny_bert):
    """Return the tiny encoder with prompt pooling, in float64 and without dropout."""
    model = load(tiny_bert, pooling="prompt", max_length=30, device="cpu").double()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


def at_mask(model, prefix, text, suffix, *, gap=None, shift=0):
    """Encode one row of tokens alone; the tokens from `gap` on are moved by `shift` positions."""
    ids = torch.tensor([[*prefix, *text, *suffix]])
    positions = torch.arange(ids.shape[1])
    if gap is not None:
        positions = positions + shift * (torch.arange(ids.shape[1]) >= gap)
    hidden = (
        model[0]
        .model(input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=positions.unsqueeze(0))
        .last_hidden_state[0]
    )
    place = max(i for i, token in enumerate(ids[0].tolist()) if token == model.tokenizer.mask_token_id)
    return hidden[place]


@pytest.mark.parametrize("preset", [None, "released"])
def test_prompt_bert_equals_a_loop_over_sentences(prompted64, sentences, preset) -> None:
    model, tokenizer = prompted64, prompted64.tokenizer
    torch.manual_seed(1)
    loss = PromptBERTLoss(model, preset=preset).double()

    def ids(text):
        return tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids

    texts = [*sentences(4), "a [MASK] cat"]
    first = ([2, *ids('This sentence of "')], [*ids('" means [MASK].'), 3])
    first = ([tokenizer.cls_token_id, *first[0][1:]], [*first[1][:-1], tokenizer.sep_token_id])
    second = ([tokenizer.cls_token_id, *ids('This sentence : "')], first[1])
    z = []
    for template in (first, second):
        gap = len(first[0] if preset else template[0])
        rows = []
        for text in texts:
            tokens = ids(text)
            empty = at_mask(model, template[0], [], template[1], gap=gap, shift=len(tokens))
            rows.append(loss.head(at_mask(model, template[0], tokens, template[1]) - empty))
        z.append(torch.stack(rows))
    expected = mean(info_nce_loop(*z))
    value = loss([model.preprocess(texts)])
    torch.testing.assert_close(value, expected, **EXACT)
    parameters = [p for name, p in loss.named_parameters() if "pooler" not in name]
    found, wanted = (torch.autograd.grad(one, parameters, allow_unused=True) for one in (value, expected))
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, **EXACT)


def test_prompt_bert_in_a_gradient_cache(prompted64, sentences) -> None:
    features = prompted64.preprocess(sentences(7))
    values = []
    for mini_batch_size in (None, 2):
        torch.manual_seed(1)
        loss = cached(PromptBERTLoss(prompted64).double(), mini_batch_size)
        prompted64.zero_grad()
        value = loss([features])
        value.backward()
        weight = prompted64[0].model.encoder.layer[0].output.dense.weight
        values.append((value.detach(), weight.grad.clone()))
    torch.testing.assert_close(*values, **EXACT)


def test_prompt_bert_needs_prompt_pooling(tiny_encoder) -> None:
    with pytest.raises(InputError, match="prompt pooling; load it with pooling='prompt'"):
        PromptBERTLoss(tiny_encoder)
