"""What sentences deny, language by language; and adverbs, which deny nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.negation import find_denials
from rubrank.verifiers.verifier import find_verifier

# (a sentence that states something, the same with a denial, with adverbs that change nothing)
SENTENCES = {
    "en": (
        "Profits rose in May.",
        "Profits did not rise in May.",
        [
            "Profits certainly rose in May.",
            "Profits rose, no doubt, in May.",
            "It is a no-brainer: profits rose in May.",
            "Without question profits rose in May.",
        ],
    ),
    "zh": (
        "公司批准了合并。",
        "公司没有批准合并。",
        ["公司不久批准了合并。", "公司毫无疑问批准了合并。", "公司非常快地批准了合并。", "公司无疑批准了合并。"],
    ),
    "ja": (
        "彼は明日東京に行きます。",
        "彼は明日東京に行きません。",
        ["彼は必ず明日東京に行きます。", "彼はまず明日東京に行きます。", "彼は間違いなく明日東京に行きます。"],
    ),
    "ko": (
        "공장은 5월에 문을 닫았다.",
        "공장은 5월에 문을 닫지 않았다.",
        ["공장은 틀림없이 5월에 문을 닫았다.", "공장은 어김없이 5월에 문을 닫았다."],
    ),
    "fr": (
        "L'usine est fermée depuis le mois de mai.",
        "L'usine n'est pas fermée depuis le mois de mai.",
        ["L'usine est sans doute fermée depuis le mois de mai."],
    ),
    "es": (
        "La fábrica cerró sus puertas en mayo.",
        "La fábrica no cerró sus puertas en mayo.",
        ["La fábrica sin duda cerró sus puertas en mayo."],
    ),
    "de": (
        "Die Fabrik wurde im Mai geschlossen.",
        "Die Fabrik wurde im Mai nicht geschlossen.",
        ["Die Fabrik wurde ohne Zweifel im Mai geschlossen."],
    ),
    "ru": (
        "Завод закрыли в мае этого года.",
        "Завод не закрыли в мае этого года.",
        ["Завод без сомнения закрыли в мае этого года."],
    ),
    "it": (
        "La fabbrica ha chiuso nel mese di maggio.",
        "La fabbrica non ha chiuso nel mese di maggio.",
        ["La fabbrica ha senza dubbio chiuso nel mese di maggio."],
    ),
    "pt": (
        "A fábrica fechou as portas em maio.",
        "A fábrica não fechou as portas em maio.",
        ["A fábrica sem dúvida fechou as portas em maio."],
    ),
    "nl": (
        "De fabriek werd in mei gesloten.",
        "De fabriek werd in mei niet gesloten.",
        ["De fabriek werd zonder twijfel in mei gesloten."],
    ),
    "id": (
        "Pabrik itu tutup pada bulan Mei.",
        "Pabrik itu tidak tutup pada bulan Mei.",
        ["Pabrik itu tanpa ragu tutup pada bulan Mei."],
    ),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_denials_are_found_and_adverbs_are_none(language):
    statement, denial, with_adverbs = SENTENCES[language]
    assert find_denials(denial, language)
    assert not find_denials(statement, language)
    for sentence in with_adverbs:
        assert not find_denials(sentence, language), sentence


@pytest.mark.parametrize("language", SENTENCES)
def test_an_adverb_takes_no_recall_away(language):
    statement, denial, with_adverbs = SENTENCES[language]
    verifier = find_verifier("SummaryRecall")
    params = verifier.check_parameters({"points": [statement], "threshold": 0.6})

    def recall(text):
        return verifier.verify(Rollout(response=text), params).value

    assert recall(statement) == 1
    assert recall(denial) == 0
    for sentence in with_adverbs:
        assert recall(sentence) == 1, sentence


def test_a_sentence_whose_language_has_no_words_of_denial_denies_nothing():
    assert find_denials("Gamyklą jie uždarė gegužės mėnesį.", "lt") == []


# A statement with a place for an adverb, a name in it, and expressions that deny nothing of it.
ADVERBS = {
    "uk": ("Компанія Вольво {} схвалила злиття у травні цього року.", "Вольво", "без сумніву, безперечно"),
    "en": (
        "Profits {} rose sharply in May at Volvo.",
        "Volvo",
        "certainly, undoubtedly, indeed, hardly surprisingly, no doubt, without fail, not unexpectedly, "
        "nonetheless, nevertheless, notably, always, never once falling, inevitably, unmistakably, "
        "noticeably, without exception, without delay, not long ago, no later than planned, in no time, "
        "no less, not coincidentally, unsurprisingly, without hesitation, without warning, "
        "not infrequently, not insignificantly, by no coincidence",
    ),
    "zh": (
        "公司在五月{}批准了与沃尔沃的合并。",
        "沃尔沃",
        "必定, 一定, 毫无疑问地, 不约而同地, 无可争议地, 毫不犹豫地, 不可否认地, 不断, 无条件地, "
        "不得不, 未经讨论便, 毫无保留地, 不容争辩地, 果然, 不出所料地, 不知不觉地, 不慌不忙地, "
        "无一例外地, 无可厚非地, 不由自主地, 无意中, 无奈地, 不幸地, 不假思索地, 迫不及待地, "
        "理所当然地, 史无前例地, 前所未有地, 未免太快地, 想必, 绝对, 确实, 终于, 悄无声息地, "
        "不言而喻地, 毋庸置疑地, 无形中, 无偿",
    ),
    "ja": (
        "ボルボは五月に{}合併を承認した。",
        "ボルボ",
        "必ず, まず, 間違いなく, 疑いなく, 確かに, きっと, 問題なく, すかさず, 思わず, 残らず, 絶えず, "
        "迷わず, やむなく, 例外なく, おのずから, つまらず, あいにく, 滞りなく, 惜しみなく, ためらわず, "
        "遅かれ早かれ, なんとなく, ほどなく, 予想に違わず, いやおうなく, 間もなく, 相変わらず, "
        "少なからず, 取りあえず, まぎれもなく, 抜け目なく, 言うまでもなく, 図らずも, 意図せず, "
        "もれなく, 突然, 案の定",
    ),
    "ko": (
        "볼보는 5월에 {} 합병을 승인했다.",
        "볼보",
        "반드시, 틀림없이, 분명히, 확실히, 물론, 의심할 여지없이, 의심의 여지 없이, 예외 없이, "
        "끊임없이, 어김없이, 주저 없이, 망설임 없이, 지체 없이, 거침없이, 뜻밖에, 여지없이, "
        "어쩔 수 없이, 수없이, 더없이, 아낌없이, 아니나 다를까, 다름 아닌, 안전하게, 안정적으로, "
        "머지않아, 못지않게, 적지 않게",
    ),
    "fr": (
        "Les bénéfices de Volvo ont {} augmenté au mois de mai.",
        "Volvo",
        "certainement, sans doute, assurément, indéniablement, sans surprise, sans aucun doute, "
        "incontestablement, sans exception, sans hésiter, sans tarder, pas moins, sans conteste, "
        "sans nul doute, à jamais, bel et bien, néanmoins, jamais autant, sans relâche, sans équivoque, "
        "plus que jamais, pas à pas, à n'en pas douter, sans grande surprise",
    ),
    "es": (
        "Los beneficios de Volvo {} subieron en el mes de mayo.",
        "Volvo",
        "ciertamente, sin duda, indudablemente, sin lugar a dudas, no obstante, sin embargo, "
        "desde luego, sin excepción, sin dudarlo, sin demora, sin sorpresa, como nunca, más que nunca, "
        "sin ninguna duda, sin parar, por supuesto, nada menos, innegablemente, sin previo aviso, "
        "sin querer",
    ),
    "de": (
        "Volvo hat die Fusion im Mai {} genehmigt.",
        "Volvo",
        "gewiss, zweifellos, ohne Zweifel, ohne Frage, ohnehin, unbestritten, nichtsdestoweniger, "
        "sicherlich, ohne Zögern, ohne Ausnahme, ohne Weiteres, nicht überraschend, nicht zuletzt, "
        "wie noch nie, unzweifelhaft, keineswegs überraschend, ohne jeden Zweifel, nicht ohne Grund, "
        "ohne Verzug, ohne Umschweife, einstimmig, unweigerlich",
    ),
    "ru": (
        "Компания Вольво {} одобрила слияние в мае этого года.",
        "Вольво",
        "несомненно, непременно, безусловно, без сомнения, неожиданно, без колебаний, тем не менее, "
        "вне всякого сомнения, не раз, без промедления, не случайно, без исключения, не зря, "
        "невзирая на критику, незамедлительно, конечно, недавно, не задумываясь, как никогда быстро, "
        "без всякого сомнения, не спеша, ни разу не колеблясь, не без труда, неизбежно",
    ),
    "it": (
        "La Volvo ha {} approvato la fusione nel mese di maggio.",
        "Volvo",
        "certamente, senza dubbio, sicuramente, senz'altro, indubbiamente, senza alcun dubbio, "
        "senza esitazione, ormai, nondimeno, come non mai, non a caso, senza eccezione, più che mai, "
        "senza ombra di dubbio, senza indugio, finalmente, non senza fatica, senza esitare",
    ),
    "pt": (
        "A Volvo {} aprovou a fusão no mês de maio.",
        "Volvo",
        "certamente, sem dúvida, indubitavelmente, sem hesitar, no entanto, sem sombra de dúvida, "
        "não obstante, sem demora, mais do que nunca, como nunca, sem exceção, não por acaso, "
        "obviamente, sem qualquer dúvida, sem surpresa, sem falta",
    ),
    "nl": (
        "Volvo heeft de fusie in mei {} goedgekeurd.",
        "Volvo",
        "zeker, ongetwijfeld, zonder twijfel, zonder meer, zonder aarzeling, niettemin, "
        "zonder uitzondering, niet verrassend, zonder enige twijfel, niet voor niets, zonder aarzelen, "
        "niet toevallig, onmiskenbaar, als nooit tevoren",
    ),
    "pl": (
        "Firma Volvo {} zatwierdziła fuzję w maju tego roku.",
        "Volvo",
        "niewątpliwie, bez wątpienia, na pewno, niemniej jednak, bez wahania, niespodziewanie, "
        "bez wyjątku, niezwłocznie, nie bez powodu, jak nigdy, bez zwłoki, oczywiście, bez dwóch zdań, "
        "nieuchronnie",
    ),
    "cs": (
        "Firma Volvo v květnu {} schválila fúzi obou podniků.",
        "Volvo",
        "nepochybně, bez pochyby, bezpochyby, určitě, nicméně, bez váhání, bez výjimky, jistě, "
        "neprodleně, bez prodlení, jako nikdy předtím, bez debat, nečekaně",
    ),
    "sv": (
        "Volvo godkände {} fusionen i maj i år.",
        "Volvo",
        "säkert, utan tvekan, otvivelaktigt, utan tvivel, inte oväntat, utan undantag, utan dröjsmål, "
        "självklart, inte minst, som aldrig förr",
    ),
    "id": (
        "Perusahaan Volvo {} menyetujui merger pada bulan Mei.",
        "Volvo",
        "pasti, tentu saja, tanpa ragu, tidak diragukan lagi, tanpa kecuali, tanpa ragu-ragu, "
        "tak pelak, tanpa diragukan, tidak mengherankan, sebelum jadwal, tanpa penundaan",
    ),
    "vi": (
        "Công ty Volvo {} phê duyệt việc sáp nhập vào tháng năm.",
        "Volvo",
        "chắc chắn, không nghi ngờ gì, không ngừng, không ngần ngại, không do dự, không chút do dự, "
        "tất nhiên, không những thế",
    ),
    "ar": (
        "شركة فولفو {} وافقت على الاندماج في شهر مايو.",
        "فولفو",
        "بالتأكيد, بلا شك, دون شك, لا محالة, من دون أدنى شك, بدون شك, لا ريب, دون تردد, بدون استثناء, "
        "حتما, بلا ريب, لا سيما, بلا تردد",
    ),
    "tr": (
        "Volvo şirketi {} mayıs ayında birleşmeyi onayladı.",
        "Volvo",
        "kesinlikle, şüphesiz, hiç şüphesiz, kuşkusuz, hiç şüphe yok ki, elbette, mutlaka, istisnasız",
    ),
    "hi": (
        "वोल्वो ने {} मई में विलय को मंजूरी दी।",
        "वोल्वो",
        "निश्चित रूप से, बेशक, निस्संदेह, बिना किसी शक के, अवश्य, ज़रूर, कोई शक नहीं",
    ),
}

HERE = Path(__file__).parent


def read_rows(name):
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


# language → expressions with a word of denial that deny nothing of the statement
IDIOMS = dict(read_rows("idioms.tsv"))


@pytest.mark.parametrize("language", ADVERBS)
def test_inserting_an_adverb_never_turns_1_into_0(language):
    pattern, name, adverbs = ADVERBS[language]
    adverbs = ", ".join(filter(None, [adverbs, IDIOMS.get(language, "")]))
    plain = pattern.replace("{}", "") if language in ("zh", "ja") else pattern.replace("{} ", "")
    recall = find_verifier("SummaryRecall")
    points = recall.check_parameters({"points": [plain], "threshold": 0.6})
    contains = find_verifier("ContainsAny")
    references = contains.check_parameters({"references": [name]})
    lost = []
    for adverb in ["", *adverbs.split(", ")]:
        response = Rollout(response=pattern.replace("{}", adverb) if adverb else plain)
        is_recalled = recall.verify(response, points).value == 1
        # Korean writes particles and names together: the name alone is no token.
        is_contained = language == "ko" or contains.verify(response, references).value == 1
        if not (is_recalled and is_contained):
            lost.append(adverb)
    assert lost == []


# "Without" denies what stands beside it, and that alone.
WITHOUT = [
    ("en", "The board voted with the consent of the owners.", "The board voted without consent."),
    ("de", "Der Vorstand entschied mit Zustimmung der Eigner.", "Der Vorstand entschied ohne Zustimmung."),
    ("fr", "Le conseil a voté avec l'accord des propriétaires.", "Le conseil a voté sans accord des propriétaires."),
    ("es", "La junta votó con permiso de los dueños.", "La junta votó sin permiso de los dueños."),
    ("zh", "公司经批准合并了。", "公司未经批准合并了。"),
    ("ja", "取締役会は合併を承認した。", "取締役会は合併を承認せず解散した。"),
    ("ko", "이사회는 동의 아래 합병을 결정했다.", "이사회는 동의 없이 합병을 결정했다."),
]


@pytest.mark.parametrize(("language", "statement", "denial"), WITHOUT)
def test_what_without_denies_is_not_recalled(language, statement, denial):
    verifier = find_verifier("SummaryRecall")
    params = verifier.check_parameters({"points": [statement], "threshold": 0.5})
    assert verifier.verify(Rollout(response=statement), params).value == 1
    assert verifier.verify(Rollout(response=denial), params).value == 0


def test_a_denial_beside_an_expression_that_denies_nothing_is_found():
    verifier = find_verifier("ContainsAny")
    params = verifier.check_parameters({"references": ["Paris"]})
    for text in ("It is without doubt not Paris.", "No doubt it was never in Paris.", "They met without Paris."):
        assert verifier.verify(Rollout(response=text), params).value == 0, text


@pytest.mark.parametrize(
    "text",
    [
        "Paris London Berlin Madrid Rome Vienna Prague Lisbon Oslo Dublin",
        "Paryż Londyn Berlin Madryt Rzym Wiedeń Praga Lizbona Oslo Dublin",
        "paris london berlin madrid rome vienna prague lisbon oslo dublin",
    ],
)
def test_names_in_a_row_are_still_a_list(text):
    verifier = find_verifier("ContainsAny")
    params = verifier.check_parameters({"references": ["Berlin"]})
    assert verifier.verify(Rollout(response=text), params).value == 0


# Denials of the verb, and of what the statement says, stay denials.
@pytest.mark.parametrize(
    ("language", "sentence", "denied"),
    [
        ("en", "Profits did not quickly rise in May.", "rise"),
        ("en", "The factory was not in Paris.", "Paris"),
        ("es", "La fábrica no abrió en mayo.", "abrió"),
        ("de", "Der Vertrag wurde nicht unterzeichnet.", "unterzeichnet"),
        ("de", "Er hat nicht in Paris gewohnt.", "Paris"),
        ("fr", "Elle n'est pas à Paris.", "Paris"),
        ("ru", "Он не знал об этом.", "знал"),
        ("it", "Non ha chiuso a maggio.", "chiuso"),
        ("pt", "A fábrica não fechou em maio.", "fechou"),
        ("pl", "Nie zatwierdził fuzji.", "zatwierdził"),
        ("id", "Pabrik itu tidak tutup.", "tutup"),
        ("vi", "Công ty không phê duyệt.", "phê duyệt"),
    ],
)
def test_denials_beside_narrow_ones(language, sentence, denied):
    assert any(denied in denial.denied for denial in find_denials(sentence, language))


def verify(name, text, **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=text), verifier.check_parameters(params))


def test_plain_denials_are_not_recalled():
    missed = []
    for _, statement, denial in read_rows("plain_denials.tsv"):
        assert verify("SummaryRecall", statement, points=[statement], threshold=0.6).value == 1, statement
        if verify("SummaryRecall", denial, points=[statement], threshold=0.6).value != 0:
            missed.append(denial)
    # 열지 for 연다: two forms of a Korean verb that have no syllable in common. The verdict is missing, not 1.
    assert missed == ["박물관은 월요일에 열지 않는다."]
    [statement] = [row[1] for row in read_rows("plain_denials.tsv") if row[2] == missed[0]]
    assert verify("SummaryRecall", missed[0], points=[statement], threshold=0.6).value is None


@pytest.mark.parametrize("name", ["insertions.tsv", "later_insertions.tsv"])
def test_no_inserted_expression_turns_1_into_0(name):
    """An unknown expression with a word of denial, at five places of a statement: 1 or missing, never 0."""
    turned = []
    for language, pattern, reference, expressions in read_rows(name):
        is_unspaced = language in ("zh", "ja")
        statement = pattern.replace("{}" if is_unspaced else "{} ", "")
        assert verify("SummaryRecall", statement, points=[statement], threshold=0.6).value == 1
        words = statement.rstrip(".।").split()
        for expression in expressions.split(", "):
            texts = [pattern.replace("{}", expression)]
            for place in () if is_unspaced else (0, 1, len(words) - 2, len(words)):
                texts.append(" ".join([*words[:place], expression, *words[place:]]) + ".")
            for text in texts:
                is_lost = verify("SummaryRecall", text, points=[statement], threshold=0.6).value == 0
                # Korean writes particles and names together: the name alone is no token.
                is_name_lost = language != "ko" and verify("ContainsAny", text, references=[reference]).value == 0
                if is_lost or is_name_lost:
                    turned.append(text)
    assert turned == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Paris is not the capital.", 0),
        ("The treaty was not signed in Paris.", 0),
        ("They didn't meet in Paris.", 0),
        ("It is not Paris.", 0),
        ("Paris is not infrequently named.", 1),
        ("Paris is not a moment too soon named.", None),
        ("They did not hesitate to name Paris.", None),
        ("Not a few named Paris. It is Paris.", 1),
        ("It is a no-brainer: Paris.", 1),
        ("Not only Lyon, Paris too.", 1),
    ],
)
def test_a_name_beside_a_denial(text, value):
    verdict = verify("ContainsAny", text, references=["Paris"])
    assert verdict.value == value
    if value is None:
        assert "is it denied or not?" in verdict.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The board did not approve the merger.", 0),
        ("It is not the case that the board approved the merger.", 0),
        ("The board did not hesitate to approve the merger.", None),
        ("The board never failed to approve the merger.", None),
        ("Not infrequently the board approved the merger.", 1),
        ("Without delay the board approved the merger.", 1),
        ("The board wrongly approved the merger.", 1),
        ("The board could not help but approve the merger. Later, as reported, the board approved the merger.", 1),
    ],
)
def test_a_point_beside_a_denial(text, value):
    verdict = verify("SummaryRecall", text, points=["The board approved the merger."], threshold=0.9)
    assert verdict.value == value


def test_a_denied_that_clause():
    point = ["Die Fabrik wurde im Mai geschlossen."]
    denied = "Es stimmt nicht, dass die Fabrik im Mai geschlossen wurde."
    unknown = "Er wusste nicht, dass die Fabrik im Mai geschlossen wurde."
    assert verify("SummaryRecall", denied, points=point).value == 0
    assert verify("SummaryRecall", unknown, points=point).value is None
