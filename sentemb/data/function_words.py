"""Function words, which do not say what a question is about, and which alone find no document."""

from __future__ import annotations

import re
from collections import Counter

from sentemb.data.folding import fold

# Words of place and direction are not listed for English: in commands they tell "from" and "into" apart.
_WORDS = {
    "en": """a an the this that these those i you he she it we they me him her them my your his its our their
        mine yours myself yourself itself themselves am is are was were be been being do does did doing
        have has had having will would shall should can could may might must and or but if then than as
        of at by for with onto to in on while because so not no nor too very just only own same both
        each there here when where why how what which who whom whose any some such again once also
        please i'm i've i'd i'll you're you've you'll he's she's it's we're we've they're they've that's
        there's what's who's where's how's isn't aren't wasn't weren't don't doesn't didn't haven't
        hasn't hadn't can't cannot couldn't won't wouldn't shouldn't let's""",
    "de": """der die das den dem des ein eine einen einem einer eines kein keine keinen ich du er sie es wir
        ihr mich dich sich uns euch mir dir ihm ihn ihnen mein meine meinen meinem meiner dein deine
        deinen sein seine seinen seinem seiner ihre ihren ihrem ihrer unser unsere euer eure dieser
        diese dieses diesen diesem jener welche welcher welches welchen welchem wer wen wem wessen was
        wo wann wie warum wieso weshalb woher wohin womit wofür wodurch worauf woran worin und oder aber
        denn sondern wenn als ob dass weil da dann so auch nur noch schon nicht doch mal man ist sind
        war waren bin bist seid sein gewesen wird werden wurde wurden worden hat haben hatte hatten habe
        hast kann können könnte könnten konnte konnten muss müssen musste soll sollen sollte darf dürfen
        will wollen möchte mag in im an am auf aus bei beim mit nach von vom zu zum zur für über unter
        um durch gegen ohne vor hinter zwischen bis seit während wegen ab bitte""",
    "fr": """le la les un une des de du au aux ce cet cette ces ça cela ceci celui celle ceux celles je tu il
        elle on nous vous ils elles me te se moi toi lui leur eux mon ma mes ton ta tes son sa ses notre
        nos votre vos leurs qui que quoi dont où quel quelle quels quelles lequel laquelle lesquels
        quand comment pourquoi combien et ou mais donc or ni car si ne pas plus très aussi y en à dans
        par pour sur sous avec sans chez vers entre depuis pendant est sont était étaient être été sera
        suis es sommes êtes a ont avait avaient avoir ai as avons avez fut furent peut peuvent puis peux
        pouvez pouvons doit dois doivent fait faut""",
    "es": """el la los las un una unos unas lo al del de a ante con contra desde durante en entre hacia hasta
        para por según sin sobre tras y e o u ni pero sino que si como cuando donde cual cuales quien
        quienes qué cómo cuándo dónde cuál cuáles quién quiénes cuánto cuánta cuántos cuántas yo tú él
        ella ello nosotros vosotros ellos ellas usted ustedes me te se nos os le les mi mis tu tus su
        sus nuestro nuestra nuestros nuestras este esta esto estos estas ese esa eso esos esas aquel
        aquella es son era eran fue fueron ser sido soy eres somos está están estaba estaban estar hay
        había haber ha han he has puede pueden puedo podría debe debo deben no sí más muy ya también""",
    "pt": """o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela pelos pelas para com
        sem sob sobre entre até desde após ao aos à às e ou mas nem que se como quando onde qual quais
        quem cujo cuja quanto quanta quantos quantas porque eu tu ele ela nós vós eles elas você vocês
        me te se lhe lhes meu minha meus minhas teu tua seu sua seus suas nosso nossa este esta estes
        estas isto esse essa esses essas isso aquele aquela aquilo é são era eram foi foram ser sido sou
        somos está estão estava estavam estar há tem têm tinha tinham ter pode podem posso poderia deve
        devo devem não sim mais muito já também""",
    "it": """il lo la i gli le un uno una l del dello della dei degli delle dell al allo alla ai agli alle
        all dal dallo dalla dai dagli dalle dall nel nello nella nei negli nelle nell sul sullo sulla
        sui sugli sulle sull di a da in con su per tra fra e ed o od ma né che chi cui se come quando
        dove perché quale quali quanto quanta quanti quante cosa cos io tu lui lei noi voi loro mi ti si
        ci vi ne mio mia miei mie tuo tua tuoi tue suo sua suoi sue nostro nostra vostro vostra questo
        questa questi queste quello quella quelli quelle è sono era erano fu furono essere stato stata
        stati state sia ha hanno aveva avevano avere ho hai abbiamo può possono posso deve devo devono
        non più anche già molto c dov com""",
    "nl": """de het een ik jij je u hij zij ze wij we jullie mij me jou hem haar ons hun hen zich mijn jouw
        uw zijn onze deze dit die dat wie wat waar wanneer waarom hoe welk welke waarmee waarvan en of
        maar want dus als dan toen omdat of van in op aan met voor door bij naar uit over onder om tot
        te ter tegen tussen zonder na is ben bent was waren zijn geweest wordt worden werd werden heb
        hebt heeft hebben had hadden kan kun kunt kunnen kon konden moet moeten mag mogen zal zou zouden
        zullen wil er hier daar niet geen ook nog al wel zo""",
    "sv": """en ett den det de dem jag du han hon vi ni mig dig sig honom henne oss er min mitt mina din ditt
        dina sin sitt sina vår vårt våra deras hans hennes denna detta dessa vem vad var när varför hur
        vilken vilket vilka vars och eller men för att om som så då av i på till från med vid under över
        mellan utan mot genom efter är var varit vara blir bli blev blivit har hade ha haft kan kunde
        ska skall skulle måste får vill inte ej också bara här där""",
    "pl": """i a w we z ze na do od po za o u przy przez dla pod nad bez między przed oraz lub albo ale lecz
        że żeby aby bo gdy gdyby jeśli czy jak kiedy gdzie skąd dokąd dlaczego kto kogo komu kim co
        czego czemu czym który która które którego której którym których którzy jaki jaka jakie jakiego
        jakiej jakim jakich ile ilu to ten ta te tego tej tym tych temu ja ty on ona ono my wy oni one
        mnie mi mną ciebie cię ci jego go jemu mu nim jej ją nią nas nam nami was wam ich im nich mój
        moja moje twój swój swoje swoją swojego się siebie sobie jest są był była było byli były być
        będzie będą jestem może mogą można mogę musi nie tak też także już tylko""",
    "tr": """ve veya ya da de ile için ama fakat ancak ki bu şu o bir ben sen biz siz onlar bana sana ona
        bize size beni seni onu benim senin onun bizim sizin onların ne neden niçin niye nasıl nerede
        nereye nereden kim kimin kime hangi kaç mi mı mu mü midir mıdır nedir kimdir olan olarak oldu
        olduğu olduğunu olduğunda olur gibi kadar göre sonra önce daha en çok her değil var vardır idi
        ise""",
    "vi": """là và của có được cho các những một này đó ở trong với từ đến bởi vì để mà thì nhưng hoặc nếu
        khi đã đang sẽ không gì nào ai đâu bao nhiêu tôi bạn họ chúng như cũng rất bị""",
    "ru": """и а но или да не ни же ли бы в во на с со к ко по о об от до из у за над под при про для без
        через между перед что чтобы как когда где куда откуда почему зачем сколько кто кого кому кем чем
        чего чему какой какая какое какие какого какой каких каким какую который которая которое которые
        которого которой которых чей я ты он она оно мы вы они меня мне мной тебя тебе его ему им ей её
        ее нас нам вас вам их ими мой моя мое мои твой свой своя свое свои это этот эта эти этого этой
        этих тот та то те того той тех так там тут здесь если то есть был была было были быть будет
        является являются""",
    "el": """ο η το οι τα του της των τον την τους τις ένας μια μία ένα ενός μιας και ή αλλά αν ότι που πως
        να θα δεν μην μη δε σε στο στη στην στον στα στις στους στης από για με κατά προς χωρίς μετά
        πριν μεταξύ ως όταν όπως τι ποιος ποια ποιο ποιοι ποιες ποιον ποιου ποιων πού πώς πότε γιατί
        πόσο πόση πόσοι πόσες πόσα εγώ εσύ αυτός αυτή αυτό αυτοί αυτές αυτά αυτού αυτής αυτών μου σου
        μας σας είναι ήταν είμαι είσαι είχε είχαν έχει έχουν έχω""",
    "ar": """في من إلى على عن مع هو هي هم هن أنا أنت نحن هذا هذه ذلك تلك هؤلاء الذي التي الذين ما ماذا متى
        أين كيف لماذا كم هل أي أية و أو ثم لكن أن إن لا لم لن قد كان كانت كانوا يكون تكون بين بعد قبل
        عند منذ حتى كل فيه فيها منه منها له لها به بها عليه عليها إذا""",
    "he": """של את על עם אל מן מ ב ה ו ל כ ש הוא היא הם הן אני אתה את אנחנו זה זו זאת אלה אלו מה מי מתי איפה
        היכן איך כיצד למה מדוע כמה האם איזה איזו אילו או אבל כי אם לא גם רק כל היה היתה הייתה היו יש אין
        שלי שלך שלו שלה שלהם אשר בין אחרי לפני""",
    "hi": """का की के को में से पर ने है हैं था थी थे हो हुआ हुई हुए होता होती होते और या लेकिन कि जो यह वह
        ये वे इस उस इन उन इसके उसके इसकी उसकी मैं तुम आप हम मेरा मेरी मेरे अपने अपनी अपना क्या कौन कौनसा
        कब कहाँ कहां कैसे क्यों कितना कितने कितनी किस किसने किसे किसी कोई एक लिए साथ तक भी ही तो नहीं
        द्वारा किया गया गए गई कर करने रहा रही रहे""",
}
_FUNCTION_WORDS = {language: frozenset(map(fold, listed.split())) for language, listed in _WORDS.items()}
# What is left of short forms: it's, we'll, l'eau, qu'il.
_CLITICS = frozenset("s t d m ll re ve l c j n qu".split())
_WORD = re.compile(
    r"(?:\w|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u00ad\u200b-\u200d'’])+"
)
_LEAST = 2  # function words that tell the language of a query


