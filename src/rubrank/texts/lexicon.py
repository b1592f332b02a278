"""Small word lists, and what is said about a single English word: its syllables, whether it can be a verb.

    >>> [syllables(word) for word in ("cat", "table", "created", "idea")]
    [1, 2, 3, 3]
    >>> could_be_verb("Explain"), could_be_verb("However")
    (True, False)

The lists are closed classes (function words, capitals, countries) or a few hundred common cases; what is open, such as
verbs and syllables, is a rule plus its exceptions and errs now and then.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rubrank._plain import word_set


def _named(text: str) -> tuple[tuple[str, ...], ...]:
    """Things that commas divide, each with its names: "Kyiv/Kiev"."""
    return tuple(tuple(" ".join(names.split()).split("/")) for names in text.split(","))


# ---- function words -------------------------------------------------------------------------------------------------

PERSONAL_PRONOUNS = word_set("""
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
""")
OTHER_PRONOUNS = word_set("""
    themself oneself who whom whose whoever whomever whichever whatever one's
    someone somebody something anyone anybody anything everyone everybody everything nobody nothing none
""")
COORDINATORS = word_set("for and nor but or yet so")

# What remains of contractions when they are cut at the apostrophe ("don't" → "don", "t") counts as a stop word too.
_AUXILIARIES = "am is are was were be been being have has had having do does did doing can will should"
_NEGATED = "ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn"
_REMAINS = "d ll m o re s t ve y ma"
_PREPOSITIONS = """of at by for with about against between into through during before after above below to from up down
    in out on off over under"""
_OTHER_STOP_WORDS = """a an the and but if or because as until while again further then once here there when where why
    how all any both each few more most other some such no nor not only own same so than too very just now
    what which who whom this that these those"""
STOP_WORDS = PERSONAL_PRONOUNS - {"mine", "us"} | word_set(
    " ".join((_AUXILIARIES, _NEGATED, _REMAINS, _PREPOSITIONS, _OTHER_STOP_WORDS))
)

# Words that title case leaves small: articles, coordinators, prepositions of up to four letters (style guides differ).
MINOR_WORDS = COORDINATORS | word_set("""
    a an the as at by down from in into like near of off on onto out over past per than to up upon via with if
    v vs de la le von van
""")

# ---- sentence ends --------------------------------------------------------------------------------------------------

# Before a full stop these end no sentence, in the eyes of the public tokenizer. It was trained on newspapers: months
# and American states are in, "e.g." and "etc." are not. Of the single letters it never met some as initials.
ABBREVIATIONS = word_set("""
    mr mrs ms messrs dr prof sr jr st vs inc corp co cos ltd bros gen col sen rep reps lt adm maj
    jan feb aug sep sept oct nov dec tues wed fri a.m p.m a.d ph.d u.s u.k u.n u.s.a u.s.s.r d.c n.y n.j l.a
    s.a n.v a.g s.p.a ave ft pa ga fla calif conn ill ala ariz colo kan ky mich minn nev okla ore tenn va vt wash wis
    w.va n.c n.d n.h n.m s.c r.i ct ok j.p j.r e.h w.r
    c d e f g h k l m n p r s t v w
""")
# After an abbreviation or an ellipsis these, with a capital, begin a sentence nevertheless.
SENTENCE_STARTERS = word_set("""
    the this these it he they i in if when while but so yet however although though since there here which your her
    some many most finally imagine moreover nevertheless meanwhile indeed still despite instead unless tomorrow
    yesterday soon even such both thus hence therefore furthermore otherwise similarly likewise overall ultimately
    eventually suddenly slowly sometimes always yes okay please thank remember consider note using given following
    being does were someone nothing anything silence sorry thanks wait listen
""")

# ---- names ----------------------------------------------------------------------------------------------------------

PERSON_NAMES = word_set("""
    Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper
    Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla
    Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan
""")

# Capitals of European states north of 45°, from north to south, with other spellings (without accents).
NORTHERN_CAPITALS = _named("""
    Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin,
    Amsterdam, Warsaw, London, Brussels, Kyiv/Kiev, Prague, Luxembourg/Luxembourg City, Paris, Vienna, Bratislava,
    Budapest, Vaduz, Chisinau/Kishinev, Bern/Berne, Ljubljana, Zagreb
