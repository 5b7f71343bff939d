"""Negation by rules: a table of sentences by kind, and properties that hold for every text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.augmentation import negate

TABLE = {
    "contractions": """
        I don't like it. = I like it.
        I don’t like it. = I like it.
        He won't come. = He will come.
        He can't swim. = He can swim.
        We shan't be long. = We shall be long.
        They ain't here. = They are here.
        It ain't true. = It is true.
        He did n't go home. = He went home.
        She doesn't try. = She tries.
        The bus didn't stop. = The bus stopped.
        It isn't raining. = It is raining.
        You shouldn't have gone. = You should have gone.
        i dont know = i know
        I haven't any money. = I have some money.
        Doesn't he live here? = Does he live here?
        Why don't you come? = Why do you come?
    """,
    "existing negation": """
        He is not here. = He is here.
        He cannot swim. = He can swim.
        I do not have any money. = I have some money.
        He has not yet arrived. = He has already arrived.
        He never eats meat. = He eats meat.
        Nobody came. = Somebody came.
        No one came. = Someone came.
        Nothing happened. = Something happened.
        None of them came. = Some of them came.
        There is nowhere to go. = There is somewhere to go.
        There is no woman slicing an onion. = There is a woman slicing an onion.
        There are no dogs in the park. = There are some dogs in the park.
        There was no 3-year-old. = There was some 3-year-old.
        He no longer lives here. = He still lives here.
        Neither he nor she came. = Both he and she came.
        Neither team won. = Each team won.
        He is not only a writer but also a singer. = He is neither a writer nor a singer.
        Not all birds fly. = All birds fly.
        No survivors in crash = Survivors in crash
        No, he is ill. = No, he is not ill.
        He does not know whether or not she is ill. = He knows whether or not she is ill.
        Nobody came, and he did not call. = Somebody came, and he did not call.
    """,
    "auxiliaries": """
        She is coming. = She is not coming.
        I can swim. = I cannot swim.
        He could have been there. = He could not have been there.
        It will have been finished. = It will not have been finished.
        They have been waiting. = They have not been waiting.
        He had seen it. = He had not seen it.
        You ought to go. = You ought not to go.
        He's a doctor. = He's not a doctor.
        They're late. = They're not late.
        I'll go. = I'll not go.
        We've seen it. = We've not seen it.
        I'd better go. = I'd better not go.
        That’s true. = That’s not true.
        John's dog is ill. = John's dog is not ill.
        His will was read. = His will was not read.
        There is a man outside. = There is not a man outside.
        THIS IS FINE = THIS IS NOT FINE
    """,
    "questions": """
        Is he coming? = Isn't he coming?
        What did you see? = What didn't you see?
        Am I late? = Am I not late?
        May I come in? = May I not come in?
        Can you help me? = Can't you help me?
        What's your name? = What isn't your name?
        Who's got one? = Who hasn't got one?
        How many people are coming? = How many people aren't coming?
        How many people live here? = How many people do not live here?
        Who wrote Hamlet? = Who did not write Hamlet?
        Have you seen it? = Haven't you seen it?
        If it rains, will you come? = If it rains, won't you come?
        do you like it = don't you like it
        what is the weather today = what isn't the weather today
    """,
    "imperatives": """
        Open the door. = Do not open the door.
        Please sit down = Please do not sit down
        Please, open the window! = Please, do not open the window!
        Let's go = Let's not go
        Be quiet = Do not be quiet
        Don't touch that. = Touch that.
        Do not be late. = Be late.
        Never give up. = Give up.
        tell me the weather = do not tell me the weather
        Have a seat. = Do not have a seat.
        Do your homework. = Do not do your homework.
        When you arrive, call me. = When you arrive, do not call me.
        OPEN THE DOOR = DO NOT OPEN THE DOOR
    """,
    "no final punctuation": """
        They went home = They did not go home
        she is happy = she is not happy
        He plays chess = He does not play chess
        i think so = i do not think so
        the train is late = the train is not late
    """,
    "main verbs": """
        He plays chess. = He does not play chess.
        A dog plays with a ball. = A dog does not play with a ball.
        They went home. = They did not go home.
        He tried again. = He did not try again.
        She created it. = She did not create it.
        The bus stopped. = The bus did not stop.
        He visited Rome. = He did not visit Rome.
        They live here. = They do not live here.
        Two dogs run along the beach. = Two dogs do not run along the beach.
        A man and a woman walk down the street. = A man and a woman do not walk down the street.
        He often goes there. = He often does not go there.
        The company rebranded itself. = The company did not rebrand itself.
        He wrote a book. = He did not write a book.
        She put it down. = She did not put it down.
        The plays of Shakespeare are long. = The plays of Shakespeare are not long.
        The new plans are good. = The new plans are not good.
        He said he is ill. = He did not say he is ill.
    """,
    "have and do as main verbs": """
        She has a dog. = She does not have a dog.
        He has to go. = He does not have to go.
        They had a house. = They did not have a house.
        We have two cars. = We do not have two cars.
        He did his homework. = He did not do his homework.
        She does the dishes. = She does not do the dishes.
    """,
    "relative and subordinate clauses": """
        The man who lives here is old. = The man who lives here is not old.
        The man who came and saw is old. = The man who came and saw is not old.
        The dog that bit me was black. = The dog that bit me was not black.
        The house, which was built in 1900, is empty. = The house, which was built in 1900, is not empty.
        When I came home, he was asleep. = When I came home, he was not asleep.
        If it rains, we stay at home. = If it rains, we do not stay at home.
        After the war he went home. = After the war he did not go home.
        After leaving the house, he went home. = After leaving the house, he did not go home.
        As a child, he was ill. = As a child, he was not ill.
        Although he is rich, he works hard. = Although he is rich, he does not work hard.
        What he said is true. = What he said is not true.
        The book published in 1990 was a success. = The book published in 1990 was not a success.
        A girl dressed in purple is walking. = A girl dressed in purple is not walking.
        Anna (who is ill) came. = Anna (who is ill) did not come.
    """,
    "captions": """
        Two dogs playing in the snow = Two dogs not playing in the snow
        A woman holding a small baby. = A woman not holding a small baby.
        A passenger plane parked on a runway. = A passenger plane not parked on a runway.
        A man in black plays the guitar. = A man in black does not play the guitar.
        A moped in front of steps of ruins. = Not a moped in front of steps of ruins.
        A black and white photo of a bicycle. = Not a black and white photo of a bicycle.
    """,
    "headlines": """
        7 killed in monster truck crash = 7 not killed in monster truck crash
        US to destroy chemical weapons = US not to destroy chemical weapons
        Thai protesters storm army headquarters = Thai protesters do not storm army headquarters
        Romney wins Illinois primary = Romney does not win Illinois primary
        Israeli forces detain 2 in Hebron = Israeli forces do not detain 2 in Hebron
        Egypt minister survives attempt = Egypt minister does not survive attempt
        Netanyahu Warns Of Militant Threat = Netanyahu does not Warn Of Militant Threat
        Stocks to watch on Monday = Stocks not to watch on Monday
    """,
    "names and the rest": """
        NATO = Not NATO
        I = Not I
        Barack Obama = Not Barack Obama
        The United States = Not the United States
        Will Smith is an actor. = Will Smith is not an actor.
        Yes. = Not yes.
        Not a dog = A dog
        Great! I loved it. = Great! I did not love it.
        "I am ill," he said. = "I am not ill," he said.
    """,
}
ROWS = [
    pytest.param(*line.strip().split(" = "), id=f"{kind}: {line.strip().split(' = ')[0]}")
    for kind, lines in TABLE.items()
    for line in lines.strip().splitlines()
]
WORDS = """
    not never no nobody don't can't isn't cannot can do n't Not only but neither nor or and if the a
    He she who that plays went is was has been to , . ? ! ( ) " dogs dog playing Please open any 's
    I'd 好 😀 7 When
