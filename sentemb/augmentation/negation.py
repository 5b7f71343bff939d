"""Negation of English sentences by rules and word lists, without a parser."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

_LISTS: dict[str, str] = tomllib.loads(
    files("sentemb.augmentation").joinpath("negation.toml").read_text(encoding="utf-8")
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BE, _HAVE, _DO = _set("is am are was were"), _set("have has had"), _set("do does did")
_MODALS = _set("can could will would shall should may must might ought")
_AUXILIARIES = _BE | _MODALS | _HAVE | _DO | _set("'m 're 've 'll 'd be been being cannot")
_CONTRACTED = {word: f"{word}n't" for word in _BE | _HAVE | _DO | _set("could would should must")}
_CONTRACTED |= {"can": "can't", "will": "won't"}
del _CONTRACTED["am"]
_STEMS = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}  # of can't, won't, shan't and ain't
_BARE = {word.replace("'", ""): word for word in _CONTRACTED.values()}  # typed without the apostrophe
_OPPOSITES = {"nobody": "somebody", "nothing": "something", "none": "some", "nowhere": "somewhere"}
_OPPOSITES |= {"no-one": "someone", "never": "", "hardly": "", "scarcely": "", "cannot": "can"}
_ANY = {"any": "some", "anyone": "someone", "anybody": "somebody", "anything": "something"}
_SUBJECTS = _set("i you he she it we they who there")
_DETERMINERS = _set(_LISTS["determiners"])
_OBJECTS = _DETERMINERS - _set("'s which what") | _set(
    "me him it us them you himself herself itself themselves one"
)
_PREPOSITIONS = _set(_LISTS["prepositions"])
_LOOSE = _set("after before since until as like than")  # a clause may follow, or only a noun
_QUESTION_WORDS = _set("what who whom whose which where when why how")
_SUBORDINATORS = _LOOSE | _QUESTION_WORDS | _set(_LISTS["subordinators"])
_BARRIERS = _SUBORDINATORS | _set(', ; : ( ) " “ ” - – — ... and or but i he she it we they')
_FUNCTION_WORDS = _DETERMINERS | _PREPOSITIONS | _SUBORDINATORS | _SUBJECTS | _set("and or but to")
_ADVERBS = _set(_LISTS["adverbs"])
_NOT_ADVERBS = _set("family july italy assembly supply reply rally fly ally belly")
_OPENERS = _set(
    "please kindly just now then so and but or well ok okay also hey hi hello always \" ' “ ‘ ( ,"
)
_NUMBERS = _set("two three four five six seven eight nine ten eleven twelve hundred thousand million")
_PLURALS = _set("people men women children police mice feet fish sheep others both and") | _NUMBERS
_DEMONSTRATIVES = _set("this that these those some many few most others several all")
_ADJECTIVES = _set(_LISTS["adjectives"])
_ADJECTIVE = re.compile(r".{2,20}(?:ous|ful|ical|able|ible|less|ish|ional)\Z")
_NOT_ING = _set(_LISTS["not_ing"])
_NOT_ED = _set(_LISTS["not_ed"])
_PARTICIPLES = _set(_LISTS["participles"])
_SAYING = _set("say announce believe think report claim feel show hope know tell warn admit suggest insist")
_COUNTABLE = _set("man woman boy girl person child dog cat bird horse baby kid player car animal guitar")
_NAMES = _set("mark grant bill rob pat sue chase jack frank will may")
_IRREGULAR = _LISTS["irregular"]
_VERBS = _LISTS["verbs"]
_NOUN_VERBS = _LISTS["noun_verbs"]


class _Form(NamedTuple):
    """A form of a verb, and for which of b(ase), third person s, p(ast) and n (participle) it serves."""

    lemma: str
    uses: str


_ENTRIES = [entry.split() for entry in _IRREGULAR.split(",")]
_IRREGULAR_FORMS = {entry[0]: entry[1:] or entry for entry in _ENTRIES}
_ALSO_NOUNS = _set(_NOUN_VERBS)
_NO_FORM = _Form("", "")


def _inflect(lemma: str) -> tuple[str, str, str]:
    """Return the third person, the past and the participle of a verb."""
    stem = lemma[:-1] + "i" if re.search(r"[^aeiou]y\Z", lemma) else lemma
    third = stem + ("es" if stem != lemma or re.search(r"(?:s|x|z|ch|sh|o)\Z", lemma) else "s")
    doubles = re.match(r"(?:ad|com|per|sub|oc|pre|re|con|ex|trans)?[^aeiou]*u?[aeiou][bdgklmnprt]\Z", lemma)
    if lemma in ("visit", "rely", "prey", "exit", "develop"):
        doubles = None
    past = stem + (lemma[-1] if doubles else "") + ("d" if lemma.endswith("e") else "ed")
    irregular = _IRREGULAR_FORMS.get(lemma, [past])
    return "has" if lemma == "have" else third, irregular[0], irregular[-1]


def _collect_forms() -> dict[str, _Form]:
    forms: dict[str, _Form] = {}
    for lemma in dict.fromkeys([*_IRREGULAR_FORMS, *_VERBS.split(), *_NOUN_VERBS.split()]):
        for use, form in zip("bspn", (lemma, *_inflect(lemma)), strict=True):
            known = forms.setdefault(form, _Form(lemma, ""))
            if known.lemma == lemma:  # "found" stays a form of "find"
                forms[form] = _Form(lemma, known.uses + use)
    return forms


_FORMS = _collect_forms()
# Stems of regular past forms that end in a silent e, such as "created" but not "visited".
_SILENT_E = re.compile(
    r".*(?:[cuvz]|dg|[^s]s|an[gc]|rg|[^aeiou][bcdfgkptz]l|(?:[^aeiou]|cre|qu)(?:[aeo]g|[aiu]t(?<!it)|[aiu]r|[iu]d|in|ib"
    r"|um|[aio]k|[iu]l|i[mp]))\Z|[^aeiou]*[aeiou][^aeiouwxy]\Z"
)


def _get_lemma(word: str) -> str:
    """Return the lemma of a regular past or third person that is not in the lists, by its spelling."""
    if word.endswith("s"):
        return (
            word[:-3] + "y" if word.endswith("ies") else re.sub(r"(?<=ss|sh|ch|zz|.x|.o)es\Z|s\Z", "", word)
        )
    stem = word[:-2]
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if re.search(r"[^aeiou][aeiou]([bdgkmnprt])\1\Z|[aeiou].+[aeiou]ll\Z", stem):
        return stem[:-1]
    return stem + ("e" if _SILENT_E.match(stem) else "")


def _match_case(word: str, model: str) -> str:
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def _is_plural(word: str) -> bool:
    """Return whether a word is a plural, or "two" or "and", which make one."""
    return word in _PLURALS or re.search(r".[^suia]s\Z|.men\Z", word) is not None


_TOKEN = re.compile(
    r"""\b(?:ai|are|ca|could|did|do|does|had|has|have|is|might|must|need|ought|sha|should|was|were|wo|would)
        (?:\s?n['’]t|n\s['’]t)\b  # don't, do n't and don 't
    | ['’](?:s|re|ve|ll|d|m)\b | (?:[^\W\d_]\.){2,} | \d+(?:[.,:]\d+)+
    | [^\W_]+ (?: -[^\W_]+ | ['’](?!(?:s|re|ve|ll|d|m)\b)[^\W_]+ )* | \.\.\. | [^\w\s] | _""",
    re.VERBOSE | re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]{0,2}\s+(?=[\"'“‘(]?[^\W\d_a-z])|\n+")
_LOOK_AHEAD = 40  # words that a rule looks ahead, so that the time is linear


class _Clause:
    """A sentence as tokens, with the tests and edits that the rules share."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [match.span() for match in _TOKEN.finditer(text)]
        self.raw = [text[start:end] for start, end in self.spans]
        self.words = [raw.lower().replace("’", "'") for raw in self.raw]
        self.question = text.rstrip(" \"'”’)\n").endswith("?")
        long = [raw for raw in self.raw if raw[0].isalpha() and len(raw) > 3]
        unlike = self.get_word(0) in _DETERMINERS or self.get_word(0) in _SUBJECTS or len(self.words) < 4
        self.headline = not (unlike or text.rstrip().endswith((".", "?", "!", '"', "”")))
        self.titled = len(long) > 2 and sum(raw[0].isupper() for raw in long) > 0.8 * len(long)

    def get_word(self, i: int) -> str:
        return self.words[i] if 0 <= i < len(self.words) else ""

    def skip(self, i: int, step: int) -> int:
        """Return the position before (step -1) or after (1) a word that is not an adverb."""
        for j in range(i + step, i + 5 * step, step):
            word = self.get_word(j)
            if word not in _ADVERBS and not (word.endswith("ly") and word not in _NOT_ADVERBS):
                return j
        return i + step

    def find(self, word: str, start: int) -> int:
        """Return the next position of a word within reach, or -1."""
        return next((j for j in range(start, start + _LOOK_AHEAD) if self.get_word(j) == word), -1)

    def is_base(self, i: int) -> bool:
        return self.get_word(i) == "be" or "b" in _FORMS.get(self.get_word(i), _NO_FORM).uses

    def is_name(self, i: int) -> bool:
        """Return whether a word inside a sentence is capitalized, as names are."""
        return self.raw[i][0].isupper() and i > 0 and not self.titled and self.words[i - 1] not in ':"“'

    def edit(self, edits: dict[int, str]) -> str:
        """Return the text with tokens replaced; an empty replacement takes a space with it."""
        pieces, end, capital = [""], 0, ""
        for i in sorted(edits):
            gap, new = self.text[end : self.spans[i][0]], edits[i]
            pieces += [gap if new else gap.rstrip(), new]
            end = self.spans[i][1]
            if not new and not "".join(pieces).strip(" \"'“‘("):  # the first word is gone
                end += len(self.text[end:]) - len(self.text[end:].lstrip())
                capital = capital or self.raw[i][0]
                if i + 1 in edits:
                    edits[i + 1] = _match_case(edits[i + 1], capital)
                else:
                    pieces.append(_match_case(self.text[end : end + 1], capital))
                    end += 1
        return "".join(pieces) + self.text[end:]

    def get_form(self, i: int) -> _Form:
        """Return the verb form of a word from the lists, or of an unknown regular past by its spelling."""
        word = self.get_word(i)
        head, _, last = word.rpartition("-")
        if head in ("co", "re") and last in _FORMS:
            return _Form(f"{head}-{_FORMS[last].lemma}", _FORMS[last].uses)
        regular = 4 < len(word) < 30 and word.isalpha() and re.search(r"[aeiouy].*[^e]ed\Z", word)
        if word in _FORMS or not regular or word in _NOT_ED:
            return _FORMS.get(word, _NO_FORM)
        return _Form(_get_lemma(word), "pn")

    def rate_finite(self, i: int) -> int:
        """Return 2 for a finite verb, 1 for a word that may be one ("plays", "created"), else 0."""
        before, form = self.skip(i, -1), self.get_form(i)
        previous, following = self.get_word(before), self.get_word(i + 1)
        if self.words[i] in _AUXILIARIES or self.words[i] == "'s":
            return self._rate_auxiliary(i, previous)
        if not form.uses or self.is_name(i) or before < 0 or previous in _AUXILIARIES or previous == "to":
            return 0
        subject = previous in _SUBJECTS or previous == "which" or (previous == "that" and before > 0)
        subject = subject or (previous == "what" and "b" not in form.uses)
        blocked = previous in _DETERMINERS or previous in _PREPOSITIONS or self.is_adjective(before)
        if before == 0 and previous in _DEMONSTRATIVES:  # "This helps", "Some argue"
            blocked = (previous in ("this", "that")) == ("b" in form.uses) and "p" not in form.uses
        if blocked and not subject:
            return 0
        if "p" not in form.uses:
            return self._rate_present(i, before, subject)
        if subject or "n" not in form.uses or form.lemma in _SAYING or following in _OBJECTS:
            return 2
        if following == "by" or (previous in _NUMBERS and _is_plural(following)):
            return 0
        ends = not following.isalnum() or following in _PREPOSITIONS or following in _LOOSE
        passive = self.words[i] in _PARTICIPLES or (self.headline and not following.isalnum())
        passive = passive or (previous[0].isdigit() and form.lemma != "die")  # "40 hospitalized in"
        return 0 if passive and ends else 2 if following[:1].isdigit() else 1

    def _rate_present(self, i: int, before: int, subject: bool) -> int:
        form, previous, following = self.get_form(i), self.words[before], self.get_word(i + 1)
        plural, noun = _is_plural(previous), form.lemma in _ALSO_NOUNS
        if "s" in form.uses:
            named = self.raw[before][0].isupper()  # "Philippines defers"
            verb_next = self.is_base(i + 1) and following not in _ALSO_NOUNS  # "Israeli forces detain"
            if previous in ("i", "you", "we", "they") or verb_next:
                return 0
            complete = following in _OBJECTS or following in _PREPOSITIONS - {"of"}
            if (
                noun
                and not subject
                and (previous[0].isdigit() or previous in _NUMBERS or (plural and not named and not complete))
            ):
                return 0
            return 2 if subject or following in _OBJECTS or not (noun or plural) else 1
        if "b" not in form.uses or previous in ("he", "she", "it", "there"):
            return 0
        near = self.words[max(0, i - 6) : i]
        free = following in _PREPOSITIONS or following in _OBJECTS or not noun or "and" in near
        distant = free and previous.isalnum() and any(map(_is_plural, near))
        return 2 if subject else int(plural or distant or previous in _DEMONSTRATIVES)

    def is_adjective(self, i: int) -> bool:
        """Return whether a word is an adjective, but for a noun such as in "a man in black"."""
        word = self.get_word(i)
        return (word in _ADJECTIVES or bool(_ADJECTIVE.match(word))) and "in" not in self.words[
            max(0, i - 2) : i
        ]

    def _rate_auxiliary(self, i: int, previous: str) -> int:
        word, owner, following = self.words[i], self.get_word(i - 1), self.get_word(i + 1)
        if self.raw[i].isupper() and len(word) > 1 and not (self.text.isupper() or self.titled):
            return 0
        if word == "'s":  # or a possessive
            clear = owner in _SUBJECTS or owner in _QUESTION_WORDS or owner in ("that", "this", "everything")
            return 2 if clear or following in ("a", "an", "the", "been", "going", "very", "getting") else 0
        if word in _MODALS:  # or a noun, a month or a name
            noun = previous in ("a", "the", "his", "her", "my", "their", "free") or previous in _PREPOSITIONS
            name = word in ("may", "will") and i == 0 and self.raw[i].istitle() and not self.question
            return 0 if noun or self.is_name(i) or (name and following not in _SUBJECTS) else 2
        compound = (word in _HAVE or word in _DO) and (previous == "to" or previous in _AUXILIARIES)
        return 0 if compound or word in ("be", "been", "being") or (word == "am" and owner.isdigit()) else 2

    def is_finite_later(self, i: int) -> bool:
        """Return whether a certain finite verb follows in the clause, so that a doubtful one is none."""
        barriers = _BARRIERS - {","} if self.get_word(i - 1) == "," else _BARRIERS
        for j in range(i + 1, min(i + _LOOK_AHEAD, len(self.words))):
            if self.words[j] in barriers:
                return False
            if self.rate_finite(j) == 2:
                return True
        return False

    def is_clause_opener(self, i: int) -> bool:
        """Return whether a word opens a dependent clause, whose verb is not the main one."""
        word, following = self.words[i], self.get_word(i + 1)
        if word not in _SUBORDINATORS or following.endswith("ing") or following[:1].isdigit():
            return False
        if word in ("once", "though"):
            return i == 0
        if word in ("that", "like", "than"):
            return i > 0 and self.words[i - 1] not in _PREPOSITIONS
        if word in _QUESTION_WORDS and set(self.words[max(0, i - 3) : i]) <= _OPENERS | _QUESTION_WORDS:
            return not (self.question or (i + 1 < len(self.words) and self.rate_finite(i + 1) == 2))
        return True

    def find_main_verb(self) -> tuple[int, bool]:
        """Return the position of the first finite verb outside dependent clauses, and whether it is certain.

        If there is none, the first one of a dependent clause is returned, or -1.
        """
        first, last, pending, depth, closing = -1, -2, 0, 0, self.words.count(")")
        resets = False  # at the next comma: "After the war, ..."
        for i, word in enumerate(self.words):
            depth = max(0, depth + (word == "(" and closing > 0) - (word == ")"))
            closing -= word == ")"
            if depth:
                continue
            if word == "," and resets:
                pending, resets = pending - 1, False
            elif self.is_clause_opener(i):
                pending, resets = pending + 1, i == 0 or word in _LOOSE
            elif (strength := self.rate_finite(i)) == 2 or (strength and not self.is_finite_later(i)):
                if first >= 0 and (
                    self.get_word(self.skip(i, -1)) in ("and", "or", "but") or (strength, last) == (1, i - 1)
                ):
                    continue
                if pending < 1:
                    return i, strength == 2 or "p" in self.get_form(i).uses
                first, last, pending, resets = (i if first < 0 else first), i, pending - 1, False
        return first, False


def _remove_negation(clause: _Clause) -> str | None:
    """Return the text without its first negation, or None if it has none."""
    for i, (word, raw) in enumerate(zip(clause.words, clause.raw, strict=True)):
        joined = _BARE.get(word, "".join(word.split()))
        edits: dict[int, str] | None = None
        if joined.endswith("n't"):
            edits = _remove_not_after(clause, i, i, _STEMS.get(joined[:-3], joined[:-3]))
        elif word in ("no", "not", "neither"):
            edits = {"no": _remove_no, "not": _remove_not, "neither": _remove_neither}[word](clause, i)
        elif word in _OPPOSITES:
            inverted = word == "never" and i == 0 and clause.get_word(1) in _AUXILIARIES
            edits = {i: _match_case("always" if inverted else _OPPOSITES[word], raw)}
        if edits:
            for j in range(max(edits) + 1, min(max(edits) + 12, len(clause.words))):
                if clause.words[j] in _BARRIERS:
                    break
                if clause.words[j] in _ANY and clause.get_word(j + 1) not in ("more", "longer"):
                    edits[j] = _match_case(_ANY[clause.words[j]], clause.raw[j])
            return clause.edit(edits)
    return None


def _remove_neither(clause: _Clause, i: int) -> dict[int, str]:
    nor = clause.find("nor", i)
    return {i: _match_case("each" if nor < 0 else "both", clause.raw[i])} | ({} if nor < 0 else {nor: "and"})


def _remove_not(clause: _Clause, i: int) -> dict[int, str] | None:
    previous, following = clause.get_word(i - 1), clause.get_word(i + 1)
    if previous in ("or", "if", "nor"):
        return None
    if following == "yet":
        return {i: "", i + 1: "already"}
    if following in ("only", "just", "merely", "simply") and (but := clause.find("but", i)) > 0:
        also = {but + 1: ""} if clause.get_word(but + 1) == "also" else {}
        return {i: _match_case("neither", clause.raw[i]), i + 1: "", but: "nor", **also}
    return _remove_not_after(clause, i - 1, i, previous) if previous in _DO else {i: ""}


def _remove_not_after(clause: _Clause, i: int, last: int, auxiliary: str) -> dict[int, str]:
    """Return the edits that leave an auxiliary at i without "not", or a verb without "do not"."""
    k, before = clause.skip(last, 1), clause.get_word(i - 1)
    if clause.words[i].startswith("ai"):
        auxiliary = {"i": "am", "you": "are", "we": "are", "they": "are"}.get(before, "is")
    asks = clause.question and before in ("", "why", "how", "when", "where", *_OPENERS)
    if auxiliary in _DO and not asks and clause.is_base(k):
        verb = clause.words[k]
        third, past, _ = _inflect(verb)
        inflected = {"do": verb, "does": third, "did": past}[auxiliary]
        return {last: "", i: "", k: _match_case(inflected, clause.raw[k])}
    return {last: "", i: _match_case(auxiliary, clause.raw[i])}


def _remove_no(clause: _Clause, i: int) -> dict[int, str] | None:
    following, raw = clause.get_word(i + 1), clause.raw[i]
    unlike = following in ("doubt", "matter", "fewer", "less") or clause.get_word(i - 1) == "or"
    if not following[:1].isalnum() or following.isdigit() or unlike or clause.is_name(i):
        return None  # an interjection ("No, ..."), an idiom or a name
    if following in ("one", "longer"):
        return {i: _match_case("someone" if following == "one" else "still", raw), i + 1: ""}
    if i == 0 and not clause.text.rstrip().endswith("."):
        return {i: ""}  # of a headline: "No survivors in crash"
    if clause.get_word(i - 1) in _BE and not _COUNTABLE.isdisjoint(clause.words[i + 1 : i + 3]):
        return {i: "an" if following[0] in "aeio" else "a"}
    return {i: _match_case("some", raw)}


def _negate_verb(clause: _Clause, i: int) -> str:
    word, raw, k = clause.words[i], clause.raw[i], clause.skip(i, 1)
    if word in _HAVE or word in _DO:
        helps = "n" in clause.get_form(k).uses if word in _HAVE else clause.is_base(k)
        if not helps and clause.get_word(k) not in ("been", "better") and not _is_inverted(clause, i):
            do = {"has": "does", "had": "did", "have": "do"}.get(word, word)
            return clause.edit({i: _match_case(f"{do} not {'have' if word in _HAVE else 'do'}", raw[:1])})
    elif word not in _AUXILIARIES and word != "'s":
        form = clause.get_form(i) if clause.get_form(i).uses else _Form(_get_lemma(word), "s")
        do = "does" if "s" in form.uses else "did" if "p" in form.uses else "do"
        return clause.edit({i: f"{do} not {_match_case(form.lemma, raw[:1])}"})
    return _negate_auxiliary(clause, i)


def _negate_auxiliary(clause: _Clause, i: int) -> str:
    word, raw = clause.words[i], clause.raw[i]
    after = i + 1 if clause.get_word(i + 1) == "better" and word in ("had", "'d") else i
    if _is_inverted(clause, i):
        if word == "'s":
            return clause.edit({i: " hasn't" if clause.get_word(i + 1) in ("got", "been") else " isn't"})
        if word in _CONTRACTED:
            return clause.edit({i: _match_case(_CONTRACTED[word], raw)})
        after = min(i + 2 if clause.get_word(i + 1) in _DETERMINERS else i + 1, len(clause.words) - 1)
    elif word == "can":
        return clause.edit({i: _match_case("cannot", raw)})
    return clause.edit({after: f"{clause.raw[after]} {'NOT' if clause.text.isupper() else 'not'}"})


def _is_inverted(clause: _Clause, i: int) -> bool:
    """Return whether an auxiliary stands before its subject, as in questions."""
    word, following, start = clause.words[i], clause.get_word(i + 1), i
    while start > 0 and i - start < 7 and clause.words[start - 1] not in (",", ";", ":", "-"):
        start -= 1
    while start < i and clause.words[start] in _OPENERS:
        start += 1
    if word.startswith("'"):
        return word == "'s" and clause.question and clause.get_word(i - 1) in _QUESTION_WORDS
    if start == i:
        asks = word in _BE | {"does", "did"} and _OPENERS.issuperset(clause.words[:i])
        return asks or clause.question or following in _SUBJECTS
    asks = clause.words[start] in _QUESTION_WORDS
    subject = following in _SUBJECTS - {"who", "there"}
    return (clause.question and (asks or subject)) or (asks and i == start + 1)


def _negate_imperative(clause: _Clause, main: int) -> str | None:
    start = 0
    if clause.get_word(0) in ("if", "when", "after", "before", "once", "while") and main < clause.find(
        ",", 0
    ):
        start = clause.find(",", 0)
    i = next((j for j in range(start, start + 6) if clause.get_word(j) not in _OPENERS), start)
    word, following = clause.get_word(i), clause.get_word(i + 1)
    if not clause.is_base(i) or (clause.question and clause.words[0] != "please"):
        return None
    raw, upper = clause.raw[i], clause.text.isupper()
    if word == "let" and following in ("'s", "us"):
        return clause.edit({i + 1: f"{clause.raw[i + 1]} {'NOT' if upper else 'not'}"})
    if (
        following in _AUXILIARIES
        or following in _SUBJECTS - {"it"}
        or (word in _ALSO_NOUNS and not _is_command(clause, i, main))
    ):
        return None
    do_not = "DO NOT" if upper else _match_case("do not", raw[:1])
    return clause.edit({i: f"{do_not} {raw if upper else raw.lower()}"})


def _is_command(clause: _Clause, i: int, main: int) -> bool:
    """Return whether a first word that may be a noun ("Plan", "Water") is a command."""
    following = clause.get_word(i + 1)
    if clause.words[i] in _NAMES and clause.raw[i + 1 : i + 2] and clause.raw[i + 1].istitle():
        return False
    if following in ("up", "down", "out", "off", "away", "back"):
        return clause.get_word(i + 2) not in ("of", "on")
    if following in _PREPOSITIONS or not following.isalpha():
        return main < 0 and following not in ("of", "in", "-", ":", "'s")
    return following in _OBJECTS


def _negate_phrase(clause: _Clause, end: int) -> str | None:
    """Negate a caption or headline without a finite verb before a position: "Two dogs not playing"."""
    prepositional = False
    for i in range(1, end):
        word, previous, following = (
            clause.words[i],
            clause.get_word(clause.skip(i, -1)),
            clause.get_word(i + 1),
        )
        if word == "to" and clause.is_base(i + 1):
            return clause.edit({i: f"not {clause.raw[i]}"})
        prepositional = prepositional or word in _PREPOSITIONS
        if previous in _FUNCTION_WORDS or word in _FUNCTION_WORDS or clause.is_adjective(clause.skip(i, -1)):
            continue
        if not previous[-1:].isalnum() or not word.isalpha():
            continue
        passive = "n" in clause.get_form(i).uses and (following in _FUNCTION_WORDS or not following.isalnum())
        if passive or (len(word) > 4 and word.endswith("ing") and word not in _NOT_ING):
            return clause.edit({i: f"not {clause.raw[i]}"})
        lone = clause.words[0] in ("a", "an", "the", "one") and i < 6 and not prepositional
        third = re.fullmatch(r"[a-z]{2,20}[^suia]s", word) and not _is_plural(previous)
        if third and (following in _OBJECTS or (lone and following in _PREPOSITIONS)):
            return _negate_verb(clause, i)
        if _is_plural(previous) and following in ("a", "an", "the", "his", "her", "their"):
            return clause.edit({i: f"do not {clause.raw[i]}"})
    return None


def _prepend_not(text: str) -> str:
    clause = _Clause(text)
    i = next(j for j, raw in enumerate(clause.raw) if any(map(str.isalnum, raw)))
    raw, word, following = clause.raw[i], clause.words[i], clause.raw[i + 1 : i + 2]
    known = word in _DETERMINERS | _PREPOSITIONS | _SUBJECTS | _ADJECTIVES or word in _FORMS
    name = raw in clause.raw[i + 1 :] or (not known and following and following[0][0].isupper())
    if not (word == "i" or (len(raw) > 1 and raw.isupper()) or name or clause.titled):
        raw = raw[0].lower() + raw[1:]
    negation = "No" if word.startswith(("not", "n't")) else "Not"
    return clause.edit({i: f"{negation} {raw}"})


def _split_sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        before = text[max(start, match.start() - 4) : match.start()]
        if "\n" in match[0] or before[-1:].isspace() or (len(before) == 4 and before.isalnum()):
            yield start, match.end()
            start = match.end()
    yield start, len(text)


def _negate_sentence(clause: _Clause) -> str | None:
    if (negated := _remove_negation(clause)) is not None:
        return negated
    main, certain = clause.find_main_verb()
    if (negated := _negate_imperative(clause, main)) is not None:
        return negated
    subordinate = clause.get_word(0) in _SUBORDINATORS - _QUESTION_WORDS
    if not certain and not subordinate and (main < 0 or not clause.question):
        negated = _negate_phrase(clause, main if main >= 0 else len(clause.words))
    return negated if negated is not None or main < 0 else _negate_verb(clause, main)


def negate(sentence: str) -> str:
    """Return the negation of an English sentence, by rules and word lists.

    The first rule that fits is applied, to the first sentence that it fits:

    1. An existing negation is removed: "I don't like it" becomes "I like it".
    2. A command gets "do not".
    3. The main verb is negated: "She sang" becomes "She did not sing", "Is he here?" "Isn't he here?".
    4. The participle of a caption gets "not": "Two dogs not playing".
    5. Otherwise "Not" is put in front.

    Args:
        sentence: The sentence. The last rule treats other languages.

    Returns:
        The negation. It differs from the sentence if that has a letter; other text is returned unchanged.

    Example:
        >>> negate("She sang in the choir.")
        'She did not sing in the choir.'

    Reference:
        Wang et al.: SNCSE: Contrastive Learning for Unsupervised Sentence Embedding with Soft Negative
        Samples. 2022. https://arxiv.org/abs/2201.05979
    """
    if not any(letter.isalpha() for letter in sentence):
        return sentence
    for start, end in _split_sentences(sentence):
        negated = _negate_sentence(_Clause(sentence[start:end]))
        if negated is not None and any(letter.isalpha() for letter in negated):
            return sentence[:start] + negated + sentence[end:]
    return _prepend_not(sentence)