""")

# The 54 states of Africa; what may be called otherwise has several names (without accents, small).
AFRICAN_COUNTRIES = _named("""
    algeria, angola, benin, botswana, burkina faso, burundi, cameroon, cabo verde/cape verde, central african
    republic, chad, comoros, congo/republic of the congo/congo republic/congo-brazzaville, democratic republic of
    the congo/congo democratic republic/dr congo/drc/congo-kinshasa, djibouti, egypt, equatorial guinea, eritrea,
    eswatini/swaziland, ethiopia, gabon, gambia/the gambia, ghana, guinea, guinea-bissau, ivory coast/cote d'ivoire,
    kenya, lesotho, liberia, libya, madagascar, malawi, mali, mauritania, mauritius, morocco, mozambique, namibia,
    niger, nigeria, rwanda, sao tome and principe, senegal, seychelles, sierra leone, somalia, south africa, south
    sudan, sudan, tanzania, togo, tunisia, uganda, zambia, zimbabwe
""")

# ---- emoji ----------------------------------------------------------------------------------------------------------

_EMOJI = re.compile(
    "[©®‼⁉™ℹ↔-↙↩↪⌚⌛⌨⏏⏩-⏳⏸-⏺Ⓜ▪▫▶◀◻-◾☀-☄☎☑☔☕☘☝☠☢☣☦☪☮☯☸-☺♀♂♈-♓♟♠♣♥♦♨♻♾♿⚒-⚗⚙⚛⚜⚠⚡⚧⚪⚫⚰⚱⚽⚾⛄⛅⛈⛎⛏⛑⛓⛔⛩⛪"
    "⛰-⛵⛷-⛺⛽✂✅✈-✍✏✒✔✖✝✡✨✳✴❄❇❌❎❓-❕❗❣❤➕-➗➡➰➿⤴⤵⬅-⬇⬛⬜⭐⭕〰〽㊗㊙"
    "🀄🃏🅰🅱🅾🅿🆎🆑-🆚🈁🈂🈚🈯🈲-🈺🉐🉑\U0001f300-\U0001f321\U0001f324-\U0001f53d\U0001f549-\U0001f567\U0001f56f-\U0001f5ff"
    "\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7f0\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff]"
)


def is_emoji(char: str) -> bool:
    """Is this one character an emoji? (Parts of longer emoji, such as skin tones, are; joiners are not.)"""
    return bool(_EMOJI.match(char))


# ---- verbs ----------------------------------------------------------------------------------------------------------

# Verbs that newspapers begin sentences with, so that the public tagger knows them with a capital.
TAGGED_VERBS = word_set("let take make get go see look think consider ask keep find give come do be have try say put")
AUXILIARIES = word_set("""
    am is are was were be been do does did done have has had can could will would shall should may might must let let's
    don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't haven't hasn't hadn't
""")
COMMON_VERBS = word_set("""
    accept access achieve act adapt add address adjust adopt advise aim align allow alter analyse analyze answer
    apply approach argue arrange ask assemble assess assign assist assume attach attempt avoid awaken balance base be
    bear become begin behold believe bind blend boost borrow break breathe bring build calculate call capture carry
    celebrate challenge change check choose cite clarify clean click climb close collect combine come communicate
    compare complete compose compute conceive conclude conduct confirm connect consider construct consult contain
    continue contrast convert cook copy count cover craft create cultivate cut dance decide declare decrease deduce
    define delete deliver demonstrate deny depict derive describe design destroy detail detect determine develop
    devise discover discuss dive divide do download draft draw dream drink drive drop earn eat educate eliminate
    embark embrace emerge employ enable encourage engage enhance enjoy ensure enter envision establish estimate
    evaluate examine execute exercise expand expect experience experiment explain explore express extend extract face
    facilitate fall feel fill filter find finish fix fly focus follow forget form formulate foster gather gaze
    generate get give go grab grasp greet grow guess guide handle harness have hear help hide highlight hold honor
    hope identify ignore illustrate imagine implement improve include incorporate increase indicate infer initialize
    insert install integrate interpret introduce invent invest investigate invite involve isolate iterate join
    journey judge jump justify keep kill know lay lead learn leave lend let leverage lie listen live load look lose
    love maintain make manage mark master match maximize mean measure meet memorize mention merge minimize mix model
    modify monitor move multiply navigate need negotiate note notice observe obtain offer open operate optimize order
    organize outline overcome own paint pass pause pay perform pick picture place plan plant play ponder pour
    practice praise prepare present preserve press prevent print prioritize proceed process produce promote propose
    protect prove provide publish pull pursue push put question raise reach read realize receive recall recognize
    recommend reconsider record reduce refer refine reflect regard reimagine reject relax release rely remain
    remember remind remove render repeat replace reply report represent request require research resolve respect
    respond rest restore return reveal review revise rewrite rise run save say scan schedule search see seek seem
    select sell send separate serve set shape share shift show simplify sing sit sketch sleep solve sort speak
    specify spend stand start state stay step stick stop store strive structure study submit subtract succeed suggest
    summarize support suppose survey take talk teach tell test thank think throw touch track train transcend
    transform translate travel treat trust try turn type uncover understand undertake unfold unify unite unleash
    unlock unravel unveil update upgrade upload use utilize validate venture verify view visit visualize wait wake
    walk want warn wash watch wear welcome win wish witness wonder work worry write yearn yield