""".split()


def count_negations(text: str) -> int:
    return len(re.findall(r"\bnot\b|n['’]t\b|\bcannot\b", text.lower()))


def test_the_table_has_100_sentences():
    assert len(ROWS) >= 100


@pytest.mark.parametrize(("sentence", "negation"), ROWS)
def test_negates_each_kind_of_sentence(sentence, negation):
    assert negate(sentence) == negation


@pytest.mark.parametrize(
    "sentence",
    [
        "She is coming.",
        "He plays chess.",
        "They went home.",
        "The bus stopped.",
        "She has a dog.",
        "I can swim.",
        "The man who lives here is old.",
        "open the door.",
        "He is not here.",
        "Two dogs playing in the snow",
        "He did not go home.",
        "Is he coming?",
        "A moped",
    ],
)
def test_negating_twice_gives_the_sentence(sentence):
    assert negate(negate(sentence)) == sentence


@pytest.mark.parametrize("text", ["", " ", "\n\t", "123", "?!", "😀", "- - -"])
def test_text_without_a_letter_is_unchanged(text):
    assert negate(text) == text


def check(text: str) -> None:
    negation = negate(text)
    if any(letter.isalpha() for letter in text):
        assert negation != text
        assert any(letter.isalpha() for letter in negation)
    assert count_negations(negation) <= count_negations(text) + 1
    doubled = r"\bnot\s+not\b(?!-)|\bnot\s+n['’]t\b|n['’]t\s+not\b"
    assert len(re.findall(doubled, negation.lower())) <= len(re.findall(doubled, text.lower()))


@given(st.text(max_size=200))
def test_any_text_is_negated_once(text):
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join))
def test_any_words_are_negated_once(text):
    check(text)


@pytest.mark.parametrize("white", ["  ", "\t", " \u00a0"])
def test_other_spacing_and_punctuation_stay(white):
    assert negate(f"He{white}is here ;{white}she  left !") == f"He{white}is not here ;{white}she  left !"


@pytest.mark.parametrize("language", ["我喜欢它。", "Это не так.", "هذا جيد", "Das ist gut."])
def test_other_languages_do_not_raise(language):
    assert negate(language) != language


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        ". ",
        "!",
        "plays ",
        "( ",
        "dog ",
        "created ",
        "'",
        "not",
        "neither ",
        "a-",
        "¹",
        "\n",
        ", who ",
    ],
)
def test_long_text_takes_linear_time(unit):
    text = unit * (100_000 // len(unit))
    start = time.process_time()
    check(text)
    assert time.process_time() - start < 20
