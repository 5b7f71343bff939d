"""Pairs are cut out of documents: deterministic, of every kind, neighbours side by side."""

from __future__ import annotations

from sentemb.adaptation.pairs import GROUP, draw_pairs
from sentemb.data.documents import Document
from sentemb.data.generated_queries import similar_documents


def test_every_document_has_a_pair_before_one_has_a_second(documents: list[Document]) -> None:
    titled = [Document(one.text, one.id, title=f"number{one.id}") for one in documents]
    pairs = draw_pairs(titled, len(titled), language="en", seed=0)
    words = {one.id: {*one.whole.split()} for one in titled}
    owners = [
        {name for name, own in words.items() if {*pair.query.split(), *pair.document.split()} <= own}
        for pair in pairs
    ]
    assert all(owners)
    assert len(set().union(*owners)) == len(titled)


def test_no_batch_has_a_document_twice() -> None:
    own = [Document(f"some{n} words{n} of{n} one{n} document{n} alone{n}", str(n)) for n in range(40)]
    pairs = draw_pairs(own, 320, language="en", seed=0, batch_size=32)
    numbers = [int("".join(filter(str.isdigit, pair.query.split()[0]))) for pair in pairs]
    for start in range(0, 320, 32):
        assert len({*numbers[start : start + 32]}) == 32
    for start in range(0, 320, 40):  # and none has more than another
        assert len({*numbers[start : start + 40]}) == 40
    own = [Document(f"some{n} words{n} of{n} one{n} document{n} alone{n}", str(n)) for n in range(200)]
    pairs = draw_pairs(own, 50, language="en", seed=0)  # of many documents as many are read
    numbers = [int("".join(filter(str.isdigit, pair.query.split()[0]))) for pair in pairs]
    assert len({*numbers}) == 50
    assert max(numbers) > 100


def test_the_same_seed_gives_the_same_pairs_and_another_gives_others(documents: list[Document]) -> None:
    first, again, other = (draw_pairs(documents, 100, language="en", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert draw_pairs([Document("two words", "0")], 5, language="en", seed=0) == []


def test_titles_and_sentences_are_gone_from_what_they_ask_for() -> None:
    texts = [
        (f"the title of number {n}", f"first line of {n} here\nsecond line of {n} there") for n in range(40)
    ]
    own = [Document(text, str(n), title=title) for n, (title, text) in enumerate(texts)]
    pairs = draw_pairs(own, 400, language="en", seed=0)
    titles = [
        pair for pair in pairs if pair.query.startswith("the title of number") and pair.query[-1].isdigit()
    ]
    titles = [pair for pair in titles if pair.query in {title for title, _ in texts}]
    lines = [pair for pair in pairs if pair.query.startswith(("first line", "second line"))]
    whole_lines = [pair for pair in lines if pair.query.endswith(("here", "there"))]
    assert len(titles) > 25
    assert any(pair.document == dict(texts)[pair.query] for pair in titles)
    assert len(whole_lines) > 50
    assert sum(pair.query not in pair.document for pair in whole_lines) > 50


def test_rare_words_are_asked_for_and_common_ones_are_not() -> None:
    own = [Document(f"the usual words and the zebra{n} lion{n} wolf{n} again", str(n)) for n in range(60)]
    pairs = draw_pairs(own, 300, language="en", seed=0)
    keywords = [pair.query.split() for pair in pairs if {"the", "and"}.isdisjoint(pair.query.split())]
    asked = [query for query in keywords if all(word[-1].isdigit() for word in query)]
    assert len(asked) > 60  # crops of this text are three words or four, with a common one among most
    assert all(len(query) <= 3 for query in asked)


def test_neighbours_share_words_and_copies_are_none() -> None:
    texts = [
        "red cat sat mat",
        "red cat ran park",
        "blue fish swam sea",
        "blue fish ate weed",
        "red cat sat mat",
    ]
    near = similar_documents([*texts, *[f"other{n} words{n} here{n}" for n in range(20)]], language="en")
    assert near[0] == [1]  # not itself, and not its copy
    assert near[2] == [3]
    assert near[10] == []


def test_neighbours_stand_side_by_side() -> None:
    own = [
        Document(f"topic{n // 4} theme{n // 4} own{n} more{n} and{n} words{n} still{n} again{n}", str(n))
        for n in range(80)
    ]
    pairs = draw_pairs(own, 80, language="en", seed=0)
    topics = [pair.document.replace("theme", "topic").split("topic")[-1].split()[0] for pair in pairs]
    together = sum(len({*topics[start : start + GROUP]}) == 1 for start in range(0, 80, GROUP))
    assert together > 12  # of 20; a group that begins late finds its neighbours taken


def test_of_a_line_with_a_colon_what_is_before_it_is_asked_for() -> None:
    lines = "- List the open files: lsof -p {n}\n2. Show all of the ports: ss --tcp {n}\nNote: short head {n}"
    own = [Document(lines.format(n=n), str(n), title=f"tool{n}") for n in range(40)]
    pairs = draw_pairs(own, 600, language="en", seed=0)
    asked = [pair for pair in pairs if pair.query in {"List the open files", "Show all of the ports"}]
    assert len({pair.query for pair in asked}) == 2
    assert not any(pair.query in pair.document for pair in asked)
    assert sum("lsof" in pair.document for pair in asked if pair.query == "List the open files") == 0
    assert any(pair.query.startswith("Note: short head") for pair in pairs)  # one word says too little