""")
# Words in -ing and -ed that are no verb forms.
_NO_VERBS = word_set("""
    during king ring string thing spring nothing something anything everything morning evening wedding ceiling being
    red bed indeed need seed speed hundred sacred naked feed breed shed wing bring sterling darling sibling offspring
""")
_FORM = re.compile(r"[a-z]{2,}(?:ing|ed|ify|ize|ise)\Z")


def could_be_verb(word: str) -> bool:
    """Can the word be a verb form that a sentence begins with: a base form, an auxiliary, a form in -ing or -ed?

    By lists and endings: rare base forms ("abet") are missed; a noun that is also a verb ("Design is …") passes.
    """
    small = word.lower().replace("’", "'")
    if small in AUXILIARIES or small in COMMON_VERBS:
        return True
    return small not in _NO_VERBS and bool(_FORM.match(small))


# ---- syllables ------------------------------------------------------------------------------------------------------

_GROUP = re.compile("[aeiouy]+")
# A final e is silent, also before s or d ("makes", "lived"), but not where it is heard ("table", "boxes", "ended").
_SILENT_END = re.compile("(?:[^aeiouyl]|[aeiouy]l|[rl]l|[gq]u|[aeo][iu])e\\Z")
_SILENT_ES = re.compile("(?:[^aeiouyszxclgh]|[aeiouy]l|[pt]h)es\\Z")
_SILENT_ED = re.compile("[^aeiouytd]ed\\Z")
_INNER_E = re.compile("[^aeiouyl]e(?:ly|ty|less|ments?|ful|fully|ness|some|lessly|work)\\Z")
# Vowels that stand together but are spoken apart.
_APART = re.compile(
    "(?<![cstgxln])i[ao]|[ln]i(?:a|ou)|(?<![cstgxq])iu|(?<![qg])ua[lt]|(?<!q)u[oi]us|eo(?!u|ple|n)|reat(?:e|i)|"
    "(?<!q)uity|[aeoy]y[aei]|yi|ie(?:ty|r\\Z|rs\\Z|st\\Z)|(?<!q)uel|(?<!g)ei(?:ng|ty)|dea\\Z|deal|oe[tm]|aic|[ou]ing\\Z|"
    "isms?\\Z|thms?\\Z|eali[tsz]"
)
_KNOWN_SYLLABLES = {
    word: count
    for count, words in {
        1: """
            world the real hour our fire hours whole one once eye eyes are were where there we're they're you're
            lives themes times league plague vague sure clothes
        """,
        2: """
            business every evening people science being seeing doing going create quiet poem poet lion diet
            fluid ruin client giant trial dual social special ocean nature ancient patient region million
            billion union onion power flower tower choir something sometimes someone somewhere therefore before
            themselves colleague unique technique antique naive cafe maybe moment movement statement basement
            cement wednesday rhythm rhythms prism choices voices spaces places faces pages ages changes uses
            houses phases
        """,
        3: """
            everything everyone different area idea ideas created theory video museum religion opinion companion
            audience obvious various serious previous period radio media studio medium chocolate favorite family
            camera memory history several separate dialogue recipe forever whatever however element elements
            tourism sciences images diseases
        """,
        4: """
            society variety anxiety scientific experience material vegetable comfortable interesting apostrophe
            catastrophe hyperbole realism databases
        """,
    }.items()
    for word in word_set(words)
}


@lru_cache(maxsize=8192)
def syllables(word: str) -> int:
    """The syllables of an English word, by its spelling; 0 if it holds a digit or no letter at all.

    Right for about nine common words in ten; wrong mostly by one, where vowels meet ("naive") or an e is silent inside.
    """
    small = word.lower().strip("'’\"-")
    if not small or any(char.isdigit() for char in small):
        return 0
    if small in _KNOWN_SYLLABLES:
        return _KNOWN_SYLLABLES[small]
    if "-" in small:
        return sum(syllables(part) for part in small.split("-"))
    count = len(_GROUP.findall(small)) + len(_APART.findall(small))
    silent = (_SILENT_END, _SILENT_ES, _SILENT_ED, _INNER_E)
    count -= any(pattern.search(small) for pattern in silent)
    return max(1, count)
