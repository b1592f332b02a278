"""Names by which languages are asked for, in a dozen languages; each row opens with the code."""

from __future__ import annotations

_NAMES = """
en english 英语 英文 英語 anglais inglés ingles englisch englische englischer englischen inglese inglês
en английский английском английски 영어 영문
zh chinese mandarin 中文 汉语 漢語 华语 普通话 国语 中国語 중국어 chinois chino chinesisch chinesische cinese
zh chinês китайский китайском
zh-hans 简体 简体中文 simplified-chinese zh-cn 簡体字
zh-hant 繁体 繁體 繁体中文 繁體中文 traditional-chinese zh-tw zh-hk 繁体字
ja japanese 日语 日文 日語 日本語 일본어 japonais japonés japonesa japanisch japanische giapponese japonês
ja японский японском
ko korean 韩语 韩文 韓語 韓文 朝鲜语 韓国語 한국어 한글 coréen coreano koreanisch koreanische корейский
ko корейском
fr french 法语 法文 法語 フランス語 프랑스어 불어 français francés frances französisch französische
fr französischer francese francês французский французском
es spanish castilian 西班牙语 西班牙語 西班牙文 西语 スペイン語 스페인어 español castellano espagnol spanisch
es spanische spagnolo espanhol испанский испанском
de german 德语 德文 德語 ドイツ語 독일어 deutsch deutsche deutscher deutschen allemand alemán aleman tedesco
de alemão немецкий немецком
ru russian 俄语 俄文 俄語 ロシア語 러시아어 русский русском русски russe ruso russisch russo
ar arabic 阿拉伯语 阿拉伯文 阿拉伯語 アラビア語 아랍어 العربية arabe árabe arabisch arabo
pt portuguese 葡萄牙语 葡萄牙文 葡语 葡萄牙語 ポルトガル語 포르투갈어 português portugues portugais portugués
pt portugiesisch portoghese португальском
it italian 意大利语 意大利文 意大利語 義大利文 イタリア語 이탈리아어 italiano italien italienisch italienische
it итальянский итальянском
vi vietnamese 越南语 越南文 越南語 ベトナム語 베트남어 vietnamien vietnamita vietnamesisch
th thai 泰语 泰文 泰語 タイ語 태국어 thaï thaïlandais tailandés thailändisch
id indonesian 印尼语 印度尼西亚语 印尼文 インドネシア語 인도네시아어 indonésien indonesio indonesisch bahasa
ms malay 马来语 马来文 マレー語 말레이어 malais malayo
tr turkish 土耳其语 土耳其文 トルコ語 터키어 turc turco türkisch türkçe
nl dutch 荷兰语 荷兰文 オランダ語 네덜란드어 néerlandais holandés neerlandés niederländisch nederlands olandese
pl polish 波兰语 ポーランド語 폴란드어 polonais polaco polnisch polacco polski
sv swedish 瑞典语 スウェーデン語 스웨덴어 suédois sueco schwedisch svenska
da danish 丹麦语 デンマーク語 덴마크어 danois danés dänisch dansk
no norwegian 挪威语 ノルウェー語 노르웨이어 norvégien noruego norwegisch norsk
fi finnish 芬兰语 フィンランド語 핀란드어 finnois finés finlandés finnisch suomi suomeksi
cs czech 捷克语 チェコ語 체코어 tchèque checo tschechisch čeština česky
el greek 希腊语 ギリシャ語 그리스어 grec griego griechisch ελληνικά
he hebrew 希伯来语 ヘブライ語 히브리어 hébreu hebreo hebräisch עברית
hi hindi 印地语 印地文 ヒンディー語 힌디어 हिन्दी हिंदी
uk ukrainian 乌克兰语 ウクライナ語 우크라이나어 ukrainien ucraniano ukrainisch українською
ro romanian 罗马尼亚语 ルーマニア語 roumain rumano rumänisch română
hu hungarian 匈牙利语 ハンガリー語 hongrois húngaro ungarisch magyar magyarul
bn bengali bangla 孟加拉语 ベンガル語 벵골어 বাংলা
fa persian farsi 波斯语 ペルシャ語 ペルシア語 페르시아어 persan persa فارسی
ur urdu 乌尔都语 ウルドゥー語 우르두어 ourdou اردو
ta tamil 泰米尔语 タミル語 타밀어 tamoul தமிழ்
te telugu 泰卢固语 テルグ語 텔루구어 télougou తెలుగు
mr marathi 马拉地语 マラーティー語 मराठी
ne nepali 尼泊尔语 ネパール語 népalais नेपाली
sw swahili kiswahili 斯瓦希里语 スワヒリ語 스와힐리어
pa punjabi 旁遮普语 パンジャブ語 pendjabi ਪੰਜਾਬੀ
gu gujarati 古吉拉特语 グジャラート語 ગુજરાતી
kn kannada 卡纳达语 カンナダ語 ಕನ್ನಡ
ml malayalam 马拉雅拉姆语 マラヤーラム語 മലയാളം
bg bulgarian 保加利亚语 ブルガリア語 불가리아어 bulgare búlgaro bulgarisch
hr croatian 克罗地亚语 クロアチア語 croate croata kroatisch hrvatski
sr serbian 塞尔维亚语 セルビア語 serbe serbio serbisch
sk slovak 斯洛伐克语 スロバキア語 slovaque eslovaco slowakisch
ca catalan 加泰罗尼亚语 カタルーニャ語 catalán català katalanisch
la latin 拉丁语 拉丁文 ラテン語 라틴어 latín latein
eo esperanto 世界语
ga irish 爱尔兰语
cy welsh 威尔士语
tl tagalog filipino 他加禄语 菲律宾语 タガログ語 フィリピン語
af afrikaans 南非荷兰语
km khmer 高棉语 クメール語
my burmese 缅甸语 ミャンマー語 ビルマ語
lo lao 老挝语 ラオス語
si sinhala 僧伽罗语
am amharic 阿姆哈拉语
"""
LANGUAGE_NAMES: dict[str, str] = {}
"""The code of every name."""
for _row in _NAMES.split("\n"):
    for _name in _row.split():
        LANGUAGE_NAMES[_name] = _row.split()[0]