def without_function_words(query: str, language: str) -> str:
    """Leave the function words out of a query.

    Args:
        query: Words, a question or a phrase.
        language: ISO 639 code of the documents' language. Where sentemb has no list of its function words,
            the query's own language counts, should it have two of them.

    Returns:
        The query without them, or the whole query where nothing else is in it.
    """
    words = [(match.span(), fold(match[0]).replace("’", "'")) for match in _WORD.finditer(query)]
    listed = _FUNCTION_WORDS.get(language) or _listed([word for _, word in words])
    has_lower = any(letter.islower() for letter in query)
    kept, end, says = [], 0, False
    for (start, stop), word in words:
        kept.append(query[end:start])
        end = stop
        acronym = has_lower and query[start:stop].isupper() and stop - start > 1  # WHO, IT
        rest = query[start:stop] if acronym else _rest(word, listed)
        says = says or any(letter.isalnum() for letter in rest)
        kept.append(rest)
    return "".join([*kept, query[end:]]) if says else query


def _rest(word: str, listed: frozenset[str]) -> str:
    """What a folded word has besides function words."""
    if word in listed:
        return ""
    parts = word.split("'")
    if len(parts) == 1:
        return word
    return " ".join(part for part in parts if part not in listed and part not in _CLITICS)


def _listed(words: list[str]) -> frozenset[str]:
    """The function words of the language that most of the words are from; those that all have, of several."""
    counts = Counter(
        language for language, listed in _FUNCTION_WORDS.items() for word in words if word in listed
    )
    most = max(counts.values(), default=0)
    if most < _LEAST:
        return frozenset()
    return frozenset.intersection(*(_FUNCTION_WORDS[one] for one, count in counts.items() if count == most))
